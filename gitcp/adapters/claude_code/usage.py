"""The tokens in a transcript. A message is written in several lines, each with its usage so far."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from gitcp import wire
from gitcp.adapters import base
from gitcp.adapters.base import State, Usage

SYNTHETIC = "<synthetic>"
"""The model of Claude Code's own notices."""


def usage(lines: Iterable[bytes], state: State) -> Iterator[Usage]:  # noqa: ARG001
    """Yield the tokens of each answer, also of sub-agents; those of a message have one key."""
    for line in lines:
        if b'"usage"' not in line:
            continue
        fields = wire.parse_line(line) or {}
        message = base.message_of(fields)
        spent, model = message.get("usage"), base.string(message, "model") or ""
        key = base.string(message, "id") or base.string(fields, "uuid")
        if fields.get("type") != "assistant" or key is None or model == SYNTHETIC:
            continue
        cost = fields.get("costUSD")
        yield Usage(
            key,
            model,
            input=base.tokens(spent, "input_tokens"),
            output=base.tokens(spent, "output_tokens"),
            cache_read=base.tokens(spent, "cache_read_input_tokens"),
            cache_write=base.tokens(spent, "cache_creation_input_tokens"),
            time=base.string(fields, "timestamp"),
            cost=cost if isinstance(cost, float) else None,
        )
