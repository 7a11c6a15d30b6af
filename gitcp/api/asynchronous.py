"""The API for asyncio: each call runs in a thread, so that it does not block the event loop."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping
from contextlib import asynccontextmanager
from functools import wraps
from pathlib import Path
from types import TracebackType
from typing import Any, Concatenate, ParamSpec, Self, TypeVar, Unpack, overload

from gitcp.api.checked import require
from gitcp.api.checkpoints import Checkpoints
from gitcp.api.opened import Files, OnePath, SaveOptions
from gitcp.api.session import Compensate, Named, Session, StepOptions
from gitcp.api.step import Encode
from gitcp.api.transaction import TransactionBlock
from gitcp.history.why import LineOrigin, PathHistory
from gitcp.model import Checkpoint
from gitcp.restoring.restore import Report
from gitcp.running.steps import StepPlan
from gitcp.saving.save import Saved
from gitcp.state import steps
from gitcp.value import EMPTY

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")

SHORTEST_WAIT, LONGEST_WAIT = 0.001, 0.05
"""Seconds between two looks whether a step that another task or process runs has ended."""


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

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def session(self, name: str) -> AsyncSession:
        """See Checkpoints.session."""
        return AsyncSession(self.blocking.session(name))

    transaction = _at_once(Checkpoints.transaction)

    save = _in_thread(Checkpoints.save)
    tag = _in_thread(Checkpoints.tag)
    note = _in_thread(Checkpoints.note)
    log = _in_thread(Checkpoints.log)
    show = _in_thread(Checkpoints.show)
    file = _in_thread(Checkpoints.file)
    conversation = _in_thread(Checkpoints.conversation)
    messages = _in_thread(Checkpoints.messages)
    diff = _in_thread(Checkpoints.diff)
    find = _in_thread(Checkpoints.find)
    bisect = _in_thread(Checkpoints.bisect)

    async def why(
        self,
        path: OnePath,
        line: int | None = None,
        revision: str = "@",
        *,
        session: str | None = None,
    ) -> LineOrigin | PathHistory:
        """See Checkpoints.why."""
        return await asyncio.to_thread(
            lambda: self.blocking.why(path, line, revision, session=session)
        )

    sessions = _in_thread(Checkpoints.sessions)
    check = _in_thread(Checkpoints.check)
    states = _in_thread(Checkpoints.states)
    effects = _in_thread(Checkpoints.effects)
    compensate = _in_thread(Checkpoints.compensate)
    push = _in_thread(Checkpoints.push)
    fetch = _in_thread(Checkpoints.fetch)
    export = _in_thread(Checkpoints.export)
    import_ = _in_thread(Checkpoints.import_)
    close = _in_thread(Checkpoints.close)
    fork = _in_thread(Checkpoints.fork)
    plan_rollback = _in_thread(Checkpoints.plan_rollback)
    rollback = _in_thread(Checkpoints.rollback)
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
        await _completed(asyncio.to_thread(self.blocking.__exit__, kind, error, trace))

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

    @overload
    async def step(
        self,
        name: str,
        do: None = None,
        *,
        key: str = "",
        inputs: object = None,
        decode: Encode | None = None,
    ) -> Any: ...

    @overload
    async def step(
        self,
        name: str,
        do: Callable[[], Awaitable[T]],
        *,
        key: str = "",
        inputs: object = None,
        depends: Named = (),
        files: Files = (),
        compensate: Compensate = None,
        encode: Encode | None = None,
        decode: Encode | None = None,
    ) -> T: ...

    async def step(
        self,
        name: str,
        do: Callable[[], Awaitable[T]] | None = None,
        *,
        key: str = "",
        inputs: object = None,
        depends: Named = (),
        files: Files = (),
        compensate: Compensate = None,
        encode: Encode | None = None,
        decode: Encode | None = None,
    ) -> T | Any:
        """See Session.step; `do` is a coroutine function, and runs in the caller's task.

        If the task is canceled while `do` runs, nothing is recorded. Once `do` has returned, its
        result is recorded before the cancellation goes on.
        """
        require("do", do, Callable[..., Any] | None, "nothing was run")
        options = StepOptions(key, inputs, depends, files, compensate, encode, decode)
        call = await asyncio.to_thread(self.blocking._call, name, options, only_read=do is None)
        if do is None:
            return await asyncio.to_thread(call.recorded_value)
        store = await asyncio.to_thread(call.store)
        result = await asyncio.to_thread(call.recorded, store)
        if result is None:
            call.check_type(do)
            with call.running() as running:
                async with _only(await asyncio.to_thread(call.lock_path, store)):
                    result = await asyncio.to_thread(call.recorded, store)
                    if result is None:
                        await asyncio.to_thread(call.prepare, running, store)
                        value = await do()
                        result = await _completed(asyncio.to_thread(call.record, value, running))
        return call.value(result)


@asynccontextmanager
async def _only(path: Path) -> AsyncIterator[None]:
    """Hold the lock of a step. Waits for it without a thread: whoever holds it may need all."""
    wait = SHORTEST_WAIT
    while (descriptor := steps.lock_now(path)) is None:
        await asyncio.sleep(wait)
        wait = min(2 * wait, LONGEST_WAIT)
    try:
        yield
    finally:
        steps.unlock(path, descriptor)


async def _completed(work: Coroutine[Any, Any, T]) -> T:
    """Await work that a cancellation cannot stop, to its end, and be canceled only then."""
    task = asyncio.ensure_future(work)
    canceled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.wait([task])
        except asyncio.CancelledError as error:
            canceled = error
    if canceled is not None:
        raise canceled from task.exception()
    return task.result()
