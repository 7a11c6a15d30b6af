"""Merge snapshots without one session's changes: what `--mine` restores, as a pure plan.

A path that only this session changed returns to its content at the target. A path that others
changed too is merged: from the newest to the oldest, each change of the session is taken out of the
current content three-way, as `revert` does. What cannot be merged, or cannot be attributed, is a
conflict and stays as it is. Renames are not followed: a file that one renamed and another edited is
a conflict.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import Enum
from itertools import product
from typing import NamedTuple

from gitcp.git import trees
from gitcp.git.objects import Objects
from gitcp.git.trees import TreeReader
from gitcp.history.authors import Transition
from gitcp.model import TREE, Conversion, Entry, FileChange, Snapshot
from gitcp.restoring import databases
from gitcp.restoring.merge import Conflict, Lines, Merged, blocked, edited_tree, merge_entry
from gitcp.restoring.plan import Side, within
from gitcp.value import replace

UNCERTAIN = "it is uncertain which session changed it"
RECREATED = "removed, and added again since"
MOST_UNCERTAIN = 4
"""Uncertain changes of one path for which each assignment is tried; more are a conflict."""

SIDES = ("now", "with the session's change", "without it")
"""What conflict markers call the sides (ours, base, theirs)."""


class PathState(NamedTuple):
    """What a snapshot has at a path. `bits` are permissions that git does not record; `raw`: stored
    verbatim.
    """

    entry: Entry | None
    bits: int | None = None
    conversion: Conversion | None = None
    raw: bool = False


class Author(Enum):
    """Who made a change, as this session sees it."""

    OWN = 1
    UNCERTAIN = 2
    OTHER = 3


class PathChange(NamedTuple):
    """A change of one path, or several. `is_new`: it made another file of the same name."""

    author: Author
    before: PathState
    after: PathState
    is_new: bool


class PathResult(NamedTuple):
    """The state of a path without the session's changes, and why it is a conflict ("": it is none).

    Without conflict markers, a path in conflict has its current state.
    """

    state: PathState
    why: str = ""


def without_own(
    objects: Objects,
    current: Snapshot,
    transitions: Sequence[Transition],
    lines: Lines,
    scope: tuple[bytes, ...] = (),
    *,
    markers: bool = False,
) -> Merged:
    """Return `current` without what the session changed in `transitions`, which follow each other,
    the oldest first, and end at `current`; limited to `scope`.

    Writes merged blobs and trees to `objects`, without flushing. `markers` are as for `merge`.
    """
    walk = _Walk(objects, transitions, lines, markers=markers)
    claimed = {path for each in transitions for path in each.own | each.uncertain}
    paths = sorted(path for path in claimed if within(path, scope))
    now = Side(objects.reader, current)
    results = {path: walk.result(path, _state(now, path)) for path in paths}
    results |= _whole_databases(objects, results, now, walk.first)
    changed = {
        path: result.state for path, result in results.items() if result.state != _state(now, path)
    }
    conflicts = {path: result.why for path, result in results.items() if result.why}
    entries = {path: state.entry for path, state in changed.items()}
    for path, why in blocked(objects, now, entries):
        conflicts[path] = why
        del changed[path]
    snapshot = _snapshot(objects, now, changed, walk.empty_before())
    reasons = tuple(Conflict(path, why) for path, why in sorted(conflicts.items()))
    return Merged(snapshot, reasons)


def _whole_databases(
    objects: Objects, results: Mapping[bytes, PathResult], now: Side, first: Side | None
) -> dict[bytes, PathResult]:
    """Return the results of files that belong to a database of which others would not return to the
    target as well: conflicts, since a database is never merged.
    """

    def after(path: bytes) -> Entry | None:
        return results[path].state.entry if path in results else now.entry(path)

    if first is None:
        return {}
    changed = [path for path, result in results.items() if result.state != _state(now, path)]
    torn = databases.torn(objects.reader, changed, after, first)
    return {
        path: PathResult(_state(now, path), databases.MIXED) for path in torn if path in changed
    }


class _Walk:
    """The changes in the transitions, and the way back through them."""

    def __init__(
        self, objects: Objects, transitions: Sequence[Transition], lines: Lines, *, markers: bool
    ) -> None:
        self._objects, self._lines, self._markers = objects, lines, markers
        self._transitions = transitions
        self._sides = [
            (Side(objects.reader, each.before), Side(objects.reader, each.after))
            for each in transitions
        ]
        # Of 2,000 checkpoints with 3 of 280 files changed in each, to look up every path in every
        # transition took 8 s of 12.
        self._changed_in: dict[bytes, list[int]] = {}
        for number, (before, after) in enumerate(self._sides):
            for path in _may_differ(objects.reader, before, after):
                self._changed_in.setdefault(path, []).append(number)
        self._incomplete = [after for _, after in self._sides if after.unseen or after.foreign]

    @property
    def first(self) -> Side | None:
        """The state to which the oldest change returns, None without changes."""
        return self._sides[0][0] if self._sides else None

    def result(self, path: bytes, now: PathState) -> PathResult:
        """Return the state of a path without the session's changes; `now` is its current one."""
        changes, first = list(self._changes(path)), self._sides[0][0]
        if not changes:
            return PathResult(now)
        if reason := first.unknown(path, past=True):
            return PathResult(now, reason)
        if all(change.author is Author.OWN for change in changes):
            return PathResult(changes[0].before)
        if reason := next(filter(None, (side.unknown(path) for side in self._incomplete)), ""):
            return PathResult(now, reason)
        return self._certain(path, now, changes)

    def _changes(self, path: bytes) -> Iterator[PathChange]:
        for number in self._changed_in.get(path, ()):
            old, new = (_state(side, path) for side in self._sides[number])
            if old != new:
                author = _author(self._transitions[number], path)
                yield PathChange(author, old, new, old.entry is None)

    def _certain(self, path: bytes, now: PathState, changes: list[PathChange]) -> PathResult:
        """Return the result that all assignments of uncertain changes have in common."""
        doubtful = [n for n, change in enumerate(changes) if change.author is Author.UNCERTAIN]
        if doubtful and now == changes[0].before:
            return PathResult(now)
        if len(doubtful) > MOST_UNCERTAIN:
            return PathResult(now, UNCERTAIN)
        results = set()
        for authors in product((Author.OWN, Author.OTHER), repeat=len(doubtful)):
            assigned = list(changes)
            for n, author in zip(doubtful, authors, strict=True):
                assigned[n] = changes[n]._replace(author=author)
            results.add(self._merged(path, now, assigned))
        return results.pop() if len(results) == 1 else PathResult(now, UNCERTAIN)

    def _merged(self, path: bytes, now: PathState, changes: Iterable[PathChange]) -> PathResult:
        """Take the session's changes out of the current state, the newest first."""
        reasons: list[str] = []
        state, is_recreated = now, False
        for change in reversed(_joined(changes)):
            if change.author is not Author.OWN:
                is_recreated |= change.is_new
                continue
            result = self._taken_out(path, change, state)
            if is_recreated and result.state != state:  # it is another file now
                result = PathResult(state, RECREATED)
            if result.why and not self._markers:
                return PathResult(now, result.why)
            state, reasons = result.state, [*reasons, result.why]
        return PathResult(state, next(filter(None, reasons), ""))

    def _taken_out(self, path: bytes, change: PathChange, ours: PathState) -> PathResult:
        """Return a state without one change, merged three-way."""
        base, theirs = change.after, change.before
        bits = theirs.bits if ours.bits == base.bits else ours.bits
        step = FileChange(path, base.entry, theirs.entry)
        merged = merge_entry(self._objects, step, ours.entry, self._lines, markers=self._markers)
        if merged is None:
            return PathResult(ours._replace(bits=bits))
        if isinstance(merged, str):
            return PathResult(ours, merged)
        entry, why = merged
        if entry == theirs.entry:
            return PathResult(theirs._replace(bits=bits), why)
        return PathResult(ours._replace(entry=entry, bits=bits), why)

    def empty_before(self) -> set[bytes]:
        """Return the directories that were empty before one of the transitions."""
        return {d for each in self._transitions for d in each.before.empty_directories}


def _may_differ(reader: TreeReader, before: Side, after: Side) -> set[bytes]:
    """Return at least the paths whose state differs between two snapshots."""
    changes = trees.diff(reader, before.snapshot.tree, after.snapshot.tree)
    paths = {change.path for change in changes} | (before.raw ^ after.raw)
    modes = before.snapshot.modes, after.snapshot.modes
    for old, new in (modes, (before.conversions, after.conversions)):
        if old != new:
            paths |= {path for path in old.keys() | new.keys() if old.get(path) != new.get(path)}
    return paths


def _author(transition: Transition, path: bytes) -> Author:
    if path in transition.uncertain:
        return Author.UNCERTAIN
    return Author.OWN if path in transition.own else Author.OTHER


def _joined(changes: Iterable[PathChange]) -> list[PathChange]:
    """Return the changes with successive ones of one author as one, and without what cancels out
    among them.
    """
    joined: list[PathChange] = []
    for change in changes:
        both = change
        if joined and joined[-1].author is change.author and joined[-1].after == change.before:
            first = joined.pop()
            both = change._replace(before=first.before, is_new=first.is_new or change.is_new)
        if both.before != both.after:
            joined.append(both)
    return joined


def _state(side: Side, path: bytes) -> PathState:
    """Return the state of a path; a directory counts as nothing there."""
    entry = side.entry(path)
    if entry is None or entry.mode == TREE:
        return PathState(None)
    return PathState(
        entry, side.snapshot.modes.get(path), side.conversions.get(path), path in side.raw
    )


def _snapshot(
    objects: Objects, now: Side, changed: Mapping[bytes, PathState], empty_before: Iterable[bytes]
) -> Snapshot:
    """Return the current snapshot with other states of some paths. `empty_before` are directories
    that are empty again if all their files go.
    """
    current = now.snapshot
    modes = {path: bits for path, bits in current.modes.items() if path not in changed}
    modes |= {path: each.bits for path, each in changed.items() if each.bits is not None}
    converted = {path: how for path, how in now.conversions.items() if path not in changed}
    converted |= {path: each.conversion for path, each in changed.items() if each.conversion}
    raw = now.raw - changed.keys() | {path for path, each in changed.items() if each.raw}
    entries = {path: state.entry for path, state in changed.items()}
    result = replace(
        current,
        tree=edited_tree(objects, current.tree, entries),
        modes=modes,
        converted=tuple(converted[path] for path in sorted(converted)),
        raw=tuple(sorted(raw)),
    )
    side = Side(objects.reader, result)
    empty = {*current.empty_directories, *filter(now.entry, empty_before)}
    still_empty = tuple(sorted(path for path in empty if side.entry(path) is None))
    return replace(result, empty_directories=still_empty)
