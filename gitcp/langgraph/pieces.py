"""Split serialized values into blobs, so that a value that grew only costs what is new.

A value is opaque bytes, usually a packed list that got longer. Its first bytes, which include the
length, are stored separately (`HEAD`). Pieces of the previous version are reused wherever they
occur in the rest; bytes between them become new pieces. Small last pieces are merged, eight at a
time, so that there are few pieces and each byte is rewritten at most three times.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from threading import Lock
from typing import NamedTuple

from gitcp.model import Oid

HEAD = 5
"""Maximum bytes of a packed length."""
SMALL = 4 << 10
LARGEST = 256 << 10
FAN = 8
PROBE = 64
NEAR = 4 << 10
RECENT = 1 << 20
"""Maximum bytes of a thread's pieces in memory."""

WriteBlob = Callable[[bytes], Oid]


class ValuePiece(NamedTuple):
    """A part of a value: its blob and its size in bytes."""

    oid: Oid
    size: int


class StoredValue(NamedTuple):
    """A stored value, and its bytes without the head."""

    pieces: tuple[ValuePiece, ...]
    body: bytes


NONE = StoredValue((), b"")


class RecentPieces:
    """The content of the pieces of one thread that were used last, `RECENT` bytes at most. For any
    thread of the program.
    """

    def __init__(self) -> None:
        self._changing = Lock()
        self._contents: dict[Oid, bytes] = {}
        self._size = 0

    def get(self, oid: Oid) -> bytes | None:
        """Return the content of a piece, None if it is not in memory."""
        with self._changing:
            content = self._contents.pop(oid, None)
            if content is not None:
                self._contents[oid] = content  # the one used last comes last
            return content

    def add(self, oid: Oid, content: bytes) -> None:
        """Keep the content of a piece, in place of those not used for longest."""
        with self._changing:
            self._size += len(content) - len(self._contents.pop(oid, b""))
            self._contents[oid] = content
            while self._size > RECENT:
                self._size -= len(self._contents.pop(next(iter(self._contents))))

    def adding(self, write_blob: WriteBlob) -> WriteBlob:
        """Return a `write_blob` that also keeps what it writes."""

        def write(content: bytes) -> Oid:
            oid = write_blob(content)
            self.add(oid, content)
            return oid

        return write


def cut(write_blob: WriteBlob, before: StoredValue, body: bytes) -> StoredValue:
    """Split `body` into pieces, sharing those of `before`. Writes blobs for new pieces."""
    parts: list[ValuePiece | bytes] = []
    offset = 0
    for piece, start in _matches(before, body):
        if start > offset:
            parts.append(body[offset:start])
        parts.append(piece)
        offset = start + piece.size
    if offset < len(body):
        parts.append(body[offset:])
    return StoredValue(tuple(_to_pieces(write_blob, parts, body)), body)


def _matches(before: StoredValue, body: bytes) -> Iterable[tuple[ValuePiece, int]]:
    """Yield the old pieces that occur in the new bytes, in order, with their new offsets."""
    old = memoryview(before.body)
    start = offset = slack = 0
    for piece in before.pieces:
        data = old[start : start + piece.size]
        start += piece.size
        match = (
            offset
            if body.startswith(data, offset)
            else _near(body, data, offset, slack + piece.size + NEAR)
        )
        if match is None:
            slack += piece.size
            continue
        yield piece, match
        offset, slack = match + piece.size, 0


def _near(body: bytes, data: memoryview, offset: int, window: int) -> int | None:
    match = body.find(data[:PROBE], offset, offset + window)
    return match if match >= 0 and body.startswith(data, match) else None


def _to_pieces(
    write_blob: WriteBlob, pending: list[ValuePiece | bytes], body: bytes
) -> list[ValuePiece]:
    """Convert everything to pieces. A small last piece is merged with the bytes after it."""
    if (
        len(pending) > 1
        and isinstance(pending[-1], bytes)
        and isinstance(pending[-2], ValuePiece)
        and pending[-2].size < SMALL
    ):
        joined = body[-pending[-2].size - len(pending[-1]) :]
        pending[-2:] = [joined]
    pieces: list[ValuePiece] = []
    for part_or_piece in pending:
        if isinstance(part_or_piece, ValuePiece):
            pieces.append(part_or_piece)
        else:
            parts = (
                part_or_piece[start : start + LARGEST]
                for start in range(0, len(part_or_piece), LARGEST)
            )
            pieces += (ValuePiece(write_blob(part), len(part)) for part in parts)
    return _merged(write_blob, pieces, body)


def _merged(write_blob: WriteBlob, pieces: list[ValuePiece], body: bytes) -> list[ValuePiece]:
    """Merge eight last pieces of one order of magnitude into one of the next."""
    while len(pieces) >= FAN:
        last = pieces[-FAN:]
        size = sum(piece.size for piece in last)
        if size > LARGEST or len({_order(piece.size) for piece in last}) > 1:
            break
        pieces[-FAN:] = [ValuePiece(write_blob(body[len(body) - size :]), size)]
    return pieces


def _order(size: int) -> int:
    return sum(size >= SMALL * FAN**power for power in (1, 2))
