"""The checkpoints of one repository, as a program sees them. Thin: each method makes a request of
one operation.
"""

from __future__ import annotations

from collections.abc import Sequence

from gitcp.api.moves import Moves
from gitcp.api.opened import numbered
from gitcp.api.session import Session
from gitcp.api.transaction import TransactionBlock
from gitcp.git import refs
from gitcp.history import diff, log, revisions, sessions, show
from gitcp.history.show import Listing
from gitcp.lifecycle import check
from gitcp.lifecycle.check import CheckReport
from gitcp.model import Checkpoint, FileChange
from gitcp.restoring import restore
from gitcp.restoring.restore import Plan, Report
from gitcp.running.compensate import LIMIT
from gitcp.saving import session as session_op
from gitcp.saving.conversation import MAIN
from gitcp.state import settings, tag
from gitcp.store import Summary


class Checkpoints(Moves):
    """The checkpoints of one repository. Each call opens the store anew, so threads may share this
    object.

    A revision is what the command line takes: `@`, `@~2`, `12`, `SESSION@12`, a tag, `:/text`.
    `session` says which one is current, by its very name or a beginning; `save` alone wants the
    very name, since it may make a new one.
    """

    def session(self, name: str) -> Session:
        """The session of this name, new or not: for `with`, with its position and steps. Raises
        BadValue.
        """
        return Session(self, refs.check_name(name, "session"))

    def transaction(
        self,
        label: str,
        *,
        session: str | None = None,
        rollback: bool = True,
        compensate: Sequence[str] = (),
        limit: float = LIMIT,
    ) -> TransactionBlock:
        """For `with`: a checkpoint before the block; if the block fails, compensations are run and
        files go back.

        `compensate` are commands that would undo what the block does outside of the files; each is
        ended after `limit` seconds. Transactions may be nested. One that was killed is finished
        when the next one begins.
        """
        return TransactionBlock(
            self, label, session=session, rollback=rollback, compensate=compensate, limit=limit
        )

    # ------------------------------------------------------------ name and look

    def tag(
        self, name: str, revision: str = "@", *, text: str | None = None, force: bool = False
    ) -> None:
        """Name a checkpoint. Raises BadValue, RevisionNotFound, Refused if the name is on another
        one.
        """
        store = self.store()
        tag.create(
            store, name, self._read(store, revision), text=text, force=force, now=self.host.now()
        )

    def log(
        self,
        revision: str = "@",
        *,
        session: str | None = None,
        limit: int | None = None,
        phase: str | None = None,
    ) -> tuple[Summary, ...]:
        """The checkpoints up to a revision, or of a range `A..B`, newest first; none where there
        are none at all.
        """
        store = self.store()
        current = session_op.current(store, session)
        if current is None and revision == "@":
            return ()
        after, tip = revisions.resolve_range(store, revision, current)
        return tuple(log.select(store, [tip], log.Selection(after=after, limit=limit, phase=phase)))

    def show(self, revision: str = "@", *, session: str | None = None) -> Checkpoint:
        """One checkpoint. Raises RevisionNotFound, RevisionAmbiguous."""
        return self._read(self.store(), revision, session)

    def file(
        self, revision: str, path: str | bytes, *, session: str | None = None
    ) -> bytes | Listing:
        """The bytes that a file had, or the names in a directory; `path` is relative to the
        root.
        """
        store = self.store()
        where = path if isinstance(path, bytes) else path.encode("utf-8", "surrogateescape")
        return show.file(store, self._read(store, revision, session), where)

    def conversation(
        self, revision: str = "@", stream: str = MAIN, *, session: str | None = None
    ) -> bytes:
        """A stream of the conversation, byte for byte. Raises RevisionNotFound if there is none."""
        store = self.store()
        return b"".join(show.stream(store, self._read(store, revision, session), stream))

    def diff(
        self, old: str = "@", new: str | None = None, *, session: str | None = None
    ) -> tuple[FileChange, ...]:
        """The paths that differ between two checkpoints, or between one and the files as they are
        now.
        """
        store = self.store()
        before = self._read(store, old, session)
        if new is not None:
            return diff.compare(store, before.root, self._read(store, new, session).root).changes
        with diff.compare_with_now(store, before, settings.limits(store.repo), text=False) as found:
            return found.changes

    def sessions(self) -> tuple[sessions.Session, ...]:
        """Every session that can be read, the one saved last first."""
        return sessions.listing(self.store())[0]

    def check(self) -> CheckReport:
        """Read everything that is stored, and compare it with its names. Damage raises nothing: it
        is in the report.
        """
        return check.check(self.store())

    # ------------------------------------------------------------ go back

    def plan(
        self,
        revision: str = "@",
        *,
        session: str | None = None,
        files: bool = True,
        conversation: bool = True,
        paths: Sequence[bytes] = (),
    ) -> Plan:
        """What `restore` would do now. Writes nothing."""
        store = self.store()
        request = self.request(
            store,
            self._read(store, revision, session),
            files=files,
            conversation=conversation,
            paths=paths,
        )
        return restore.plan(store, request)

    def restore(
        self,
        revision: str = "@",
        *,
        session: str | None = None,
        files: bool = True,
        conversation: bool = True,
        paths: Sequence[bytes] = (),
        agreed: Plan | None = None,
    ) -> Report:
        """Bring a checkpoint back, after saving what is there.

        `agreed` is a plan that was looked at: where the files are no longer those that it was made
        for, nothing is done and Refused is raised.
        """
        store = self.store()
        request = self.request(
            store,
            self._read(store, revision, session),
            files=files,
            conversation=conversation,
            paths=paths,
        )
        return restore.restore(store, request, agreed)

    def undo(self) -> Report:
        """Go back to the state before the last restore. Raises Refused if there is none."""
        store = self.store()
        return restore.undo(store, lambda id: self.request(store, numbered(store, id)))

    def redo(self) -> Report:
        """Take back the last undo. Raises Refused if there is none."""
        store = self.store()
        return restore.redo(store, lambda id: self.request(store, numbered(store, id)))

    def finish(self, *, forward: bool) -> Report:
        """Carry an interrupted restore to its target, or back. Raises Refused if none was
        interrupted.
        """
        store = self.store()
        return restore.finish(
            store, lambda id: self.request(store, numbered(store, id)), forward=forward
        )
