"""Three-way merges of snapshots: what is here now, without what one step changed. Pure but for
git's line merge.

A path that only the step changed goes back to what it was before. A file that was changed since too
is merged line by line by `git merge-file`, which knows neither filters nor merge drivers. What
cannot be both is a conflict: it is listed, and stays as it is now. Renames are not followed: a file
that was changed and then renamed is a conflict.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from gitcp.errors import GitFailed
from gitcp.git import trees
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
)
from gitcp.restoring.plan import ALONE, Side, parents, within
from gitcp.value import Value, replace
from gitcp.worktree.paths import display

REGULAR = (FILE, EXECUTABLE)
BINARY = 255
"""How `git merge-file` ends when it cannot merge lines; less is the number of conflicts."""

Lines = Callable[[bytes, bytes, bytes, bytes], tuple[bytes, bool] | None]
"""(path, base, ours, theirs) → the merged bytes, and whether they hold conflict markers. None:
these are no lines.
"""


class Conflict(NamedTuple):
    """A path that the step changed and that something later changed too, in a way that cannot be
    both.
    """

    path: bytes
    why: str


class Merged(Value):
    """The snapshot that a merge leads to, the paths that it cannot merge, and all that the step
    changed.

    With markers, `conflicts` are in the snapshot with conflict markers in them where they are text.
    """

    snapshot: Snapshot
    conflicts: tuple[Conflict, ...]
    step: tuple[bytes, ...]


def merge(
    objects: Objects,
    sides: tuple[Snapshot, Snapshot, Snapshot],
    lines: Lines,
    scope: tuple[bytes, ...] = (),
    *,
    markers: bool = False,
) -> Merged:
    """`ours` without what made `base` of `theirs`; `sides` are (base, ours, theirs), `scope` limits
    it to these paths.

    Merged blobs and trees are given to `objects`, which is not flushed. What was not captured on
    one side of the step was not changed by it.
    """
    base, ours, theirs = (Side(objects, snapshot) for snapshot in sides)
    step = [
        c
        for c in trees.diff(objects, base.snapshot.tree, theirs.snapshot.tree)
        if within(c.path, scope)
    ]
    step = [c for c in step if not base.barred(c.path) and not theirs.barred(c.path)]
    wanted: dict[bytes, Entry | None] = {}
    conflicts: list[Conflict] = []
    for change in step:
        found = _one(objects, change, ours.entry(change.path), lines, markers=markers)
        if isinstance(found, str):
            conflicts.append(Conflict(change.path, found))
        elif found is not None:
            wanted[change.path] = found[0]
            conflicts += [Conflict(change.path, found[1])] if found[1] else []
    for path, why in _blocked(objects, ours, wanted):
        conflicts.append(Conflict(path, why))
        del wanted[path]
    snapshot = _snapshot(
        base, ours, theirs, scope, edited_tree(objects, ours.snapshot.tree, wanted), wanted
    )
    return Merged(snapshot, tuple(sorted(conflicts)), tuple(change.path for change in step))


def _one(
    objects: Objects, change: FileChange, here: Entry | None, lines: Lines, *, markers: bool
) -> tuple[Entry | None, str] | str | None:
    """What a path becomes, and why it is a conflict all the same ("" if it is none); why it stays
    as it is; None where there is nothing to do.
    """
    after, before = change.old, change.new
    # whether that is in the way is seen later
    here = None if here is not None and here.mode == TREE else here
    if here == before or GITLINK in (after and after.mode, before and before.mode):
        return None
    if here == after:
        return before, ""
    if here is None:
        return "it was removed since"
    if before is None:
        return "it came with the step, and was changed since"
    if after is None:
        return "it went with the step, and is there again"
    if here.mode >> 12 != before.mode >> 12:
        return "it is of another kind now"
    mode = before.mode if here.mode == after.mode else here.mode
    if here.oid == after.oid or before.oid in (here.oid, after.oid):
        return Entry(mode, before.oid if here.oid == after.oid else here.oid), ""
    read = objects.read_blob
    # of another kind: no line of it is in common
    base = read(after.oid) if after.mode in REGULAR else b""
    merged = (
        lines(change.path, base, read(here.oid), read(before.oid)) if here.mode in REGULAR else None
    )
    if merged is None and here.mode not in REGULAR:
        return "it points elsewhere since"
    if merged is None:
        return "it is binary, and was changed since"
    text, marked = merged
    why = "the same lines were changed since" if marked else ""
    return (Entry(mode, objects.write_blob(text)), why) if markers or not marked else why


def _blocked(
    objects: Objects, ours: Side, wanted: Mapping[bytes, Entry | None]
) -> Iterator[tuple[bytes, str]]:
    """The files that would come where something else stands: below a file, or in the place of a
    directory.
    """
    for path, entry in tuple(wanted.items()):
        here = ours.entry(path)
        if entry is None:
            continue
        if any(
            ours.has_file(parent) and wanted.get(parent, entry) is not None
            for parent in parents(path)
        ):
            yield path, "a file stands where its directory was"
        elif here is not None and here.mode == TREE:
            below = (path + b"/" + name for name, _ in trees.walk(objects, here.oid))
            if any(wanted.get(inside, entry) is not None for inside in below):
                yield path, "a directory stands where it was"


def edited_tree(
    objects: Objects, tree: Oid, wanted: Mapping[bytes, Entry | None], *, top: bool = True
) -> Oid:
    """The tree with these entries put in or taken out. That of the root is only named, as that of a
    snapshot is.
    """
    entries = {entry.name: entry for entry in objects.read_tree(tree)}
    inside: dict[bytes, dict[bytes, Entry | None]] = {}
    for path, entry in wanted.items():
        name, _, rest = path.partition(b"/")
        if rest:
            inside.setdefault(name, {})[rest] = entry
        elif entry is not None:
            entries[name] = TreeEntry(name, *entry)
        elif name in entries and entries[name].mode != TREE:
            del entries[name]
    for name, below in inside.items():
        here = entries.get(name)
        old = here.oid if here is not None and here.mode == TREE else trees.EMPTY_TREE
        new = edited_tree(objects, old, below, top=False)
        if new != trees.EMPTY_TREE:
            entries[name] = TreeEntry(name, TREE, new)
        elif here is not None and here.mode == TREE:
            del entries[name]
    found = list(entries.values())
    return objects.name_tree(found) if top else objects.write_tree(found)


def _snapshot(
    base: Side,
    ours: Side,
    theirs: Side,
    scope: tuple[bytes, ...],
    tree: Oid,
    wanted: Mapping[bytes, Entry | None],
) -> Snapshot:
    """What is here, with another tree, and with what a tree cannot say of the paths that change."""
    here, then = ours.snapshot, theirs.snapshot
    back = {
        path for path, entry in wanted.items() if entry is not None and entry == theirs.entry(path)
    }
    modes = dict(here.modes)
    for path in {*base.snapshot.modes, *then.modes}:
        old, new = base.snapshot.modes.get(path), then.modes.get(path)
        if (
            within(path, scope)
            and old != new
            and here.modes.get(path) == old
            and (path in back or ours.entry(path))
        ):
            modes[path] = new  # type: ignore[assignment]
    empty = set(here.empty_directories)
    for path in {*base.snapshot.empty_directories} ^ {*then.empty_directories}:
        if within(path, scope) or path + ALONE in scope:
            (empty.add if path in then.empty_directories else empty.discard)(path)
    return replace(
        here,
        tree=tree,
        modes={path: mode for path, mode in modes.items() if mode is not None},
        empty_directories=tuple(sorted(empty)),
        converted=_converted(ours.conversions, theirs.conversions, back),
        raw=tuple(
            sorted({*(p for p in here.raw if p not in back), *(p for p in then.raw if p in back)})
        ),
    )


def _converted(
    here: Mapping[bytes, Conversion], then: Mapping[bytes, Conversion], back: Iterable[bytes]
) -> tuple[Conversion, ...]:
    """How bytes follow from blobs: for a path that goes back as it was then, else as it is."""
    kept = {path: conversion for path, conversion in here.items() if path not in set(back)}
    return tuple(
        c for _, c in sorted((kept | {path: then[path] for path in back if path in then}).items())
    )


def by_git(repo: Repository) -> Lines:
    """Merges lines as git does, in files that are gone afterwards."""
    import tempfile  # three milliseconds

    def lines(path: bytes, base: bytes, ours: bytes, theirs: bytes) -> tuple[bytes, bool] | None:
        labels = (
            f"{display(path)} ({when})" for when in ("now", "after the step", "before the step")
        )
        named = [part for label in labels for part in ("-L", label)]
        with tempfile.TemporaryDirectory(prefix="gitcp-") as directory:
            files = [os.path.join(directory, side) for side in ("ours", "base", "theirs")]
            for file, data in zip(files, (ours, base, theirs), strict=True):
                Path(file).write_bytes(data)
            command = ("merge-file", "-p", "-q", *named, *files)
            try:
                return repo.git(*command), False
            except GitFailed:
                pass  # conflicts, or no text
            try:
                return repo.git(*command, accept=range(1, BINARY)), True
            except GitFailed:
                return None

    return lines
