"""Compute sizes and checksums of stored streams, reading only the segments that are new."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from hashlib import sha256
from typing import TYPE_CHECKING, NamedTuple, Protocol

from gitcp.conversation import segments
from gitcp.conversation.segments import BlobReader, Segment
from gitcp.git import trees
from gitcp.model import Oid

if TYPE_CHECKING:
    from hashlib import _Hash


class StreamReader(BlobReader, trees.TreeReader, Protocol):
    """Reads blobs and trees."""


class _Prefix(NamedTuple):
    """A stream up to and including one of its segments: its size and checksum so far."""

    oid: Oid
    size: int
    digest: _Hash


class _Stream(NamedTuple):
    """A stream that was read from a tree: the paths of its segments, in order, and it up to and
    including each.
    """

    tree: Oid | None
    paths: list[bytes]
    prefixes: list[_Prefix]


class Sums:
    """Computes checksums. Each stream continues from the previous one of its
    name where their segments match.
    """

    def __init__(self) -> None:
        self._streams: dict[str, list[_Prefix]] = {}
        self._trees: dict[str, _Stream] = {}

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
        prefixes = [*previous[:same], *_hashed(objects, previous[:same], stream_segments[same:])]
        self._streams[name] = prefixes
        return prefixes[-1].size, prefixes[-1].digest.hexdigest()

    def of_tree(self, reader: StreamReader, name: str, tree: Oid, size: int) -> tuple[int, str]:
        """Return the size and SHA-256 (hex) of the stream in a tree, which is to have `size` bytes.
        Reads only trees and segments that the previous stream of this name does not have. Raises
        StoreDamaged if one cannot be read or the segments do not cover the stream.
        """
        previous = self._trees.pop(name, None) or _Stream(None, [], [])
        same, added = _added(reader, previous, tree)
        paths, prefixes = previous.paths[:same], previous.prefixes[:same]
        begin = prefixes[-1].size if prefixes else 0
        if tree != previous.tree or begin != size:
            new = segments.in_order(tree, added, begin, size)
            prefixes += list(_hashed(reader, prefixes, new))
            paths += [path for path, _ in added]
        self._trees[name] = _Stream(tree, paths, prefixes)
        return prefixes[-1].size, prefixes[-1].digest.hexdigest()


def _hashed(
    objects: BlobReader, before: Sequence[_Prefix], new: Sequence[Segment]
) -> Iterator[_Prefix]:
    """Yield a stream, which continues `before`, up to each of its new segments."""
    digest = before[-1].digest if before else sha256()
    for data, segment in zip(segments.content(objects, new), new, strict=True):
        digest = digest.copy()
        digest.update(data)
        yield _Prefix(segment.oid, segment.start + len(data), digest)


def _added(
    reader: StreamReader, previous: _Stream, tree: Oid
) -> tuple[int, list[tuple[bytes, Oid]]]:
    """Return how many segments the stream in a tree has in common with the previous one, from the
    first on, and the path and blob of each that follows.
    """
    if previous.tree is not None:
        changes = list(trees.diff(reader, previous.tree, tree))
        same = bisect_left(previous.paths, changes[0].path) if changes else len(previous.paths)
        if previous.paths[same:] == [each.path for each in changes if each.old]:
            return same, [(each.path, each.new.oid) for each in changes if each.new]
    return 0, [(path, entry.oid) for path, entry in trees.walk(reader, tree)]
