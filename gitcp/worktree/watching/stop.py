"""A request to stop waiting."""

from __future__ import annotations


class Stop:
    """A request to stop waiting; `set` may be called by a signal handler."""

    def __init__(self) -> None:
        self._is_set = False

    def set(self) -> None:
        """Request the stop."""
        self._is_set = True

    def is_set(self) -> bool:
        """Return whether a stop was requested; the method that watchfiles calls."""
        return self._is_set
