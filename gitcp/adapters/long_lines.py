"""The lines of a transcript for those who need no long text whole, in bounded memory.

A tool can return hundreds of MB, which an agent writes as one line. Parsed, it is in memory several
times. Whoever counts messages or shows their beginning needs only the beginning of each text: in a
line that is longer than LONG, a JSON string that is longer than KEPT ends early. The line is still
the same JSON otherwise. One that consists of many short strings stays as it is.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

LONG = 1 << 20
"""Bytes of a line that is shortened."""

KEPT = 64 << 10
"""Bytes of a string that are kept, at most."""

IN_STRING = rb'(?s)[^"\\]*+(?:\\.[^"\\]*+)*+'
"""What is in a string, up to its end, or to a backslash at the end of the data."""

WHOLE_STRINGS = rb'(?s)(?:[^"]*+"[^"\\]*+(?:\\.[^"\\]*+)*+")*+'
"""As many complete strings as there are, with what is between them."""

BEFORE_CUT = rb'[^"\\]{12}(?=[\x00-\x7f\xc0-\xff])'
"""Ends where no escape, pair of surrogates or UTF-8 character is cut."""


def lines(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """Yield the lines of a stream, with their line endings, the long ones shortened."""
    line = _Line()
    for chunk in chunks:
        *whole, last = chunk.split(b"\n")
        for part in whole:
            line.add(part)
            yield line.end() + b"\n"
        line.add(last)
    if rest := line.end():
        yield rest


def _end(pattern: bytes, data: bytes, start: int = 0) -> int:
    """Return where a match at `start` ends. Few saves see a long line, so only these compile."""
    match = re.compile(pattern).match(data, start)
    return match.end() if match is not None else start


class _Line:
    """A line that is read in parts."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self._size = 0
        self._is_long = self._is_skipping = False

    def add(self, part: bytes) -> None:
        """Add what follows."""
        if not part:
            return
        self._parts.append(part)
        self._size += len(part)
        if self._is_long or self._size > LONG:
            self._shorten()

    def end(self) -> bytes:
        """Return the line, and begin the next one."""
        line = b"".join(self._parts)
        self._parts, self._size, self._is_long, self._is_skipping = [], 0, False, False
        return line

    def _shorten(self) -> None:
        """Cut the strings in what was added since: `_parts` are what is done, and what is not."""
        done, data = self._parts[:-2], b"".join(self._parts[-2:])
        if not self._is_long:
            done, data, self._is_long = [], b"".join(self._parts), True
        if self._is_skipping:
            data = data[_end(IN_STRING, data) :]
            if not data.startswith(b'"'):
                self._parts = [*done, data]
                return
            done, data, self._is_skipping = [*done, b'"'], data[1:], False
        whole = _end(WHOLE_STRINGS, data)
        start = data.find(b'"', whole)
        done.append(data[: start if start >= 0 else len(data)])
        rest = data[start:] if start >= 0 else b""
        if len(rest) > KEPT:
            cuts = [each.end() for each in re.compile(BEFORE_CUT).finditer(rest, 1, KEPT)]
            cut = cuts[-1] if cuts else 1
            done.append(rest[:cut])
            rest = rest[_end(IN_STRING, rest, cut) :]
            self._is_skipping = True
        self._parts = [*done, rest]
