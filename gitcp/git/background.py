"""Threads for work that no save should wait for."""

from __future__ import annotations

from collections.abc import Callable
from threading import Thread


def started(work: Callable[[], object]) -> Thread | None:
    """Start a thread, for which the program waits when it ends. Where the system has no more of
    them, do the work at once and return None.
    """
    thread = Thread(target=work)
    try:
        thread.start()
    except RuntimeError:
        work()
        return None
    return thread
