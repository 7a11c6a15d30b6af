"""Secrets in pieces and in packed text: continued lines, concatenated strings, invisible
characters, entities, quoted-printable, hexadecimal, base32, UTF-16, compressed data.
"""

from __future__ import annotations

import base64
import gzip
import html
import json
import quopri
import time
import zlib
from collections.abc import Callable

import pytest
from tokens import tokens

from gitcp.secrets.scan import redact, scan

TOKEN = tokens()["github-token"]
NAME = "github-token"
HALF, REST = TOKEN[:17], TOKEN[17:]
TEXT = f"Some text is before it, then {TOKEN} and more of it follows, so that it is long enough."
INVISIBLE = "\u200b\u200c\u200d\u200e\u2060\u202a\ufeff\u00ad\u180e\u034f\ufe0f"


def b64(data: bytes) -> str:
    """Base64 of bytes."""
    return base64.b64encode(data).decode()


def lines(text: str, width: int = 60, before: str = "") -> str:
    """A text in lines, with the same before each."""
    return "\n".join(before + text[at : at + width] for at in range(0, len(text), width))


def numbered(text: str, form: str) -> str:
    """A text in lines with their numbers."""
    return "\n".join(form.format(n, line) for n, line in enumerate(lines(text).split("\n"), 8))


PIECES = {
    "continued": f"{HALF}\\\n{REST}",
    "continued, CRLF": f"{HALF}\\\r\n{REST}",
    "continued, indented": f"{HALF}\\\n    {REST}",
    "plus": f'x = "{HALF}" + "{REST}"',
    "plus, tight": f"x='{HALF}'+'{REST}'",
    "plus, over lines": f'x = "{HALF}" +\n    "{REST}"',
    "plus, before": f'x = "{HALF}"\n    + "{REST}"',
    "plus, in three": f'x = "{TOKEN[:4]}" + "{TOKEN[4:20]}" + f"{TOKEN[20:]}"',
    "implicit": f'x = "{HALF}" "{REST}"',
    "implicit, over lines": f"x = (\n  '{HALF}'\n  '{REST}'\n)",
    "a dot": f"$x = '{HALF}'.'{REST}';",
    "a dot, spaced": f"$x = '{HALF}' . '{REST}';",
    "two dots": f'x = "{HALF}" .. "{REST}"',
    "an ampersand": f'x = "{HALF}" & "{REST}"',
    "an ampersand, continued": f'x = "{HALF}" & _\n  "{REST}"',
    "angles": f'x = "{HALF}" <> "{REST}"',
    "a backslash": f'x = "{HALF}" \\\n  "{REST}"',
    "a diff": f'+  x = "{HALF}" +\n+      "{REST}"',
    **{f"U+{ord(char):04X}": f"{HALF}{char}{REST}" for char in INVISIBLE},
    "one between all": "\u200b".join(TOKEN),
    "Markdown": TOKEN.replace("_", "\\_"),
    "quoted-printable": quopri.encodestring(TEXT.encode()).decode(),
    "quoted-printable, escaped": TOKEN.replace("_", "=5F"),
    "a soft break": f"{HALF}=\r\n{REST}",
    "entities": "".join(f"&#{ord(char)};" for char in TOKEN),
    "entities, hexadecimal": "".join(f"&#x{ord(char):x};" for char in TOKEN),
    "an entity": TOKEN.replace("_", "&lowbar;"),
    "an invisible entity": f"{HALF}&shy;{REST}",
    "braces": TOKEN.replace("_", "\\u{5f}"),
    "octal": "".join(f"\\{ord(char):03o}" for char in TOKEN),
    "percent, twice": "".join(f"%25{ord(char):02x}" for char in TOKEN),
    "percent, invisible": f"{HALF}%E2%80%8B{REST}",
}
PACKED = {
    "hexadecimal": TOKEN.encode().hex(),
    "hexadecimal, large": TOKEN.encode().hex().upper(),
    "hexadecimal, 0x": "0x" + TOKEN.encode().hex(),
    "hexadecimal, in lines": lines(TEXT.encode().hex()),
    "base32": base64.b32encode(TOKEN.encode()).decode(),
    "base32, in lines": lines(base64.b32encode(TEXT.encode()).decode(), 76),
    "gzip": b64(gzip.compress(TEXT.encode())),
    "gzip, in lines": lines(b64(gzip.compress(TEXT.encode()))),
    "zlib": b64(zlib.compress(TEXT.encode())),
    "UTF-16": b64(TEXT.encode("utf-16-le")),
    "base64 twice": b64(b64(TEXT.encode()).encode()),
    "base64 in a diff": lines(b64(TEXT.encode()), before="+"),
    "base64 taken out": lines(b64(TEXT.encode()), before="-    "),
    "base64, quoted": lines(b64(TEXT.encode()), before="> "),
    "base64, numbered": numbered(b64(TEXT.encode()), "{:6}\t{}"),
    "base64, with colons": numbered(b64(TEXT.encode()), "{}: {}"),
    "base64, with arrows": numbered(b64(TEXT.encode()), "{:5}\u2192{}"),
}
NOT_FOUND = {
    "reversed": TOKEN[::-1],
    "a wrapped line": f"{HALF}\n{REST}",
    "a list": f'["{HALF}", "{REST}"]',
    "HTML": f"{HALF}<wbr>{REST}",
    "hexadecimal, spaced": TOKEN.encode().hex(" "),
    "base85": base64.b85encode(TOKEN.encode()).decode(),
}


@pytest.mark.parametrize("form", [*PIECES, *PACKED])
def test_found(form: str) -> None:
    """A token that was written in another way is found by its ID, in JSON too, and taken out."""
    text = (PIECES | PACKED)[form]
    for written in (
        text,
        json.dumps({"a": text}),
        json.dumps({"a": text}, ensure_ascii=False),
        json.dumps({"a": json.dumps({"b": text})}),
    ):
        found = scan(written.encode())
        assert [(each.rule, each.text.decode()) for each in found] == [(NAME, TOKEN)], written
        clean = redact(written.encode()).decode()
        assert scan(clean.encode()) == ()
        assert clean.count("[REDACTED:") == 1
        assert not written.startswith('{"a"') or json.loads(clean)["a"]


@pytest.mark.parametrize("form", NOT_FOUND)
def test_not_found(form: str) -> None:
    """What the page says is not found."""
    assert scan(NOT_FOUND[form].encode()) == ()


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be"])
def test_utf16(encoding: str) -> None:
    """A file in UTF-16 is read in either byte order, and only the token's bytes are taken out."""
    data = f"one {TEXT} caf\u00e9".encode(encoding)
    (secret,) = scan(data)

    assert secret.text == TOKEN.encode()
    assert secret.end - secret.start == 2 * len(TOKEN)
    assert redact(data)[: secret.start] == data[: secret.start]


def test_exact() -> None:
    """Of hexadecimal and base32 only the characters that hold the token are taken out."""
    before = "x" * 20
    for pack, bits in ((lambda t: t.encode().hex(), 4), (_base32, 5)):
        whole = pack(f"{before} {TOKEN}!")
        clean = redact(whole.encode()).decode()
        assert whole.startswith(clean.split("[")[0])
        assert len(clean.split("[")[0]) == 21 * 8 // bits


def _base32(text: str) -> str:
    return base64.b32encode(text.encode()).decode()


HOSTILE: dict[str, Callable[[], bytes]] = {
    "one large": lambda: b64(gzip.compress(b"a" * 10_000_000)).encode() + b"\n",
    "many small": lambda: (b64(gzip.compress(b"a" * 3_000)).encode() + b" ") * 3_000,
    "hexadecimal": lambda: b"ab0" * 300_000,
    "concatenations": lambda: b'"a" + ' * 100_000,
    "continued lines": lambda: b"a\\\n" * 200_000,
    "commands": lambda: b"curl -p -u " * 50_000,
    "options": lambda: b"-u a:b " * 100_000,
    "UTF-16": lambda: b"a\0" * 500_000,
    "invisible": lambda: b"\xe2\x80\x8b" * 300_000,
    "keys": lambda: b'{"kty":"EC","d":"' * 30_000,
    "entities": lambda: html.escape('"' * 100_000).encode(),
}


@pytest.mark.faults
@pytest.mark.parametrize("kind", HOSTILE)
def test_bounded(kind: str) -> None:
    """Text that almost is one of these takes seconds: time that grows with its size only."""
    data = HOSTILE[kind]()
    start = time.process_time()
    scan(data)

    assert time.process_time() - start < 30
