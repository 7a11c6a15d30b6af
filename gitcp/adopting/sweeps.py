"""Conversations of a directory that are not stored, and when their agents will delete them.

For commands that only warn, so it looks at names and times, and reads no transcript.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import NamedTuple

from gitcp import adapters
from gitcp.adapters.base import Found
from gitcp.adopting.emptiness import why_empty
from gitcp.adopting.holdings import Holdings
from gitcp.errors import StoreDamaged
from gitcp.model import Host
from gitcp.store import Store

SOON = 7 * 86400.0
"""Seconds before a deletion from which on to warn."""


class Sweep(NamedTuple):
    """The conversations that an agent will delete soon: how many, and when the first one, in
    seconds since 1970.
    """

    agent: str
    conversations: int
    first: float


def unstored(store: Store, sessions: Iterable[Found]) -> list[Found]:
    """Return the sessions that were written to since their last checkpoint, or have none."""
    sessions = list(sessions)
    if not sessions:
        return []
    holdings = Holdings(store)
    return [conversation for conversation in sessions if not _is_stored(holdings, conversation)]


def _is_stored(holdings: Holdings, conversation: Found) -> bool:
    holding = holdings.of(conversation.agent, conversation.session_id)
    try:
        # commits have whole seconds
        return holding is not None and holdings.store.summary(
            holding.tip
        ).created.timestamp() >= int(conversation.modified)
    except StoreDamaged:
        return False


def due(store: Store, cwd: Path, host: Host) -> tuple[Sweep, ...]:
    """Return what agents will delete soon of this directory's conversations and is not stored."""
    now = host.now().timestamp()
    times: dict[str, list[float]] = {}
    lifetimes: dict[str, float | None] = {}
    soon = []
    for conversation in adapters.find_all(cwd, host):
        if conversation.agent not in lifetimes:
            lifetimes[conversation.agent] = adapters.lifetime(conversation.agent, host)
        lifetime = lifetimes[conversation.agent]
        if lifetime is not None and conversation.modified + lifetime < now + SOON:
            soon.append(conversation)
    for conversation in unstored(store, soon):
        if why_empty(partial(adapters.load(conversation.agent).capture, conversation)):
            continue
        times.setdefault(conversation.agent, []).append(
            conversation.modified + (lifetimes[conversation.agent] or 0)
        )
    return tuple(Sweep(agent, len(each), min(each)) for agent, each in sorted(times.items()))
