"""What only the user decides about a repository, recorded outside of it: in
`<state directory>/stores/<name>/` (gitcp.user_state).

The name is made of the device, inode and path of the git directory, and of a random mark in it. So
a record is found again only from where it was made: not from a copy, not from what an archive
brought, however its files look, and not from another directory that later got the same inode. If
the directory is moved, nothing is recorded of it, until the user says it again.
"""

from __future__ import annotations

import hashlib
import os
import re
from contextlib import suppress
from pathlib import Path

from gitcp import user_state
from gitcp.errors import GitcpError
from gitcp.git.fsync import make_own_directory, read_own, replace_file
from gitcp.model import Host

DIRECTORY, MARK = "stores", "mark"
MARKED = re.compile(rb"[0-9a-f]{32}\n")
OWN = "own"
"""The record that a store was created by this user here, or is trusted all the same."""


def state_directory(host: Host) -> Path:
    """Return the user's state directory, existing or not."""
    return Path(user_state.directory(host.env, str(host.home)))


def unwritable(host: Host, left: str) -> GitcpError:
    """Return the error for a state directory that is not writable; `left` is what was not done."""
    where = state_directory(host)
    return GitcpError(f"{where} cannot be written: {left}", hint=f"ls -ld {where}")


def has(git_dir: Path, host: Host, name: str) -> bool:
    """Return whether something is recorded of a git directory."""
    directory = _directory(git_dir, host)
    return directory is not None and os.path.isfile(directory / name)


def read(git_dir: Path, host: Host, name: str) -> bytes | None:
    """Return what is recorded, None if nothing is. Raises OSError if it is unreadable."""
    directory = _directory(git_dir, host)
    try:
        return read_own(directory / name) if directory is not None else None
    except FileNotFoundError:
        return None


def write(git_dir: Path, host: Host, name: str, data: bytes) -> None:
    """Record something of a git directory. Raises OSError."""
    mark = git_dir / "gitcp" / MARK
    if _mark(git_dir) is None:
        make_own_directory(mark.parent)
        replace_file(mark, os.urandom(16).hex().encode("ascii") + b"\n")
    directory = _directory(git_dir, host)
    if directory is None:
        raise FileNotFoundError(mark)
    path = directory / name
    user_state.make_directory(str(path.parent))
    replace_file(path, data, private=True)


def remove(git_dir: Path, host: Host, name: str) -> None:
    """Remove a record, if there is one. A place that cannot be looked at has none."""
    directory = _directory(git_dir, host)
    if directory is not None and os.path.lexists(directory / name):
        with suppress(FileNotFoundError):
            (directory / name).unlink()


def _directory(git_dir: Path, host: Host) -> Path | None:
    """Return the directory of the records of a git directory; None if it has no mark."""
    mark = _mark(git_dir)
    if mark is None:
        return None
    path = os.path.realpath(git_dir)
    status = os.stat(path)
    where = os.fsencode(f"{status.st_dev} {status.st_ino} {path}\0")
    return state_directory(host) / DIRECTORY / hashlib.sha256(where + mark).hexdigest()[:40]


def _mark(git_dir: Path) -> bytes | None:
    try:
        mark = read_own(git_dir / "gitcp" / MARK)
    except OSError:
        return None
    return mark if MARKED.fullmatch(mark) else None
