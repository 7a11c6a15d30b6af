"""A large file that only grows, stored as segments: a save stores what is new, and the last segment
again.

At the file's path in the tree is a pointer: a small blob with the file's size and the tree of its
segments. Each segment is a blob of SEGMENT bytes, the last one of fewer, and named by its number:

    0000/00 … 0000/ff      the first 256
    0001/00 …              the next 256, and so on

Path order is byte order. The same bytes have the same segments and the same pointer, however the
file came to have them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple, Protocol

from gitcp.errors import StoreDamaged
from gitcp.git import trees
from gitcp.git.object_format import FULL_NAME, is_name_of
from gitcp.git.objects import Objects
from gitcp.git.trees import TreeReader
from gitcp.model import FILE, TREE, Entry, Oid, Snapshot

SEGMENT = 256 << 10
"""Bytes of a segment. A pointer names the size that it was written with."""

POINTER = re.compile(
    rb"gitcp segments 1\nsize (0|[1-9][0-9]{0,17})\nsegment ([1-9][0-9]{0,8})\n"
    rb"tree (%s)\n" % FULL_NAME.encode()
)
LONGEST_POINTER = 160

PATH = rb"[0-9a-f]{4}/[0-9a-f]{2}"
"""The path of a segment in the tree of its file."""

FIRST = b"0000/00"

Read = Callable[[int, int], bytes]
"""read(start, size) returns exactly these bytes of the file."""


class Reader(TreeReader, Protocol):
    """Reads trees and blobs."""

    def read_blob(self, oid: Oid) -> bytes: ...


class Pointer(NamedTuple):
    """The size of a file in bytes, that of its segments, and their tree."""

    size: int
    segment: int
    tree: Oid


def decode(blob: bytes) -> Pointer | None:
    """Return the pointer that a blob is, None if it is none."""
    match = POINTER.fullmatch(blob) if len(blob) < LONGEST_POINTER else None
    if match is None:
        return None
    return Pointer(int(match[1]), int(match[2]), Oid(match[3].decode("ascii")))


def pointer(reader: Reader, oid: Oid) -> Pointer:
    """Return the pointer in a blob. Raises StoreDamaged."""
    decoded = decode(reader.read_blob(oid))
    if decoded is None:
        raise StoreDamaged(f"blob {oid} is not a pointer to segments", hint="gitcp doctor --store")
    return decoded


def files(reader: TreeReader, snapshot: Snapshot) -> Iterator[tuple[bytes, Entry]]:
    """Yield the path of each file of a snapshot that is stored as segments, and the entry of its
    pointer. Raises StoreDamaged.
    """
    for path in (each.path for each in snapshot.converted if each.segments):
        entry = trees.lookup(reader, snapshot.tree, path)
        if entry is not None:
            yield path, entry


def content(reader: Reader, oid: Oid) -> Iterator[bytes]:
    """Yield the bytes of the file whose pointer is this blob, a segment at a time. Raises
    StoreDamaged, possibly after some of them.
    """
    size, segment, tree = pointer(reader, oid)
    start = 0
    for number, (path, entry) in enumerate(trees.walk(reader, tree)):
        data = reader.read_blob(entry.oid)
        if path != _path(number) or len(data) != min(segment, size - start):
            raise StoreDamaged(f"tree {tree} does not have the segments of a file of {size} bytes")
        start += len(data)
        yield data
    if start != size:
        raise StoreDamaged(f"tree {tree} has {start} bytes of a file of {size}")


def store(objects: Objects, read: Read, size: int, earlier: Oid | None = None) -> tuple[Oid, bool]:
    """Store a file of `size` bytes (at least one). Return the id of its pointer, and whether all of
    the file was read.

    `earlier` is the pointer of an earlier version, since which the file was only appended to. If
    this one can be a continuation of it, only the first segment of that, its last one and what
    comes after it are read. Writes blobs and trees to `objects`, which the caller flushes. Raises
    StoreDamaged.
    """
    stored = pointer(objects.reader, earlier) if earlier else None
    if stored and not _is_continued(objects.reader, stored, read, size):
        stored = None
    first = stored.size // SEGMENT if stored else 0
    segments = {
        _path(number): Entry(FILE, objects.writer.write_blob(_segment(read, size, number)))
        for number in range(first, -(-size // SEGMENT))
    }
    if stored is None:
        tree = trees.build(objects.writer, trees.nest(segments))
    else:
        tree = trees.changed(objects, stored.tree, {}, segments) or stored.tree
    return _write_pointer(objects, size, tree), stored is None


def store_chunks(objects: Objects, chunks: Iterable[bytes]) -> Oid:
    """Store a file given in chunks of any size, and return the id of its pointer. Writes as `store`
    does.
    """
    size, segments = 0, dict[bytes, Entry]()
    for number, data in enumerate(_pieces(chunks)):
        size += len(data)
        segments[_path(number)] = Entry(FILE, objects.writer.write_blob(data))
    return _write_pointer(objects, size, trees.build(objects.writer, trees.nest(segments)))


def _write_pointer(objects: Objects, size: int, tree: Oid) -> Oid:
    text = f"gitcp segments 1\nsize {size}\nsegment {SEGMENT}\ntree {tree}\n"
    return objects.writer.write_blob(text.encode("ascii"))


def _pieces(chunks: Iterable[bytes]) -> Iterator[bytes]:
    rest = b""
    for chunk in chunks:
        data = rest + chunk
        whole = len(data) - len(data) % SEGMENT
        yield from (data[start : start + SEGMENT] for start in range(0, whole, SEGMENT))
        rest = data[whole:]
    if rest:
        yield rest


def _is_continued(reader: Reader, stored: Pointer, read: Read, size: int) -> bool:
    """Return whether a file of `size` bytes can be a continuation of a stored one: it is not
    shorter, and the first and the last stored segment are as they were.
    """
    if size < stored.size or stored.segment != SEGMENT:
        return False
    for number in {0, (stored.size - 1) // SEGMENT}:
        entry = trees.lookup(reader, stored.tree, _path(number))
        data = _segment(read, stored.size, number)
        if entry is None or not is_name_of(entry.oid, "blob", data):
            return False
    return True


def is_stored(objects: Objects, oid: Oid) -> bool:
    """Return whether all segments of a pointer are stored, and will stay: they are freshened."""
    try:
        tree = pointer(objects.reader, oid).tree
        folders = [e.oid for e in objects.reader.read_tree(tree) if e.mode == TREE]
        blobs = [entry.oid for _, entry in trees.walk(objects.reader, tree)]
    except StoreDamaged:
        return False
    return all(map(objects.freshener.freshen, (oid, tree, *folders, *blobs)))


def _segment(read: Read, size: int, number: int) -> bytes:
    start = number * SEGMENT
    return read(start, min(SEGMENT, size - start))


def _path(number: int) -> bytes:
    return b"%04x/%02x" % divmod(number, 256)
