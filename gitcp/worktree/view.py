"""What stands where in a working tree, asked path by path. Follows no link, changes nothing."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator

from gitcp.worktree.directories import PathShut
from gitcp.worktree.paths import problem
from gitcp.worktree.writer import Writer


class WorktreeView:
    """What lies in a working tree, asked path by path through the writer's descriptors."""

    def __init__(self, tree: Writer) -> None:
        self._tree = tree
        self._kinds: dict[bytes, str] = {}

    def kind(self, path: bytes) -> str:
        """One of file, symlink, directory, special, shut, or "" if nothing is there; remembered for
        a plan's length.

        Shut means that a directory above cannot be entered, so that nobody knows.
        """
        if path not in self._kinds:
            self._kinds[path] = self._look(path)
        return self._kinds[path]

    def _look(self, path: bytes) -> str:
        try:
            status = self._tree.lstat(path)
        except PathShut:
            return "shut"
        if status is None:
            return ""
        if stat.S_ISDIR(status.st_mode):
            return "directory"
        if stat.S_ISLNK(status.st_mode):
            return "symlink"
        return "file" if stat.S_ISREG(status.st_mode) else "special"

    def below(self, path: bytes) -> Iterator[bytes]:
        """Every path below a directory that is no directory, or one with nothing in it, or one not
        to be entered.
        """
        for name in self._tree.names(path):
            child = path + b"/" + name
            if (
                problem(child) is None
                and self.kind(child) == "directory"
                and self._holds_something(child)
            ):
                yield from self.below(child)
            else:
                yield child

    def _holds_something(self, path: bytes) -> bool:
        """Whether a directory can be listed, and is not empty."""
        try:
            return bool(self._tree.names(path))
        except PathShut:
            return False

    def read(self, path: bytes) -> bytes | None:
        """The bytes of a regular file, None if there is none."""
        return b"".join(self._tree.read(path)) if self.kind(path) == "file" else None

    def is_same(self, path: bytes, other: bytes) -> bool:
        """Whether two names are names of one thing."""
        if "shut" in (self.kind(path), self.kind(other)):
            return False
        found = [self._tree.lstat(each) for each in (path, other)]
        return (
            found[0] is not None and found[1] is not None and os.path.samestat(found[0], found[1])
        )
