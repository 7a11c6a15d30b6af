"""The working tree as a restore plan sees it: what is at a path, and whether it matches a
checkpoint.
"""

from __future__ import annotations

from gitcp.git.index import git_mode
from gitcp.model import Conversion, Entry
from gitcp.restoring.contents import Contents
from gitcp.worktree.sqlite_files import HEADER
from gitcp.worktree.view import WorktreeView
from gitcp.worktree.writer import Writer


class WorktreeDisk(WorktreeView):
    """A working tree, compared with the contents of checkpoints."""

    def __init__(self, tree: Writer, contents: Contents) -> None:
        super().__init__(tree)
        self._contents = contents

    def has(self, path: bytes, entry: Entry, conversion: Conversion | None) -> bool:
        """Return whether exactly this file or link is at `path`, with the same executable bit."""
        status = None if self.kind(path) == "shut" else self._tree.lstat(path)
        if status is None or git_mode(status.st_mode) != entry.mode:
            return False
        return self._contents.has(self._tree, path, entry, conversion)

    def is_database(self, entry: Entry, conversion: Conversion | None) -> bool:
        """Return whether the content is an SQLite database."""
        return self._contents.begins_with(entry, conversion, HEADER)

    def lacks_lfs(self, entry: Entry) -> str:
        """Return the id of the LFS object that a file needs if it is missing; "" otherwise."""
        return self._contents.lacks_lfs(entry)
