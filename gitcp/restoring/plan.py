"""What a restore would do to the files: pure, from two snapshots and a look at the disk. Nothing is
changed here.

A path is removed only if the target does not have it, the target looked there, no ignore rule of
then or now covers it, and it is in the snapshot of now (and so in the safety checkpoint). A path is
written only where nothing uncaptured stands in the way. Everything else is kept, with a reason.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from functools import cached_property
from typing import Protocol

from gitcp.errors import Refused
from gitcp.git.repo import Repository
from gitcp.git.trees import TreeEntry, TreeReader
from gitcp.model import (
    GITLINK,
    SYMLINK,
    TREE,
    Conversion,
    Entry,
    FileChange,
    Oid,
    SkipReason,
    Snapshot,
)
from gitcp.value import Value
from gitcp.worktree import rules
from gitcp.worktree.paths import display, folded, problem
from gitcp.worktree.rules import OutsideRules

ORDINARY = -1
"""Permission bits as the umask gives them, where the target did not record any."""


ALONE = b"/."
"""Behind a directory in a scope: it is meant by itself, and nothing below it."""


class Step(Value):
    """One path to change: what is there, what shall be there, and how its bytes follow from the
    blob.
    """

    path: bytes
    old: Entry | None
    new: Entry | None
    conversion: Conversion | None = None
    permissions: int | None = None


class Kept(Value):
    """A path that differs and is left alone. `missing`: the target has it, so that not all of it
    came back.
    """

    path: bytes
    reason: str
    missing: bool = False


class FilePlan(Value):
    """Everything a restore would do to the files, in the order in which it is done."""

    clear: tuple[Step, ...] = ()
    write: tuple[Step, ...] = ()
    remove: tuple[Step, ...] = ()
    make_directories: tuple[bytes, ...] = ()
    remove_directories: tuple[bytes, ...] = ()
    permissions: tuple[tuple[bytes, int], ...] = ()
    kept: tuple[Kept, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.paths)

    @property
    def paths(self) -> tuple[bytes, ...]:
        """Every path this plan changes."""
        return (*self.files, *self.make_directories, *self.remove_directories)

    @property
    def changed(self) -> tuple[bytes, ...]:
        """The same as a scope that holds no more than this plan changes: of directories only
        themselves.
        """
        directories = (*self.make_directories, *self.remove_directories)
        return (*self.files, *(path + ALONE for path in directories))

    @property
    def files(self) -> tuple[bytes, ...]:
        """Every file and link it changes."""
        steps = (step.path for step in (*self.clear, *self.write, *self.remove))
        return (*steps, *(path for path, _ in self.permissions))

    @property
    def created(self) -> tuple[bytes, ...]:
        """The files and empty directories this plan makes where nothing was."""
        return (*(step.path for step in self.write if step.old is None), *self.make_directories)


class Reader(TreeReader, Protocol):
    """Where the trees and the ignore files of snapshots are read from."""

    def read_blob(self, oid: Oid) -> bytes: ...
    def compare(self, old: Oid | None, new: Oid | None) -> tuple[FileChange, ...]: ...


class Disk(Protocol):
    """The look at the working tree, and at what lies beside the object store, that a plan needs."""

    def kind(self, path: bytes) -> str: ...
    def below(self, path: bytes) -> Iterable[bytes]: ...
    def read(self, path: bytes) -> bytes | None: ...
    def is_same(self, path: bytes, other: bytes) -> bool: ...
    def stands(self, path: bytes, entry: Entry, conversion: Conversion | None) -> bool: ...
    def lacks_lfs(self, entry: Entry) -> str: ...


class Beside(Value):
    """What is known of the two states beside their snapshots.

    `not_there` are paths that the target did not have, ignored or not; `standing` are directories
    that it had, though it does not say so; `rules` are the ignore rules that were in force beside
    those in it, None if that is not known: then those of now. `held` are paths that the snapshot of
    now has where nothing else was captured.
    """

    not_there: Collection[bytes] = ()
    held: Collection[bytes] = ()
    standing: Collection[bytes] = ()
    rules: OutsideRules | None = None


NOTHING_BESIDE = Beside()


class Side:
    """One of the two snapshots, asked path by path. Each directory of its tree is indexed once."""

    def __init__(
        self, reader: TreeReader, snapshot: Snapshot, held: Collection[bytes] = ()
    ) -> None:
        """`held` are paths known to have been there, though nothing else was captured where they
        lie.
        """
        self.snapshot = snapshot
        self._held = held
        self._reader = reader
        self._names: dict[Oid, dict[bytes, TreeEntry]] = {}
        self._absent = frozenset(snapshot.absent)
        self.unseen = {skip.path.rstrip(b"/"): skip.reason.value for skip in snapshot.skipped}
        self.foreign = {
            nested.path.rstrip(b"/"): "another repository" for nested in snapshot.nested
        }
        self.foreign |= {submodule.path: "a submodule" for submodule in snapshot.submodules}
        self.conversions = {conversion.path: conversion for conversion in snapshot.converted}

    def entry(self, path: bytes) -> Entry | None:
        """What the tree has at `path`: a file, a link, a directory."""
        found = TreeEntry(b"", TREE, self.snapshot.tree)
        for name in path.split(b"/"):
            if found.mode != TREE:
                return None
            if found.oid not in self._names:
                self._names[found.oid] = {
                    entry.name: entry for entry in self._reader.read_tree(found.oid)
                }
            inside = self._names[found.oid].get(name)
            if inside is None:
                return None
            found = inside
        return Entry(found.mode, found.oid)

    def has_file(self, path: bytes) -> bool:
        """Whether a file or a link is at `path`."""
        found = self.entry(path)
        return found is not None and found.mode != TREE

    def is_absent(self, path: bytes) -> bool:
        """Whether sparse checkout is why this path is not in the working tree."""
        return path in self._absent

    def barred(self, path: bytes, *, then: bool = False) -> str:
        """Why nothing is known of what lies at `path`; "" if it was looked at."""
        if path in self._held:
            return ""
        for place in (path, *parents(path)):
            if place in self.unseen:
                return f"not captured {'then' if then else 'now'} ({self.unseen[place]})"
            if place in self.foreign:
                return f"inside {'what was then ' if then else ''}{self.foreign[place]}"
        return ""

    def holds(self, directory: bytes) -> bool:
        """Whether this directory existed, or may have: not everywhere was looked."""
        known = (
            directory in self._held
            or directory in self._beside_tree
            or self.entry(directory) is not None
        )
        return known or bool(self.barred(directory))

    @cached_property
    def _beside_tree(self) -> frozenset[bytes]:
        """The directories that are known to have existed though the tree does not have them."""
        known = (*self.snapshot.empty_directories, *self.unseen, *self.foreign)
        return frozenset(self.snapshot.empty_directories) | {
            p for path in known for p in parents(path)
        }


def plan_files(
    repo: Repository,
    reader: Reader,
    sides: tuple[Snapshot, Snapshot],
    scope: Collection[bytes],
    disk: Disk,
    beside: Beside = NOTHING_BESIDE,
) -> FilePlan:
    """The plan that turns the files of the first snapshot, which is now, into those of the second,
    the target.

    `scope` limits it to these paths and what is below them, unless ALONE is behind them (empty:
    everywhere). Raises Refused for a target with a path that no file may have: no save made it.
    """
    now, target = Side(reader, sides[0], beside.held), Side(reader, sides[1], beside.standing)
    if SkipReason.NOT_HELD.value in target.unseen.values():
        return FilePlan()
    changes = [change for change in _changes(reader, now, target) if within(change.path, scope)]
    made = (change.path for change in changes if change.new is not None)
    _refuse_bad((*made, *target.snapshot.empty_directories))
    empty = _empty(now, scope)
    doubtful = [*(change.path for change in changes if change.new is None), *empty]
    doubtful = [path for path in doubtful if path not in beside.not_there]
    ignored = _ignored(repo, reader, target, doubtful, set(empty), disk, beside.rules)
    judged = [(change, _keep(change, now, target, ignored)) for change in changes]
    kept = [kept for _, kept in judged if kept is not None]
    wanted = [change for change, kept in judged if kept is None]
    empty = [path for path in empty if path not in ignored]
    removed = {*(change.path for change in wanted if change.new is None), *empty}
    lacking = _lacking(target, scope)
    new = [change.path for change in wanted if change.old is None]
    respelled = _respelled((*new, *lacking), removed, disk)
    steps, hindered = _steps(wanted, now, target, removed, respelled, disk)
    lacking = [path for path in lacking if path in respelled or disk.kind(path) != "directory"]
    missing, barred = _possible(lacking, now, removed, disk)
    kept += [*hindered, *barred]
    first = frozenset(respelled.values())
    return _ordered(steps, kept, now, target, scope, missing, empty, first)


def _empty(now: Side, scope: Collection[bytes]) -> list[bytes]:
    """The empty directories of now that the plan may remove."""
    directories = now.snapshot.empty_directories
    return [path for path in directories if within(path, scope) or _leads_to(path, scope)]


def _lacking(target: Side, scope: Collection[bytes]) -> list[bytes]:
    """The empty directories of the target that the plan may make."""
    directories = target.snapshot.empty_directories
    return [path for path in directories if within(path, scope) or path + ALONE in scope]


def _possible(
    lacking: Iterable[bytes], now: Side, removed: Collection[bytes], disk: Disk
) -> tuple[list[bytes], list[Kept]]:
    """Those of the directories that can be made, and those that cannot, with the reason."""
    reasons = {
        path: now.barred(path) or _in_the_way((*parents(path), path), removed, disk)
        for path in lacking
    }
    barred = [Kept(path, reason, missing=True) for path, reason in reasons.items() if reason]
    return [path for path, reason in reasons.items() if not reason], barred


def _steps(
    wanted: Iterable[FileChange],
    now: Side,
    target: Side,
    removed: Collection[bytes],
    respelled: Collection[bytes],
    disk: Disk,
) -> tuple[list[Step], list[Kept]]:
    """What is to be done for each change, and what cannot be."""
    steps, hindered = [], []
    for change in wanted:
        step = _step(change, now, target)
        reason = "" if change.path in respelled else _cannot(step, removed, disk)
        if reason:
            hindered.append(Kept(change.path, reason, missing=True))
        elif change.path in respelled or not _stands_already(step, disk):
            steps.append(step)
    return steps, hindered


def _respelled(
    wanted: Iterable[bytes], removed: Collection[bytes], disk: Disk
) -> dict[bytes, bytes]:
    """What is to come where the disk has one thing to be removed under another spelling of its
    name, and that.

    There are file systems to which `Readme` and `README` are the same, or two ways to write an
    accent.
    """
    there = [path for path in wanted if disk.kind(path)]
    if not there or not removed:
        return {}
    spelled = {folded(path): path for path in removed}
    found = ((path, spelled.get(folded(path))) for path in there)
    return {
        path: other
        for path, other in found
        if other not in (None, path) and disk.is_same(path, other)
    }


def _refuse_bad(wanted: Iterable[bytes]) -> None:
    for path in wanted:
        if reason := problem(path):
            raise Refused(
                f"the checkpoint cannot be restored, as its path {display(path)!r} {reason}: "
                "nothing was changed"
            )


def within(path: bytes, scope: Collection[bytes]) -> bool:
    """Whether a path is one of `scope` or below it; an empty scope has no bounds."""
    return not scope or any(
        top in (b"", path) or path.startswith(top.rstrip(b"/") + b"/") for top in scope
    )


def _leads_to(directory: bytes, scope: Collection[bytes]) -> bool:
    """Whether one of the paths is below a directory: as long as that is empty, it was made or left
    for their sake.
    """
    return any(path.startswith(directory + b"/") for path in scope)


def parents(path: bytes) -> list[bytes]:
    """The directories above a path, the nearest last."""
    parts = path.split(b"/")
    return [b"/".join(parts[:depth]) for depth in range(1, len(parts))]


def _changes(reader: Reader, now: Side, target: Side) -> Iterator[FileChange]:
    """Paths whose blob or mode differs, then those whose blob is the same and whose bytes are
    not.
    """
    seen = set()
    for change in reader.compare(now.snapshot.tree, target.snapshot.tree):
        seen.add(change.path)
        yield change
    differing = set(now.snapshot.converted) ^ set(target.snapshot.converted)
    for path in sorted({conversion.path for conversion in differing} - seen):
        entry = target.entry(path)
        if entry is not None:
            yield FileChange(path, entry, entry)


def _keep(change: FileChange, now: Side, target: Side, ignored: Collection[bytes]) -> Kept | None:
    """Why a path that differs must be left alone; None if it may be changed."""
    path, wanted = change.path, change.new is not None
    if GITLINK in (change.old and change.old.mode, change.new and change.new.mode):
        return Kept(path, "a submodule; it is left where it is")
    if now.is_absent(path) or target.is_absent(path):
        return Kept(path, "outside the sparse checkout")
    if reason := now.barred(path):
        return Kept(path, reason, missing=wanted)
    if not wanted and (reason := target.barred(path, then=True)):
        return Kept(path, reason)
    return Kept(path, "ignored") if path in ignored else None


def _ignored(
    repo: Repository,
    reader: Reader,
    target: Side,
    paths: list[bytes],
    directories: Collection[bytes],
    disk: Disk,
    outside: OutsideRules | None,
) -> set[bytes]:
    """Those of `paths`, some of them directories, that are ignored by the rules on disk or by those
    of the target.
    """
    if not paths:
        return set()
    paths = [path + b"/" if path in directories else path for path in paths]

    def then(path: bytes) -> bytes | None:
        entry = target.entry(path)
        return (
            reader.read_blob(entry.oid)
            if entry and entry.mode not in (SYMLINK, GITLINK, TREE)
            else None
        )

    found = rules.ignored(repo, paths, disk.read) | rules.ignored(repo, paths, then, outside)
    return {path.rstrip(b"/") for path in found}


def _cannot(step: Step, removed: Collection[bytes], disk: Disk) -> str:
    """Why a path cannot be written: what uncaptured thing stands there, or what is missing; "" if
    nothing is.
    """
    if step.new is None:
        return ""
    if (
        step.conversion is not None
        and step.conversion.lfs
        and (lacking := disk.lacks_lfs(step.new))
    ):
        return f"its LFS object {lacking[:12]} is not here (git lfs fetch --all)"
    if blocked := _in_the_way(parents(step.path), removed, disk):
        return blocked
    kind = disk.kind(step.path)
    if kind == "shut":
        return "its directory cannot be entered"
    if kind == "directory":
        lost = next(
            (path for path in tuple(disk.below(step.path)) or (step.path,) if path not in removed),
            None,
        )
        return (
            "" if lost is None else f"a directory stands there, and {display(lost)} is not captured"
        )
    in_the_way = kind and step.old is None and not _stands_already(step, disk)
    return "something that is not captured stands there" if kind == "special" or in_the_way else ""


def _in_the_way(directories: Iterable[bytes], removed: Collection[bytes], disk: Disk) -> str:
    """What uncaptured thing stands where one of these directories must be; "" if nothing does."""
    for path in directories:
        if disk.kind(path) == "shut":
            return f"the directory of {display(path)} cannot be entered"
        if disk.kind(path) not in ("", "directory") and path not in removed:
            return f"{display(path)} is in the way and not captured"
    return ""


def _stands_already(step: Step, disk: Disk) -> bool:
    """Whether the disk has, uncaptured (ignored, perhaps), the very file that is to be brought
    back.
    """
    return (
        step.new is not None
        and step.old is None
        and disk.stands(step.path, step.new, step.conversion)
    )


def _step(change: FileChange, now: Side, target: Side) -> Step:
    if change.new is None:
        return Step(change.path, change.old, None)
    permissions = target.snapshot.modes.get(change.path)
    if permissions is None and change.path in now.snapshot.modes:
        permissions = ORDINARY
    return Step(
        change.path, change.old, change.new, target.conversions.get(change.path), permissions
    )


def _ordered(
    steps: list[Step],
    kept: list[Kept],
    now: Side,
    target: Side,
    scope: Collection[bytes],
    missing: Collection[bytes],
    empty: Collection[bytes],
    first: Collection[bytes],
) -> FilePlan:
    """Clear what stands in the way, write, then remove, then directories: no step trips over
    another.

    `missing` are the empty directories that are to be there, `empty` those of now that may go, and
    what is in `first` must go before anything comes.
    """
    write = [step for step in steps if step.new is not None]
    gone = [step for step in steps if step.new is None]
    places = {step.path for step in write}
    above = {parent for path in places for parent in parents(path)}
    clear = [
        s
        for s in gone
        if s.path in above or s.path in first or any(p in places for p in parents(s.path))
    ]
    cleared = {step.path for step in clear}
    touched = {step.path for step in steps} | {one.path for one in kept}
    permissions = _permissions(
        now, target, lambda path: path not in touched and within(path, scope)
    )
    emptied = {p for s in gone for p in parents(s.path)} | {
        d for e in empty for d in (e, *parents(e))
    }
    # each is removed only if nothing else is in it
    surplus = (d for d in emptied if not target.holds(d))
    return FilePlan(
        clear=tuple(clear),
        write=tuple(write),
        remove=tuple(step for step in gone if step.path not in cleared),
        make_directories=tuple(sorted(missing)),
        remove_directories=tuple(sorted(surplus, key=lambda d: (-d.count(b"/"), d))),
        permissions=tuple(permissions),
        kept=tuple(sorted(kept, key=lambda k: k.path)),
    )


def _permissions(
    now: Side, target: Side, wanted: Callable[[bytes], bool]
) -> Iterator[tuple[bytes, int]]:
    """Files whose content stays and whose permission bits do not; -1 asks for the ordinary ones."""
    ours: Mapping[bytes, int] = now.snapshot.modes
    theirs: Mapping[bytes, int] = target.snapshot.modes
    for path in sorted(ours.keys() | theirs.keys()):
        if (
            ours.get(path) != theirs.get(path)
            and wanted(path)
            and now.entry(path)
            and target.entry(path)
        ):
            yield path, theirs.get(path, ORDINARY)
