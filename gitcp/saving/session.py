"""Which session a command is about, and whose conversation a save takes. Decided once, here, and
said in words.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Mapping
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import NamedTuple

from gitcp import adapters
from gitcp.adapters import generic
from gitcp.adapters.base import Found
from gitcp.errors import (
    BadValue,
    ConversationUnreadable,
    RevisionAmbiguous,
    RevisionNotFound,
    StoreDamaged,
)
from gitcp.git import refs
from gitcp.git.fsync import read_own, replace_file
from gitcp.model import Agent, Capture, Checkpoint, Oid
from gitcp.store import Store, Summary
from gitcp.value import replace

APART = 600.0
"""Seconds by which the newest conversation of a directory must lead for it alone to be meant."""

PAUSE = 0.02
SESSION = "GITCP_SESSION"
"""The variable by which `gitcp run` tells what it runs which session it belongs to."""

CURRENT = "current"
MANUAL = "manual"
GIVEN = "as given"
SHORTEST = 8


class Choice(NamedTuple):
    """The session a save goes to, the conversation it takes (None: none), and why these.

    `whose` is the agent's session that a new one of ours is for, under a name that was made for it.
    """

    session: str
    capture: Capture | None
    why: str
    whose: Agent | None = None


def choose(
    store: Store,
    cwd: Path,
    *,
    session: str | None = None,
    agent: str | None = None,
    conversation: Path | bytes | None = None,
) -> Choice:
    """Decide by what was given, else by the agent that runs us, else by the newest conversation of
    this directory.

    Raises RevisionAmbiguous when two conversations could be meant, BadValue for a name that cannot
    be a session's.
    """
    host = store.repo.host
    session = session or host.env.get(SESSION)
    if conversation is not None:
        capture = _given(conversation, agent)
        name = (
            refs.check_name(session, "session")
            if session
            else _session_of(store, capture.agent) or manual(store)
        )
        return Choice(name, capture, GIVEN)
    if session is not None:
        return _named(store, cwd, session, agent)
    running = adapters.running(host)
    if running is not None and agent in (None, running.agent):
        found = next(
            (f for f in adapters.find_all(cwd, host) if _is(f, running.agent, running.session_id)),
            None,
        )
        found = found or adapters.located(running.agent, running.session_id, host)
        return _of(
            store,
            Agent(running.agent, running.session_id),
            found,
            f"{running.agent} is running this",
        )
    newest = _newest(store, cwd, agent)
    if newest is None:
        return Choice(manual(store), None, "no agent's conversation belongs to this directory")
    found, known = newest
    why = f"the newest conversation of {found.agent} in this directory"
    return Choice(known, _capture(found), why) if known else _of(store, _agent(found), found, why)


def await_running(store: Store, seconds: float) -> None:
    """Wait until the conversation of the agent that runs us is on disk, for a limited time.

    An agent writes the first lines of a new session a moment after its first calls of tools.
    """
    host, until = store.repo.host, time.monotonic() + seconds
    running = adapters.running(host)
    while running is not None and time.monotonic() < until:
        if adapters.located(running.agent, running.session_id, host) is not None:
            return
        time.sleep(PAUSE)


def named(store: Store, given: str | None) -> str | None:
    """The session that is named exactly, or that of the agent that runs us; None where neither says
    one.
    """
    given = given or store.repo.host.env.get(SESSION)
    if given is not None:
        return refs.check_name(given, "session")
    running = adapters.running(store.repo.host)
    if running is None:
        return None
    who = Agent(running.agent, running.session_id)
    return _session_of(store, who) or new_name(store, running.session_id)


def holding(store: Store, checkpoint: Checkpoint) -> str:
    """The session that goes on from a checkpoint: its own; a fork that has it where that one is
    deleted.
    """
    own, sessions = checkpoint.id.session, store.sessions()
    found = [own] * (own in sessions) + sorted(sessions)
    return next(
        (
            n
            for n in found
            if any(s.commit == checkpoint.commit for s in store.readable(sessions[n]))
        ),
        own,
    )


def present(store: Store, cwd: Path, target: Checkpoint | str) -> Choice:
    """Where what is here now belongs, when a restore of `target`, or of a session's, is about to
    change it.

    As `choose` decides, but never with a question: what is undecided goes to the session last used
    in this working tree, or else to the target's.
    """
    try:
        chosen = choose(store, cwd)
    except RevisionAmbiguous:
        chosen = None
    if chosen is not None and chosen.capture is not None:
        return chosen
    last = _read(store.repo.state_dir / CURRENT)
    if not last or store.tip(last) is None:
        last = target if isinstance(target, str) else holding(store, target)
    return _named(store, cwd, last, None)


def last_used(store: Store) -> str | None:
    """The session last used in this working tree, None if there is none."""
    last = _read(store.repo.state_dir / CURRENT)
    return last if last and refs.NAME.match(last) else None


def changed(
    store: Store, cwd: Path, target: Checkpoint, chosen: Choice, unchanged: str | None
) -> Choice:
    """Whose conversation a restore of `target`'s is about to change: that of the session which goes
    on from there, if its agent has it here; else what was `chosen`, and also where that is a fork,
    which goes on by itself.

    `unchanged` is the agent's session that the restore finds as it is to be, if there is one: that
    one does not change.
    """
    there, tip = holding(store, target), store.tip(chosen.session)
    if there == chosen.session or (
        tip and any(s.commit == target.commit for s in store.history(tip))
    ):
        return chosen
    theirs = _named(store, cwd, there, None)
    agent = theirs.capture.agent if theirs.capture else None
    return theirs if agent is not None and agent.session_id != unchanged else chosen


def last_tip(store: Store) -> Oid | None:
    """The last checkpoint of the session last used in this working tree, None if there is none."""
    last = last_used(store)
    return store.tip(last) if last else None


def of_agent(store: Store, agent: str, session_id: str, found: Found | None) -> Choice:
    """The session of an agent's session, a new one if it has none; `found` is its conversation, if
    it is there.
    """
    return _of(store, Agent(agent, session_id), found, f"{agent} said so")


def current(store: Store, given: str | None = None) -> str | None:
    """The session that `@` means: the one given, the running agent's, the last one used here, the
    newest.
    """
    sessions = store.sessions()
    if given is not None:
        return expand(sessions, given)
    inside = store.repo.host.env.get(SESSION)
    if inside in sessions:
        return inside
    running = adapters.running(store.repo.host)
    if running is not None:
        name = _session_of(store, Agent(running.agent, running.session_id))
        if name is not None:
            return name
    last = _read(store.repo.state_dir / CURRENT)
    if last in sessions:
        return last
    ends = {name: end(store, tip) for name, tip in sessions.items()}
    found = {name: last.created for name, last in ends.items() if last is not None}
    return max(found, key=lambda name: found[name], default=next(iter(sessions), None))


def expand(sessions: dict[str, Oid], given: str) -> str:
    """A session's full name from an unambiguous beginning."""
    if given in sessions:
        return given
    matching = [name for name in sessions if name.startswith(given)]
    if len(matching) > 1:
        raise RevisionAmbiguous(f"more than one session begins with {given}", tuple(matching))
    if not matching:
        raise RevisionNotFound(f"there is no session {given}", hint="gitcp sessions")
    return matching[0]


def looked_up(store: Store, given: str | None) -> str | None:
    """A session's full name from an unambiguous beginning, for commands that only look; any other
    name as it is.
    """
    matching = [name for name in store.sessions() if given and name.startswith(given)]
    return matching[0] if len(matching) == 1 else given


def set_current(store: Store, session: str) -> None:
    """Remember the session last used in this working tree. Where that cannot be written, it is done
    without.
    """
    directory = store.repo.state_dir
    known = [CURRENT, *([MANUAL] if session.startswith(f"{MANUAL}-") else [])]
    for path in (directory / name for name in known):
        if _read(path) != session:
            with suppress(OSError):
                write_state(path, session)


def manual(store: Store) -> str:
    """The name of this working tree's own session, for work without an agent; a new one until
    something is saved.
    """
    return _read(store.repo.state_dir / MANUAL) or f"{MANUAL}-{os.urandom(3).hex()}"


def begin_here(store: Store, session: str) -> None:
    """Make a session that has no agent the one that this working tree saves into."""
    for name in (CURRENT, MANUAL):
        with suppress(OSError):
            write_state(store.repo.state_dir / name, session)


def free_name(store: Store, session: str) -> str:
    """A name for another session like this one: the first of `NAME-2`, `NAME-3`, … that is free."""
    taken = store.sessions()
    return next(name for n in count(2) if (name := f"{session[:90]}-{n}") not in taken)


def new_name(store: Store, agent_session: str) -> str:
    """A short name for a session: the beginning of the agent's own id, longer where that is
    taken.
    """
    plain = re.sub(r"[^A-Za-z0-9]", "", agent_session) or "session"
    taken = store.sessions()
    for length in (SHORTEST, 12, 20, 64):
        if plain[:length] not in taken:
            return plain[:length]
    raise BadValue(
        f"every short name for {agent_session} is taken", hint="gitcp save --session NAME"
    )


def write_state(path: Path, text: str) -> None:
    """Write one of our own small files whole."""
    replace_file(path, f"{text}\n".encode(), sync=False)


def _read(path: Path) -> str | None:
    try:
        return read_own(path).decode("utf-8").strip() or None
    except (OSError, UnicodeDecodeError):
        return None


def _given(conversation: Path | bytes, agent: str | None) -> Capture:
    if isinstance(conversation, bytes):
        capture = generic.from_bytes(conversation)
    elif agent is None or agent == "generic":
        capture = generic.from_file(conversation)
    else:
        return _by_hand(conversation, agent)
    return replace(capture, agent=Agent(agent)) if agent and agent != "generic" else capture


def _by_hand(path: Path, agent: str) -> Capture:
    """A transcript of a known agent, given by hand: kept to its last byte."""
    if not path.is_file():
        raise ConversationUnreadable(f"there is no file {path}: nothing was saved")
    capture = adapters.load(agent).capture(Found(agent, path.stem, path, path.stat().st_mtime))
    return replace(
        capture, sources=tuple(replace(source, live=False) for source in capture.sources)
    )


def _named(store: Store, cwd: Path, session: str, agent: str | None) -> Choice:
    """A session given by its exact name: its own agent's conversation if it has one, else the
    running agent's.

    A name that no session has can be the beginning of an agent's session id. It then means that
    agent's session.
    """
    sessions = store.sessions()
    candidates = [f for f in adapters.find_all(cwd, store.repo.host) if agent in (None, f.agent)]
    if session in sessions:
        trailers = _said(store, sessions[session])
        bound = (trailers.get("Gitcp-Agent", ""), trailers.get("Gitcp-Agent-Session", ""))
        found = next((f for f in candidates if _is(f, *bound)), None)
        if found is None and agent in (None, bound[0]):
            found = adapters.located(*bound, store.repo.host)
        lost = bound[1] and found is None
        why = (
            f"as given; {bound[0]} has no session {bound[1]} here, so its last conversation stands"
            if lost
            else GIVEN
        )
        return Choice(session, _capture(found), why)
    refs.check_name(session, "session")
    mine = [f for f in candidates if _is_beginning(session, f.session_id)]
    if len(mine) == 1:
        return _of(store, _agent(mine[0]), mine[0], GIVEN)
    running = adapters.running(store.repo.host)
    found = next(
        (f for f in candidates if running and _is(f, running.agent, running.session_id)), None
    )
    return Choice(session, _capture(found), GIVEN)


def _is_beginning(name: str, session_id: str) -> bool:
    """Whether a name is an agent's session id or a beginning of it, as long as the names that gitcp
    makes of them.

    One that ends within a number is another number: agent-1 is not agent-10.
    """
    if not session_id.startswith(name) or name == session_id:
        return name == session_id
    is_hex = re.fullmatch(r"[0-9a-f-]+", session_id) is not None
    return len(name) >= SHORTEST and (
        is_hex or not (name[-1].isdigit() and session_id[len(name)].isdigit())
    )


def _newest(store: Store, cwd: Path, agent: str | None) -> tuple[Found, str | None] | None:
    """The newest conversation of this directory and its session, None for a new one. Of several
    that could be meant, the one in use here. Raises RevisionAmbiguous.
    """
    found = [
        f
        for f in _with_last(store, adapters.find_all(cwd, store.repo.host))
        if agent in (None, f.agent)
    ]
    close: dict[str, tuple[Found, str | None]] = {}
    for f in found:
        if found[0].modified - f.modified < APART:
            name = _session_of(store, Agent(f.agent, f.session_id))
            close.setdefault(name or f.session_id, (f, name))
    last = _read(store.repo.state_dir / CURRENT)
    if len(close) > 1 and last not in close:
        raise RevisionAmbiguous(
            "more than one conversation of this directory could be meant: nothing was saved",
            tuple(f"{f.session_id}  {f.agent}" for f, _ in close.values()),
            hint=f"gitcp save --session {found[0].session_id[:SHORTEST]}",
        )
    if not close:
        return None
    chosen, name = close.get(last or "") or next(iter(close.values()))
    return _last_used(store, chosen, name, found), name


def _with_last(store: Store, found: tuple[Found, ...]) -> list[Found]:
    """What was found, newest first, with the agent's session that was last saved in this working
    tree: that may have begun in a directory below.
    """
    tip = last_tip(store)
    said = _said(store, tip) if tip else {}
    last = (said.get("Gitcp-Agent", ""), said.get("Gitcp-Agent-Session", ""))
    if not last[1] or any(_is(f, *last) for f in found):
        return list(found)
    more = adapters.located(*last, store.repo.host)
    return sorted((*found, *([more] if more else ())), key=lambda f: -f.modified)


def _last_used(store: Store, chosen: Found, name: str | None, found: list[Found]) -> Found:
    """Of the agent's sessions that restores made of one of ours: the one our last checkpoint is of,
    unless `chosen`, the newest, was written since.
    """
    tip = store.tip(name) if name else None
    if tip is None:
        return chosen
    summary = end(store, tip)
    # a commit knows whole seconds
    if summary is None or chosen.modified >= summary.created.timestamp() + 1:
        return chosen
    return next((f for f in found if is_of(summary, Agent(f.agent, f.session_id))), chosen)


def _of(store: Store, agent: Agent, found: Found | None, why: str) -> Choice:
    """The session of an agent's session, a new one if it has none."""
    known = _session_of(store, agent)
    if known is not None:
        return Choice(known, _capture(found), why)
    return Choice(new_name(store, agent.session_id or ""), _capture(found), why, agent)


def _agent(found: Found) -> Agent:
    return Agent(found.agent, found.session_id)


def _capture(found: Found | None) -> Capture | None:
    return adapters.load(found.agent).capture(found) if found else None


def _is(found: Found, agent: str, session_id: str) -> bool:
    return found.agent == agent and found.session_id == session_id


def _session_of(store: Store, agent: Agent | None) -> str | None:
    """The gitcp session of an agent's session: by its short name first, else by what the last
    checkpoints say.
    """
    if agent is None or agent.session_id is None:
        return None
    sessions = store.sessions()
    plain = re.sub(r"[^A-Za-z0-9]", "", agent.session_id)
    last = _read(store.repo.state_dir / CURRENT)
    likely = [name for name in sessions if plain.startswith(name) or name == last]
    by_tip = (name for name in (*likely, *sessions) if _says(store, sessions[name], agent))
    # A session that was forked off reaches the checkpoints of the older one, and those are not its
    # own.
    by_chain = (
        n
        for n in likely
        if any(s.id.session == n and is_of(s, agent) for s in store.readable(sessions[n]))
    )
    # A name that was made from the agent's id says enough where no checkpoint can be read.
    damaged = (
        n
        for n in likely
        if len(n) >= SHORTEST and plain.startswith(n) and end(store, sessions[n]) is None
    )
    found = next(by_tip, None) or next(by_chain, None) or next(damaged, None)
    return found or _renamed(store, agent, plain, sessions)


def _renamed(store: Store, agent: Agent, plain: str, sessions: dict[str, Oid]) -> str | None:
    """The same, for a session that had another name when its checkpoints said so."""
    from gitcp.state import oplog  # only for a session that is new, or was renamed

    now = {
        new
        for old, new in oplog.former(store.repo).items()
        if plain.startswith(old) and new in sessions
    }
    return next(
        (n for n in sorted(now) if any(is_of(s, agent) for s in store.readable(sessions[n]))), None
    )


def called_now(store: Store, choice: Choice) -> Choice:
    """The same choice where its session was renamed after it was made, or the name made for a new
    one was given to another meanwhile: sessions that begin in the same minute may have ids that
    begin alike. The caller holds the store's lock.
    """
    if store.tip(choice.session) is not None:
        mine = _of(store, choice.whose, None, choice.why) if choice.whose else choice
        return choice._replace(session=mine.session)
    from gitcp.state import oplog

    now = oplog.former(store.repo).get(choice.session)
    if now is None or store.tip(now) is None:
        return choice
    agent = choice.capture.agent if choice.capture else None
    return (
        choice._replace(session=now)
        if agent is None or _session_of(store, agent) == now
        else choice
    )


def end(store: Store, tip: Oid) -> Summary | None:
    """What the last checkpoint of a session says, None if it cannot be read: that is in no other
    session's way.
    """
    try:
        return store.summary(tip)
    except StoreDamaged:
        return None


def _said(store: Store, tip: Oid) -> Mapping[str, str]:
    last = end(store, tip)
    return last.trailers if last is not None else {}


def _says(store: Store, tip: Oid, agent: Agent) -> bool:
    last = end(store, tip)
    return last is not None and is_of(last, agent)


def is_of(summary: Summary, agent: Agent) -> bool:
    """Whether a checkpoint was made of this session of this agent."""
    said = summary.trailers
    return (said.get("Gitcp-Agent"), said.get("Gitcp-Agent-Session")) == (
        agent.name,
        agent.session_id,
    )
