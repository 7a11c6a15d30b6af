"""What a save would take now, and what can be undone. Looks, and writes nothing to the store."""

from __future__ import annotations

import os
from pathlib import Path

from gitcp.errors import ConversationUnreadable, FormatTooNew, GitcpError, StoreDamaged
from gitcp.git.objects import Objects
from gitcp.history.diff import base_tree
from gitcp.model import Base, Capture, Checkpoint, CheckpointId, FileChange, Note, Oid, Skip
from gitcp.saving import quarantine
from gitcp.saving import session as session_op
from gitcp.saving.conversation import MAIN
from gitcp.saving.save import live_trees
from gitcp.state import journal, note
from gitcp.state.journal import Unfinished
from gitcp.store import Store
from gitcp.value import Value
from gitcp.worktree.snapshot import Limits, take


class Growth(Value):
    """A conversation that a save would take: how many bytes are stored, and how many there are."""

    agent: str | None
    session_id: str | None
    stored: int
    now: int


class Status(Value):
    """How things stand. `session` is where a save would go (None: undecided); `why` says why there.

    `noted`: a note waits for the next save there. `damage` are lines about sessions that cannot be
    read.
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


def status(store: Store, cwd: Path, session: str | None, limits: Limits) -> Status:
    """How things stand in this working tree. Raises what a snapshot raises."""
    name, why, capture, candidates = _choice(store, cwd, session)
    tip = store.tip(name) if name else None
    last, damage = _last(store, tip)
    objects = Objects(store.repo, dry=True)
    now = take(
        store.repo, objects, limits, live_trees(store, name) if name else frozenset()
    ).snapshot
    before = last.snapshot.tree if last else base_tree(store, now.base.commit)
    if before is not None:
        objects.name_tree(store.objects.read_tree(before))
    known = journal.restores(store.repo)
    return Status(
        session=name,
        why=why,
        base=now.base,
        last=last,
        conversation=_growth(capture, last) if capture else None,
        changes=objects.compare(before, now.tree),
        skipped=now.skipped,
        unfinished=journal.unfinished(store.repo),
        undo=known.undo[-1] if known.undo else None,
        redo=known.redo[-1] if known.redo else None,
        candidates=candidates,
        noted=note.of_next(store.repo, name or "") not in (None, Note()),
        damage=(*damage, *quarantine.pending(store)),
    )


def _last(store: Store, tip: Oid | None) -> tuple[Checkpoint | None, tuple[str, ...]]:
    """The last checkpoint of a session; None where it is damaged, and what will become of it."""
    try:
        return (store.read(tip) if tip else None), ()
    except FormatTooNew:
        raise
    except StoreDamaged as error:
        return None, (
            f"the last checkpoint is damaged ({error}): the next save begins a new chain",
        )


def _choice(
    store: Store, cwd: Path, session: str | None
) -> tuple[str | None, str, Capture | None, tuple[str, ...]]:
    """Where a save would go. Two conversations that could be meant are something to report, not to
    fail with.
    """
    try:
        choice = session_op.choose(store, cwd, session=session_op.looked_up(store, session))
        return choice.session, choice.why, choice.capture, ()
    except GitcpError as error:
        return session_op.current(store), str(error), None, tuple(getattr(error, "candidates", ()))


def _growth(capture: Capture, last: Checkpoint | None) -> Growth:
    streams = last.conversation.streams if last and last.conversation else ()
    return Growth(
        agent=capture.agent.name if capture.agent else None,
        session_id=capture.agent.session_id if capture.agent else None,
        stored=next((s.bytes for s in streams if s.name == MAIN), 0),
        now=_size(capture),
    )


def _size(capture: Capture) -> int:
    main = next((source for source in capture.sources if source.name == MAIN), None)
    if main is None or main.path is None:
        return len(main.data or b"") if main else 0
    try:
        return os.stat(main.path).st_size
    except OSError as error:
        raise ConversationUnreadable(f"{main.path} cannot be read: {error.strerror}") from None
