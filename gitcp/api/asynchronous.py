"""The API for asyncio: each call runs in a thread, so that it does not block the event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from functools import partial
from types import TracebackType
from typing import Any, Self, TypeVar

from gitcp.api.checkpoints import Checkpoints
from gitcp.api.session import Session
from gitcp.api.transaction import TransactionBlock
from gitcp.history.sessions import Session as Listed
from gitcp.history.show import Listing
from gitcp.lifecycle.check import CheckReport
from gitcp.lifecycle.fork import Forked
from gitcp.lifecycle.prune import PrunePlan
from gitcp.lifecycle.prune import Report as PruneReport
from gitcp.model import Checkpoint, FileChange
from gitcp.restoring.restore import Report, RestorePlan
from gitcp.restoring.revert import RevertPlan
from gitcp.retention import Policy
from gitcp.running.steps import StepPlan
from gitcp.saving.save import Saved
from gitcp.store import Summary
from gitcp.value import EMPTY

T = TypeVar("T")


class AsyncCheckpoints:
    """Checkpoints with awaitable methods, which call those of `blocking` with the same
    arguments.
    """

    def __init__(self, blocking: Checkpoints) -> None:
        self.blocking = blocking

    def session(self, name: str) -> AsyncSession:
        """See Checkpoints.session."""
        return AsyncSession(self.blocking.session(name))

    def transaction(self, label: str, **given: Any) -> AsyncTransaction:
        """See Checkpoints.transaction: for `async with`."""
        return AsyncTransaction(self.blocking.transaction(label, **given))

    async def save(self, label: str | None = None, **given: Any) -> Saved:
        """See Checkpoints.save."""
        return await asyncio.to_thread(self.blocking.save, label, **given)

    async def tag(self, name: str, revision: str = "@", **given: Any) -> None:
        """See Checkpoints.tag."""
        await asyncio.to_thread(self.blocking.tag, name, revision, **given)

    async def log(self, revision: str = "@", **given: Any) -> tuple[Summary, ...]:
        """See Checkpoints.log."""
        return await asyncio.to_thread(self.blocking.log, revision, **given)

    async def show(self, revision: str = "@", **given: Any) -> Checkpoint:
        """See Checkpoints.show."""
        return await asyncio.to_thread(self.blocking.show, revision, **given)

    async def file(self, revision: str, path: str | bytes, **given: Any) -> bytes | Listing:
        """See Checkpoints.file."""
        return await asyncio.to_thread(self.blocking.file, revision, path, **given)

    async def conversation(self, revision: str = "@", **given: Any) -> bytes:
        """See Checkpoints.conversation."""
        return await asyncio.to_thread(self.blocking.conversation, revision, **given)

    async def diff(
        self, old: str = "@", new: str | None = None, **given: Any
    ) -> tuple[FileChange, ...]:
        """See Checkpoints.diff."""
        return await asyncio.to_thread(self.blocking.diff, old, new, **given)

    async def sessions(self) -> tuple[Listed, ...]:
        """See Checkpoints.sessions."""
        return await asyncio.to_thread(self.blocking.sessions)

    async def check(self) -> CheckReport:
        """See Checkpoints.check."""
        return await asyncio.to_thread(self.blocking.check)

    async def fork(self, revision: str = "@", **given: Any) -> Forked:
        """See Checkpoints.fork."""
        return await asyncio.to_thread(self.blocking.fork, revision, **given)

    async def plan_revert(self, revision: str, **given: Any) -> RevertPlan:
        """See Checkpoints.plan_revert."""
        return await asyncio.to_thread(self.blocking.plan_revert, revision, **given)

    async def revert(self, agreed: RevertPlan, **given: Any) -> Report:
        """See Checkpoints.revert."""
        return await asyncio.to_thread(self.blocking.revert, agreed, **given)

    async def plan_prune(self, policy: Policy | None = None, **given: Any) -> PrunePlan:
        """See Checkpoints.plan_prune."""
        return await asyncio.to_thread(self.blocking.plan_prune, policy, **given)

    async def prune(self, policy: Policy | None = None, **given: Any) -> PruneReport:
        """See Checkpoints.prune."""
        return await asyncio.to_thread(self.blocking.prune, policy, **given)

    async def plan(self, revision: str = "@", **given: Any) -> RestorePlan:
        """See Checkpoints.plan."""
        return await asyncio.to_thread(self.blocking.plan, revision, **given)

    async def restore(self, revision: str = "@", **given: Any) -> Report:
        """See Checkpoints.restore."""
        return await asyncio.to_thread(self.blocking.restore, revision, **given)

    async def undo(self) -> Report:
        """See Checkpoints.undo."""
        return await asyncio.to_thread(self.blocking.undo)

    async def redo(self) -> Report:
        """See Checkpoints.redo."""
        return await asyncio.to_thread(self.blocking.redo)

    async def finish(self, *, forward: bool) -> Report:
        """See Checkpoints.finish."""
        return await asyncio.to_thread(self.blocking.finish, forward=forward)


class AsyncTransaction:
    """A transaction for `async with`; `blocking.failure` describes a failure."""

    def __init__(self, blocking: TransactionBlock) -> None:
        self.blocking = blocking

    async def __aenter__(self) -> Self:
        await asyncio.to_thread(self.blocking.__enter__)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await asyncio.shield(asyncio.to_thread(self.blocking.__exit__, kind, error, trace))

    async def compensate(self, command: str) -> None:
        """See TransactionBlock.compensate."""
        await asyncio.to_thread(self.blocking.compensate, command)


class AsyncSession:
    """A session with awaitable methods."""

    def __init__(self, blocking: Session) -> None:
        self.blocking = blocking

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            await self.save()

    async def save(self, label: str | None = None, **given: Any) -> Saved:
        """See Session.save."""
        return await asyncio.to_thread(self.blocking.save, label, **given)

    async def resume(self) -> Report | None:
        """See Session.resume."""
        return await asyncio.to_thread(self.blocking.resume)

    async def plan(self, inputs: Mapping[str | tuple[str, str], object] = EMPTY) -> StepPlan:
        """See Session.plan."""
        return await asyncio.to_thread(self.blocking.plan, inputs)

    async def invalidate(self, name: str, *, key: str | None = None) -> Saved:
        """See Session.invalidate."""
        return await asyncio.to_thread(self.blocking.invalidate, name, key=key)

    async def step(
        self, name: str, do: Callable[[], Coroutine[Any, Any, T]] | None = None, **given: Any
    ) -> T:
        """See Session.step; `do` is a coroutine function, and runs in the caller's event loop."""
        if do is None:
            return await asyncio.to_thread(partial(self.blocking.step, name, **given))
        loop = asyncio.get_running_loop()

        def wait() -> T:
            return asyncio.run_coroutine_threadsafe(do(), loop).result()

        return await asyncio.to_thread(lambda: self.blocking.step(name, wait, **given))
