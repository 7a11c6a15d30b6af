"""Save a checkpoint of an agent's session for a hook event."""

from __future__ import annotations

import os
import time
from pathlib import Path

from gitcp import adapters, regular
from gitcp.adapters.base import Found
from gitcp.agents import SAVED
from gitcp.errors import BadValue, RevisionAmbiguous
from gitcp.model import Agent, Host, Trigger
from gitcp.saving import session
from gitcp.saving.save import ChangeScope, Saved, SaveRequest, save
from gitcp.saving.session import Choice
from gitcp.state import journal
from gitcp.store import Store
from gitcp.value import Value
from gitcp.worktree.snapshot import Limits

CHANGE_SCOPES = {
    Trigger.TOOLS: ChangeScope.FILES,
    Trigger.PROMPT: ChangeScope.MESSAGES,
    Trigger.TURN: ChangeScope.MESSAGES,
}
"""What must have changed, by trigger; for all others, anything."""

PAUSE = 0.01
QUIET = 2.0
"""Seconds without a change of the transcript after which awaited text is no longer expected."""
TAIL = 1 << 18


class HookEvent(Value):
    """An event that triggers a checkpoint.

    `session_id` is the agent's, "" if unknown; `transcript` the file it named. `awaited` is text
    that the agent is about to write to it beyond the first `seen` bytes: some agents send the
    event before the text is on disk. For Copilot CLI it is a hook's name and time. Gitcp waits up
    to `patience` seconds for file and text; what comes later is saved at the next event. `late`
    means that the session is not active, and another one's start saves its last messages, and
    `before_edit` that a tool is about to change files: only what no session has saved here counts.
    `session` is the gitcp session, if named.
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
    before_edit: bool = False
    limits: Limits = Limits()
    session: str | None = None


def record(store: Store, event: HookEvent) -> Saved | None:
    """Save if something changed that matters for this trigger. Return None during a restore,
    or if there is nothing to save.

    Writes what `save` writes. Raises a GitcpError if it fails.
    """
    if journal.is_running(store.repo):
        return None
    choice = _choice(store, event)
    if event.late and not _has_unsaved(store, event, choice):
        return None
    if event.awaited:
        choice = _wait(store, event, choice)
    scope = CHANGE_SCOPES.get(event.trigger, ChangeScope.ALL)
    request = SaveRequest(
        cwd=event.cwd,
        trigger=event.trigger,
        limits=event.limits,
        choice=choice,
        change_scope=ChangeScope.UNSAVED if event.before_edit else scope,
        watched=True,
        due_states=True,
    )
    return save(store, request)


def _has_unsaved(store: Store, event: HookEvent, choice: Choice) -> bool:
    """Return whether an inactive session has messages to save. After a restore to another agent
    session, the old one's messages are in the safety checkpoint, unless it continued after that.
    """
    transcript = choice.capture.sources[0].path if choice.capture else None
    if transcript is None:
        return False
    tip = store.tip(choice.session)
    last = session.last_summary(store, tip) if tip else None
    if last is None or session.is_of(last, Agent(event.agent, event.session_id)):
        return True
    try:
        return (
            transcript.stat().st_mtime >= last.created.timestamp() + 1
        )  # commits have whole seconds
    except OSError:
        return False


def _choice(store: Store, event: HookEvent) -> Choice:
    if event.session_id:
        conversation = _find(store.repo.host, event)
        return session.of_agent(store, event.agent, event.session_id, conversation)
    try:
        return session.choose(store, event.cwd, session=event.session)
    except RevisionAmbiguous:
        return session.choose_for_restore(
            store, event.cwd, session.current(store) or session.manual(store)
        )


def _find(host: Host, event: HookEvent) -> Found | None:
    """Return the agent's conversation: the named file if it is the agent's
    own, else what its adapter finds.
    """
    from_event = _from_transcript(host, event)
    if from_event is not None:
        return from_event
    try:
        sessions = adapters.load(event.agent).find(event.cwd, host)
    except BadValue:
        return None
    session = next((each for each in sessions if each.session_id == event.session_id), None)
    return session or adapters.located(event.agent, event.session_id, host)


def _from_transcript(host: Host, event: HookEvent) -> Found | None:
    """Return the named file if it is this session's and inside the agent's session directory."""
    known = SAVED.get(event.agent)
    if known is None or not event.transcript:
        return None
    homes = [
        str(host.home / known.directory),
        *(host.env.get(name, "") for name in known.variables),
    ]
    try:
        path = os.path.realpath(event.transcript)
        status = os.lstat(path)
    except (OSError, ValueError):
        return None
    inside = any(
        path.startswith(os.path.realpath(home) + os.sep) for home in homes if os.path.isabs(home)
    )
    stem, directory = Path(path).stem, Path(path).parent.name
    is_own = event.session_id in (stem, directory) or stem.endswith(f"-{event.session_id}")
    if not (inside and is_own and os.path.isfile(path)):
        return None
    return Found(event.agent, event.session_id, Path(path), status.st_mtime)


def _wait(store: Store, event: HookEvent, choice: Choice) -> Choice:
    """Wait until the agent has written the awaited text or patience runs out.
    Return the choice with the file.
    """
    until = time.monotonic() + event.patience
    size, since = -1, time.monotonic()
    while time.monotonic() < min(until, since + QUIET):
        if choice.capture is None:
            choice = _choice(store, event)
        if choice.error is not None:
            break
        transcript = choice.capture.sources[0].path if choice.capture else None
        if choice.capture is not None and (transcript is None or _has(transcript, event)):
            break
        new_size = _size(transcript) if transcript is not None else -1
        if new_size != size:
            size, since = new_size, time.monotonic()
        time.sleep(PAUSE)
    return choice


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return -1


def _has(path: Path, event: HookEvent) -> bool:
    try:
        with regular.opened(path) as file:
            size = os.fstat(file.fileno()).st_size
            file.seek(max(event.seen, size - TAIL) if event.seen <= size else 0)
            new = file.read()
    except OSError:
        return False
    if isinstance(event.awaited, bytes):
        return event.awaited in new
    from gitcp.adapters import copilot  # only Copilot needs it

    return copilot.has_called(new, *event.awaited)
