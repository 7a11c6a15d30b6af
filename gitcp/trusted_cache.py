"""Files of gitcp's own that hold values as Python marshals them: caches, which must cost no time to
read.

marshal believes what it reads, and bytes that were made for it can end the process. Whoever unpacks
an archive owns the files in it, so nothing is unmarshalled but what was sealed with this user's key
(gitcp.user_state), in this very directory, is whole, and was made by this very Python; nor what
another user could have written to. Anything else is as good as no file. This module loads nothing
that Python has not loaded by itself.
"""

from __future__ import annotations

import marshal
import os
import stat
import sys
import zlib

from gitcp import user_state

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, BinaryIO

FORMAT = 9
"""Of what another version kept, nothing is believed: it is one higher when anything that is kept
changes its form, fingerprints apart (see gitcp.fingerprint).
"""

MAGIC = f"gitcp keeps this, {FORMAT}, {sys.implementation.cache_tag}, {marshal.version}\n".encode()
"""How such a file begins."""

HEAD = 8
"""Bytes before the value in a file of `dump`: its length and its crc32, four each."""

SEAL = 16
"""Bytes of a seal."""

BEGINNING = len(MAGIC) + SEAL
"""Bytes of `beginning`."""


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
    """The value that was written there, sealed; None if there is none, or it is not to be trusted.
    Never raises.
    """
    try:
        with opened(path) as file:
            data = file.read()
        body, ending = data[:-SEAL], data[-SEAL:]
        return _value(body) if ending == seal(path, body) else None
    except (OSError, ValueError, EOFError, TypeError):
        return None


def seal(path: str, data: bytes = b"", *, make: bool = False) -> bytes:
    """What only this user's gitcp can make of these bytes at this place: the path, and device and
    inode of the directory. With `make`, the key is created if there is none.

    Raises OSError if there is no key, or no such directory.
    """
    directory = user_state.directory(os.environ, os.environ.get("HOME", ""))
    key = user_state.make_key(directory) if make else user_state.key(directory)
    if not key:
        raise FileNotFoundError(directory)
    above = os.stat(os.path.dirname(path))
    where = os.fsencode(f"{above.st_dev} {above.st_ino} {path}")
    try:
        from _blake2 import blake2b  # hashlib loads OpenSSL: 3 of the 25 ms of an unchanged save
    except ImportError:
        from hashlib import blake2b
    digest: bytes = blake2b(b"%s\0%s" % (where, data), key=key, digest_size=SEAL).digest()
    return digest


def beginning(path: str, *, make: bool = False) -> bytes:
    """How a file begins that is read in parts, and so is sealed at its beginning only. Raises
    OSError as `seal`.
    """
    return MAGIC + seal(path, make=make)


def sealed(path: str, value: Any) -> bytes:
    """A file with one value, to be written to `path`. Raises ValueError for what marshal refuses,
    and OSError if there is no key and none can be created.
    """
    body = dump(value)
    return body + seal(path, body, make=True)


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
    return marshal.loads(body)  # noqa: S302 -- sealed by this user, and whole


def dump(value: Any) -> bytes:
    """One value, with a checksum. Raises ValueError for what marshal refuses."""
    body = marshal.dumps(value)
    return MAGIC + len(body).to_bytes(4, "big") + zlib.crc32(body).to_bytes(4, "big") + body
