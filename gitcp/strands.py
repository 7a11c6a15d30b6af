"""Strands Agents, checkpointed: whatever a session manager writes is a commit with the files of
then.

    from gitcp.strands import GitStorage

    Agent(session_manager=SnapshotSessionManager("chat-42",
    storage=GitStorage("/path/to/repository")))

`GitStorage` is a storage of Strands: bytes under keys. One storage is one session of gitcp. Its
main stream lists the keys, a line each; the bytes of each key are a stream of their own, which is
stored anew only if they change.
"""

from __future__ import annotations

import asyncio
import builtins
import os
from collections.abc import Callable
from hashlib import sha256
from typing import TypeVar

from gitcp.integrations.extras import missing

try:
    from strands.storage.storage import Storage
    from strands.types.exceptions import StorageError
except ImportError as error:
    raise missing("gitcp.strands", "strands", error) from None

from gitcp import api
from gitcp.errors import GitcpError
from gitcp.integrations.thread import Changes, Given, Held, Thread, encode, parsed, session_name
from gitcp.model import Agent, Host
from gitcp.saving.conversation import MAIN

AGENT = "strands"

T = TypeVar("T")


class GitStorage(Storage):
    """Keeps bytes under keys in the repository around `path`, in the session of gitcp that `name`
    stands for.

    A key may be any text but the empty one. Raises what `gitcp.open` does; its methods raise
    StorageError.
    """

    def __init__(
        self, path: str | os.PathLike[str] = ".", *, name: str = "strands", host: Host | None = None
    ) -> None:
        self.checkpoints = api.open(path, host=host)
        self.thread = Thread(self.checkpoints, session_name(name), Agent(AGENT, name))

    async def write(self, key: str, data: bytes) -> None:
        """Keep bytes under a key, in one checkpoint with the files of now."""
        await _awaited(self._write, key, bytes(data))

    async def read(self, key: str) -> bytes | None:
        """The bytes under a key, None if there are none."""
        return await _awaited(self._read, key)

    async def delete(self, key: str) -> None:
        """Take a key away, if it is there. Earlier checkpoints still have it."""
        await _awaited(self._delete, key)

    async def list(self, query: str = "") -> builtins.list[str]:
        """The keys that begin so, sorted."""
        return await _awaited(self._list, query)

    # ------------------------------------------------------------ the same, blocking

    def _write(self, key: str, data: bytes) -> None:
        if not key:
            raise StorageError("a key must not be empty: nothing was saved")

        def written(held: Held) -> Changes | None:
            index = _index(held)
            checksum = sha256(data).hexdigest()
            if index.get(key) == checksum:
                return None
            return {MAIN: _listed({**index, key: checksum}), _stream(key): Given(data)}

        self.thread.change(written)

    def _read(self, key: str) -> bytes | None:
        held = self.thread.held()
        return held.read(_stream(key)) if key in _index(held) else None

    def _delete(self, key: str) -> None:
        def without(held: Held) -> Changes | None:
            index = _index(held)
            if index.pop(key, None) is None:
                return None
            return {MAIN: _listed(index), _stream(key): None}

        self.thread.change(without)

    def _list(self, query: str) -> builtins.list[str]:
        return sorted(key for key in _index(self.thread.held()) if key.startswith(query))


async def _awaited(call: Callable[..., T], *given: object) -> T:
    try:
        return await asyncio.to_thread(call, *given)
    except GitcpError as error:
        raise StorageError(str(error)) from error


def _index(held: Held) -> dict[str, str]:
    """The checksum of each key's bytes."""
    return {line["key"]: line["sha256"] for line in parsed(held.read())}


def _listed(index: dict[str, str]) -> Given:
    return Given(encode({"key": key, "sha256": index[key]} for key in sorted(index)))


def _stream(key: str) -> str:
    return f"values/{sha256(key.encode('utf-8', 'surrogatepass')).hexdigest()[:32]}"
