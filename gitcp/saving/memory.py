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
    now: dict[str, Oid] = {}
    skipped: list[bytes] = []
    is_checked = trigger in COMPLETE
    for name in agents:
        earlier = files(store.reader, parent, name)
        stored, left = _files(store, paths[name], earlier, is_checked=is_checked)
        now |= {f"{name}/{path}": oid for path, oid in stored.items()}
        skipped += (os.fsencode(f"{name}/{path}") for path in left)
    before = {
        f"{name}/{path}": oid
        for name in agents
        for path, oid in files(store.reader, parent, name).items()
    }
    known = (parent.agents, parent.skipped) if parent else None
    if known == (agents, tuple(skipped)) and now == before:
        return parent
    nested = trees.nest({path.encode(): Entry(FILE, oid) for path, oid in now.items()})
    return Memory(agents, trees.build(store.writer, nested) if now else None, tuple(skipped))


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
    store: Store,
    paths: dict[str, Path] | OSError | None,
    before: Mapping[str, Oid],
    *,
    is_checked: bool,
) -> tuple[dict[str, Oid], list[str]]:
    """Store the files of a memory. Return their blobs by path, and the files that are not stored.
    One that cannot be read is that of the parent, and so are all if they cannot be listed.

    Raises StoreDamaged if a blob of the parent is to be used again and, if `is_checked`, cannot be
    read: a restore is about to overwrite the file.
    """
    if isinstance(paths, OSError):
        return dict(before), [""]  # what else there is was not looked at: nothing is removed
    stored, skipped = {}, []
    for path, file in (paths or {}).items():
        try:
            data = regular.content(file, LARGEST)
        except OSError:
            if path in before:
                stored[path] = before[path]
            else:
                skipped.append(path)
            continue
        oid = store.repo.object_format.oid_of("blob", data)
        is_held = oid == before.get(path) and not store.freshener.damaged
        if is_held and is_checked:
            store.reader.read_blob(oid)
        stored[path] = oid if is_held else store.writer.write_blob(data)
    is_cut = paths is not None and len(paths) >= adapters.MOST_REMEMBERED
    return stored, [*skipped, *([""] if is_cut else [])]


def files(reader: ObjectReader, memory: Memory | None, agent: str) -> dict[str, Oid]:
    """Return the files of an agent's memory in a checkpoint: blobs by path."""
    if memory is None or memory.tree is None:
        return {}
    top = trees.lookup(reader, memory.tree, agent.encode())
    if top is None or top.mode != TREE:
        return {}
    walked = trees.walk(reader, top.oid)
    return {os.fsdecode(path): entry.oid for path, entry in walked if entry.mode == FILE}


def content(reader: ObjectReader, oid: Oid) -> bytes | None:
    """Return a file of a memory in a checkpoint; None if it is larger than any that is saved: who
    made a checkpoint that was fetched may have put anything there. Raises StoreDamaged.
    """
    ((_, data),) = reader.verify_blobs([oid], LARGEST)
    if isinstance(data, StoreDamaged):
        raise data
    return data


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


def is_skipped(memory: Memory | None, agent: str, path: str) -> bool:
    """Return whether a checkpoint could not save a file of an agent's memory."""
    skipped = memory.skipped if memory else ()
    return os.fsencode(f"{agent}/{path}") in skipped or f"{agent}/".encode() in skipped


def skipped(memory: Memory | None, agent: str) -> tuple[str, ...]:
    """Return the files of an agent's memory that are not saved."""
    start = f"{agent}/".encode()
    each = memory.skipped if memory else ()
    return tuple(os.fsdecode(path[len(start) :]) for path in each if path.startswith(start))


def is_same(reader: ObjectReader, now: Memory | None, before: Memory | None) -> bool:
    """Return whether the memory of each agent in `now` is the one in `before`."""
    if now == before or now is None:
        return True
    before = _readable(reader, before)
    return all(
        files(reader, now, agent) == files(reader, before, agent)
        and skipped(now, agent) == skipped(before, agent)
        for agent in now.agents
    )


def current(store: Store, agent: str) -> dict[str, bytes]:
    """Return an agent's memory as it is now: the bytes of each file that can be read, by path."""
    directory = adapters.memory(agent, store.repo.root, store.repo.host)
    contents: dict[str, bytes] = {}
    paths = _found(directory, is_known=False) or {}
    for path, file in paths.items() if isinstance(paths, dict) else ():
        with suppress(OSError):
            contents[path] = regular.content(file, LARGEST)
    return contents
