"""From what each directory says to what a Snapshot says: the lists beside the tree, in path order.

The directories' notes are kept apart in the state file, so that after a change only those of the
directories concerned are made again. What can only be told of the whole (which directories are
empty, which are untracked from the top) is folded out of the lines.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from gitcp.fastpath.stat_check import GONE
from gitcp.git.index import entry_of
from gitcp.model import (
    Base,
    Conversion,
    NestedRepository,
    Oid,
    Skip,
    SkipReason,
    Snapshot,
    Submodule,
)
from gitcp.worktree.records import PlainLine

Notes = Mapping[bytes, Mapping[str, list[Any]]]


def fold(lines: Mapping[bytes, PlainLine], notes: Notes) -> dict[str, Any]:
    """What all directories say together: the number of captured paths, the empty directories, the
    untracked ones.
    """
    total, vacant, untracked = 0, set(), []
    for path, (stamp, _, _, (_, tree, count, (ignored, _, _, tracked), _)) in lines.items():
        total += count
        if not path:
            continue
        if not tree:
            if stamp != GONE and not ignored:
                vacant.add(path)
        elif not tracked:
            parent = path.rpartition(b"/")[0]
            if not parent or lines[parent][3][3][3]:
                untracked.append(path)
    for path, said in notes.items():
        if "skipped" in said or "nested" in said:
            vacant.difference_update(_upwards(path))
    above = {path.rpartition(b"/")[0] for path in vacant}
    return {"total": total, "empty": sorted(vacant - above), "untracked": untracked}


def snapshot_of(tree: Oid, base: Base, notes: Notes, folded: Mapping[str, Any]) -> Snapshot:
    """The Snapshot that the notes add up to."""

    def each(field: str) -> Iterator[tuple[bytes, Any]]:
        for directory, said in notes.items():
            for value in said.get(field, ()):
                name = value if isinstance(value, bytes) else value[0]
                yield (directory + b"/" + name if directory else name), value

    def values(field: str) -> Iterable[tuple[bytes, Any]]:
        return sorted(each(field), key=lambda pair: pair[0])

    untracked = [path for path, _ in each("untracked")] + [
        path + b"/" for path in folded["untracked"]
    ]
    return Snapshot(
        tree=tree,
        base=base,
        total=folded["total"],
        skipped=tuple(
            Skip(path, SkipReason(why), detail) for path, (_, why, detail) in values("skipped")
        ),
        raw=tuple(path for path, _ in values("raw")),
        converted=tuple(Conversion(path, *how) for path, (_, *how) in values("converted")),
        empty_directories=tuple(folded["empty"]),
        modes={path: bits for path, (_, bits) in values("modes")},
        submodules=tuple(
            Submodule(path, Oid(commit.hex())) for path, (_, commit, _) in values("submodules")
        ),
        nested=tuple(NestedRepository(path, head) for path, (_, head) in values("nested")),
        absent=tuple(path for path, _ in values("absent")),
        staged=tuple(entry_of(path, slot) for path, (_, *slot) in values("staged")),
        untracked=tuple(sorted(untracked)),
        conflicts=tuple(entry_of(path, slot) for path, (_, *slot) in values("conflicts")),
    )


def _upwards(path: bytes) -> Iterator[bytes]:
    while path:
        yield path
        path = path.rpartition(b"/")[0]
