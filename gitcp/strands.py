"""Checkpoints for Strands Agents: each write of a session manager is a commit with the files.

    from gitcp.strands import GitStorage

    Agent(session_manager=SnapshotSessionManager("chat-42",
    storage=GitStorage("/path/to/repository")))

`GitStorage` is a Strands storage: bytes by key. One storage is one gitcp session. Its main stream
lists the keys, one per line; the bytes of each key are a separate stream, stored only on change.
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
from gitcp.integrations.thread import (
    Changes,
    Contents,
    StreamContent,
    Thread,
    encode,
    parsed,
    session_name,
)
from gitcp.model import Agent, Host
from gitcp.saving.conversation import MAIN

AGENT = "strands"

T = TypeVar("T")


class GitStorage(Storage):
    """Stores bytes by key in the repository around `path`, in the gitcp session for `name`.

    A key is any non-empty text. Raises what `gitcp.open` raises; its methods raise StorageError.
    """

    def __init__(
        self, path: str | os.PathLike[str] = ".", *, name: str = "strands", host: Host | None = None
    ) -> None:
        self.checkpoints = api.open(path, host=host)
        self.thread = Thread(self.checkpoints, session_name(name), Agent(AGENT, name))

    async def write(self, key: str, data: bytes) -> None:
        """Save bytes under a key, in one checkpoint with the current files."""
        await _in_thread(self._write, key, bytes(data))

    async def read(self, key: str) -> bytes | None:
        """Return the bytes of a key, None if it does not exist."""
        return await _in_thread(self._read, key)

    async def delete(self, key: str) -> None:
        """Remove a key if it exists. Earlier checkpoints still have it."""
        await _in_thread(self._delete, key)

    async def list(self, query: str = "") -> builtins.list[str]:
        """Return the keys with this prefix, sorted."""
        return await _in_thread(self._list, query)

    # ------------------------------------------------------------ synchronous

    def _write(self, key: str, data: bytes) -> None:
        if not key:
            raise StorageError("a key must not be empty; nothing was saved")

        def written(contents: Contents) -> Changes | None:
            index = _index(contents)
            checksum = sha256(data).hexdigest()
            if index.get(key) == checksum:
                return None
            return {
                MAIN: _encode_index({**index, key: checksum}),
                _stream(key): StreamContent(data),
            }

        self.thread.change(written)

    def _read(self, key: str) -> bytes | None:
        contents = self.thread.contents()
        return contents.read(_stream(key)) if key in _index(contents) else None

    def _delete(self, key: str) -> None:
        def without(contents: Contents) -> Changes | None:
            index = _index(contents)
            if index.pop(key, None) is None:
                return None
            return {MAIN: _encode_index(index), _stream(key): None}

        self.thread.change(without)

    def _list(self, query: str) -> builtins.list[str]:
        return sorted(key for key in _index(self.thread.contents()) if key.startswith(query))


async def _in_thread(call: Callable[..., T], *given: object) -> T:
    try:
        return await asyncio.to_thread(call, *given)
    except GitcpError as error:
        raise StorageError(str(error)) from error


def _index(contents: Contents) -> dict[str, str]:
    """Return the checksum of each key's bytes."""
    return {line["key"]: line["sha256"] for line in parsed(contents.read())}


def _encode_index(index: dict[str, str]) -> StreamContent:
    return StreamContent(encode({"key": key, "sha256": index[key]} for key in sorted(index)))


def _stream(key: str) -> str:
    return f"values/{sha256(key.encode('utf-8', 'surrogatepass')).hexdigest()[:32]}"
