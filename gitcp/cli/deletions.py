"""The warning that agents are about to delete conversations that are not stored, for `status` and
`doctor`.
"""

from __future__ import annotations

from datetime import datetime

from gitcp import clock, humanize
from gitcp.adopting.sweeps import Sweep
from gitcp.wire import Json, encode_time


def lines(sweeps: tuple[Sweep, ...], now: datetime) -> list[str]:
    """Return a line for each agent, with the command that stores the conversations."""
    return [_line(sweep, when(sweep.first, now)) for sweep in sweeps]


def _line(sweep: Sweep, first: str) -> str:
    if sweep.conversations == 1:
        return f"{sweep.agent} deletes 1 conversation {first}: gitcp import"
    return (
        f"{sweep.agent} deletes {sweep.conversations:,} conversations, the first {first}: "
        "gitcp import"
    )


def when(seconds: float, now: datetime) -> str:
    """Return when an agent deletes a conversation, in words."""
    days = round((seconds - now.timestamp()) / 86400)
    return f"in {humanize.count(days, 'day')}" if days > 0 else "at its next start"


def fields(sweeps: tuple[Sweep, ...]) -> list[Json]:
    """Return the fields of each warning."""
    return [
        {
            "agent": sweep.agent,
            "conversations": sweep.conversations,
            "first": encode_time(clock.local(sweep.first)),
        }
        for sweep in sweeps
    ]
