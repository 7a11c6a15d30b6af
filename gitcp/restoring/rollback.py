"""Rollback: which checkpoint to restore in an emergency.

With hooks on, the damage is in the last checkpoint, because the end of a turn saves. Restoring that
one would change nothing. So `choose`, which is pure, picks the state before the last prompt that
differs from the files here, or else the last checkpoint that differs. The rest is an ordinary
restore.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from datetime import datetime
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from gitcp.errors import Refused, StoreDamaged
from gitcp.git.objects import Objects
from gitcp.history.diff import files_of
from gitcp.model import Checkpoint, CheckpointId, Oid, Snapshot, Trigger
from gitcp.restoring import restore
from gitcp.restoring.request import Request
from gitcp.saving.save import live_trees
from gitcp.state import turn_start
from gitcp.store import Store, Summary
from gitcp.worktree.snapshot import Limits, take

BEFORE_PROMPT = "the state before the last prompt that changed files"
TURN_END = "the end of the last turn before these changes"
LAST = "the last checkpoint that differs from the files here"

PROMPTS = (Trigger.PROMPT.value, Trigger.BEFORE_REFACTOR.value)
ENDS = (Trigger.TURN.value, Trigger.AFTER_BUG_FOUND.value, Trigger.SESSION_END.value)
OTHERS = 3
"""How many further candidates a plan names."""


class Point(NamedTuple):
    """A checkpoint that could be restored. `prompted`: an agent was given a prompt while it was the
    last one.
    """

    id: CheckpointId
    commit: Oid
    trigger: str
    subject: str
    created: datetime
    prompted: bool = False


class Choice(NamedTuple):
    """The checkpoint to restore, why it is this one, and older ones that differ too, the newest
    first.
    """

    point: Point
    why: str
    others: tuple[Point, ...]


def choose(points: Sequence[Point], differs: Callable[[Point], bool]) -> Choice | None:
    """The checkpoint to roll back to, None if none differs from the files here.

    `points` are the candidates, newest first. `differs` says whether restoring one would change
    files; it is asked for no more points than necessary.
    """
    resting = [(place, why) for place in range(len(points)) if (why := _rests(points, place))]
    found = next(((place, why) for place, why in resting if differs(points[place])), None)
    if found is None:
        found = next(
            ((place, LAST) for place in range(len(points)) if differs(points[place])), None
        )
    if found is None:
        return None
    place, why = found
    older = [points[each] for each, _ in resting if each > place] or points[place + 1 :]
    return Choice(
        points[place], why, tuple(islice((point for point in older if differs(point)), OTHERS))
    )


def _rests(points: Sequence[Point], place: int) -> str:
    """Why a checkpoint is a state to go back to; "" for one made during a turn of an agent, or at
    its end.
    """
    point = points[place]
    if point.prompted or point.trigger in PROMPTS:
        return BEFORE_PROMPT
    if point.trigger in ENDS:
        # What follows the end of a turn belongs to the next prompt, even if that made no
        # checkpoint.
        is_last = place == 0 or points[place - 1].trigger == Trigger.SESSION_END.value
        return "" if is_last else TURN_END
    if point.trigger == Trigger.RESTORE.value:
        return LAST
    return LAST if _is_by_hand(point) and not _in_turn(points, place) else ""


def _is_by_hand(point: Point) -> bool:
    """Whether somebody asked for a checkpoint: `gitcp save`, or `gitcp run`, which labels its
    own.
    """
    labelled = not point.subject.startswith(point.trigger)
    return point.trigger == Trigger.MANUAL.value or (
        point.trigger == Trigger.BEFORE_RISKY_CHANGE.value and labelled
    )


def _in_turn(points: Sequence[Point], place: int) -> bool:
    """Whether a checkpoint was made during a turn. What an agent saves then may be half done."""
    before = next((each.trigger for each in points[place + 1 :] if not _is_by_hand(each)), None)
    return before is not None and before not in (*ENDS, Trigger.RESTORE.value)


def plan(store: Store, session: str, cwd: Path, limits: Limits) -> Choice | None:
    """The checkpoint of a session to roll back to from the files here. Writes nothing."""
    objects = Objects(store.repo, dry=True)
    taken = take(store.repo, objects, limits, live_trees(store, session))
    known: dict[Oid, bool] = {}
    seen: set[tuple[object, ...]] = {_files(taken.snapshot)}

    def is_new(target: Checkpoint) -> bool:
        files = _files(target.snapshot)
        if files in seen:  # of checkpoints with the same files only the newest is a candidate
            return False
        seen.add(files)
        return bool(restore.plan_from(store, objects, Request(target, cwd, limits=limits), taken))

    def differs(point: Point) -> bool:
        if point.commit not in known:
            known[point.commit] = False
            with suppress(StoreDamaged, Refused):  # it cannot be restored; another one can
                known[point.commit] = is_new(store.read(point.commit))
        return known[point.commit]

    return choose(tuple(_points(store, session)), differs)


def _files(snapshot: Snapshot) -> tuple[object, ...]:
    """What restoring a snapshot goes by."""
    return (
        snapshot.tree,
        tuple(sorted(snapshot.modes.items())),
        snapshot.converted,
        snapshot.empty_directories,
    )


def _points(store: Store, session: str) -> Iterator[Point]:
    """The candidates, newest first: after a restore those before its target, since it went back
    past the others.

    What a restore replaced is no candidate: `undo` goes there.
    """
    prompted = turn_start.last(store.repo)
    for summary in _line(store, store.tip(session)):
        trigger = summary.trailers.get("Gitcp-Trigger", "")
        if trigger != Trigger.BEFORE_RESTORE.value:
            at_prompt = summary.commit == prompted
            yield Point(
                summary.id, summary.commit, trigger, summary.subject, summary.created, at_prompt
            )


def _line(store: Store, tip: Oid | None) -> Iterator[Summary]:
    """The checkpoints behind a tip; after a restore of all files those behind its target."""
    seen: set[Oid] = set()
    ahead: Iterator[Summary] = store.history(tip) if tip else iter(())
    while (summary := next(ahead, None)) is not None and summary.commit not in seen:
        seen.add(summary.commit)
        yield summary
        target = _target(store, summary)
        if target is not None:
            ahead = store.history(target)


def _target(store: Store, restored: Summary) -> Oid | None:
    """What a restore brought back all files of, None for any other checkpoint, or if it is gone.

    After a restore of some paths the files are nearer to those before it.
    """
    session, _, number = restored.trailers.get("Gitcp-Restored-From", "").rpartition("@")
    target = store.find(CheckpointId(session, int(number))) if number.isdecimal() else None
    if target is None or restored.parent is None:
        return target
    now, there, before = (
        files_of(store, store.summary(c).root) for c in (restored.commit, target, restored.parent)
    )
    is_whole = len(store.objects.compare(there, now)) < len(store.objects.compare(before, now))
    return target if is_whole else None
