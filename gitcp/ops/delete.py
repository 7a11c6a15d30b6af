"""Delete: a session goes to the trash as a whole, with its tags. What another session was forked from stays there."""

from __future__ import annotations

from gitcp.errors import Refused, RevisionNotFound
from gitcp.git import refs
from gitcp.model import CheckpointId
from gitcp.ops import prune, rewrite, trash
from gitcp.ops.oplog import Operation
from gitcp.ops.rewrite import Forest, Move
from gitcp.retention import ranges
from gitcp.store import Store
from gitcp.value import Value


class Plan(Value):
    """What would go: the session's checkpoints, and the tags on them. `shared` are those that a fork still needs.

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
    """What `delete` would do. Writes nothing. Raises RevisionNotFound for a session that is not there, Refused for one
    that an unfinished restore goes to.
    """
    return _plan(store, rewrite.read(store), session)


def delete(store: Store, session: str, agreed: Plan | None = None, of: int | None = None) -> Report:
    """Put a session into the trash, and the tags on what no other session has. `of`: the operation this redoes.

    Writes refs under `refs/gitcp/` and files in `<git dir>/gitcp/`. Raises RevisionNotFound, and Refused if it is not
    what was agreed to any more. Then nothing was changed.
    """
    with store.lock():
        rewrite.finish(store)
        forest = rewrite.read(store)
        made = _plan(store, forest, session)
        if agreed not in (None, made):
            raise Refused(f"session {session} went on meanwhile: nothing was deleted", hint=f"gitcp delete {session}")
        gone = [Move(refs.SESSIONS + session, forest.sessions[session], None)]
        gone += [Move(refs.TAGS + name, forest.tags[name], None) for name in made.tags]
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
            of=of,
        )
        return Report(made, rewrite.carry_out(store, [*rewrite.put_away(gone, name), *gone], operation))


def _plan(store: Store, forest: Forest, session: str) -> Plan:
    tip = forest.sessions.get(session)
    if tip is None:
        raise RevisionNotFound(f"there is no session {session}: nothing was deleted", hint="gitcp sessions")
    others = {n.commit for name, t in forest.sessions.items() if name != session for n in forest.chain(t)}
    chain = list(forest.chain(tip))
    own = [node for node in chain if node.id.session == session]
    gone = {node.commit for node in chain} - others
    needed, _ = prune.awaited(store)
    if prune.UNFINISHED in (needed.get(node.id) for node in own):
        raise Refused(f"a restore of {session} is not finished: nothing was deleted", hint="gitcp restore --continue")
    return Plan(
        session=session,
        checkpoints=tuple(node.id for node in own if node.commit in gone),
        shared=tuple(node.id for node in own if node.commit not in gone),
        tags=tuple(name for name, commit in forest.tagged.items() if commit in gone),
        needed=tuple(node.id for node in own if node.commit in gone and node.id in needed),
    )
