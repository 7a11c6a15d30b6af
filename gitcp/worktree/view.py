"""Read-only view of a working tree, path by path. Follows no links."""

from __future__ import annotations

import os
import stat
from collections.abc import Collection, Iterator

from gitcp.worktree import open_files
from gitcp.worktree.directories import PathInaccessible
from gitcp.worktree.paths import problem
from gitcp.worktree.sqlite_files import size_of_database
from gitcp.worktree.writer import Writer


class WorktreeView:
    """A read-only view of a working tree through the writer's descriptors."""

    def __init__(self, tree: Writer) -> None:
        self._tree = tree
        self._kinds: dict[bytes, str] = {}

    def kind(self, path: bytes) -> str:
        """Return file, symlink, directory, special, shut, or "" if nothing exists there. Cached
        while a plan is made.

        "shut" means that a directory above cannot be entered, so the kind is unknown.
        """
        if path not in self._kinds:
            self._kinds[path] = self._look(path)
        return self._kinds[path]

    def _look(self, path: bytes) -> str:
        try:
            status = self._tree.lstat(path)
        except PathInaccessible:
            return "shut"
        if status is None:
            return ""
        if stat.S_ISDIR(status.st_mode):
            return "directory"
        if stat.S_ISLNK(status.st_mode):
            return "symlink"
        return "file" if stat.S_ISREG(status.st_mode) else "special"

    def below(self, path: bytes) -> Iterator[bytes]:
        """Yield every path below a directory, except directories that are entered themselves."""
        ahead = self._children(path)
        while ahead:
            path = ahead.pop()
            if (
                problem(path) is None
                and self.kind(path) == "directory"
                and self._is_listable_and_filled(path)
            ):
                ahead += self._children(path)
            else:
                yield path

    def _children(self, path: bytes) -> list[bytes]:
        """Return the paths of what is in a directory, the last one first."""
        return [path + b"/" + name for name in reversed(self._tree.names(path))]

    def _is_listable_and_filled(self, path: bytes) -> bool:
        try:
            return bool(self._tree.names(path))
        except PathInaccessible:
            return False

    def read(self, path: bytes) -> bytes | None:
        """Return the bytes of a regular file, None if there is none."""
        return b"".join(self._tree.read(path)) if self.kind(path) == "file" else None

    def writers(self, paths: Collection[bytes]) -> dict[bytes, tuple[str, ...]]:
        """Return the processes that have one of these files open for writing."""
        full = {os.path.join(self._tree.root, path): path for path in paths}
        return {full[path]: names for path, names in open_files.writers(full).items()}

    def holds_database(self, path: bytes) -> bool:
        """Return whether an SQLite database is there."""
        return size_of_database(os.path.join(self._tree.root, path)) is not None

    def is_same(self, path: bytes, other: bytes) -> bool:
        """Return whether two paths name the same file."""
        if "shut" in (self.kind(path), self.kind(other)):
            return False
        statuses = [self._tree.lstat(name) for name in (path, other)]
        return (
            statuses[0] is not None
            and statuses[1] is not None
            and os.path.samestat(statuses[0], statuses[1])
        )
