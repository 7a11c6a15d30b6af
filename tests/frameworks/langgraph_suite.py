"""LangGraph's suite with GitSaver: every test that takes a saver.

Of its savers, `memory` becomes GitSaver without files, `sqlite` with a working tree, and
`sqlite_aes` encrypted.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from importlib import import_module
from typing import Any

from langgraph.checkpoint.serde.encrypted import EncryptedSerializer
from suites import new_repository, select

from gitcp.langgraph import GitSaver

KEY = b"1234567890123456"


@contextmanager
def plain() -> Iterator[GitSaver]:
    """A saver without files."""
    yield GitSaver(new_repository())


@contextmanager
def with_files() -> Iterator[GitSaver]:
    """A saver with a working tree."""
    yield GitSaver(worktree=new_repository())


@contextmanager
def encrypted() -> Iterator[GitSaver]:
    """A saver whose values only the key can read."""
    serde = EncryptedSerializer.from_pycryptodome_aes(key=KEY)
    yield GitSaver(new_repository(), serde=serde)


def asynchronous(saver: Any) -> Callable[[], AbstractAsyncContextManager[GitSaver]]:
    """The same as an asynchronous context."""

    @asynccontextmanager
    async def context() -> AsyncIterator[GitSaver]:
        with saver() as made:
            yield made

    return context


vars(import_module("tests.conftest_checkpointer")).update(
    _checkpointer_memory=plain,
    _checkpointer_sqlite=with_files,
    _checkpointer_sqlite_aes=encrypted,
    _checkpointer_sqlite_aio=asynchronous(with_files),
)


def pytest_collection_modifyitems(config: Any, items: list[Any]) -> None:
    """Keep the tests that take a saver."""
    savers = {"sync_checkpointer", "async_checkpointer"}
    select(config, items, lambda item: not savers.isdisjoint(item.fixturenames), {})
