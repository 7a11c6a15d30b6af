"""Merge snapshots three-way: the current files without the changes of one step.

A path that only the step changed returns to its content before the step. A file changed later as
well is merged by line by `git merge-file`, which uses no filters and no merge drivers. What cannot
be merged is a conflict: it is listed and kept. Renames are not followed: a file changed and then
renamed is a conflict.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from gitcp.errors import GitFailed
from gitcp.git import segmented, trees
from gitcp.git.objects import Objects
from gitcp.git.repo import Repository
from gitcp.git.trees import TreeEntry
from gitcp.model import (
    EXECUTABLE,
    FILE,
    GITLINK,
    TREE,
    Conversion,
    Entry,
    FileChange,
    Oid,
    Snapshot,
    path_text,
)
from gitcp.restoring import databases
from gitcp.restoring.plan import ALONE, Side, SnapshotReader, parents, within
from gitcp.value import Value, replace
from gitcp.worktree.paths import display

REGULAR = (FILE, EXECUTABLE)
BINARY = 255
"""Exit code of `git merge-file` for files that are not text; a lower one counts the conflicts."""

Lines = Callable[[bytes, bytes, bytes, bytes], tuple[bytes, bool] | None]
"""(path, base, ours, theirs) → the merged bytes, and whether they contain conflict markers. None
for content that is not text.
"""


class Conflict(NamedTuple):
    """A path that both the step and something later changed, incompatibly."""

    path: bytes
    why: str

    @property
    def path_text(self) -> str:
        return path_text(self.path)


class Merged(Value):
    """The result of a merge: the snapshot to restore, and the conflicts.

    With markers, conflicting text files are in the snapshot with conflict markers.
    """

    snapshot: Snapshot
    conflicts: tuple[Conflict, ...]


def merge(
    objects: Objects,
    sides: tuple[Snapshot, Snapshot, Snapshot],
    lines: Lines,
    scope: tuple[bytes, ...] = (),
    *,
    markers: bool = False,
) -> Merged:
    """Merge `sides` (base, ours, theirs): return `ours` without the changes from `theirs` to
    `base`, limited to `scope`.

    Writes merged blobs and trees to `objects`, without flushing. A path captured on only one side
    of the step counts as unchanged by it.
    """
    base, ours, theirs = (Side(objects.reader, snapshot) for snapshot in sides)
    step = [
        c
        for c in trees.diff(objects.reader, base.snapshot.tree, theirs.snapshot.tree)
        if within(c.path, scope)
    ]
    step = [c for c in step if not base.unknown(c.path) and not theirs.unknown(c.path)]
    entries: dict[bytes, Entry | None] = {}
    conflicts: list[Conflict] = []
    for change in step:
        merged = merge_entry(objects, change, ours.entry(change.path), lines, markers=markers)
        if isinstance(merged, str):
            conflicts.append(Conflict(change.path, merged))
        elif merged is not None:
            entries[change.path] = merged[0]
            conflicts += [Conflict(change.path, merged[1])] if merged[1] else []
    for path, why in (*_torn(objects, ours, theirs, entries), *blocked(objects, ours, entries)):
        if path in entries:
            conflicts.append(Conflict(path, why))
            del entries[path]
    snapshot = _snapshot(
        base, ours, theirs, scope, edited_tree(objects, ours.snapshot.tree, entries), entries
    )
    return Merged(snapshot, tuple(sorted(conflicts)))


def _torn(
    objects: Objects, ours: Side, theirs: Side, entries: Mapping[bytes, Entry | None]
) -> list[tuple[bytes, str]]:
    """Return the files that belong to a database of which others would stay as they are."""

    def after(path: bytes) -> Entry | None:
        return entries[path] if path in entries else ours.entry(path)

    torn = databases.torn(objects.reader, entries, after, theirs)
    return [(path, databases.MIXED) for path in sorted(torn) if path in entries]


def differ(
    reader: SnapshotReader, sides: tuple[Snapshot, Snapshot], scope: tuple[bytes, ...] = ()
) -> bool:
    """Return whether two snapshots have different files, permissions or empty directories, limited
    to `scope`.
    """
    one, other = sides
    changes = trees.diff(reader, one.tree, other.tree)
    return (
        any(within(change.path, scope) for change in changes)
        or any(within(path, scope) for path, _ in {*one.modes.items()} ^ {*other.modes.items()})
        or any(
            within(path, scope) or path + ALONE in scope
            for path in {*one.empty_directories} ^ {*other.empty_directories}
        )
    )


def merge_entry(
    objects: Objects, change: FileChange, ours: Entry | None, lines: Lines, *, markers: bool
) -> tuple[Entry | None, str] | str | None:
    """Return the entry of a path without a change of it (`change.old`: after the change,
    `change.new`: before), with the reason it still is a conflict ("" if none); only the reason
    where the path is kept; None where there is nothing to do. Writes a merged blob to `objects`.
    """
    after, before = change.old, change.new
    # blocked checks whether a directory is in the way
    ours = None if ours is not None and ours.mode == TREE else ours
    if ours == before or GITLINK in (after and after.mode, before and before.mode):
        return None
    if ours == after:
        return before, ""
    if ours is None:
        return "removed since"
    if before is None:
        return "added, and changed since"
    if after is None:
        return "removed, and added again since"
    if ours.mode >> 12 != before.mode >> 12:
        return "changed to another file type since"
    mode = before.mode if ours.mode == after.mode else ours.mode
    if ours.oid == after.oid or before.oid in (ours.oid, after.oid):
        return Entry(mode, before.oid if ours.oid == after.oid else ours.oid), ""
    read = objects.reader.read_blob
    # of another file type: it has no line in common
    base = read(after.oid) if after.mode in REGULAR else b""
    if ours.mode not in REGULAR:
        return "a symlink with another target since"
    versions = base, read(ours.oid), read(before.oid)
    is_pointer = any(map(segmented.decode, versions))  # to content that is not here
    merged = None if is_pointer else lines(change.path, *versions)
    if merged is None:
        return "binary, and changed since"
    text, marked = merged
    why = "the same lines changed since" if marked else ""
    return (Entry(mode, objects.writer.write_blob(text)), why) if markers or not marked else why


def blocked(
    objects: Objects, ours: Side, entries: Mapping[bytes, Entry | None]
) -> Iterator[tuple[bytes, str]]:
    """Yield the files that cannot be restored because a file or a directory is in their place, with
    the reason.
    """
    for path, entry in tuple(entries.items()):
        present = ours.entry(path)
        if entry is None:
            continue
        if any(
            ours.has_file(parent) and entries.get(parent, entry) is not None
            for parent in parents(path)
        ):
            yield path, "its directory is a file now"
        elif present is not None and present.mode == TREE:
            children = (path + b"/" + name for name, _ in trees.walk(objects.reader, present.oid))
            if any(entries.get(child, entry) is not None for child in children):
                yield path, "a directory is in its place now"


def edited_tree(objects: Objects, tree: Oid, changes: Mapping[bytes, Entry | None]) -> Oid:
    """Return the tree with these entries set, or removed where None. Handles any depth.

    Subtrees are written; the root tree is only hashed, like that of every snapshot.
    """
    order: list[tuple[bytes, dict[bytes, TreeEntry], dict[bytes, TreeEntry]]] = []
    ahead: list[tuple[Oid | None, bytes, Mapping[bytes, Entry | None], dict[bytes, TreeEntry]]]
    ahead = [(tree, b"", changes, {})]
    while ahead:
        oid, name, inside, above = ahead.pop()
        here = {entry.name: entry for entry in objects.reader.read_tree(oid)} if oid else {}
        order.append((name, here, above))
        below: dict[bytes, dict[bytes, Entry | None]] = {}
        for path, entry in inside.items():
            first, _, rest = path.partition(b"/")
            if rest:
                below.setdefault(first, {})[rest] = entry
            elif entry is not None:
                here[first] = TreeEntry(first, *entry)
            elif first in here and here[first].mode != TREE:
                del here[first]
        for first, further in below.items():
            present = here.get(first)
            is_tree = present is not None and present.mode == TREE
            ahead.append((present.oid if present and is_tree else None, first, further, here))
    for name, here, above in reversed(order[1:]):
        if here:
            above[name] = TreeEntry(name, TREE, objects.writer.write_tree(list(here.values())))
        elif name in above and above[name].mode == TREE:
            del above[name]
    return objects.reader.name_tree(list(order[0][1].values()))


def _snapshot(
    base: Side,
    ours: Side,
    theirs: Side,
    scope: tuple[bytes, ...],
    tree: Oid,
    entries: Mapping[bytes, Entry | None],
) -> Snapshot:
    """Return `ours` with another tree, and with the modes, conversions and empty directories of the
    paths that change.
    """
    current, before_step = ours.snapshot, theirs.snapshot
    reverted = {
        path for path, entry in entries.items() if entry is not None and entry == theirs.entry(path)
    }
    modes = dict(current.modes)
    for path in {*base.snapshot.modes, *before_step.modes}:
        old, new = base.snapshot.modes.get(path), before_step.modes.get(path)
        if (
            within(path, scope)
            and old != new
            and current.modes.get(path) == old
            and (path in reverted or ours.entry(path))
        ):
            modes[path] = new  # type: ignore[assignment]
    empty = set(current.empty_directories)
    for path in {*base.snapshot.empty_directories} ^ {*before_step.empty_directories}:
        if within(path, scope) or path + ALONE in scope:
            (empty.add if path in before_step.empty_directories else empty.discard)(path)
    return replace(
        current,
        tree=tree,
        modes={path: mode for path, mode in modes.items() if mode is not None},
        empty_directories=tuple(sorted(empty)),
        converted=_converted(ours.conversions, theirs.conversions, reverted),
        raw=tuple(sorted({*current.raw} - reverted | {*before_step.raw} & reverted)),
    )


def _converted(
    current: Mapping[bytes, Conversion],
    before_step: Mapping[bytes, Conversion],
    reverted: Iterable[bytes],
) -> tuple[Conversion, ...]:
    """Return the conversions: as before the step for a reverted path, else the current ones."""
    unchanged = {
        path: conversion for path, conversion in current.items() if path not in set(reverted)
    }
    return tuple(
        c
        for _, c in sorted(
            (
                unchanged | {path: before_step[path] for path in reverted if path in before_step}
            ).items()
        )
    )


STEP = ("now", "after the step", "before the step")
"""What conflict markers call the sides (ours, base, theirs) of a revert."""


def by_git(repo: Repository, sides: tuple[str, str, str] = STEP) -> Lines:
    """Return a line merge that runs `git merge-file` on temporary files. `sides` is what conflict
    markers call ours, base and theirs.
    """
    import tempfile  # takes 3 ms, and is needed for this alone

    def lines(path: bytes, base: bytes, ours: bytes, theirs: bytes) -> tuple[bytes, bool] | None:
        labels = (f"{display(path)} ({side})" for side in sides)
        label_options = [part for label in labels for part in ("-L", label)]
        with tempfile.TemporaryDirectory(prefix="gitcp-") as directory:
            files = [os.path.join(directory, side) for side in ("ours", "base", "theirs")]
            for file, data in zip(files, (ours, base, theirs), strict=True):
                Path(file).write_bytes(data)
            command = ("merge-file", "-p", "-q", *label_options, *files)
            try:
                return repo.git(*command), False
            except GitFailed:
                pass  # conflicts, or no text
            try:
                return repo.git(*command, accept=range(1, BINARY)), True
            except GitFailed:
                return None

    return lines
