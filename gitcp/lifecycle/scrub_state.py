"""Remove purged text from gitcp's own files: caches are deleted, others are edited."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

from gitcp.errors import GitcpError
from gitcp.git import partial_clone, shared
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
    """Return gitcp's files that contain text to remove. Raises GitcpError."""
    return tuple(path for path in _files(repo) if _contains(path, text))


def clean(repo: Repository, text: Text) -> None:
    """Delete the caches, which refer to purged objects, and edit all other files. Raises
    GitcpError.

    Partially fetched sessions are deleted too; they can be fetched again.
    """
    partial_clone.clear(repo)
    for path in _files(repo):
        try:
            if _is_cache(path):
                path.unlink(missing_ok=True)
            elif (edited := text(data := path.read_bytes())) != data:
                replace_file(path, edited)
        except OSError as error:
            raise _failed(error) from None


def _is_cache(path: Path) -> bool:
    return bool(CACHES & set(path.parts[-2:]))


def _contains(path: Path, text: Text) -> bool:
    try:
        data = path.read_bytes()
    except OSError as error:
        if _is_cache(path):  # another user's alone: it is deleted unread
            return False
        raise _failed(error) from None
    return text(data) != data


def _files(repo: Repository) -> Iterator[Path]:
    """Yield every file of gitcp's in any working tree. Raises GitcpError for a directory that
    cannot be read.
    """
    for directory in (repo.common_dir, *sorted(repo.common_dir.glob("worktrees/*"))):
        for folder, subfolders, names in os.walk(directory / "gitcp", onerror=_fail):
            subfolders[:] = [name for name in subfolders if name != partial_clone.DIRECTORY]
            for path in (Path(folder, name) for name in sorted(names)):
                if path.is_file() and not path.is_symlink():
                    yield path


def _fail(error: OSError) -> None:
    if not isinstance(error, FileNotFoundError):
        raise _failed(error)


def _failed(error: OSError) -> GitcpError:
    return GitcpError(
        f"cannot purge {error.filename}: {error.strerror}; no checkpoint was changed",
        hint=f"ls -ld {shared.quoted(str(error.filename))}",
    )
