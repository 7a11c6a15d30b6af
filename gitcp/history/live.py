"""Whether a session is live: its agent is at work, or was a moment ago."""

from __future__ import annotations

import os
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from gitcp import adapters
from gitcp.model import Agent, Trigger
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
    if _modified(hooked) >= since:
        return True
    located = adapters.located(agent, agent_session, store.repo.host)
    return located is not None and (adapters.last_message(located) or 0) >= since


class OpenTurn(NamedTuple):
    """A turn of an agent's session that has not ended, as far as is known. `began` and `last`, when
    it began (or the first that is known of it) and when something of it happened, are told by
    hooks, which tell nothing of a turn that was interrupted. Without hooks, `began` is None, and
    `last` is the time of the conversation's last message, which is not an answer.
    """

    session: str
    agent: str
    began: datetime | None
    last: datetime


def turns(store: Store) -> tuple[OpenTurn, ...]:
    """Return the turns in this working tree that have not ended, as far as is known, and of which
    something happened in the last ten minutes, except that of the agent which runs this process.
    """
    running = adapters.running(store.repo.host)
    own = (running.agent, running.session_id) if running else None
    return tuple(turn for key, turn in _turns(store).items() if key != own)


def running_sessions(store: Store) -> frozenset[str]:
    """Return the sessions with an agent in a turn in this working tree."""
    return frozenset(turn.session for turn in _turns(store).values())


def _turns(store: Store) -> dict[tuple[str, str], OpenTurn]:
    """Return the turns by agent and its session."""
    host = store.repo.host
    since = (host.now() - RECENT).timestamp()
    lines = list(tool_log.read(str(store.repo.git_dir)))
    hooked = {line.session for line in lines}
    turns = {
        key: OpenTurn(sessions.name_of(store, Agent(*key)), key[0], *map(_time, times))
        for key, times in tool_log.open_turns(lines).items()
        if times[1] / 1e9 >= since
    }
    for conversation in adapters.find_all(store.repo.root, host):
        key = conversation.agent, conversation.session_id
        if conversation.modified < since or key in hooked:
            continue
        last = adapters.open_turn(conversation)
        if last is not None and last >= since:
            turns[key] = OpenTurn(
                sessions.name_of(store, Agent(*key)), key[0], None, _time(last * 1e9)
            )
    return turns


def _time(nanoseconds: float) -> datetime:
    return datetime.fromtimestamp(nanoseconds / 1e9, UTC)


def _modified(path: os.PathLike[str]) -> float:
    try:
        return os.stat(path).st_mtime
    except OSError:
        return 0.0
