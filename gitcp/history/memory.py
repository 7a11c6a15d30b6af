"""Read and compare the memory that agents keep of a project. Stores nothing."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import NamedTuple

from gitcp import humanize
from gitcp.errors import StoreDamaged
from gitcp.model import FILE, RESERVED, Checkpoint, Entry, FileChange, Oid
from gitcp.saving import memory
from gitcp.store import MEMORY, Store

DAMAGED = "its stored copy is damaged"
TOO_LARGE = f"it has more than {humanize.size(memory.LARGEST)}"
SKIPPED = "not saved: it could not be read, or is too large"
MORE = "not saved: there are too many"


class Remembered(NamedTuple):
    """A file of an agent's memory in a checkpoint, with its size in bytes. `problem` is why it is
    not there, "" if it is; without a path it is about all that is not listed.
    """

    agent: str
    path: str
    bytes: int
    problem: str = ""


class MemoryChange(NamedTuple):
    """A file of an agent's memory that differs; `old` and `new` are None if it does not exist.
    `problem` is why it cannot be compared, "" if it can; then `blobs` are what there is of it.
    """

    agent: str
    path: str
    old: bytes | None
    new: bytes | None
    problem: str = ""
    blobs: tuple[Oid | bytes | None, Oid | bytes | None] | None = None

    def as_file(self, store: Store) -> FileChange:
        """Return the change as one of the path at which a checkpoint has the file."""
        path = b"/".join((RESERVED, MEMORY, os.fsencode(f"{self.agent}/{self.path}")))
        sides = (
            None if each is None else Entry(FILE, _oid(store, each))
            for each in self.blobs or (self.old, self.new)
        )
        return FileChange(path, *sides)


def _oid(store: Store, content: Oid | bytes) -> Oid:
    if isinstance(content, str):
        return content
    return store.repo.object_format.oid_of("blob", content)


def listed(store: Store, checkpoint: Checkpoint) -> list[Remembered]:
    """Return the files of the memories in a checkpoint, and those that it lacks."""
    return [
        each
        for agent in (checkpoint.memory.agents if checkpoint.memory else ())
        for each in _listed(store, checkpoint, agent)
    ]


def _listed(store: Store, checkpoint: Checkpoint, agent: str) -> Iterator[Remembered]:
    try:
        blobs = memory.files(store.reader, checkpoint.memory, agent)
    except StoreDamaged:
        yield Remembered(agent, "", 0, DAMAGED)
        return
    for path, oid in blobs.items():
        data, problem = _content(store, oid)
        yield Remembered(agent, path, len(data or b""), problem)
    for path in memory.skipped(checkpoint.memory, agent):
        yield Remembered(agent, path, 0, SKIPPED if path else MORE)


def _content(store: Store, side: Oid | bytes | None) -> tuple[bytes | None, str]:
    """Return a file's content, and why there is none, "" if it can be compared."""
    if not isinstance(side, str):
        return side, ""
    try:
        data = memory.content(store.reader, side)
    except StoreDamaged:
        return None, DAMAGED
    return data, TOO_LARGE if data is None else ""


def stored(store: Store, checkpoint: Checkpoint, agent: str) -> dict[str, bytes]:
    """Return the files of an agent's memory in a checkpoint, by path; of one that is larger than
    any that is saved only that. Raises StoreDamaged.
    """
    blobs = memory.files(store.reader, checkpoint.memory, agent)
    contents = {path: memory.content(store.reader, oid) for path, oid in blobs.items()}
    too_large = f"({TOO_LARGE})\n".encode()
    return {path: too_large if data is None else data for path, data in contents.items()}


def compare(store: Store, old: Checkpoint, new: Checkpoint | None) -> Iterator[MemoryChange]:
    """Yield what differs between the memories that two checkpoints have, or that a checkpoint has
    and the agents have now (None).
    """
    for agent in old.memory.agents if old.memory else ():
        if new is not None and not memory.is_known(new.memory, agent):
            continue
        try:
            yield from _changes(store, agent, old, new)
        except StoreDamaged:
            yield MemoryChange(agent, "", None, None, DAMAGED)


def _changes(
    store: Store, agent: str, old: Checkpoint, new: Checkpoint | None
) -> Iterator[MemoryChange]:
    """Yield what differs of one agent's memory. Raises StoreDamaged for a tree."""
    before: dict[str, Oid | bytes] = {**memory.files(store.reader, old.memory, agent)}
    after: dict[str, Oid | bytes] = {
        **(
            memory.current(store, agent)
            if new is None
            else memory.files(store.reader, new.memory, agent)
        )
    }
    for path in sorted(before | after):
        sides = before.get(path), after.get(path)
        if sides[0] == sides[1]:
            continue
        (was, lost), (now, missing) = (_content(store, side) for side in sides)
        problem = lost or missing
        if problem or was != now:
            yield MemoryChange(agent, path, was, now, problem, sides if problem else None)
