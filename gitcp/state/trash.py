"""The trash: refs dropped by prune and delete, under `refs/gitcp/trash/<time>/`, until they expire
or are restored.

Each entry contains the refs as they were: `sessions/<session>` and `tags/<name>`, and for fetched
ones `fetched-sessions/<remote>/<session>` and `fetched-tags/<remote>/<name>`. Dropped checkpoints
can therefore be read, shown and fetched by git as before. When an entry is removed, git's own gc
deletes the objects eventually.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from gitcp import wire
from gitcp.errors import Refused, RevisionNotFound
from gitcp.git import refs
from gitcp.model import CheckpointId, Oid
from gitcp.retention import ranges
from gitcp.state import numbers, oplog, rewrite
from gitcp.state.oplog import Operation
from gitcp.state.rewrite import Forest, RefMove
from gitcp.store import Store, Summary
from gitcp.value import EMPTY, Value

KEPT_FOR = timedelta(days=14)
NAME = re.compile(r"(\d{8}T\d{6}Z)(-damaged)?(?:-\d+)?")
FORM = "%Y%m%dT%H%M%SZ"
FORKED = "Gitcp-Forked-From"


class DroppedRefs(Value):
    """The refs that one operation dropped, and when (None if the name is not a time). Fetched ones
    are keyed by `REMOTE/NAME`.
    """

    name: str
    time: datetime | None
    sessions: Mapping[str, Oid] = EMPTY
    tags: Mapping[str, Oid] = EMPTY
    fetched_sessions: Mapping[str, Oid] = EMPTY
    fetched_tags: Mapping[str, Oid] = EMPTY

    def read(self, store: Store, *, despite_damage: bool = False) -> Forest:
        """Return all checkpoints in the entry. Raises StoreDamaged, or skips damaged ones."""
        sessions, tags = (
            {**self.sessions, **self.fetched_sessions},
            {**self.tags, **self.fetched_tags},
        )
        return rewrite.read(store, sessions, tags, despite_damage=despite_damage)

    @property
    def is_damaged(self) -> bool:
        """Return whether the entry contains a quarantined session: only a person's prune removes
        it.
        """
        match = NAME.fullmatch(self.name)
        return match is not None and match[2] is not None

    @property
    def refs(self) -> list[RefMove]:
        """Return the moves that remove the entry. Tags come first, so that a partly removed entry
        still has complete chains.
        """
        parts = (
            ("tags", self.tags),
            ("sessions", self.sessions),
            ("fetched-tags", self.fetched_tags),
            ("fetched-sessions", self.fetched_sessions),
        )
        return [
            RefMove(f"{refs.TRASH}{self.name}/{part}/{n}", oid, None)
            for part, values in parts
            for n, oid in values.items()
        ]


class Restored(Value):
    """What undoing the prune or delete with the number `operation` restores: checkpoints, and tags
    by name. Both are empty where all of it is here again, as after a fetch.
    """

    operation: int
    checkpoints: tuple[CheckpointId, ...]
    tags: tuple[str, ...] = ()

    def to_json(self) -> wire.Json:
        """Return the fields that `gitcp undo --json` prints."""
        return {
            "operation": self.operation,
            "checkpoints": [str(id) for id in self.checkpoints],
            "tags": list(self.tags),
        }


class RestoredEntry(Value):
    """The result of undoing a prune or delete: the logged operation, and what was restored."""

    operation: Operation
    restored: Restored

    @property
    def checkpoints(self) -> tuple[CheckpointId, ...]:
        """The restored checkpoints."""
        return self.restored.checkpoints


def entries(store: Store) -> tuple[DroppedRefs, ...]:
    """Return all entries of the trash, oldest first. Reads only."""
    parts: dict[str, dict[str, dict[str, Oid]]] = {}
    for ref, oid in store.repo.refs.list(refs.TRASH, refs.UNREADABLE_REF).items():
        name, _, rest = ref.removeprefix(refs.TRASH).partition("/")
        part, _, last = rest.partition("/")
        parts.setdefault(name, {}).setdefault(part.replace("-", "_"), {})[last] = oid
    kinds = ("sessions", "tags", "fetched_sessions", "fetched_tags")
    return tuple(
        DroppedRefs(n, _time(n), *(p.get(part, {}) for part in kinds))
        for n, p in sorted(parts.items())
    )


def trash_fetched(ref: str, value: Oid, trash: str) -> tuple[RefMove, RefMove]:
    """Return the moves that put a fetched ref (`refs/gitcp/remotes/REMOTE/KIND/NAME`) into the
    trash.
    """
    remote, kind, name = ref.removeprefix(refs.REMOTES).split("/", 2)
    return RefMove(f"{refs.TRASH}{trash}/fetched-{kind}/{remote}/{name}", None, value), RefMove(
        ref, value, None
    )


def new_name(store: Store, now: datetime, *, damaged: bool = False) -> str:
    """Return a name for a new entry."""
    names = {entry.name for entry in entries(store)}
    base = now.astimezone(UTC).strftime(FORM) + ("-damaged" if damaged else "")
    return next(
        n for n in (base, *(f"{base}-{k}" for k in range(2, len(names) + 3))) if n not in names
    )


def expired(store: Store, now: datetime, after: timedelta = KEPT_FOR) -> tuple[DroppedRefs, ...]:
    """Return the entries that are older than `after`."""
    return tuple(
        entry for entry in entries(store) if entry.time is not None and now - entry.time >= after
    )


def forget(store: Store, expired_entries: Iterable[DroppedRefs]) -> tuple[str, ...]:
    """Remove entries from the trash and return their names. The caller holds the store's lock.

    If interrupted, some entries are left shorter; the next call removes them.
    """
    names = []
    for entry in expired_entries:
        for move in entry.refs:
            store.move_ref(move.ref, move.old, None)
        rewrite.tidy(store, entry.refs)
        names.append(entry.name)
    return tuple(names)


def planned(store: Store, operation: Operation) -> Restored:
    """Return what `bring_back` would restore. Raises what it would raise. Reads only."""
    return _restored(store, operation, *_restorable(store, operation))


def bring_back(store: Store, operation: Operation) -> RestoredEntry:
    """Undo a prune, a delete, or what a fetch dropped: restore its refs; what was saved since comes
    after the restored checkpoints. A session or tag that was fetched in place of a fetched one goes
    to the trash in turn.

    Raises RevisionNotFound if it is no longer in the trash, Refused if a session's name means
    another one since. Then nothing was changed.
    """
    with store.lock():
        rewrite.finish(store)
        entry, current, dropped = _restorable(store, operation)
        union = _union(store, current, dropped)
        both = {**dropped.nodes, **current.nodes}
        new_commits = {commit: union[_same(node)] for commit, node in both.items()}
        restored = _restored(store, operation, entry, current, dropped)
        restored_moves = [
            *_restore_missing(store, entry, current, dropped, union, restored.tags),
            *rewrite.moves(store, current, new_commits, entry.tags, _last(current, dropped)),
        ]
        now = store.repo.host.now()
        name = new_name(store, now)
        swapped = _swap_fetched(store, entry, name)
        restored_moves += [*swapped, *_restore_fetched(store, entry)]
        _reserve_numbers(store, current, restored_moves)
        undo = Operation(
            number=0,
            time=now,
            what="undo",
            summary=f"{operation.what} of {summarize(restored.checkpoints)}",
            worktree=store.repo.worktree_name,
            trash=name if swapped else None,
            of=operation.number,
        )
        done = rewrite.carry_out(store, [*restored_moves, *entry.refs], undo)
        return RestoredEntry(done, restored)


def _restorable(store: Store, operation: Operation) -> tuple[DroppedRefs, Forest, Forest]:
    """Return the entry of a prune or delete, what is here now, and what was dropped. Raises as
    `bring_back`.
    """
    entry = next((each for each in entries(store) if each.name == operation.trash), None)
    if entry is None:
        raise RevisionNotFound(
            f"what operation {operation.number} ({operation.what}) dropped is no longer in the "
            "trash: nothing was changed",
            hint="gitcp log --operations",
        )
    current = rewrite.read(store, despite_damage=True)
    dropped = rewrite.read(store, entry.sessions, entry.tags)
    _refuse_damaged(operation, current)
    _refuse_deleted(store, operation, entry, current)
    _refuse_others(operation, current, dropped)
    return entry, current, dropped


def _reserve_numbers(store: Store, now: Forest, moves: Iterable[RefMove]) -> None:
    """Let the sessions that a restore begins or ends otherwise go on after what is still in the
    trash of them.
    """
    own = {move.ref: move.new for move in moves if move.ref.startswith(refs.SESSIONS)}
    tips = {ref.removeprefix(refs.SESSIONS): new for ref, new in own.items() if new}
    ends = {session: now.nodes[tip].id.number for session, tip in now.sessions.items()}
    moved = {
        session: tip
        for session, tip in tips.items()
        if ends.get(session) != store.summary(tip).id.number
    }
    numbers.stand_at(store, moved)


def _restored(
    store: Store, operation: Operation, entry: DroppedRefs, now: Forest, then: Forest
) -> Restored:
    ids = _missing(store, entry, now, then)
    return Restored(operation.number, ids, _tags(store, operation, entry, now, then))


def _missing(
    store: Store, entry: DroppedRefs, now: Forest, then: Forest
) -> tuple[CheckpointId, ...]:
    here = {_same(node) for node in now.nodes.values()}
    ids = {node.id for node in then.nodes.values() if _same(node) not in here}
    # Those fetched again since were said to be restored.
    for name, tip in entry.fetched_sessions.items():
        fetched = {_same(node) for node in _held(store, name)}
        ids |= {node.id for node in store.readable(tip) if _same(node) not in fetched}
    return tuple(sorted(ids))


def _tags(
    store: Store, operation: Operation, entry: DroppedRefs, now: Forest, then: Forest
) -> tuple[str, ...]:
    """Return the tags that an undo restores: one's own whose names are free, and fetched ones. One
    that the user removed since, from a checkpoint that the operation kept, stays removed.
    """
    here = {_same(node) for node in now.nodes.values()}
    own = (name for name in entry.tags if name not in now.tags)
    tagged = ((name, then.nodes[then.tagged[name]]) for name in own)
    # Those of a session that was deleted and taken over again were dropped for good.
    names = (n for n, at in tagged if _same(at) not in here or _was_dropped(operation, at.id))
    fetched = (n for n, oid in entry.fetched_tags.items() if _fetched(store, n, "tags") != oid)
    return (*sorted(names), *sorted(fetched))


def _was_dropped(operation: Operation, id: CheckpointId) -> bool:
    return any(a <= id.number <= b for a, b in operation.dropped.get(id.session, ()))


def _fetched(store: Store, name: str, kind: str = "sessions") -> Oid | None:
    """Return the value of a fetched ref, `REMOTE/NAME`, None if there is none now."""
    return store.repo.refs.read(_fetched_ref(name, kind))


def _held(store: Store, name: str) -> tuple[Summary, ...]:
    """Return the checkpoints of a fetched session, `REMOTE/SESSION`; none if it is not here."""
    here = _fetched(store, name)
    return tuple(store.readable(here)) if here else ()


def _fetched_ref(name: str, kind: str) -> str:
    remote, _, last = name.partition("/")
    return f"{refs.REMOTES}{remote}/{kind}/{last}"


def _last(now: Forest, then: Forest) -> dict[str, Oid]:
    """Return the commit that each session in both ends with: one that was taken over again, from a
    remote, may have fewer checkpoints than it had.
    """
    # An undo left the session where the remote had it, and its later checkpoints were lost.
    ends = {}
    for session in then.sessions.keys() & now.sessions.keys():
        here, before = (forest.nodes[forest.sessions[session]] for forest in (now, then))
        if here.id.session == before.id.session and before.id.number > here.id.number:
            ends[session] = before.commit
    return ends


def summarize(ids: Iterable[CheckpointId]) -> str:
    """Return ids in compact form: `alpha@1-9, beta@3`."""
    ranges_by_session = ranges(ids)
    numbers = {
        s: ",".join(str(a) if a == b else f"{a}-{b}" for a, b in runs)
        for s, runs in ranges_by_session.items()
    }
    return ", ".join(f"{session}@{text}" for session, text in numbers.items()) or "nothing"


class _Same(NamedTuple):
    """The identity of a checkpoint, independent of its parent. The id alone is not enough: a fork
    of another person's checkpoints may contain ids equal to ours.
    """

    id: CheckpointId
    root: Oid
    created: datetime
    says: tuple[str, ...]


def _same(node: Summary) -> _Same:
    trailers = (f"{name}: {value}" for name, value in sorted(node.trailers.items()))
    return _Same(node.id, node.root, node.created, (node.subject, *trailers))


def _refuse_others(operation: Operation, now: Forest, then: Forest) -> None:
    """Refuse if a session has another checkpoint with the same number by now, or is a fork now: a
    fork's chain begins where it was forked.
    """
    renewed = then.sessions.keys() & now.sessions.keys()
    # Undo of a delete was refused where the session had gone on under its name, as a live agent's
    # hooks make it, and everything before it with it.
    changed = {name for name in renewed if _is_another(name, now, then)}
    if operation.what == "delete":
        changed |= {name for name in renewed if _is_fork(name, now)}
    if changed:
        session = min(changed)
        raise Refused(
            f"the name {session} is another session's now: nothing was changed",
            hint=f"git log {refs.TRASH}{operation.trash}/sessions/{session}",
        )


def _refuse_deleted(store: Store, operation: Operation, entry: DroppedRefs, now: Forest) -> None:
    """Refuse to undo a prune of a session that was deleted since: it would be here again without
    what was saved in between.
    """
    if operation.what != "prune":
        return
    gone = entry.sessions.keys() - now.sessions.keys() - now.damaged.keys()
    in_trash = {each.name: each.sessions for each in entries(store)}
    for later in reversed(oplog.entries(store.repo)):
        if later.trash == entry.name:
            return
        names = gone & in_trash.get(later.trash or "", EMPTY).keys()
        if names and later.what != oplog.QUARANTINE:
            number = later.of or later.number
            raise Refused(
                f"session {min(names)} was deleted since, by operation {number}: nothing was "
                "changed",
                hint=f"gitcp undo {number}",
            )


def _is_fork(session: str, forest: Forest) -> bool:
    chain = forest.chain(forest.sessions.get(session))
    return any(FORKED in node.trailers for node in chain if node.id.session == session)


def _refuse_damaged(operation: Operation, now: Forest) -> None:
    """Refuse if a session is unreadable: it cannot be joined with its dropped checkpoints."""
    for session in now.damaged.keys() & operation.dropped.keys():
        raise Refused(
            f"session {session} is damaged: nothing was changed", hint="gitcp doctor --store"
        )


def _is_another(session: str, now: Forest, then: Forest) -> bool:
    before, here = ({each.id: each for each in _own(forest, session)} for forest in (then, now))
    return any(before[id] != here[id] for id in before.keys() & here.keys())


def _own(forest: Forest, session: str) -> Iterator[_Same]:
    """Yield the session's own checkpoints, without those of the session it was forked from."""
    chain = forest.chain(forest.sessions.get(session))
    return (_same(node) for node in chain if node.id.session == session)


def _union(store: Store, now: Forest, then: Forest) -> dict[_Same, Oid]:
    """Return the commits of all checkpoints of both forests, each on top of the one with the next
    lower number. Commits are reused where their parent fits.

    Checkpoints restored from elsewhere or saved meanwhile come in between or after: nothing is left
    out. If two lines have the same numbers, checkpoints of other sessions keep their place behind
    the one before.
    """
    variants: dict[_Same, list[Summary]] = {}
    for forest in (then, now):
        for node in forest.nodes.values():
            variants.setdefault(_same(node), []).append(node)
    known = {node.commit: _same(node) for forest in (now, then) for node in forest.nodes.values()}
    begun, apart = _lines(now, then), _fork_only(now, then)
    last: dict[_Same, Oid] = {}
    union: dict[_Same, Oid] = {}
    # numbers rise along every chain, forks too
    for same in sorted(variants, key=lambda same: same.id.number):
        before = (
            None if FORKED in variants[same][0].trailers or same in apart else last.get(begun[same])
        )
        behind = [known[node.parent] for node in variants[same] if node.parent]
        nearest = max(behind, key=lambda each: each.id.number, default=None)
        parent = before or (union[nearest] if nearest else None)
        fitting = next((node.commit for node in variants[same] if node.parent == parent), None)
        union[same] = fitting or store.reparent(variants[same][0].commit, parent)
        if same not in apart:
            last[begun[same]] = union[same]
    store.writer.flush(keep=True)
    return union


def _fork_only(now: Forest, then: Forest) -> set[_Same]:
    """Return the checkpoints reachable only from forks, of sessions that exist in two lines."""
    every = {_same(node) for forest in (then, now) for node in forest.nodes.values()}
    seen: dict[CheckpointId, int] = {}
    for same in every:
        seen[same.id] = seen.get(same.id, 0) + 1
    twofold = {id.session for id, count in seen.items() if count > 1}
    own = {
        same for forest in (then, now) for name in forest.sessions for same in _own(forest, name)
    }
    return {same for same in every - own if same.id.session in twofold}


def _lines(now: Forest, then: Forest) -> dict[_Same, _Same]:
    """Map each checkpoint to a representative of its session's line: forks of a deleted session
    stay separate from a new session of the same name.
    """
    known = {node.commit: _same(node) for forest in (then, now) for node in forest.nodes.values()}
    lines = {same: same for same in known.values()}

    def standing(same: _Same) -> _Same:
        while lines[same] != same:
            same = lines[same]
        return same

    for forest in (then, now):
        for node in forest.nodes.values():
            before = known[node.parent] if node.parent else known[node.commit]
            if before.id.session == node.id.session and FORKED not in node.trailers:
                lines[standing(known[node.commit])] = standing(before)
    for session in then.sessions.keys() & now.sessions.keys():
        one, other = (known[forest.sessions[session]] for forest in (now, then))
        if one.id.session == other.id.session:
            lines[standing(one)] = standing(other)
    return {same: standing(same) for same in lines}


def _restore_missing(
    store: Store,
    entry: DroppedRefs,
    now: Forest,
    then: Forest,
    union: Mapping[_Same, Oid],
    tags: Iterable[str],
) -> list[RefMove]:
    """Return the moves for missing sessions and for `tags`."""
    moves = []
    for session, tip in entry.sessions.items():
        if session not in now.sessions:
            moves.append(RefMove(refs.SESSIONS + session, None, union[_same(then.nodes[tip])]))
    for tag in entry.tags.keys() & tags:
        value, commit = entry.tags[tag], then.tagged[tag]
        new = union[_same(then.nodes[commit])]
        moves.append(
            RefMove(refs.TAGS + tag, None, value if commit == new else store.retag(value, new))
        )
    store.writer.flush(keep=True)
    return moves


def _swap_fetched(store: Store, entry: DroppedRefs, trash: str) -> list[RefMove]:
    """Return the moves that put back the fetched sessions and tags that others were fetched in
    place of, and those into the trash entry `trash`.
    """
    copies, moves = [], []
    for kind, name, old in _all_fetched(entry):
        ref, here = _fetched_ref(name, kind), _fetched(store, name, kind)
        known = _held(store, name) if kind == "sessions" else ()
        if here is not None and old not in {here, *(node.commit for node in known)}:
            copies.append(trash_fetched(ref, here, trash)[0])
            moves.append(RefMove(ref, here, old))
    return [*copies, *moves]


def _restore_fetched(store: Store, entry: DroppedRefs) -> list[RefMove]:
    """Return the moves for the fetched refs that are not here."""
    return [
        RefMove(_fetched_ref(name, kind), None, old)
        for kind, name, old in _all_fetched(entry)
        if _fetched(store, name, kind) is None
    ]


def _all_fetched(entry: DroppedRefs) -> Iterator[tuple[str, str, Oid]]:
    """Yield the fetched refs of an entry: kind, name, and value."""
    for kind, values in (("sessions", entry.fetched_sessions), ("tags", entry.fetched_tags)):
        for name, value in values.items():
            yield kind, name, value


def _time(name: str) -> datetime | None:
    match = NAME.fullmatch(name)
    try:
        return datetime.strptime(match[1], FORM).replace(tzinfo=UTC) if match else None
    except ValueError:
        return None
