"""Change git's index: git works on a copy, which then replaces the index under git's own lock.

A crash leaves that lock behind only at one moment, when it is a hard link to the copy: so the next
run recognizes it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from gitcp.errors import GitFailed
from gitcp.git import index
from gitcp.git.repo import Repository

if TYPE_CHECKING:
    from gitcp.fingerprint import Fingerprint

NAME = "index"


@contextmanager
def changing(repo: Repository) -> Iterator[Repository]:
    """Yield the repository with a copy of its index, which replaces the index if nothing is raised.

    The caller prevents concurrent restores. Raises GitFailed, and leaves the index unchanged, if
    another process has it locked or changed it meanwhile; and OSError.
    """
    import copy  # only for restoring staged changes
    import shutil

    copy_path, lock = repo.state_dir / NAME, repo.git_dir / "index.lock"
    _remove_leftovers(copy_path, lock)
    before = index.current_fingerprint(repo)
    try:
        if before is not None:
            # keep the mtime: git uses it to decide which entries to check again
            shutil.copy2(repo.index, copy_path)
        changed = copy.copy(repo)
        changed.index = copy_path
        copied = index.current_fingerprint(changed)
        yield changed
        if index.current_fingerprint(changed) != copied:
            _replace_index(copy_path, lock, repo, before)
    finally:
        with suppress(OSError):
            _remove_leftovers(copy_path, lock)


def _replace_index(
    copy_path: Path, lock: Path, repo: Repository, before: Fingerprint | None
) -> None:
    descriptor = os.open(copy_path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    try:
        os.link(copy_path, lock)
    except FileExistsError:
        raise GitFailed(f"{lock} exists: another git process is running, or has crashed") from None
    if index.current_fingerprint(repo) != before:
        lock.unlink()
        raise GitFailed("another git process has changed it meanwhile")
    os.rename(lock, repo.index)


def _remove_leftovers(copy_path: Path, lock: Path) -> None:
    """Remove the files that a crash left."""
    with suppress(FileNotFoundError):
        # Killed, `restore --index` left an index.lock that nobody could tell from git's.
        if os.path.samefile(copy_path, lock):
            lock.unlink()
    for path in (copy_path, copy_path.with_name(f"{NAME}.lock")):
        path.unlink(missing_ok=True)
