"""GitSaver: LangGraph's checkpointer interface over a git repository, blocking and for asyncio."""

from __future__ import annotations

import asyncio
import random
import threading
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
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

from gitcp.langgraph.keys import asked
from gitcp.langgraph.thread_store import Book
from gitcp.model import Host
from gitcp.restoring.restore import Report

R = TypeVar("R")


class GitSaver(BaseCheckpointSaver[str]):
    """A LangGraph checkpointer whose store is a git repository: a thread is a session, a checkpoint
    is a commit.

    `path` is a directory in the repository. With `worktree` each checkpoint holds the files of that
    working tree too, and a run that is sent back to a checkpoint finds them as they were.
    `messages` names the channel that is shown as the conversation (None: none is). `host` is the
    environment, home and clock to go by; this process's unless given.

    May be shared between threads, and other processes may write the same threads. Raises
    RepositoryNotFound, Refused.
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
        self.book = Book(path, worktree, messages, host)
        self._lock = threading.RLock()

    def _call(self, do: Callable[..., R], *args: Any) -> R:
        with self._lock:
            return do(self.serde, *args)

    # ------------------------------------------------------------ blocking

    def get_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """The checkpoint that a config names, or the last of its thread and namespace."""
        return self._call(self.book.one, asked(config), _is_run(config))

    def list(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> Iterator[CheckpointTuple]:
        """Checkpoints, those with the greatest ids first; each is read when it is asked for."""
        places = self._call(
            self.book.places,
            asked(config) if config else None,
            asked(before).id if before else None,
        )
        for session, place in places:
            if limit is not None and limit <= 0:
                return
            found = self._call(self.book.listed, session, place, filter)
            if found is not None:
                limit = None if limit is None else limit - 1
                yield found

    def put(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        """Store a checkpoint as one commit. Raises a GitcpError, with nothing stored, if that
        cannot be done.
        """
        said = get_serializable_checkpoint_metadata(config, metadata)
        return cast(
            "RunnableConfig",
            self._call(self.book.put, asked(config), checkpoint, said, new_versions),
        )

    def put_writes(
        self,
        config: RunnableConfig,
        writes: Sequence[tuple[str, Any]],
        task_id: str,
        task_path: str = "",
    ) -> None:
        """Store what a task wrote before the next checkpoint, as one commit."""
        self._call(self.book.put_writes, asked(config), writes, task_id, task_path)

    def delete_thread(self, thread_id: str) -> None:
        """Put a thread into the trash, from where `gitcp undo` brings it back."""
        self._call(lambda _: self.book.delete(str(thread_id)))

    def delete_for_runs(self, run_ids: Sequence[str]) -> None:
        """Drop the checkpoints of these runs, with their writes, in every thread."""
        self._call(lambda _: self.book.delete_runs({str(run) for run in run_ids}))

    def copy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        """Begin a thread with everything of another. Raises Refused if it exists already."""
        self._call(lambda _: self.book.copy(str(source_thread_id), str(target_thread_id)))

    def prune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        """Keep the last checkpoint of each namespace, and what its delta channels need; or
        ("delete") nothing.
        """
        self._call(self.book.prune, [str(thread) for thread in thread_ids], strategy)

    def restore(self, config: RunnableConfig) -> Report | None:
        """Bring the files back that a checkpoint holds; without an id, those of the last one or of
        the writes to it.

        What is there is saved first. None if they are all as they were. Raises RevisionNotFound,
        Refused.
        """
        return self._call(lambda _: self.book.restore(asked(config)))

    # LangGraph's
    def get_next_version(self, current: str | float | None, channel: None) -> str:  # noqa: ARG002
        """A version greater than `current`, and different from any that another branch of the
        thread chooses.
        """
        number = int(str(current).split(".")[0]) if current is not None else 0
        return f"{number + 1:032}.{random.random():016}"

    # ------------------------------------------------------------ for asyncio

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
        found = self.list(config, filter=filter, before=before, limit=limit)
        while (one := await asyncio.to_thread(next, found, None)) is not None:
            yield one

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
        await asyncio.to_thread(self.put_writes, config, writes, task_id, task_path)

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
    """Whether a graph asks that is about to run, and not somebody who only looks at its state."""
    return any(key.startswith("__pregel_") for key in config.get("configurable", {}))
