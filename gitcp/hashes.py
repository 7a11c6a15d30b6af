"""SHA-1 without OpenSSL where little is hashed: loading it takes three milliseconds of a few dozen.

Where it is loaded already it is taken: it is five times as fast.
"""

from __future__ import annotations

import sys

from gitcp.typed import TYPE_CHECKING

if TYPE_CHECKING:
    from hashlib import _Hash
    from hashlib import sha1 as small_sha1
else:
    try:
        from _sha1 import sha1 as small_sha1
    except ImportError:
        from hashlib import sha1 as small_sha1

LARGE = 256 << 10
"""Bytes from which on OpenSSL makes up for being loaded."""


def sha1(*parts: bytes | memoryview) -> bytes:
    """The 20 bytes of the SHA-1 of `parts`, one after the other: git's name for a thing, not a defence."""
    digest = begun(sum(map(len, parts)))
    for part in parts:
        digest.update(part)  # never joined: a large object would be held twice
    return digest.digest()


def begun(size: int) -> _Hash:
    """A SHA-1 to be fed with about `size` bytes."""
    if size < LARGE and "hashlib" not in sys.modules:
        return small_sha1()
    import hashlib

    return hashlib.sha1(usedforsecurity=False)
