"""A store for frameworks, which save at every step: one disk sync per checkpoint.

A save writes one small pack. Its bytes are first appended to a log and synced
(gitcp.git.write_ahead_log); then the pack and the ref are created. Sixteen packs are merged into
one (gitcp.git.gathering). Checkpoints are as durable as with any store.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from gitcp.git.gathering import Gathering, GatheringObjects
from gitcp.git.repo import Repository
from gitcp.git.write_ahead_log import WriteAheadLog, running
from gitcp.model import Checkpoint
from gitcp.store import Store


class FastStore(Store):
    """The checkpoints of one repository, optimized for many saves per minute. Used only for saving.

    `gathering` tracks the small packs of this process, across its stores of the repository. On
    systems without boot ids (other than Linux), every save is synced in full.
    """

    objects: GatheringObjects

    def __init__(self, repo: Repository, gathering: Gathering) -> None:
        self._log: WriteAheadLog | None = None  # the first lock settles what an earlier run left
        super().__init__(repo)
        self.objects = GatheringObjects(repo, gathering)
        self._log = WriteAheadLog(repo) if running() else None

    @contextmanager
    def lock_session(self, session: str) -> Iterator[None]:  # noqa: ARG002 -- Store's
        """Hold the store's lock: the log has one writer at a time."""
        with self.lock():
            yield

    def _settle(self) -> None:
        """With a log, only when it is long. The packs of the last save are joined, and synced, by
        now; before, each would be synced by itself.
        """
        if self._log is None:
            super()._settle()
        elif self._log.is_due():
            self._log.settle()

    def _make_durable(self) -> None:
        """Do nothing with a log: `advance` syncs it."""
        if self._log is None:
            super()._make_durable()

    def _move_session(self, name: str, checkpoint: Checkpoint) -> bool:
        if self._log is None:
            return super()._move_session(name, checkpoint)
        log = self._log

        def make_durable() -> None:
            """Record the move with all that was written, and only then make that visible."""
            packs = self.objects.writer.sealed()
            log.append(name, checkpoint.parent, checkpoint.commit, packs)
            self.objects.writer.place(packs)

        return self.repo.refs.update(name, checkpoint.commit, checkpoint.parent, make_durable)
