"""Paths as git quotes them, like strings of C: in patches, and in `objects/info/alternates`."""

from __future__ import annotations

import re

ESCAPED = re.compile(rb"\\([0-3][0-7]{2}|.)", re.DOTALL)
CHARACTERS = {
    b"a": b"\a",
    b"b": b"\b",
    b"f": b"\f",
    b"n": b"\n",
    b"r": b"\r",
    b"t": b"\t",
    b"v": b"\v",
}


def quote(path: bytes) -> bytes:
    """Return a path in quotes, with what cannot be in them escaped."""
    escaped = path.replace(b"\\", b"\\\\").replace(b'"', b'\\"').replace(b"\n", b"\\n")
    return b'"' + escaped + b'"'


def unescape(text: bytes) -> bytes:
    """Return what is between the quotes of a quoted path, without its escapes."""
    return ESCAPED.sub(_character, text)


def unquote(text: bytes) -> bytes:
    """Return a path that may be quoted."""
    is_quoted = len(text) > 1 and text.startswith(b'"') and text.endswith(b'"')
    return unescape(text[1:-1]) if is_quoted else text


def _character(match: re.Match[bytes]) -> bytes:
    code = match[1]
    return bytes([int(code, 8)]) if len(code) == 3 else CHARACTERS.get(code, code)
