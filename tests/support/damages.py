"""What happens to transcripts: each damage by the words with which it is reported."""

from __future__ import annotations

from collections.abc import Callable

from gitcp.adapters.mending import FIRST, GLUED, MARK, NOT_UTF8, NULS, TORN

Damage = Callable[[list[bytes]], bytes]
DAMAGES: dict[str, Damage] = {
    MARK: lambda lines: b"\xef\xbb\xbf" + b"".join(lines),
    NULS: lambda lines: b"".join(lines[:2]) + b"\0" * 64 + b"".join(lines[2:]),
    NOT_UTF8: lambda lines: b"".join(lines).replace("größer".encode(), b"gr\xf6\xdfer", 1),
    GLUED: lambda lines: b"".join(lines[:4]) + lines[4].rstrip() + b"".join(lines[5:]),
    TORN: lambda lines: b"".join(lines) + lines[-1][: len(lines[-1]) // 2],
    FIRST: lambda lines: b"".join(lines[1:]),
}
