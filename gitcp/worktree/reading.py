"""Reads files that somebody else may be writing: either the bytes belong together, or nothing is
returned.

Never follows a symbolic link, never waits for a FIFO. Small files are read whole; a large one is
given to its consumer in blocks.
"""

from __future__ import annotations

import errno
import os
import stat
import time
from collections.abc import Callable, Iterator
from typing import TypeVar

from gitcp.errors import GitcpError

TRIES = 3
BLOCK = 1 << 20
_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK
_OURS = (errno.EMFILE, errno.ENFILE, errno.ENOMEM)

T = TypeVar("T")


class Unstable(Exception):
    """The file kept changing while it was read."""


def read(path: bytes, found: os.stat_result) -> tuple[bytes, os.stat_result]:
    """The bytes of the regular file that lstat found at `path`, and what lstat says of just these
    bytes.

    Raises OSError if it cannot be read (FileNotFoundError if it went away), Unstable.
    """
    return consume(path, found, _whole)


def consume(
    path: bytes, found: os.stat_result, take: Callable[[int, os.stat_result], T | None]
) -> tuple[T, os.stat_result]:
    """`take(descriptor, status)` of the file, tried again where the file changed meanwhile or it
    returned None.
    """
    for _ in range(TRIES):
        if not stat.S_ISREG(found.st_mode):
            break
        try:
            descriptor = os.open(path, _FLAGS)
        except OSError as error:
            if error.errno != errno.ELOOP:
                raise
            found = os.lstat(path)
            continue
        try:
            taken = take(descriptor, found)
            after = os.fstat(descriptor)
        finally:
            os.close(descriptor)
        if taken is not None and _same(found, after):
            return taken, after
        found = os.lstat(path)
    raise Unstable


def blocks(descriptor: int) -> Iterator[bytes]:
    """What is left in a file, in blocks."""
    while block := os.read(descriptor, BLOCK):
        yield block


def content(path: bytes) -> bytes | None:
    """The bytes of a regular file; None if there is none that can be read."""
    try:
        return read(path, os.lstat(path))[0]
    except (OSError, Unstable):
        return None


def settled(ctime_ns: int, started: int) -> bool:
    """Whether a change made after `started` would have given the file another ctime.

    Some file systems count in whole seconds, FAT in two.
    """
    return ctime_ns < (started if ctime_ns % 10**9 else started - 2 * 10**9)


def tick() -> int:
    """The clock that stamps files, in nanoseconds: what is stamped later than this is stamped no
    earlier.
    """
    coarse = getattr(time, "CLOCK_REALTIME_COARSE", time.CLOCK_REALTIME)
    return time.clock_gettime_ns(coarse)


def reason(error: OSError, path: bytes) -> str:
    """What the system said, by its short name. Raises GitcpError if it says that we are out of
    means, not the file.
    """
    if error.errno in _OURS:
        raise GitcpError(
            f"{os.fsdecode(path)!r} could not be read: {error.strerror}. Nothing was saved"
        ) from None
    return errno.errorcode.get(error.errno or 0, "unknown")


def _whole(descriptor: int, found: os.stat_result) -> bytes | None:
    size = found.st_size
    data = os.read(descriptor, size + 1)
    while len(data) < size and (more := os.read(descriptor, size + 1 - len(data))):
        data += more
    return data if len(data) == size else None


def _same(a: os.stat_result, b: os.stat_result) -> bool:
    return (
        a.st_ctime_ns == b.st_ctime_ns
        and a.st_size == b.st_size
        and a.st_mtime_ns == b.st_mtime_ns
        and a.st_ino == b.st_ino
        and a.st_mode == b.st_mode
        and a.st_dev == b.st_dev
    )
