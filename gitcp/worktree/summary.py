"""Summarize the notes of all directories as a Snapshot, in path order.

The state file stores notes by directory, so that a change only affects those of its directories.
What depends on several directories (empty ones, topmost untracked ones) is computed from the lines.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

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

if TYPE_CHECKING:
    from gitcp.worktree.records import Line

Notes = Mapping[bytes, Mapping[str, list[Any]]]


class Totals(NamedTuple):
    """Facts about the whole tree: the number of captured paths, the empty directories, and the
    untracked ones whose parent is tracked.
    """

    total: int
    empty: list[bytes]
    untracked: list[bytes]


def totals_of(lines: Mapping[bytes, Line], notes: Notes) -> Totals:
    """Return the totals of all directories."""
    total = sum(line.captured for line in lines.values())
    return Totals(total, _empty(lines, notes), _untracked(lines))


def _empty(lines: Mapping[bytes, Line], notes: Notes) -> list[bytes]:
    """Return the directories on disk that contain nothing, or only such directories; the deepest of
    each branch.
    """
    empty = {
        path
        for path, line in lines.items()
        if path and not line.tree and not line.ignored and line.stamp != GONE
    }
    for path, note in notes.items():
        if "skipped" in note or "nested" in note:
            empty.difference_update(_upwards(path))
    return sorted(empty - {_parent(path) for path in empty})


def _untracked(lines: Mapping[bytes, Line]) -> list[bytes]:
    """Return the topmost directories with captured paths but no index entries."""
    return [
        path
        for path, line in lines.items()
        if path and line.tree and not line.tracked and _is_tracked(lines, _parent(path))
    ]


def _is_tracked(lines: Mapping[bytes, Line], path: bytes) -> bool:
    return not path or lines[path].tracked


def snapshot_of(tree: Oid, base: Base, notes: Notes, totals: Totals) -> Snapshot:
    """Return the Snapshot that the notes and totals describe."""

    def each(field: str) -> Iterator[tuple[bytes, Any]]:
        for directory, note in notes.items():
            for value in note.get(field, ()):
                name = value if isinstance(value, bytes) else value[0]
                yield (directory + b"/" + name if directory else name), value

    def values(field: str) -> Iterable[tuple[bytes, Any]]:
        return sorted(each(field), key=lambda pair: pair[0])

    untracked = [path for path, _ in each("untracked")] + [path + b"/" for path in totals.untracked]
    return Snapshot(
        tree=tree,
        base=base,
        total=totals.total,
        skipped=tuple(
            Skip(path, SkipReason(why), detail) for path, (_, why, detail) in values("skipped")
        ),
        raw=tuple(path for path, _ in values("raw")),
        converted=tuple(Conversion(path, *how) for path, (_, *how) in values("converted")),
        empty_directories=tuple(totals.empty),
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


def _parent(path: bytes) -> bytes:
    return path.rpartition(b"/")[0]


def _upwards(path: bytes) -> Iterator[bytes]:
    while path:
        yield path
        path = _parent(path)
