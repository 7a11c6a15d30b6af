"""Prune: policy → plan → apply. Dropped checkpoints go to the trash.

The plan is a verdict with a reason for every checkpoint. The agreed plan is applied as far as
it still holds: a checkpoint that got a tag or fork in the meantime is kept, and nothing is
dropped that was not in the plan.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import Any

from gitcp.errors import BadValue, GitcpError, Refused, RevisionNotFound, StoreDamaged
from gitcp.git.repo import Repository
from gitcp.model import CheckpointId, Oid, Trigger
from gitcp.retention import Candidate, Policy, RetentionVerdict, decide, ranges
from gitcp.state import effects, journal, rewrite, run_journal, trash, undo_stack
from gitcp.state.journal import Unfinished
from gitcp.state.oplog import Operation
from gitcp.state.rewrite import Forest
from gitcp.state.undo_stack import UndoState
from gitcp.store import Store, Summary, is_generated
from gitcp.value import Value, replace

Judge = Callable[[tuple[Candidate, ...]], tuple[RetentionVerdict, ...]]
"""Returns verdicts on the checkpoints of one session, newest first."""


UNFINISHED = "needed by an unfinished restore"
UNDONE = "its compensation has not run"
DAMAGED = "its session is damaged"
POSITION = "its files belong to the current position"


class PruneRequest(Value):
    """What to keep, in which session (None: all), and how long the trash keeps dropped
    checkpoints.
    """

    policy: Policy = Policy()
    session: str | None = None
    expire: timedelta = trash.KEPT_FOR


class PrunePlan(Value):
    """A verdict on each checkpoint, by session, newest first, and the trash entries to delete.

    `damaged` are sessions that are skipped, since some checkpoint cannot be read.
    """

    verdicts: tuple[tuple[Summary, RetentionVerdict], ...]
    expired: tuple[str, ...] = ()
    damaged: tuple[str, ...] = ()

    @property
    def dropped(self) -> tuple[tuple[Summary, RetentionVerdict], ...]:
        """The checkpoints to drop."""
        return tuple(each for each in self.verdicts if not each[1].keep)

    def __bool__(self) -> bool:
        return bool(self.dropped or self.expired)

    def to_json(self) -> dict[str, Any]:
        """Return the fields that `gitcp delete --old --dry-run --json` prints."""
        return {
            "dropped": [_verdict(each) for each in self.dropped],
            "kept": [_verdict(each) for each in self.verdicts if each[1].keep],
            "trash": None,
            "expired": list(self.expired),
        }


class PruneReport(Value):
    """The result. `operation` is None if nothing was dropped."""

    plan: PrunePlan
    operation: Operation | None
    expired: tuple[str, ...] = ()

    @property
    def dropped(self) -> tuple[tuple[Summary, RetentionVerdict], ...]:
        """The checkpoints that were dropped."""
        return self.plan.dropped if self.operation else ()

    def to_json(self) -> dict[str, Any]:
        """Return the fields that `gitcp delete --old --json` prints."""
        trash = self.operation.trash if self.operation else None
        return {**self.plan.to_json(), "trash": trash, "expired": list(self.expired)}


def _verdict(judged: tuple[Summary, RetentionVerdict]) -> dict[str, str]:
    return {"id": str(judged[0].id), "reason": judged[1].reason}


def plan(store: Store, request: PruneRequest) -> PrunePlan:
    """Return what `prune` would do now. Writes nothing. Raises BadValue for a policy that
    keeps nothing, and StoreDamaged.
    """
    return plan_for(store, rewrite.read(store, despite_damage=True), request)


def plan_for(store: Store, forest: Forest, request: PruneRequest) -> PrunePlan:
    """Return the plan for checkpoints that were read already, as `plan` does."""
    if not request.policy:
        raise BadValue(
            "this policy keeps nothing (to drop a session, use gitcp delete); nothing was dropped",
            hint="gitcp delete --old --keep-last 1",
        )
    now = store.repo.host.now()
    sessions = None if request.session is None else {request.session}
    labels = request.policy.labelled
    verdicts = judge_all(
        store,
        forest,
        lambda in_session: decide(in_session, request.policy, now),
        sessions,
        labels=labels,
    )
    expired = trash.expired(store, now, request.expire)
    return PrunePlan(tuple(verdicts), tuple(entry.name for entry in expired), tuple(forest.damaged))


def prune(store: Store, request: PruneRequest, agreed: PrunePlan | None = None) -> PruneReport:
    """Drop what the policy does not keep, and only what is in `agreed`.

    Writes commits, refs under `refs/gitcp/`, and files in `<git dir>/gitcp/`. Raises what `plan`
    raises.
    """
    with store.lock():
        rewrite.finish(store)
        forest = rewrite.read(store, despite_damage=True)
        final = _restrict(plan_for(store, forest, request), agreed)
        operation = drop(store, forest, final) if final.dropped else None
        expired_entries = [entry for entry in trash.entries(store) if entry.name in final.expired]
        return PruneReport(final, operation, trash.forget(store, expired_entries))


def redo(store: Store, operation: Operation, agreed: PrunePlan | None = None) -> PruneReport:
    """Redo a prune that was undone: drop the same checkpoints, except those that are needed now."""
    with store.lock():
        rewrite.finish(store)
        forest = rewrite.read(store, despite_damage=True)
        final = _restrict(plan_redo(store, operation, forest), agreed)
        if not final.dropped:
            raise Refused(
                "all of these checkpoints are needed now or already gone; nothing was changed",
                hint="gitcp log --operations",
            )
        return PruneReport(final, drop(store, forest, final, what="redo", of=operation.number))


def plan_redo(store: Store, operation: Operation, forest: Forest | None = None) -> PrunePlan:
    """Return what `redo` would drop. Writes nothing."""
    ranges_by_session = {
        session: [range(a, b + 1) for a, b in runs] for session, runs in operation.dropped.items()
    }
    forest = forest or rewrite.read(store, despite_damage=True)
    return _plan_chosen(
        store,
        forest,
        lambda id: any(id.number in each for each in ranges_by_session.get(id.session, ())),
    )


def plan_one(store: Store, id: CheckpointId, forest: Forest | None = None) -> PrunePlan:
    """Return the plan to drop one checkpoint. Writes nothing. Raises Refused if it is needed, and
    RevisionNotFound.
    """
    forest = forest or rewrite.read(store, despite_damage=True)
    plan = _plan_chosen(store, forest, lambda each: each == id)
    verdict = next((v for _, v in plan.verdicts if v.id == id), None)
    if verdict is None:
        raise RevisionNotFound(
            f"no checkpoint {id} in this repository; nothing was deleted", hint="gitcp log"
        )
    if verdict.keep:
        raise Refused(
            f"{id} is kept: {verdict.reason}; nothing was deleted", hint="gitcp delete -h"
        )
    return plan


def drop_one(store: Store, id: CheckpointId) -> PruneReport:
    """Drop one checkpoint. Writes and raises as `prune` and `plan_one` do."""
    with store.lock():
        rewrite.finish(store)
        forest = rewrite.read(store, despite_damage=True)
        plan = plan_one(store, id, forest)
        return PruneReport(plan, drop(store, forest, plan))


def _plan_chosen(
    store: Store, forest: Forest, is_chosen: Callable[[CheckpointId], bool]
) -> PrunePlan:
    """Return the plan to drop the chosen checkpoints, except those that are always kept."""
    now = store.repo.host.now()

    def judge(checkpoints: tuple[Candidate, ...]) -> tuple[RetentionVerdict, ...]:
        verdicts = decide(checkpoints, Policy(last=0), now)
        return tuple(
            v
            if v.keep or is_chosen(v.id)
            else replace(v, keep=True, reason="not part of the operation")
            for v in verdicts
        )

    return PrunePlan(tuple(judge_all(store, forest, judge)))


def drop(
    store: Store,
    forest: Forest,
    plan: PrunePlan,
    what: str = "prune",
    of: int | None = None,
    *,
    automatic: bool = False,
) -> Operation:
    """Rewrite the chains, move the refs, log the operation. The caller holds the store's lock."""
    dropped = [node for node, _ in plan.dropped]
    becomes = rewrite.rewrite(store, forest, {node.commit for node in dropped})
    moves = rewrite.moves(store, forest, becomes)
    now = store.repo.host.now()
    name = trash.new_name(store, now)
    ids = [node.id for node in dropped]
    operation = Operation(
        number=0,
        time=now,
        what=what,
        summary=f"dropped {trash.summarize(ids)}",
        worktree=store.repo.worktree_name,
        trash=name,
        dropped=ranges(ids),
        of=of,
        automatic=automatic,
    )
    return rewrite.carry_out(store, [*rewrite.trash_moves(moves, name), *moves], operation)


def judge_all(
    store: Store,
    forest: Forest,
    judge: Judge,
    sessions: Collection[str] | None = None,
    *,
    labels: bool = False,
) -> Iterator[tuple[Summary, RetentionVerdict]]:
    """Yield the verdict on every checkpoint, or on those of `sessions`. `labels` tells
    whether the judge uses labels.
    """
    for name, in_session in candidates(store, forest).items():
        if sessions is not None and name not in sessions:
            continue
        verdicts = judge(tuple(candidate for _, candidate in in_session))
        # Reading labels can mean reading metadata: only where they decide.
        if labels:
            condemned = {v.id for v in verdicts if not v.keep}
            with_labels = (
                replace(c, labelled=_is_labelled(store, n)) if c.id in condemned else c
                for n, c in in_session
            )
            verdicts = judge(tuple(with_labels))
        yield from zip((node for node, _ in in_session), verdicts, strict=True)


def candidates(store: Store, forest: Forest) -> dict[str, list[tuple[Summary, Candidate]]]:
    """Return every checkpoint in the form that policies use, by session, newest first."""
    tags: dict[Oid, tuple[str, ...]] = {}
    for name, commit in forest.tagged.items():
        tags[commit] = (*tags.get(commit, ()), name)
    forks, firsts = _forks(forest)
    (needed, safeties), tips = needed_checkpoints(store), set(forest.sessions.values())
    needed |= dict.fromkeys(_positions(store, tips), POSITION)
    by_session: dict[str, list[tuple[Summary, Candidate]]] = {}
    for commit, node in forest.nodes.items():
        id = node.id  # parsed each time
        candidate = Candidate(
            id=id,
            created=node.created,
            trigger=Trigger.BEFORE_RESTORE
            if id in safeties
            else node.trailers.get("Gitcp-Trigger", ""),
            tags=tags.get(commit, ()),
            forks=forks.get(id, ()),
            last=commit in tips,
            origin=firsts.get(id),
            needed=needed.get(id) or _blocked(store, forest, node),
            state="Gitcp-State" in node.trailers,
        )
        by_session.setdefault(id.session, []).append((node, candidate))
    for each in by_session.values():
        each.sort(key=lambda pair: pair[1].id.number, reverse=True)
    return dict(sorted(by_session.items()))


def _positions(store: Store, tips: Iterable[Oid]) -> Iterator[CheckpointId]:
    """Yield the checkpoints that set the positions of these last ones, where those inherit them."""
    for tip in tips:
        with suppress(StoreDamaged):
            if (origin := store.read(tip).note.position_from) is not None:
                yield origin


def _blocked(store: Store, forest: Forest, node: Summary) -> str:
    """Return why a checkpoint is kept because of its session or effects, "" if it is not."""
    if node.id.session in forest.damaged:
        return DAMAGED
    return UNDONE if effects.is_open(store, node) else ""


def _forks(
    forest: Forest,
) -> tuple[dict[CheckpointId, tuple[str, ...]], dict[CheckpointId, CheckpointId]]:
    """Return the fork points with the sessions that start there, and the first
    checkpoint of each fork with its origin.
    """
    points: dict[CheckpointId, tuple[str, ...]] = {}
    firsts: dict[CheckpointId, CheckpointId] = {}
    damaged = (node for nodes in forest.damaged.values() for node in nodes)
    for node in (*forest.nodes.values(), *damaged):
        before, id = forest.nodes.get(node.parent) if node.parent else None, node.id
        parent = before.id if before else None
        session, _, number = node.trailers.get("Gitcp-Forked-From", "").rpartition("@")
        if session and number.isdecimal():
            firsts[id] = CheckpointId(session, int(number))
        elif parent is not None and parent.session != id.session:
            firsts[id] = parent
        for point in {firsts.get(id), parent} if id in firsts else ():
            if point is not None:
                points[point] = tuple(sorted({*points.get(point, ()), id.session}))
    return points, firsts


def needed_checkpoints(store: Store) -> tuple[dict[CheckpointId, str], set[CheckpointId]]:
    """Return the checkpoints that open restores, runs and undo in any working tree need, with the
    reason, and all safety checkpoints.
    """
    needed: dict[CheckpointId, str] = {}
    safeties: set[CheckpointId] = set()
    common = store.repo.common_dir
    for git_dir in (common, *sorted(common.glob("worktrees/*"))):
        repo = Repository(store.repo.root, Path(git_dir), store.repo.host)
        repo.common_dir = common  # git lets no other member read `commondir` under umask 077
        states, unfinished = _undo_states(repo)
        for known in states:
            needed |= _needed_next(known.undo, "undo") | _needed_next(known.redo, "redo")
            safeties |= {*known.restores.undo, *known.restores.redo}
        needed |= dict.fromkeys(
            (unfinished.target, unfinished.safety) if unfinished else (), UNFINISHED
        )
        runs = run_journal.transactions(repo)
        needed |= {each.before: "start of an open run" for each in runs}
    return needed, safeties


def _needed_next(operations: Sequence[Operation], command: str) -> dict[CheckpointId, str]:
    """Return what undoing, or redoing, the last restore needs: the checkpoint that it returns to,
    and the one that recorded the restore, by which later changes are told apart and kept.
    """
    last = next((each for each in reversed(operations) if each.safety is not None), None)
    if last is None or last.safety is None:
        return {}
    # Prune dropped this one: undo could no longer tell later changes from the restore's.
    recorded = dict.fromkeys(last.checkpoints[-1:], f"recorded the restore that {command} reverses")
    return recorded | {last.safety: f"target of the next {command}"}


def _undo_states(repo: Repository) -> tuple[tuple[UndoState, ...], Unfinished | None]:
    try:
        return undo_stack.undo_states(repo), journal.unfinished(repo)
    except GitcpError as error:
        raise Refused(
            f"cannot determine what undo needs: {error}; nothing was dropped", hint=error.hint
        ) from None


def _is_labelled(store: Store, node: Summary) -> bool:
    """Return whether the user labeled it. A subject that gitcp did not generate is a label;
    otherwise the metadata decides.
    """
    try:
        return not is_generated(node) or bool(store.read(node.commit).note.label)
    except StoreDamaged:
        return False


def _restrict(new: PrunePlan, agreed: PrunePlan | None) -> PrunePlan:
    """Return the plan without what was not agreed to."""
    if agreed is None:
        return new
    agreed_ids = {node.id for node, _ in agreed.dropped}
    reason = "changed since the plan was shown"
    verdicts = (
        (n, v if v.keep or n.id in agreed_ids else replace(v, keep=True, reason=reason))
        for n, v in new.verdicts
    )
    return PrunePlan(
        tuple(verdicts),
        tuple(name for name in new.expired if name in agreed.expired),
        new.damaged,
    )
