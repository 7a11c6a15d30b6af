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
import copy
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from hashlib import sha256
from typing import TYPE_CHECKING, Self, TypeVar

from gitcp.integrations.extras import missing

try:
    from strands.storage.storage import (
        _NAMESPACED,
        Storage,
        StorageSearchResult,
        _normalize_key,
        _normalize_prefix,
    )
    from strands.types.exceptions import StorageError
except ImportError as error:
    raise missing("gitcp.strands", "strands", error) from None

from gitcp import api
from gitcp.errors import GitcpError
from gitcp.integrations.thread import (
    Changes,
    StreamContent,
    Thread,
    ThreadContents,
    encode,
    parsed,
    session_name,
)
from gitcp.model import MAIN, Agent, Host

if TYPE_CHECKING:
    from strands.storage.search.types import SearchStrategy

AGENT = "strands"

T = TypeVar("T")


class GitStorage(Storage):
    """Stores bytes by key in the repository around `path`, in the gitcp session for `name`.

    Keys follow the rules of the framework's own storages: runs of "/" are one, and a key with ".."
    as a part or a backslash is refused. With a `search_strategy`, writes are indexed and searches
    answered by it. Raises what `gitcp.open` raises; its methods raise StorageError.
    """

    def __init__(
        self,
        path: str | os.PathLike[str] = ".",
        *,
        name: str = "strands",
        search_strategy: SearchStrategy[GitStorage] | None = None,
        host: Host | None = None,
    ) -> None:
        self.checkpoints = api.open(path, host=host)
        self.thread = Thread(self.checkpoints, session_name(name), Agent(AGENT, name))
        self._strategy = search_strategy
        self._prefix = ""

    async def write(self, key: str, data: bytes) -> None:
        """Save bytes under a key, in one checkpoint with the current files."""
        key, data = _normalize_key(key), bytes(data)
        await _in_thread(self._write, self._prefix + key, data)
        if self._strategy is not None:
            try:
                await self._strategy.index(self, key, data)
            except Exception as error:
                raise StorageError(f"saved {key!r}, but indexing failed: {error}") from error

    async def read(self, key: str) -> bytes | None:
        """Return the bytes of a key, None if it does not exist."""
        return await _in_thread(self._read, self._prefix + _normalize_key(key))

    async def delete(self, key: str) -> None:
        """Remove a key if it exists. Earlier checkpoints still have it."""
        await _in_thread(self._remove, {self._prefix + _normalize_key(key)}.__contains__)

    async def list(self, query: str = "") -> builtins.list[str]:
        """Return the keys with this prefix, sorted."""
        keys = await _in_thread(self._list, self._prefix + _normalize_prefix(query))
        return [key.removeprefix(self._prefix) for key in keys]

    async def search(self, query: str) -> builtins.list[StorageSearchResult]:
        """Return the matches, the best first: the strategy's, or those with the most words of the
        query.
        """
        if self._strategy is not None:
            return await self._strategy.search(self, query)
        return await super().search(query)

    def namespace(self, prefix: str) -> Self:
        """Return a view of the keys below `prefix`, in the same session."""
        below = _normalize_prefix(prefix).rstrip("/")
        view = copy.copy(self)
        view._prefix = f"{self._prefix}{below}/" if below else self._prefix
        # by this the framework knows that it need not add a prefix of its own
        view._namespaced = _NAMESPACED  # type: ignore[attr-defined]
        return view

    def clear(self) -> None:
        """Remove every key of this view, in one checkpoint. Earlier checkpoints still have them."""
        with _storage_errors():
            self._remove(lambda key: key.startswith(self._prefix))

    # ------------------------------------------------------------ synchronous

    def _write(self, key: str, data: bytes) -> None:
        def written(contents: ThreadContents) -> Changes | None:
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

    def _remove(self, is_removed: Callable[[str], bool]) -> None:
        def without(contents: ThreadContents) -> Changes | None:
            index = _index(contents)
            removed = [key for key in index if is_removed(key)]
            if not removed:
                return None
            kept = {key: checksum for key, checksum in index.items() if key not in removed}
            return {MAIN: _encode_index(kept), **dict.fromkeys(map(_stream, removed))}

        self.thread.change(without)

    def _list(self, query: str) -> builtins.list[str]:
        return sorted(key for key in _index(self.thread.contents()) if key.startswith(query))


@contextmanager
def _storage_errors() -> Iterator[None]:
    try:
        yield
    except GitcpError as error:
        raise StorageError(str(error)) from error


async def _in_thread(call: Callable[..., T], *given: object) -> T:
    with _storage_errors():
        return await asyncio.to_thread(call, *given)


def _index(contents: ThreadContents) -> dict[str, str]:
    """Return the checksum of each key's bytes."""
    return {line["key"]: line["sha256"] for line in parsed(contents.read())}


def _encode_index(index: dict[str, str]) -> StreamContent:
    return StreamContent(encode({"key": key, "sha256": index[key]} for key in sorted(index)))


def _stream(key: str) -> str:
    return f"values/{sha256(key.encode('utf-8', 'surrogatepass')).hexdigest()[:32]}"
