r"""Reads bytes as they were before something wrote them in another way: terminal colors, JSON,
percent signs, base64.

Each reading is a text and the way back: where in the bytes any part of it stands. Only what could
hold a token is read: the surroundings of escapes, and runs of base64 that decode to text. What is
read is not larger than the bytes.
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
"""A terminal's control sequence, as it is or as JSON, C and shells write it; or a character that
was escaped.
"""

BRACKET = re.compile(rb"\[(?:(?<=[bB3}]\[)|(?<=\\[eE]\[)|(?<=\x1b\[)|(?<=\^\[\[))")
CHARSET = re.compile(rb"\((?:(?<=[bB3}]\()|(?<=\\[eE]\()|(?<=\x1b\()|(?<=\^\[\())[A-Z0-9]")
"""What a control sequence has that is quickly found."""

CARET = b"^["
LONGEST_ESCAPE = 6
BYTE = rb"(?:2[bBdDeEfF]|3[0-9aAdD]|4[0-9a-fA-F]|5[0-9aAcCfF]|6[1-9a-fA-F]|7[0-9aA])"
IN_TOKEN = (
    re.compile(rb"\\(?:/|(?:u00|x)" + BYTE + b")"),
    re.compile(rb"%(?:25)*(?:1[bB]|" + BYTE + b")"),
)
"""What may stand for a byte of a token, or for the sign before one. Quotes and ends of lines are
boundaries anyway.
"""

BESIDE = 100
"""Bytes around an escape that are read with it, besides the run of a token that it stands in."""

FARTHEST = 4096
MOST_BACKSLASHES = 64
IN_WORD = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.+/=%\\-")
WORDS = bytes(0 if byte not in IN_WORD else 1 for byte in range(256))

FEWEST_QUADS = 6
QUAD = rb"[C-Za-f][A-HQ-Xg-nw-z0-3][ABEFIJMNQRUVYZcdghklopstwx014589][A-Za-z0-9+/_-]"
TEXT_IN_BASE64 = re.compile(QUAD * FEWEST_QUADS + b"(?:" + QUAD + b")*+")
"""Four characters that decode to three bytes of ASCII, six times: by chance once in 262,144 places.
"""

BASE64_LINE = re.compile(rb"[A-Za-z0-9+/_-]+")
NEXT_LINE = re.compile(
    rb"(?:\\+r|%(?:25)*0[dD]|\r)?(?:\\+n|%(?:25)*0[aA]|\n)[ \t]{0,16}(?=[A-Za-z0-9+/_-]{2})"
)
STANDARD = bytes.maketrans(b"-_", b"+/")


class Reading(NamedTuple):
    """A text, and where its parts stand: from `at[i]` on in the text what is from `place[i]` on in
    the bytes.

    `ends` has where a byte of the text ends that was written with several. With `first`, the parts
    are base64 instead: of its characters, from that one on.
    """

    text: bytes
    at: list[int]
    place: list[int]
    ends: dict[int, int]
    first: int | None = None

    def span(self, start: int, end: int) -> tuple[int, int]:
        """Where in the bytes a part of the text stands: the whole of what was written for it."""
        if self.first is not None:
            return self.where(self.first + start * 8 // 6), self.where(
                self.first + (end * 8 - 1) // 6
            ) + 1
        return self.where(start), self.ends.get(end - 1) or self.where(end - 1) + 1

    def where(self, index: int) -> int:
        """Where a place of the text is in the bytes."""
        part = bisect_right(self.at, index) - 1
        return self.place[part] + index - self.at[part]


def controls(data: bytes) -> list[tuple[int, int]]:
    """Where a terminal's control sequences are, in order."""
    marks = [match.start() for match in BRACKET.finditer(data)]
    if marks or b"\x1b" in data:
        marks = sorted([*marks, *(match.start() for match in CHARSET.finditer(data))])
    found = (_control(data, mark) for mark in marks)
    return [span for span in found if span is not None]


def _control(data: bytes, mark: int) -> tuple[int, int] | None:
    """The control sequence that has its bracket at a place: from the first backslash before it, if
    it is escaped.
    """
    start = mark - 2 if data[mark - 1] == CARET[1] else mark - 1
    if data[start] not in b"\x1b^":
        start = data.rfind(b"\\", max(0, mark - LONGEST_ESCAPE), mark)
        start -= backslashes(data, max(start, 0))
    match = WRITTEN.match(data, start) if start >= 0 else None
    return match.span() if match is not None and match.lastgroup is None else None


def backslashes(data: bytes, end: int) -> int:
    """How many stand right before a place."""
    before = data[max(0, end - MOST_BACKSLASHES) : end]
    return len(before) - len(before.rstrip(b"\\"))


def blanked(data: bytes, spans: list[tuple[int, int]]) -> bytes:
    """The same with spaces instead of control sequences, so that they end words. As long as
    before.
    """
    if not spans:
        return data
    parts, place = [], 0
    for start, end in spans:
        parts += [data[place:start], b" " * (end - start)]
        place = end
    return b"".join([*parts, data[place:]])


def unescaped(data: bytes, spans: list[tuple[int, int]]) -> Iterator[Reading]:
    """What stands around escapes: without control sequences, and with the characters that JSON and
    URLs escape.
    """
    escapes = [match.span() for pattern in IN_TOKEN for match in pattern.finditer(data)]
    for left, right in _windows(data, sorted([*spans, *escapes])):
        yield _unescaped(data, left, right)


def _windows(data: bytes, spots: list[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """The surroundings of escapes, from a word's beginning to a word's end. Those that overlap are
    one.
    """
    words = data.translate(WORDS) if spots else b""
    left, right = 0, -1
    for start, end in spots:
        if start > right:
            if right >= 0:
                yield left, right
            near = max(0, start - BESIDE)
            left = max(words.rfind(b"\0", 0, near) + 1, start - FARTHEST, right)
        if end + BESIDE > right:
            stop = words.find(b"\0", end + BESIDE, end + FARTHEST)
            right = stop if stop >= 0 else min(end + FARTHEST, len(data))
    if right >= 0:
        yield left, right


def _unescaped(data: bytes, left: int, right: int) -> Reading:
    parts, at, place, ends = [], [0], [left], {}
    length = 0
    for match in WRITTEN.finditer(data, left, right):
        start, end = match.span()
        parts.append(data[place[-1] : start])
        length += start - place[-1]
        if match.lastgroup is not None:
            parts.append(
                b"/"
                if match.lastgroup == "slash"
                else bytes.fromhex(match[match.lastgroup].decode())
            )
            at.append(length)
            place.append(start)
            length += 1
            ends[length - 1] = end
        at.append(length)
        place.append(end)
    parts.append(data[place[-1] : right])
    return Reading(b"".join(parts), at, place, ends)


def in_base64(data: bytes, runs: Iterable[tuple[int, int]]) -> Iterator[Reading]:
    """What runs of base64 hold that is text, also where it goes on in the lines below."""
    seen = 0
    for start, end in runs:
        if end - start < FEWEST_QUADS * 4 or start < seen:
            continue
        piece = data[start:end]
        if (
            piece.islower()
            or piece.isupper()
            or (found := TEXT_IN_BASE64.search(data, start, end)) is None
        ):
            continue
        joined, at, place = _lines(data, found.start())
        seen = place[-1] + len(joined) - at[-1]
        for match in TEXT_IN_BASE64.finditer(joined):
            first = max(match.start() - 4, match.start() % 4)
            last = min(match.end() + 4, len(joined))
            last -= (last - first) % 4 == 1
            quads = joined[first:last].translate(STANDARD) + b"=" * (-(last - first) % 4)
            yield Reading(a2b_base64(quads), at, place, {}, first)


def _lines(data: bytes, start: int) -> tuple[bytes, list[int], list[int]]:
    """Base64 from a place on without the ends of its lines, and where each line begins in it and in
    the bytes.
    """
    parts, at, place = [], [], []
    length = 0
    next_line: int | None = start
    while next_line is not None:
        line = BASE64_LINE.match(data, next_line)
        assert line is not None
        parts.append(line[0])
        at.append(length)
        place.append(next_line)
        length += len(line[0])
        further = NEXT_LINE.match(data, line.end())
        next_line = further.end() if further is not None else None
    return b"".join(parts), at, place
