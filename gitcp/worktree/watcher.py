"""Waits until something changes that a save would take: the sole user of watchfiles.

Each directory is watched by itself, so that what git ignores costs nothing: no watch, no event.
Nothing is scanned here but names of directories, and those only at the beginning and when
directories come.
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
"""Paths outside of the working tree that count, there or not; asked again when directories came."""


class Stop:
    """Says that waiting shall end; `set` may be called by a signal."""

    def __init__(self) -> None:
        self._is_set = False

    def set(self) -> None:
        """From now on nobody waits."""
        self._is_set = True

    def is_set(self) -> bool:
        """As watchfiles wants it."""
        return self._is_set


class Watcher:
    """The watch over one working tree and what lies elsewhere, from when it is made."""

    def __init__(self, repo: Repository, most: int, elsewhere: Elsewhere, stop: Stop) -> None:
        self._repo, self._most, self._elsewhere, self._stop = repo, most, elsewhere, stop
        self._outside: frozenset[str] = frozenset()
        self._tracked: set[bytes] = set()
        self._notify = self._armed()

    def wait(self, seconds: float | None) -> bool:
        """Whether something changed, within so many seconds (None: however long it takes), or until
        `stop` is set.

        Raises RepositoryNotFound if the working tree is gone, GitcpError if it cannot be watched
        any more.
        """
        timeout = 0 if seconds is None else max(1, int(seconds * 1000))
        found = self._notify.watch(TOGETHER_MS, STEP_MS, timeout, self._stop)
        if isinstance(found, str):
            return False
        counting = [(kind, path) for kind, path in found if self._counts(kind, os.fsencode(path))]
        if any(kind != MODIFIED or path.endswith("/.gitignore") for kind, path in counting):
            before, self._notify = self._notify, self._armed()
            before.close()
        return bool(counting)

    def close(self) -> None:
        """Watch no longer."""
        self._notify.close()

    def _armed(self) -> RustNotify:
        try:
            from watchfiles._rust_notify import RustNotify  # 10 ms, and an extra
        except ImportError:
            raise GitcpError(MISSING, hint=INSTALL) from None
        places = self._places()
        while True:
            try:
                notify = RustNotify(sorted(places), False, False, 0, False, True)
            except FileNotFoundError:  # it went while we looked
                notify = None
            except (OSError, RuntimeError) as error:
                what = f"{self._repo.root} cannot be watched ({len(places):,} directories): {error}"
                raise GitcpError(
                    what, hint="on Linux: sysctl fs.inotify.max_user_watches"
                ) from None
            before, places = places, self._places()
            if notify is not None and places == before:
                return notify  # else something came before it was watched

    def _places(self) -> set[str]:
        """The directories to be watched; takes up what else is known of now."""
        if not self._repo.git_dir.is_dir():
            raise RepositoryNotFound(
                f"the repository at {self._repo.root} is gone: nothing is watched any more"
            )
        self._outside = frozenset(map(str, self._elsewhere()))
        folders = index.read(self._repo).folders
        self._tracked = {
            _join(place, name) for place, folder in folders.items() for name in folder.files
        }
        inside = {os.fsdecode(path) for path in self._directories({*folders})}
        return inside | {
            d for path in self._outside for d in (path, os.path.dirname(path)) if os.path.isdir(d)
        }

    def _directories(self, tracked: set[bytes]) -> Iterator[bytes]:
        """The directories of the working tree from which a save takes something."""
        root = os.fsencode(self._repo.root)
        level = [b""]
        while level:
            yield from (os.path.join(root, path) if path else root for path in level)
            below = [path for above in level for path in _below(root, above)]
            out = ignored(self._repo, [path + b"/" for path in below], self._read)
            level = [
                path
                for path in below
                if path in tracked or (path + b"/" not in out and not self._is_left(root, path))
            ]

    def _is_left(self, root: bytes, path: bytes) -> bool:
        """Whether a save leaves a directory out as a whole."""
        full = os.path.join(root, path)
        return os.path.lexists(full + b"/.git") or (
            os.path.basename(path) in DEPENDENCIES and is_overfull(full, self._most)
        )

    def _counts(self, kind: int, path: bytes) -> bool:
        """Whether a change can make a difference to a save."""
        root = os.fsencode(self._repo.root) + b"/"
        if not path.startswith(root):
            name = os.fsdecode(path)
            return name in self._outside or (
                kind != MODIFIED and os.path.dirname(name) in self._outside
            )
        inside = path.removeprefix(root)
        if inside.split(b"/")[0] in (b".git", RESERVED) or is_temporary(os.path.basename(inside)):
            return False
        if inside in self._tracked:
            return True
        asked = inside + b"/" if os.path.isdir(path) and not os.path.islink(path) else inside
        return not ignored(self._repo, [asked], self._read)

    def _read(self, path: bytes) -> bytes | None:
        return content(os.path.join(os.fsencode(self._repo.root), path))


def _below(root: bytes, directory: bytes) -> Iterator[bytes]:
    """The directories in a directory; none of what may not be watched or cannot be listed."""
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
