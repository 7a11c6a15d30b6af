"""The checkpoints of one repository. Each method is a request to one operation."""

from __future__ import annotations

from collections.abc import Callable

from gitcp.api.checked import checked
from gitcp.api.moves import Moves
from gitcp.api.opened import OnePath, Paths, Texts, numbered, stored_path
from gitcp.api.session import Session
from gitcp.api.transaction import TransactionBlock
from gitcp.errors import BadValue, Refused
from gitcp.git import refs
from gitcp.history import diff, diff_now, log, revisions, sessions, show
from gitcp.history.show import Listing
from gitcp.lifecycle import check, pushing
from gitcp.lifecycle.check import CheckReport
from gitcp.model import MAIN, Checkpoint, CheckpointId, FileChange
from gitcp.restoring import restore
from gitcp.restoring.request import RestoreRequest
from gitcp.restoring.restore import Report, RestorePlan
from gitcp.running.compensate import LIMIT
from gitcp.saving import session as session_op
from gitcp.state import settings, tag
from gitcp.store import Store, Summary
from gitcp.value import replace


class Checkpoints(Moves):
    """The checkpoints of one repository. Each call opens the store again, so
    threads can share this object.

    A revision is what the command line accepts: `@`, `@~2`, `12`, `SESSION@12`, a tag, a label,
    `yesterday`, `:/text`. `session` selects the current session, by name or unique prefix; `save`
    requires the full name, since it can create a session.
    """

    @checked("nothing was changed")
    def session(self, name: str) -> Session:
        """Return the session with this name, existing or not, with its
        position and steps. Raises BadValue.
        """
        return Session(self, refs.check_name(name, "session"))

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

    # ------------------------------------------------------------ tag and show

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
    def log(
        self,
        revision: str = "@",
        *,
        session: str | None = None,
        limit: int | None = None,
        phase: str | None = None,
    ) -> tuple[Summary, ...]:
        """Return the checkpoints up to a revision, or in a range `A..B`, newest
        first; empty if there are none.
        """
        if limit is not None and limit < 0:
            raise BadValue(f"limit is {limit}: nothing was read", hint="pass 0 or more, or None")
        store = self.store()
        current = session_op.current(store, session)
        if current is None and revision == "@":
            return ()
        after, tip = revisions.resolve_range(
            store, revision, current, current if session is not None else None
        )
        return tuple(log.select(store, [tip], log.Selection(after=after, limit=limit, phase=phase)))

    @checked("nothing was changed")
    def show(self, revision: str = "@", *, session: str | None = None) -> Checkpoint:
        """Return one checkpoint. Raises RevisionNotFound and RevisionAmbiguous."""
        store = self.store()
        checkpoint = self._read(store, revision, session)
        tags = tag.by_commit(store).get(checkpoint.commit, ())
        return replace(checkpoint, tags=tuple(tags))

    @checked("nothing was changed")
    def file(self, revision: str, path: OnePath, *, session: str | None = None) -> bytes | Listing:
        """Return the content of a file, or a directory's listing. `path` is relative to the
        root.
        """
        store = self.store()
        return show.file(store, self._read(store, revision, session), stored_path(self.root, path))

    @checked("nothing was changed")
    def conversation(
        self, revision: str = "@", stream: str = MAIN, *, session: str | None = None
    ) -> bytes:
        """Return a stream of the conversation, verbatim. Raises
        RevisionNotFound if there is none.
        """
        store = self.store()
        return b"".join(show.stream(store, self._read(store, revision, session), stream))

    @checked("nothing was changed")
    def diff(
        self, old: str = "@", new: str | None = None, *, session: str | None = None
    ) -> tuple[FileChange, ...]:
        """Return the paths that differ between two checkpoints, or between one and the current
        files.
        """
        store = self.store()
        before = self._read(store, old, session)
        if new is not None:
            return diff.compare(store, before.root, self._read(store, new, session).root).changes
        with diff_now.compare(store, before, settings.limits(store.repo), text=False) as comparison:
            return comparison.changes

    def sessions(self) -> tuple[sessions.Session, ...]:
        """Return every readable session, most recently saved first."""
        return sessions.listing(self.store())[0]

    def check(self) -> CheckReport:
        """Verify everything that is stored. Never raises for damage, which is in the report."""
        return check.check(self.store())

    # ------------------------------------------------------------ restore

    @checked("nothing was changed")
    def plan(
        self,
        revision: str = "@",
        *,
        session: str | None = None,
        files: bool = True,
        conversation: bool = True,
        paths: Paths = (),
        mine: bool = False,
    ) -> RestorePlan:
        """Return what `restore` would do now, with its conflicts, and what other sessions changed
        of it. Writes nothing.
        """
        store = self.store()
        request = self.request(
            store,
            self._read(store, revision, session),
            files=files,
            conversation=conversation,
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
        files: bool = True,
        conversation: bool = True,
        paths: Paths = (),
        mine: bool = False,
        whole_tree: bool = False,
        agreed: RestorePlan | None = None,
        plan_digest: str | None = None,
    ) -> Report:
        """Restore a checkpoint, after saving the current state.

        `mine` undoes only what the checkpoint's session changed, and raises Refused if that
        overlaps with changes of others. Without it, raises OthersAffected if this would undo
        changes of other agents' sessions that are at work, unless `whole_tree` is set. `agreed` is
        a plan; if the files have changed since it was made, raises Refused. `plan_digest` is the
        `digest` of a plan for the same arguments, which another process may have made: exactly that
        is carried out, or Refused is raised. Nothing is changed then.
        """
        store = self.store()
        request = self.request(
            store,
            self._read(store, revision, session),
            files=files,
            conversation=conversation,
            paths=paths,
            mine=mine,
            whole_tree=whole_tree,
        )
        if plan_digest is not None:
            agreed = restore.plan(store, request)
            if agreed.digest != plan_digest:
                raise Refused(
                    f"the plan is not the one with digest {plan_digest[:12]}: nothing was changed",
                    hint="make the plan again, and review it",
                )
        return restore.restore(store, request, agreed)

    @checked("nothing was changed")
    def undo(self, *, mine: bool = False, whole_tree: bool = False) -> Report:
        """Undo the last restore, and keep what changed since, merged line by line.

        Raises Refused if there is none, and for changes since that cannot be merged, with their
        paths as candidates; `whole_tree` undoes these as well. `mine` makes no difference.
        """
        store = self.store()
        return restore.undo(store, self._walking(store, mine=mine, whole_tree=whole_tree))

    @checked("nothing was changed")
    def redo(self, *, mine: bool = False, whole_tree: bool = False) -> Report:
        """Redo the last undo, and keep what changed since. Raises as `undo`."""
        store = self.store()
        return restore.redo(store, self._walking(store, mine=mine, whole_tree=whole_tree))

    def _walking(
        self, store: Store, *, mine: bool, whole_tree: bool
    ) -> Callable[[CheckpointId], RestoreRequest]:
        return lambda id: self.request(store, numbered(store, id), mine=mine, whole_tree=whole_tree)

    @checked("nothing was changed")
    def finish(self, *, forward: bool) -> Report:
        """Finish an interrupted restore, or with `forward=False` roll it back.
        Raises Refused if there is none.
        """
        store = self.store()
        return restore.finish(
            store, lambda id: self.request(store, numbered(store, id)), forward=forward
        )
