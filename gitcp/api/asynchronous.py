"""The API for asyncio: each call runs in a thread, so that it does not block the event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from functools import partial, wraps
from types import TracebackType
from typing import Any, Concatenate, ParamSpec, Self, TypeVar, Unpack

from gitcp.api.checkpoints import Checkpoints
from gitcp.api.opened import Files, SaveOptions
from gitcp.api.session import Session
from gitcp.api.transaction import TransactionBlock
from gitcp.model import Checkpoint
from gitcp.restoring.restore import Report
from gitcp.running.steps import StepPlan
from gitcp.saving.save import Saved
from gitcp.value import EMPTY

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")


def _in_thread(
    method: Callable[Concatenate[Checkpoints, P], R],
) -> Callable[Concatenate[AsyncCheckpoints, P], Coroutine[Any, Any, R]]:
    """Return a method that runs another one of `blocking` in a thread."""

    @wraps(method)
    async def awaited(self: AsyncCheckpoints, /, *args: P.args, **kwargs: P.kwargs) -> R:
        return await asyncio.to_thread(method, self.blocking, *args, **kwargs)

    return awaited


def _at_once(
    method: Callable[Concatenate[Checkpoints, P], TransactionBlock],
) -> Callable[Concatenate[AsyncCheckpoints, P], AsyncTransaction]:
    """Return a method whose result is for `async with`."""

    @wraps(method)
    def made(self: AsyncCheckpoints, /, *args: P.args, **kwargs: P.kwargs) -> AsyncTransaction:
        return AsyncTransaction(method(self.blocking, *args, **kwargs))

    return made


class AsyncCheckpoints:
    """Checkpoints with awaitable methods, which call those of `blocking` with the same
    arguments.
    """

    def __init__(self, blocking: Checkpoints) -> None:
        self.blocking = blocking

    def session(self, name: str) -> AsyncSession:
        """See Checkpoints.session."""
        return AsyncSession(self.blocking.session(name))

    transaction = _at_once(Checkpoints.transaction)

    save = _in_thread(Checkpoints.save)
    tag = _in_thread(Checkpoints.tag)
    log = _in_thread(Checkpoints.log)
    show = _in_thread(Checkpoints.show)
    file = _in_thread(Checkpoints.file)
    conversation = _in_thread(Checkpoints.conversation)
    diff = _in_thread(Checkpoints.diff)
    sessions = _in_thread(Checkpoints.sessions)
    check = _in_thread(Checkpoints.check)
    close = _in_thread(Checkpoints.close)
    fork = _in_thread(Checkpoints.fork)
    plan_revert = _in_thread(Checkpoints.plan_revert)
    revert = _in_thread(Checkpoints.revert)
    plan_prune = _in_thread(Checkpoints.plan_prune)
    prune = _in_thread(Checkpoints.prune)
    plan = _in_thread(Checkpoints.plan)
    restore = _in_thread(Checkpoints.restore)
    undo = _in_thread(Checkpoints.undo)
    redo = _in_thread(Checkpoints.redo)
    finish = _in_thread(Checkpoints.finish)


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

    async def save(self, label: str | None = None, **given: Unpack[SaveOptions]) -> Saved:
        """See Session.save."""
        return await asyncio.to_thread(self.blocking.save, label, **given)

    async def last(self) -> Checkpoint | None:
        """See Session.last."""
        return await asyncio.to_thread(lambda: self.blocking.last)

    async def position(self) -> Mapping[str, Any]:
        """See Session.position."""
        return await asyncio.to_thread(lambda: self.blocking.position)

    async def resume(
        self, *, outputs: Files = (), appends: Files = (), whole_tree: bool = False
    ) -> Report | None:
        """See Session.resume."""
        return await asyncio.to_thread(
            self.blocking.resume, outputs=outputs, appends=appends, whole_tree=whole_tree
        )

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
