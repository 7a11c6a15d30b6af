"""Automatic retention: after a save, what is beyond the limits of number, age and size goes to the
trash.

Off until a limit is set. What has a label or a tag, and what is younger than a day, never goes by
itself. At most once an hour the whole store is looked at, by the process of
gitcp.lifecycle.housekeeping; a save reads one small file. What that process dropped, the next
`gitcp save` or `run` says.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Any

from gitcp.errors import GitcpError, StoreDamaged
from gitcp.git.repo import Repository
from gitcp.lifecycle import prune, stats
from gitcp.lifecycle.prune import Plan
from gitcp.model import CheckpointId
from gitcp.retention import Candidate, Limits, Verdict, droppable, overdue
from gitcp.state import journal, rewrite, settings, trash
from gitcp.state.oplog import Operation
from gitcp.state.rewrite import Forest
from gitcp.store import Store, Summary
from gitcp.value import replace

MEMO = "limits.json"
PAUSE = timedelta(hours=1)

Judged = tuple[tuple[Summary, Verdict], ...]


def is_due_after(store: Store, saved: CheckpointId) -> bool:
    """Whether something could be beyond the limits that are set. Raises BadValue for a setting that
    cannot be read.
    """
    limits = settings.retention(store.repo)
    return bool(limits) and is_due(limits, seen(store.repo), saved, store.repo.host.now())


def after_save(store: Store, saved: CheckpointId) -> Operation | None:
    """Drop what is beyond the limits, None where nothing was. The caller has saved, and holds no
    lock.

    Writes nothing where no limit is set. Raises BadValue for a setting that cannot be read, and
    what a prune raises.
    """
    limits = settings.retention(store.repo)
    if not limits:
        return None
    now = store.repo.host.now()
    if not is_due(limits, seen(store.repo), saved, now):
        return None
    try:
        return _keep_within(store, limits, now)
    except GitcpError:
        with suppress(GitcpError):
            _remember(store, limits, Plan(()), now)  # or the next save would try at once
        raise


def _keep_within(store: Store, limits: Limits, now: datetime) -> Operation | None:
    # to tell sizes takes longest: without the lock
    made = _plan(store, rewrite.read(store), limits, now)
    with store.lock():
        rewrite.finish(store)
        done = None
        if made.dropped:
            forest = rewrite.read(store)
            made = _still(store, forest, made, now)
            done = prune.drop(store, forest, made, automatic=True) if made.dropped else None
        trash.forget(store, (entry for entry in trash.expired(store, now) if not entry.is_damaged))
        _remember(store, limits, made, now)
        return done


def _still(store: Store, forest: Forest, made: Plan, now: datetime) -> Plan:
    """The plan for the store as it is by now: what was saved since stays, and what was given a
    name.
    """
    then = {node.id: verdict for node, verdict in made.verdicts}
    free = {
        v.id
        for _, v in prune.judged(store, forest, _judge_droppable(now), labels=True)
        if not v.keep
    }
    verdicts = (
        (
            node,
            found
            if found.keep or node.id in free
            else replace(found, keep=True, reason="needed by now"),
        )
        for node in forest.nodes.values()
        for found in (then.get(node.id, Verdict(node.id, keep=True, reason="younger than a day")),)
    )
    return Plan(tuple(sorted(verdicts, key=lambda pair: (pair[0].id.session, -pair[0].id.number))))


def is_due(limits: Limits, memo: Mapping[str, Any], saved: CheckpointId, now: datetime) -> bool:
    """Whether something could be beyond a limit, by what was seen at the last look."""
    try:
        if memo["limits"] != repr(limits):
            return True
        looked = datetime.fromisoformat(memo["looked"])
        if looked <= now < looked + PAUSE:
            return False
        number, kept = memo["sessions"].get(saved.session, (0, 0))
        oldest = memo["oldest"] and datetime.fromisoformat(memo["oldest"])
        by_count = limits.count is not None and kept + saved.number - number > limits.count
        by_age = limits.age is not None and bool(oldest) and oldest + limits.age < now
        return looked > now or by_count or by_age or limits.size is not None
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError):
        return True  # no look was taken yet, or nothing is known of it


def _plan(store: Store, forest: Forest, limits: Limits, now: datetime) -> Plan:
    judged = tuple(
        prune.judged(store, forest, lambda found: overdue(found, limits, now), labels=True)
    )
    return Plan(judged if limits.size is None else _fitted(store, forest, judged, limits.size, now))


def _fitted(store: Store, forest: Forest, judged: Judged, size: int, now: datetime) -> Judged:
    """The verdicts with so many more of the oldest dropped that the rest takes no more than `size`,
    if that can be.
    """
    free = {
        v.id
        for _, v in prune.judged(store, forest, _judge_droppable(now), labels=True)
        if not v.keep
    }
    staying = [node for node, v in judged if v.keep]
    oldest = sorted(
        (node for node in staying if node.id in free), key=lambda node: (node.created, node.id)
    )
    project = stats.project_trees(store, forest)

    def fits(count: int) -> bool:
        gone = {node.commit for node in oldest[:count]}
        return (
            stats.usage(store, [n.root for n in staying if n.commit not in gone], project) <= size
        )

    low, high = 0, len(oldest)
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if fits(middle) else (middle + 1, high)
    gone = {node.commit for node in oldest[:low]}
    reason = f"the checkpoints take more than {size:,} bytes"
    return tuple(
        (n, replace(v, keep=False, reason=reason) if n.commit in gone else v) for n, v in judged
    )


def _judge_droppable(now: datetime) -> prune.Judge:
    def judge(found: tuple[Candidate, ...]) -> tuple[Verdict, ...]:
        free = {candidate.id for candidate in droppable(found, now)}
        return tuple(Verdict(candidate.id, candidate.id not in free, "") for candidate in found)

    return judge


def _remember(store: Store, limits: Limits, made: Plan, now: datetime) -> None:
    """What the next saves need to know. `oldest` is that of the checkpoints which only their age
    keeps.
    """
    sessions: dict[str, list[int]] = {}
    for node, verdict in made.verdicts:
        seen = sessions.setdefault(node.id.session, [node.id.number, 0])
        seen[1] += verdict.keep
    aging = [
        n.created
        for n, v in made.verdicts
        if v.reason in ("within the limits", "younger than a day")
    ]
    fields: dict[str, object] = {
        "schema": "gitcp.retention/1",
        "limits": repr(limits),
        "looked": now.isoformat(),
        "sessions": sessions,
        "oldest": min(aging).isoformat() if aging else None,
    }
    journal.write_fields(store.repo.store_dir / MEMO, fields)


def seen(repo: Repository) -> Mapping[str, Any]:
    """What was written down at the last look; nothing where it cannot be read."""
    try:
        return journal.read_fields(repo.common_dir / "gitcp" / MEMO) or {}
    except StoreDamaged:
        return {}
