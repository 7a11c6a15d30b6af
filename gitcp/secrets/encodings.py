"""Decode bytes that were re-encoded or packed: terminal colors, JSON and shell escapes,
percent-encoding, base64, hexadecimal, base32, UTF-16, and what is compressed in base64.

Each reading is a decoded text with a mapping back to the original offsets, or to all of them if it
was compressed. Only parts that can contain a token are decoded: the surroundings of escapes, and
base64 runs that decode to text.
"""

from __future__ import annotations

import re
import zlib
from base64 import b32decode
from binascii import a2b_base64
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from typing import NamedTuple

TOKEN = rb"[A-Za-z0-9_.+/=~-]"
FOUR = TOKEN + rb"{4}"
CONTROL = rb"(?:\[[0-9;:?<=>]{0,32}[ -/]{0,3}[@-~]|\([A-Z0-9])"
ESCAPED = rb"\\*(?:u001[bB]|u\{1[bB]\}|x1[bB]|0?33|[eE])" + CONTROL
CHARACTER = (
    rb"\\*(?:u00(?P<json>[2-7][0-9a-fA-F])|x(?P<hex>[2-7][0-9a-fA-F])"
    rb"|u\{0{0,4}(?P<brace>[2-7][0-9a-fA-F])\}|(?P<octal>(?:0[4-7]|1[0-7])[0-7])"
    rb"|(?P<mark>[/_.~+=-]))"
)
INVISIBLE = (
    rb"(?:200[b-fB-F]|202[a-eA-E]|206[0-9a-fA-F]|[fF][eE](?:[fF]{2}|0[0-9a-fA-F])|00[aA][dD]"
    rb"|180[eE]|034[fF])"
)
INVISIBLE_UTF8 = (
    rb"(?<=\xe2)(?:\x80[\x8b-\x8f\xaa-\xae]|\x81[\xa0-\xaf])|(?<=\xef)(?:\xbb\xbf|\xb8[\x80-\x8f])"
    rb"|(?<=\xc2)\xad|(?<=\xe1)\xa0\x8e|(?<=\xcd)\x8f"
)
INVISIBLE_PERCENT = (
    rb"(?:[eE]2%(?:25)*80%(?:25)*8[b-fB-F]|[eE][fF]%(?:25)*[bB]{2}%(?:25)*[bB][fF]"
    rb"|[cC]2%(?:25)*[aA][dD])"
)
"""Zero-width spaces and joiners, directions, soft hyphens, byte order marks, variation selectors.
"""

NAMES = {
    b"lowbar": b"_", b"UnderBar": b"_", b"hyphen": b"-", b"dash": b"-", b"period": b".",
    b"sol": b"/", b"plus": b"+", b"equals": b"=", b"amp": b"&", b"quot": b'"', b"apos": b"'",
    b"colon": b":", b"lt": b"<", b"gt": b">", b"commat": b"@", b"dollar": b"$", b"percnt": b"%",
    b"num": b"#", b"excl": b"!", b"ast": b"*", b"lpar": b"(", b"rpar": b")", b"quest": b"?",
    b"semi": b";", b"bsol": b"\\", b"tilde": b"~", b"Hat": b"^", b"vert": b"|", b"nbsp": b" ",
}  # fmt: skip
"""The entities of HTML that stand for a character of ASCII."""

NAMED = b"|".join(NAMES)
GAPS = rb"shy|zwj|zwnj|ZeroWidthSpace|NoBreak"
ENTITY = (
    rb"#0{0,4}(?P<decimal>3[2-9]|[4-9][0-9]|1[01][0-9]|12[0-6]);"
    rb"|#[xX]0{0,4}(?P<entity>[2-7][0-9a-fA-F]);|(?P<name>" + NAMED + rb");"
    rb"|(?:#(?:820[3-7]|8288|65279|173)|#[xX]0{0,2}" + INVISIBLE + rb"|" + GAPS + rb");"
)
LINE_END = rb"(?:\r?\n|(?:\\+r)?\\+n)"
NUMBER = rb"[ \t]{0,8}[0-9]{1,6}(?:[ \t]{0,3}[:|]|\t|\\+t|\xe2\x86\x92|\\+u2192)"
MARGIN = rb"(?:[+>|-]|" + NUMBER + rb")?"
"""What a diff, a quotation or a numbered listing puts before each line."""

INDENT = MARGIN + rb"(?:[ \t]|\\+t){0,60}"
SPACES = rb"(?:[ \t]|\\+t|\\?" + LINE_END + MARGIN + rb"){0,60}"
AFTER_BREAK = INDENT + rb"(?:\\*[\"'`])?(?=" + FOUR + rb")"
OPENED = rb"[bBfFrRuU]{0,2}\\*[\"'`](?=" + FOUR + rb")"
JOINED = SPACES + rb"(?:\+|\.\.?|&(?:[ \t]+_)?|<>)?" + SPACES + OPENED
"""The rest of a concatenation of two string literals, after the first one's quote."""

WRITTEN = re.compile(
    rb"[\\%\x1b^&=\"'`\xe2\xef\xc2\xe1\xcd](?:(?<=\\)(?:"
    + ESCAPED
    + rb"|\\*u(?:" + INVISIBLE + rb"|\{" + INVISIBLE + rb"\})|"
    + CHARACTER
    + rb"|(?:\r?\n|\\{2,60}+(?:r\\+)?n)" + INDENT
    + rb"|(?<=" + TOKEN + rb"\\)\\*[\"'`]" + JOINED
    + rb")|(?<=%)(?:25)*(?:(?P<percent>[2-7][0-9a-fA-F]|1[bB])|" + INVISIBLE_PERCENT
    + rb")|(?<=\x1b)" + CONTROL
    + rb"|(?<=\^)\[" + CONTROL
    + rb"|(?<=&)(?:" + ENTITY
    + rb")|(?<==)(?:(?P<quoted>2[BDEF]|3D|5F|7E)|" + LINE_END + rb"(?=" + TOKEN
    + rb"))|(?<=" + TOKEN + rb"[\"'`])" + JOINED
    + rb"|" + INVISIBLE_UTF8
    + rb")"
)  # fmt: skip
"""What is written differently from what it means: a terminal control sequence, raw or as escaped by
JSON, C or shells; an escaped character; an invisible one; the end of a line that continues; the gap
between concatenated strings.
"""

BRACKET = re.compile(rb"\[(?:(?<=[bB3}]\[)|(?<=\\[eE]\[)|(?<=\x1b\[)|(?<=\^\[\[))")
CHARSET = re.compile(rb"\((?:(?<=[bB3}]\()|(?<=\\[eE]\()|(?<=\x1b\()|(?<=\^\[\())[A-Z0-9]")
"""A quick test for control sequences."""

CARET = b"^["
LONGEST_ESCAPE = 6
BYTE = rb"(?:2[bBdDeEfF]|3[0-9aAdD]|4[0-9a-fA-F]|5[0-9aAcCfF]|6[1-9a-fA-F]|7[0-9aA])"
IN_TOKEN = (
    (b"\\", re.compile(
        rb"\\(?:[/_-]|\.(?=[A-Za-z0-9]{4})|x" + BYTE
        + rb"|u(?:00" + BYTE + rb"|\{0{0,4}" + BYTE + rb"|\{?" + INVISIBLE
        + rb")|0[4-7][0-7]|1[0-7][0-7]|\n" + AFTER_BREAK + rb"|\r\n" + AFTER_BREAK
        + rb"|\\(?:\\{1,60}+(?:r\\+)?n" + AFTER_BREAK + rb"|n(?<=[\"']\\\\n)" + INDENT + OPENED
        + rb")|n(?<=[\"']\\n)" + INDENT + OPENED
        + rb"|\" \\+\"(?=" + FOUR + rb"))"
    )),
    (b"%", re.compile(rb"%(?:25)*(?:1[bB]|" + INVISIBLE_PERCENT + rb"|" + BYTE + rb")")),
    (b"=", re.compile(
            rb"=[235\r\n\\](?:(?<=2)[DEF]|(?<=3)D|(?<=5)F"
            rb"|(?<=[\r\n\\])(?:(?<=\r)\n|(?<=\\)\\*n|(?<=\\)\\*r\\+n|)(?=" + FOUR + rb"))"
        )),
    (b"&", re.compile(rb"&(?:#[xX]?0{0,4}[0-9a-fA-F]{2,5}|" + NAMED + rb"|" + GAPS + rb");")),
    (b"&", re.compile(rb"&(?<=[\"'` \t]&)(?:[ \t]+_)?" + SPACES + OPENED)),
    (b"+", re.compile(rb"\+(?=[ \t\r\n\"'`\\bBfFrRuU])(?<=[\"'` \tn]\+)" + SPACES + OPENED)),
    (b".", re.compile(rb"\.(?=[ \t\r\n\"'`\\.])(?<=[\"'` \t]\.)\.?" + SPACES + OPENED)),
    (b"<", re.compile(rb"<>" + SPACES + OPENED)),
    (b"\n", re.compile(rb"\n(?<=[\"'`]\n)" + INDENT + OPENED)),
    (b'"', re.compile(rb"\" \"(?=" + FOUR + rb")")),
    (b"'", re.compile(rb"' '(?=" + FOUR + rb")")),
    (b"\xe2", re.compile(rb"\xe2(?:\x80[\x8b-\x8f\xaa-\xae]|\x81[\xa0-\xaf])")),
    (b"\xef", re.compile(rb"\xef(?=\xbb\xbf|\xb8[\x80-\x8f])..", re.DOTALL)),
    (b"\xc2", re.compile(rb"\xc2(?=\xad).")),
    (b"\xe1", re.compile(rb"\xe1(?=\xa0\x8e)..", re.DOTALL)),
    (b"\xcd", re.compile(rb"\xcd(?=\x8f).")),
)  # fmt: skip
"""Escapes that can stand for a byte of a token or for the character before it, and gaps in a token.
Quotes and line ends delimit tokens anyway. Each begins with its own byte: the search is fast.
"""

RARE = frozenset((b"%", b"&", b"<", b"\xe2", b"\xef", b"\xc2", b"\xe1", b"\xcd"))
"""Bytes that are rare in most texts: `bytes.find` skips what is between them faster than `re`."""

LONG_WORD = b"x" * 18
MARKS = (b"pass", b"token", b"secret", b"key", b"pwd", b"auth", b"cred", b"://", b"-----", b" -")
"""A reading without a long word and without one of these holds no secret."""

BESIDE = 100
"""Bytes decoded on each side of an escape, in addition to the token it is in."""

FARTHEST = 4096
USUAL_BACKSLASHES = 64
IN_WORD = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.+/=%\\-")
WORD_CLASSES = bytes(
    ord("x") if chr(byte).isascii() and (chr(byte).isalnum() or byte in b"_.+/=~-") else 0
    for byte in range(256)
)
WORDS = bytes(0 if byte not in IN_WORD else 1 for byte in range(256))

FEWEST_QUADS = 6
QUAD = rb"[C-Za-f][A-HQ-Xg-nw-z0-3][ABEFIJMNQRUVYZcdghklopstwx014589][A-Za-z0-9+/_-]"
TEXT_IN_BASE64 = re.compile(QUAD * FEWEST_QUADS + b"(?:" + QUAD + b")*+")
"""Six groups of four characters that decode to ASCII: by chance at one of 262,144 positions."""

BASE64_LINE = re.compile(rb"[A-Za-z0-9+/_-]+")
BEFORE_LINE = re.compile(rb"(?:\A|\n|\\n|[\"'`])(?:(?P<mark>[+>|-])|" + NUMBER + rb")[ \t]{0,60}\Z")
LONGEST_MARGIN = 80
NEXT_LINE = {
    mark: re.compile(
        rb"(?:\\+r|%(?:25)*0[dD]|\r)?(?:\\+n|%(?:25)*0[aA]|\n)"
        + margin
        + rb"[ \t]{0,60}(?=[A-Za-z0-9+/_-]{2})"
    )
    for mark, margin in (
        (None, b""),
        (b"", NUMBER),
        *((mark, re.escape(mark)) for mark in (b"+", b"-", b">", b"|")),
    )
}
"""The end of a line of base64 up to the next line, by what stands before the lines."""

STANDARD = bytes.maketrans(b"-_", b"+/")


class Reading(NamedTuple):
    """A decoded text: the part from `at[i]` on was decoded from offset `place[i]` on.

    `ends` has the end offset of each decoded byte that was written as several. If `first` is set,
    the parts are characters of `bits` bits each (base64: 6), starting at that one. If `whole` is
    set, the text is only known as a whole, which ends there: it was compressed.
    """

    text: bytes
    at: list[int]
    place: list[int]
    ends: dict[int, int]
    first: int | None = None
    bits: int = 6
    whole: int | None = None

    def span(self, start: int, end: int) -> tuple[int, int]:
        """Return the original offsets of a part of the text, including complete escapes."""
        if self.whole is not None:
            return self.place[0], self.whole
        if self.first is not None:
            first = self.where(self.first + start * 8 // self.bits)
            return first, self.where(self.first + (end * 8 - 1) // self.bits) + 1
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
    # After more than 64 in a row, --redact left JSON that was not valid.
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
    escapes = [
        match.span() for first, pattern in IN_TOKEN for match in _matches(data, first, pattern)
    ]
    for start, end in _windows(data, sorted([*spans, *escapes])):
        yield _unescaped(data, start, end)


def _may_hold(text: bytes) -> bool:
    """Return whether a short text can hold a secret; most cannot."""
    lower = text.lower()
    return LONG_WORD in text.translate(WORD_CLASSES) or any(mark in lower for mark in MARKS)


def _matches(data: bytes, first: bytes, pattern: re.Pattern[bytes]) -> Iterator[re.Match[bytes]]:
    """Yield the matches of a pattern, all of which begin with the same byte."""
    if first not in RARE:
        yield from pattern.finditer(data)
        return
    at = data.find(first)
    while at >= 0:
        if (match := pattern.match(data, at)) is not None:
            yield match
        at = data.find(first, at + 1)


def together(readings: Iterable[Reading]) -> Reading:
    """Return the readings that can hold a secret as one, with line ends between them."""
    parts, at, offsets, ends = list[bytes](), list[int](), list[int](), dict[int, int]()
    length = 0
    for reading in readings:
        if not _may_hold(reading.text):
            continue
        parts.append(reading.text)
        at += [length + index for index in reading.at]
        offsets += reading.place
        ends.update((length + index, end) for index, end in reading.ends.items())
        length += len(reading.text) + 1
    return Reading(b"\n".join(parts), at, offsets, ends)


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
            parts.append(_character(match.lastgroup, match[match.lastgroup]))
            at.append(length)
            offsets.append(start)
            length += 1
            ends[length - 1] = end
        at.append(length)
        offsets.append(end)
    parts.append(data[offsets[-1] : window_end])
    return Reading(b"".join(parts), at, offsets, ends)


def _character(group: str, written: bytes) -> bytes:
    """Return the character that a group of WRITTEN stands for."""
    if group == "mark":
        return written
    if group == "name":
        return NAMES[written]
    base = {"decimal": 10, "octal": 8}.get(group, 16)
    return bytes([int(written, base)])


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
        joined, at, offsets = lines(data, match_start.start())
        done = offsets[-1] + len(joined) - at[-1]
        for match in TEXT_IN_BASE64.finditer(joined):
            first = max(match.start() - 4, match.start() % 4)
            last = min(match.end() + 4, len(joined))
            last -= (last - first) % 4 == 1
            quads = joined[first:last].translate(STANDARD) + b"=" * (-(last - first) % 4)
            yield Reading(a2b_base64(quads), at, offsets, {}, first)


def lines(data: bytes, start: int) -> tuple[bytes, list[int], list[int]]:
    """Join base64 from `start` on across lines. Return it with each line's
    offset in it and in the input.
    """
    parts, at, offsets = [], [], []
    length = 0
    next_line: int | None = start
    before = BEFORE_LINE.search(data, max(0, start - LONGEST_MARGIN), start)
    line_end = NEXT_LINE[None if before is None else before["mark"] or b""]
    while next_line is not None:
        line = BASE64_LINE.match(data, next_line)
        assert line is not None
        parts.append(line[0])
        at.append(length)
        offsets.append(next_line)
        length += len(line[0])
        further = line_end.match(data, line.end())
        next_line = further.end() if further is not None else None
    return b"".join(parts), at, offsets


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
