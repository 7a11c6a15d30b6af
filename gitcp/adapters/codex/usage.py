"""The tokens in a rollout. They are recorded as totals of the thread so far."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from gitcp.adapters import base
from gitcp.adapters.base import State, Usage
from gitcp.adapters.codex.transcript import payload_of, record_of

MARKS = (b'"token_count"', b'"turn_context"')
NAMES = ("input_tokens", "cached_input_tokens", "output_tokens")


def usage(lines: Iterable[bytes], state: State) -> Iterator[Usage]:
    """Yield the tokens of each request: how much the totals grew. The same totals are often
    recorded again, with new rate limits; a total that is smaller than before begins anew. `state`
    has the model and the totals so far.
    """
    nothing = tuple(0 for _ in NAMES)
    model, before = state.get("model", ""), state.get("totals", nothing)
    for line in lines:
        if not any(mark in line for mark in MARKS):
            continue
        fields = record_of(line)
        payload = payload_of(fields)
        if fields.get("type") == "turn_context":
            model = state["model"] = base.string(payload, "model") or model
        info = payload.get("info") if payload.get("type") == "token_count" else None
        if not isinstance(info, dict):
            continue
        total = info.get("total_token_usage")
        now = tuple(base.tokens(total, name) for name in NAMES)
        start = before if all(a <= b for a, b in zip(before, now, strict=True)) else nothing
        read, cached, written = (b - a for a, b in zip(start, now, strict=True))
        before = state["totals"] = now
        if read or written:
            time = base.string(fields, "timestamp")
            key = f"{time} {now[0]} {now[2]}"
            yield Usage(key, model, max(read - cached, 0), written, cached, time=time)
