"""Read files that are not gitcp's: those of agents, the user, git.

A named pipe among them would be waited for without end, a device read without end: both are put in
the place of a file by secret managers, by sandboxes that hide one, and by mistake. So nothing but a
regular file is read, and no more of it than is expected of its kind.
"""

from __future__ import annotations

import errno
import os
import stat

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import BinaryIO

MOST = 64 << 20
"""Bytes of a file that is read as a whole: settings, rules, registries, lists."""


def opened(path: str | bytes | os.PathLike[str] | os.PathLike[bytes]) -> BinaryIO:
    """Open a file for reading, following links. Never waits. Raises OSError, also if it is not a
    regular file.
    """
    # A pipe in the place of a transcript or of settings was waited for without end.
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        # A pipe in the place of a transcript was waited for without end.
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(errno.EINVAL, "not a regular file", os.fsdecode(path))
        return open(descriptor, "rb")
    except BaseException:
        os.close(descriptor)
        raise


def content(path: str | bytes | os.PathLike[str] | os.PathLike[bytes], most: int = MOST) -> bytes:
    """Return the bytes of a file. Raises OSError as `opened`, and if it has more than `most`."""
    with opened(path) as file:
        # read(most + 1) would make a buffer of that size for every file, however small
        data = file.read() if os.fstat(file.fileno()).st_size <= most else None
    if data is None:
        raise OSError(errno.EFBIG, f"larger than {most >> 20} MiB", os.fsdecode(path))
    return data


def is_regular(path: str | os.PathLike[str]) -> bool:
    """Return whether there is a regular file, or nothing, at a path: whether another program can
    be given its name.
    """
    try:
        return stat.S_ISREG(os.stat(path).st_mode)
    except FileNotFoundError:
        return True
    except OSError:
        return False


def is_pipe(path: str | os.PathLike[str]) -> bool:
    """Return whether a path is a named pipe."""
    try:
        return stat.S_ISFIFO(os.stat(path).st_mode)
    except OSError:
        return False
