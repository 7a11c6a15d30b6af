"""Wait for changes by the journal that this process keeps, on Linux, and keep it for others."""

from __future__ import annotations

import errno
import os
import threading
import time

from gitcp.errors import GitcpError, RepositoryNotFound
from gitcp.git.repo import Repository
from gitcp.watchers.watched import OWN, SOCKETS
from gitcp.worktree.watching import inotify
from gitcp.worktree.watching.journal import Journal
from gitcp.worktree.watching.relevance import Relevance
from gitcp.worktree.watching.server import Server
from gitcp.worktree.watching.stop import Stop

QUIET, TOGETHER = 0.2, 1.0
"""Seconds without an event, and from the first, after which events count as one change."""

POLL = 0.5
"""Seconds after which a stop is noticed."""


class JournalWatcher:
    """Watches one working tree and paths elsewhere, from its creation on; answers other processes
    meanwhile.

    Raises GitcpError if there are more directories than the system allows to watch.
    """

    def __init__(self, repo: Repository, relevance: Relevance, stop: Stop) -> None:
        self._repo, self._relevance, self._stop = repo, relevance, stop
        self._events: list[tuple[bytes, bool]] = []
        self._error: OSError | None = None
        self._arrived = threading.Condition()
        own = repo.state_dir
        outside = {*relevance.outside(), os.fsencode(own)}
        address = str(repo.git_dir / SOCKETS[OWN])
        try:
            journal = Journal(os.fsencode(repo.root), relevance.enters, outside)
        except OSError as error:
            raise self._failed(error) from None
        self._server = Server(journal, str(own), address, self._take)

    def wait(self, seconds: float | None) -> bool:
        """Return whether something changed within `seconds` (None for no limit), or before the
        stop.

        Raises RepositoryNotFound if the working tree is gone, GitcpError if it can no longer be
        watched.
        """
        events = self._next(seconds)
        if not self._repo.git_dir.is_dir():
            raise RepositoryNotFound(
                f"the repository at {self._repo.root} no longer exists; watching stopped"
            )
        relevant = [path for path, more in events if self._relevance.matters(path, is_more=more)]
        if any(more for _, more in events):
            try:
                self._server.watch_also(self._relevance.outside())
            except OSError as error:
                raise self._failed(error) from None
        return bool(relevant)

    def close(self) -> None:
        """Stop watching."""
        self._server.close()

    def _take(self, events: list[tuple[bytes, bool]] | OSError) -> None:
        with self._arrived:
            if isinstance(events, OSError):
                self._error = events
            else:
                self._events += events
            self._arrived.notify()

    def _next(self, seconds: float | None) -> list[tuple[bytes, bool]]:
        """Return the events of one change, none if there are none in time."""
        until = None if seconds is None else time.monotonic() + seconds
        with self._arrived:
            while not self._events and not self._stop.is_set():
                if self._error is not None:
                    raise self._failed(self._error)
                left = POLL if until is None else min(POLL, until - time.monotonic())
                if left <= 0:
                    return []
                self._arrived.wait(left)
            first = time.monotonic()
            while self._arrived.wait(QUIET) and time.monotonic() < first + TOGETHER:
                pass
            events, self._events = self._events, []
        more = {path for path, is_more in events if is_more}
        return [(path, path in more) for path in dict(events)]

    def _failed(self, error: OSError) -> GitcpError:
        if error.errno not in (errno.ENOSPC, errno.EMFILE):
            return GitcpError(f"{self._repo.root} cannot be watched: {error.strerror}")
        most = inotify.most_watches() or 0
        return GitcpError(
            f"{self._repo.root} cannot be watched: it has more directories than this system lets "
            f"you watch, {most:,} in all",
            hint=inotify.RAISE,
        )
