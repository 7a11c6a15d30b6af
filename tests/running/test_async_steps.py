"""Steps of asyncio: they need no thread while their coroutine runs, and are canceled for real."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

import gitcp
from gitcp.errors import BadValue, RevisionNotFound

from driver import Project

LONG = 30.0
"""Seconds after which a program hangs."""

Work = Callable[[], Coroutine[Any, Any, int]]


@pytest.fixture
def root(project: Project) -> Project:
    """A project with one commit."""
    project.write("a.txt", "one\n")
    project.commit()
    return project


def run(main: Callable[[], Awaitable[None]], threads: int = 1) -> None:
    """Run a program whose default pool has few threads; one that hangs fails."""

    async def limited() -> None:
        pool = ThreadPoolExecutor(threads)
        asyncio.get_running_loop().set_default_executor(pool)
        async with asyncio.timeout(LONG):
            await main()

    asyncio.run(limited())


@pytest.mark.parametrize("kind", ["thread", "names", "nested", "save", "same"])
def test_more_steps_than_threads(root: Project, kind: str) -> None:
    """Six steps at once use the pool themselves; it has one thread."""

    async def main() -> None:
        checkpoints = await gitcp.aopen(root.root)
        session = checkpoints.session("p")

        async def thread() -> int:
            return await asyncio.to_thread(int, "1")

        async def names() -> int:
            return len(await asyncio.get_running_loop().getaddrinfo("127.0.0.1", 80)) and 1

        async def nested(number: int) -> int:
            return await session.step(f"inner {number}", thread)

        async def saving(number: int) -> int:
            root.write(f"{number}.txt", "x")
            return (await checkpoints.save("inside", session="q", force=True)).saved and 1

        kinds: dict[str, Callable[[int], Work]] = {
            "thread": lambda _: thread,
            "same": lambda _: thread,
            "names": lambda _: names,
            "nested": lambda number: lambda: nested(number),
            "save": lambda number: lambda: saving(number),
        }
        outer = [
            session.step("same" if kind == "same" else f"outer {n}", kinds[kind](n))
            for n in range(6)
        ]
        assert await asyncio.gather(*outer) == [1] * 6

    run(main)
    recorded = {str(name.step) for name in gitcp.open(root.root).session("p").plan().steps}
    assert len(recorded) == {"same": 1, "nested": 12}.get(kind, 6)


def test_canceled_while_it_runs(root: Project) -> None:
    """The coroutine is stopped, and nothing is recorded then or later; the step can run again."""
    stopped: list[int] = []

    async def main() -> None:
        session = (await gitcp.aopen(root.root)).session("p")

        async def slow() -> int:
            try:
                await asyncio.sleep(LONG)
            except asyncio.CancelledError:
                stopped.append(1)
                raise
            return 1

        async def quick() -> int:
            return 2

        with pytest.raises(TimeoutError):
            await asyncio.wait_for(session.step("slow", slow), 0.3)
        assert stopped == [1]
        await asyncio.sleep(0.1)
        with pytest.raises(RevisionNotFound, match="has not run yet"):
            await session.step("slow")
        assert await session.step("slow", quick) == 2

    run(main)


def test_canceled_while_it_is_recorded(root: Project) -> None:
    """What was done is recorded when the caller learns of the cancellation, not afterwards."""

    async def main() -> None:
        session = (await gitcp.aopen(root.root)).session("p")
        task: asyncio.Task[int] | None = None

        async def work() -> int:
            assert task is not None
            asyncio.get_running_loop().call_later(0.001, task.cancel)
            return 1

        task = asyncio.create_task(session.step("work", work))
        with pytest.raises(asyncio.CancelledError):
            await task
        assert session.blocking.step("work") == 1

    run(main)


def test_waits_for_another_one(root: Project) -> None:
    """A step that a thread runs is waited for, its result is used, and its lock is gone."""

    async def main() -> None:
        checkpoints = gitcp.open(root.root)
        begun, go_on = asyncio.Event(), asyncio.Event()
        loop = asyncio.get_running_loop()

        def blocking() -> int:
            loop.call_soon_threadsafe(begun.set)
            asyncio.run_coroutine_threadsafe(go_on.wait(), loop).result()
            return 7

        async def never() -> int:
            raise AssertionError

        first = asyncio.to_thread(checkpoints.session("p").step, "one", blocking)
        running = asyncio.create_task(first)
        await begun.wait()
        session = (await gitcp.aopen(root.root)).session("p")
        waiting = asyncio.create_task(session.step("one", never))
        await asyncio.sleep(0.1)
        assert not waiting.done()
        go_on.set()
        assert [*await asyncio.gather(running, waiting)] == [7, 7]
        assert list(checkpoints.repository().store_dir.joinpath("steps").iterdir()) == []

    run(main, threads=2)


def test_inside_itself(root: Project) -> None:
    """It would wait for itself."""

    async def main() -> None:
        session = (await gitcp.aopen(root.root)).session("p")

        async def inner() -> int:
            return 1

        async def outer() -> int:
            return await session.step("one", inner)

        with pytest.raises(BadValue, match="runs inside itself"):
            await session.step("one", outer)

    run(main)
