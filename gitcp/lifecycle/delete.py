"""Delete a session with its tags, or chosen checkpoints of one, into the trash.

Checkpoints that a fork shares stay with the fork. A fetched or imported session, `REMOTE/SESSION`,
is deleted the same way; the remote is not touched.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from contextlib import suppress

from gitcp.errors import Refused, RevisionNotFound, StoreDamaged
from gitcp.git import refs
from gitcp.lifecycle import prune
from gitcp.model import CheckpointId, Oid
from gitcp.retention import ranges
from gitcp.saving import session as session_op
from gitcp.state import numbers, rewrite, trash
from gitcp.state.oplog import Operation
from gitcp.state.rewrite import Forest, RefMove
from gitcp.store import Store, Summary
from gitcp.value import Value


class DeletePlan(Value):
    """The checkpoints and tags that would be deleted. `shared` are those that a fork keeps.

    `needed` are the targets of the next undo and redo.
    """

    session: str
    checkpoints: tuple[CheckpointId, ...]
    shared: tuple[CheckpointId, ...]
    tags: tuple[str, ...]
    needed: tuple[CheckpointId, ...]


class DeleteReport(Value):
    """The deletion, as planned and as logged."""

    plan: DeletePlan
    operation: Operation


def plan(store: Store, session: str, of: Operation | None = None) -> DeletePlan:
    """Plan a deletion. Writes nothing. `of` is the operation that this redoes.

    Raises RevisionNotFound for an unknown session, and Refused for one with an unfinished restore.
    """
    _require_session(store, session, of)
    return _plan(store, rewrite.read(store, despite_damage=True), session)


def delete(
    store: Store, session: str, agreed: DeletePlan | None = None, of: Operation | None = None
) -> DeleteReport:
    """Move a session to the trash, with the tags on checkpoints that no other session has. `of` is
    the operation that this redoes.

    Writes refs under `refs/gitcp/` and files in `<git dir>/gitcp/`. Raises
    RevisionNotFound, and Refused if the session differs from the agreed plan or from the
    operation to redo; nothing was changed then.
    """
    with store.lock():
        rewrite.finish(store)
        _require_session(store, session, of)
        forest = rewrite.read(store, despite_damage=True)
        plan = _plan(store, forest, session)
        if agreed not in (None, plan):
            raise Refused(
                f"session {session} changed in the meantime; nothing was deleted",
                hint=f"gitcp delete {session}",
            )
        if of is not None:
            _require_same_checkpoints(plan, of)
        now = store.repo.host.now()
        name = trash.new_name(store, now)
        operation = Operation(
            number=0,
            time=now,
            what="delete" if of is None else "redo",
            summary=f"deleted session {session}, {trash.summarize(plan.checkpoints)}",
            worktree=store.repo.worktree_name,
            trash=name,
            dropped={session: (), **ranges(plan.checkpoints)},
            of=of.number if of is not None else None,
        )
        return DeleteReport(
            plan, rewrite.carry_out(store, _moves(store, forest, plan, name), operation)
        )


def _require_session(store: Store, session: str, of: Operation | None) -> None:
    """Raise RevisionNotFound for an unknown session."""
    is_fetched = "/" in session
    sessions = store.fetched() if is_fetched else store.sessions()
    if session in sessions:
        return
    if of is not None:
        raise RevisionNotFound(
            f"session {session} is already deleted; nothing was changed",
            hint="gitcp log --operations",
        )
    raise session_op.unknown(session, "nothing was deleted")


def _require_same_checkpoints(plan: DeletePlan, before: Operation) -> None:
    """Raise Refused if checkpoints were saved since the deletion was undone."""
    dropped = {
        (name, number)
        for name, runs in before.dropped.items()
        for a, b in runs
        for number in range(a, b + 1)
    }
    # Redo of a delete also dropped what had been saved since its undo.
    since = [id for id in plan.checkpoints if (id.session, id.number) not in dropped]
    if since:
        problem = f"session {plan.session} has new checkpoints ({trash.summarize(since)})"
        raise Refused(f"{problem}; nothing was deleted", hint=f"gitcp delete {plan.session}")


def _moves(store: Store, forest: Forest, plan: DeletePlan, name: str) -> list[RefMove]:
    """Return the moves into the trash, followed by the removal of the refs."""
    if "/" not in plan.session:
        removals = [RefMove(refs.SESSIONS + plan.session, store.tip(plan.session), None)]
        removals += [RefMove(refs.TAGS + tag, forest.tags[tag], None) for tag in plan.tags]
        return [
            *rewrite.trash_moves(
                [move for move in removals if move.old != refs.UNREADABLE_REF], name
            ),
            *removals,
        ]
    fetched = _Fetched(store, plan.session)
    pairs = [
        trash.trash_fetched(ref, value, name) for ref, value in fetched.refs(plan.tags).items()
    ]
    return [*(put for put, _ in pairs), *(removals for _, removals in pairs)]


class _Fetched:
    """The refs of a fetched session, and of the tags on it alone."""

    def __init__(self, store: Store, session: str) -> None:
        self.remote, _, self.name = session.partition("/")
        self.held = store.repo.refs.list(f"{refs.REMOTES}{self.remote}/")
        self.ref = self._ref("sessions", self.name)
        self.chain = list(store.readable(self.held[self.ref]))
        chain_commits = {node.commit for node in self.chain}
        tips = [
            oid
            for ref, oid in self.held.items()
            if ref.startswith(self._ref("sessions", "")) and ref != self.ref
        ]
        shared = {node.commit for tip in tips for node in store.readable(tip)}
        tags = {}
        for ref, value in self.held.items():
            if ref.startswith(self._ref("tags", "")):
                with suppress(StoreDamaged):
                    tags[ref] = store.peel(value)
        self.tags = tuple(
            ref.rpartition("/")[2]
            for ref, commit in tags.items()
            if commit in chain_commits - shared
        )

    def _ref(self, kind: str, name: str) -> str:
        return f"{refs.REMOTES}{self.remote}/{kind}/{name}"

    def refs(self, tags: Iterable[str]) -> dict[str, Oid]:
        """Return the refs to remove, by name."""
        return {
            ref: self.held[ref] for ref in (self.ref, *(self._ref("tags", tag) for tag in tags))
        }


def _plan(store: Store, forest: Forest, session: str) -> DeletePlan:
    if "/" in session:  # nothing depends on a fetched session: a fork of it has its own chain
        fetched = _Fetched(store, session)
        return DeletePlan(session, tuple(node.id for node in fetched.chain), (), fetched.tags, ())
    tip = forest.sessions.get(session)
    others = {
        n.commit for name, t in forest.sessions.items() if name != session for n in forest.chain(t)
    }
    chain = list(forest.damaged.get(session, forest.chain(tip)))
    in_session = [node for node in chain if node.id.session == session]
    removed = {node.commit for node in chain} - others
    needed, _ = prune.needed_checkpoints(store)
    if prune.UNFINISHED in (needed.get(node.id) for node in in_session):
        raise Refused(
            f"a restore of {session} is unfinished; nothing was deleted",
            hint="gitcp restore --continue",
        )
    return DeletePlan(
        session=session,
        checkpoints=tuple(node.id for node in in_session if node.commit in removed),
        shared=tuple(node.id for node in in_session if node.commit not in removed),
        tags=tuple(name for name, commit in forest.tagged.items() if commit in removed),
        needed=tuple(
            node.id for node in in_session if node.commit in removed and node.id in needed
        ),
    )


Chosen = Callable[[Iterable[Summary]], Collection[Oid]]
"""Returns the commits to drop from a session's checkpoints."""


def drop(store: Store, session: str, chosen: Chosen) -> Operation | None:
    """Drop the chosen checkpoints of a session. Return None if there are none. An empty session is
    removed.

    Tags and forks keep their checkpoints. Writes refs under `refs/gitcp/` and files in `<git
    dir>/gitcp/`. Raises StoreDamaged, with nothing changed, if a checkpoint cannot be read.
    """
    with store.lock():
        rewrite.finish(store)
        tip = store.tip(session)
        if tip is None:
            return None
        forest = rewrite.read(store, {session: tip}, {})
        dropped = frozenset(chosen(forest.nodes.values()))
        if not dropped:
            return None
        becomes = rewrite.rewrite(store, forest, dropped)
        if tip in dropped:
            numbers.reserve(store, {session: forest.nodes[tip].id.number + 1})
        move = RefMove(refs.SESSIONS + session, tip, becomes[tip])
        ids = [forest.nodes[commit].id for commit in forest.nodes if commit in dropped]
        now = store.repo.host.now()
        name = trash.new_name(store, now)
        operation = Operation(
            number=0,
            time=now,
            what="prune",
            summary=f"dropped {trash.summarize(ids)}",
            worktree=store.repo.worktree_name,
            trash=name,
            dropped=ranges(ids),
        )
        return rewrite.carry_out(store, [*rewrite.trash_moves([move], name), move], operation)
