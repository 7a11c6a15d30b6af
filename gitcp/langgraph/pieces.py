"""Serialised values ⇄ pieces, so that a value that grew costs what is new.

A value is opaque bytes, mostly a packed list that got longer. Its first bytes, which hold the
length, are kept apart (`HEAD`). Of the rest, what the pieces of the version before hold is shared,
wherever it moved to; what is between is cut into new ones. Small last pieces are put together,
eight and eight, so that a value has few pieces and each byte is written again three times at most.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

from gitcp.model import Oid

HEAD = 5
"""No packed length is longer."""
SMALL = 4 << 10
LARGEST = 256 << 10
FAN = 8
PROBE = 64
NEAR = 4 << 10

WriteBlob = Callable[[bytes], Oid]


class Piece(NamedTuple):
    """A part of a value: its blob and its size."""

    oid: Oid
    size: int


class Value(NamedTuple):
    """A value as it was stored, and its bytes without the head."""

    pieces: tuple[Piece, ...]
    body: bytes


NONE = Value((), b"")


def cut(write_blob: WriteBlob, before: Value, body: bytes) -> Value:
    """`body` in pieces, shared with `before` as far as may be. Writes the blobs of those that are
    new.
    """
    kept: list[Piece | bytes] = []
    place = 0
    for piece, start in _found(before, body):
        if start > place:
            kept.append(body[place:start])
        kept.append(piece)
        place = start + piece.size
    if place < len(body):
        kept.append(body[place:])
    return Value(tuple(_settled(write_blob, kept, body)), body)


def _found(before: Value, body: bytes) -> Iterable[tuple[Piece, int]]:
    """The old pieces that the new bytes have, in order, each with where it stands now."""
    old = memoryview(before.body)
    start = place = slack = 0
    for piece in before.pieces:
        data = old[start : start + piece.size]
        start += piece.size
        found = (
            place
            if body.startswith(data, place)
            else _near(body, data, place, slack + piece.size + NEAR)
        )
        if found is None:
            slack += piece.size
            continue
        yield piece, found
        place, slack = found + piece.size, 0


def _near(body: bytes, data: memoryview, place: int, window: int) -> int | None:
    found = body.find(data[:PROBE], place, place + window)
    return found if found >= 0 and body.startswith(data, found) else None


def _settled(write_blob: WriteBlob, kept: list[Piece | bytes], body: bytes) -> list[Piece]:
    """All as pieces. A last piece that is small is put together with what follows it."""
    if (
        len(kept) > 1
        and isinstance(kept[-1], bytes)
        and isinstance(kept[-2], Piece)
        and kept[-2].size < SMALL
    ):
        joined = body[-kept[-2].size - len(kept[-1]) :]
        kept[-2:] = [joined]
    found: list[Piece] = []
    for one in kept:
        if isinstance(one, Piece):
            found.append(one)
        else:
            parts = (one[start : start + LARGEST] for start in range(0, len(one), LARGEST))
            found += (Piece(write_blob(part), len(part)) for part in parts)
    return _merged(write_blob, found, body)


def _merged(write_blob: WriteBlob, found: list[Piece], body: bytes) -> list[Piece]:
    """Eight last pieces of one order of size become one of the next."""
    while len(found) >= FAN:
        last = found[-FAN:]
        size = sum(piece.size for piece in last)
        if size > LARGEST or len({_order(piece.size) for piece in last}) > 1:
            break
        found[-FAN:] = [Piece(write_blob(body[len(body) - size :]), size)]
    return found


def _order(size: int) -> int:
    return sum(size >= SMALL * FAN**power for power in (1, 2))
