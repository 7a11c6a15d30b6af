"""Revert: take back what one step changed and keep everything later. A three-way merge, then the
road of a restore.

The step is what was changed after one checkpoint, up to another. What is here now, without it, is
what there is to be.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from gitcp.errors import BadValue
from gitcp.git.objects import Objects
from gitcp.history import history, log, revisions
from gitcp.history.diff import scratch
from gitcp.model import Checkpoint, Oid
from gitcp.restoring import restore as restore_op
from gitcp.restoring.contents import Contents
from gitcp.restoring.merge import Conflict, by_git, merge
from gitcp.restoring.plan import FilePlan, plan_files
from gitcp.restoring.request import Request, check_paths, know_files
from gitcp.restoring.worktree_view import WorktreeDisk
from gitcp.saving.save import live_trees
from gitcp.store import Store, Summary
from gitcp.value import Value
from gitcp.worktree.snapshot import take
from gitcp.worktree.writer import Writer


class Touched(Value):
    """A checkpoint after the step that changed some of the same paths."""

    summary: Summary
    paths: tuple[bytes, ...]


class Plan(Value):
    """What a revert would do: to the files, and what it cannot; who changed the same paths since,
    newest first.
    """

    request: Request
    files: FilePlan
    conflicts: tuple[Conflict, ...]
    affected: tuple[Touched, ...]


def step(store: Store, last: Oid, before: Oid | None) -> tuple[Checkpoint, Checkpoint]:
    """The checkpoint that a step ends with and the one before it begins, which is the one before
    `last` unless given.

    Raises BadValue for the first checkpoint, and where `before` does not come before.
    """
    target = store.read(last)
    before = before or target.parent
    if before is None:
        raise BadValue(
            f"{target.id} is the first checkpoint: there is nothing before it to go back to. "
            "Nothing was changed",
            hint="gitcp restore REV -- PATH, or gitcp log",
        )
    found = store.read(before)
    if before == last or all(s.commit != before for s in store.history(last)):
        raise BadValue(
            f"{found.id} does not come before {target.id}: nothing was changed",
            hint="gitcp log --oneline",
        )
    return target, found


def meant(store: Store, text: str, current: str | None) -> tuple[Checkpoint, Checkpoint]:
    """The step that a revision or a range `A..B` means, as `step` gives it."""
    if ".." in text and not text.startswith(":/"):
        after, last = revisions.resolve_range(store, text, current)
        return step(store, last, after or revisions.first(store, last))
    return step(store, revisions.resolve(store, text, current=current), None)


def plan(store: Store, request: Request) -> Plan:
    """What `revert` would do now. Stores nothing: files that changed are put into a scratch store
    that goes again.
    """
    assert request.reverted is not None
    for checkpoint in (request.target, request.reverted):
        know_files(store, checkpoint)
    check_paths(store, request)
    with tempfile.TemporaryDirectory(prefix="gitcp-") as directory:
        objects = Objects(scratch(store.repo, Path(directory)))
        now = take(
            store.repo, objects, request.limits, live_trees(store, request.target.id.session)
        ).snapshot
        for checkpoint in (request.target, request.reverted):
            objects.name_tree(store.objects.read_tree(checkpoint.snapshot.tree))
        sides = request.target.snapshot, now, request.reverted.snapshot
        merged = merge(objects, sides, by_git(store.repo), request.paths, markers=request.markers)
        with Writer(store.repo.root) as tree:
            disk = WorktreeDisk(tree, Contents(store))
            files = plan_files(store.repo, objects, (now, merged.snapshot), request.paths, disk)
        objects.discard()
    return Plan(request, files, merged.conflicts, _affected(store, request.target, merged.step))


def revert(store: Store, agreed: Plan) -> restore_op.Report:
    """Do it. Raises Refused, with nothing changed, if the files are no longer those that the plan
    was made for.

    Writes what a restore writes: a safety checkpoint, the files, a checkpoint that says what was
    taken back.
    """
    return restore_op.restore(store, agreed.request, agreed.files)


def _affected(store: Store, target: Checkpoint, paths: tuple[bytes, ...]) -> tuple[Touched, ...]:
    """The later checkpoints of the session that changed some of these paths, newest first."""
    later = {s.commit: s for s in log.later(store, target)}
    tip = store.tip(target.id.session)
    known, found = set(paths), []
    for commit, changes in history.changed(store, [tip] if tip and later else [], target.commit):
        same = tuple(change.path for change in changes if change.path in known)
        if same and commit in later:
            found.append(Touched(later[commit], same))
    return tuple(reversed(found))
