"""What of a purged text stands in files of gitcp's own beside the objects: caches are dropped,
others are edited.
"""

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
        "limits.json",
        "hooked",
        "view.html",
    }
)
"""Worth nothing but time. A page may hold the text in a way that is not found."""


def holding(repo: Repository, text: Text) -> tuple[Path, ...]:
    """The files of gitcp's in which something is to be changed."""
    return tuple(path for path, data in _files(repo) if text(data) != data)


def clean(repo: Repository, text: Text) -> None:
    """Drop the caches, which know objects that are to go, and edit every other file. Raises
    GitcpError.

    What was fetched in part goes too: it can be fetched again.
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
                f"{path} cannot be written: {error.strerror}. No checkpoint was changed"
            ) from None


def _files(repo: Repository) -> Iterator[tuple[Path, bytes]]:
    """Every file that gitcp keeps for any working tree, and what it holds."""
    for directory in (repo.common_dir, *sorted(repo.common_dir.glob("worktrees/*"))):
        for place, below, names in os.walk(directory / "gitcp"):
            below[:] = [name for name in below if name != partial_clone.DIRECTORY]
            for path in (Path(place, name) for name in sorted(names)):
                if path.is_file() and not path.is_symlink():
                    yield path, path.read_bytes()
