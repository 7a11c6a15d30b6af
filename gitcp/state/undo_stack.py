"""What `undo` and `redo` restore in a working tree, computed from the operation log.

Each restore is logged with its safety checkpoint and its extent: what it changed.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Any

from gitcp.git.repo import Repository
from gitcp.model import CheckpointId
from gitcp.state import journal, oplog
from gitcp.state.extent import Extent, Restores
from gitcp.state.oplog import RESTORING, Operation
from gitcp.state.worktree_log import identify, identity
from gitcp.value import EMPTY, Value, replace

MOST = 100
"""Maximum number of restores remembered, and of undone ones."""


class UndoState(Value):
    """What can be undone and redone in a working tree, the next operation last."""

    undo: tuple[Operation, ...] = ()
    redo: tuple[Operation, ...] = ()
    extents: Mapping[CheckpointId, Extent] = EMPTY

    @property
    def restores(self) -> Restores:
        """Return the safety checkpoints of the operations that are restores."""
        undo, redo = (
            tuple(each.safety for each in operations if each.safety is not None)
            for operations in (self.undo, self.redo)
        )
        return Restores(undo, redo, self.extents)


def undo_state(repo: Repository) -> UndoState:
    """Return what can be undone and redone in a working tree."""
    log = oplog.entries(repo, automatic=False)
    return replay(log, repo.worktree_name, _place(repo, identity(repo)))


def undo_states(repo: Repository) -> tuple[UndoState, ...]:
    """Return what `undo_state` returns in the working tree with this git directory and in each copy
    of it: `repo.root` need not be one of them.
    """
    log, own = oplog.entries(repo, automatic=False), identity(repo)
    in_copies = {each.place for each in log if own and (each.place or "").startswith(f"{own}-")}
    return tuple(replay(log, repo.worktree_name, each) for each in (own, *in_copies))


def replay(
    operations: Iterable[Operation], worktree: str | None, identity: str | None = ""
) -> UndoState:
    """Return what can be undone and redone in a working tree after these operations."""
    walk = _Replay(worktree, identity)
    for operation in operations:
        walk.follow(operation)
    return walk.undo_state()


def restores(repo: Repository) -> Restores:
    """Return the checkpoints that `undo` and `redo` restore."""
    return undo_state(repo).restores


def record(repo: Repository, what: str, summary: str, safety: CheckpointId, **fields: Any) -> None:
    """Log a restore, undo or redo that has just completed.

    `fields` are those of Operation. Removes lists of files that older restores wrote. Raises as
    oplog.record.
    """
    of = None if what in RESTORING else _last_number(undo_state(repo), what)
    own = {"place": _place(repo, identify(repo))}
    oplog.record(repo, what, summary, safety=safety, of=of, **own, **fields)
    _forget_lists(repo, undo_state(repo).extents.values())


def _place(repo: Repository, identity: str | None) -> str | None:
    """Return the identity of a working tree with its path if it is a copy of a linked one: git's
    directory of both is the same, but what was restored in one is not undone in the other. One that
    was moved is no copy.
    """
    if not identity:
        return identity
    try:
        original = os.fsdecode((repo.git_dir / "gitdir").read_bytes().rstrip(b"\n"))
        # In a copy (`cp -a`) of a linked working tree, undo wrote the original's files.
        is_copy = not os.path.samefile(repo.git_dir / original, repo.root / ".git")
    except (OSError, ValueError):  # not linked, or of NULs after a crash
        return identity
    root = hashlib.sha1(os.fsencode(os.path.realpath(repo.root)), usedforsecurity=False)
    return f"{identity}-{root.hexdigest()}" if is_copy else identity


def _last_number(known: UndoState, what: str) -> int | None:
    """Return the number of the restore that an undo or redo refers to, None if it is not in the
    log.
    """
    operations = known.undo if what == oplog.UNDO else known.redo
    return next((each.number or None for each in reversed(operations) if each.safety), None)


def _forget_lists(repo: Repository, extents: Iterable[Extent]) -> None:
    """Remove the lists of restores that can no longer be undone here."""
    named = {name for extent in extents for name in (extent.written, extent.rules)}
    with suppress(OSError):
        for path in (repo.state_dir / journal.WRITTEN).iterdir():
            if path.name not in named:
                path.unlink()


# ---------------------------------------------------------------- the walk along the log


class _Replay:
    """What can be undone and redone after each operation of a working tree.

    A new operation clears what could be redone of its kind. gitcp's own operations are not
    anybody's last step: they are undone by number.
    """

    def __init__(self, worktree: str | None, identity: str | None) -> None:
        self._worktree = worktree
        self._place = identity
        self._done: list[Operation] = []
        self._undone: list[Operation] = []
        self._extents: dict[CheckpointId, Extent] = {}

    def follow(self, operation: Operation) -> None:
        """Apply one operation."""
        if operation.what == oplog.UNDO:
            self._step(operation, self._done, self._undone)
        elif operation.what == oplog.REDO:
            self._step(operation, self._undone, self._done)
        elif operation.worktree != self._worktree or operation.automatic:
            return
        elif operation.what in oplog.TAKING:
            self._do(operation)
        elif operation.what in RESTORING and self._is_own(operation):
            self._add_extent(operation)
            self._do(operation)

    def undo_state(self) -> UndoState:
        """Return what can be undone and redone now."""
        undo, redo = (
            tuple(each for each in operations if each.safety or each.what not in RESTORING)
            for operations in (self._done, self._undone)
        )
        there = {each.safety for each in (*undo, *redo)}
        extents = {id: extent for id, extent in self._extents.items() if id in there}
        return UndoState(undo, redo, extents)

    def _is_own(self, operation: Operation) -> bool:
        """Return whether a restore was done in this working tree, not in a deleted one of the same
        name.
        """
        return operation.safety is None or operation.place == self._place

    def _do(self, operation: Operation) -> None:
        if not operation.aborted:
            kind = operation.what in RESTORING
            self._undone = [each for each in self._undone if (each.what in RESTORING) != kind]
        self._done.append(operation)
        _trim(self._done)

    def _step(self, operation: Operation, source: list[Operation], goal: list[Operation]) -> None:
        meant = next((each for each in reversed(source) if _is_of(operation, each)), None)
        is_here = (operation.worktree, operation.place) == (self._worktree, self._place)
        if meant is None or (operation.safety is not None and not is_here):
            return
        self._add_extent(operation)
        source.remove(meant)
        goal.append(
            replace(
                meant,
                trash=operation.trash or meant.trash,
                safety=operation.safety,
                checkpoints=operation.checkpoints if operation.safety else meant.checkpoints,
            )
        )
        _trim(goal)

    def _add_extent(self, operation: Operation) -> None:
        if operation.safety is not None and operation.extent is not None:
            self._extents[operation.safety] = operation.extent


def _is_of(operation: Operation, each: Operation) -> bool:
    """Return whether an undo or redo refers to `each`; without a number, to the last restore."""
    if operation.of is None:
        return operation.safety is not None and each.what in RESTORING
    return each.number == operation.of


def _trim(operations: list[Operation]) -> None:
    restores = [each for each in operations if each.what in RESTORING]
    if len(restores) > MOST:
        operations.remove(restores[0])
