"""What adapters list, as the tests of each compare it."""

from __future__ import annotations

from collections.abc import Iterable

from gitcp.adapters.base import Found


def ids(found: Iterable[Found]) -> list[str]:
    """The agent's sessions, by their ids, in their order."""
    return [session.session_id for session in found]
