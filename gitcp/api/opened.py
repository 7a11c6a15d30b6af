"""A repository that was opened by a program: where it is, by whose clock, and how it is saved and
restored.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from gitcp.api import pushed
from gitcp.errors import BadValue, GitcpError, RevisionNotFound
from gitcp.git import refs
from gitcp.git.repo import Repository
from gitcp.lifecycle import housekeeping
from gitcp.model import Agent, Checkpoint, CheckpointId, Handoff, Host, Note, Trigger
from gitcp.restoring import restore
from gitcp.saving import save
from gitcp.saving import session as session_op
from gitcp.saving.save import Saved
from gitcp.state import settings
from gitcp.store import Store
from gitcp.value import EMPTY


class Opened:
    """What Checkpoints and Session stand on. Each call opens the store anew, so threads may share
    it.
    """

    def __init__(self, path: Path, host: Host) -> None:
        self.path = path
        self.host = host
        self.root = self.store().repo.root

    def store(self) -> Store:
        """A store for the calling thread: what all operations below take, for what has no method
        here.
        """
        return Store(Repository.open(self.path, self.host))

    # ------------------------------------------------------------ save

    def save(
        self,
        label: str | None = None,
        *,
        session: str | None = None,
        conversation: pushed.Pushed | None = None,
        agent: Agent | str | None = None,
        format: str | None = None,
        phase: str | None = None,
        objective: str | None = None,
        facts: Mapping[str, object] = EMPTY,
        position: Mapping[str, object] = EMPTY,
        handoff: Handoff | None = None,
        compensate: Sequence[str] = (),
        trigger: str = "manual",
        tags: Sequence[str] = (),
        include: Sequence[str] = (),
        force: bool = False,
    ) -> Saved:
        """Save files and conversation. Raises a GitcpError, and leaves no checkpoint, if anything
        could not be done.

        With `session` the checkpoint goes to that session and no agent is asked: its conversation
        is what is given (bytes, a file, or streams by name, "main" among them), else the one it
        had. Without, it is as `gitcp save` decides. Where nothing changed, none is made; what is
        returned has the last one.
        """
        texts, place = (
            {key: str(value) for key, value in pairs.items()} for pairs in (facts, position)
        )
        note = Note(label, phase, objective, texts, handoff or Handoff(), place, tuple(compensate))
        store = self.store()
        choice = (
            None
            if session is None and conversation is None
            else _choice(session, conversation, agent, format)
        )
        request = save.Request(
            cwd=self.path,
            note=note,
            trigger=_trigger(trigger),
            tags=tuple(tags),
            agent=agent.name if isinstance(agent, Agent) else agent,
            limits=settings.limits(store.repo, tuple(include)),
            force=force,
            choice=choice,
        )
        return within_limits(store, save.save(store, request))

    def request(
        self,
        store: Store,
        target: Checkpoint,
        *,
        files: bool = True,
        conversation: bool = True,
        paths: Sequence[bytes] = (),
    ) -> restore.Request:
        """What a restore is asked to do. Paths are of files: with them the conversation stays."""
        return restore.Request(
            target,
            self.path,
            files=files,
            conversation=conversation and not paths,
            paths=tuple(paths),
            limits=settings.limits(store.repo),
        )


def within_limits(store: Store, saved: Saved) -> Saved:
    """What was saved; if it is anything, what is due after it has begun in the background."""
    if saved.saved:
        keep_house(store, saved.checkpoint.id)
    return saved


def keep_house(store: Store, saved: CheckpointId) -> None:
    """Begin in the background what is due after a save. The save stands, whatever becomes of it."""
    with suppress(GitcpError):
        housekeeping.after_save(store, saved)


def _choice(
    session: str | None,
    conversation: pushed.Pushed | None,
    agent: Agent | str | None,
    format: str | None,
) -> session_op.Choice:
    if session is None:
        raise BadValue(
            "a conversation that is given needs the session it belongs to: nothing was saved"
        )
    capture = None if conversation is None else pushed.capture(conversation, agent, format)
    return session_op.Choice(refs.check_name(session, "session"), capture, session_op.GIVEN)


def _trigger(name: str) -> Trigger:
    try:
        return Trigger(name)
    except ValueError:
        known = ", ".join(trigger.value for trigger in Trigger)
        raise BadValue(
            f"{name!r} is no trigger: nothing was saved", hint=f"one of: {known}"
        ) from None


def numbered(store: Store, id: CheckpointId) -> Checkpoint:
    """The checkpoint with this id. Raises RevisionNotFound."""
    commit = store.find(id)
    if commit is None:
        raise RevisionNotFound(
            f"checkpoint {id} does not exist any more: nothing was changed", hint="gitcp log"
        )
    return store.read(commit)
