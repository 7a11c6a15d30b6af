"""Drop chosen checkpoints from a session, into the trash. Forks and tags keep theirs."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable

from gitcp.git import refs
from gitcp.model import Oid
from gitcp.retention import ranges
from gitcp.state import rewrite, trash
from gitcp.state.oplog import Operation
from gitcp.state.rewrite import RefMove
from gitcp.store import Store, Summary

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
