"""Read files that other programs may be writing: return consistent bytes or nothing.

Never follows a symbolic link, never waits for a FIFO. Small files are read whole; large ones are
passed to a consumer in blocks.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable, Iterator
from typing import TypeVar

from gitcp import clock, fingerprint
from gitcp.errors import GitcpError
from gitcp.fastpath.stat_check import UNSETTLED
from gitcp.worktree import sqlite_files

TRIES = 3
BLOCK = 1 << 20
_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK
_OURS = (errno.EMFILE, errno.ENFILE, errno.ENOMEM)

T = TypeVar("T")


class Unstable(Exception):
    """The file kept changing while it was read."""


def read(path: bytes, status: os.stat_result) -> tuple[bytes, os.stat_result]:
    """Return the bytes of the regular file that lstat found at `path`, and the lstat result that
    belongs to these bytes.

    Raises OSError if it cannot be read (FileNotFoundError if it was deleted), Unstable if it keeps
    changing.
    """
    return consume(path, status, _whole)


def consume(
    path: bytes, status: os.stat_result, take: Callable[[int, os.stat_result], T | None]
) -> tuple[T, os.stat_result]:
    """Return the result of `take(descriptor, status)` for the file and its final status. Retry if
    the file changed meanwhile or `take` returned None. Raises OSError, Unstable.
    """
    for _ in range(TRIES):
        if not stat.S_ISREG(status.st_mode):
            break
        try:
            descriptor = os.open(path, _FLAGS)
        except OSError as error:
            if error.errno != errno.ELOOP:
                raise
            status = os.lstat(path)
            continue
        try:
            result = take(descriptor, status)
            after = os.fstat(descriptor)
        finally:
            sqlite_files.close(descriptor)
        if result is not None and fingerprint.of(status) == fingerprint.of(after):
            return result, after
        status = os.lstat(path)
    raise Unstable


def blocks(descriptor: int) -> Iterator[bytes]:
    """Yield the rest of a file in blocks."""
    while block := os.read(descriptor, BLOCK):
        yield block


def content(path: bytes) -> bytes | None:
    """Return the bytes of a regular file, None if it is missing or unreadable."""
    try:
        return read(path, os.lstat(path))[0]
    except (OSError, Unstable):
        return None


def settled(ctime_ns: int, started: int) -> bool:
    """Return whether any change after `started` would give the file another ctime. Times are in
    nanoseconds.

    Some file systems store whole seconds, FAT two.
    """
    return ctime_ns < (started if ctime_ns % 10**9 else started - 2 * 10**9)


def settled_ctime(status: os.stat_result, started: int) -> int:
    """Return the ctime in nanoseconds if it would show a change after `started`, else UNSETTLED."""
    return status.st_ctime_ns if settled(status.st_ctime_ns, started) else UNSETTLED


def tick() -> int:
    """Return the file system clock in nanoseconds: later changes get no earlier timestamp."""
    return clock.of_files()


def reason(error: OSError, path: bytes) -> str:
    """Return the error's short name, such as EACCES. Raises GitcpError if the system is out of
    resources.
    """
    if error.errno in _OURS:
        raise GitcpError(
            f"cannot read {os.fsdecode(path)!r}: {error.strerror}; nothing was saved"
        ) from None
    return errno.errorcode.get(error.errno or 0, "unknown")


def _whole(descriptor: int, status: os.stat_result) -> bytes | None:
    size = status.st_size
    data = os.read(descriptor, size + 1)
    while len(data) < size and (block := os.read(descriptor, size + 1 - len(data))):
        data += block
    return data if len(data) == size else None
