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
    from collections.abc import Iterator
    from typing import Any, BinaryIO

FORMAT = 5
"""Of what another version kept, nothing is believed: it is one higher when anything that is kept
changes its form, fingerprints apart (see gitcp.fastpath.fingerprint).
"""

MAGIC = f"gitcp keeps this, {FORMAT}, {sys.implementation.cache_tag}, {marshal.version}\n".encode()
"""How such a file begins; its parts follow. Each part has its length and its checksum before it."""

PART = 8
"""Bytes before the body of a part: its length and its crc32, four each."""


def part(value: Any) -> bytes:
    """One part of a file. Raises ValueError for what cannot be marshalled."""
    body = marshal.dumps(value)
    return len(body).to_bytes(4, "big") + zlib.crc32(body).to_bytes(4, "big") + body


def parts(data: bytes) -> Iterator[Any]:
    """The values in a file. Raises ValueError, EOFError or TypeError where it is not whole or not
    ours.
    """
    view, at = memoryview(data), len(MAGIC)
    if not data.startswith(MAGIC):
        raise ValueError
    while at < len(data) or at == len(MAGIC):
        size = int.from_bytes(view[at : at + 4], "big")
        body = view[at + PART : at + PART + size]
        if len(body) != size or zlib.crc32(body) != int.from_bytes(view[at + 4 : at + PART], "big"):
            raise ValueError
        yield marshal.loads(body)  # noqa: S302 -- written by this user, and whole
        at += PART + len(body)


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
            (value,) = parts(file.read())
    except (OSError, ValueError, EOFError, TypeError):
        return None
    return value


def dump(value: Any) -> bytes:
    """A file with one value, which only this user may be able to write. Raises ValueError for what
    marshal refuses.
    """
    return MAGIC + part(value)
