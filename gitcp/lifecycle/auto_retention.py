"""Automatic retention: after a save, move checkpoints beyond the limits of
count, age and size to the trash.

Off until a limit is set. Labeled, tagged, and checkpoints younger than a day are never dropped. The
store is scanned at most once an hour, by the process of gitcp.lifecycle.housekeeping; a save only
reads one small file. The next `gitcp save` or `run` reports what was dropped.

Nothing is dropped from a session in which an object is missing or damaged; the others are pruned.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Any

from gitcp.errors import GitcpError, GitFailed
from gitcp.git.repo import Repository
from gitcp.lifecycle import prune, stats
from gitcp.lifecycle.prune import PrunePlan, PruneReport
from gitcp.model import CheckpointId
from gitcp.retention import Candidate, Limits, RetentionVerdict, droppable, overdue
from gitcp.state import documents, rewrite, settings, trash
from gitcp.state.rewrite import Forest
from gitcp.store import Store, Summary
from gitcp.value import replace

MEMO = "limits.json"
PAUSE = timedelta(hours=1)

Judged = tuple[tuple[Summary, RetentionVerdict], ...]


def is_due_after(store: Store, saved: CheckpointId) -> bool:
    """Return whether a limit may be exceeded. Raises BadValue for an invalid setting."""
    limits = settings.retention(store.repo)
    return bool(limits) and is_due(limits, last_scan(store.repo), saved, store.repo.host.now())


def after_save(store: Store, saved: CheckpointId) -> PruneReport | None:
    """Drop what is beyond the limits; return None if no scan is due. The
    caller must not hold the lock.

    Writes nothing if no limit is set. Raises BadValue for an invalid setting, and what a prune
    raises.
    """
    limits = settings.retention(store.repo)
    if not limits:
        return None
    now = store.repo.host.now()
    if not is_due(limits, last_scan(store.repo), saved, now):
        return None
    try:
        return _apply_limits(store, limits, now)
    except GitcpError:
        with suppress(GitcpError):
            _remember(store, limits, PrunePlan(()), now)  # do not retry on each save
        raise


def _apply_limits(store: Store, limits: Limits, now: datetime) -> PruneReport:
    # Computing sizes is slow: done without the lock.
    plan = _plan_undamaged(store, rewrite.read(store, despite_damage=True), limits, now)
    with store.lock():
        rewrite.finish(store)
        operation = None
        if plan.dropped:
            forest = rewrite.read(store, despite_damage=True)
            plan = _recheck(store, forest, plan, now)
            operation = prune.drop(store, forest, plan, automatic=True) if plan.dropped else None
        trash.forget(store, (entry for entry in trash.expired(store, now) if not entry.is_damaged))
        _remember(store, limits, plan, now)
        return PruneReport(plan, operation)


def _recheck(store: Store, forest: Forest, plan: PrunePlan, now: datetime) -> PrunePlan:
    """Return the plan for the current store, keeping what was saved, tagged or labeled since."""
    planned = {node.id: verdict for node, verdict in plan.verdicts}
    still_droppable = {
        v.id
        for _, v in prune.judge_all(store, forest, _judge_droppable(now), labels=True)
        if not v.keep
    }
    verdicts = (
        (
            node,
            judgement
            if judgement.keep or node.id in still_droppable
            else replace(judgement, keep=True, reason="needed in the meantime"),
        )
        for node in forest.nodes.values()
        for judgement in (
            planned.get(node.id, RetentionVerdict(node.id, keep=True, reason="younger than a day")),
        )
    )
    ordered = sorted(verdicts, key=lambda pair: (pair[0].id.session, -pair[0].id.number))
    return PrunePlan(tuple(ordered), damaged=plan.damaged)


def is_due(limits: Limits, memo: Mapping[str, Any], saved: CheckpointId, now: datetime) -> bool:
    """Return whether a limit may be exceeded, judging by the last scan."""
    try:
        if memo["limits"] != repr(limits):
            return True
        scanned = datetime.fromisoformat(memo["looked"])
        if scanned <= now < scanned + PAUSE:
            return False
        number, kept_count = memo["sessions"].get(saved.session, (0, 0))
        oldest = memo["oldest"] and datetime.fromisoformat(memo["oldest"])
        by_count = limits.count is not None and kept_count + saved.number - number > limits.count
        by_age = limits.age is not None and bool(oldest) and oldest + limits.age < now
        return scanned > now or by_count or by_age or limits.size is not None
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError):
        return True  # never scanned, or the file is invalid


def _plan_undamaged(store: Store, forest: Forest, limits: Limits, now: datetime) -> PrunePlan:
    """Return the plan, with nothing to drop in damaged sessions. Raises GitFailed if git cannot
    compute sizes although none is damaged.
    """
    try:
        plan, failure = _plan(store, forest, limits, now), None
        suspects = {node.id.session for node, _ in plan.dropped}
    except GitFailed as error:  # git computes no size at all if an object is missing
        plan, failure = PrunePlan(()), error
        suspects = {node.id.session for node in forest.nodes.values()} - forest.damaged.keys()
    sessions = {name: _nodes_of(forest, name) for name in suspects}
    damaged = {
        name: nodes
        for name, nodes in sessions.items()
        if not stats.is_whole(store, [node.root for node in nodes])
    }
    # One damaged session stopped the limits on all others.
    if damaged:
        forest = replace(forest, damaged={**forest.damaged, **damaged})
        return _plan_undamaged(store, forest, limits, now)
    if failure is not None:
        raise failure
    return replace(plan, damaged=tuple(forest.damaged))


def _nodes_of(forest: Forest, session: str) -> tuple[Summary, ...]:
    return tuple(node for node in forest.nodes.values() if node.id.session == session)


def _plan(store: Store, forest: Forest, limits: Limits, now: datetime) -> PrunePlan:
    judged = tuple(
        prune.judge_all(store, forest, lambda summary: overdue(summary, limits, now), labels=True)
    )
    return PrunePlan(
        judged if limits.size is None else _fit_size(store, forest, judged, limits.size, now)
    )


def _fit_size(store: Store, forest: Forest, judged: Judged, size: int, now: datetime) -> Judged:
    """Drop more of the oldest checkpoints until the rest takes at most `size` bytes, if
    possible.
    """
    can_drop = {
        v.id
        for _, v in prune.judge_all(store, forest, _judge_droppable(now), labels=True)
        if not v.keep
    }
    staying = [node for node, v in judged if v.keep and node.id.session not in forest.damaged]
    oldest = sorted(
        (node for node in staying if node.id in can_drop), key=lambda node: (node.created, node.id)
    )
    project = stats.project_trees(store, forest)

    def fits(count: int) -> bool:
        dropped = {node.commit for node in oldest[:count]}
        return (
            stats.usage(store, [n.root for n in staying if n.commit not in dropped], project)
            <= size
        )

    low, high = 0, len(oldest)
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if fits(middle) else (middle + 1, high)
    dropped = {node.commit for node in oldest[:low]}
    reason = f"the checkpoints exceed {size:,} bytes"
    return tuple(
        (n, replace(v, keep=False, reason=reason) if n.commit in dropped else v) for n, v in judged
    )


def _judge_droppable(now: datetime) -> prune.Judge:
    def judge(checkpoints: tuple[Candidate, ...]) -> tuple[RetentionVerdict, ...]:
        can_drop = {candidate.id for candidate in droppable(checkpoints, now)}
        return tuple(
            RetentionVerdict(candidate.id, candidate.id not in can_drop, "")
            for candidate in checkpoints
        )

    return judge


def _remember(store: Store, limits: Limits, plan: PrunePlan, now: datetime) -> None:
    """Write what the next saves need to know. `oldest` is the time of the oldest
    checkpoint kept only for its age.
    """
    sessions: dict[str, list[int]] = {}
    for node, verdict in plan.verdicts:
        counts = sessions.setdefault(node.id.session, [node.id.number, 0])
        counts[1] += verdict.keep
    aging = [
        n.created
        for n, v in plan.verdicts
        if v.reason in ("within the limits", "younger than a day")
    ]
    fields: dict[str, object] = {
        "schema": "gitcp.retention/1",
        "limits": repr(limits),
        "looked": now.isoformat(),
        "sessions": sessions,
        "oldest": min(aging).isoformat() if aging else None,
    }
    documents.write(store.repo.store_dir / MEMO, fields)


def last_scan(repo: Repository) -> Mapping[str, Any]:
    """Return what was written at the last scan, {} if it cannot be read."""
    return documents.peek(repo.common_dir / "gitcp" / MEMO)
