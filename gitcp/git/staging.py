"""Changes git's index: git works on a copy, which then takes the index's place under git's own
lock.

A crash leaves that lock behind at one moment only, and then it is the copy itself: so the next one
knows it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from gitcp.errors import GitFailed
from gitcp.git.repo import Repository

NAME = "index"


@contextmanager
def changing(repo: Repository) -> Iterator[Repository]:
    """The repository with a copy of its index, which takes the index's place if nothing is raised.

    The caller keeps others who would do the same away. Raises GitFailed, and leaves the index as it
    is, if somebody else has it locked or changed it meanwhile; and OSError.
    """
    import copy  # only for who restores what was staged
    import shutil

    made, lock = repo.state_dir / NAME, repo.git_dir / "index.lock"
    _heal(made, lock)
    before = _identity(repo.index)
    try:
        if before is not None:
            # its time too: by that git knows which entries it must look at again
            shutil.copy2(repo.index, made)
        changed = copy.copy(repo)
        changed.index = made
        copied = _identity(made)
        yield changed
        if _identity(made) != copied:
            _put(made, lock, repo.index, before)
    finally:
        with suppress(OSError):
            _heal(made, lock)


def _put(made: Path, lock: Path, index: Path, before: tuple[int, ...] | None) -> None:
    descriptor = os.open(made, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    try:
        os.link(made, lock)
    except FileExistsError:
        raise GitFailed(f"{lock} exists: another git is at work, or has crashed") from None
    if _identity(index) != before:
        lock.unlink()
        raise GitFailed("another git has changed it meanwhile")
    os.rename(lock, index)


def _heal(made: Path, lock: Path) -> None:
    """Remove what a crash left."""
    with suppress(FileNotFoundError):
        if os.path.samefile(made, lock):
            lock.unlink()
    for left in (made, made.with_name(f"{NAME}.lock")):
        left.unlink(missing_ok=True)


def _identity(path: Path) -> tuple[int, ...] | None:
    try:
        status = os.stat(path)
    except FileNotFoundError:
        return None
    return status.st_ino, status.st_size, status.st_mtime_ns
