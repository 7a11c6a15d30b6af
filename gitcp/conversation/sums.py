"""Compute sizes and checksums of stored streams, reading only the segments that are new."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import sha256
from typing import TYPE_CHECKING, NamedTuple

from gitcp.conversation import segments
from gitcp.conversation.segments import BlobReader, Segment
from gitcp.model import Oid

if TYPE_CHECKING:
    from hashlib import _Hash


class _Prefix(NamedTuple):
    """A stream up to and including one of its segments: its size and checksum so far."""

    oid: Oid
    size: int
    digest: _Hash


class Sums:
    """Computes checksums. Each stream continues from the previous one of its
    name where their segments match.
    """

    def __init__(self) -> None:
        self._streams: dict[str, list[_Prefix]] = {}

    def of(
        self, objects: BlobReader, name: str, stream_segments: Sequence[Segment]
    ) -> tuple[int, str]:
        """Return a stream's size and SHA-256 (hex). Raises StoreDamaged if a segment cannot be
        read.
        """
        previous = self._streams.pop(name, [])
        same = 0
        for old, new in zip(previous, stream_segments, strict=False):
            if old.oid != new.oid:
                break
            same += 1
        prefixes = previous[:same]
        for data, segment in zip(
            segments.content(objects, stream_segments[same:]), stream_segments[same:], strict=True
        ):
            digest = prefixes[-1].digest.copy() if prefixes else sha256()
            digest.update(data)
            prefixes.append(_Prefix(segment.oid, segment.start + len(data), digest))
        self._streams[name] = prefixes
        return prefixes[-1].size, prefixes[-1].digest.hexdigest()
