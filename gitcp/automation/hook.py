"""What an event of an agent leads to: a checkpoint of that agent's session, by the same road as any
other.
"""

from __future__ import annotations

import os
import time
from pathlib import Path

from gitcp import adapters
from gitcp.adapters.base import Found
from gitcp.errors import BadValue, ConversationUnreadable, RevisionAmbiguous
from gitcp.model import Agent, Host, Trigger
from gitcp.saving import session
from gitcp.saving.save import ChangeScope, Request, Saved, save
from gitcp.saving.session import Choice
from gitcp.state import journal
from gitcp.store import Store
from gitcp.value import Value, replace
from gitcp.worktree.snapshot import Limits

CHANGE_SCOPES = {
    Trigger.TOOLS: ChangeScope.FILES,
    Trigger.PROMPT: ChangeScope.MESSAGES,
    Trigger.TURN: ChangeScope.MESSAGES,
}
"""What must have changed, by trigger; for all others anything will do."""

PAUSE = 0.01
QUIET = 2.0
"""Seconds without a change of the transcript after which what is awaited is not about to come."""
TAIL = 1 << 18


class Occasion(Value):
    """An event that calls for a checkpoint.

    `session_id` is the agent's ("": it did not say), `transcript` the file that it named. `awaited`
    is what the agent is about to write into it, beyond the first `seen` bytes: some say what they
    did before it is on disk. Of Copilot CLI it is the record of a hook, by the hook's name and its
    time. File and text are waited for so many seconds (`patience`); what comes later is taken at
    the next event. `late` says that nobody is at work in this session: what it had written is taken
    up by another one's start. `session` is that of ours which was given by name.
    """

    cwd: Path
    agent: str
    session_id: str
    trigger: Trigger
    transcript: str = ""
    awaited: bytes | tuple[str, int] = b""
    seen: int = 0
    patience: float = 0.5
    late: bool = False
    limits: Limits = Limits()
    session: str | None = None


def record(store: Store, occasion: Occasion) -> Saved | None:
    """Save, if anything changed that matters for this trigger; None while a restore is under way
    here, and where there is nothing to take up.

    Writes what `save` writes. Raises a GitcpError if that cannot be done.
    """
    if journal.is_running(store.repo):
        return None
    choice = _choice(store, occasion)
    if occasion.late and not _is_to_take_up(store, occasion, choice):
        return None
    if occasion.awaited:
        choice = _wait(store, occasion, choice)
    request = Request(
        cwd=occasion.cwd,
        trigger=occasion.trigger,
        limits=occasion.limits,
        choice=choice,
        change_scope=CHANGE_SCOPES.get(occasion.trigger, ChangeScope.ALL),
    )
    try:
        return save(store, request)
    except ConversationUnreadable:  # the files need not wait for it
        return save(store, replace(request, choice=choice._replace(capture=None)))


def _is_to_take_up(store: Store, occasion: Occasion, choice: Choice) -> bool:
    """Whether what a session had written is still its own to save, and is there. Where a restore
    took our session on under another id of the agent's, what the old one had is in the safety
    checkpoint, unless it went on after that.
    """
    main = choice.capture.sources[0].path if choice.capture else None
    if main is None:
        return False
    tip = store.tip(choice.session)
    last = session.end(store, tip) if tip else None
    if last is None or session.is_of(last, Agent(occasion.agent, occasion.session_id)):
        return True
    try:
        return main.stat().st_mtime >= last.created.timestamp() + 1  # a commit knows whole seconds
    except OSError:
        return False


def _choice(store: Store, occasion: Occasion) -> Choice:
    if occasion.session_id:
        whose = (store, occasion.agent, occasion.session_id)
        try:
            return session.of_agent(*whose, _found(store.repo.host, occasion))
        except ConversationUnreadable:  # of an agent whose conversation is in no file
            return session.of_agent(*whose, None)
    try:
        return session.choose(store, occasion.cwd, session=occasion.session)
    except RevisionAmbiguous:
        return session.present(store, occasion.cwd, session.current(store) or session.manual(store))


def _found(host: Host, occasion: Occasion) -> Found | None:
    """The agent's conversation: the file it named if that is one of its own, else what its adapter
    finds.
    """
    named = _named(host, occasion)
    if named is not None:
        return named
    try:
        found = adapters.load(occasion.agent).find(occasion.cwd, host)
    except BadValue:
        return None
    here = next((each for each in found if each.session_id == occasion.session_id), None)
    return here or adapters.located(occasion.agent, occasion.session_id, host)


def _named(host: Host, occasion: Occasion) -> Found | None:
    """The file that was named, if it is this session's and lies where the agent keeps its
    sessions.
    """
    known = next((each for each in adapters.BUILTIN if each.name == occasion.agent), None)
    if known is None or not occasion.transcript:
        return None
    homes = [
        str(host.home / known.directory),
        *(host.env.get(name, "") for name in known.variables),
    ]
    try:
        path = os.path.realpath(occasion.transcript)
        status = os.lstat(path)
    except (OSError, ValueError):
        return None
    inside = any(
        path.startswith(os.path.realpath(home) + os.sep) for home in homes if os.path.isabs(home)
    )
    stem, directory = Path(path).stem, Path(path).parent.name
    its_own = occasion.session_id in (stem, directory) or stem.endswith(f"-{occasion.session_id}")
    if not (inside and its_own and os.path.isfile(path)):
        return None
    return Found(occasion.agent, occasion.session_id, Path(path), status.st_mtime)


def _wait(store: Store, occasion: Occasion, choice: Choice) -> Choice:
    """Wait until the agent has written what it said, or patience is at its end; the choice, with a
    file that came.
    """
    until = time.monotonic() + occasion.patience
    size, since = -1, time.monotonic()
    while time.monotonic() < min(until, since + QUIET):
        if choice.capture is None:
            choice = _choice(store, occasion)
        main = choice.capture.sources[0].path if choice.capture else None
        if choice.capture is not None and (main is None or _has(main, occasion)):
            break
        now = _size(main) if main is not None else -1
        if now != size:
            size, since = now, time.monotonic()
        time.sleep(PAUSE)
    return choice


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return -1


def _has(path: Path, occasion: Occasion) -> bool:
    try:
        with open(path, "rb") as file:
            size = os.fstat(file.fileno()).st_size
            file.seek(max(occasion.seen, size - TAIL) if occasion.seen <= size else 0)
            new = file.read()
    except OSError:
        return False
    if isinstance(occasion.awaited, bytes):
        return occasion.awaited in new
    from gitcp.adapters import copilot  # of this one only

    return copilot.has_called(new, *occasion.awaited)
