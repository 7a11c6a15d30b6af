"""Which files git tracked, where its index cannot be read: as far as that is known from elsewhere.

A power cut leaves an index of no bytes, or of NULs. The files can be captured all the same, but
without the index every tracked file would count as untracked, and those that an ignore rule matches
would be missing from the checkpoint.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gitcp.errors import StoreDamaged
from gitcp.git import index as git_index
from gitcp.git import trees
from gitcp.git.index import Index
from gitcp.model import Skip, SkipReason

if TYPE_CHECKING:
    from gitcp.git.reader import ObjectReader
    from gitcp.git.repo import Repository
    from gitcp.worktree.state import ScanMemory

PATH = b".git/index"
"""The path by which a snapshot lists an index that it does not have."""

SCAN, HEAD, NOTHING = "the last scan", "HEAD", "no commit: those that are ignored are not saved"


def instead(repo: Repository, reader: ObjectReader, memory: ScanMemory | None) -> tuple[Index, str]:
    """Return the index that the last scan saw, else that of HEAD, and which of them it is. Raises
    Damaged.
    """
    if memory is not None:
        past = memory.past()
        records = ((path, past.record(path)) for path, _ in memory.walk())
        folders = {path: record.folder for path, record in records if record is not None}
        return Index(folders, 0, any(folder.trees for folder in folders.values())), SCAN
    commit = repo.head().commit
    try:
        entries = list(trees.walk(reader, reader.tree_of(commit))) if commit else []
    except StoreDamaged:
        entries = []
    is_sparse = repo.is_set("core.sparsecheckout", default=False)
    index = git_index.of_tree(entries, repo.object_format, absent=is_sparse)
    return index, HEAD if entries else NOTHING


def skip(why: str, instead: str) -> Skip:
    """Return how a snapshot lists the index that it could not read."""
    return Skip(PATH, SkipReason.UNREADABLE, f"git's index: {why}; tracked files: {instead}")
