"""The number of a session's first checkpoint: one that no checkpoint of that name has in any ref.

A session that was deleted and is saved to again continues its numbers: a fork, a tag, the trash or
fetched refs may still have the old ones, and an id means one checkpoint forever.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from gitcp.errors import GitFailed, StoreDamaged
from gitcp.git import refs
from gitcp.model import CheckpointId, Oid
from gitcp.state import oplog
from gitcp.store import Store, Summary


def first(store: Store, session: str) -> int:
    """Return the number after the highest one of this session. Reads commits of every ref of gitcp.

    Unreadable checkpoints are skipped: a damaged chain must not block saving.
    """
    return store.first_numbers.get(session) or first_of(store, [session])[session]


def first_of(store: Store, sessions: Sequence[str]) -> dict[str, int]:
    """Return the same for several sessions, which takes as long as for one."""
    tips = _tips(store)
    highest: dict[str, int] = {}
    try:
        if tips and sessions:
            greps = (f"--grep=Gitcp-Session: {session}" for session in sessions)
            _raise(highest, store.forest(tips, "--fixed-strings", *greps))
    except (GitFailed, StoreDamaged):
        highest = {session: max(_readable(store, session, tips)) for session in sessions}
    return {
        session: max(highest.get(session, 0), _highest_quarantined(store, session)) + 1
        for session in sessions
    }


class Highest:
    """The highest number of every session, for a process that begins many sessions. Reads only the
    commits that were added since its last look.
    """

    def __init__(self) -> None:
        self._seen: frozenset[Oid] = frozenset()
        self._own: dict[str, Oid] = {}
        self._numbers: dict[str, int] = {}

    def add(self, old: Oid | None, new: Oid, id: CheckpointId) -> None:
        """Add what this process has saved: the ref of a session has moved from `old` (None: it did
        not exist) to the commit of the checkpoint with this id.
        """
        if old is None or old in self._seen or old == self._own.get(id.session):
            self._own[id.session] = new
            self._numbers[id.session] = max(id.number, self._numbers.get(id.session, 0))

    def first_of(self, store: Store, sessions: Sequence[str]) -> dict[str, int]:
        """Return for each of these sessions the number after its highest one."""
        tips, seen = frozenset(_tips(store)), self._seen.union(self._own.values())
        try:
            self._look(store, tips - seen, seen)
        except (GitFailed, StoreDamaged):
            return first_of(store, sessions)
        self._seen, self._own = tips, {}
        return {
            session: max(self._numbers.get(session, 0), _highest_quarantined(store, session)) + 1
            for session in sessions
        }

    def _look(self, store: Store, new: Collection[Oid], seen: Collection[Oid]) -> None:
        """Read what the new commits reach and those seen do not, which may be gone."""
        if not new:
            return
        commits = [*sorted(new), *(f"^{commit}" for commit in sorted(seen))]
        _raise(self._numbers, store.forest(commits, "--ignore-missing"))


def highest(store: Store) -> dict[str, int]:
    """Return the highest number of every session that any ref of gitcp has, or that was quarantined
    as damaged. Unreadable checkpoints are skipped.
    """
    tips = _tips(store)
    numbers: dict[str, int] = {}
    _raise(numbers, _all_readable(store, tips))
    for operation in oplog.entries(store.repo):
        if operation.what == oplog.QUARANTINE:
            for session, runs in operation.dropped.items():
                numbers[session] = max(numbers.get(session, 0), *(last for _, last in runs), 0)
    return numbers


def _tips(store: Store) -> list[Oid]:
    return sorted(set(refs.tips(store.repo.refs.list(refs.PREFIX, refs.UNREADABLE_REF)).values()))


def _all_readable(store: Store, tips: Sequence[Oid]) -> list[Summary]:
    try:
        return list(store.forest(tips)) if tips else []
    except (GitFailed, StoreDamaged):
        return [summary for tip in tips for summary in store.readable(tip)]


def _raise(numbers: dict[str, int], summaries: Iterable[Summary]) -> None:
    """Raise the highest number of each session to those of these checkpoints."""
    for summary in summaries:
        known = numbers.get(summary.id.session, 0)
        numbers[summary.id.session] = max(summary.id.number, known)


def _readable(store: Store, session: str, tips: Iterable[Oid]) -> Iterable[int]:
    yield 0
    for tip in tips:
        # Numbers decrease along a chain: the first match is the highest.
        yield next((s.id.number for s in store.readable(tip) if s.id.session == session), 0)


def _highest_quarantined(store: Store, session: str) -> int:
    """Return the highest number of this session that was quarantined as damaged."""
    quarantines = (
        operation for operation in oplog.entries(store.repo) if operation.what == oplog.QUARANTINE
    )
    return max(
        (last for operation in quarantines for _, last in operation.dropped.get(session, ())),
        default=0,
    )
