"""The background pushes that `gitcp status` shows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from gitcp import clock, humanize, wire
from gitcp.git import refs

if TYPE_CHECKING:
    from gitcp.sharing.push_queue import Item, PushState

MOST = 5
"""Maximum lines about single sessions and tags of a remote."""


def fields(states: Sequence[PushState]) -> list[wire.Json]:
    """Return the background pushes for `--json`."""
    return [
        {
            "remote": state.consent.remote,
            "push": state.consent.policy.value,
            "pushing": state.is_pushing,
            "problem": state.problem or None,
            "last_push": _time(state.queue.pushed),
            "waiting": [
                {
                    "ref": item.ref,
                    "commit": item.tip,
                    "failures": item.failures,
                    "held": item.is_held,
                    "reason": item.reason or None,
                }
                for item in state.queue.items
            ],
        }
        for state in states
    ]


def lines(states: Sequence[PushState], now: datetime) -> Iterator[str]:
    """Yield the background pushes, a line for each remote and those that did not succeed."""
    for state in states:
        yield f"{state.consent.remote}: {_summary(state, now)}"
        if not state.problem:
            yield from humanize.listed(list(_troubles(state.queue.items)), MOST)


def _summary(state: PushState, now: datetime) -> str:
    items = state.queue.items
    if state.problem:
        return f"not pushed, {state.problem}"
    sessions = sum(item.ref.startswith(refs.SESSIONS) for item in items)
    counts = [(sessions, "session"), (len(items) - sessions, "tag")]
    what = " and ".join(humanize.count(number, word) for number, word in counts if number)
    if state.is_pushing:
        return f"pushing {what}" if what else "pushing"
    if what:
        return f"{what} not pushed yet"
    pushed = clock.local(state.queue.pushed)
    return f"pushed {humanize.ago(pushed, now)}" if state.queue.pushed else "nothing to push yet"


def _troubles(items: Sequence[Item]) -> Iterator[str]:
    """Yield each reason once, with what it is about."""
    reasons: dict[str, list[str]] = {}
    for item in items:
        if item.reason:
            reasons.setdefault(item.reason, []).append(item.ref.rpartition("/")[2])
    for reason, names in reasons.items():
        more = f" and {len(names) - 1} more" if names[1:] else ""
        yield f"  {names[0]}{more}: {reason}"


def _time(seconds: float) -> str | None:
    return wire.encode_time(clock.local(seconds)) if seconds else None
