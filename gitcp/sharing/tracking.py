"""The refs below `refs/gitcp/remotes/`, which name what a remote had when it was last fetched or
pushed to. What only they still have goes to the trash when they move.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from contextlib import suppress

from gitcp.errors import StoreDamaged
from gitcp.git import refs
from gitcp.model import Oid
from gitcp.state import rewrite, trash
from gitcp.state.oplog import Operation
from gitcp.state.rewrite import RefMove
from gitcp.store import Store, Summary


def dropped(store: Store, old: Oid | None, new: Oid) -> list[Summary]:
    """Return the checkpoints of a chain that a new one has not, not even rewritten."""
    if old in (None, new):
        return []
    now = {(each.id, each.created) for each in store.readable(new)}
    return [each for each in store.readable(old) if (each.id, each.created) not in now]


def replace(
    store: Store, move: RefMove, missing: Sequence[Summary], command: str
) -> Operation | None:
    """Move the ref of a session to one that lacks some of its checkpoints; these go to the trash,
    with a copy of the tags on them. The caller holds the store's lock. Return the operation, logged
    as one of `command`; None if the ref has moved meanwhile.
    """
    # A colleague's checkpoints were lost with their machine, since a fetch had dropped the copy.
    rewrite.finish(store)
    if move.old is None or store.repo.refs.read(move.ref) != move.old:
        return None
    remote, _, session = move.ref.removeprefix(refs.REMOTES).split("/", 2)
    now = store.repo.host.now()
    name = trash.new_name(store, now)
    ids = trash.summarize(each.id for each in missing)
    operation = Operation(
        number=0,
        time=now,
        what=command,
        summary=f"{remote}/{session}, which no longer has {ids}",
        worktree=store.repo.worktree_name,
        trash=name,
        dropped={f"{remote}/{session}": ()},
        automatic=True,
    )
    refs_of = {move.ref: move.old, **_tags_on(store, remote, {each.commit for each in missing})}
    copies = [trash.trash_fetched(ref, value, name)[0] for ref, value in refs_of.items()]
    return rewrite.carry_out(store, [*copies, move], operation)


def _tags_on(store: Store, remote: str, commits: Collection[Oid]) -> dict[str, Oid]:
    """Return the refs of a remote's tags on these commits."""
    # The remote may have moved one, and a fetch overwrites it.
    tags = {}
    for ref, value in store.repo.refs.list(f"{refs.REMOTES}{remote}/tags/").items():
        with suppress(StoreDamaged):
            if store.peel(value) in commits:
                tags[ref] = value
    return tags
