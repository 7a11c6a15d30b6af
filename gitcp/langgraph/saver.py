"""GitSaver: LangGraph's checkpointer interface on a git repository, synchronous and
asynchronous.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import suppress
from functools import cache, partial
from os import PathLike
from typing import Any, TypeVar, cast

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import (
    BaseCheckpointSaver,
    ChannelVersions,
    Checkpoint,
    CheckpointMetadata,
    CheckpointTuple,
    get_serializable_checkpoint_metadata,
)
from langgraph.checkpoint.serde.base import SerializerProtocol

from gitcp.langgraph.keys import checkpoint_id, requested
from gitcp.langgraph.reading import NotInMemory, tuple_of
from gitcp.langgraph.thread_store import Put, TaskWrites, ThreadStore, Views, drafted, written
from gitcp.langgraph.turns import Turns
from gitcp.model import Host
from gitcp.restoring.restore import Report

R = TypeVar("R")
BATCH = 16
"""Maximum checkpoints that are saved in one turn."""
PATIENCE, PAUSE = 1.0, 0.002
"""Seconds that a task's writes wait for the checkpoint that they follow, and between two looks."""
PAGE = 4
"""Checkpoints of a listing that are read in one turn."""


class GitSaver(BaseCheckpointSaver[str]):
    """A LangGraph checkpointer that stores in a git repository: a thread is a
    session, a checkpoint is a commit.

    `path` is a directory in the repository. With `worktree`, each checkpoint includes the files
    of that working tree, and a run that resumes from a checkpoint gets them restored.
    `messages` is the channel shown as the conversation (None: no channel). `host` overrides
    this process's environment, home and clock.

    Safe to share between threads; other processes may write the same threads. Raises
    RepositoryNotFound and Refused.
    """

    def __init__(
        self,
        path: str | PathLike[str] | None = None,
        *,
        worktree: str | PathLike[str] | None = None,
        serde: SerializerProtocol | None = None,
        messages: str | None = "messages",
        host: Host | None = None,
    ) -> None:
        super().__init__(serde=serde)
        self.threads = ThreadStore(path, worktree, messages, host)
        self._turns = Turns()
        self._waiting: list[Put] = []

    def _call(self, do: Callable[..., R], *args: Any) -> R:
        with self._turns:
            return do(self.serde, *args)

    def _read(self, do: Callable[[Views], R]) -> R:
        """Read from memory, without waiting for the turn of this thread; in its turn if that is not
        enough.
        """
        with suppress(NotInMemory):
            return do(cache(self.threads.view_in_memory))
        with self._turns:
            return do(cache(self.threads.view))

    # ------------------------------------------------------------ synchronous

    def get_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """Return the checkpoint in the config, or the last one of its thread and namespace."""
        stored = self._read(partial(self.threads.one, requested(config), _is_run(config)))
        return tuple_of(self.serde, stored) if stored else None

    def list(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> Iterator[CheckpointTuple]:
        """Yield checkpoints, greatest ids first; a few are read when the first of them is
        requested.
        """
        ask = requested(config) if config else None
        until = checkpoint_id(before) if before else None
        if limit is not None and limit <= 0:
            return
        size = PAGE if limit is None else min(PAGE, limit)
        first = partial(self.threads.first_page, self.serde, ask, until, size, filter)
        listed, page = self._read(first)
        while True:
            for stored in page:
                yield tuple_of(self.serde, stored)
            limit = None if limit is None else limit - len(page)
            if limit == 0 or not listed:
                return
            size = PAGE if limit is None else min(PAGE, limit)
            page = self._read(partial(self.threads.page, self.serde, listed[:size], filter))
            listed = listed[size:]

    def put(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        """Store a checkpoint as one commit. On any error, raises a GitcpError and stores
        nothing.
        """
        serializable = get_serializable_checkpoint_metadata(config, metadata)
        draft = drafted(self.serde, requested(config), checkpoint, serializable, new_versions)
        put = Put(self.serde, draft)
        self._put(put)
        return cast("RunnableConfig", put.config())

    def _put(self, put: Put) -> None:
        """Save a checkpoint in the turn of this thread, together with those that wait for theirs,
        unless an earlier turn has saved it.
        """
        self._waiting.append(put)
        try:
            with self._turns:
                if not put.is_over:
                    others = [each for each in [*self._waiting] if each is not put]
                    wait = [each for each in others if not each.is_over]
                    self.threads.put_all([put, *wait[: BATCH - 1]])
        finally:
            self._waiting.remove(put)

    def put_writes(
        self,
        config: RunnableConfig,
        writes: Sequence[tuple[str, Any]],
        task_id: str,
        task_path: str = "",
    ) -> None:
        """Store a task's writes. Without files they are one commit when the next checkpoint is
        stored, or when another process opens the repository.
        """
        given = written(self.serde, requested(config), writes, task_id, task_path)
        until = time.monotonic() + PATIENCE
        while self.threads.is_expected(given) and time.monotonic() < until:
            time.sleep(PAUSE)
        self._put_writes(given)

    def _put_writes(self, given: TaskWrites) -> None:
        if not self.threads.record_writes(given):
            self._call(lambda _: self.threads.put_writes(given))

    def delete_thread(self, thread_id: str) -> None:
        """Move a thread to the trash; `gitcp undo` restores it."""
        self._call(lambda _: self.threads.delete(str(thread_id)))

    def delete_for_runs(self, run_ids: Sequence[str]) -> None:
        """Drop the checkpoints of these runs, with their writes, in every thread."""
        self._call(lambda _: self.threads.delete_runs({str(run) for run in run_ids}))

    def copy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        """Copy a thread to a new one. Raises Refused if the target exists."""
        self._call(lambda _: self.threads.copy(str(source_thread_id), str(target_thread_id)))

    def prune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        """Keep the last checkpoint of each namespace and what its delta channels
        need; with "delete", keep nothing.
        """
        self._call(self.threads.prune, [str(thread) for thread in thread_ids], strategy)

    def restore(self, config: RunnableConfig, *, whole_tree: bool = False) -> Report | None:
        """Restore the files of a checkpoint; without an id, those of the last one or of the writes
        to it.

        Only what the thread changed is undone, and raises OthersAffected if that overlaps with
        changes of others; with `whole_tree`, all files are restored. The current files are saved
        first. Returns None if nothing differs. Raises RevisionNotFound and Refused.
        """
        return self._call(lambda _: self.threads.restore(requested(config), whole_tree=whole_tree))

    # ARG002: LangGraph's signature
    def get_next_version(self, current: str | float | None, channel: None) -> str:  # noqa: ARG002
        """Return a version greater than `current` that no other branch of the thread chooses.

        A graph asks for it between two steps. With a working tree, its files are scanned now.
        """
        number = int(str(current).split(".")[0]) if current is not None else 0
        version = f"{number + 1:032}.{random.random():016}"
        if self.threads.has_files:
            self._call(lambda _: self.threads.look(version))
        return version

    # ------------------------------------------------------------ asynchronous

    async def aget_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """See get_tuple."""
        return await asyncio.to_thread(self.get_tuple, config)

    async def alist(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> AsyncIterator[CheckpointTuple]:
        """See list."""
        results = self.list(config, filter=filter, before=before, limit=limit)
        while (item := await asyncio.to_thread(next, results, None)) is not None:
            yield item

    async def aput(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        """See put."""
        return await asyncio.to_thread(self.put, config, checkpoint, metadata, new_versions)

    async def aput_writes(
        self,
        config: RunnableConfig,
        writes: Sequence[tuple[str, Any]],
        task_id: str,
        task_path: str = "",
    ) -> None:
        """See put_writes."""
        given = written(self.serde, requested(config), writes, task_id, task_path)
        until = time.monotonic() + PATIENCE
        while self.threads.is_expected(given) and time.monotonic() < until:  # noqa: ASYNC110
            await asyncio.sleep(PAUSE)
        await asyncio.to_thread(self._put_writes, given)

    async def adelete_thread(self, thread_id: str) -> None:
        """See delete_thread."""
        await asyncio.to_thread(self.delete_thread, thread_id)

    async def adelete_for_runs(self, run_ids: Sequence[str]) -> None:
        """See delete_for_runs."""
        await asyncio.to_thread(self.delete_for_runs, run_ids)

    async def acopy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        """See copy_thread."""
        await asyncio.to_thread(self.copy_thread, source_thread_id, target_thread_id)

    async def aprune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        """See prune."""
        await asyncio.to_thread(lambda: self.prune(thread_ids, strategy=strategy))

    async def arestore(self, config: RunnableConfig) -> Report | None:
        """See restore."""
        return await asyncio.to_thread(self.restore, config)


def _is_run(config: RunnableConfig) -> bool:
    """Return whether the config is of a graph about to run, not of a state lookup."""
    return any(key.startswith("__pregel_") for key in config.get("configurable", {}))
