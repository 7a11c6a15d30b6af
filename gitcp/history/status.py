"""Report the state of a working tree: unsaved changes, and what can be undone. Writes nothing."""

from __future__ import annotations

import os
from collections.abc import Container
from datetime import datetime
from io import BytesIO
from pathlib import Path
from typing import BinaryIO

from gitcp import adapters
from gitcp.adapters import long_lines
from gitcp.errors import ConversationUnreadable, FormatTooNew, GitcpError, StoreDamaged
from gitcp.fastpath import watched
from gitcp.git.objects import Objects
from gitcp.history import states
from gitcp.history.states import StateStatus
from gitcp.model import (
    MAIN,
    Base,
    Capture,
    Checkpoint,
    CheckpointId,
    Digest,
    Fault,
    FileChange,
    Note,
    Oid,
    Skip,
    Source,
    Stream,
)
from gitcp.policy.settings import AUTOMATIC
from gitcp.saving import quarantine
from gitcp.saving import session as session_op
from gitcp.saving.live_trees import live_trees
from gitcp.state import journal, note, undo_stack
from gitcp.state.journal import Unfinished
from gitcp.store import Store
from gitcp.value import Value
from gitcp.worktree.snapshot import Limits, take
from gitcp.worktree.uncommitted import uncommitted

BLOCK = 1 << 20


class Growth(Value):
    """An unsaved conversation: the bytes stored, and the current number of bytes. `messages` is the
    number of new ones; None if the conversation does not begin with what was stored.
    """

    agent: str | None
    session_id: str | None
    stored: int
    now: int
    messages: int | None = None


class LastSave(Value):
    """The last automatic save of a session."""

    id: CheckpointId
    created: datetime


class Status(Value):
    """The state of a working tree.

    `session` is where the next save goes (None: undecided, or a new session without a name yet);
    `why` is the reason. `noted`: a note is pending for that save. `damage` are lines about sessions
    that cannot be read. `watcher` is what watches the working tree (None: nothing); `missed` is a
    directory in which it did not report a change, so that it is not trusted. `faults` is what is
    broken of git's. `automatic` is the last automatic save. `states` are those outside the
    files that the user's commands save.
    """

    session: str | None
    why: str
    base: Base
    last: Checkpoint | None
    conversation: Growth | None
    changes: tuple[FileChange, ...]
    skipped: tuple[Skip, ...]
    unfinished: Unfinished | None
    undo: CheckpointId | None
    redo: CheckpointId | None
    candidates: tuple[str, ...] = ()
    noted: bool = False
    damage: tuple[str, ...] = ()
    watcher: str | None = None
    missed: bytes | None = None
    faults: tuple[Fault, ...] = ()
    automatic: LastSave | None = None
    states: tuple[StateStatus, ...] = ()


def status(
    store: Store,
    cwd: Path,
    session: str | None,
    limits: Limits,
    choice: session_op.Choice | None = None,
) -> Status:
    """Return the state of this working tree. Raises what a snapshot raises. `choice` is where the
    next save goes, if that is decided already.
    """
    name, why, capture, candidates = _choice(store, cwd, session, choice)
    tip = store.tip(name) if name else None
    last, damage = _last(store, tip)
    objects = Objects(store.repo, dry=True)
    live: Container[Oid] = live_trees(store, name) if name else frozenset()
    taken = take(store.repo, objects, limits, live, watched=True)
    current = taken.snapshot
    is_compared = last is not None and (last.snapshot.has_files or last.snapshot.total)
    last_tree = last.snapshot.tree if last and is_compared else store.base_tree(current.base.commit)
    if last_tree is not None:
        objects.reader.name_tree(store.reader.read_tree(last_tree))
    stack = undo_stack.restores(store.repo)
    return Status(
        session=name,
        why=why,
        base=current.base,
        last=last,
        conversation=_growth(capture, last) if capture else None,
        changes=objects.reader.compare(last_tree, current.tree),
        skipped=(*current.skipped, *uncommitted(store.repo, current)),
        unfinished=journal.interrupted(store.repo),
        undo=stack.undo[-1] if stack.undo else None,
        redo=stack.redo[-1] if stack.redo else None,
        candidates=candidates,
        states=states.listed(store, tip),
        noted=note.pending_for(store.repo, name or "") not in (None, Note()),
        damage=(*damage, *quarantine.warnings(store)),
        watcher=watched.WATCHER if taken.watch else None,
        missed=taken.watch.missed if taken.watch else None,
        faults=store.repo.faults,
        automatic=_automatic(store, tip),
    )


def _automatic(store: Store, tip: Oid | None) -> LastSave | None:
    summaries = store.readable(tip) if tip else ()
    return next(
        (
            LastSave(each.id, each.created)
            for each in summaries
            if each.trailers.get("Gitcp-Trigger") in AUTOMATIC
        ),
        None,
    )


def _last(store: Store, tip: Oid | None) -> tuple[Checkpoint | None, tuple[str, ...]]:
    """Return the last checkpoint of a session, or None with a warning if it is damaged."""
    try:
        return (store.read(tip) if tip else None), ()
    except FormatTooNew:
        raise
    except StoreDamaged as error:
        return None, (
            f"the last checkpoint is damaged ({error}): the next save starts a new chain",
        )


def _choice(
    store: Store, cwd: Path, session: str | None, decided: session_op.Choice | None
) -> tuple[str | None, str, Capture | None, tuple[str, ...]]:
    """Return where the next save goes: as decided, or else by the rules. Several conversations that
    match are reported, not raised.
    """
    if decided is not None:
        return _named(store, session, decided)
    try:
        choice = session_op.choose(store, cwd, session=session_op.resolve_prefix(store, session))
        return _named(store, session, choice)
    except GitcpError as error:
        return session_op.current(store), str(error), None, tuple(getattr(error, "candidates", ()))


def _named(
    store: Store, session: str | None, choice: session_op.Choice
) -> tuple[str | None, str, Capture | None, tuple[str, ...]]:
    """Return a choice as `_choice` does: without a session if it is new and its name is random."""
    is_unnamed = choice.capture is None and choice.session.startswith(session_op.MANUAL)
    if is_unnamed and choice.session not in (session, session_op.existing_manual(store)):
        return None, choice.why, None, ()
    why = str(choice.error or choice.why)
    # A misspelled name was shown as a session without checkpoints.
    if session is not None and choice.capture is None and store.tip(choice.session) is None:
        why = f"no such session: gitcp save --session {choice.session} creates it"
    return choice.session, why, choice.capture, ()


def _growth(capture: Capture, last: Checkpoint | None) -> Growth:
    streams = last.conversation.streams if last and last.conversation else ()
    stored = next((stream for stream in streams if stream.name == MAIN), None)
    main = next((source for source in capture.sources if source.name == MAIN), None)
    try:
        with _opened(main) as file:
            now = file.seek(0, os.SEEK_END)
            messages = _new_messages(capture, last, stored, file)
    except OSError as error:
        raise ConversationUnreadable(
            f"{main.path if main else ''} cannot be read: {error.strerror}"
        ) from None
    return Growth(
        agent=capture.agent.name if capture.agent else None,
        session_id=capture.agent.session_id if capture.agent else None,
        stored=stored.bytes if stored else 0,
        now=now,
        messages=messages,
    )


def _opened(main: Source | None) -> BinaryIO:
    if main is None or main.path is None:
        return BytesIO((main.data if main else None) or b"")
    return main.path.open("rb")


def _new_messages(
    capture: Capture, last: Checkpoint | None, stored: Stream | None, file: BinaryIO
) -> int | None:
    """Return how many messages a save would add; None if `file` does not begin with `stored`."""
    file.seek(0)
    old = Digest()
    if stored is not None and last is not None and last.conversation is not None:
        from hashlib import sha256  # loads OpenSSL

        old, left, seen = last.conversation.digest, stored.bytes, sha256()
        while left > 0 and (block := file.read(min(BLOCK, left))):
            seen.update(block)
            left -= len(block)
        if last.conversation.format != capture.format or seen.hexdigest() != stored.sha256:
            return None
    lines = (
        line.removesuffix(b"\n") for line in long_lines.lines(iter(lambda: file.read(BLOCK), b""))
    )
    return adapters.for_format(capture.format).digest(old, lines).messages - old.messages
