"""Revert: undo the changes of one step and keep everything later, by a three-way merge and a
restore.

A step is what changed after one checkpoint, up to another.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from gitcp.errors import BadValue
from gitcp.git import scratch, trees
from gitcp.git.objects import Objects
from gitcp.history import history, live, log, revisions
from gitcp.history.live import OpenTurn
from gitcp.model import Checkpoint, Oid
from gitcp.restoring import restore as restore_op
from gitcp.restoring.contents import Contents
from gitcp.restoring.merge import Conflict
from gitcp.restoring.plan import FilePlan, plan_files, within
from gitcp.restoring.request import RestoreRequest, check_paths, merged_into
from gitcp.restoring.worktree_view import WorktreeDisk
from gitcp.saving.live_trees import live_trees
from gitcp.store import Store, Summary, require_files
from gitcp.value import Value, replace
from gitcp.worktree.snapshot import take
from gitcp.worktree.writer import Writer


class AffectedCheckpoint(Value):
    """A checkpoint after the step that changed some of the same paths."""

    summary: Summary
    paths: tuple[bytes, ...]


class RevertPlan(Value):
    """What a revert would do to the files, its conflicts, and the later checkpoints that changed
    the same paths, newest first. `turns` are those of agents that may write into the files.
    """

    request: RestoreRequest
    files: FilePlan
    conflicts: tuple[Conflict, ...]
    affected: tuple[AffectedCheckpoint, ...]
    turns: tuple[OpenTurn, ...]

    def to_json(self, done: restore_op.Report | None = None) -> dict[str, Any]:
        """Return the fields that `gitcp revert --dry-run --json` prints; with the report of what
        was done, those of `gitcp revert --json`.
        """
        from gitcp import documents  # only for programs
        from gitcp.restoring import printed

        span, files = self.request.span, self.files
        assert span is not None
        document = documents.Reverted(
            reverted=span,
            safety=None,
            checkpoint=None,
            written=tuple(step.path for step in files.write),
            removed=tuple(step.path for step in (*files.clear, *files.remove)),
            kept=printed.kept(files.kept),
            conflicts=printed.conflicts(self.conflicts),
            affected=tuple(
                documents.Affected(each.summary.id, tuple(each.paths)) for each in self.affected
            ),
            turns=printed.turns(self.turns),
        )
        if done is not None:
            document = replace(
                document,
                safety=done.safety,
                checkpoint=done.checkpoint,
                written=tuple(done.written),
                removed=tuple(done.removed),
                kept=printed.kept(done.kept),
            )
        return documents.encode(document)


def step(store: Store, last: Oid, before: Oid | None) -> tuple[Checkpoint, Checkpoint]:
    """Return the last checkpoint of a step and the one before its first; `before` defaults to the
    parent of `last`.

    Raises BadValue for the first checkpoint, and if `before` is not an ancestor.
    """
    target = store.read(last)
    before = before or target.parent
    if before is None:
        raise BadValue(
            f"{target.id} is the first checkpoint and cannot be reverted: nothing was changed",
            hint="gitcp log",
        )
    start = store.read(before)
    if before == last or all(s.commit != before for s in store.history(last)):
        raise BadValue(
            f"{start.id} does not come before {target.id}: nothing was changed",
            hint="gitcp log --oneline",
        )
    return target, start


def resolve_step(
    store: Store, text: str, current: str | None, within: str | None = None
) -> tuple[Checkpoint, Checkpoint]:
    """Return the step that a revision or a range `A..B` names, as `step` does."""
    after, last = revisions.resolve_range(store, text, current, within)
    if revisions.is_range(store, text):
        return step(store, last, after or revisions.first(store, last))
    return step(store, last, None)


def plan(store: Store, request: RestoreRequest) -> RevertPlan:
    """Return what `revert` would do now. Writes nothing to the store: changed files go to a
    temporary one.
    """
    assert request.reverted is not None
    require_files(request.target)
    require_files(request.reverted)
    check_paths(store, request)
    with tempfile.TemporaryDirectory(prefix="gitcp-") as directory:
        objects = Objects(scratch.create(store.repo, Path(directory)))
        taken = take(
            store.repo,
            objects,
            request.scan_limits,
            live_trees(store, request.target.id.session),
        )
        line = restore_op.transitions(store, request, objects, taken)
        merged = merged_into(store, objects, request, taken.snapshot, line)
        with Writer(store.repo.root) as tree:
            disk = WorktreeDisk(tree, Contents(store))
            sides = taken.snapshot, merged.wanted
            files = plan_files(store.repo, objects.reader, sides, request.paths, disk)
        objects.writer.discard()
    turns = live.turns(store) if files else ()
    return RevertPlan(request, files, merged.conflicts, _affected(store, request), turns)


def revert(store: Store, agreed: RevertPlan) -> restore_op.Report:
    """Carry out a plan. Writes what a restore writes. Raises Refused, with nothing changed, if the
    files are no longer those that the plan was made for.
    """
    return restore_op.restore(store, agreed.request, agreed.files)


def _affected(store: Store, request: RestoreRequest) -> tuple[AffectedCheckpoint, ...]:
    """Return the later checkpoints of the session that changed any path of the step, newest
    first.
    """
    assert request.reverted is not None
    target, before = request.target, request.reverted
    step = trees.diff(store.reader, before.snapshot.tree, target.snapshot.tree)
    wanted = {change.path for change in step if within(change.path, request.paths)}
    later = {s.commit: s for s in log.later(store, target)}
    tip, affected = store.tip(target.id.session), []
    for commit, changes in history.changed(store, [tip] if tip and later else [], target.commit):
        common = tuple(change.path for change in changes if change.path in wanted)
        if common and commit in later:
            affected.append(AffectedCheckpoint(later[commit], common))
    return tuple(reversed(affected))
