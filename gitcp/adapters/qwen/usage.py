"""The tokens in a transcript."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from gitcp import wire
from gitcp.adapters import base
from gitcp.adapters.base import State, Usage


def usage(lines: Iterable[bytes], state: State) -> Iterator[Usage]:  # noqa: ARG001
    """Yield the tokens of each answer."""
    for line in lines:
        fields = (wire.parse_line(line) or {}) if b'"usageMetadata"' in line else {}
        spent, id = fields.get("usageMetadata"), base.string(fields, "uuid")
        if not isinstance(spent, dict) or id is None:
            continue
        read, cached = (
            base.tokens(spent, name) for name in ("promptTokenCount", "cachedContentTokenCount")
        )
        yield Usage(
            id,
            base.string(fields, "model") or "",
            input=max(read - cached, 0),  # the cached ones are a part of the prompt's
            output=max(base.tokens(spent, "totalTokenCount") - read, 0),  # with its thoughts
            cache_read=cached,
            time=base.string(fields, "timestamp"),
        )
