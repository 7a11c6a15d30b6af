"""Wait for changes in the working tree that affect a save. The only user of watchfiles.

Each directory is watched separately, so that ignored files cost nothing: no watch, no event. Only
directory names are scanned, at the start and when directories appear. On Linux gitcp watches by
itself, and keeps a journal (gitcp.worktree.watching.journal); watchfiles only wakes.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Protocol

from gitcp.errors import GitcpError, RepositoryNotFound
from gitcp.git.repo import Repository
from gitcp.model import RESERVED
from gitcp.worktree.watching.relevance import Elsewhere, Relevance
from gitcp.worktree.watching.stop import Stop

if TYPE_CHECKING:
    from watchfiles._rust_notify import RustNotify

STEP_MS = 200
TOGETHER_MS = 1000
ADDED, MODIFIED, DELETED = 1, 2, 3
MISSING = "watching needs the package watchfiles, which is not installed"
INSTALL = "pip install 'gitcp-checkpoints[watch]'"


class Watcher(Protocol):
    """Watches one working tree and paths elsewhere, from its creation on."""

    def wait(self, seconds: float | None) -> bool:
        """Return whether something changed within `seconds` (None for no limit), or before it was
        stopped.

        Raises RepositoryNotFound if the working tree is gone, GitcpError if it can no longer be
        watched.
        """
        ...

    def close(self) -> None:
        """Stop watching."""
        ...


def watcher(repo: Repository, most: int, elsewhere: Elsewhere, stop: Stop) -> Watcher:
    """Return what watches a working tree on this system. Raises GitcpError if it cannot be watched.

    `most` is the size of a directory of dependencies that a save skips.
    """
    relevance = Relevance(repo, most, elsewhere)
    if sys.platform != "linux":
        return WatchfilesWatcher(repo, relevance, stop)
    from gitcp.worktree.watching.journaling import JournalWatcher

    return JournalWatcher(repo, relevance, stop)


class WatchfilesWatcher:
    """Watches by watchfiles, which does not say what it lost: good for waking, not for trust."""

    def __init__(self, repo: Repository, relevance: Relevance, stop: Stop) -> None:
        self._repo, self._relevance, self._stop = repo, relevance, stop
        self._notify = self._start()

    def wait(self, seconds: float | None) -> bool:
        """Return whether something changed within `seconds` (None for no limit), or before `stop`
        is set.

        Raises RepositoryNotFound if the working tree is gone, GitcpError if it can no longer be
        watched.
        """
        timeout = 0 if seconds is None else max(1, int(seconds * 1000))
        events = self._notify.watch(TOGETHER_MS, STEP_MS, timeout, self._stop)
        if isinstance(events, str):
            return False
        relevant = [
            (kind, path)
            for kind, path in events
            if self._relevance.matters(os.fsencode(path), is_more=kind != MODIFIED)
        ]
        if any(kind != MODIFIED or path.endswith("/.gitignore") for kind, path in relevant):
            previous, self._notify = self._notify, self._start()
            previous.close()
        return bool(relevant)

    def close(self) -> None:
        """Stop watching."""
        self._notify.close()

    def _start(self) -> RustNotify:
        try:
            from watchfiles._rust_notify import RustNotify  # 10 ms, and an extra
        except ImportError:
            raise GitcpError(MISSING, hint=INSTALL) from None
        paths = self._watched_paths()
        while True:
            try:
                notify = RustNotify(sorted(paths), False, False, 0, False, True)
            except FileNotFoundError:  # deleted meanwhile
                notify = None
            except (OSError, RuntimeError) as error:
                message = (
                    f"{self._repo.root} cannot be watched ({len(paths):,} directories): {error}"
                )
                raise GitcpError(
                    message, hint="on Linux: sysctl fs.inotify.max_user_watches"
                ) from None
            previous, paths = paths, self._watched_paths()
            if notify is not None and paths == previous:
                return notify  # else a directory appeared before it was watched

    def _watched_paths(self) -> set[str]:
        """Return the directories to watch."""
        if not self._repo.git_dir.is_dir():
            raise RepositoryNotFound(
                f"the repository at {self._repo.root} no longer exists; watching stopped"
            )
        outside = set(map(os.fsdecode, self._relevance.outside()))
        return outside | {os.fsdecode(path) for path in self._directories()}

    def _directories(self) -> Iterator[bytes]:
        """Yield the directories of the working tree that a save captures files from."""
        root = os.fsencode(self._repo.root)
        level = [b""]
        while level:
            yield from (os.path.join(root, path) if path else root for path in level)
            level = self._relevance.enters([p for parent in level for p in _below(root, parent)])


def _below(root: bytes, directory: bytes) -> Iterator[bytes]:
    """Yield the subdirectories of a directory, none if it is not to be watched or cannot be
    listed.
    """
    try:
        with os.scandir(os.path.join(root, directory)) as listing:
            names = [entry.name for entry in listing if entry.is_dir(follow_symlinks=False)]
    except OSError:
        return
    yield from (
        _join(directory, name)
        for name in names
        if name != b".git" and (directory or name != RESERVED)
    )


def _join(directory: bytes, name: bytes) -> bytes:
    return directory + b"/" + name if directory else name
