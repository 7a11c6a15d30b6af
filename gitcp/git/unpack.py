"""Read single objects from packs: find them by index, inflate them, apply deltas.

`git cat-file` reads unsupported formats and objects too large for memory.
"""

from __future__ import annotations

import mmap
import struct
import zlib
from collections.abc import Callable

from gitcp.git.packs import KINDS, PackIndex, oid_of
from gitcp.model import Oid

NAMES = {number: name for name, number in KINDS.items()}
OFFSET_DELTA, NAME_DELTA = 6, 7
BLOCK = 1 << 20
LARGEST = 64 << 20
"""Larger objects, in bytes, are left to git."""

Base = Callable[[Oid], tuple[str, bytes]]
"""Reads the base object that a delta names."""


def read_packed(
    index: PackIndex, oid: Oid, base: Base, *, largest: int = LARGEST
) -> tuple[str, bytes] | None:
    """Return an object's kind and content if this pack contains it with the right hash, else None.

    Also None if it, or a delta base, is larger than `largest` bytes.
    """
    try:
        offset = index.offset(bytes.fromhex(oid))
        if offset is None:
            return None
        kind, data = _read(index.content, offset, base, largest)
    except (OSError, ValueError, IndexError, KeyError, struct.error, zlib.error, RecursionError):
        return None
    return (kind, data) if oid_of(kind, data) == oid else None


def _read(pack: mmap.mmap, offset: int, base: Base, largest: int) -> tuple[str, bytes]:
    number, size, place = _header(pack, offset)
    if size > largest:
        raise ValueError("too large")
    if number == OFFSET_DELTA:
        back, place = _distance(pack, place)
        kind, source = _read(pack, offset - back, base, largest)
    elif number == NAME_DELTA:
        kind, source = base(Oid(pack[place : place + 20].hex()))
        place += 20
    else:
        return NAMES[number], _inflate(pack, place, size)
    return kind, _apply(source, _inflate(pack, place, size))


def _header(pack: mmap.mmap, place: int) -> tuple[int, int, int]:
    """Return an entry's type, its inflated size, and the position of its content."""
    byte = pack[place]
    number, size, shift = byte >> 4 & 7, byte & 15, 4
    while byte & 0x80:
        place += 1
        byte = pack[place]
        size |= (byte & 0x7F) << shift
        shift += 7
    return number, size, place + 1


def _distance(pack: mmap.mmap, place: int) -> tuple[int, int]:
    """Return how many bytes back the base of a delta is, and the next position. Each continuation
    byte adds one.
    """
    byte = pack[place]
    back = byte & 0x7F
    while byte & 0x80:
        place += 1
        byte = pack[place]
        back = (back + 1) << 7 | byte & 0x7F
    return back, place + 1


def _inflate(pack: mmap.mmap, place: int, size: int) -> bytes:
    stream, parts = zlib.decompressobj(), []
    # what was deflated is hardly ever longer than it was
    length = min(BLOCK, size + (size >> 8) + 64)
    while not stream.eof:
        block = pack[place : place + length]
        if not block:
            raise ValueError("cut off")
        parts.append(stream.decompress(block))
        place += length
    data = b"".join(parts)
    if len(data) != size:
        raise ValueError("another size")
    return data


def _apply(source: bytes, delta: bytes) -> bytes:
    """Return the result of a delta: copied parts of its base, and new bytes."""
    expected, place = _number(delta, 0)
    size, place = _number(delta, place)
    if expected != len(source):
        raise ValueError("another base")
    parts = []
    while place < len(delta):
        code = delta[place]
        place += 1
        if code & 0x80:
            start, length, place = _copy(delta, code, place)
            parts.append(source[start : start + length])
        else:
            parts.append(delta[place : place + code])
            place += code
    data = b"".join(parts)
    if len(data) != size:
        raise ValueError("another size")
    return data


def _number(delta: bytes, place: int) -> tuple[int, int]:
    number, shift = 0, 0
    while True:
        byte = delta[place]
        place += 1
        number |= (byte & 0x7F) << shift
        shift += 7
        if not byte & 0x80:
            return number, place


def _copy(delta: bytes, code: int, place: int) -> tuple[int, int, int]:
    """Return the start and length of a copied part, and the position of the next instruction."""
    values = []
    for bit in range(7):
        values.append(delta[place] if code >> bit & 1 else 0)
        place += code >> bit & 1
    start = values[0] | values[1] << 8 | values[2] << 16 | values[3] << 24
    return start, (values[4] | values[5] << 8 | values[6] << 16) or 0x10000, place
