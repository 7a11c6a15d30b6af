"""What was appended to files that are stored as segments (gitcp.git.segmented): git compares only
their pointers.

Only segments that differ are read, and only if they are few: never all of a large file.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from gitcp.git import segmented, trees
from gitcp.git.reader import ObjectReader
from gitcp.git.segmented import Pointer
from gitcp.humanize import count
from gitcp.model import Entry, FileChange, Oid
from gitcp.safe import flat
from gitcp.store import SEGMENT_PATH, Store

MOST = 8
"""Segments of a file that are read at most."""


class AppendedLines(NamedTuple):
    """Lines added and removed, as git counts them."""

    added: int
    removed: int


Counts = Mapping[bytes, AppendedLines | None]
"""By path; None if much differs, or not only by text at the end."""


def between(store: Store, old: Oid, new: Oid) -> Counts:
    """Return by how many lines files stored as segments differ between the trees of two checkpoints
    or commits. Raises StoreDamaged.
    """
    changes: dict[bytes, list[FileChange]] = {}
    for change in trees.diff(store.reader, store.outputs(old), store.outputs(new)):
        match = SEGMENT_PATH.fullmatch(change.path)
        if match is not None:
            changes.setdefault(match[1], []).append(change)
    return {
        path: None if _was_whole(store, old, path, each) else _lines(store.reader, each)
        for path, each in changes.items()
    }


def _was_whole(store: Store, old: Oid, path: bytes, changes: Sequence[FileChange]) -> bool:
    """Return whether the old tree has the file, but not as segments."""
    is_new = changes[0].old is None and changes[0].path.endswith(b"/" + segmented.FIRST)
    return is_new and trees.lookup(store.reader, old, path) is not None


def _lines(reader: ObjectReader, changes: Sequence[FileChange]) -> AppendedLines | None:
    """Count the lines of the segments of one file that differ."""
    if len(changes) > MOST:
        return None
    old, new = (
        b"".join(reader.read_blob(entry.oid) for entry in entries if entry)
        for entries in ([each.old for each in changes], [each.new for each in changes])
    )
    begins = changes[0].path.endswith(segmented.FIRST)
    if b"\0" in old + new or not new.startswith(old) or not (old or begins):
        return None
    is_continued = bool(old) and not old.endswith(b"\n")  # git counts that line as another one
    tail = new[len(old) :]
    return AppendedLines(tail.count(b"\n") + (not tail.endswith(b"\n")), int(is_continued))


def is_segmented(reader: ObjectReader, change: FileChange) -> bool:
    """Return whether a changed file is or was stored as segments. Raises StoreDamaged."""
    return any(_pointer(reader, entry) for entry in (change.old, change.new))


def _pointer(reader: ObjectReader, entry: Entry | None) -> Pointer | None:
    return segmented.decode(reader.read_blob(entry.oid)) if entry else None


def patch(reader: ObjectReader, changes: Iterable[FileChange], *, stat: bool) -> bytes:
    """Return what a patch, or with `stat` a table of changed lines, says in place of the pointers
    of these files. Raises StoreDamaged.
    """
    texts = []
    for change in changes:
        name = flat(change.path.decode("utf-8", "surrogateescape"))
        begin = f" {name} | " if stat else f"diff --git a/{name} b/{name}\n"
        texts.append(f"{begin}{_summary(reader, change)}\n")
    return "".join(texts).encode()


def _summary(reader: ObjectReader, change: FileChange) -> str:
    """Return the sizes of a file in words, and how many lines were appended, if that is known."""
    old, new = (_pointer(reader, entry) for entry in (change.old, change.new))
    if old is None or new is None:
        side = new or old
        assert side is not None
        return f"{'now' if new else 'was'} stored as segments, {side.size:,} bytes"
    differing = [*trees.diff(reader, old.tree, new.tree)]
    lines = _lines(reader, differing) if differing else None
    added = f", {count(lines.added, 'line')} appended" if lines else ""
    return f"stored as segments, {old.size:,} -> {new.size:,} bytes{added}"
