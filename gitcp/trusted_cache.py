"""Files of gitcp's own that hold values as Python marshals them: caches, which must cost no time to
read.

marshal believes what it reads, and bytes that were made for it can end the process. So nothing is
unmarshalled but what this user wrote, what nobody else could have written to, what is whole, and
what this very Python made. Anything else is as good as no file. This module loads nothing that
Python has not loaded by itself.
"""

from __future__ import annotations

import marshal
import os
import stat
import sys
import zlib

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, BinaryIO

FORMAT = 8
"""Of what another version kept, nothing is believed: it is one higher when anything that is kept
changes its form, fingerprints apart (see gitcp.fingerprint).
"""

MAGIC = f"gitcp keeps this, {FORMAT}, {sys.implementation.cache_tag}, {marshal.version}\n".encode()
"""How such a file begins."""

HEAD = 8
"""Bytes before the value in a file of `dump`: its length and its crc32, four each."""


def opened(path: str) -> BinaryIO:
    """The file, to be read.

    Raises OSError where it cannot be read, and where another user owns it or may write to it.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode) or status.st_uid != os.geteuid() or status.st_mode & 0o022:
        os.close(descriptor)
        raise PermissionError(path)
    return open(descriptor, "rb")


def load(path: str) -> Any:
    """The value that `dump` wrote there; None if there is none, or it is not to be trusted. Never
    raises.
    """
    try:
        with opened(path) as file:
            return _value(file.read())
    except (OSError, ValueError, EOFError, TypeError):
        return None


def _value(data: bytes) -> Any:
    start = len(MAGIC) + HEAD
    size, crc = data[start - HEAD : start - 4], data[start - 4 : start]
    body = data[start:]
    if (
        not data.startswith(MAGIC)
        or len(body) != int.from_bytes(size, "big")
        or zlib.crc32(body) != int.from_bytes(crc, "big")
    ):
        raise ValueError
    return marshal.loads(body)  # noqa: S302 -- written by this user, and whole


def dump(value: Any) -> bytes:
    """A file with one value, which only this user may be able to write. Raises ValueError for what
    marshal refuses.
    """
    body = marshal.dumps(value)
    return MAGIC + len(body).to_bytes(4, "big") + zlib.crc32(body).to_bytes(4, "big") + body
