"""Escape text from transcripts, labels and file names so that it cannot control the terminal.

Every control, bidirectional or invisible character becomes a visible escape, except joiners. The
escapes are for reading only and cannot be reversed.
"""

from __future__ import annotations

import re

TAB = 8

UNSAFE = (
    "["
    "\x00-\x09\x0b-\x1f\x7f-\x9f"  # C0 but the line feed, DEL, C1
    "\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f"  # soft hyphen, joiners, fillers
    "\u200b-\u200f\u2028-\u202e\u2060-\u206f"  # zero width, direction, line separators
    "\u3164\ufeff\uffa0\ufff0-\ufffb"
    "\ud800-\udfff"  # half a character: a byte that was not UTF-8
    "\U0001d173-\U0001d17a\U000e0000-\U000e0fff"  # musical controls, tags, variation selectors
    "]"
)
"""A pattern, compiled at its first use: most output is plain, and compiling takes 4 ms."""


def safe(text: str) -> str:
    """Return `text` with everything escaped that a terminal would act on. Line feeds stay, tabs
    become spaces.
    """
    if is_plain(text):
        return text
    if "\t" in text:
        text = text.expandtabs(TAB)
    return re.sub(UNSAFE, _escape, text)


def is_plain(text: str) -> bool:
    """Return whether `text` is printable ASCII, in which nothing has to be escaped."""
    return text.isascii() and text.isprintable()


def flat(text: str) -> str:
    """Return `safe(text)` on one line: every run of blanks and line ends becomes one blank."""
    return safe(" ".join(text.split()))


def is_joiner(text: str, at: int) -> bool:
    """Return whether the character at an offset is a joiner of text in Persian, Hindi or emoji.

    Between ASCII letters, or one after the other, joiners only hide that two names differ.
    """
    # Escaped everywhere, they broke Persian and Hindi words and family emoji in two.
    around = text[max(at - 1, 0) : at + 2]
    return text[at] in "\u200c\u200d" and any(
        not each.isascii() and each.isprintable() for each in around
    )


def _escape(match: re.Match[str]) -> str:
    code = ord(match[0])
    if is_joiner(match.string, match.start()):
        return match[0]
    if code < 0x20 or code == 0x7F:
        return "^" + chr(code ^ 0x40)
    if code < 0x100:
        return f"\\x{code:02x}"
    if 0xDC80 <= code <= 0xDCFF:
        return f"\\x{code - 0xDC00:02x}"  # the byte itself
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
