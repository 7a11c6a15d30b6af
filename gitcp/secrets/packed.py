"""Decode text that is packed: in hexadecimal, base32 or UTF-16, or compressed in base64.

Each reading maps back to the packed bytes: to those of each byte, or to all if it was compressed.
"""

from __future__ import annotations

import re
import zlib
from base64 import b32decode
from binascii import a2b_base64
from collections.abc import Iterable, Iterator

from gitcp.secrets.encodings import STANDARD, Reading, lines

SHORTEST = 32
"""Packed characters, at least: fewer hold no secret, and are too often something else."""

PACKED = re.compile(
    rb"n?(?:(?:0?[xX])?(?P<hex>(?:[2-7][0-9a-fA-F]|0[9aAdD]){16,})|(?P<base32>[A-Z2-7]{32,})(?![a-z0189+/_.-])"
    rb"|(?P<compressed>(?:H4sI|eJ|eN|eA|eF)[A-Za-z0-9+/_-]{28,})"
    rb"|(?P<utf16>(?:[CI-f][AQgw][AB][A-Za-z0-9+/_-]A[A-H][AEIMQUYcgkosw048]A){4,}))"
)
BITS = {"hex": 4, "base32": 5, "compressed": 6, "utf16": 6}
"""The bits of a character. Eight of base64 are six bytes, or three characters of UTF-16."""

HEX = re.compile(rb"[0-9a-fA-F]*")
BASE32 = re.compile(rb"[A-Z2-7]*")
PRINTABLE = re.compile(rb"[\t\n\r\x20-\x7e]{16,}")
LARGEST = 32
"""Uncompressed bytes at most, for each packed one: this bounds the work."""

UTF16 = re.compile(rb"x(?:0x)+")
FEWEST_UTF16 = b"x0" * 12
CLASSES = bytes(
    ord("0") if byte == 0 else ord("x") if 32 <= byte < 127 or byte in b"\t\r\n" else ord(".")
    for byte in range(256)
)


def unpacked(data: bytes, runs: Iterable[tuple[int, int]]) -> Iterator[Reading]:
    """Yield the packed texts in `data`. `runs` are its runs of token characters."""
    yield from _in_utf16(data)
    done = 0
    for start, end in [run for run in runs if run[1] - run[0] >= SHORTEST]:
        if start < done:
            continue
        match = PACKED.match(data, start, end)
        if match is None:
            continue
        form = str(match.lastgroup)
        packed, at, offsets = lines(data, match.start(form))
        done = offsets[-1] + len(packed) - at[-1]
        text = _decoded(packed, BITS[form])
        if form == "compressed":
            yield from _uncompressed(text, len(packed), offsets[0], done)
        elif form == "utf16" or PRINTABLE.match(text):
            yield Reading(text, at, offsets, {}, 0, BITS[form])


def _decoded(packed: bytes, bits: int) -> bytes:
    """Decode base16, base32 or base64 up to what is none, in whole groups."""
    if bits == 6:
        whole = packed[: len(packed) - (len(packed) % 4 == 1)].translate(STANDARD)
        return a2b_base64(whole + b"=" * (-len(whole) % 4))
    digits, group = (HEX, 2) if bits == 4 else (BASE32, 8)
    match = digits.match(packed)
    whole = match[0][: match.end() // group * group] if match is not None else b""
    rest = match[0][len(whole) :] if match is not None else b""
    if bits == 4:
        return bytes.fromhex(whole.decode())
    padded = rest + b"=" * (-len(rest) % 8) if len(rest) in (2, 4, 5, 7) else b""
    return b32decode(whole + padded)


def _uncompressed(data: bytes, size: int, start: int, end: int) -> Iterator[Reading]:
    decoder = zlib.decompressobj(wbits=zlib.MAX_WBITS | 32)  # gzip or zlib, by the header
    try:
        text = decoder.decompress(data, size * LARGEST)
    except zlib.error:
        return
    yield Reading(text, [0], [start], {}, whole=end)


def _in_utf16(data: bytes) -> Iterator[Reading]:
    """Yield the text in UTF-16 of either byte order: each character is beside a zero."""
    if b"\0" not in data:
        return
    classes = data.translate(CLASSES)
    at = classes.find(FEWEST_UTF16)
    while at >= 0:
        match = UTF16.match(classes, at)
        assert match is not None
        yield Reading(data[at : match.end() : 2], [0], [at], {}, 0, 4)
        at = classes.find(FEWEST_UTF16, match.end())
