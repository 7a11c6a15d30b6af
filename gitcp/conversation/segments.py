"""Streams of a conversation ⇄ segments, so that a save costs what is new and not what is old.

A stream is kept byte for byte, cut into blobs. What the parent's segments already hold, from the
front and from the back, is not stored again; what is new is cut at line ends. A segment is named by
the offset at which it starts:

    a/000000000000.jsonl                       the first 16 b/0/000000524288.jsonl … b/f/…
    the next 256, 16 a directory c/0/0/… … c/f/f/…                          the next 4096, and so
    on, one letter and one level more each time

Path order is byte order, and sizes follow from the names. Small directories, and places that never
move, because measurement says so: the tail and the directory that names it are what a save
rewrites, not how the lines are cut.

This is not a parser: a line is whatever ends in a line feed, and nothing is assumed about what is
in it.
"""

from __future__ import annotations

import os
import re
import stat
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple, Protocol

from gitcp.errors import ConversationUnreadable, StoreDamaged
from gitcp.git import trees
from gitcp.git.packs import oid_of
from gitcp.model import FILE, Entry, Oid, Source

if TYPE_CHECKING:
    from gitcp.git.objects import Objects

LARGEST = 256 << 10
"""A segment is never larger. Measured: 64 to 256 KiB cost the same."""

SMALL = 4 << 10
"""A last segment smaller than this is merged with what follows, so that short saves do not leave
crumbs behind.
"""

ATTEMPTS = 4
PAUSE = 0.01
WIDTH = 16
LEVELS = b"abcdefgh"
NAME = re.compile(rb"[a-h](?:/[0-9a-f])*/([0-9]{12})\.jsonl")

Read = Callable[[int, int], bytes]
"""read(start, size): exactly those bytes. Raises _Moved where the file no longer has them."""

Update = Callable[[bytes], object]
"""Takes the bytes of the stream in order, for its checksum."""


class Segment(NamedTuple):
    """A part of a stream: its blob, the offset at which it starts, its size."""

    oid: Oid
    start: int
    size: int


class Cut(NamedTuple):
    """A stream as it was stored.

    `tree` holds `segments`. `bytes` and `sha256` are those of the whole stream. `kept` is the
    length of the prefix that is, byte for byte, the whole parent stream; 0 if that is no prefix of
    it. `torn` are the bytes of an unfinished last line that were left out.
    """

    tree: Oid
    segments: tuple[Segment, ...]
    bytes: int
    sha256: str
    kept: int
    torn: int


class BlobReader(Protocol):
    """Where blobs are read from."""

    def read_blob(self, oid: Oid) -> bytes: ...


class _Moved(Exception):
    """The file was cut short or rewritten while it was read."""


class _Gone(_Moved):
    """The file is not there."""


# ---------------------------------------------------------------- reading back


def read_segments(objects: trees.TreeReader, tree: Oid, size: int) -> tuple[Segment, ...]:
    """The segments of a stream's tree in order; `size` is the length of the stream. No blob is
    read.

    Raises StoreDamaged if the names do not cover the stream without gap or overlap.
    """
    found = [(_start(path, tree), entry.oid) for path, entry in trees.walk(objects, tree)]
    starts = [start for start, _ in found]
    ends = [*starts[1:], size]
    whole = starts[:1] == [0] and all(start < end for start, end in zip(starts, ends, strict=True))
    if not whole and (size, found) != (0, [(0, trees.EMPTY_BLOB)]):
        raise _damaged(tree)
    return tuple(
        Segment(oid, start, end - start) for (start, oid), end in zip(found, ends, strict=True)
    )


def content(objects: BlobReader, segments: Iterable[Segment], start: int = 0) -> Iterator[bytes]:
    """The bytes of a stream from offset `start` on, a segment at a time.

    Raises StoreDamaged if a segment is not as long as its place says.
    """
    for oid, place, size in segments:
        if size and place + size <= start:  # an empty stream is one empty segment
            continue
        data = objects.read_blob(oid)
        if len(data) != size:
            raise StoreDamaged(
                f"segment {oid} of a conversation holds {len(data)} bytes instead of {size}",
                hint="gitcp check",
            )
        yield data[start - place :] if place < start else data


def _start(path: bytes, tree: Oid) -> int:
    match = NAME.fullmatch(path)
    if match is None:
        raise _damaged(tree)
    return int(match[1])


def _damaged(tree: Oid) -> StoreDamaged:
    return StoreDamaged(
        f"tree {tree} does not hold the segments of a conversation", hint="gitcp check"
    )


# ---------------------------------------------------------------- cutting


def cut(objects: Objects, source: Source, parent: Sequence[Segment]) -> Cut:
    """Store a stream on top of its parent's segments, in bounded memory whatever its size.

    The parent's segments are compared by their bytes. Writes blobs and trees to `objects`, which
    the caller flushes. Raises ConversationUnreadable if there is no such file, it cannot be read,
    or it does not stand still.
    """
    if source.data is not None:
        data = source.data
        return _cut(
            objects, lambda start, size: data[start : start + size], len(data), source.live, parent
        )
    for attempt in range(ATTEMPTS):
        if attempt:
            time.sleep(PAUSE)
        try:
            with _open(source) as (read, size):
                return _cut(objects, read, size, source.live, parent)
        except _Gone:
            if not attempt:
                raise _unreadable(source, "is not there") from None
        except _Moved:
            continue
    raise _unreadable(
        source, "is being rewritten all the time", hint="save again when the agent has paused"
    )


def shorten(objects: Objects, segments: Sequence[Segment], size: int) -> Cut:
    """The first `size` bytes of a stored stream, as a stream of its own that shares its segments.

    Writes at most one blob, and trees, to `objects`, which the caller flushes.
    """
    kept = [segment for segment in segments if segment.start + segment.size <= size]
    last = next(
        (segment for segment in segments if segment.start < size < segment.start + segment.size),
        None,
    )
    if last is not None:
        data = objects.read_blob(last.oid)[: size - last.start]
        kept.append(Segment(objects.write_blob(data), last.start, len(data)))
    kept = kept or [Segment(objects.write_blob(b""), 0, 0)]
    from hashlib import sha256  # only where there is a conversation

    digest = sha256()
    for chunk in content(objects, kept):
        digest.update(chunk)
    return Cut(write_tree(objects, kept), tuple(kept), size, digest.hexdigest(), 0, 0)


@contextmanager
def _open(source: Source) -> Iterator[tuple[Read, int]]:
    """A reader of the file and its size now, or the end that is given for the stream. What the
    agent appends from here on belongs to the next checkpoint.
    """
    path = source.path
    if path is None:
        raise _unreadable(source, "has neither a file nor bytes")
    try:
        # a FIFO must not make us wait
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except FileNotFoundError:
        raise _Gone from None
    except (OSError, ValueError) as error:
        raise _unreadable(
            source, f"cannot be read ({getattr(error, 'strerror', None) or error})"
        ) from None
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise _unreadable(
                source, "is a directory" if stat.S_ISDIR(status.st_mode) else "is no ordinary file"
            )
        size = status.st_size if source.end is None else source.end
        yield _reader(source, descriptor), size
    finally:
        os.close(descriptor)


def _reader(source: Source, descriptor: int) -> Read:
    def read(start: int, size: int) -> bytes:
        try:
            data = os.pread(descriptor, size, start)
        except OSError as error:
            raise _unreadable(source, f"cannot be read ({error.strerror})") from None
        if len(data) != size:
            raise _Moved
        return data

    return read


def _unreadable(
    source: Source, what: str, *, hint: str = "give the file with --conversation FILE"
) -> ConversationUnreadable:
    name = source.path if source.path is not None else f"stream {source.name}"
    return ConversationUnreadable(
        f"the conversation {name} {what}: no checkpoint was made", hint=hint
    )


def _cut(objects: Objects, read: Read, size: int, live: bool, parent: Sequence[Segment]) -> Cut:
    end = _last_line_end(read, size) if live else size
    from hashlib import sha256  # only where there is a conversation

    digest = sha256()
    front, last = _front(objects, read, end, parent, digest.update)
    start = sum(segment.size for segment in front)
    kept = start if len(front) == len(parent) else 0
    back = _back(objects, read, start, end, parent[len(front) :])
    stop = back[0].start if back else end
    head = b""
    if front and front[-1].size < SMALL and start < stop:
        head, start = last, front.pop().start
    blocks = chain((head,), _blocks(read, start + len(head), stop, digest.update))
    new = store(objects, blocks, start)
    _hash_again(read, back, digest.update)
    segments = (*front, *new, *back) or (Segment(objects.write_blob(b""), 0, 0),)
    return Cut(write_tree(objects, segments), segments, end, digest.hexdigest(), kept, size - end)


def append(
    objects: Objects, tree: Oid, parent: Sequence[Segment], last: bytes, data: bytes
) -> tuple[Oid, tuple[Segment, ...], bytes]:
    """A stream that grew by `data`: its tree, its segments and the bytes of the last one. `last`
    are those before.
    """
    kept = list(parent)
    start = kept[-1].start + kept[-1].size if kept else 0
    if kept and kept[-1].size < SMALL:
        start = kept.pop().start
        data = last + data
    new = store(objects, (data,), start)
    for number, segment in enumerate(new, len(kept)):
        tree = trees.put(objects, tree, _path(number, segment.start), Entry(FILE, segment.oid))
    return tree, (*kept, *new), data[len(data) - new[-1].size :] if new else last


def _last_line_end(read: Read, size: int) -> int:
    """The offset just after the last line feed."""
    while size:
        start = max(0, size - LARGEST)
        place = read(start, size - start).rfind(b"\n")
        if place >= 0:
            return start + place + 1
        size = start
    return 0


def _front(
    objects: Objects, read: Read, end: int, parent: Sequence[Segment], update: Update
) -> tuple[list[Segment], bytes]:
    """The parent's segments that the stream begins with, and the bytes of the last of them."""
    front: list[Segment] = []
    last = b""
    for segment in parent:
        data = _same(read, segment, segment.start, end)
        if data is None:
            break
        update(data)
        _ensure(objects, segment, data)
        front.append(segment)
        last = data
    return front, last


def _back(
    objects: Objects, read: Read, start: int, end: int, parent: Sequence[Segment]
) -> list[Segment]:
    """The parent's segments that the stream ends with, at their new offsets, none before
    `start`.
    """
    back: list[Segment] = []
    for segment in reversed(parent):
        place = end - segment.size
        data = _same(read, segment, place, end) if place >= start else None
        if data is None:
            break
        _ensure(objects, segment, data)
        back.append(segment._replace(start=place))
        end = place
    return back[::-1]


def _ensure(objects: Objects, segment: Segment, data: bytes) -> None:
    """Write a parent's segment anew if its blob is missing: the agent's file still has the
    bytes.
    """
    if not objects.freshen(segment.oid):
        objects.write_blob(data)


def _hash_again(read: Read, back: Sequence[Segment], update: Update) -> None:
    """Hash what was found from the back, now in order; it must still be what was found."""
    for segment in back:
        data = _same(read, segment, segment.start, segment.start + segment.size)
        if data is None:
            raise _Moved
        update(data)


def _same(read: Read, segment: Segment, start: int, end: int) -> bytes | None:
    """The stream's bytes at `start` if they are the segment's, else None."""
    if segment.size > LARGEST or start + segment.size > end:
        return None
    data = read(start, segment.size)
    return data if oid_of("blob", data) == segment.oid else None


def _blocks(read: Read, start: int, end: int, update: Update) -> Iterator[bytes]:
    for place in range(start, end, LARGEST):
        data = read(place, min(LARGEST, end - place))
        update(data)
        yield data


def store(objects: Objects, blocks: Iterable[bytes], start: int) -> list[Segment]:
    """Write bytes as segments that begin at `start`."""
    new: list[Segment] = []
    for piece in _pieces(blocks):
        new.append(Segment(objects.write_blob(piece, new=True), start, len(piece)))
        start += len(piece)
    return new


def _pieces(blocks: Iterable[bytes]) -> Iterator[bytes]:
    """The same bytes cut at line ends, as large as may be; a line that is larger is cut inside."""
    rest = b""
    for block in blocks:
        rest += block
        while len(rest) > LARGEST:
            end = rest.rfind(b"\n", 0, LARGEST) + 1 or LARGEST
            yield rest[:end]
            rest = rest[end:]
    if rest:
        yield rest


def write_tree(objects: Objects, segments: Sequence[Segment]) -> Oid:
    """Write the tree of a stream."""
    return trees.build(
        objects,
        trees.nest(
            {_path(number, s.start): Entry(FILE, s.oid) for number, s in enumerate(segments)}
        ),
    )


def _path(number: int, start: int) -> bytes:
    """Where the segment with this number (from 0) lies. It follows from the number alone, so places
    never move.
    """
    level = 0
    while number >= WIDTH ** (level + 1):
        number -= WIDTH ** (level + 1)
        level += 1
    group = b"%0*x" % (level, number // WIDTH) if level else b""
    return b"/".join(
        [
            LEVELS[level : level + 1],
            *(group[i : i + 1] for i in range(level)),
            b"%012d.jsonl" % start,
        ]
    )
