"""SQLite databases in a plan: their files belong together, and one that a program has open is
restored through SQLite.

A program that has a database open goes on writing into the file that was replaced, and what it
writes there is lost. Pure: what is on the disk is asked of the `Disk`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import NamedTuple, Protocol, TypeVar

from gitcp.model import GITLINK, SYMLINK, TREE, AtPath, Conversion, Entry, Oid
from gitcp.worktree.sqlite_files import HEADER, database_of
from gitcp.worktree.sqlite_locks import LOG, MAIN, MEMBERS, MEMORY

S = TypeVar("S", bound=AtPath)


MIXED = "a database that changed since"
"""Why the files of a database are in conflict: they belong together, and are never merged."""


class Member(NamedTuple):
    """A file of a database in the target: what is added to the name, and its content."""

    suffix: bytes
    entry: Entry
    conversion: Conversion | None


class LiveDatabase(AtPath):
    """A database to restore through SQLite, since the processes `users` have it open."""

    members: tuple[Member, ...]
    users: tuple[str, ...]

    @property
    def paths(self) -> tuple[bytes, ...]:
        """The files of the database that may change."""
        return tuple(self.path + suffix for suffix in MEMBERS)


class Refusal(AtPath):
    """A file of a database that cannot be restored, and why."""

    reason: str


class Side(Protocol):
    """A snapshot, queried by path."""

    conversions: dict[bytes, Conversion]

    def entry(self, path: bytes) -> Entry | None: ...


class BlobReader(Protocol):
    """Reads blobs in chunks."""

    def stream_blob(self, oid: Oid) -> Iterator[bytes]: ...


class Disk(Protocol):
    """What is asked of the disk and the contents."""

    def writers(self, paths: Collection[bytes]) -> Mapping[bytes, tuple[str, ...]]: ...
    def holds_database(self, path: bytes) -> bool: ...
    def is_database(self, entry: Entry, conversion: Conversion | None) -> bool: ...


def with_sidecars(scope: Collection[bytes]) -> Collection[bytes]:
    """Return a scope with the sidecars of what may be a database in it."""
    return [path + suffix for path in scope for suffix in (MEMBERS if path else (MAIN,))]


def is_sidecar(path: bytes, side: Side, disk: Disk) -> bool:
    """Return whether a path belongs to a database that a side has."""
    base = database_of(path)
    return base is not None and _is_database(side, base, disk)


def live(
    steps: Iterable[S], target: Side, disk: Disk
) -> tuple[list[S], list[LiveDatabase], list[Refusal]]:
    """Return the steps without those of databases that a program has open, these databases, and
    those among them that cannot be restored.
    """
    steps = list(steps)
    bases = {database_of(step.path) or step.path for step in steps}
    files = [base + suffix for base in bases for suffix in (MAIN, LOG, MEMORY)]
    writers = disk.writers(files)
    databases: dict[bytes, LiveDatabase] = {}
    users_of_lost: dict[bytes, str] = {}
    for base in sorted(bases):
        each = (user for suffix in (MAIN, LOG, MEMORY) for user in writers.get(base + suffix, ()))
        users = tuple(dict.fromkeys(each))
        if users and disk.holds_database(base):
            if _is_database(target, base, disk):
                databases[base] = LiveDatabase(base, _members(target, base), users)
            else:
                users_of_lost[base] = ", ".join(users)
    others, refused = [], []
    for step in steps:
        base = database_of(step.path) or step.path
        if base in users_of_lost:
            why = f"{users_of_lost[base]} has this database open: stop it first"
            refused.append(Refusal(step.path, why))
        elif base not in databases:
            others.append(step)
    return others, list(databases.values()), refused


def torn(
    reader: BlobReader,
    paths: Iterable[bytes],
    after: Callable[[bytes], Entry | None],
    whole: Side,
) -> set[bytes]:
    """Return the files of those databases at `paths` that a merge would make of several states:
    what they are `after` it is not, for each of them, what the state `whole` has.
    """
    torn_paths: set[bytes] = set()
    for base in {database_of(path) or path for path in paths}:
        members = [base + suffix for suffix in MEMBERS]
        if any(after(path) != whole.entry(path) for path in members):
            entries = (after(base), whole.entry(base))
            if any(_begins_as_database(reader, entry) for entry in entries):
                torn_paths.update(members)
    return torn_paths


def _begins_as_database(reader: BlobReader, entry: Entry | None) -> bool:
    if entry is None or entry.mode in (TREE, SYMLINK, GITLINK):
        return False
    return next(iter(reader.stream_blob(entry.oid)), b"").startswith(HEADER)


def _members(target: Side, base: bytes) -> tuple[Member, ...]:
    entries = ((suffix, target.entry(base + suffix)) for suffix in MEMBERS)
    return tuple(
        Member(suffix, entry, target.conversions.get(base + suffix))
        for suffix, entry in entries
        if entry is not None and entry.mode not in (TREE, SYMLINK)
    )


def _is_database(side: Side, path: bytes, disk: Disk) -> bool:
    entry = side.entry(path)
    if entry is None or entry.mode in (TREE, SYMLINK):
        return False
    return disk.is_database(entry, side.conversions.get(path))
