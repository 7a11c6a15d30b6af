"""Change the label of a session's last checkpoint. Its id, files and conversation stay; its commit,
and those of forks behind it, are written anew. In the trash too: there it would be another one,
which an undo could not join.
"""

from __future__ import annotations

from gitcp import readme
from gitcp.errors import RevisionNotFound
from gitcp.git import refs
from gitcp.lifecycle import rename
from gitcp.model import Checkpoint, Oid
from gitcp.saving.save import changes_between
from gitcp.state import oplog, rewrite
from gitcp.state.oplog import Operation
from gitcp.store import Store
from gitcp.value import replace


def amend(store: Store, session: str, label: str) -> tuple[Checkpoint, Checkpoint]:
    """Give the last checkpoint of a session another label. Return it before and after.

    Writes commits, refs under `refs/gitcp/` and the operation log. Raises RevisionNotFound, and
    StoreDamaged where a chain cannot be read; nothing was changed then.
    """
    with store.lock():
        rewrite.finish(store)
        tip = store.tip(session)
        if tip is None:
            raise RevisionNotFound(f"session {session} has no checkpoint", hint="gitcp save")
        before = store.read(tip)
        after = replace(before, note=replace(before.note, label=label))
        rewrite.read(store)  # raises where a chain outside the trash cannot be read
        forest = rename.forest_of(store, store.repo.refs.list(refs.PREFIX))
        text = _readme(store, before, after)
        becomes: dict[Oid, Oid] = {}
        for commit, node in forest.nodes.items():
            parent = becomes[node.parent] if node.parent else None
            # What a prune had dropped could not be brought back: its chain ends with another label.
            if (node.id, node.root) == (before.id, before.root):
                same = replace(before, commit=commit)
                becomes[commit] = rename.rewrite_checkpoint(store, same, after, parent, text)
            else:
                becomes[commit] = (
                    commit if parent == node.parent else store.reparent(commit, parent)
                )
        store.writer.flush(keep=True)
        operation = Operation(
            number=0,
            time=store.repo.host.now(),
            what=oplog.AMEND,
            summary=f"changed the label of {before.id}",
            worktree=store.repo.worktree_name,
            checkpoints=(before.id,),
        )
        rewrite.carry_out(store, rename.ref_moves(store, forest, becomes), operation)
        return before, store.read(becomes[tip])


def _readme(store: Store, before: Checkpoint, after: Checkpoint) -> str:
    """Return the page of the checkpoint with the new label."""
    if before.parent:
        base: Oid | None = store.read(before.parent).snapshot.tree
    else:
        base = store.base_tree(before.snapshot.base.commit)
    return readme.render(after, changes_between(store, base, before.snapshot))
