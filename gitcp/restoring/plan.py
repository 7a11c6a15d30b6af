"""Plan what a restore does to the files: a pure function of two snapshots and a view of the disk.

A path is removed only if the target does not have it, the target covered it, no ignore rule of then
or now matches it, and it is in the current snapshot (and so in the safety checkpoint). A path is
written only where nothing uncaptured is in the way. Everything else is kept, with a reason.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import NamedTuple, Protocol

from gitcp.errors import Refused
from gitcp.git.repo import Repository
from gitcp.git.trees import TreeEntry, TreeReader
from gitcp.model import (
    FILE,
    GITLINK,
    SYMLINK,
    TREE,
    AtPath,
    Conversion,
    Entry,
    FileChange,
    Oid,
    Snapshot,
)
from gitcp.restoring import databases
from gitcp.restoring.databases import LiveDatabase
from gitcp.value import Value, replace
from gitcp.worktree import rules
from gitcp.worktree.paths import display, folded, problem
from gitcp.worktree.rules import OutsideRules

ORDINARY = -1
"""Stands for the permission bits that the umask gives, where the target recorded none."""


ALONE = b"/."
"""Suffix of a directory in a scope that stands for the directory itself, without its content."""


class FileStep(AtPath):
    """One path to change: the current entry, the wanted one, and how its bytes follow from the
    blob.
    """

    old: Entry | None
    new: Entry | None
    conversion: Conversion | None = None
    permissions: int | None = None


class Permission(NamedTuple):
    """The permission bits that a file, or a directory, gets; -1 stands for the ordinary ones."""

    path: bytes
    bits: int
    is_directory: bool


class Kept(AtPath):
    """A path that differs from the target and is kept. `missing`: it should have been restored."""

    reason: str
    missing: bool = False


class FilePlan(Value):
    """Everything that a restore does to the files, in the order in which it is done; before all,
    the `databases` are restored that a program has open.
    """

    clear: tuple[FileStep, ...] = ()
    write: tuple[FileStep, ...] = ()
    remove: tuple[FileStep, ...] = ()
    make_directories: tuple[bytes, ...] = ()
    remove_directories: tuple[bytes, ...] = ()
    permissions: tuple[Permission, ...] = ()
    kept: tuple[Kept, ...] = ()
    databases: tuple[LiveDatabase, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.paths)

    @property
    def paths(self) -> tuple[bytes, ...]:
        """Every path that the plan changes."""
        return (*self.files, *self.make_directories, *self.remove_directories)

    @property
    def changed(self) -> tuple[bytes, ...]:
        """Every path that the plan changes, as a scope: directories without their content."""
        directories = (*self.make_directories, *self.remove_directories)
        return (*self.files, *(path + ALONE for path in directories))

    @property
    def files(self) -> tuple[bytes, ...]:
        """Every file and link that the plan changes."""
        steps = (step.path for step in (*self.clear, *self.write, *self.remove))
        databases = (path for each in self.databases for path in each.paths)
        return (*databases, *steps, *(each.path for each in self.permissions))

    @property
    def replaced(self) -> tuple[bytes, ...]:
        """The files that other ones replace, or that are removed."""
        return tuple(step.path for step in (*self.clear, *self.write, *self.remove) if step.old)

    @property
    def created(self) -> tuple[bytes, ...]:
        """The files and empty directories that the plan creates where nothing was."""
        return (*(step.path for step in self.write if step.old is None), *self.make_directories)


class SnapshotReader(TreeReader, Protocol):
    """Reads the trees and ignore files of snapshots."""

    def read_blob(self, oid: Oid) -> bytes: ...
    def compare(self, old: Oid | None, new: Oid | None) -> tuple[FileChange, ...]: ...


class Disk(databases.Disk, Protocol):
    """What a plan needs to know of the working tree and of LFS objects."""

    def kind(self, path: bytes) -> str: ...
    def below(self, path: bytes) -> Iterable[bytes]: ...
    def read(self, path: bytes) -> bytes | None: ...
    def is_same(self, path: bytes, other: bytes) -> bool: ...
    def has(self, path: bytes, entry: Entry, conversion: Conversion | None) -> bool: ...
    def lacks_lfs(self, entry: Entry) -> str: ...


class SnapshotFacts(Value):
    """What the operation log knows of the two states and their snapshots do not record.

    `created` are paths that did not exist in the target, ignored or not; `existing` are directories
    that did. `rules` are the ignore rules in force then from outside the target's files; None if
    unknown, which means the current ones. `recovered` are paths of the current snapshot where
    nothing else was captured.
    """

    created: Collection[bytes] = ()
    recovered: Collection[bytes] = ()
    existing: Collection[bytes] = ()
    rules: OutsideRules | None = None


NO_FACTS = SnapshotFacts()


class Side:
    """One of the two snapshots, queried by path. Each directory of its tree is read once."""

    def __init__(
        self, reader: TreeReader, snapshot: Snapshot, recovered: Collection[bytes] = ()
    ) -> None:
        """`recovered` are paths known to have existed in places that were not captured."""
        self.snapshot = snapshot
        self._recovered = recovered
        self._reader = reader
        self._names: dict[Oid, dict[bytes, TreeEntry]] = {}
        self._is_absent = absence(snapshot)
        self.unseen = {skip.path.rstrip(b"/"): skip.reason.value for skip in snapshot.skipped}
        self.foreign = {
            nested.path.rstrip(b"/"): "another repository" for nested in snapshot.nested
        }
        self.foreign |= {submodule.path: "a submodule" for submodule in snapshot.submodules}
        self.conversions = {conversion.path: conversion for conversion in snapshot.converted}
        self.raw = frozenset(snapshot.raw)
        self.stand_ins: Collection[bytes] = frozenset()
        """The paths of links for which a text file with the target was, and will be."""

    def entry(self, path: bytes) -> Entry | None:
        """Return the file, link or directory that the tree has at `path`; None if it has none."""
        entry = TreeEntry(b"", TREE, self.snapshot.tree)
        for name in path.split(b"/"):
            if entry.mode != TREE:
                return None
            if entry.oid not in self._names:
                self._names[entry.oid] = {
                    child.name: child for child in self._reader.read_tree(entry.oid)
                }
            child_entry = self._names[entry.oid].get(name)
            if child_entry is None:
                return None
            entry = child_entry
        return Entry(entry.mode, entry.oid)

    def has_file(self, path: bytes) -> bool:
        """Return whether the tree has a file or a link at `path`."""
        entry = self.entry(path)
        return entry is not None and entry.mode != TREE

    def has_directory(self, path: bytes) -> bool:
        """Return whether the snapshot has a directory at `path`, an empty one included."""
        entry = self.entry(path)
        return entry.mode == TREE if entry else path in self.snapshot.empty_directories

    def is_absent(self, path: bytes) -> bool:
        """Return whether sparse checkout kept this path out of the working tree. What is not in the
        tree was not kept out, also if everything else in its directory was.
        """
        return self._is_absent(path) and self.entry(path) is not None

    def unknown(self, path: bytes, *, past: bool = False) -> str:
        """Return why the snapshot cannot tell what was at `path`; "" if it can. `past` words it for
        the target.
        """
        if path in self._recovered:
            return ""
        for parent in (path, *parents(path)):
            if parent in self.unseen:
                return f"not captured {'then' if past else 'now'} ({self.unseen[parent]})"
            if parent in self.foreign:
                return f"inside {'what was then ' if past else ''}{self.foreign[parent]}"
        return ""

    def may_have(self, directory: bytes) -> bool:
        """Return whether this path existed, or may have where nothing was captured."""
        existed = (
            directory in self._recovered
            or directory in self._directories_outside_tree
            or self.entry(directory) is not None
        )
        return existed or bool(self.unknown(directory))

    @cached_property
    def _directories_outside_tree(self) -> frozenset[bytes]:
        """The directories known to have existed though the tree does not have them."""
        known = (*self.snapshot.empty_directories, *self.unseen, *self.foreign)
        return frozenset(self.snapshot.empty_directories) | {
            p for path in known for p in parents(path)
        }


def plan_files(
    repo: Repository,
    reader: SnapshotReader,
    sides: tuple[Snapshot, Snapshot],
    scope: Collection[bytes],
    disk: Disk,
    facts: SnapshotFacts = NO_FACTS,
) -> FilePlan:
    """Return the plan that turns the files of the first snapshot, the current one, into those of
    the second, the target.

    `scope` limits it to these paths and their content, or to the directory alone with ALONE as
    suffix (empty: everywhere). Raises Refused for a target with a path that no file may have: no
    save created it.
    """
    now, target = Side(reader, sides[0], facts.recovered), Side(reader, sides[1], facts.existing)
    if not target.snapshot.has_files:
        return FilePlan()
    scope = databases.with_sidecars(scope)
    target.stand_ins = () if repo.is_set("core.symlinks", default=True) else target.raw
    changes = [change for change in _changes(reader, now, target) if within(change.path, scope)]
    created = (change.path for change in changes if change.new is not None)
    _refuse_unsafe((*created, *target.snapshot.empty_directories))
    surplus = _empty(now, scope)
    removable = [*(each.path for each in changes if each.new is None), *surplus]
    removable = [path for path in removable if path not in facts.created]
    ignored = _ignored(repo, reader, target, removable, set(surplus), disk, facts.rules)
    ignored = {path for path in ignored if not databases.is_sidecar(path, target, disk)}
    decisions = [(change, _reason_to_keep(change, now, target, ignored)) for change in changes]
    kept = [kept for _, kept in decisions if kept is not None]
    wanted = [change for change, kept in decisions if kept is None]
    surplus = [path for path in surplus if path not in ignored]
    removed = {*(change.path for change in wanted if change.new is None), *surplus}
    missing_directories = _missing_directories(target, scope)
    created_files = [change.path for change in wanted if change.old is None]
    # A restore to before `readme` was renamed to `README` removed the file where both are one name.
    respelled = _respelled((*created_files, *missing_directories), removed, disk)
    steps, unwritable = _steps(wanted, now, target, removed, respelled, disk)
    missing_directories = [
        path for path in missing_directories if path in respelled or disk.kind(path) != "directory"
    ]
    creatable, blocked = _creatable(missing_directories, now, removed, disk)
    steps, live, refused, sidecars = _databases(steps, target, disk)
    kept += [*unwritable, *blocked, *refused]
    first = frozenset((*respelled.values(), *sidecars))
    ordered = _in_order(steps, kept, now, target, scope, creatable, surplus, first)
    return _with_databases(ordered, live)


def _databases(
    steps: Iterable[FileStep], target: Side, disk: Disk
) -> tuple[list[FileStep], list[LiveDatabase], list[Kept], list[bytes]]:
    """Return the other steps than those of databases that a program has open; these, and what is
    kept of them; and the paths that belong to a database. These are removed before it is written:
    SQLite would apply a log beside it to it.
    """
    others, live, refused = databases.live(steps, target, disk)
    kept = [Kept(each.path, each.reason, missing=True) for each in refused]
    sidecars = [s.path for s in others if databases.is_sidecar(s.path, target, disk)]
    return others, live, kept, sidecars


def _with_databases(plan: FilePlan, live: Sequence[LiveDatabase]) -> FilePlan:
    if not live:
        return plan
    apart = {path for one in live for path in one.paths}
    permissions = tuple(each for each in plan.permissions if each.path not in apart)
    return replace(plan, databases=tuple(live), permissions=permissions)


def _empty(now: Side, scope: Collection[bytes]) -> list[bytes]:
    """Return the current empty directories that the plan may remove."""
    directories = now.snapshot.empty_directories
    return [path for path in directories if within(path, scope) or _contains_any(path, scope)]


def _missing_directories(target: Side, scope: Collection[bytes]) -> list[bytes]:
    """Return the empty directories of the target that the plan may create."""
    directories = target.snapshot.empty_directories
    return [path for path in directories if within(path, scope) or path + ALONE in scope]


def _creatable(
    missing: Iterable[bytes], now: Side, removed: Collection[bytes], disk: Disk
) -> tuple[list[bytes], list[Kept]]:
    """Return the directories that can be created, and those that cannot, with the reason."""
    reasons = {
        path: now.unknown(path) or _obstacle((*parents(path), path), now, removed, disk)
        for path in missing
    }
    blocked = [Kept(path, reason, missing=True) for path, reason in reasons.items() if reason]
    return [path for path, reason in reasons.items() if not reason], blocked


def _steps(
    wanted: Iterable[FileChange],
    now: Side,
    target: Side,
    removed: Collection[bytes],
    respelled: Collection[bytes],
    disk: Disk,
) -> tuple[list[FileStep], list[Kept]]:
    """Return the steps for the changes, and the paths that cannot be written."""
    steps, unwritable = [], []
    for change in wanted:
        step = _step(change, now, target)
        reason = "" if change.path in respelled else _reason_not_to_write(step, now, removed, disk)
        if reason:
            unwritable.append(Kept(change.path, reason, missing=True))
        elif change.path in respelled or not _is_restored_already(step, disk):
            steps.append(step)
    return steps, unwritable


def _respelled(
    wanted: Iterable[bytes], removed: Collection[bytes], disk: Disk
) -> dict[bytes, bytes]:
    """Map each wanted path to the path of another spelling that is removed for it.

    Some file systems treat `Readme` and `README`, or two encodings of an accent, as one name.
    """
    existing = [path for path in wanted if disk.kind(path)]
    if not existing or not removed:
        return {}
    by_folded_name = {folded(path): path for path in removed}
    pairs = ((path, by_folded_name.get(folded(path))) for path in existing)
    return {
        path: other
        for path, other in pairs
        if other not in (None, path) and disk.is_same(path, other)
    }


def _refuse_unsafe(wanted: Iterable[bytes]) -> None:
    for path in wanted:
        if reason := problem(path):
            raise Refused(
                f"cannot restore the checkpoint: its path {display(path)!r} {reason}; "
                "nothing was changed"
            )


def within(path: bytes, scope: Collection[bytes]) -> bool:
    """Return whether a path is one of `scope` or below one of them; an empty scope means
    everywhere.
    """
    return not scope or any(
        top in (b"", path) or path.startswith(top.rstrip(b"/") + b"/") for top in scope
    )


def _contains_any(directory: bytes, scope: Collection[bytes]) -> bool:
    """Return whether one of the paths of `scope` is below a directory: if that is empty, it was
    created or left for their sake.
    """
    return any(path.startswith(directory + b"/") for path in scope)


def parents(path: bytes) -> list[bytes]:
    """Return the directories above a path, the outermost first."""
    parts = path.split(b"/")
    return [b"/".join(parts[:depth]) for depth in range(1, len(parts))]


def absence(snapshot: Snapshot) -> Callable[[bytes], bool]:
    """Return the function that tells whether sparse checkout kept a path out of the working tree:
    the path itself, or a directory above it.
    """
    absent = frozenset(snapshot.absent)

    def is_absent(path: bytes) -> bool:
        return path in absent or any(parent + b"/" in absent for parent in parents(path))

    return is_absent if absent else lambda _: False


def _changes(reader: SnapshotReader, now: Side, target: Side) -> Iterator[FileChange]:
    """Yield the paths whose blob or mode differs, then those whose bytes differ all the same."""
    seen = set()
    for change in reader.compare(now.snapshot.tree, target.snapshot.tree):
        seen.add(change.path)
        yield change
    conversions = set(now.snapshot.converted) ^ set(target.snapshot.converted)
    for path in sorted({conversion.path for conversion in conversions} - seen):
        entry = target.entry(path)
        if entry is not None:
            yield FileChange(path, entry, entry)


def _reason_to_keep(
    change: FileChange, now: Side, target: Side, ignored: Collection[bytes]
) -> Kept | None:
    """Return why a path that differs must be kept; None if it may be changed."""
    path, wanted = change.path, change.new is not None
    if GITLINK in (change.old and change.old.mode, change.new and change.new.mode):
        if change.old is None:
            typed = shlex.quote(display(path))
            return Kept(path, f"a submodule, restored by: git submodule update --init -- {typed}")
        return Kept(path, "a submodule: kept as it is")
    if now.is_absent(path) or target.is_absent(path):
        return Kept(path, "outside the sparse checkout")
    if reason := now.unknown(path):
        return Kept(path, reason, missing=wanted)
    if not wanted and (reason := target.unknown(path, past=True)):
        return Kept(path, reason)
    return Kept(path, "ignored") if path in ignored else None


def _ignored(
    repo: Repository,
    reader: SnapshotReader,
    target: Side,
    paths: list[bytes],
    directories: Collection[bytes],
    disk: Disk,
    outside: OutsideRules | None,
) -> set[bytes]:
    """Return those of `paths` that the rules on disk or those of the target ignore."""
    if not paths:
        return set()
    paths = [path + b"/" if path in directories else path for path in paths]

    def read_past(path: bytes) -> bytes | None:
        entry = target.entry(path)
        return (
            reader.read_blob(entry.oid)
            if entry and entry.mode not in (SYMLINK, GITLINK, TREE)
            else None
        )

    ignored = rules.ignored(repo, paths, disk.read) | rules.ignored(repo, paths, read_past, outside)
    return {path.rstrip(b"/") for path in ignored}


def _reason_not_to_write(step: FileStep, now: Side, removed: Collection[bytes], disk: Disk) -> str:
    """Return why a path cannot be written: an obstacle, or missing data; "" if it can."""
    if step.new is None:
        return ""
    if (
        step.conversion is not None
        and step.conversion.lfs
        and (missing := disk.lacks_lfs(step.new))
    ):
        return f"its LFS object {missing[:12]} is missing (git lfs fetch --all)"
    if step.old is not None and step.old.mode != TREE:
        return ""  # it was just captured; whoever writes looks again
    if blocked := _obstacle(parents(step.path), now, removed, disk):
        return blocked
    kind = disk.kind(step.path)
    if kind == "shut":
        return "its directory cannot be entered"
    if kind == "directory":
        lost = next(
            (path for path in tuple(disk.below(step.path)) or (step.path,) if path not in removed),
            None,
        )
        return "" if lost is None else f"a directory is there, and {display(lost)} is not captured"
    in_the_way = kind and step.old is None and not _is_restored_already(step, disk)
    return "something that is not captured is there" if kind == "special" or in_the_way else ""


def _obstacle(
    directories: Iterable[bytes], now: Side, removed: Collection[bytes], disk: Disk
) -> str:
    """Return what thing that stays is where one of these directories must be; "" if nothing is."""
    for path in directories:
        # One directory that could be listed but not entered (0600) stopped the whole restore.
        if disk.kind(path) == "shut":
            return f"the directory of {display(path)} cannot be entered"
        if disk.kind(path) not in ("", "directory") and path not in removed:
            if now.has_file(path):
                return f"{display(path)} is in the way and not one of the paths to restore"
            return f"{display(path)} is in the way and not captured"
    return ""


def _is_restored_already(step: FileStep, disk: Disk) -> bool:
    """Return whether the disk has the wanted file already, uncaptured (ignored, perhaps)."""
    return (
        step.new is not None and step.old is None and disk.has(step.path, step.new, step.conversion)
    )


def _step(change: FileChange, now: Side, target: Side) -> FileStep:
    if change.new is None:
        return FileStep(change.path, change.old, None)
    permissions = target.snapshot.modes.get(change.path)
    if permissions is None and change.path in now.snapshot.modes:
        permissions = ORDINARY
    new = change.new
    if new.mode == SYMLINK and change.path in target.stand_ins:
        new = Entry(FILE, new.oid)
    return FileStep(change.path, change.old, new, target.conversions.get(change.path), permissions)


def _in_order(
    steps: list[FileStep],
    kept: list[Kept],
    now: Side,
    target: Side,
    scope: Collection[bytes],
    missing: Collection[bytes],
    empty: Collection[bytes],
    first: Collection[bytes],
) -> FilePlan:
    """Return the plan in an order in which no step blocks another: clear obstacles, write, remove,
    then directories.

    `missing` are the empty directories to create, `empty` the current ones that may be removed;
    paths in `first` are removed before anything is written.
    """
    write = [step for step in steps if step.new is not None]
    removals = [step for step in steps if step.new is None]
    targets = {step.path for step in write}
    above = {parent for path in targets for parent in parents(path)}
    clear = [
        s
        for s in removals
        if s.path in above or s.path in first or any(p in targets for p in parents(s.path))
    ]
    cleared = {step.path for step in clear}
    touched = {step.path for step in steps} | {one.path for one in kept}
    permissions = _permissions(
        now, target, lambda path: path not in touched and within(path, scope)
    )
    emptied = {p for s in removals for p in parents(s.path)} | {
        d for e in empty for d in (e, *parents(e))
    }
    # each is removed only if nothing else is in it
    surplus = (d for d in emptied if not target.may_have(d))
    return FilePlan(
        clear=tuple(clear),
        write=tuple(write),
        remove=tuple(step for step in removals if step.path not in cleared),
        make_directories=tuple(sorted(missing)),
        remove_directories=tuple(sorted(surplus, key=lambda d: (-d.count(b"/"), d))),
        permissions=tuple(permissions),
        kept=tuple(sorted(kept, key=lambda k: k.path)),
    )


def _permissions(now: Side, target: Side, wanted: Callable[[bytes], bool]) -> Iterator[Permission]:
    """Yield the files whose content stays and whose permission bits change, and the directories
    with recorded bits that are made or had others.
    """
    current: Mapping[bytes, int] = now.snapshot.modes
    target_modes: Mapping[bytes, int] = target.snapshot.modes
    for path in sorted(current.keys() | target_modes.keys()):
        differs = current.get(path) != target_modes.get(path)
        if target.has_directory(path):
            is_changed = differs or (path in target_modes and not now.has_directory(path))
        else:
            is_changed = differs and bool(now.entry(path) and target.entry(path))
        if is_changed and wanted(path):
            bits = target_modes.get(path, ORDINARY)
            yield Permission(path, bits, target.has_directory(path))
