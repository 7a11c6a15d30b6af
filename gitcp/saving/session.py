"""Choose the session of a command and the conversation that a save stores, with the reason in
words.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from itertools import chain, count
from pathlib import Path
from typing import NamedTuple

from gitcp import adapters
from gitcp.adapters import generic
from gitcp.adapters.base import Found, Running
from gitcp.errors import (
    BadValue,
    ConversationUnreadable,
    RevisionAmbiguous,
    RevisionNotFound,
    StoreDamaged,
)
from gitcp.git import refs, worktrees
from gitcp.model import MAIN, Agent, Capture, Checkpoint, Oid
from gitcp.state import conversions, documents, latest, tool_log
from gitcp.store import Store, Summary
from gitcp.value import replace

APART = 600.0
"""Conversations whose last messages are fewer seconds apart are candidates: only which of them has
something to save decides, and if that does not, they are ambiguous.
"""

COPYING = 5.0
"""Seconds after a fork within which its copy of the conversation is written."""

CONVERTING = 1.0
"""Seconds after the last converted message to which its copy's messages are dated, at most."""

TICK = 0.02
"""More than a tick of the clock that stamps files, in seconds."""

PAUSE = 0.02
SESSION = "GITCP_SESSION"
"""Environment variable in which `gitcp run` passes the session to its command."""

CURRENT = "current"
MANUAL = "manual"
GIVEN = "as given"
SHORTEST = 8
SESSION_ID = re.compile(r"(?=.*[0-9])[A-Za-z0-9_-]{13,}")
"""What an agent's id of a session looks like, and few other words do."""

NUMBERED = re.compile(r"-[0-9]+\Z")
"""The end of a name of which another session has the beginning."""


class Choice(NamedTuple):
    """The session of a save, the conversation to store (None for none), and the reason.

    `whose` is the agent's session if `session` is a new name generated for it. `error` is why the
    conversation cannot be read, if it belongs to the session and cannot.
    """

    session: str
    capture: Capture | None
    why: str
    whose: Agent | None = None
    error: ConversationUnreadable | None = None


def choose(
    store: Store,
    cwd: Path,
    *,
    session: str | None = None,
    agent: str | None = None,
    conversation: Path | bytes | None = None,
) -> Choice:
    """Choose by the arguments, else by the running agent, else by the newest conversation of this
    directory.

    Raises RevisionAmbiguous if two conversations match, BadValue for an invalid session name.
    """
    host = store.repo.host
    session = session or host.env.get(SESSION)
    if agent is not None and conversation is None and (not session or store.tip(session) is None):
        # `--agent claud` made a session without a conversation.
        adapters.require(agent, "nothing was saved")
    if conversation is not None:
        capture = _given_capture(conversation, agent)
        name = (
            exact(store, session) if session else _session_of(store, capture.agent) or manual(store)
        )
        return Choice(name, capture, GIVEN)
    if session is not None:
        return _by_name(store, cwd, exact(store, session), agent)
    running = adapters.running(host)
    if running is not None and agent in (None, running.agent):
        return _choose_running(store, cwd, running)
    newest = _newest_conversation(store, cwd, agent)
    if newest is None:
        return Choice(manual(store), None, "no agent conversation found for this directory")
    match, existing, why = newest
    if existing:
        return _choice(existing, match, why)
    return _for_agent(store, _agent(match), match, why)


def _choose_running(store: Store, cwd: Path, running: Running) -> Choice:
    host = store.repo.host
    match = next(
        (
            f
            for f in adapters.find_all(cwd, host)
            if _is_session(f, running.agent, running.session_id)
        ),
        None,
    )
    conversation = match or adapters.located(running.agent, running.session_id, host)
    agent = Agent(running.agent, running.session_id)
    return _for_agent(store, agent, conversation, f"{running.agent} is running this")


def await_running(store: Store, seconds: float) -> bool:
    """Wait up to `seconds` until the running agent's conversation is on disk. Return whether it is.

    An agent writes the first lines of a new session shortly after its first tool calls.
    """
    host, until = store.repo.host, time.monotonic() + seconds
    running = adapters.running(host)
    while running is not None and time.monotonic() < until:
        if adapters.located(running.agent, running.session_id, host) is not None:
            return True
        time.sleep(PAUSE)
    return False


def name_of(store: Store, agent: Agent) -> str:
    """Return the name of an agent's session, of a new one if it has no checkpoint."""
    return _session_of(store, agent) or new_name(store, agent.session_id or "")


def named(store: Store, given: str | None) -> str | None:
    """Return the session that `exact(given)` is, else the running agent's, else None."""
    given = given if given is not None else store.repo.host.env.get(SESSION) or None
    if given is not None:
        return exact(store, given)
    running = adapters.running(store.repo.host)
    if running is None:
        return None
    return name_of(store, Agent(running.agent, running.session_id))


def owner(store: Store, checkpoint: Checkpoint) -> str:
    """Return the session that continues from a checkpoint: its own, or a fork that contains it if
    that one was deleted.
    """
    own, sessions = checkpoint.id.session, store.sessions()
    candidates = [own] * (own in sessions) + sorted(sessions)
    return next(
        (
            n
            for n in candidates
            if any(s.commit == checkpoint.commit for s in store.readable(sessions[n]))
        ),
        own,
    )


def choose_for_restore(store: Store, cwd: Path, target: Checkpoint | str) -> Choice:
    """Return the session that the safety checkpoint goes to before `target` is restored.

    Like `choose`, but never ambiguous: falls back to the session last used in this working tree,
    then to the target's session.
    """
    try:
        chosen = choose(store, cwd)
    except RevisionAmbiguous:
        chosen = None
    if chosen is not None and chosen.capture is not None:
        return chosen
    last = documents.read_line(store.repo.state_dir / CURRENT)
    if not last or store.tip(last) is None:
        last = target if isinstance(target, str) else owner(store, target)
    return _by_name(store, cwd, last, None)


def last_used(store: Store) -> str | None:
    """Return the session last used in this working tree, None if there is none."""
    return last_used_at(store.repo.git_dir)


def last_used_at(git_dir: Path) -> str | None:
    """Return the session last used in the working tree with this git directory."""
    last = documents.read_line(git_dir / "gitcp" / CURRENT)
    return last if last and refs.NAME.match(last) else None


def choose_overwritten(
    store: Store, cwd: Path, target: Checkpoint, chosen: Choice, unchanged: str | None
) -> Choice:
    """Return the session whose conversation a restore of `target` will change: the one that
    continues from `target`, if its agent has a conversation here; else `chosen`, also if that is a
    fork.

    `unchanged` is the agent session that the restore leaves unchanged, if any.
    """
    target_session, tip = owner(store, target), store.tip(chosen.session)
    if target_session == chosen.session or (
        tip and any(s.commit == target.commit for s in store.history(tip))
    ):
        return chosen
    target_choice = _by_name(store, cwd, target_session, None)
    agent = target_choice.capture.agent if target_choice.capture else None
    return target_choice if agent is not None and agent.session_id != unchanged else chosen


def of_agent(store: Store, agent: str, session_id: str, conversation: Found | None) -> Choice:
    """Return the session of an agent's session, a new one if it has none. `found` is its
    conversation, if any.
    """
    return _for_agent(store, Agent(agent, session_id), conversation, f"{agent} said so")


def current(store: Store, given: str | None = None) -> str | None:
    """Return the session that `@` means: the given one, the running agent's, the last one used
    here, or the newest.
    """
    if given is not None:
        return expand(store, given)
    decided = _current(store)
    if decided is not None:
        return decided
    sessions = store.sessions()
    summaries = {name: last_summary(store, tip) for name, tip in sessions.items()}
    created = {name: last.created for name, last in summaries.items() if last is not None}
    return max(created, key=lambda name: created[name], default=next(iter(sessions), None))


def _current(store: Store) -> str | None:
    """Return the running agent's session, or the last one used here; None if there is neither."""
    sessions = store.sessions()
    from_environment = store.repo.host.env.get(SESSION)
    if from_environment in sessions:
        return from_environment
    running = adapters.running(store.repo.host)
    if running is not None:
        name = _session_of(store, Agent(running.agent, running.session_id))
        if name is not None:
            return name
    last = documents.read_line(store.repo.state_dir / CURRENT)
    return last if last in sessions else None


def elsewhere(store: Store, session: str) -> Path | None:
    """Return the other working tree that a session is of, if it is the current one only because
    nothing was saved in this one yet.
    """
    if _current(store) is not None:
        return None
    return next(iter(in_worktrees(store).get(session, ())), None)


def in_worktrees(store: Store) -> dict[str, list[Path]]:
    """Return the other working trees of this repository, by the session last used in each."""
    common = store.repo.common_dir
    names = [None, *sorted(entry.name for entry in common.glob("worktrees/*"))]
    trees: dict[str, list[Path]] = {}
    for name in names:
        git_dir = common / "worktrees" / name if name else common
        path = worktrees.place(store.repo, name)
        session = documents.read_line(git_dir / "gitcp" / CURRENT)
        if session and path and path != store.repo.root:
            trees.setdefault(session, []).append(path)
    return trees


def expand(store: Store, given: str, sessions: Mapping[str, Oid] | None = None) -> str:
    """Return the full name of a session from a unique prefix, or from the id of its conversation.
    `sessions` are those to look among, by default the repository's own.

    Raises RevisionAmbiguous or RevisionNotFound.
    """
    sessions = store.sessions() if sessions is None else sessions
    if given in sessions:
        return given
    matching = [name for name in sessions if given and name.startswith(given)]
    matching = matching or of_conversation(store, given)
    if len(matching) > 1:
        raise RevisionAmbiguous(f"more than one session matches {given!r}", tuple(matching))
    if not matching:
        raise unknown(given)
    return matching[0]


def unknown(given: str, outcome: str = "") -> RevisionNotFound:
    """Return the error for a session that does not exist. `outcome` says what was not done."""
    after = f"; {outcome}" if outcome else ""
    return RevisionNotFound(f"no session matches {given!r}{after}", hint="gitcp sessions")


def of_conversation(store: Store, given: str, *, renamed: bool = True) -> list[str]:
    """Return the sessions that have the agent's conversation with this id: agents and `gitcp
    resume` print it. Without `renamed` only those with a name that was made of it, which needs no
    look at all the others.
    """
    if not SESSION_ID.fullmatch(given):
        return []

    def has_it(summary: Summary | None) -> bool:
        return summary is not None and summary.trailers.get("Gitcp-Agent-Session") == given

    def continued(names: Iterable[str]) -> list[str]:
        return [name for name in names if has_it(last_summary(store, sessions[name]))]

    sessions, plain = store.sessions(), re.sub(r"[^A-Za-z0-9]", "", given)
    likely = [name for name in sessions if plain.startswith(NUMBERED.sub("", name))]
    in_chain = (
        name  # a restore has replaced its conversation since
        for name in likely
        if any(has_it(each) for each in store.readable(sessions[name]) if each.id.session == name)
    )
    return continued(likely) or list(in_chain) or (continued(sessions) if renamed else [])


def exact(store: Store, given: str) -> str:
    """Return the session that a save named `given` goes to: of that name, or of the conversation
    with that id. May be a new one; raises BadValue for a name that none can have.
    """
    name = _exact(store, given)
    return name if name != given else check_name(store, given)


def _exact(store: Store, given: str) -> str:
    if store.tip(refs.check_name(given, "session")) is not None:
        return given
    names = of_conversation(store, given, renamed=False)
    return names[0] if len(names) == 1 else given


def check_name(store: Store, name: str) -> str:
    """Return the name of a session that exists, or that a new one can have. Raises BadValue: also
    for a tag's, since as a revision it would mean either.
    """
    is_new = store.tip(refs.check_name(name, "session")) is None
    if not is_new or store.repo.refs.read(refs.TAGS + name) is None:
        return name
    free = free_name(store, name)
    error = BadValue(
        f"a session cannot be named {name}: a tag has this name; nothing was changed", hint=free
    )
    error.argument, error.suggestion = name, free
    raise error


def resolve_prefix(store: Store, given: str | None) -> str | None:
    """Return the full name of a session from a unique prefix, or `given` unchanged. For commands
    that only read.
    """
    matching = [name for name in store.sessions() if given and name.startswith(given)]
    return matching[0] if len(matching) == 1 else given


def set_current(store: Store, session: str) -> None:
    """Remember the session last used in this working tree. Ignores write errors."""
    directory = store.repo.state_dir
    names = [CURRENT, *([MANUAL] if session.startswith(f"{MANUAL}-") else [])]
    for path in (directory / name for name in names):
        if documents.read_line(path) != session:
            with suppress(OSError):
                documents.write_line(path, session)
    from gitcp.state import worktree_log  # not needed to choose a session

    worktree_log.note(store.repo, session)


def manual(store: Store) -> str:
    """Return the session for work without an agent: the one last used here if it has only files,
    else this working tree's own, else a new name.
    """
    return existing_manual(store) or f"{MANUAL}-{os.urandom(3).hex()}"


def existing_manual(store: Store) -> str | None:
    """Return the session for work without an agent, None if it would be a new one."""
    last = last_used(store)
    tip = store.tip(last) if last else None
    if tip is not None:
        trailers = _last_trailers(store, tip)
        if trailers and not any(
            f"Gitcp-{name}" in trailers for name in ("Agent", "Messages", "State")
        ):
            return last
    return documents.read_line(store.repo.state_dir / MANUAL)


def set_manual(store: Store, session: str) -> None:
    """Make `session` the one that work without an agent in this working tree is saved to."""
    for name in (CURRENT, MANUAL):
        with suppress(OSError):
            documents.write_line(store.repo.state_dir / name, session)


def free_name(store: Store, session: str) -> str:
    """Return a name for another session like this one: the first free one of `NAME-2`,
    `NAME-3`, ….
    """
    taken = _taken(store)
    return next(name for n in count(2) if (name := f"{session[:90]}-{n}") not in taken)


def _taken(store: Store) -> set[str]:
    """Return the names that a new session cannot have."""
    return {*store.sessions(), *store.tag_names()}


def new_name(store: Store, agent_session: str) -> str:
    """Return a short name for a new session: the beginning of the agent's id, as long as needed to
    be unique, else that with a number.
    """
    return name_among(_taken(store), agent_session)


def name_among(sessions: Collection[str], agent_session: str) -> str:
    """Return a short name that none of these sessions has. Two agents may use the same id, or ids
    that differ only late.
    """
    plain = re.sub(r"[^A-Za-z0-9]", "", agent_session) or "session"
    # Of two ids with the same first 64 characters, only the first was saved.
    lengths = (plain[:length] for length in (SHORTEST, 12, 20, 64))
    numbered = (f"{plain[:SHORTEST]}-{number}" for number in count(2))
    return next(name for name in chain(lengths, numbered) if name not in sessions)


def _given_capture(conversation: Path | bytes, agent: str | None) -> Capture:
    if isinstance(conversation, bytes):
        capture = generic.from_bytes(conversation)
    elif agent is None or agent == "generic":
        capture = generic.from_file(conversation)
    else:
        return _transcript_capture(conversation, agent)
    return replace(capture, agent=Agent(agent)) if agent and agent != "generic" else capture


def _transcript_capture(path: Path, agent: str) -> Capture:
    """Return the capture of a known agent's transcript given by path, up to its last byte."""
    if not os.path.isfile(path):
        raise ConversationUnreadable(f"no such file: {path}; nothing was saved")
    capture = adapters.load(agent).capture(Found(agent, path.stem, path, path.stat().st_mtime))
    return replace(
        capture, sources=tuple(replace(source, live=False) for source in capture.sources)
    )


def _by_name(store: Store, cwd: Path, session: str, agent: str | None) -> Choice:
    """Return the session with this exact name: with its own agent's conversation if it has one,
    else with the running agent's.

    A name that no session has can be a prefix of an agent's session id, and then means that
    session.
    """
    session, sessions = _exact(store, session), store.sessions()
    candidates = [f for f in adapters.find_all(cwd, store.repo.host) if agent in (None, f.agent)]
    # `save --session agent-1` went into agent-10 while only that existed.
    if session in sessions:
        trailers = _last_trailers(store, sessions[session])
        recorded = (trailers.get("Gitcp-Agent", ""), trailers.get("Gitcp-Agent-Session", ""))
        match = next((f for f in candidates if _is_session(f, *recorded)), None)
        if match is None and agent in (None, recorded[0]):
            match = adapters.located(*recorded, store.repo.host)
        is_missing = recorded[1] and match is None
        why = (
            f"as given; {recorded[0]} has no session {recorded[1]} here, "
            "so its last conversation is kept"
            if is_missing
            else GIVEN
        )
        return _choice(session, match, why)
    own = [f for f in candidates if _is_prefix(session, f.session_id)]
    if len(own) == 1:
        return _for_agent(store, _agent(own[0]), own[0], GIVEN)
    if own:
        raise RevisionAmbiguous(
            f"more than one conversation matches {session!r}: nothing was saved",
            tuple(f"{f.session_id}  {f.agent}" for f in own),
            hint=" ".join(("gitcp save", *_selecting(own[0], own))),
        )
    running = adapters.running(store.repo.host)
    match = next(
        (f for f in candidates if running and _is_session(f, running.agent, running.session_id)),
        None,
    )
    return _choice(session, match, GIVEN)


def _is_prefix(name: str, session_id: str) -> bool:
    """Return whether `name` is an agent's session id or a prefix of it at least as long as
    generated names.

    A prefix that ends within a number does not count: agent-1 is not agent-10.
    """
    if not session_id.startswith(name) or name == session_id:
        return name == session_id
    is_hex = re.fullmatch(r"[0-9a-f-]+", session_id) is not None
    return len(name) >= SHORTEST and (
        is_hex or not (name[-1].isdigit() and session_id[len(name)].isdigit())
    )


class _Recent(NamedTuple):
    """A recent conversation of this directory, and when its last message was written. `name` is its
    session, None if it has none yet.
    """

    found: Found
    written: float
    name: str | None = None


def _newest_conversation(
    store: Store, cwd: Path, agent: str | None
) -> tuple[Found, str | None, str] | None:
    """Return the newest conversation of this directory, its session (None for a new one), and why
    it is chosen. Raises RevisionAmbiguous if that is undecided.
    """
    last = last_used(store)
    every = _with_last_saved(store, adapters.find_all(cwd, store.repo.host), last)
    wanted = [f for f in every if agent in (None, f.agent)]
    conversations = _without_unused_forks(store, wanted, last)
    candidates = _candidates(store, conversations, last)
    if not candidates:
        return None
    chosen = _decided(store, candidates, last)
    copy = _preferred_copy(store, chosen.found, chosen.name, conversations)
    newest = next(iter(candidates.values()))
    which = (
        f"the newest conversation of {copy.agent} in this directory"
        if (copy, chosen) == (chosen.found, newest)
        else f"the conversation of {copy.agent} that was last saved here"
    )
    return copy, chosen.name, which


def _candidates(
    store: Store, conversations: Sequence[Found], last: str | None
) -> dict[str, _Recent]:
    """Return the conversations whose last messages are less than `APART` before the newest one,
    newest first, by session. Of several that restores made for one session, it is the one written
    last. `last` is the session used last here.
    """
    by_session: dict[str, _Recent] = {}
    for each in _without_unused_conversions(store, _recent(conversations), last):
        name = _session_of(store, _agent(each.found))
        # Two agents can have sessions with one id: they are not one candidate.
        key = name or f"{each.found.agent}/{each.found.session_id}"
        other = by_session.setdefault(key, each._replace(name=name))
        if each.found.modified > other.found.modified:
            by_session[key] = other._replace(found=each.found)
    newest = next(iter(by_session.values())).written if by_session else 0.0
    return {key: each for key, each in by_session.items() if newest - each.written < APART}


def _recent(conversations: Sequence[Found]) -> list[_Recent]:
    """Return the conversations with messages, newest first, down to those whose files are too old
    to be candidates. Of those without a message return one, if there is nothing else.
    """
    recent: list[_Recent] = []
    for f in conversations if len(conversations) > 1 else ():
        if recent and f.modified <= max(each.written for each in recent) - APART:
            break  # and so are the others
        written = adapters.last_message(f)
        if written is not None:
            recent.append(_Recent(f, written))
    # After /clear, the old transcript could be touched later than the new one was written to, and
    # the cleared conversation was stored with the new one's files.
    recent.sort(key=lambda each: (-each.written, -each.found.modified))
    return recent or [_Recent(f, f.modified) for f in conversations[:1]]


def _without_unused_conversions(
    store: Store, recent: list[_Recent], last: str | None
) -> list[_Recent]:
    """Return the conversations without those that were converted from another agent's and that
    nobody has continued: work stays in the original until someone does.
    """
    if len(recent) < 2:
        return recent
    ended = {(each.agent, each.session_id): each.ended for each in conversions.entries(store.repo)}

    def is_used(each: _Recent) -> bool:
        until = ended.get((each.found.agent, each.found.session_id))
        return until is None or each.written > until.timestamp() + CONVERTING

    def is_current(each: _Recent) -> bool:
        return last is not None and _session_of(store, _agent(each.found)) == last

    return [each for each in recent if is_used(each) or is_current(each)] or recent


def _decided(store: Store, candidates: Mapping[str, _Recent], last: str | None) -> _Recent:
    """Return the conversation to save: the newest of the one last saved here and of those with
    messages since. Raises RevisionAmbiguous if none was saved here, or if the newest has nothing to
    save and another one has.
    """
    everything = list(candidates.values())
    if len(everything) == 1:
        return everything[0]
    current = candidates.get(last or "")
    if current is None:
        raise _ambiguous([each.found for each in everything])
    since = _last_scan(store, last)
    unsaved = [
        each
        for each in everything
        if each is not current and each.found.modified >= since and _has_unsaved(store, each)
    ]
    if not unsaved or unsaved[0].written >= current.written:
        return unsaved[0] if unsaved else current
    if _has_unsaved(store, current):
        return current
    raise _ambiguous([unsaved[0].found, current.found])


def _last_scan(store: Store, session: str | None) -> float:
    """Return when the scan for the last checkpoint of this working tree began, in seconds since
    1970.
    """
    known = latest.read(store.repo)
    if known is not None:
        return known.scanned / 1e9 - TICK
    tip = store.tip(session) if session else None
    last = last_summary(store, tip) if tip else None
    return last.created.timestamp() if last else 0.0


def _has_unsaved(store: Store, conversation: _Recent) -> bool:
    """Return whether a conversation has messages that the last checkpoint of its session has
    not.
    """
    tip = store.tip(conversation.name) if conversation.name else None
    summary = last_summary(store, tip) if tip else None
    if tip is None or summary is None:
        return True
    if "Gitcp-Forked-From" in summary.trailers:
        return _is_continued(conversation.found, summary)
    return _has_messages_since(store, tip, conversation.found)


def _has_messages_since(store: Store, checkpoint: Oid, conversation: Found) -> bool:
    """Return whether a conversation has messages that a checkpoint of it has not."""
    try:
        stored = store.read(checkpoint).conversation
    except StoreDamaged:
        return True
    main = next((s for s in stored.streams if s.name == MAIN), None) if stored else None
    return main is None or adapters.has_messages(conversation, main.bytes)


def _ambiguous(conversations: Sequence[Found]) -> RevisionAmbiguous:
    option = _selecting(conversations[0], conversations)
    error = RevisionAmbiguous(
        "more than one recent conversation belongs to this directory: nothing was saved",
        tuple(f"{f.session_id}  {f.agent}" for f in conversations),
        hint=" ".join(("gitcp save", *option)),
    )
    error.option = option
    return error


def _selecting(conversation: Found, every: Sequence[Found]) -> tuple[str, ...]:
    """Return the options that choose one of several conversations."""
    others = [f.session_id for f in every if f is not conversation]
    short = conversation.session_id[:SHORTEST]
    name = conversation.session_id if any(o.startswith(short) for o in others) else short
    agent = ("--agent", conversation.agent) if conversation.session_id in others else ()
    return ("--session", name, *agent)


def _without_unused_forks(
    store: Store, conversations: list[Found], last: str | None
) -> list[Found]:
    """Return the conversations without leading copies of forks that nobody has continued: work
    stays in the original until someone switches to the fork. `last` is the session used last here.
    """
    for index, f in enumerate(conversations):
        name = _session_of(store, Agent(f.agent, f.session_id))
        summary = (
            last_summary(store, store.sessions()[name])
            if name is not None and name != last
            else None
        )
        if summary is None or "Gitcp-Forked-From" not in summary.trailers:
            return conversations[index:]
        if _is_continued(f, summary):
            return conversations[index:]
    return conversations


def _is_continued(copy: Found, fork: Summary) -> bool:
    """Return whether somebody has continued a fork's copy of the conversation."""
    return copy.modified > fork.created.timestamp() + COPYING


def _with_last_saved(
    store: Store, conversations: tuple[Found, ...], last_session: str | None
) -> list[Found]:
    """Return the conversations, newest first, including the agent session last saved in this
    working tree, by its last session: it may have started in a subdirectory.
    """
    tip = store.tip(last_session) if last_session else None
    trailers = _last_trailers(store, tip) if tip else {}
    last = (trailers.get("Gitcp-Agent", ""), trailers.get("Gitcp-Agent-Session", ""))
    if not last[1] or any(_is_session(f, *last) for f in conversations):
        return list(conversations)
    located = adapters.located(*last, store.repo.host)
    return sorted((*conversations, *([located] if located else ())), key=lambda f: -f.modified)


def _preferred_copy(
    store: Store, chosen: Found, name: str | None, conversations: list[Found]
) -> Found:
    """Return the conversation to save when restores created several for one session: the one that
    the last checkpoint is of, unless `chosen`, the newest, was written since.
    """
    tip = store.tip(name) if name else None
    if tip is None:
        return chosen
    summary = last_summary(store, tip)
    # commits have whole seconds
    if summary is None or chosen.modified >= summary.created.timestamp() + 1:
        return chosen
    return next((f for f in conversations if is_of(summary, Agent(f.agent, f.session_id))), chosen)


def _for_agent(store: Store, agent: Agent, conversation: Found | None, why: str) -> Choice:
    """Return the session of an agent's session, a new one if it has none."""
    existing = _session_of(store, agent)
    if existing is not None:
        return _choice(existing, conversation, why)
    return _choice(new_name(store, agent.session_id or ""), conversation, why, agent)


def _agent(conversation: Found) -> Agent:
    return Agent(conversation.agent, conversation.session_id)


def _choice(name: str, conversation: Found | None, why: str, whose: Agent | None = None) -> Choice:
    """Return the choice of a session with this conversation, without it if it cannot be read."""
    try:
        capture = adapters.load(conversation.agent).capture(conversation) if conversation else None
    except ConversationUnreadable as error:
        return Choice(name, None, why, whose, error)
    return Choice(name, capture, why, whose)


def _is_session(conversation: Found, agent: str, session_id: str) -> bool:
    return conversation.agent == agent and conversation.session_id == session_id


def _session_of(store: Store, agent: Agent | None) -> str | None:
    """Return the gitcp session of an agent's session: by its short name first, then by the last
    checkpoints.
    """
    if agent is None or agent.session_id is None:
        return None
    sessions = store.sessions()
    plain = re.sub(r"[^A-Za-z0-9]", "", agent.session_id)
    last = documents.read_line(store.repo.state_dir / CURRENT)
    likely = [name for name in sessions if plain.startswith(NUMBERED.sub("", name)) or name == last]
    by_tip = (name for name in (*likely, *sessions) if _is_last_of(store, sessions[name], agent))
    by_chain = (name for name in likely if _continues(store, name, sessions[name], agent))
    # If no checkpoint can be read, a name generated from the agent's id is enough.
    damaged = (
        n
        for n in likely
        if len(n) >= SHORTEST and plain.startswith(n) and last_summary(store, sessions[n]) is None
    )
    match = next(by_tip, None) or next(by_chain, None) or next(damaged, None)
    return match or _renamed_session(store, agent, plain, sessions)


def _continues(store: Store, name: str, tip: Oid, agent: Agent) -> bool:
    """Return whether what an agent's session saves next belongs to a session: it has checkpoints of
    it, also if a restore has replaced its conversation since. Where that other conversation has
    gone on in the session, the agent's belongs elsewhere, once it has gone on too: two at work in
    one session took each other's changes for their own.
    """
    messages: dict[tuple[str, str], set[str]] = {}
    for summary in store.readable(tip):
        trailers = summary.trailers
        # A fork reaches the checkpoints of the original session, which are not its own.
        if summary.id.session == name and is_of(summary, agent):
            is_replaced = any(len(counts) > 1 for counts in messages.values())
            return not (is_replaced and _has_gone_on(store, summary, agent))
        if (other := trailers.get("Gitcp-Agent-Session")) is not None:
            counts = messages.setdefault((trailers.get("Gitcp-Agent", ""), other), set())
            counts.add(trailers.get("Gitcp-Messages", ""))
    return False


def _has_gone_on(store: Store, last: Summary, agent: Agent) -> bool:
    """Return whether an agent's session is in a turn, or its conversation has messages that its
    last checkpoint has not.
    """
    turns = tool_log.open_turns(tool_log.read(str(store.repo.git_dir)))
    if (agent.name, agent.session_id) in turns:
        return True
    conversation = adapters.located(agent.name, agent.session_id or "", store.repo.host)
    return conversation is not None and _has_messages_since(store, last.commit, conversation)


def _renamed_session(
    store: Store, agent: Agent, plain: str, sessions: dict[str, Oid]
) -> str | None:
    """Return the gitcp session of an agent's session, if it was renamed after its checkpoints were
    made.
    """
    from gitcp.state import oplog  # only for new or renamed sessions

    new_names = {
        new
        for old, new in oplog.former(store.repo).items()
        if plain.startswith(old) and new in sessions
    }
    return next(
        (n for n in sorted(new_names) if any(is_of(s, agent) for s in store.readable(sessions[n]))),
        None,
    )


def follow_rename(store: Store, choice: Choice) -> Choice:
    """Return the choice with the current name of its session.

    The session may have been renamed since, or its generated name given to another one: sessions
    that start in the same minute may have ids with the same prefix. The caller holds the store's
    lock.
    """
    if store.tip(choice.session) is not None:
        own = _for_agent(store, choice.whose, None, choice.why) if choice.whose else choice
        return choice._replace(session=own.session)
    from gitcp.state import oplog

    new_name_of = oplog.former(store.repo).get(choice.session)
    if new_name_of is None or store.tip(new_name_of) is None:
        return choice
    agent = choice.capture.agent if choice.capture else None
    return (
        choice._replace(session=new_name_of)
        if agent is None or _session_of(store, agent) == new_name_of
        else choice
    )


def last_summary(store: Store, tip: Oid) -> Summary | None:
    """Return the summary of a session's last checkpoint, None if it is unreadable: damage in one
    session must not block others.
    """
    try:
        return store.summary(tip)
    except StoreDamaged:
        return None


def _last_trailers(store: Store, tip: Oid) -> Mapping[str, str]:
    last = last_summary(store, tip)
    return last.trailers if last is not None else {}


def _is_last_of(store: Store, tip: Oid, agent: Agent) -> bool:
    last = last_summary(store, tip)
    return last is not None and is_of(last, agent)


def is_of(summary: Summary, agent: Agent) -> bool:
    """Return whether a checkpoint belongs to this session of this agent."""
    trailers = summary.trailers
    return (trailers.get("Gitcp-Agent"), trailers.get("Gitcp-Agent-Session")) == (
        agent.name,
        agent.session_id,
    )
