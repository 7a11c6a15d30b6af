"""A store for frameworks, which save at every step: one disk sync per checkpoint.

A save writes one small pack. Its bytes are first appended to a log and synced
(gitcp.git.write_ahead_log); then the pack and the ref are created. Sixteen packs are merged into
one (gitcp.git.gathering). Checkpoints are as durable as with any store.

What was only recorded in the log (gitcp.saving.recorded) goes into the pack of the session's next
checkpoint.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress

from gitcp.errors import StoreDamaged
from gitcp.git import refs
from gitcp.git.gathering import Gathering, GatheringObjects
from gitcp.git.repo import Repository
from gitcp.git.write_ahead_log import Write, WriteAheadLog, running
from gitcp.model import Checkpoint, Oid
from gitcp.saving import recorded
from gitcp.store import Store


class FastStore(Store):
    """The checkpoints of one repository, optimized for many saves per minute. Used only for saving.

    `gathering` tracks the small packs of this process, across its stores of the repository. On
    systems without boot ids (other than Linux), every save is synced in full, and `log` is None.
    """

    objects: GatheringObjects

    def __init__(
        self, repo: Repository, gathering: Gathering, log: WriteAheadLog | None = None
    ) -> None:
        self.log: WriteAheadLog | None = None  # the first lock settles what an earlier run left
        self.committed: list[tuple[Write, Checkpoint]] = []
        self._made: list[Checkpoint] = []
        self._saved: dict[Oid | None, Checkpoint] = {}
        self._writes: tuple[Write, ...] = ()
        super().__init__(repo)
        self.objects = GatheringObjects(repo, gathering)
        self.log = (log or WriteAheadLog(repo)) if running() else None

    @contextmanager
    def lock_session(self, session: str) -> Iterator[None]:
        """Hold the store's lock: the log has one writer at a time. What was recorded for the
        session becomes checkpoints. They are `committed` with the next one, which follows them.
        """
        with self.lock():
            self._make_recorded(session)
            try:
                yield
            finally:
                self._made = []

    def _make_recorded(self, session: str) -> None:
        self.committed = []
        self._writes = self.log.writes(refs.SESSIONS + session) if self.log else ()
        if self._writes:
            with suppress(StoreDamaged):  # the save finds that, too
                self._made = list(recorded.commit(self, session, self._writes))

    def _last_made(self) -> Checkpoint | None:
        """Return the last checkpoint that was made and waits for the ref to move. A save that
        begins anew has discarded it.
        """
        last = self._made[-1] if self._made else None
        return last if last and last.commit in self.objects.pending else None

    def tip(self, session: str) -> Oid | None:
        """Return a session's last commit, which may be one that the ref will move past."""
        last = self._last_made()
        return last.commit if last and last.id.session == session else super().tip(session)

    def read(self, commit: Oid) -> Checkpoint:
        """Return a checkpoint. Raises StoreDamaged and FormatTooNew."""
        last = self._last_made()
        known = last if last and last.commit == commit else self._saved.get(commit)
        return known or super().read(commit)

    def _settle(self) -> None:
        """With a log, only when it is long, and in the background. Most packs are joined, and
        synced, by then; before, each would be synced by itself.
        """
        if self.log is None:
            super()._settle()
        else:
            self.log.settle_if_due()

    def _make_durable(self) -> None:
        """Do nothing with a log: `advance` syncs it."""
        if self.log is None:
            super()._make_durable()

    def _move_session(self, name: str, checkpoint: Checkpoint) -> bool:
        if self.log is None:
            return super()._move_session(name, checkpoint)
        log, last = self.log, self._last_made()
        made = self._made if last and last.commit == checkpoint.parent else []
        old = made[0].parent if made else checkpoint.parent

        def make_durable() -> None:
            """Record the move with all that was written, and only then make that visible."""
            packs = self.objects.writer.sealed()
            log.append(name, old, checkpoint.commit, packs, self._writes if made else ())
            self.objects.writer.place(packs)

        moved = self.repo.refs.update(name, checkpoint.commit, old, make_durable)
        self.committed = [*zip(self._writes, made, strict=True)] if made and moved else []
        self._made = []
        if moved:  # the next one of the session follows it
            self._saved.pop(old, None)
            self._saved[checkpoint.commit] = checkpoint
        return moved
