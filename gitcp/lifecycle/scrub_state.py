"""Remove purged text from gitcp's own files: caches are deleted, others are edited."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

from gitcp.errors import GitcpError
from gitcp.git import partial_clone
from gitcp.git.fsync import replace_file
from gitcp.git.repo import Repository

Text = Callable[[bytes], bytes]

CACHES = frozenset(
    {
        "worktree-state",
        "unchanged",
        "config",
        "policy",
        "scanned",
        "verified",
        "limits.json",
        "hooked",
        "search",
        "view.html",
    }
)
"""Files that can be rebuilt. A page may contain the text in an encoding that is not searched."""


def affected(repo: Repository, text: Text) -> tuple[Path, ...]:
    """Return gitcp's files that contain text to remove."""
    return tuple(path for path, data in _files(repo) if text(data) != data)


def clean(repo: Repository, text: Text) -> None:
    """Delete the caches, which refer to purged objects, and edit all other files. Raises
    GitcpError.

    Partially fetched sessions are deleted too; they can be fetched again.
    """
    partial_clone.clear(repo)
    for path, data in _files(repo):
        try:
            if CACHES & set(path.parts[-2:]):
                path.unlink(missing_ok=True)
            elif (edited := text(data)) != data:
                replace_file(path, edited)
        except OSError as error:
            raise GitcpError(
                f"cannot write {path}: {error.strerror}; no checkpoint was changed"
            ) from None


def _files(repo: Repository) -> Iterator[tuple[Path, bytes]]:
    """Yield every file of gitcp's in any working tree, with its content."""
    for directory in (repo.common_dir, *sorted(repo.common_dir.glob("worktrees/*"))):
        for folder, subfolders, names in os.walk(directory / "gitcp"):
            subfolders[:] = [name for name in subfolders if name != partial_clone.DIRECTORY]
            for path in (Path(folder, name) for name in sorted(names)):
                if path.is_file() and not path.is_symlink():
                    yield path, path.read_bytes()
