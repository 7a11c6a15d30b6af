"""Progress of long work: the code that does the work reports it, the command line shows it.

Work is reported to the meter of the current context, and to nobody where there is none, as in a
program that uses the library.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Protocol, TypeVar

T = TypeVar("T")

BYTES = "bytes"
"""The unit of work that is counted in bytes; any other unit is a plural noun, such as "files"."""


class Task(Protocol):
    """One piece of long work that is under way."""

    def advance(self, amount: int) -> None:
        """`amount` units more are done."""

    def detail(self, text: str) -> None:
        """Show this where the rate would be shown."""

    def end(self) -> None:
        """The work is done, or was given up."""


class Meter(Protocol):
    """Shows how far tasks are. A task may begin inside another one."""

    def begin(self, name: str, unit: str, total: int | None) -> Task:
        """A task begins; `total` is None where its size is not known."""


class _Unseen:
    """A task that nobody is shown."""

    def advance(self, amount: int) -> None: ...

    def detail(self, text: str) -> None: ...

    def end(self) -> None: ...


Advance = Callable[[int], None]

_meter: ContextVar[Meter | None] = ContextVar("gitcp_meter", default=None)


def is_shown() -> bool:
    """Whether anybody is shown progress."""
    return _meter.get() is not None


@contextmanager
def shown_by(meter: Meter | None) -> Iterator[None]:
    """Report the work that is done inside to `meter`; to nobody if that is None."""
    token = _meter.set(meter)
    try:
        yield
    finally:
        _meter.reset(token)


def begin(name: str, unit: str, total: int | None = None) -> Task:
    """Begin a task, such as "restoring"; the caller ends it."""
    meter = _meter.get()
    return _Unseen() if meter is None else meter.begin(name, unit, total)


@contextmanager
def task(name: str, unit: str, total: int | None = None) -> Iterator[Advance]:
    """One task; yields the function that reports units done."""
    begun = begin(name, unit, total)
    try:
        yield begun.advance
    finally:
        begun.end()


def each(items: Iterable[T], name: str, unit: str, total: int | None = None) -> Iterator[T]:
    """Yield the items; each counts as done when the next one is asked for."""
    with task(name, unit, total) as advance:
        for item in items:
            yield item
            advance(1)


def ignore(amount: int) -> None:
    """Report to nobody."""
