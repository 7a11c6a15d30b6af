"""The checksum of the bytes that a program stored last, so that it is continued where the program
stores them again with more at their end: hashing them all each time costs 0.6 ms for a megabyte.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from hashlib import _Hash

MOST = 64 << 20
"""Maximum bytes that are held until the next save."""


class _Stored(NamedTuple):
    sha256: str
    data: bytes
    digest: _Hash


class GrowingSum:
    """Remembers one stream. Threads may share it."""

    def __init__(self) -> None:
        self._last: _Stored | None = None

    def beginning(self, data: bytes, size: int, sha256: str) -> _Hash | None:
        """Return the hash of the first `size` bytes of `data`, if they are the remembered ones,
        which have this SHA-256 (hex). They are compared, which is faster than hashing them.
        """
        last = self._last
        if last is None or (last.sha256, len(last.data)) != (sha256, size):
            return None
        return last.digest.copy() if data.startswith(last.data) else None

    def remember(self, data: bytes, digest: _Hash) -> None:
        """Remember bytes with their hash, unless they are too many."""
        self._last = None if len(data) > MOST else _Stored(digest.hexdigest(), data, digest.copy())
