"""Sizes and checksums of stored streams, one checkpoint after the other: only what is new is
read.
"""

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
    """A stream up to and with one of its segments: its size and checksum so far."""

    oid: Oid
    size: int
    digest: _Hash


class Sums:
    """Reads streams whole, each from where the last one of its name had the same segments."""

    def __init__(self) -> None:
        self._streams: dict[str, list[_Prefix]] = {}

    def of(self, objects: BlobReader, name: str, found: Sequence[Segment]) -> tuple[int, str]:
        """The size of a stream and its SHA-256. Raises StoreDamaged if a segment cannot be read."""
        before = self._streams.pop(name, [])
        same = 0
        for old, new in zip(before, found, strict=False):
            if old.oid != new.oid:
                break
            same += 1
        joined = before[:same]
        for data, segment in zip(
            segments.content(objects, found[same:]), found[same:], strict=True
        ):
            digest = joined[-1].digest.copy() if joined else sha256()
            digest.update(data)
            joined.append(_Prefix(segment.oid, segment.start + len(data), digest))
        self._streams[name] = joined
        return joined[-1].size, joined[-1].digest.hexdigest()
