"""Which directories of a working tree are watched, and which events there can affect a save."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from pathlib import Path

from gitcp.git import index
from gitcp.git.repo import Repository
from gitcp.model import RESERVED
from gitcp.worktree.dependencies import DEPENDENCIES, is_overfull
from gitcp.worktree.paths import is_temporary
from gitcp.worktree.reading import content
from gitcp.worktree.rules import ignored

Elsewhere = Callable[[], Iterable[Path]]
"""Returns the watched paths outside the working tree, existing or not; called again when
directories appear.
"""


class Relevance:
    """Ignored files and directories do not matter, unless they are tracked; nor does what is in a
    repository inside, or in a directory with more than `most` dependencies.
    """

    def __init__(self, repo: Repository, most: int, elsewhere: Elsewhere) -> None:
        self._repo, self._most, self._elsewhere = repo, most, elsewhere
        self._root = os.fsencode(repo.root)
        self._outside: frozenset[str] = frozenset()
        self._index: object = ()
        self._tracked: frozenset[bytes] = frozenset()

    def outside(self) -> set[bytes]:
        """Return the directories outside the working tree that are watched, asked for anew."""
        self._outside = frozenset(map(str, self._elsewhere()))
        return {
            os.fsencode(directory)
            for path in self._outside
            for directory in (path, os.path.dirname(path))
            if os.path.isdir(directory)
        }

    def enters(self, paths: list[bytes]) -> list[bytes]:
        """Return those of these directories of one depth in which a save captures files."""
        ignored_paths = ignored(self._repo, [path + b"/" for path in paths], self._read)
        tracked = self._ignored_but_tracked() if ignored_paths else frozenset()
        return [
            path
            for path in paths
            if path != RESERVED
            and (path in tracked or (path + b"/" not in ignored_paths and not self._skips(path)))
        ]

    def matters(self, path: bytes, *, is_more: bool) -> bool:
        """Return whether a change of an absolute path can affect a save; `is_more` if it is not
        only a file's content.
        """
        root = self._root + b"/"
        if not path.startswith(root):
            name = os.fsdecode(path)
            return name in self._outside or (is_more and os.path.dirname(name) in self._outside)
        relative = path.removeprefix(root)
        top, name_ = relative.split(b"/")[0], os.path.basename(relative)
        if top in (b".git", RESERVED) or is_temporary(name_):
            return False
        query = relative + b"/" if os.path.isdir(path) and not os.path.islink(path) else relative
        if not ignored(self._repo, [query], self._read):
            return True
        return relative in self._ignored_but_tracked()

    def _ignored_but_tracked(self) -> frozenset[bytes]:
        """Return the tracked paths that are ignored, and the directories above them. git is asked
        again only when the index changed.
        """
        file = index.current_fingerprint(self._repo)
        if file != self._index:
            listing = self._repo.git("ls-files", "-z", "-c", "-i", "--exclude-standard")
            files = listing.split(b"\0")[:-1]
            above = {
                path[:at] for path in files for at in range(len(path)) if path[at : at + 1] == b"/"
            }
            self._index, self._tracked = file, frozenset({*files, *above})
        return self._tracked

    def _skips(self, path: bytes) -> bool:
        """Return whether a save skips a directory as a whole."""
        full = self._root + b"/" + path
        return os.path.lexists(full + b"/.git") or (
            os.path.basename(path) in DEPENDENCIES and is_overfull(full, self._most)
        )

    def _read(self, path: bytes) -> bytes | None:
        return content(self._root + b"/" + path)
