"""The checkpoints of one repository. Each method is a request to one operation."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from datetime import datetime
from pathlib import Path

from gitcp.api.checked import checked
from gitcp.api.exchange import Exchange
from gitcp.api.moves import Moves
from gitcp.api.opened import Paths, Texts, exact, handoff_of, numbered, position_of
from gitcp.api.reading import Reading
from gitcp.api.session import Session
from gitcp.api.transaction import TransactionBlock
from gitcp.errors import BadValue, Refused
from gitcp.history import dates, revisions, states
from gitcp.history.states import StateStatus
from gitcp.lifecycle import pushing
from gitcp.model import Checkpoint, CheckpointId, Handoff, Note
from gitcp.restoring import restore
from gitcp.restoring.materialise import materialise
from gitcp.restoring.message import Rewound, before_message
from gitcp.restoring.request import RestoreRequest
from gitcp.restoring.restore import Report, RestorePlan
from gitcp.running.compensate import LIMIT
from gitcp.saving import session as session_op
from gitcp.state import note as note_op
from gitcp.state import tag
from gitcp.state.note import PendingNote
from gitcp.store import Store
from gitcp.value import EMPTY

ELSEWHERE = "to= is a new directory, and excludes mine=, whole_tree=, state= and a plan"


class Checkpoints(Reading, Moves, Exchange):
    """The checkpoints of one repository. Each call opens the store again, so
    threads can share this object.

    A revision is what the command line accepts: `@`, `@~2`, `12`, `SESSION@12`, a tag, a label,
    `yesterday`, `:/text`. `session` selects the current session, by name or unique prefix; `save`
    requires the full name, since it can create a session.
    """

    @checked("nothing was changed")
    def session(self, name: str) -> Session:
        """Return the session with this name, or of the agent's conversation with this id, existing
        or not, with its position and steps. Raises BadValue.
        """
        return Session(self, exact(self, name))

    @checked("nothing was changed")
    def transaction(
        self,
        label: str,
        *,
        session: str | None = None,
        rollback: bool = True,
        compensate: Texts = (),
        limit: float = LIMIT,
    ) -> TransactionBlock:
        """Return a context manager that saves a checkpoint first; if the block fails, it runs
        compensations and restores the files.

        `compensate` are commands that undo the block's effects outside the files; each is
        killed after `limit` seconds. Transactions can be nested. An interrupted one is
        finished when the next one starts.
        """
        return TransactionBlock(
            self, label, session=session, rollback=rollback, compensate=compensate, limit=limit
        )

    # ------------------------------------------------------------ tag and note

    @checked("nothing was changed")
    def tag(
        self, name: str, revision: str = "@", *, text: str | None = None, force: bool = False
    ) -> None:
        """Tag a checkpoint. Raises BadValue, RevisionNotFound, and Refused if the tag is on another
        one.
        """
        store = self.store()
        tag.create(
            store, name, self._read(store, revision), text=text, force=force, now=self.host.now()
        )
        pushing.start(store)

    @checked("nothing was changed")
    def note(
        self,
        *,
        session: str | None = None,
        phase: str | None = None,
        objective: str | None = None,
        facts: Mapping[str, object] = EMPTY,
        position: Mapping[str, object] = EMPTY,
        handoff: Handoff | None = None,
        clear: bool = False,
    ) -> PendingNote:
        """Add to the note that waits for the next checkpoint, of a session or whoever saves it, and
        return it.

        With `clear`, what waited is discarded first. Called with nothing, it only reads.
        """
        texts = {key: str(value) for key, value in facts.items()}
        spot = position_of(position)
        given = Note(None, phase, objective, texts, handoff_of(handoff), spot)
        store = self.store()
        name = session_op.named(store, session)
        if clear:
            note_op.clear(store, name)
        if given != Note():
            return note_op.add(store, name, given)
        waiting = (each for each in note_op.pending(store.repo) if each.session == name)
        return next(waiting, PendingNote(name, Note()))

    @checked("nothing was changed")
    def states(self) -> tuple[StateStatus, ...]:
        """The states outside the files that the user's commands save (git config `gitcp.state`),
        each with its last checkpoint of the current session. Runs no command.
        """
        store = self.store()
        current = session_op.current(store, None)
        return states.listed(store, store.tip(current) if current else None)

    # ------------------------------------------------------------ restore

    @checked("nothing was changed")
    def plan(
        self,
        revision: str = "@",
        *,
        session: str | None = None,
        at: str | datetime | None = None,
        phase: str | None = None,
        message: str | None = None,
        files: bool = True,
        conversation: bool = True,
        memory: bool = True,
        state: bool = False,
        paths: Paths | None = None,
        mine: bool = False,
    ) -> RestorePlan:
        """Return what `restore` would do now, with its conflicts, and what other sessions changed
        of it. Writes nothing.
        """
        store = self.store()
        target, rewound = self._target(store, revision, session, at, phase, message)
        request = self.request(
            store,
            target,
            rewound=rewound,
            files=files,
            conversation=conversation,
            memory=memory,
            state=state,
            paths=paths,
            mine=mine,
        )
        return restore.plan(store, request)

    @checked("nothing was changed")
    def restore(
        self,
        revision: str = "@",
        *,
        session: str | None = None,
        at: str | datetime | None = None,
        phase: str | None = None,
        message: str | None = None,
        files: bool = True,
        conversation: bool = True,
        memory: bool = True,
        state: bool = False,
        paths: Paths | None = None,
        mine: bool = False,
        whole_tree: bool = False,
        to: str | os.PathLike[str] | None = None,
        agreed: RestorePlan | None = None,
        plan_digest: str | None = None,
    ) -> Report:
        """Restore a checkpoint, after saving the current state. With the conversation, the memory
        that its agent keeps of the project is restored, unless `memory` is false. With `state`, the
        user's commands restore the states outside the files that it has (`states`); their current
        content is saved first, and Refused is raised, with nothing restored, if it cannot be.

        Instead of `revision`: the session's newest checkpoint of a time (`at`, as "yesterday
        17:00"), of a `phase`, or of both; or the state before a `message`, by its id, with the
        conversation up to it. `to` writes files and conversation into a new directory instead.

        `mine` undoes only what the checkpoint's session changed, and raises Refused if that
        overlaps with changes of others. Without it, raises OthersAffected if this would undo
        changes of other agents' sessions that are at work, unless `whole_tree` is set. `agreed` is
        a plan; if the files have changed since it was made, raises Refused. `plan_digest` is the
        `digest` of a plan for the same arguments, which another process may have made: exactly that
        is carried out, or Refused is raised. Nothing is changed then.
        """
        store = self.store()
        target, rewound = self._target(store, revision, session, at, phase, message)
        request = self.request(
            store,
            target,
            rewound=rewound,
            files=files,
            conversation=conversation,
            memory=memory,
            state=state,
            paths=paths,
            mine=mine,
            whole_tree=whole_tree,
        )
        if to is not None:
            if mine or whole_tree or state or agreed is not None or plan_digest is not None:
                raise BadValue(f"{ELSEWHERE}; nothing was written")
            return materialise(store, request, Path(os.path.join(self.path, to)))
        if plan_digest is not None:
            agreed = _agreed(restore.plan(store, request), plan_digest)
        return restore.restore(store, request, agreed)

    def _target(
        self,
        store: Store,
        revision: str,
        session: str | None,
        at: str | datetime | None,
        phase: str | None,
        message: str | None,
    ) -> tuple[Checkpoint, Rewound | None]:
        """Return the checkpoint to restore, and an earlier part of its conversation."""
        ways = (revision != "@", at is not None or phase is not None, message is not None)
        if sum(ways) > 1:
            raise BadValue(
                "a revision, message=, and at= or phase= exclude one another; nothing was changed"
            )
        if not any(ways[1:]):
            return self._to_change(store, revision, session), None
        current = self._session_here(store, session)
        if message is not None:
            return before_message(store, current, message)
        until = dates.parse(at, self.host.now(), end=True) if isinstance(at, str) else at
        if until is not None and until.tzinfo is None:
            until = until.astimezone()  # as a program means it: the machine's own time
        return store.read(revisions.newest(store, current, until=until, phase=phase)), None

    @checked("nothing was changed")
    def undo(self, *, mine: bool = False, whole_tree: bool = False, state: bool = False) -> Report:
        """Undo the last restore, and keep what changed since, merged line by line; with `state`,
        also what it did to states outside the files.

        Raises Refused if there is none, if a delete or a prune is to be undone first, and for
        changes since that cannot be merged, with their paths as candidates; `whole_tree` undoes
        these as well. `mine` makes no difference.
        """
        store = self.store()
        return restore.undo(store, self._walking(store, mine, whole_tree, state))

    @checked("nothing was changed")
    def redo(self, *, mine: bool = False, whole_tree: bool = False, state: bool = False) -> Report:
        """Redo the last undo, and keep what changed since. Raises as `undo`."""
        store = self.store()
        return restore.redo(store, self._walking(store, mine, whole_tree, state))

    def _walking(
        self, store: Store, mine: bool, whole_tree: bool, state: bool
    ) -> Callable[[CheckpointId], RestoreRequest]:
        return lambda id: self.request(
            store, numbered(store, id), mine=mine, whole_tree=whole_tree, state=state
        )

    @checked("nothing was changed")
    def finish(self, *, forward: bool) -> Report:
        """Finish an interrupted restore, or with `forward=False` roll it back.
        Raises Refused if there is none.
        """
        store = self.store()
        return restore.finish(
            store, lambda id: self.request(store, numbered(store, id)), forward=forward
        )


def _agreed(plan: RestorePlan, digest: str) -> RestorePlan:
    """Return a plan if it is the one with this digest. Raises Refused."""
    if plan.digest != digest:
        raise Refused(
            f"the plan is not the one with digest {digest[:12]}: nothing was changed",
            hint="make the plan again, and review it",
        )
    return plan
