"""The tokens in a chat. A message is written again when it has changed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from gitcp import wire
from gitcp.adapters import base
from gitcp.adapters.base import State, Usage
from gitcp.adapters.gemini.lines import replaced_by, unfolded


def usage(lines: Iterable[bytes], state: State) -> Iterator[Usage]:  # noqa: ARG001
    """Yield the tokens of each answer, also of those that a rewind removed."""
    for line in unfolded(lines):
        if b'"tokens"' not in line:
            continue
        fields = wire.parse_line(line) or {}
        for message in replaced_by(fields) or [fields]:
            spent, id = message.get("tokens"), base.string(message, "id")
            if message.get("type") != "gemini" or not isinstance(spent, dict) or id is None:
                continue
            cached = base.tokens(spent, "cached")  # a part of the input
            read = base.tokens(spent, "input") + base.tokens(spent, "tool")
            yield Usage(
                id,
                base.string(message, "model") or "",
                input=max(read - cached, 0),
                output=base.tokens(spent, "output") + base.tokens(spent, "thoughts"),
                cache_read=cached,
                time=base.string(message, "timestamp"),
            )
