"""What a restore's plan asks of the working tree: what stands where, and whether it is what a
checkpoint has.
"""

from __future__ import annotations

from gitcp.git.index import git_mode
from gitcp.model import Conversion, Entry
from gitcp.restoring.contents import Contents
from gitcp.worktree.view import WorktreeView
from gitcp.worktree.writer import Writer


class WorktreeDisk(WorktreeView):
    """A working tree, compared with the contents of checkpoints."""

    def __init__(self, tree: Writer, contents: Contents) -> None:
        super().__init__(tree)
        self._contents = contents

    def stands(self, path: bytes, entry: Entry, conversion: Conversion | None) -> bool:
        """Whether just this file or link lies there, executable or not as it should be."""
        status = None if self.kind(path) == "shut" else self._tree.lstat(path)
        if status is None or git_mode(status.st_mode) != entry.mode:
            return False
        return self._contents.stands(self._tree, path, entry, conversion)

    def lacks_lfs(self, entry: Entry) -> str:
        """The LFS object that a file needs and that is not here; "" if it is."""
        return self._contents.lacks_lfs(entry)
