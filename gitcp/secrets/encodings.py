"""Decode bytes that were re-encoded: terminal colors, JSON and shell escapes, percent-encoding,
base64.

Each reading is a decoded text with a mapping back to the original offsets. Only parts that can
contain a token are decoded: the surroundings of escapes, and base64 runs that decode to text. A
reading is never larger than the input.
"""

from __future__ import annotations

import re
from binascii import a2b_base64
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from typing import NamedTuple

CONTROL = rb"(?:\[[0-9;:?<=>]{0,32}[ -/]{0,3}[@-~]|\([A-Z0-9])"
ESCAPED = rb"\\*(?:u001[bB]|u\{1[bB]\}|x1[bB]|0?33|[eE])" + CONTROL
CHARACTER = rb"\\*(?:u00(?P<json>[2-7][0-9a-fA-F])|x(?P<hex>[2-7][0-9a-fA-F])|(?P<slash>/))"
WRITTEN = re.compile(
    rb"[\\%\x1b^](?:(?<=\\)(?:"
    + ESCAPED
    + b"|"
    + CHARACTER
    + rb")|(?<=%)(?:25)*(?P<percent>[2-7][0-9a-fA-F]|1[bB])"
    rb"|(?<=\x1b)" + CONTROL + rb"|(?<=\^)\[" + CONTROL + b")"
)
"""A terminal control sequence, raw or as escaped by JSON, C or shells; or an escaped character."""

BRACKET = re.compile(rb"\[(?:(?<=[bB3}]\[)|(?<=\\[eE]\[)|(?<=\x1b\[)|(?<=\^\[\[))")
CHARSET = re.compile(rb"\((?:(?<=[bB3}]\()|(?<=\\[eE]\()|(?<=\x1b\()|(?<=\^\[\())[A-Z0-9]")
"""A quick test for control sequences."""

CARET = b"^["
LONGEST_ESCAPE = 6
BYTE = rb"(?:2[bBdDeEfF]|3[0-9aAdD]|4[0-9a-fA-F]|5[0-9aAcCfF]|6[1-9a-fA-F]|7[0-9aA])"
IN_TOKEN = (
    re.compile(rb"\\(?:/|(?:u00|x)" + BYTE + b")"),
    re.compile(rb"%(?:25)*(?:1[bB]|" + BYTE + b")"),
)
"""Escapes that can stand for a byte of a token or for the character before it. Quotes and
line ends delimit tokens anyway.
"""

BESIDE = 100
"""Bytes decoded on each side of an escape, in addition to the token it is in."""

FARTHEST = 4096
USUAL_BACKSLASHES = 64
IN_WORD = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.+/=%\\-")
WORDS = bytes(0 if byte not in IN_WORD else 1 for byte in range(256))

FEWEST_QUADS = 6
QUAD = rb"[C-Za-f][A-HQ-Xg-nw-z0-3][ABEFIJMNQRUVYZcdghklopstwx014589][A-Za-z0-9+/_-]"
TEXT_IN_BASE64 = re.compile(QUAD * FEWEST_QUADS + b"(?:" + QUAD + b")*+")
"""Six groups of four characters that decode to ASCII: by chance at one of 262,144 positions."""

BASE64_LINE = re.compile(rb"[A-Za-z0-9+/_-]+")
NEXT_LINE = re.compile(
    rb"(?:\\+r|%(?:25)*0[dD]|\r)?(?:\\+n|%(?:25)*0[aA]|\n)[ \t]{0,16}(?=[A-Za-z0-9+/_-]{2})"
)
STANDARD = bytes.maketrans(b"-_", b"+/")


class Reading(NamedTuple):
    """A decoded text: the part from `at[i]` on was decoded from offset `place[i]` on.

    `ends` has the end offset of each decoded byte that was written as several. If `first` is set,
    the parts are base64 characters, starting at that one.
    """

    text: bytes
    at: list[int]
    place: list[int]
    ends: dict[int, int]
    first: int | None = None

    def span(self, start: int, end: int) -> tuple[int, int]:
        """Return the original offsets of a part of the text, including complete escapes."""
        if self.first is not None:
            return self.where(self.first + start * 8 // 6), self.where(
                self.first + (end * 8 - 1) // 6
            ) + 1
        return self.where(start), self.ends.get(end - 1) or self.where(end - 1) + 1

    def where(self, index: int) -> int:
        """Return the original offset of an index of the text."""
        part = bisect_right(self.at, index) - 1
        return self.place[part] + index - self.at[part]


def controls(data: bytes) -> list[tuple[int, int]]:
    """Return the spans of terminal control sequences, in order."""
    marks = [match.start() for match in BRACKET.finditer(data)]
    if marks or b"\x1b" in data:
        marks = sorted([*marks, *(match.start() for match in CHARSET.finditer(data))])
    candidates = (_control(data, mark) for mark in marks)
    return [span for span in candidates if span is not None]


def _control(data: bytes, mark: int) -> tuple[int, int] | None:
    """Return the span of the control sequence with its bracket at `mark`,
    including escaping backslashes.
    """
    start = mark - 2 if data[mark - 1] == CARET[1] else mark - 1
    if data[start] not in b"\x1b^":
        start = data.rfind(b"\\", max(0, mark - LONGEST_ESCAPE), mark)
        start -= backslashes(data, max(start, 0))
    match = WRITTEN.match(data, start) if start >= 0 else None
    return match.span() if match is not None and match.lastgroup is None else None


def backslashes(data: bytes, end: int) -> int:
    """Return the number of backslashes right before `end`."""
    size = USUAL_BACKSLASHES
    while True:  # JSON in JSON doubles them each time
        before = data[max(0, end - size) : end]
        count = len(before) - len(before.rstrip(b"\\"))
        if count < size:
            return count
        size *= 2


def blanked(data: bytes, spans: list[tuple[int, int]]) -> bytes:
    """Return `data` with control sequences replaced by spaces, so that they delimit words. Same
    length.
    """
    if not spans:
        return data
    parts, at = [], 0
    for start, end in spans:
        parts += [data[at:start], b" " * (end - start)]
        at = end
    return b"".join([*parts, data[at:]])


def unescaped(data: bytes, spans: list[tuple[int, int]]) -> Iterator[Reading]:
    """Yield the surroundings of escapes, decoded."""
    escapes = [match.span() for pattern in IN_TOKEN for match in pattern.finditer(data)]
    for start, end in _windows(data, sorted([*spans, *escapes])):
        yield _unescaped(data, start, end)


def _windows(data: bytes, spots: list[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """Yield the surroundings of escapes, extended to whole words, with overlapping ones merged."""
    words = data.translate(WORDS) if spots else b""
    window_start, window_end = 0, -1
    for start, end in spots:
        if start > window_end:
            if window_end >= 0:
                yield window_start, window_end
            near = max(0, start - BESIDE)
            window_start = max(words.rfind(b"\0", 0, near) + 1, start - FARTHEST, window_end)
        if end + BESIDE > window_end:
            stop = words.find(b"\0", end + BESIDE, end + FARTHEST)
            window_end = stop if stop >= 0 else min(end + FARTHEST, len(data))
    if window_end >= 0:
        yield window_start, window_end


def _unescaped(data: bytes, window_start: int, window_end: int) -> Reading:
    parts, at, offsets, ends = [], [0], [window_start], {}
    length = 0
    for match in WRITTEN.finditer(data, window_start, window_end):
        start, end = match.span()
        parts.append(data[offsets[-1] : start])
        length += start - offsets[-1]
        if match.lastgroup is not None:
            parts.append(
                b"/"
                if match.lastgroup == "slash"
                else bytes.fromhex(match[match.lastgroup].decode())
            )
            at.append(length)
            offsets.append(start)
            length += 1
            ends[length - 1] = end
        at.append(length)
        offsets.append(end)
    parts.append(data[offsets[-1] : window_end])
    return Reading(b"".join(parts), at, offsets, ends)


def in_base64(data: bytes, runs: Iterable[tuple[int, int]]) -> Iterator[Reading]:
    """Yield the text encoded in runs of base64, including runs that continue on the next lines."""
    done = 0
    for start, end in runs:
        if end - start < FEWEST_QUADS * 4 or start < done:
            continue
        piece = data[start:end]
        if (
            piece.islower()
            or piece.isupper()
            or (match_start := TEXT_IN_BASE64.search(data, start, end)) is None
        ):
            continue
        joined, at, offsets = _lines(data, match_start.start())
        done = offsets[-1] + len(joined) - at[-1]
        for match in TEXT_IN_BASE64.finditer(joined):
            first = max(match.start() - 4, match.start() % 4)
            last = min(match.end() + 4, len(joined))
            last -= (last - first) % 4 == 1
            quads = joined[first:last].translate(STANDARD) + b"=" * (-(last - first) % 4)
            yield Reading(a2b_base64(quads), at, offsets, {}, first)


def _lines(data: bytes, start: int) -> tuple[bytes, list[int], list[int]]:
    """Join base64 from `start` on across lines. Return it with each line's
    offset in it and in the input.
    """
    parts, at, offsets = [], [], []
    length = 0
    next_line: int | None = start
    while next_line is not None:
        line = BASE64_LINE.match(data, next_line)
        assert line is not None
        parts.append(line[0])
        at.append(length)
        offsets.append(next_line)
        length += len(line[0])
        further = NEXT_LINE.match(data, line.end())
        next_line = further.end() if further is not None else None
    return b"".join(parts), at, offsets
