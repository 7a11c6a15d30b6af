"""Delete: a session goes to the trash as a whole, with its tags. What another session was forked
from stays there.

One that was fetched or imported, `REMOTE/SESSION`, goes the same way; what the remote has is not
touched.
"""

from __future__ import annotations

from collections.abc import Iterable

from gitcp.errors import Refused, RevisionNotFound
from gitcp.git import refs
from gitcp.lifecycle import prune
from gitcp.model import CheckpointId, Oid
from gitcp.retention import ranges
from gitcp.state import rewrite, trash
from gitcp.state.oplog import Operation
from gitcp.state.rewrite import Forest, Move
from gitcp.store import Store
from gitcp.value import Value


class Plan(Value):
    """What would go: the session's checkpoints, and the tags on them. `shared` are those that a
    fork still needs.

    `needed` are those that undo and redo go to next.
    """

    session: str
    checkpoints: tuple[CheckpointId, ...]
    shared: tuple[CheckpointId, ...]
    tags: tuple[str, ...]
    needed: tuple[CheckpointId, ...]


class Report(Value):
    """What was deleted."""

    plan: Plan
    operation: Operation


def plan(store: Store, session: str) -> Plan:
    """What `delete` would do. Writes nothing. Raises RevisionNotFound for a session that is not
    there, Refused for one that an unfinished restore goes to.
    """
    return _plan(store, rewrite.read(store, despite_damage=True), session)


def delete(
    store: Store, session: str, agreed: Plan | None = None, of: Operation | None = None
) -> Report:
    """Put a session into the trash, and the tags on what no other session has. `of`: the operation
    this redoes.

    Writes refs under `refs/gitcp/` and files in `<git dir>/gitcp/`. Raises RevisionNotFound, and
    Refused if it is not what was agreed to any more, or if more would go than by the operation that
    is redone. Then nothing was changed.
    """
    with store.lock():
        rewrite.finish(store)
        forest = rewrite.read(store, despite_damage=True)
        made = _plan(store, forest, session)
        if agreed not in (None, made):
            raise Refused(
                f"session {session} went on meanwhile: nothing was deleted",
                hint=f"gitcp delete {session}",
            )
        if of is not None:
            _require_no_more(made, of)
        now = store.repo.host.now()
        name = trash.new_name(store, now)
        operation = Operation(
            number=0,
            time=now,
            what="delete" if of is None else "redo",
            said=f"deleted session {session}, {trash.said(made.checkpoints)}",
            worktree=store.repo.worktree_name,
            trash=name,
            dropped={session: (), **ranges(made.checkpoints)},
            of=of.number if of is not None else None,
        )
        return Report(made, rewrite.carry_out(store, _moves(store, forest, made, name), operation))


def _require_no_more(made: Plan, before: Operation) -> None:
    """Raise Refused if checkpoints would go that did not go before: they were saved since that was
    undone.
    """
    dropped = {
        (name, number)
        for name, runs in before.dropped.items()
        for a, b in runs
        for number in range(a, b + 1)
    }
    since = [id for id in made.checkpoints if (id.session, id.number) not in dropped]
    if since:
        what = f"session {made.session} went on since it was brought back ({trash.said(since)})"
        raise Refused(f"{what}: nothing was deleted", hint=f"gitcp delete {made.session}")


def fetched(store: Store) -> dict[str, Oid]:
    """What was fetched or imported, as `REMOTE/SESSION`, and the commit of its last checkpoint."""
    listed = refs.list_refs(store.repo.common_dir, refs.REMOTES)
    split = ((ref.removeprefix(refs.REMOTES).split("/", 2), oid) for ref, oid in listed.items())
    return {f"{place[0]}/{place[2]}": oid for place, oid in split if place[1:2] == ["sessions"]}


def _moves(store: Store, forest: Forest, made: Plan, name: str) -> list[Move]:
    """What is put into the trash of this name first, then the refs that go."""
    if "/" not in made.session:
        gone = [Move(refs.SESSIONS + made.session, store.tip(made.session), None)]
        gone += [Move(refs.TAGS + tag, forest.tags[tag], None) for tag in made.tags]
        return [*rewrite.put_away([move for move in gone if move.old != refs.NOTHING], name), *gone]
    place = _Fetched(store, made.session)
    pairs = [trash.put_away(ref, value, name) for ref, value in place.refs(made.tags).items()]
    return [*(put for put, _ in pairs), *(gone for _, gone in pairs)]


class _Fetched:
    """Where a session lies that was fetched, and the tags on it alone."""

    def __init__(self, store: Store, session: str) -> None:
        self.remote, _, self.name = session.partition("/")
        self.held = refs.list_refs(store.repo.common_dir, f"{refs.REMOTES}{self.remote}/")
        self.ref = self._ref("sessions", self.name)
        self.chain = list(store.history(self.held[self.ref]))
        own = {node.commit for node in self.chain}
        tips = [
            oid
            for ref, oid in self.held.items()
            if ref.startswith(self._ref("sessions", "")) and ref != self.ref
        ]
        shared = {node.commit for tip in tips for node in store.history(tip)}
        tags = {
            ref: store.peel(value)
            for ref, value in self.held.items()
            if ref.startswith(self._ref("tags", ""))
        }
        self.tags = tuple(
            ref.rpartition("/")[2] for ref, commit in tags.items() if commit in own - shared
        )

    def _ref(self, kind: str, name: str) -> str:
        return f"{refs.REMOTES}{self.remote}/{kind}/{name}"

    def refs(self, tags: Iterable[str]) -> dict[str, Oid]:
        """The refs that go, by name."""
        return {
            ref: self.held[ref] for ref in (self.ref, *(self._ref("tags", tag) for tag in tags))
        }


def _plan(store: Store, forest: Forest, session: str) -> Plan:
    if "/" in session:
        return _plan_fetched(store, session)
    tip = forest.sessions.get(session)
    if tip is None and session not in forest.damaged:
        raise RevisionNotFound(
            f"there is no session {session}: nothing was deleted", hint="gitcp sessions"
        )
    others = {
        n.commit for name, t in forest.sessions.items() if name != session for n in forest.chain(t)
    }
    chain = list(forest.damaged.get(session, forest.chain(tip)))
    own = [node for node in chain if node.id.session == session]
    gone = {node.commit for node in chain} - others
    needed, _ = prune.awaited(store)
    if prune.UNFINISHED in (needed.get(node.id) for node in own):
        raise Refused(
            f"a restore of {session} is not finished: nothing was deleted",
            hint="gitcp restore --continue",
        )
    return Plan(
        session=session,
        checkpoints=tuple(node.id for node in own if node.commit in gone),
        shared=tuple(node.id for node in own if node.commit not in gone),
        tags=tuple(name for name, commit in forest.tagged.items() if commit in gone),
        needed=tuple(node.id for node in own if node.commit in gone and node.id in needed),
    )


def _plan_fetched(store: Store, session: str) -> Plan:
    """The same for what was fetched: nothing here needs it, and a fork of it has its own chain."""
    if session not in fetched(store):
        known = ", ".join(fetched(store)) or "nothing"
        raise RevisionNotFound(
            f"there is no session {session}: nothing was deleted", hint=f"fetched was: {known}"
        )
    place = _Fetched(store, session)
    return Plan(session, tuple(node.id for node in place.chain), (), place.tags, ())
