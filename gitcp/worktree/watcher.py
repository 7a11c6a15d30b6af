"""Wait for changes in the working tree that affect a save. The only user of watchfiles.

Each directory is watched separately, so that ignored files cost nothing: no watch, no event. Only
directory names are scanned, at the start and when directories appear.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from gitcp.errors import GitcpError, RepositoryNotFound
from gitcp.git import index
from gitcp.git.repo import Repository
from gitcp.model import RESERVED
from gitcp.worktree.dependencies import DEPENDENCIES, is_overfull
from gitcp.worktree.paths import is_temporary
from gitcp.worktree.reading import content
from gitcp.worktree.rules import ignored

if TYPE_CHECKING:
    from watchfiles._rust_notify import RustNotify

STEP_MS = 200
TOGETHER_MS = 1000
ADDED, MODIFIED, DELETED = 1, 2, 3
MISSING = "watching needs the package watchfiles, which is not installed"
INSTALL = "pip install 'gitcp-checkpoints[watch]'"

Elsewhere = Callable[[], Iterable[Path]]
"""Returns the watched paths outside the working tree, existing or not; called again when
directories appear.
"""


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


class Watcher:
    """Watches one working tree and paths elsewhere, from its creation on."""

    def __init__(self, repo: Repository, most: int, elsewhere: Elsewhere, stop: Stop) -> None:
        self._repo, self._most, self._elsewhere, self._stop = repo, most, elsewhere, stop
        self._outside: frozenset[str] = frozenset()
        self._tracked: set[bytes] = set()
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
            (kind, path) for kind, path in events if self._is_relevant(kind, os.fsencode(path))
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
        """Return the directories to watch, and refresh the tracked and outside paths."""
        if not self._repo.git_dir.is_dir():
            raise RepositoryNotFound(
                f"the repository at {self._repo.root} no longer exists; watching stopped"
            )
        self._outside = frozenset(map(str, self._elsewhere()))
        folders = index.read(self._repo).folders
        self._tracked = {
            _join(directory, name) for directory, folder in folders.items() for name in folder.files
        }
        directories = {os.fsdecode(path) for path in self._directories({*folders})}
        return directories | {
            d for path in self._outside for d in (path, os.path.dirname(path)) if os.path.isdir(d)
        }

    def _directories(self, tracked: set[bytes]) -> Iterator[bytes]:
        """Yield the directories of the working tree that a save captures files from."""
        root = os.fsencode(self._repo.root)
        level = [b""]
        while level:
            yield from (os.path.join(root, path) if path else root for path in level)
            children = [path for parent in level for path in _below(root, parent)]
            ignored_paths = ignored(self._repo, [path + b"/" for path in children], self._read)
            level = [
                path
                for path in children
                if path in tracked
                or (path + b"/" not in ignored_paths and not self._is_skipped(root, path))
            ]

    def _is_skipped(self, root: bytes, path: bytes) -> bool:
        """Return whether a save skips a directory as a whole."""
        full = os.path.join(root, path)
        return os.path.lexists(full + b"/.git") or (
            os.path.basename(path) in DEPENDENCIES and is_overfull(full, self._most)
        )

    def _is_relevant(self, kind: int, path: bytes) -> bool:
        """Return whether a change can affect a save."""
        root = os.fsencode(self._repo.root) + b"/"
        if not path.startswith(root):
            name = os.fsdecode(path)
            return name in self._outside or (
                kind != MODIFIED and os.path.dirname(name) in self._outside
            )
        relative = path.removeprefix(root)
        if relative.split(b"/")[0] in (b".git", RESERVED) or is_temporary(
            os.path.basename(relative)
        ):
            return False
        if relative in self._tracked:
            return True
        query = relative + b"/" if os.path.isdir(path) and not os.path.islink(path) else relative
        return not ignored(self._repo, [query], self._read)

    def _read(self, path: bytes) -> bytes | None:
        return content(os.path.join(os.fsencode(self._repo.root), path))


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
