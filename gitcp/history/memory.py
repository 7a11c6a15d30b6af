"""Read and compare the memory that agents keep of a project. Stores nothing."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import NamedTuple

from gitcp.model import FILE, RESERVED, Checkpoint, Entry, FileChange
from gitcp.saving import memory
from gitcp.store import MEMORY, Store


class Remembered(NamedTuple):
    """A file of an agent's memory in a checkpoint, with its size in bytes."""

    agent: str
    path: str
    bytes: int


class MemoryChange(NamedTuple):
    """A file of an agent's memory that differs; `old` and `new` are None if it does not exist."""

    agent: str
    path: str
    old: bytes | None
    new: bytes | None

    def as_file(self, store: Store) -> FileChange:
        """Return the change as one of the path at which a checkpoint has the file."""
        path = b"/".join((RESERVED, MEMORY, os.fsencode(f"{self.agent}/{self.path}")))
        sides = (
            None if data is None else Entry(FILE, store.repo.object_format.oid_of("blob", data))
            for data in (self.old, self.new)
        )
        return FileChange(path, *sides)


def listed(store: Store, checkpoint: Checkpoint) -> list[Remembered]:
    """Return the files of the memories in a checkpoint."""
    return [
        Remembered(agent, path, len(data))
        for agent in (checkpoint.memory.agents if checkpoint.memory else ())
        for path, data in stored(store, checkpoint, agent).items()
    ]


def stored(store: Store, checkpoint: Checkpoint, agent: str) -> dict[str, bytes]:
    """Return the files of an agent's memory in a checkpoint, by path."""
    blobs = memory.files(store.reader, checkpoint.memory, agent)
    return {path: store.reader.read_blob(oid) for path, oid in blobs.items()}


def compare(store: Store, old: Checkpoint, new: Checkpoint | None) -> Iterator[MemoryChange]:
    """Yield what differs between the memories that two checkpoints have, or that a checkpoint has
    and the agents have now (None).
    """
    for agent in old.memory.agents if old.memory else ():
        if new is None:
            after = memory.current(store, agent)
        elif memory.is_known(new.memory, agent):
            after = stored(store, new, agent)
        else:
            continue
        before = stored(store, old, agent)
        for path in sorted(before | after):
            if before.get(path) != after.get(path):
                yield MemoryChange(agent, path, before.get(path), after.get(path))
