"""The tokens in a session: those of each answer, of compactions, and of what else Pi asked for."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from gitcp import wire
from gitcp.adapters import base
from gitcp.adapters.base import State, Usage


def usage(lines: Iterable[bytes], state: State) -> Iterator[Usage]:  # noqa: ARG001
    """Yield the tokens of each entry that has some, and what Pi says that they cost."""
    for line in lines:
        fields = (wire.parse_line(line) or {}) if b'"usage"' in line else {}
        message, id = base.message_of(fields), base.string(fields, "id")
        spent = message.get("usage") or fields.get("usage")
        if not isinstance(spent, dict) or id is None:
            continue
        costs = spent.get("cost")
        cost = costs.get("total") if isinstance(costs, dict) else None
        yield Usage(
            id,
            base.string(message, "model") or base.string(fields, "model") or "",
            input=base.tokens(spent, "input"),
            output=base.tokens(spent, "output"),
            cache_read=base.tokens(spent, "cacheRead"),
            cache_write=base.tokens(spent, "cacheWrite"),
            time=base.string(fields, "timestamp"),
            cost=float(cost) if isinstance(cost, int | float) and cost else None,
        )
