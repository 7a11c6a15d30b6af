"""A store for frameworks, which save at every step: one disk sync per checkpoint, or for several.

A save writes one small pack. Its bytes are first appended to a log and synced
(gitcp.git.write_ahead_log); then the pack and the ref are created. Sixteen packs are merged into
one (gitcp.git.gathering). Checkpoints are as durable as with any store.

What was only recorded in the log (gitcp.saving.recorded) goes into the pack of the session's next
checkpoint. Checkpoints of several sessions, or several of one, can be saved `together`: they share
the lock, the pack and the sync.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import NamedTuple

from gitcp.errors import StoreBusy, StoreDamaged
from gitcp.git import refs
from gitcp.git.gathering import Gathering, GatheringObjects
from gitcp.git.refs import Update
from gitcp.git.repo import Repository
from gitcp.git.write_ahead_log import LoggedWrite, Move, WriteAheadLog, running
from gitcp.model import Base, Checkpoint, Oid
from gitcp.saving import recorded
from gitcp.state.numbers import Highest
from gitcp.store import Store


class WrittenChain(NamedTuple):
    """New checkpoints of one session, in order, whose ref moves from `old` to the last of them.
    The first of them have what was recorded as `writes`, one each.
    """

    old: Oid | None
    writes: tuple[LoggedWrite, ...]
    made: tuple[Checkpoint, ...]

    @property
    def last(self) -> Checkpoint:
        """Return the checkpoint that the ref moves to."""
        return self.made[-1]

    @property
    def committed(self) -> list[tuple[LoggedWrite, Checkpoint]]:
        """Return what was recorded, each with its checkpoint."""
        return list(zip(self.writes, self.made, strict=False))


class FastStore(Store):
    """The checkpoints of one repository, optimized for many saves per minute. Used only for saving.

    `gathering` tracks the small packs of this process, across its stores of the repository, and
    `highest` the numbers of sessions. On systems without boot ids (other than Linux), every save is
    synced in full, and `log` is None.
    `moved` has, by session, what the refs have moved to since the store was locked last.
    """

    objects: GatheringObjects

    def __init__(
        self,
        repo: Repository,
        gathering: Gathering,
        log: WriteAheadLog | None = None,
        highest: Highest | None = None,
    ) -> None:
        self.log: WriteAheadLog | None = None  # the first lock settles what an earlier run left
        self.moved: Mapping[str, WrittenChain] = {}
        self._chains: dict[str, WrittenChain] = {}
        self._is_together = False
        self._tips: dict[str, Oid | None] = {}
        self._base: Base | None = None
        self._saved: dict[Oid | None, Checkpoint] = {}
        self._highest = highest or Highest()
        super().__init__(repo)
        self.objects = GatheringObjects(repo, gathering)
        self.log = (log or WriteAheadLog(repo)) if running() else None

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Hold the store's lock. Raises StoreBusy within `together`, which has it already."""
        if self._is_together:
            raise StoreBusy("this save needs the store for itself; nothing was changed")
        with super().lock():
            self.moved, self._base = {}, None
            yield

    @contextmanager
    def together(self, sessions: Iterable[str]) -> Iterator[None]:
        """Hold the store's lock for saves of these sessions. Their refs move when the block ends,
        all after one sync. If anything fails, only what is in `moved` was saved. Needs a `log`.
        """
        with self.lock():
            self._is_together = True
            try:
                self._begin(sessions)
                yield
                if not self._move_all():
                    raise StoreBusy("a session moved in the meantime; nothing was saved")
            except BaseException:
                self.writer.discard()
                raise
            finally:
                self._is_together, self._chains, self._tips = False, {}, {}
                self.first_numbers = {}

    @contextmanager
    def lock_session(self, session: str) -> Iterator[None]:
        """Hold the store's lock: the log has one writer at a time. What was recorded for the
        session becomes checkpoints, which the next one follows.
        """
        if self._is_together:
            self._make_recorded(session)
            yield
            return
        with self.lock():
            try:
                self._begin([session])
                self._make_recorded(session)
                yield
            finally:
                self._chains, self.first_numbers = {}, {}

    def _begin(self, sessions: Iterable[str]) -> None:
        """Find the first numbers of new sessions: together, as a git may have to be started."""
        new = [session for session in {*sessions} if self.tip(session) is None]
        self.first_numbers = self._highest.first_of(self, new) if new else {}

    def _make_recorded(self, session: str) -> None:
        if self.log is None or session in self._chains:
            return
        writes = self.log.writes(refs.SESSIONS + session, again=not self._chains)
        with suppress(StoreDamaged):  # the save finds that, too
            if made := tuple(recorded.commit(self, session, writes)):
                self._chains[session] = WrittenChain(made[0].parent, writes, made)

    def _last_made(self, session: str) -> Checkpoint | None:
        """Return the last checkpoint that was made and waits for the ref to move. A save that
        begins anew has discarded it.
        """
        chain = self._chains.get(session)
        return chain.last if chain and chain.last.commit in self.objects.pending else None

    def tip(self, session: str) -> Oid | None:
        """Return a session's last commit, which may be one that the ref will move to."""
        last = self._last_made(session)
        if last is not None:
            return last.commit
        if not self._is_together:
            return super().tip(session)
        if session not in self._tips:  # who else moves it then is noticed at the end
            self._tips[session] = super().tip(session)
        return self._tips[session]

    def base(self) -> Base:
        """Return what HEAD is: within `together`, what it was first."""
        if not self._is_together:
            return super().base()
        self._base = self._base or super().base()
        return self._base

    def read(self, commit: Oid) -> Checkpoint:
        """Return a checkpoint. Raises StoreDamaged and FormatTooNew."""
        made = (chain.last for chain in self._chains.values() if chain.last.commit == commit)
        return next(made, None) or self._saved.get(commit) or super().read(commit)

    def _settle(self) -> None:
        """With a log, only when it is long, and in the background. Most packs are joined, and
        synced, by then; before, each would be synced by itself.
        """
        if self.log is None:
            super()._settle()
        else:
            self.log.settle_if_due()

    def _make_durable(self) -> None:
        """Do nothing with a log: it is synced before refs move."""
        if self.log is None:
            super()._make_durable()

    def _move_session(self, name: str, checkpoint: Checkpoint) -> bool:
        """Move the ref, or let it wait for the end of `together`."""
        session, last = checkpoint.id.session, self._last_made(checkpoint.id.session)
        if self.log is None:
            if moved := super()._move_session(name, checkpoint):
                self.moved = {session: WrittenChain(checkpoint.parent, (), (checkpoint,))}
            return moved
        follows = last is not None and last.commit == checkpoint.parent
        old, writes, made = (
            self._chains[session] if follows else WrittenChain(checkpoint.parent, (), ())
        )
        self._chains[session] = WrittenChain(old, writes, (*made, checkpoint))
        return self._is_together or self._move_all()

    def _move_all(self) -> bool:
        """Move the ref of each chain. Return False, with none moved, if one has moved meanwhile."""
        assert self.log is not None
        log, chains, self._chains = self.log, self._chains, {}
        moves = [
            Move(refs.SESSIONS + session, chain.old, chain.last.commit, chain.writes)
            for session, chain in chains.items()
        ]

        def make_durable() -> None:
            """Record the moves with all that was written, and only then make that visible."""
            packs = self.objects.writer.sealed()
            log.append(moves, packs)
            self.objects.writer.place(packs)

        updates = [Update(move.ref, move.new, move.old) for move in moves]
        try:
            if not self.repo.refs.update_all(updates, make_durable):
                return False
            self.moved = chains
        except BaseException:
            self.moved = {
                session: chain
                for session, chain in chains.items()
                if super(FastStore, self).tip(session) == chain.last.commit
            }
            raise
        finally:
            self._remember(self.moved.values())
        return True

    def has_moved_to(self, commit: Oid | None) -> bool:
        """Return whether this is one of the checkpoints in `moved`."""
        return any(each.commit == commit for chain in self.moved.values() for each in chain.made)

    def _remember(self, chains: Iterable[WrittenChain]) -> None:
        """Keep the last checkpoints: the next ones of their sessions follow them."""
        for chain in chains:
            self._highest.add(chain.old, chain.last.commit, chain.last.id)
            self._saved.pop(chain.old, None)
            self._saved[chain.last.commit] = chain.last
