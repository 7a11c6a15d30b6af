"""Undo and redo: find the next operation in the operation log.

A restore is undone by a restore, in order. A prune or delete is undone by restoring what it moved
to the trash, in order or by its number.
"""

from __future__ import annotations

from gitcp.errors import Refused, RevisionNotFound
from gitcp.state import oplog, undo_stack
from gitcp.state.oplog import Operation
from gitcp.store import Store
from gitcp.value import replace


def to_undo(store: Store, number: int | None = None) -> Operation | None:
    """Return the prune or delete that `undo` reverses next; None if that is a restore, or nothing.

    Raises RevisionNotFound for an unknown `number`, Refused for one that cannot be undone alone.
    """
    if number is not None:
        return _numbered(store, number)
    return _last_removal(undo_stack.undo_state(store.repo).undo)


def to_redo(store: Store) -> Operation | None:
    """Return the prune or delete that `redo` repeats next; None if it is a restore, or nothing."""
    return _last_removal(undo_stack.undo_state(store.repo).redo)


def _last_removal(operations: tuple[Operation, ...]) -> Operation | None:
    """Return the last operation, unless it is a restore."""
    last = operations[-1] if operations else None
    return None if last is None or last.what in oplog.RESTORING else last


def _numbered(store: Store, number: int) -> Operation:
    log = oplog.entries(store.repo)
    operation = next((entry for entry in log if entry.number == number), None)
    if operation is None:
        raise RevisionNotFound(
            f"no operation {number}: nothing was changed", hint="gitcp log --operations"
        )
    if operation.trash is None:
        how = ""
        if operation.what in oplog.RESTORING:
            how = " by number, but by gitcp undo while it is the last"
        raise Refused(
            f"operation {number} ({operation.what}) cannot be undone{how}: nothing was changed",
            hint="gitcp log --operations",
        )
    redone = (entry.trash for entry in reversed(log) if entry.of == number and entry.trash)
    return replace(operation, trash=next(redone, operation.trash))
