"""Notices for an agent: files or conversation were restored, or a save found damage.

A restore writes a small file, `<git dir>/gitcp/untold`. The next session start or prompt of the
agent reads it and passes it on, once to the restored session and once to the session that was
running. For each other live session whose files it changed, it writes a file in `changed`. A hook
that finds its session damaged writes `notice`, for whichever session comes next.

A notice covers what happened since the agent's last turn. A restore that was undone before any
agent got its notice has none; nor has one after which the session began another turn. Of the
handoff it has the entries written after the agent's last turn: older ones carry over from
checkpoint to checkpoint, and the conversation has gone on since.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from gitcp import wire
from gitcp.codec import Codec
from gitcp.errors import GitcpError
from gitcp.git.fsync import make_own_directory, read_own, replace_file
from gitcp.model import Checkpoint, CheckpointId, Handoff, Note, Trigger
from gitcp.policy import events
from gitcp.restoring.others import OtherSession
from gitcp.restoring.plan import Kept
from gitcp.safe import is_joiner
from gitcp.state import documents
from gitcp.state.journal import RestoreKind
from gitcp.store import Store
from gitcp.value import Value, replace
from gitcp.wire import Json
from gitcp.worktree.paths import display

if TYPE_CHECKING:
    from gitcp.restoring.states import StateStep

NAME = "untold"
NOTICE = "notice"
UNREAD = "unread"
FAULTS = "faults"
CHANGED = "changed"
SHOWN = 10
LONGEST_LINE = 500
LONGEST = 8000


class RestoreNotice(Value):
    """A restore that an agent is to be told about.

    `here` is the checkpoint that recorded the restore, `safety` the one of the state before.
    `session_id` is the agent's session with the restored conversation (None: no conversation),
    `before` the one in the state before. `told`: another session of the agent has been told.
    `states` are the states outside the files that were restored; `with_state`: an undo needs
    --state to restore what it can of them. `was_undo`: the restore was an undo.
    """

    target: CheckpointId
    here: CheckpointId
    safety: CheckpointId
    agent: str | None
    session_id: str | None
    kept: tuple[tuple[str, str], ...]
    told: bool = False
    before: str | None = None
    states: tuple[str, ...] = ()
    with_state: bool = False
    was_undo: bool = False


CODEC = Codec(wire.FORMS, in_full=True)


def drop(store: Store, undone: CheckpointId) -> bool:
    """Remove the notice of a restore that was undone before anybody was told, and return whether
    there was one; `undone` is the checkpoint of the state before it.
    """
    waiting = _read(store)
    is_untold = waiting is not None and not waiting.told and waiting.safety == undone
    return is_untold and _claim(store, NAME)


def leave(
    store: Store,
    target: Checkpoint,
    here: Checkpoint,
    safety: Checkpoint,
    kept: tuple[Kept, ...],
    steps: tuple[StateStep, ...],
    kind: RestoreKind,
) -> None:
    """Write the notice of a restore, unless it undoes one that nobody was told of. A failure is
    ignored, since the restore itself succeeded.
    """
    if drop(store, target.id):
        return
    waiting = _read(store)
    agent, before = here.agent, safety.agent
    running = before.session_id if before else None
    if waiting is not None and not waiting.told:
        running = waiting.before
    shown = tuple((display(each.path), each.reason) for each in kept)
    notice = RestoreNotice(
        target=target.id,
        here=here.id,
        safety=safety.id,
        agent=agent.name if agent else None,
        session_id=agent.session_id if agent else None,
        kept=(
            *shown[:SHOWN],
            *([("…", f"{len(shown) - SHOWN} more")] if len(shown) > SHOWN else []),
        ),
        before=running,
        states=tuple(_restored(steps)),
        with_state=any(step.can_undo for step in steps),
        was_undo=kind is RestoreKind.UNDO,
    )
    with suppress(OSError):
        _write(store, notice)


def _restored(steps: Iterable[StateStep]) -> Iterator[str]:
    for step in steps:
        if step.was_run and not step.failure:
            lost = " (its content before is in no checkpoint)" if step.unsaved else ""
            yield f"state {step.name}{lost}"


def take(store: Store, agent: str, session_id: str) -> str | None:
    """Return the notice for this session of the agent, and remove it; None if there is none."""
    notice = _read(store)
    if notice is None or notice.agent not in (None, agent):
        return None
    is_target = notice.session_id in (None, session_id)
    if not is_target and (notice.told or notice.before not in (None, session_id)):
        return None
    since = _since(store, notice.here, session_id)
    if not _claim(store, NAME):
        return None
    if not is_target:
        _write(store, replace(notice, told=True))
    if since.has_prompt or (since.went_on and not since.was_before):
        return None
    return _text(store, notice, with_handoff=not since.went_on)


class _Since(Value):
    """What happened since a restore: whether the session that asks has begun a turn, and whether
    the work of others went on; and whether the session is older than the restore.
    """

    has_prompt: bool = False
    went_on: bool = False
    was_before: bool = False


def _since(store: Store, here: CheckpointId, session_id: str) -> _Since:
    restored = _checkpoint(store, here)
    if restored is None:
        return _Since()
    has_prompt = went_on = was_before = False
    with suppress(GitcpError):
        for tip in store.sessions().values():
            is_own = store.summary(tip).trailers.get("Gitcp-Agent-Session") == session_id
            for summary in store.history(tip):
                if summary.created <= restored.created:
                    was_before |= is_own
                    break
                trigger = summary.trailers.get("Gitcp-Trigger")
                has_prompt |= is_own and trigger == Trigger.PROMPT
                went_on |= not is_own and trigger in (Trigger.PROMPT, Trigger.TURN)
    return _Since(has_prompt, went_on, was_before)


def leave_for(
    store: Store, here: CheckpointId, safety: CheckpointId, others: Iterable[OtherSession]
) -> None:
    """Write a notice for each of these sessions that is live: the restore that `here` recorded has
    changed its paths. Failures are ignored.
    """
    for other in others:
        agent = other.agent
        if not other.live or agent is None or not events.session_id(agent.session_id or ""):
            continue
        path = store.repo.state_dir / CHANGED / file_name(agent.name, agent.session_id or "")
        paths = {display(path) for path in other.paths} | set(_read_changed(path)["paths"])
        fields = {
            "schema": "gitcp.changed/1",
            "by": here.session,
            "safety": str(safety),
            "paths": sorted(paths),
        }
        with suppress(OSError, GitcpError):
            make_own_directory(path.parent)
            documents.write(path, fields, durable=False)


def take_changed(store: Store, agent: str, session_id: str) -> str | None:
    """Return the notice that a restore changed files of this session, and remove it; None if there
    is none.
    """
    name = f"{CHANGED}/{file_name(agent, session_id)}"
    fields = _read_changed(store.repo.state_dir / name)
    if not fields["paths"] or not _claim(store, name):
        return None
    shown = ", ".join(fields["paths"][:SHOWN])
    more = f" and {len(fields['paths']) - SHOWN} more" if len(fields["paths"]) > SHOWN else ""
    head = f"gitcp: a restore in session {fields['by']} changed files that you had changed"
    lines = (
        f"{head}. Read them again first: {shown}{more}",
        f"The state before is checkpoint {fields['safety']}.",
    )
    return "\n".join(map(_line, lines))


def file_name(agent: str, session_id: str) -> str:
    """Return the name of the file in CHANGED for a session of an agent."""
    return f"{agent}.{session_id}"


def _read_changed(path: Path) -> Json:
    """Return the fields of a notice, without paths if there is none that can be read."""
    fields = documents.peek(path)
    with suppress(KeyError, TypeError):
        texts = fields["by"], fields["safety"], *fields["paths"]
        if all(isinstance(text, str) for text in texts):
            return {"by": texts[0], "safety": texts[1], "paths": list(texts[2:])}
    return {"paths": []}


def leave_notice(store: Store, text: str) -> None:
    """Write what a background save found, for the next session start or prompt of any agent, after
    what is waiting for it.
    """
    path = store.repo.state_dir / NOTICE
    data = text.encode("utf-8", "backslashreplace")
    with suppress(OSError):
        waiting = [read_own(path)] if path.exists() else []
        replace_file(path, b"; ".join(dict.fromkeys((*waiting, data))), durable=False)


def leave_once(store: Store, name: str, text: str) -> bool:
    """Leave a notice for the next session start or prompt of any agent: what a background save
    found, which conversation it could not read (UNREAD) or what is broken of git's (FAULTS); "" if
    nothing is. Return whether the notice is new; the same one is left only once.
    """
    path = store.repo.state_dir / name
    try:
        known = read_own(path).decode("utf-8", "replace")
    except OSError:
        known = ""
    if text == known:
        return False
    with suppress(OSError):
        if not text:
            os.unlink(path)
            return False
        replace_file(path, text.encode("utf-8", "backslashreplace"), durable=False)
    leave_notice(store, text)
    return True


def take_notice(store: Store) -> str | None:
    """Return the notice of a background save, and remove it; None if there is none."""
    try:
        text = read_own(store.repo.state_dir / NOTICE).decode("utf-8", "replace")
    except OSError:
        return None
    return _line(f"gitcp: {text}. Tell the user.") if _claim(store, NOTICE) else None


def _claim(store: Store, name: str) -> bool:
    """Remove a notice and return whether this process did: of several hooks, one delivers it."""
    try:
        os.unlink(store.repo.state_dir / name)
    except OSError:
        return False
    return True


def _write(store: Store, notice: RestoreNotice) -> None:
    fields = {"schema": "gitcp.untold/1", **CODEC.encode(notice)}
    documents.write(store.repo.state_dir / NAME, fields, durable=False)


def _read(store: Store) -> RestoreNotice | None:
    with suppress(ValueError):
        return CODEC.decode(RestoreNotice, documents.peek(store.repo.state_dir / NAME))
    return None


# ---------------------------------------------------------------- text


def _text(store: Store, notice: RestoreNotice, *, with_handoff: bool) -> str:
    target, before = _checkpoint(store, notice.target), _checkpoint(store, notice.safety)
    note = target.note if target else Note()
    label = f' "{note.label}"' if note.label else ""
    # After an undo, `undo` goes back further: an agent that was told so undid one restore more.
    back = ("redo" if notice.was_undo else "undo") + (" --state" if notice.with_state else "")
    states = ", ".join(notice.states)
    lines = [
        (
            f"gitcp restored checkpoint {notice.target}{label}: "
            "files may differ from what you remember, so read them again first."
        ),
        f"The state before is checkpoint {notice.safety}; `gitcp {back}` restores it.",
        *([f"It also restored, outside the files: {states}"] if states else []),
        *(handoff_lines(_unsaid(store, target)) if target and with_handoff else ()),
        *_failed_since(note, before),
        *_not_restored(store, notice),
    ]
    return "\n".join(map(_line, lines))[:LONGEST]


def _unsaid(store: Store, checkpoint: Checkpoint) -> Note:
    """Return the note of a checkpoint, of the handoff only what was written after the last message
    of its conversation.
    """
    note, handoff = checkpoint.note, checkpoint.note.handoff
    messages, spoken = None, Note()
    with suppress(GitcpError):
        for summary in store.history(checkpoint.commit):
            count = summary.trailers.get("Gitcp-Messages")
            messages = count if messages is None else messages
            if count != messages:
                spoken = store.read(summary.commit).note
                break
    old = spoken.handoff
    unsaid = Handoff(
        task=handoff.task if handoff.task != old.task else None,
        decisions=_new(handoff.decisions, old.decisions),
        failed=_new(handoff.failed, old.failed),
        next=_new(handoff.next, old.next),
        active=_new(handoff.active, old.active),
    )
    return replace(note, handoff=unsaid)


def _new(entries: Iterable[str], old: Iterable[str]) -> tuple[str, ...]:
    known = frozenset(old)
    return tuple(entry for entry in entries if entry not in known)


def handoff_lines(note: Note) -> Iterator[str]:
    """Yield the facts and the handoff of a note as lines, facts first."""
    handoff = note.handoff
    yield from _listed("Facts:", (f"{key} = {value}" for key, value in sorted(note.facts.items())))
    for title, value in (
        ("Phase", note.phase),
        ("Objective", note.objective),
        ("Task", handoff.task),
    ):
        if value:
            yield f"{title}: {value}"
    yield from _listed("Decided:", handoff.decisions)
    yield from _listed("Tried and failed:", handoff.failed)
    yield from _listed("Next:", handoff.next)
    yield from _listed("Active files:", handoff.active)


def _failed_since(note: Note, before: Checkpoint | None) -> Iterator[str]:
    """Yield what failed after the restored checkpoint: its own note does not have it."""
    later = before.note.handoff.failed if before else ()
    yield from _listed(
        "Tried and failed after that checkpoint:",
        (attempt for attempt in later if attempt not in note.handoff.failed),
    )


def _not_restored(store: Store, notice: RestoreNotice) -> Iterator[str]:
    yield from _listed("Not restored:", (f"{path}: {reason}" for path, reason in notice.kept))
    yield from _listed(
        "External effects that were not undone, and how to undo them:", _effects(store, notice)
    )


def _effects(store: Store, notice: RestoreNotice) -> Iterator[str]:
    """Yield the compensations recorded after the target and before the restore."""
    tip = store.tip(notice.target.session)
    for summary in store.history(tip) if tip else ():
        if summary.id.number <= notice.target.number:
            return
        if notice.here.session != notice.target.session or summary.id.number < notice.here.number:
            yield from store.read(summary.commit).note.compensations


def _listed(title: str, items: Iterable[str]) -> Iterator[str]:
    lines = list(items)
    if lines:
        yield title
        yield from (f"- {item}" for item in lines)


def _line(text: str) -> str:
    """Return text as one printable line of at most LONGEST_LINE characters."""
    flat = "".join(
        c if c.isprintable() or is_joiner(text, at) else " " for at, c in enumerate(text)
    )
    return flat if len(flat) <= LONGEST_LINE else f"{flat[:LONGEST_LINE]}…"


def _checkpoint(store: Store, id: CheckpointId) -> Checkpoint | None:
    try:
        commit = store.find(id)
        return store.read(commit) if commit else None
    except GitcpError:
        return None
