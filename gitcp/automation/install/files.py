"""Read and atomically replace the files of agents."""

from __future__ import annotations

import contextlib
import os
import secrets
import stat
from pathlib import Path

from gitcp.errors import GitcpError
from gitcp.git import shared
from gitcp.git.fsync import FULL, make_directories, replacing, sync_directory, write_all
from gitcp.value import Value

LARGEST = 4 << 20


class Unusable(GitcpError):
    """A file that cannot be changed. The message is the reason alone, without the path."""


class NoSpace(Unusable):
    """A file that cannot be changed because the disk is full."""


class FileState(Value):
    """The state of a file: its real path, and its bytes (None: it does not exist)."""

    target: Path
    data: bytes | None


def read_state(path: Path, within: Path | None) -> FileState:
    """Read the file at `path`, following links. Raises Unusable if it could not be replaced.

    `within` is a directory that links must not leave: a project may come from somebody else.
    """
    target = Path(os.path.realpath(path))
    if within is not None and not target.is_relative_to(os.path.realpath(within)):
        raise Unusable(f"points outside the project, to {target}")
    try:
        descriptor = os.open(target, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return FileState(target, None)
    except OSError as error:
        raise Unusable(f"cannot be read: {error.strerror}") from None
    with open(descriptor, "rb") as file:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode) or status.st_size > LARGEST:
            raise Unusable("not a regular file, or too large")
        if not status.st_mode & 0o222:
            raise Unusable("read-only")
        return FileState(target, file.read())


def replace(seen: FileState, data: bytes | None, *, runs: bool = False) -> None:
    """Write `data`, or remove the file (None). A new file is executable if `runs`.

    Raises Unusable if the file has changed since `seen`, and NoSpace.
    """
    if read_state(seen.target, None).data != seen.data:
        raise Unusable("changed in the meantime")
    try:
        if data is None:
            seen.target.unlink()
            sync_directory(seen.target.parent)
        else:
            _write(seen.target, data, 0o777 if runs else 0o666)
    except OSError as error:
        kind = NoSpace if error.errno in FULL else Unusable
        raise kind(f"cannot be written: {error.strerror}") from None


def _write(target: Path, data: bytes, mode: int) -> None:
    make_directories(target.parent)
    temporary = target.with_name(f".{target.name}.{secrets.token_hex(4)}")
    with replacing(target, temporary=temporary, mode=mode, private=True) as descriptor:
        shared.give(descriptor, os.path.dirname(target))
        _copy_permissions(descriptor, target)
        write_all(descriptor, data)


def _copy_permissions(descriptor: int, target: Path) -> None:
    """Apply the old file's permissions and owner."""
    with contextlib.suppress(FileNotFoundError):
        status = os.stat(target)
        os.fchmod(descriptor, stat.S_IMODE(status.st_mode))
        with contextlib.suppress(PermissionError):
            os.fchown(descriptor, status.st_uid, status.st_gid)


def prune_directories(directory: Path, keep: Path) -> None:
    """Remove `directory` and its parents while they are empty and below `keep`."""
    while directory != keep and directory.is_relative_to(keep):
        try:
            directory.rmdir()
        except OSError:
            return
        directory = directory.parent
