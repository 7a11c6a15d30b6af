"""The agents' sessions that a store has."""

from __future__ import annotations

from typing import NamedTuple

from gitcp.errors import StoreDamaged
from gitcp.model import Oid
from gitcp.store import Store


class Holding(NamedTuple):
    """A session of gitcp's that ends in a conversation of an agent's session."""

    session: str
    tip: Oid


class Holdings:
    """The agents' sessions that a store has, by agent and id."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.sessions = store.sessions()
        self._by_agent: dict[tuple[str, str], Holding] = {}
        for name, tip in self.sessions.items():
            self.add(name, tip)

    def add(self, name: str, tip: Oid) -> None:
        """Note a session and its last checkpoint."""
        self.sessions[name] = tip
        try:
            trailers = self.store.summary(tip).trailers
        except StoreDamaged:
            return
        key = (trailers.get("Gitcp-Agent", ""), trailers.get("Gitcp-Agent-Session", ""))
        if all(key):
            self._by_agent[key] = Holding(name, tip)

    def of(self, agent: str, session_id: str) -> Holding | None:
        """Return the session that continues an agent's session, None if there is none."""
        return self._by_agent.get((agent, session_id))
