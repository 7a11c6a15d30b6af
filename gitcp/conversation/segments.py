"""Streams of a conversation ⇄ segments, so that the cost of a save depends on its new lines only.

A stream is stored verbatim, cut into blobs. Segments of the parent that match at the front or the
back are reused; new data is cut at line ends. A segment is named after its start offset:

    a/000000000000.jsonl                the first 16
    b/0/000000524288.jsonl … b/f/…      the next 256, 16 per directory
    c/0/0/… … c/f/f/…                   the next 4096, and so on

Path order is byte order, and sizes follow from the names. Directories are small and paths never
change: measured, a save mostly rewrites the last segment and the directories above it.

Lines are not parsed: a line is whatever ends in a line feed.
"""

from __future__ import annotations

import os
import re
import stat
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeVar

from gitcp.errors import ConversationUnreadable, StoreDamaged
from gitcp.git import trees
from gitcp.git.object_format import format_of, is_name_of
from gitcp.git.packs import TEXT_LEVEL
from gitcp.model import FILE, TREE, Entry, Oid, Source

if TYPE_CHECKING:
    from hashlib import _Hash

    from gitcp.git.objects import Objects
    from gitcp.git.writer import ObjectWriter

T = TypeVar("T")

LARGEST = 256 << 10
"""Maximum bytes of a segment. Measured: 64 to 256 KiB cost the same."""

SMALL = 4 << 10
"""Bytes. A last segment smaller than this is merged with what follows, so that
short saves leave no fragments.
"""

ATTEMPTS = 4
PAUSE = 0.01
WIDTH = 16
LEVELS = b"abcdefgh"
NAME = re.compile(rb"[a-h](?:/[0-9a-f])*/([0-9]{12})\.jsonl")

Read = Callable[[int, int], bytes]
"""read(start, size) returns exactly those bytes. Raises Changed if the file no longer has them."""

Update = Callable[[bytes], object]
"""Takes the bytes of the stream in order, for its checksum."""


class Segment(NamedTuple):
    """A part of a stream: its blob, its start offset, its size in bytes."""

    oid: Oid
    start: int
    size: int


class Cut(NamedTuple):
    """A stored stream.

    `tree` contains `segments`, which are only the last ones if `grow` returned it. `bytes` and
    `sha256` (hex) are those of the whole stream. `kept` is the parent stream's length if it is a
    prefix of this one, else 0. `torn` is the length of an unfinished last line, which is not
    stored.
    """

    tree: Oid
    segments: tuple[Segment, ...]
    bytes: int
    sha256: str
    kept: int
    torn: int


class BlobReader(Protocol):
    """Reads blobs."""

    def read_blob(self, oid: Oid) -> bytes: ...

    def verify_blobs(
        self, oids: Iterable[Oid], most: int
    ) -> Iterator[tuple[Oid, bytes | StoreDamaged | None]]: ...


class Changed(Exception):
    """The file was truncated or rewritten while it was read."""


class _Missing(Changed):
    """The file does not exist."""


# ---------------------------------------------------------------- reading back


def read_segments(reader: trees.TreeReader, tree: Oid, size: int) -> tuple[Segment, ...]:
    """Return the segments of a stream's tree, in order. `size` is the stream's length. Reads no
    blob.

    Raises StoreDamaged if the names do not cover the stream without gap or overlap.
    """
    listed = [(path, entry.oid) for path, entry in trees.walk(reader, tree)]
    return in_order(tree, listed, 0, size)


def in_order(
    tree: Oid, listed: Sequence[tuple[bytes, Oid]], begin: int, size: int
) -> tuple[Segment, ...]:
    """Return the segments of a stream of this tree from the offset `begin` on; `listed` are their
    paths and blobs. Raises StoreDamaged as `read_segments` does.
    """
    starts = [_start(path, tree) for path, _ in listed]
    ends = [*starts, size][1:]
    complete = (
        (begin > 0 or bool(starts))
        and [*starts, size][0] == begin
        and all(start < end for start, end in zip(starts, ends, strict=True))
    )
    is_empty = (begin, size, starts) == (0, 0, [0]) and listed[0][1] == format_of(tree).empty_blob
    if not complete and not is_empty:
        raise _damaged(tree)
    return tuple(
        Segment(oid, start, end - start)
        for (_, oid), start, end in zip(listed, starts, ends, strict=True)
    )


def content(reader: BlobReader, segments: Iterable[Segment], start: int = 0) -> Iterator[bytes]:
    """Yield the bytes of a stream from offset `start` on, a segment at a time.

    Raises StoreDamaged if a segment's size does not match; one that is larger is not held in
    memory.
    """
    for oid, offset, size in segments:
        if size and offset + size <= start:  # an empty stream is one empty segment
            continue
        ((_, data),) = reader.verify_blobs([oid], size)
        if isinstance(data, StoreDamaged):
            data = reader.read_blob(oid)  # of a partial clone, it is fetched
        if data is None or len(data) != size:
            has = f"{len(data)} bytes instead of" if data is not None else "more bytes than"
            raise StoreDamaged(
                f"segment {oid} of a conversation has {has} {size}", hint="gitcp doctor --store"
            )
        yield data[start - offset :] if offset < start else data


def _start(path: bytes, tree: Oid) -> int:
    match = NAME.fullmatch(path)
    if match is None:
        raise _damaged(tree)
    return int(match[1])


def _damaged(tree: Oid) -> StoreDamaged:
    return StoreDamaged(
        f"tree {tree} does not contain the segments of a conversation", hint="gitcp doctor --store"
    )


# ---------------------------------------------------------------- cutting


def cut(objects: Objects, source: Source, parent: Sequence[Segment]) -> Cut:
    """Store a stream, reusing segments of its parent, in bounded memory.

    Compares by content. Writes blobs and trees to `objects`, which the caller flushes. Raises
    ConversationUnreadable if the file is missing, unreadable, or changes during each attempt.
    """
    return _read(source, lambda read, size: _cut(objects, read, size, source.live, parent))


def grow(objects: Objects, source: Source, tree: Oid, size: int, sha256: str) -> Cut | None:
    """Store a stream that is a stored one, with more at its end or not; None if it is something
    else. Of the stored one, only the last segment is listed in the result.

    The stored one has this tree, this length and this checksum, which is what its bytes are
    compared with: the segments before the last one are neither listed nor looked up, so the cost
    does not depend on how many there are. Writes and raises as `cut`.
    """
    last = _last(objects.reader, tree, size)
    if last is None:
        return None
    return _read(
        source,
        lambda read, now: _grow(objects, (read, now, source), tree, last, sha256),
    )


def _read(source: Source, store: Callable[[Read, int], T]) -> T:
    """Return what `store` returns for a reader of the stream and its length. Tries again if the
    file changes.
    """
    if source.data is not None:
        data = source.data
        return store(lambda start, size: data[start : start + size], len(data))
    for attempt in range(ATTEMPTS):
        if attempt:
            time.sleep(PAUSE)
        try:
            with _open(source) as (read, size):
                return store(read, size)
        except _Missing:
            if not attempt:
                raise _unreadable(source, "does not exist") from None
        except Changed:
            continue
    raise _unreadable(
        source, "kept changing while it was read", hint="save again when the agent is idle"
    )


def cut_file(objects: Objects, descriptor: int, name: str, parent: Sequence[Segment]) -> Cut:
    """Store an open file that nobody writes to, as `cut` does."""
    read = _reader(Source(name), descriptor)
    return _cut(objects, read, os.fstat(descriptor).st_size, False, parent)


def shorten(objects: Objects, segments: Sequence[Segment], size: int) -> Cut:
    """Store the first `size` bytes of a stream as a stream that shares its segments.

    Writes at most one blob, and trees, to `objects`, which the caller flushes.
    """
    parts = [segment for segment in segments if segment.start + segment.size <= size]
    last = next(
        (segment for segment in segments if segment.start < size < segment.start + segment.size),
        None,
    )
    if last is not None:
        data = objects.reader.read_blob(last.oid)[: size - last.start]
        parts.append(Segment(_write(objects.writer, data), last.start, len(data)))
    parts = parts or [Segment(_write(objects.writer, b""), 0, 0)]
    from hashlib import sha256  # only where there is a conversation

    digest = sha256()
    for chunk in content(objects.reader, parts):
        digest.update(chunk)
    return Cut(write_tree(objects.writer, parts), tuple(parts), size, digest.hexdigest(), 0, 0)


@contextmanager
def _open(source: Source) -> Iterator[tuple[Read, int]]:
    """Yield a reader of the file and its current size, or the end given by the source. Lines that
    the agent appends later belong to the next checkpoint.
    """
    path = source.path
    if path is None:
        raise _unreadable(source, "has neither a file nor bytes")
    try:
        # O_NONBLOCK: opening a FIFO would block
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except FileNotFoundError:
        raise _Missing from None
    except (OSError, ValueError) as error:
        raise _unreadable(
            source, f"cannot be read ({getattr(error, 'strerror', None) or error})"
        ) from None
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise _unreadable(
                source,
                "is a directory" if stat.S_ISDIR(status.st_mode) else "is not a regular file",
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
            raise Changed
        return data

    return read


def _unreadable(
    source: Source, problem: str, *, hint: str = "gitcp save --conversation FILE"
) -> ConversationUnreadable:
    name = source.path if source.path is not None else f"stream {source.name}"
    error = ConversationUnreadable(f"conversation {name} {problem}", hint=hint)
    error.stream = source.name
    return error


def _cut(objects: Objects, read: Read, size: int, live: bool, parent: Sequence[Segment]) -> Cut:
    end = _last_line_end(read, size) if live else size
    from hashlib import sha256  # only where there is a conversation

    digest = sha256()
    front, last = _front(objects, read, end, parent, digest.update)
    start = sum(segment.size for segment in front)
    shared = start if len(front) == len(parent) else 0
    back = _back(objects, read, start, end, parent[len(front) :])
    stop = back[0].start if back else end
    head = b""
    if front and front[-1].size < SMALL and start < stop:
        head, start = last, front.pop().start
    blocks = chain((head,), _blocks(read, start + len(head), stop, digest.update))
    new = store(objects.writer, blocks, start)
    _hash_back(read, back, digest.update)
    segments = (*front, *new, *back) or (Segment(_write(objects.writer, b""), 0, 0),)
    return Cut(
        write_tree(objects.writer, segments), segments, end, digest.hexdigest(), shared, size - end
    )


def _last(reader: trees.TreeReader, tree: Oid, size: int) -> tuple[int, Segment] | None:
    """Return the number of the last segment (from 0), and that segment, of a stored stream of this
    length; None if the stream is empty, or its tree is not as this module writes it.
    """
    names, entries = [], reader.read_tree(tree)
    while entries and entries[-1].mode == TREE:
        names.append(entries[-1].name)
        entries = reader.read_tree(entries[-1].oid)
    path = b"/".join((*names, entries[-1].name)) if entries else b""
    match = NAME.fullmatch(path)
    if match is None or int(match[1]) >= size:
        return None
    level = LEVELS.index(names[0])
    before = sum(WIDTH**each for each in range(1, level + 1))
    number = before + int(b"0" + b"".join(names[1:]), 16) * WIDTH + len(entries) - 1
    start = int(match[1])
    segment = Segment(entries[-1].oid, start, size - start)
    is_ours = _path(number, start) == path and (number == 0) == (start == 0)
    return (number, segment) if is_ours else None


def _grow(
    objects: Objects,
    stream: tuple[Read, int, Source],
    tree: Oid,
    last: tuple[int, Segment],
    sha256: str,
) -> Cut | None:
    read, size, source = stream
    number, segment = last
    kept = segment.start + segment.size
    end = _last_line_end(read, size) if source.live else size
    digest = _beginning(objects, read, source, kept, sha256) if kept <= end else None
    if digest is None:
        return None
    is_short = segment.size < SMALL and end > kept
    head = read(segment.start, segment.size) if is_short else b""
    blocks = chain((head,), _blocks(read, kept, end, digest.update))
    new = store(objects.writer, blocks, kept - len(head))
    parts = new if is_short else [segment, *new]
    first = number if is_short else number + 1
    paths = {_path(at, part.start): Entry(FILE, part.oid) for at, part in enumerate(new, first)}
    grown = trees.edited(objects, tree, paths) if new else tree
    assert grown is not None
    if source.data is not None and end == len(source.data) and objects.repo.growing_sum:
        objects.repo.growing_sum.remember(source.data, digest)
    return Cut(grown, tuple(parts), end, digest.hexdigest(), kept, size - end)


def _beginning(
    objects: Objects, read: Read, source: Source, size: int, sha256: str
) -> _Hash | None:
    """Return the hash of the first `size` bytes of a stream, None if it is not this one."""
    if source.data is not None and objects.repo.growing_sum:
        known = objects.repo.growing_sum.beginning(source.data, size, sha256)
        if known is not None:
            return known
    import hashlib  # only where there is a conversation

    digest = hashlib.sha256()
    for _ in _blocks(read, 0, size, digest.update):
        pass
    return digest if digest.hexdigest() == sha256 else None


def append(
    objects: Objects, tree: Oid, parent: Sequence[Segment], last: bytes, data: bytes
) -> tuple[Oid, tuple[Segment, ...], bytes]:
    """Append `data` to a stream, given its last segment's bytes. Return its tree, its
    segments, and the last segment's bytes.
    """
    parts = list(parent)
    start = parts[-1].start + parts[-1].size if parts else 0
    if parts and parts[-1].size < SMALL:
        start = parts.pop().start
        data = last + data
    new = store(objects.writer, (data,), start)
    for number, segment in enumerate(new, len(parts)):
        tree = trees.put(objects, tree, _path(number, segment.start), Entry(FILE, segment.oid))
    return tree, (*parts, *new), data[len(data) - new[-1].size :] if new else last


def _last_line_end(read: Read, size: int) -> int:
    """Return the offset after the last line feed."""
    while size:
        start = max(0, size - LARGEST)
        index = read(start, size - start).rfind(b"\n")
        if index >= 0:
            return start + index + 1
        size = start
    return 0


def _front(
    objects: Objects, read: Read, end: int, parent: Sequence[Segment], update: Update
) -> tuple[list[Segment], bytes]:
    """Return the parent's segments at the start of the stream, and the bytes of the last one."""
    front: list[Segment] = []
    last = b""
    for segment in parent:
        data = _match(read, segment, segment.start, end)
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
    """Return the parent's segments at the end of the stream, at their new offsets, none before
    `start`.
    """
    back: list[Segment] = []
    for segment in reversed(parent):
        at = end - segment.size
        data = _match(read, segment, at, end) if at >= start else None
        if data is None:
            break
        _ensure(objects, segment, data)
        back.append(segment._replace(start=at))
        end = at
    return back[::-1]


def _ensure(objects: Objects, segment: Segment, data: bytes) -> None:
    """Write a segment of the parent again if its blob is missing, from the agent's file."""
    if not objects.freshener.freshen(segment.oid):
        _write(objects.writer, data)


def _hash_back(read: Read, back: Sequence[Segment], update: Update) -> None:
    """Hash the matching segments at the end, in order. They must still match."""
    for segment in back:
        data = _match(read, segment, segment.start, segment.start + segment.size)
        if data is None:
            raise Changed
        update(data)


def _match(read: Read, segment: Segment, start: int, end: int) -> bytes | None:
    """Return the stream's bytes at `start` if they are the segment's, else None."""
    if segment.size > LARGEST or start + segment.size > end:
        return None
    data = read(start, segment.size)
    return data if is_name_of(segment.oid, "blob", data) else None


def _blocks(read: Read, start: int, end: int, update: Update) -> Iterator[bytes]:
    for at in range(start, end, LARGEST):
        data = read(at, min(LARGEST, end - at))
        update(data)
        yield data


def store(writer: ObjectWriter, blocks: Iterable[bytes], start: int) -> list[Segment]:
    """Write bytes as segments from offset `start` on."""
    new: list[Segment] = []
    for piece in _pieces(blocks):
        new.append(Segment(_write(writer, piece, new=True), start, len(piece)))
        start += len(piece)
    return new


def _write(writer: ObjectWriter, data: bytes, *, new: bool = False) -> Oid:
    return writer.write_blob(data, new=new, level=TEXT_LEVEL)


def _pieces(blocks: Iterable[bytes]) -> Iterator[bytes]:
    """Cut bytes at line ends into pieces of maximum size; longer lines are split."""
    rest = b""
    for block in blocks:
        rest += block
        while len(rest) > LARGEST:
            end = rest.rfind(b"\n", 0, LARGEST) + 1 or LARGEST
            yield rest[:end]
            rest = rest[end:]
    if rest:
        yield rest


def write_tree(writer: trees.TreeWriter, segments: Sequence[Segment]) -> Oid:
    """Write the tree of a stream."""
    return trees.build(
        writer,
        trees.nest(
            {_path(number, s.start): Entry(FILE, s.oid) for number, s in enumerate(segments)}
        ),
    )


def _path(number: int, start: int) -> bytes:
    """Return the path of segment `number` (from 0). It depends on the number alone, so paths never
    change.
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
