"""The tokens in a stored conversation, and what opencode says that they cost."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from gitcp import wire
from gitcp.adapters import base, conversion
from gitcp.adapters.base import State, Usage
from gitcp.adapters.opencode.lines import parse


def usage(lines: Iterable[bytes], state: State) -> Iterator[Usage]:  # noqa: ARG001
    """Yield the tokens of each answer."""
    for line in lines:
        info, _ = parse(wire.parse_line(line) or {}) if b'"tokens"' in line else ({}, [])
        spent, id, time = info.get("tokens"), base.string(info, "id"), info.get("time")
        if info.get("role") != "assistant" or not isinstance(spent, dict) or id is None:
            continue
        cost = info.get("cost")
        yield Usage(
            id,
            base.string(info, "modelID") or "",
            input=base.tokens(spent, "input"),
            output=base.tokens(spent, "output") + base.tokens(spent, "reasoning"),
            cache_read=base.tokens(spent.get("cache"), "read"),
            cache_write=base.tokens(spent.get("cache"), "write"),
            time=conversion.from_milliseconds(
                time.get("created") if isinstance(time, dict) else None
            ),
            cost=float(cost) if isinstance(cost, int | float) and cost else None,
        )
