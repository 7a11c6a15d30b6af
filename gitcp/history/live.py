"""Whether a session is live: its agent is at work, or was a moment ago."""

from __future__ import annotations

import os
from datetime import datetime, timedelta

from gitcp import adapters
from gitcp.model import Trigger
from gitcp.policy import events
from gitcp.saving import session as sessions
from gitcp.state import tool_log
from gitcp.store import Store

RECENT = timedelta(minutes=10)


def is_live(store: Store, session: str, now: datetime) -> bool:
    """Return whether a session's agent runs this process, or something of the session happened in
    the ten minutes before `now`: a hook's event, a checkpoint, a message. An agent that said that
    it ended is not live until something else happens.
    """
    tip = store.tip(session)
    last = sessions.last_summary(store, tip) if tip else None
    if last is None:
        return False
    agent = last.trailers.get("Gitcp-Agent", "")
    agent_session = last.trailers.get("Gitcp-Agent-Session", "")
    running = adapters.running(store.repo.host)
    if running is not None and (running.agent, running.session_id) == (agent, agent_session):
        return True
    since = (now - RECENT).timestamp()
    lines = tool_log.read(str(store.repo.git_dir))
    event = next((e for e in reversed(list(lines)) if e.session == (agent, agent_session)), None)
    if event is not None and event.mark == tool_log.LEFT and event.time / 1e9 >= since:
        is_end = last.trailers.get("Gitcp-Trigger") == Trigger.SESSION_END
        return not is_end and last.created.timestamp() > event.time / 1e9 + 1
    if event is not None and event.time / 1e9 >= since:
        return True
    if last.created.timestamp() >= since:
        return True
    if not events.session_id(agent_session):
        return False
    hooked = store.repo.git_dir / "gitcp" / events.HOOKED / f"{agent}.{agent_session}"
    located = adapters.located(agent, agent_session, store.repo.host)
    return _modified(hooked) >= since or (located is not None and located.modified >= since)


def _modified(path: os.PathLike[str]) -> float:
    try:
        return os.stat(path).st_mtime
    except OSError:
        return 0.0
