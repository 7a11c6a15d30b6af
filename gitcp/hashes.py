"""SHA-1 without OpenSSL where little is hashed: loading it takes three milliseconds of a few dozen.

Where it is loaded already it is taken: it is five times as fast.
"""

from __future__ import annotations

import sys

from gitcp.typed import TYPE_CHECKING

if TYPE_CHECKING:
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
    if "hashlib" not in sys.modules and sum(map(len, parts)) < LARGE:
        digest = small_sha1()
    else:
        import hashlib

        digest = hashlib.sha1(usedforsecurity=False)
    for part in parts:
        digest.update(part)  # never joined: a large object would be held twice
    return digest.digest()
