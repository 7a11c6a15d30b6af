"""What to restore: the request, and what it resolves to on this disk."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from gitcp.errors import BadValue
from gitcp.git import trees
from gitcp.history import history
from gitcp.model import Agent, Checkpoint, Conversation, Snapshot, Span
from gitcp.restoring.plan import ALONE, Side, within
from gitcp.store import Store, require_files
from gitcp.value import Value, replace
from gitcp.worktree.paths import display
from gitcp.worktree.snapshot import Limits
from gitcp.worktree.writer import Writer

if TYPE_CHECKING:
    from gitcp.git.objects import Objects
    from gitcp.history.authors import Transition
    from gitcp.restoring.merge import Conflict
    from gitcp.restoring.message import Rewound


class Undoing(NamedTuple):
    """An undo or a redo, by the name of its `command`: `left` are the files as the restore that it
    reverses left them. What changed since stays.
    """

    command: str
    left: Snapshot


class RestoreRequest(Value):
    """What to restore, and from where.

    `paths` limits the files and the index (empty: all). `rewound` replaces the target's
    conversation by an earlier part of it. `force` allows a restore during a merge or rebase. With
    `reverted`, the request is a revert: it restores the current files without the changes made
    after that checkpoint up to the target. With `mine`, it undoes only the changes of `session`
    (default: the target's, see gitcp.restoring.others.viewer), by the same merge; `whole_tree` also
    undoes those of live sessions, which is refused otherwise. A `program` that goes back by itself
    has nobody to ask: without `whole_tree`, it is as with `mine`
    (gitcp.restoring.others.decided), and the sessions `together` count as one with its own.
    `name_others`: the report names the sessions whose changes are undone. `markers` writes conflict
    markers. `undoing` makes the request an undo that keeps what changed since the restore.
    `keeps_installed`: what `gitcp enable` installed since the target stays, unless `paths` name it.
    `memory` is the agent whose memory of the project is restored: by default that of the
    conversation, if that is restored; "" for none.
    `state`: states outside the files are restored by the user's commands, only those in
    `state_names` if given. Nothing else implies it, since it runs commands on what is not gitcp's.
    `merged` is the snapshot of a merge, and `conflicts` what it could not merge, once known; `left`
    are the paths that `mine` leaves different from the target.
    """

    target: Checkpoint
    cwd: Path
    files: bool = True
    conversation: bool = True
    paths: tuple[bytes, ...] = ()
    index: bool = False
    force: bool = False
    limits: Limits = Limits()
    rewound: Rewound | None = None
    trust: bool = False
    reverted: Checkpoint | None = None
    undoing: Undoing | None = None
    keeps_installed: bool = True
    markers: bool = False
    mine: bool = False
    whole_tree: bool = False
    name_others: bool = False
    session: str | None = None
    program: bool = False
    together: frozenset[str] = frozenset()
    memory: str | None = None
    state: bool = False
    state_names: tuple[str, ...] | None = None
    merged: Snapshot | None = None
    conflicts: tuple[Conflict, ...] = ()
    left: tuple[bytes, ...] = ()

    @property
    def wanted(self) -> Snapshot:
        """The snapshot whose files to restore."""
        return self.merged or self.target.snapshot

    @property
    def is_merge(self) -> bool:
        """Return whether the current files are merged instead of replaced."""
        return self.mine or self.reverted is not None or self.merged is not None

    @property
    def scan_limits(self) -> Limits:
        """The limits for the current files: the target's outputs are captured, so that they are
        saved before they are overwritten.
        """
        named = self.target.snapshot.outputs
        return replace(self.limits, outputs=named) if named else self.limits

    @property
    def span(self) -> Span | None:
        """The step that a revert undoes."""
        return Span(self.reverted.id, self.target.id) if self.reverted else None

    @property
    def stored(self) -> tuple[Conversation | None, Agent | None]:
        """The conversation to restore, and its agent."""
        return self.rewound[:2] if self.rewound else (self.target.conversation, self.target.agent)


def merged_into(
    store: Store,
    objects: Objects,
    request: RestoreRequest,
    ours: Snapshot,
    transitions: Sequence[Transition] = (),
) -> RestoreRequest:
    """Return a request that merges with its merged snapshot and its conflicts, given the current
    snapshot, `ours`; any other request unchanged.

    `transitions` are for `mine`. Writes merged blobs and trees to `objects`, without flushing.
    """
    if not (request.is_merge or request.undoing):
        return request
    from gitcp.restoring import merge, mine  # only for these

    left: tuple[bytes, ...] = ()
    if request.mine:
        lines = merge.by_git(store.repo, mine.SIDES)
        merged = mine.without_own(
            objects, ours, transitions, lines, request.paths, markers=request.markers
        )
        changes = trees.diff(objects.reader, request.target.snapshot.tree, merged.snapshot.tree)
        left = tuple(each.path for each in changes if within(each.path, request.paths))
    elif request.undoing:
        sides = request.undoing.left, ours, request.target.snapshot
        lines = merge.by_git(store.repo)
        merged = merge.merge(objects, sides, lines, request.paths)
    else:
        assert request.reverted is not None
        sides = request.target.snapshot, ours, request.reverted.snapshot
        lines = merge.by_git(store.repo)
        merged = merge.merge(objects, sides, lines, request.paths, markers=request.markers)
    return replace(request, merged=merged.snapshot, conflicts=merged.conflicts, left=left)


def check_paths(store: Store, request: RestoreRequest) -> None:
    """Raise BadValue for a path that is neither in the target nor on disk: probably a typo (with
    `mine` it may have come and gone since); Refused for files or an index that the target does not
    have.
    """
    only_files = request.files and not (request.conversation and request.target.conversation)
    if request.paths or request.index or (only_files and request.target.state is None):
        require_files(request.target)
    existing = existing_paths(store, request)
    unknown = next((path for path in request.paths if path not in existing), None)
    if unknown is not None and not request.mine:
        where = f"{display(unknown)} is neither in {request.target.id} nor on disk"
        earlier = None if request.reverted else request.target.parent
        had = history.newest_with(store, earlier, [unknown]) if earlier else None
        if had is not None:
            path = shlex.quote(display(unknown))
            raise BadValue(
                f"{where}, but in {had.id}: nothing was changed",
                hint=f"gitcp restore {had.id} -- {path}",
            )
        raise BadValue(
            f"{where}: nothing was changed", hint=f"gitcp show --files {request.target.id}"
        )


def existing_paths(store: Store, request: RestoreRequest) -> tuple[bytes, ...]:
    """Return those of a request's paths that exist in the target or on disk."""
    checkpoints = filter(None, (request.target, request.reverted))
    sides = [Side(store.reader, checkpoint.snapshot) for checkpoint in checkpoints]
    with Writer(store.repo.root) as tree:
        existing = {
            path for path in request.paths if tree.lstat(path.removesuffix(ALONE)) is not None
        }
    stored = (
        path
        for path in request.paths
        if any(side.may_have(path.removesuffix(ALONE)) for side in sides)
    )
    existing.update(stored)
    return tuple(path for path in request.paths if path in existing)
