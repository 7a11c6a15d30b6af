"""Undo and redo: which operation is the next one, by the operation log. Restores go by
state.journal as ever.

A restore is undone by a restore, in order. A prune or delete is undone by bringing back what it put
into the trash, in order or by its number.
"""

from __future__ import annotations

from gitcp.errors import Refused, RevisionNotFound
from gitcp.state import journal, oplog
from gitcp.state.oplog import Operation, Standing
from gitcp.store import Store
from gitcp.value import replace


def to_undo(store: Store, number: int | None = None) -> Operation | None:
    """The prune or delete that `undo` is to bring back; None where a restore is next, or nothing.

    Raises RevisionNotFound or Refused for a `number` that is none, or cannot be undone by itself.
    """
    if number is not None:
        return _numbered(store, number)
    return _next(_standing(store).undo, restores=bool(journal.restores(store.repo).undo))


def to_redo(store: Store) -> Operation | None:
    """The prune or delete that `redo` is to do again; None where a restore is next, or nothing."""
    return _next(_standing(store).redo, restores=bool(journal.restores(store.repo).redo))


def _standing(store: Store) -> Standing:
    return oplog.standing(oplog.entries(store.repo), store.repo.worktree_name)


def _next(operations: tuple[Operation, ...], *, restores: bool) -> Operation | None:
    """The last one, without the restores that nothing is known of any more."""
    found = next(
        (each for each in reversed(operations) if restores or each.what not in oplog.RESTORING),
        None,
    )
    return found if found is not None and found.what not in oplog.RESTORING else None


def _numbered(store: Store, number: int) -> Operation:
    log = oplog.entries(store.repo)
    found = next((each for each in log if each.number == number), None)
    if found is None:
        raise RevisionNotFound(
            f"there is no operation {number}: nothing was changed", hint="gitcp oplog"
        )
    if found.trash is None:
        what = f"operation {number} is one of {found.what}"
        raise Refused(
            f"{what}, which is not undone by number: nothing was changed",
            hint="gitcp undo  (the last one)",
        )
    redone = (each.trash for each in reversed(log) if each.of == number and each.trash)
    return replace(found, trash=next(redone, found.trash))
