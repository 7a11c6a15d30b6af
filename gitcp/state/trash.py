"""The trash: what prune and delete put away, under `refs/gitcp/trash/<time>/`, until it expires or
is brought back.

Each entry holds the refs as they were: `sessions/<session>` and `tags/<name>`; of what came from
others `fetched-sessions/<remote>/<session>` and `fetched-tags/<remote>/<name>`. So whatever was
dropped can be read, shown and fetched by git as before. When an entry is forgotten, git's own gc
takes the objects in its own time.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from gitcp.errors import Refused, RevisionNotFound
from gitcp.git import refs
from gitcp.model import CheckpointId, Oid
from gitcp.retention import ranges
from gitcp.state import rewrite
from gitcp.state.oplog import Operation
from gitcp.state.rewrite import Forest, Move
from gitcp.store import Store, Summary
from gitcp.value import EMPTY, Value

KEPT_FOR = timedelta(days=14)
NAME = re.compile(r"(\d{8}T\d{6}Z)(-damaged)?(?:-\d+)?")
FORM = "%Y%m%dT%H%M%SZ"
FORKED = "Gitcp-Forked-From"


class Entry(Value):
    """What one operation put away, and when (None where the name is no time). What was fetched is
    by `REMOTE/NAME`.
    """

    name: str
    time: datetime | None
    sessions: Mapping[str, Oid] = EMPTY
    tags: Mapping[str, Oid] = EMPTY
    fetched_sessions: Mapping[str, Oid] = EMPTY
    fetched_tags: Mapping[str, Oid] = EMPTY

    def read(self, store: Store, *, despite_damage: bool = False) -> Forest:
        """All checkpoints in it. Raises StoreDamaged, or leaves out what is damaged."""
        sessions, tags = (
            {**self.sessions, **self.fetched_sessions},
            {**self.tags, **self.fetched_tags},
        )
        return rewrite.read(store, sessions, tags, despite_damage=despite_damage)

    @property
    def is_damaged(self) -> bool:
        """Whether a damaged session was put away here: it is not forgotten unless a person
        prunes.
        """
        match = NAME.fullmatch(self.name)
        return match is not None and match[2] is not None

    @property
    def refs(self) -> list[Move]:
        """The moves that forget it: its tags first, so that half of it is still whole chains."""
        parts = (
            ("tags", self.tags),
            ("sessions", self.sessions),
            ("fetched-tags", self.fetched_tags),
            ("fetched-sessions", self.fetched_sessions),
        )
        return [
            Move(f"{refs.TRASH}{self.name}/{part}/{n}", oid, None)
            for part, found in parts
            for n, oid in found.items()
        ]


class BroughtBack(Value):
    """What an undo brought back: the operation that did it, and the checkpoints that are there
    again.
    """

    operation: Operation
    checkpoints: tuple[CheckpointId, ...]


def entries(store: Store) -> tuple[Entry, ...]:
    """Everything in the trash, the oldest first. Reads only."""
    parts: dict[str, dict[str, dict[str, Oid]]] = {}
    for ref, oid in refs.list_refs(store.repo.common_dir, refs.TRASH, refs.NOTHING).items():
        name, _, rest = ref.removeprefix(refs.TRASH).partition("/")
        part, _, last = rest.partition("/")
        parts.setdefault(name, {}).setdefault(part.replace("-", "_"), {})[last] = oid
    known = ("sessions", "tags", "fetched_sessions", "fetched_tags")
    return tuple(
        Entry(n, _time(n), *(p.get(part, {}) for part in known)) for n, p in sorted(parts.items())
    )


def put_away(ref: str, value: Oid, trash: str) -> tuple[Move, Move]:
    """The moves that put a ref of what was fetched (`refs/gitcp/remotes/REMOTE/KIND/NAME`) into the
    trash.
    """
    remote, kind, name = ref.removeprefix(refs.REMOTES).split("/", 2)
    return Move(f"{refs.TRASH}{trash}/fetched-{kind}/{remote}/{name}", None, value), Move(
        ref, value, None
    )


def new_name(store: Store, now: datetime, *, damaged: bool = False) -> str:
    """A name for what is put away now."""
    taken = {entry.name for entry in entries(store)}
    base = now.astimezone(UTC).strftime(FORM) + ("-damaged" if damaged else "")
    return next(
        n for n in (base, *(f"{base}-{k}" for k in range(2, len(taken) + 3))) if n not in taken
    )


def expired(store: Store, now: datetime, after: timedelta = KEPT_FOR) -> tuple[Entry, ...]:
    """What was put away longer ago than `after`."""
    return tuple(
        entry for entry in entries(store) if entry.time is not None and now - entry.time >= after
    )


def forget(store: Store, found: Iterable[Entry]) -> tuple[str, ...]:
    """Let go of what is in the trash; the names of what was forgotten. The caller holds the store's
    lock.

    Interrupted, it leaves entries that are shorter, and is done by the next one.
    """
    names = []
    for entry in found:
        for move in entry.refs:
            store.move_ref(move.ref, move.old, None)
        rewrite.tidy(store, entry.refs)
        names.append(entry.name)
    return tuple(names)


def bring_back(store: Store, operation: Operation) -> BroughtBack:
    """Undo a prune or delete: what it put away stands where it stood, and what was saved since
    comes after it.

    Raises RevisionNotFound if it is not in the trash any more, Refused if the name of a session was
    taken since. Then nothing was changed.
    """
    with store.lock():
        rewrite.finish(store)
        entry = next((each for each in entries(store) if each.name == operation.trash), None)
        if entry is None:
            what = (
                f"what operation {operation.number} ({operation.what}) dropped is not in the trash "
                "any more"
            )
            raise RevisionNotFound(f"{what}: nothing was changed", hint="gitcp oplog")
        now, then = (
            rewrite.read(store, despite_damage=True),
            rewrite.read(store, entry.sessions, entry.tags),
        )
        _refuse_damaged(operation, now)
        _refuse_others(operation, now, then)
        union = _union(store, now, then)
        becomes = {commit: union[_same(node)] for commit, node in now.nodes.items()}
        found = [
            *_missing(store, entry, now, then, union),
            *rewrite.moves(store, now, becomes, entry.tags),
        ]
        found += _fetched(store, entry)
        ids = {each.id for each in union.keys() - {_same(node) for node in now.nodes.values()}}
        ids |= {node.id for node in rewrite.read(store, entry.fetched_sessions, {}).nodes.values()}
        made = Operation(
            number=0,
            time=store.repo.host.now(),
            what="undo",
            said=f"{operation.what} of {said(ids)}",
            worktree=store.repo.worktree_name,
            of=operation.number,
        )
        return BroughtBack(
            rewrite.carry_out(store, [*found, *entry.refs], made), tuple(sorted(ids))
        )


def said(ids: Iterable[CheckpointId]) -> str:
    """Ids in few words: `alpha@1-9, beta@3`."""
    found = ranges(ids)
    numbers = {
        s: ",".join(str(a) if a == b else f"{a}-{b}" for a, b in runs) for s, runs in found.items()
    }
    return ", ".join(f"{session}@{text}" for session, text in numbers.items()) or "nothing"


class _Same(NamedTuple):
    """What makes two commits one checkpoint, but for the one before it. An id alone does not: a
    fork of what somebody else made may stand on checkpoints that are called like ours.
    """

    id: CheckpointId
    root: Oid
    created: datetime
    says: tuple[str, ...]


def _same(node: Summary) -> _Same:
    said = (f"{name}: {value}" for name, value in sorted(node.trailers.items()))
    return _Same(node.id, node.root, node.created, (node.subject, *said))


def _refuse_others(operation: Operation, now: Forest, then: Forest) -> None:
    """A session that has another checkpoint of the same number by now, or was made anew, is another
    one.
    """
    changed = {
        name for name in then.sessions.keys() & now.sessions.keys() if _is_another(name, now, then)
    }
    renewed = then.sessions.keys() & now.sessions.keys() if operation.what == "delete" else set()
    if changed | renewed:
        session = min(changed | renewed)
        raise Refused(
            f"session {session} is another one by now: nothing was brought back",
            hint=f"git log {refs.TRASH}{operation.trash}/sessions/{session}",
        )


def _refuse_damaged(operation: Operation, now: Forest) -> None:
    """A session that cannot be read cannot be joined with what was put away of it."""
    for session in now.damaged.keys() & operation.dropped.keys():
        raise Refused(f"session {session} is damaged: nothing was brought back", hint="gitcp check")


def _is_another(session: str, now: Forest, then: Forest) -> bool:
    before, here = ({each.id: each for each in _own(forest, session)} for forest in (then, now))
    return any(before[id] != here[id] for id in before.keys() & here.keys())


def _own(forest: Forest, session: str) -> Iterator[_Same]:
    """The checkpoints behind a session's end, but for those of others that it was forked from."""
    chain = forest.chain(forest.sessions.get(session))
    return (_same(node) for node in chain if node.id.session == session)


def _union(store: Store, now: Forest, then: Forest) -> dict[_Same, Oid]:
    """Every checkpoint of both, each behind the one with the next lower number; commits as they
    are, where they fit.

    What was brought back from elsewhere in the meantime, or saved, is in between and after: nothing
    is left out. Where two lines have the same numbers, what is not of the session itself stays
    behind what it stood behind.
    """
    variants: dict[_Same, list[Summary]] = {}
    for forest in (then, now):
        for node in forest.nodes.values():
            variants.setdefault(_same(node), []).append(node)
    known = {node.commit: _same(node) for forest in (now, then) for node in forest.nodes.values()}
    begun, apart = _begun(now, then), _apart(now, then)
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
    store.objects.flush(held=True)
    return union


def _apart(now: Forest, then: Forest) -> set[_Same]:
    """The checkpoints that forks alone reach, of sessions of which there are two lines."""
    every = {_same(node) for forest in (then, now) for node in forest.nodes.values()}
    seen: dict[CheckpointId, int] = {}
    for same in every:
        seen[same.id] = seen.get(same.id, 0) + 1
    twofold = {id.session for id, count in seen.items() if count > 1}
    own = {
        same for forest in (then, now) for name in forest.sessions for same in _own(forest, name)
    }
    return {same for same in every - own if same.id.session in twofold}


def _begun(now: Forest, then: Forest) -> dict[_Same, _Same]:
    """By each checkpoint, one that stands for its session from when that was begun: what forks have
    of a session that was deleted stays apart from one that was begun under its name since.
    """
    known = {node.commit: _same(node) for forest in (then, now) for node in forest.nodes.values()}
    found = {same: same for same in known.values()}

    def standing(same: _Same) -> _Same:
        while found[same] != same:
            same = found[same]
        return same

    for forest in (then, now):
        for node in forest.nodes.values():
            before = known[node.parent] if node.parent else known[node.commit]
            if before.id.session == node.id.session and FORKED not in node.trailers:
                found[standing(known[node.commit])] = standing(before)
    for session in then.sessions.keys() & now.sessions.keys():
        one, other = (known[forest.sessions[session]] for forest in (now, then))
        if one.id.session == other.id.session:
            found[standing(one)] = standing(other)
    return {same: standing(same) for same in found}


def _missing(
    store: Store, entry: Entry, now: Forest, then: Forest, union: Mapping[_Same, Oid]
) -> list[Move]:
    """The refs that are not there any more. A tag that the user took away from a checkpoint that
    stayed is not one.
    """
    here = {_same(node) for node in now.nodes.values()}
    found = []
    for session, tip in entry.sessions.items():
        if session not in now.sessions:
            found.append(Move(refs.SESSIONS + session, None, union[_same(then.nodes[tip])]))
    for tag, value in entry.tags.items():
        commit = then.tagged[tag]
        same = _same(then.nodes[commit])
        if tag not in now.tags and same not in here:
            new = union[same]
            found.append(
                Move(refs.TAGS + tag, None, value if commit == new else store.retag(value, new))
            )
    store.objects.flush(held=True)
    return found


def _fetched(store: Store, entry: Entry) -> list[Move]:
    """What was fetched, where nothing was fetched in its place since."""
    parts = (("sessions", entry.fetched_sessions), ("tags", entry.fetched_tags))
    found = []
    for kind, held in parts:
        for place, oid in held.items():
            remote, _, name = place.partition("/")
            ref = f"{refs.REMOTES}{remote}/{kind}/{name}"
            if refs.read_ref(store.repo.common_dir, ref) is None:
                found.append(Move(ref, None, oid))
    return found


def _time(name: str) -> datetime | None:
    match = NAME.fullmatch(name)
    try:
        return datetime.strptime(match[1], FORM).replace(tzinfo=UTC) if match else None
    except ValueError:
        return None
