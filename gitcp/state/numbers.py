"""The number of a session's next checkpoint: one that no checkpoint of that name has in any ref.

A session that was deleted and is saved to again continues its numbers: a fork, a tag, the trash or
fetched refs may still have the old ones, and an id means one checkpoint forever.

To read all refs at each save would be slow. A session that stands at its newest checkpoint goes on
from there; whoever lets one stand at an older one reserves the numbers in between, once, in
`<git dir>/gitcp/numbers`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress

from gitcp import wire
from gitcp.errors import GitFailed, StoreDamaged
from gitcp.git import refs
from gitcp.model import Checkpoint, CheckpointId, Oid
from gitcp.state import documents, oplog
from gitcp.store import Store, Summary

NAME = "numbers"


def following(store: Store, session: str, last: Checkpoint | None) -> int:
    """Return the number of the next checkpoint of a session, whose last one is `last`; None if
    there is no such session. Reads one small file, or what `first` reads.
    """
    if last is None:
        return first(store, session)
    return max(last.id.number + 1, reserved(store, f"{session}@").get(session, 0))


def reserved(store: Store, start: str = "") -> dict[str, int]:
    """Return the lowest numbers that the next checkpoints of sessions may have, as far as they were
    reserved; with `start`, only those of ids that begin so. A damaged file has none.
    """
    ids = documents.peek(store.repo.common_dir / "gitcp" / NAME).get("next")
    numbers: dict[str, int] = {}
    for text in ids if isinstance(ids, list) else ():
        with suppress(ValueError):
            if isinstance(text, str) and text.startswith(start) and (id := wire.parse_id(text)):
                numbers[id.session] = max(id.number, numbers.get(id.session, 0))
    return numbers


def reserve(store: Store, numbers: Mapping[str, int]) -> None:
    """Let the next checkpoints of these sessions have at least these numbers. The caller holds the
    store's lock, and moves the refs afterwards. Writes one file. Raises DiskFull, GitcpError.
    """
    known = reserved(store)
    new = {name: number for name, number in numbers.items() if number > known.get(name, 0)}
    if new:
        ids = sorted(map(CheckpointId._make, {**known, **new}.items()))
        fields = {"schema": "gitcp.numbers/1", "next": [str(id) for id in ids]}
        documents.write(store.repo.store_dir / NAME, fields)


def stand_at(store: Store, tips: Mapping[str, Oid]) -> None:
    """Reserve the numbers after those that any ref has of these sessions, whose refs are about to
    name these commits, where they would have them again. Calls and raises as `reserve`.
    """
    if not tips:
        return
    numbers = first_of(store, [*tips])
    ends = {session: store.summary(tip).id.number for session, tip in tips.items()}
    reserve(store, {name: each for name, each in numbers.items() if each > ends[name] + 1})


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
