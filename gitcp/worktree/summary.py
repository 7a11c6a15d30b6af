"""Summarize a remembered scan as a Snapshot, in path order: only directories with notes, and those
above them, are read.
"""

from __future__ import annotations

import marshal
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from gitcp.fastpath.nodes import below
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
from gitcp.worktree.records import (
    ABSENT,
    ABSENT_BELOW,
    EMPTY,
    EMPTY_BELOW,
    NOTED,
    TRACKED,
    UNTRACKED_BELOW,
    Line,
)

if TYPE_CHECKING:
    from gitcp.worktree.state import Memory


def notes_of(memory: Memory, flag: int = NOTED) -> Iterator[tuple[bytes, dict[str, list[Any]]]]:
    """Yield the notes of the directories with this flag. Raises Damaged."""
    for path, line in memory.flagged(flag):
        if line.notes:
            yield path, marshal.loads(line.notes)  # noqa: S302  (our own, and whole)


def _empty(memory: Memory) -> list[bytes]:
    """Return the directories on disk that contain nothing, or only such directories; the deepest of
    each branch.
    """
    empty = []
    for path, line in memory.flagged(EMPTY_BELOW):
        empty += [below(path, name) for name, ref in line.children.items() if ref.flags & EMPTY]
    return sorted(set(empty) - {path.rpartition(b"/")[0] for path in empty})


def _absent(memory: Memory) -> list[bytes]:
    """Return the topmost directories that sparse checkout keeps from the disk as a whole."""
    return [
        below(path, name)
        for path, line in memory.flagged(ABSENT_BELOW)
        for name, ref in line.children.items()
        if ref.flags & ABSENT
    ]


def _untracked(memory: Memory) -> list[bytes]:
    """Return the topmost directories with captured paths but no index entries."""
    return [
        below(path, name)
        for path, line in memory.flagged(UNTRACKED_BELOW)
        for name in _untracked_in(path, line)
    ]


def _untracked_in(path: bytes, line: Line) -> list[bytes]:
    if path and not line.flags & TRACKED:
        return []
    return [name for name, ref in line.children.items() if ref.tree and not ref.flags & TRACKED]


def snapshot_of(memory: Memory, base: Base) -> Snapshot:
    """Return the Snapshot that a scan describes. Raises Damaged."""
    notes = dict(notes_of(memory))

    def each(field: str) -> Iterator[tuple[bytes, Any]]:
        for directory, note in notes.items():
            for value in note.get(field, ()):
                name = value if isinstance(value, bytes) else value[0]
                yield below(directory, name), value

    def values(field: str) -> Iterable[tuple[bytes, Any]]:
        return sorted(each(field), key=lambda pair: pair[0])

    untracked = [path for path, _ in each("untracked")]
    untracked += [path + b"/" for path in _untracked(memory)]
    absent = [path for path, _ in each("absent")]
    absent += [path + b"/" for path in _absent(memory)]
    return Snapshot(
        tree=Oid(memory.tree.hex()),
        base=base,
        total=memory.root.captured,
        skipped=tuple(
            Skip(path, SkipReason(why), detail) for path, (_, why, detail) in values("skipped")
        ),
        raw=tuple(path for path, _ in values("raw")),
        converted=tuple(Conversion(path, *how) for path, (_, *how) in values("converted")),
        empty_directories=tuple(_empty(memory)),
        modes={path.rstrip(b"/"): bits for path, (_, bits) in values("modes")},
        submodules=tuple(
            Submodule(path, Oid(commit.hex())) for path, (_, commit, _) in values("submodules")
        ),
        nested=tuple(NestedRepository(path, head) for path, (_, head) in values("nested")),
        absent=tuple(sorted(absent)),
        staged=tuple(entry_of(path, slot) for path, (_, *slot) in values("staged")),
        untracked=tuple(sorted(untracked)),
        conflicts=tuple(entry_of(path, slot) for path, (_, *slot) in values("conflicts")),
    )
