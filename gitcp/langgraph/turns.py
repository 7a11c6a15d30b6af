"""A lock that threads get in the order in which they ask for it.

A thread that gives back an ordinary lock often gets it again before any that waits. Among several
that save all the time, some would wait for hundreds of saves.
"""

from __future__ import annotations

from collections import deque
from threading import Lock


class Turns:
    """A context manager that one thread at a time is in, first come, first served. Not to be
    entered twice by one thread.
    """

    def __init__(self) -> None:
        self._changing = Lock()
        self._is_taken = False
        self._waiting: deque[Lock] = deque()

    def __enter__(self) -> None:
        with self._changing:
            if not self._is_taken:
                self._is_taken = True
                return
            turn = Lock()
            turn.acquire()
            self._waiting.append(turn)
        try:
            turn.acquire()
        except BaseException:  # interrupted: another thread's turn, unless it was just given
            self._leave(turn)
            raise

    def __exit__(self, *_: object) -> None:
        with self._changing:
            self._next()

    def _leave(self, turn: Lock) -> None:
        with self._changing:
            if turn in self._waiting:
                self._waiting.remove(turn)
            else:
                self._next()

    def _next(self) -> None:
        if self._waiting:
            self._waiting.popleft().release()
        else:
            self._is_taken = False
