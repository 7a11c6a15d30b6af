"""Rollback: choose the checkpoint to restore in an emergency.

With hooks on, the last checkpoint contains the damage, because the end of a turn saves. So
`choose`, a pure function, picks the state before the last prompt that differs from the current
files, or else the last checkpoint that differs. The rest is an ordinary restore.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from itertools import islice
from pathlib import Path

from gitcp.errors import Refused, StoreDamaged
from gitcp.git.objects import Objects
from gitcp.history.diff import files_of
from gitcp.model import Checkpoint, CheckpointId, Oid, Snapshot, Trigger
from gitcp.restoring import restore
from gitcp.restoring.planned import Point, RollbackChoice
from gitcp.restoring.request import RestoreRequest
from gitcp.saving.live_trees import live_trees
from gitcp.state import turn_start
from gitcp.store import NO_LABEL, Store, Summary
from gitcp.worktree.snapshot import Limits, take

BEFORE_PROMPT = "the state before the last prompt that changed files"
TURN_END = "the end of the last turn before these changes"
LAST = "the last checkpoint that differs from the current files"

PROMPTS = (Trigger.PROMPT.value, Trigger.BEFORE_REFACTOR.value)
ENDS = (Trigger.TURN.value, Trigger.AFTER_BUG_FOUND.value, Trigger.SESSION_END.value)
OTHERS = 3
"""Number of further candidates that a plan lists."""


def choose(points: Sequence[Point], differs: Callable[[Point], bool]) -> RollbackChoice | None:
    """Return the checkpoint to roll back to; None if none differs from the current files.

    `points` are the candidates, newest first. `differs` returns whether restoring one would change
    files; it is called no more than necessary.
    """
    stable = [
        (index, why) for index in range(len(points)) if (why := _stable_because(points, index))
    ]
    choice = next(((index, why) for index, why in stable if differs(points[index])), None)
    if choice is None:
        choice = next(
            ((index, LAST) for index in range(len(points)) if differs(points[index])), None
        )
    if choice is None:
        return None
    index, why = choice
    older = [points[i] for i, _ in stable if i > index] or points[index + 1 :]
    return RollbackChoice(
        points[index], why, tuple(islice((point for point in older if differs(point)), OTHERS))
    )


def _stable_because(points: Sequence[Point], index: int) -> str:
    """Return why a checkpoint is a state to return to; "" for one made during an agent's turn, or
    at its end.
    """
    point = points[index]
    if point.prompted or point.trigger in PROMPTS:
        return BEFORE_PROMPT
    # With hooks on, rollback restored the last checkpoint: the damage itself.
    if point.trigger in ENDS:
        # Changes after the end of a turn belong to the next prompt, even if that saved nothing.
        is_last = index == 0 or points[index - 1].trigger == Trigger.SESSION_END.value
        return "" if is_last else TURN_END
    if point.trigger == Trigger.RESTORE.value:
        return LAST
    return LAST if _is_by_hand(point) and not _in_turn(points, index) else ""


def _is_by_hand(point: Point) -> bool:
    """Return whether a person asked for a checkpoint: `gitcp save`, or `gitcp run`, which sets a
    label.
    """
    labelled = point.subject != NO_LABEL and not point.subject.startswith(point.trigger)
    return point.trigger == Trigger.MANUAL.value or (
        point.trigger == Trigger.BEFORE_RISKY_CHANGE.value and labelled
    )


def _in_turn(points: Sequence[Point], index: int) -> bool:
    """Return whether a checkpoint was made during an agent's turn, whose files may be half done."""
    before = next((point.trigger for point in points[index + 1 :] if not _is_by_hand(point)), None)
    return before is not None and before not in (*ENDS, Trigger.RESTORE.value)


def plan(
    store: Store, session: str, cwd: Path, limits: Limits, *, mine: bool = False
) -> RollbackChoice | None:
    """Return the checkpoint of a session to roll back to from the current files; with `mine`, only
    what the session changed counts. Writes nothing.
    """
    objects = Objects(store.repo, dry=True)
    taken = take(store.repo, objects, limits, live_trees(store, session))
    results: dict[Oid, bool] = {}
    seen: set[tuple[object, ...]] = {_files(taken.snapshot)}

    def is_new(target: Checkpoint) -> bool:
        files = _files(target.snapshot)
        if files in seen:  # of checkpoints with the same files, only the newest is a candidate
            return False
        seen.add(files)
        if mine:
            request = RestoreRequest(target, cwd, limits=limits, mine=True)
            steps = restore.transitions(store, request, objects, taken)
            return any(each.own | each.uncertain for each in steps)
        return bool(
            restore.plan_from(store, objects, RestoreRequest(target, cwd, limits=limits), taken)
        )

    def differs(point: Point) -> bool:
        if point.commit not in results:
            results[point.commit] = False
            with suppress(StoreDamaged, Refused):  # this one cannot be restored; another may
                results[point.commit] = is_new(store.read(point.commit))
        return results[point.commit]

    return choose(tuple(_points(store, session)), differs)


def required(
    store: Store, session: str, cwd: Path, limits: Limits, *, mine: bool = False
) -> RollbackChoice:
    """Return the checkpoint to roll back to, as `plan` does. Raises Refused if there is none."""
    choice = plan(store, session, cwd, limits, mine=mine)
    if choice is None:
        raise Refused(
            f"no earlier checkpoint of session {session} differs from the files here: nothing was "
            "changed",
            hint="gitcp log --all",
        )
    return choice


def _files(snapshot: Snapshot) -> tuple[object, ...]:
    """Return what a restore of the files depends on."""
    return (
        snapshot.tree,
        tuple(sorted(snapshot.modes.items())),
        snapshot.converted,
        snapshot.empty_directories,
    )


def _points(store: Store, session: str) -> Iterator[Point]:
    """Yield the candidates, newest first. After a restore, these are the checkpoints before its
    target.

    What a restore replaced is no candidate: `undo` restores it.
    """
    prompted = turn_start.last(store.repo)
    for summary in _lineage(store, store.tip(session)):
        trigger = summary.trailers.get("Gitcp-Trigger", "")
        if trigger != Trigger.BEFORE_RESTORE.value:
            at_prompt = summary.commit == prompted
            yield Point(
                summary.id, summary.commit, trigger, summary.subject, summary.created, at_prompt
            )


def _lineage(store: Store, tip: Oid | None) -> Iterator[Summary]:
    """Yield the checkpoints behind a tip; after a restore of all files, those behind its target."""
    seen: set[Oid] = set()
    remaining: Iterator[Summary] = store.history(tip) if tip else iter(())
    while (summary := next(remaining, None)) is not None and summary.commit not in seen:
        seen.add(summary.commit)
        yield summary
        target = _target(store, summary)
        if target is not None:
            remaining = store.history(target)


def _target(store: Store, restored: Summary) -> Oid | None:
    """Return the checkpoint that a restore of all files returned to; None otherwise, or if it is
    gone.

    After a restore of some paths, the files are closer to those before it.
    """
    session, _, number = restored.trailers.get("Gitcp-Restored-From", "").rpartition("@")
    target = store.find(CheckpointId(session, int(number))) if number.isdecimal() else None
    if target is None or restored.parent is None:
        return target
    after, restored_tree, before = (
        files_of(store, store.summary(c).root) for c in (restored.commit, target, restored.parent)
    )
    is_whole = len(store.reader.compare(restored_tree, after)) < len(
        store.reader.compare(before, after)
    )
    return target if is_whole else None
