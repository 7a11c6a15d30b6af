"""Reads the repository in a thread, so that the screen never waits.

A job is a generator: each value it yields is delivered, and between two of them a more urgent job
may run. There is one job for each purpose: a new one replaces the one before.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from gitcp.errors import GitcpError
from gitcp.store import Store

Make = Callable[[Store], Iterator[Any]]


class Delivery(NamedTuple):
    """What a job read: a value, or the error that ended it."""

    purpose: str
    value: Any = None
    error: Exception | None = None


class _Job:
    """A job: how to begin it, and how far it is."""

    def __init__(self, make: Make) -> None:
        self.make = make
        self.steps: Iterator[Any] | None = None


class StoreReader:
    """One thread with a store of its own. `order` lists the purposes, the most urgent first."""

    def __init__(
        self,
        open_store: Callable[[], Store],
        deliver: Callable[[Delivery], object],
        order: Sequence[str],
    ) -> None:
        self._open, self._deliver, self._order = open_store, deliver, order
        self._jobs: dict[str, _Job] = {}
        self._changed = threading.Condition()
        self._closed = self._busy = False
        self._thread = threading.Thread(target=self._run, daemon=True)

    @property
    def started(self) -> bool:
        """Whether the thread runs."""
        return self._thread.is_alive()

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def ask(self, purpose: str, make: Make) -> None:
        """Begin a job, in place of the one with the same purpose."""
        with self._changed:
            self._jobs[purpose] = _Job(make)
            self._changed.notify()

    def drop(self, purpose: str) -> None:
        """End a job: what it would still read is not wanted any more."""
        with self._changed:
            self._jobs.pop(purpose, None)

    def close(self) -> None:
        """End the thread after the step that is under way."""
        with self._changed:
            self._closed = True
            self._changed.notify()

    @property
    def idle(self) -> bool:
        """Whether there is nothing left to read."""
        with self._changed:
            return not self._jobs and not self._busy

    def _run(self) -> None:
        store: Store | None = None
        while (request := self._next()) is not None:
            purpose, job = request
            try:
                store = store or self._open()
                job.steps = job.steps or job.make(store)
                delivery = Delivery(purpose, next(job.steps))
            except StopIteration:
                self._end(purpose, job)
                continue
            except (GitcpError, OSError) as error:
                delivery = Delivery(purpose, error=error)
            if self._is_wanted(purpose, job):
                self._deliver(delivery)
            if delivery.error is not None:
                self._end(purpose, job)

    def _next(self) -> tuple[str, _Job] | None:
        """Return the most urgent job, waiting for one; None after `close`."""
        with self._changed:
            self._busy = False
            while not self._jobs and not self._closed:
                self._changed.wait()
            if self._closed:
                return None
            self._busy = True
            purpose = min(self._jobs, key=self._order.index)
            return purpose, self._jobs[purpose]

    def _is_wanted(self, purpose: str, job: _Job) -> bool:
        with self._changed:
            return self._jobs.get(purpose) is job and not self._closed

    def _end(self, purpose: str, job: _Job) -> None:
        with self._changed:
            if self._jobs.get(purpose) is job:
                del self._jobs[purpose]
