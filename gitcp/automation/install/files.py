"""Reading and writing the files that agents are set up by: each is looked at before, and replaced
whole.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import stat
from pathlib import Path

from gitcp.errors import GitcpError
from gitcp.git.fsync import FULL, sync_directory
from gitcp.value import Value

LARGEST = 4 << 20


class Unusable(GitcpError):
    """A file that is left as it is, and why: the message begins with the reason, not with the
    file.
    """


class NoSpace(Unusable):
    """The same, because the disk is full."""


class Seen(Value):
    """A file as it was found: where it really is, and its bytes (None: it is not there)."""

    target: Path
    data: bytes | None


def look(path: Path, within: Path | None) -> Seen:
    """What lies at `path`; of a link, what it leads to. Raises Unusable for whatever could not be
    replaced.

    `within` is the directory that a link must not lead out of: a project is somebody else's.
    """
    target = Path(os.path.realpath(path))
    if within is not None and not target.is_relative_to(os.path.realpath(within)):
        raise Unusable(f"it leads out of the project, to {target}")
    try:
        descriptor = os.open(target, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return Seen(target, None)
    except OSError as error:
        raise Unusable(f"it cannot be read: {error.strerror}") from None
    with open(descriptor, "rb") as file:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode) or status.st_size > LARGEST:
            raise Unusable("it is not a small file")
        if not status.st_mode & 0o222:
            raise Unusable("it is read-only")
        return Seen(target, file.read())


def replace(seen: Seen, data: bytes | None, *, runs: bool = False) -> None:
    """Put `data` where `seen` was, or nothing (None); a new file that `runs` is executable.

    Raises Unusable if it is not as it was seen any more, NoSpace.
    """
    if look(seen.target, None).data != seen.data:
        raise Unusable("it was changed meanwhile")
    try:
        if data is None:
            seen.target.unlink()
        else:
            _write(seen.target, data, 0o777 if runs else 0o666)
        sync_directory(seen.target.parent)
    except OSError as error:
        kind = NoSpace if error.errno in FULL else Unusable
        raise kind(f"it cannot be written: {error.strerror}") from None


def _write(target: Path, data: bytes, mode: int) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    temporary = target.with_name(f".{target.name}.{secrets.token_hex(4)}")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
    try:
        with open(descriptor, "wb") as file:
            _as_before(descriptor, target)
            file.write(data)
            file.flush()
            os.fsync(descriptor)
        os.replace(temporary, target)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def _as_before(descriptor: int, target: Path) -> None:
    """The permissions and the owner that the file had."""
    with contextlib.suppress(FileNotFoundError):
        status = os.stat(target)
        os.fchmod(descriptor, stat.S_IMODE(status.st_mode))
        with contextlib.suppress(PermissionError):
            os.fchown(descriptor, status.st_uid, status.st_gid)


def prune_directories(directory: Path, keep: Path) -> None:
    """Remove `directory` and what is above it, as long as it is empty and below `keep`."""
    while directory != keep and directory.is_relative_to(keep):
        try:
            directory.rmdir()
        except OSError:
            return
        directory = directory.parent
