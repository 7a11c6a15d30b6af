"""What is to be brought back: the value that a restore is asked with, and what follows from it by
looking.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from gitcp.errors import BadValue
from gitcp.model import RESERVED, Agent, Checkpoint, Conversation, Snapshot, Span
from gitcp.restoring.plan import ALONE, Side
from gitcp.store import Store
from gitcp.value import Value, replace
from gitcp.worktree.paths import display
from gitcp.worktree.snapshot import Limits
from gitcp.worktree.writer import Writer

if TYPE_CHECKING:
    from gitcp.restoring.message import Rewound


class Request(Value):
    """What to bring back, and where from.

    `paths` limits the files, and the index (empty: all). `rewound` replaces the target's
    conversation by an earlier part of it. `force` goes on during a merge or rebase. With `reverted`
    it is a revert: what there is to be is what is there, without the changes after that checkpoint
    up to the target; `merged` says so once it is known.
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
    markers: bool = False
    merged: Snapshot | None = None

    @property
    def wanted(self) -> Snapshot:
        """The files to be there."""
        return self.merged or self.target.snapshot

    @property
    def span(self) -> Span | None:
        """The step that a revert takes back."""
        return Span(self.reverted.id, self.target.id) if self.reverted else None

    @property
    def stored(self) -> tuple[Conversation | None, Agent | None]:
        """The conversation to put back, and whose it is."""
        return self.rewound[:2] if self.rewound else (self.target.conversation, self.target.agent)


def know_files(store: Store, target: Checkpoint) -> None:
    """Make the tree of a checkpoint's files readable, which is stored only with `.gitcp` in it.

    The store does so when it reads a checkpoint; this one may have been read by another.
    """
    entries = store.objects.read_tree(target.root)
    store.objects.name_tree([entry for entry in entries if entry.name != RESERVED])


def merged_into(store: Store, request: Request, ours: Snapshot) -> Request:
    """A revert that knows what it leads to from what is here, `ours`; any other request as it
    is.
    """
    if request.reverted is None:
        return request
    from gitcp.restoring.merge import by_git, merge  # for a revert

    know_files(store, request.reverted)
    sides = request.target.snapshot, ours, request.reverted.snapshot
    merged = merge(store.objects, sides, by_git(store.repo), request.paths, markers=request.markers)
    return replace(request, merged=merged.snapshot)


def check_paths(store: Store, request: Request) -> None:
    """Raise BadValue for a path that is neither in the target nor here: a slip of the pen."""
    there = somewhere(store, request)
    lost = next((path for path in request.paths if path not in there), None)
    if lost is not None:
        raise BadValue(
            f"{display(lost)} is neither in {request.target.id} nor here: nothing was changed"
        )


def somewhere(store: Store, request: Request) -> tuple[bytes, ...]:
    """Those of a request's paths, or directories alone, that are in the target or here."""
    sides = []
    for checkpoint in filter(None, (request.target, request.reverted)):
        know_files(store, checkpoint)
        sides.append(Side(store.objects, checkpoint.snapshot))
    with Writer(store.repo.root) as tree:
        there = {path for path in request.paths if tree.lstat(path.removesuffix(ALONE)) is not None}
    held = (
        path
        for path in request.paths
        if any(side.holds(path.removesuffix(ALONE)) for side in sides)
    )
    there.update(held)
    return tuple(path for path in request.paths if path in there)
