"""The tokens in the events of a session. Each request has a record with an identity of its own,
which copies of the session keep.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from gitcp import wire
from gitcp.adapters import base
from gitcp.adapters.base import State, Usage

RECORD = "session.usage_record"


def usage(lines: Iterable[bytes], state: State) -> Iterator[Usage]:  # noqa: ARG001
    """Yield the tokens of each request, also of sub-agents."""
    for line in lines:
        fields = (wire.parse_line(line) or {}) if b'"session.usage_record"' in line else {}
        data = fields.get("data")
        spent = data.get("usage") if isinstance(data, dict) else None
        id = base.string(fields, "id")
        if fields.get("type") != RECORD or not isinstance(spent, dict) or id is None:
            continue
        names = ("inputTokens", "cacheReadTokens", "cacheWriteTokens")
        read, cached, written = (base.tokens(spent, name) for name in names)
        yield Usage(
            _identity(spent.get("accounting")) or id,
            base.string(spent, "model") or "",
            input=max(read - cached - written, 0),  # both are a part of the input
            output=base.tokens(spent, "outputTokens"),
            cache_read=cached,
            cache_write=written,
            time=base.string(fields, "timestamp"),
        )


def _identity(accounting: object) -> str | None:
    if not isinstance(accounting, dict):
        return None
    session, number = accounting.get("sourceSessionId"), accounting.get("sequence")
    known = isinstance(session, str) and isinstance(number, int)
    return f"{session} {number}" if known else None
