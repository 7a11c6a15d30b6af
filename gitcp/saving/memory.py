"""The memory that agents keep of a project, as a part of checkpoints: it steers them in every
session, so a conversation without it is not the one of that moment.

The files are below `.gitcp/memory/<agent>/`, as they are: git stores unchanged ones once.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from gitcp import adapters, regular
from gitcp.errors import StoreDamaged
from gitcp.git import trees
from gitcp.git.reader import ObjectReader
from gitcp.model import FILE, TREE, Agent, Entry, Memory, Oid, Trigger
from gitcp.store import Store

LARGEST = 1 << 20
"""Bytes of a file that are read: agents read less of it."""

COMPLETE = (Trigger.BEFORE_RESTORE, Trigger.RESTORE)
"""The triggers with the memory of every agent: a restore may change that of any."""


def capture(
    store: Store, agent: Agent | None, trigger: Trigger, parent: Memory | None
) -> Memory | None:
    """Store the memory that an agent keeps of this project, and around a restore that of every
    agent; None if none keeps any.

    Writes objects only, and none for files that the parent's memory has.
    """
    parent = _readable(store.reader, parent)
    names = {agent.name} if agent else set()
    if trigger in COMPLETE:
        names |= set(adapters.remembering(store.repo.host))
    directories = {name: adapters.memory(name, store.repo.root, store.repo.host) for name in names}
    paths = {
        name: _found(directory, is_known=is_known(parent, name))
        for name, directory in directories.items()
    }
    agents = tuple(sorted(name for name, each in paths.items() if each is not None))
    if not agents:
        return None
    now = {
        f"{name}/{path}": oid
        for name in agents
        for path, oid in _files(store, paths[name], files(store.reader, parent, name)).items()
    }
    before = {
        f"{name}/{path}": oid
        for name in agents
        for path, oid in files(store.reader, parent, name).items()
    }
    if parent is not None and parent.agents == agents and now == before:
        return parent
    nested = trees.nest({path.encode(): Entry(FILE, oid) for path, oid in now.items()})
    return Memory(agents, trees.build(store.writer, nested) if now else None)


def _found(directory: Path | None, *, is_known: bool) -> dict[str, Path] | OSError | None:
    """Return the files of a memory; the error if they cannot be listed and the parent has them,
    None if it has not: a checkpoint that said "empty" made a restore remove all notes.
    """
    if directory is None:
        return None
    try:
        return adapters.memory_files(directory)
    except OSError as error:
        return error if is_known else None


def _files(
    store: Store, paths: dict[str, Path] | OSError | None, before: Mapping[str, Oid]
) -> dict[str, Oid]:
    """Store the files of a memory, and return their blobs by path. One that cannot be read is that
    of the parent, and so are all if they cannot be listed.
    """
    if isinstance(paths, OSError):
        return dict(before)
    stored = {}
    for path, file in (paths or {}).items():
        try:
            data = regular.content(file, LARGEST)
        except OSError:
            if path in before:
                stored[path] = before[path]
            continue
        oid = store.repo.object_format.oid_of("blob", data)
        is_held = oid == before.get(path) and not store.freshener.damaged
        stored[path] = oid if is_held else store.writer.write_blob(data)
    return stored


def files(reader: ObjectReader, memory: Memory | None, agent: str) -> dict[str, Oid]:
    """Return the files of an agent's memory in a checkpoint: blobs by path."""
    if memory is None or memory.tree is None:
        return {}
    top = trees.lookup(reader, memory.tree, agent.encode())
    if top is None or top.mode != TREE:
        return {}
    walked = trees.walk(reader, top.oid)
    return {os.fsdecode(path): entry.oid for path, entry in walked if entry.mode == FILE}


def _readable(reader: ObjectReader, memory: Memory | None) -> Memory | None:
    """Return a checkpoint's memory, None if its trees are damaged: it is stored anew then."""
    try:
        for agent in memory.agents if memory else ():
            files(reader, memory, agent)
    except StoreDamaged:
        return None
    return memory


def is_known(memory: Memory | None, agent: str) -> bool:
    """Return whether a checkpoint has an agent's memory, empty or not."""
    return memory is not None and agent in memory.agents


def is_same(reader: ObjectReader, now: Memory | None, before: Memory | None) -> bool:
    """Return whether the memory of each agent in `now` is the one in `before`."""
    if now == before or now is None:
        return True
    before = _readable(reader, before)
    return all(files(reader, now, agent) == files(reader, before, agent) for agent in now.agents)


def current(store: Store, agent: str) -> dict[str, bytes]:
    """Return an agent's memory as it is now: the bytes of each file that can be read, by path."""
    directory = adapters.memory(agent, store.repo.root, store.repo.host)
    contents: dict[str, bytes] = {}
    paths = _found(directory, is_known=False) or {}
    for path, file in paths.items() if isinstance(paths, dict) else ():
        with suppress(OSError):
            contents[path] = regular.content(file, LARGEST)
    return contents
