"""Prune: policy → plan → apply. Drops checkpoints from their chains; what is dropped goes to the
trash.

The plan is a verdict on every checkpoint, with its reason. Applied is what was agreed to, as far as
it may still be dropped then: a checkpoint that got a tag or a fork meanwhile stays, and none is
dropped that nobody was shown.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from datetime import timedelta
from pathlib import Path

from gitcp.errors import BadValue, GitcpError, Refused, StoreDamaged
from gitcp.git.repo import Repository
from gitcp.model import CheckpointId, Oid, Trigger
from gitcp.retention import Candidate, Policy, Verdict, decide, ranges
from gitcp.running import transaction
from gitcp.state import effects, journal, rewrite, trash
from gitcp.state.journal import Restores, Unfinished
from gitcp.state.oplog import Operation
from gitcp.state.rewrite import Forest
from gitcp.store import Store, Summary
from gitcp.value import Value, replace

Judge = Callable[[tuple[Candidate, ...]], tuple[Verdict, ...]]
"""Verdicts on the checkpoints of one session, newest first."""


UNFINISHED = "an unfinished restore needs it"
UNDONE = "its compensation was not run"


class Request(Value):
    """What to keep, of which session (None: of each), and how long the trash keeps what was
    dropped.
    """

    policy: Policy = Policy()
    session: str | None = None
    expire: timedelta = trash.KEPT_FOR


class Plan(Value):
    """A verdict on each checkpoint, session by session, newest first, and the parts of the trash
    that are forgotten.

    `damaged` are the sessions that were left alone, since not every checkpoint of theirs can be
    read.
    """

    verdicts: tuple[tuple[Summary, Verdict], ...]
    expired: tuple[str, ...] = ()
    damaged: tuple[str, ...] = ()

    @property
    def dropped(self) -> tuple[tuple[Summary, Verdict], ...]:
        """What would go."""
        return tuple(each for each in self.verdicts if not each[1].keep)

    def __bool__(self) -> bool:
        return bool(self.dropped or self.expired)


class Report(Value):
    """What was done. `operation` is None where nothing was dropped."""

    plan: Plan
    operation: Operation | None
    expired: tuple[str, ...] = ()


def plan(store: Store, request: Request) -> Plan:
    """What `prune` would do now. Writes nothing. Raises BadValue for a policy that keeps nothing,
    StoreDamaged.
    """
    return _plan(store, rewrite.read(store, despite_damage=True), request)


def _plan(store: Store, forest: Forest, request: Request) -> Plan:
    if not request.policy:
        raise BadValue(
            "this policy keeps nothing: nothing was dropped",
            hint="give a rule, like --keep-last 1; gitcp delete SESSION drops a whole session",
        )
    now = store.repo.host.now()
    looked_at = None if request.session is None else {request.session}
    labels = request.policy.labelled
    verdicts = judged(
        store, forest, lambda found: decide(found, request.policy, now), looked_at, labels=labels
    )
    expired = trash.expired(store, now, request.expire)
    return Plan(tuple(verdicts), tuple(entry.name for entry in expired), tuple(forest.damaged))


def prune(store: Store, request: Request, agreed: Plan | None = None) -> Report:
    """Drop what the policy does not keep, and of that nothing that `agreed` does not say.

    Writes commits, refs under `refs/gitcp/`, and files in `<git dir>/gitcp/`; nothing else. Raises
    what `plan` raises.
    """
    with store.lock():
        rewrite.finish(store)
        forest = rewrite.read(store, despite_damage=True)
        made = _only(_plan(store, forest, request), agreed)
        operation = drop(store, forest, made) if made.dropped else None
        old = [entry for entry in trash.entries(store) if entry.name in made.expired]
        return Report(made, operation, trash.forget(store, old))


def again(store: Store, operation: Operation, agreed: Plan | None = None) -> Report:
    """Redo a prune that was undone: drop the same checkpoints, but for those that something needs
    by now.
    """
    with store.lock():
        rewrite.finish(store)
        forest = rewrite.read(store)
        made = _only(plan_again(store, operation, forest), agreed)
        if not made.dropped:
            raise Refused(
                "what was dropped then is needed now, or gone: nothing was changed",
                hint="gitcp oplog",
            )
        return Report(made, drop(store, forest, made, what="redo", of=operation.number))


def plan_again(store: Store, operation: Operation, forest: Forest | None = None) -> Plan:
    """What `again` would drop. Writes nothing."""
    wanted = {
        session: [range(a, b + 1) for a, b in runs] for session, runs in operation.dropped.items()
    }
    now = store.repo.host.now()

    def judge(found: tuple[Candidate, ...]) -> tuple[Verdict, ...]:
        verdicts = decide(found, Policy(last=0), now)
        return tuple(
            v if v.keep or _is_in(v.id, wanted) else replace(v, keep=True, reason="not meant")
            for v in verdicts
        )

    return Plan(tuple(judged(store, forest or rewrite.read(store), judge)))


def drop(
    store: Store,
    forest: Forest,
    made: Plan,
    what: str = "prune",
    of: int | None = None,
    *,
    automatic: bool = False,
) -> Operation:
    """Write the chains without what the plan drops, move the refs, log it. The caller holds the
    store's lock.
    """
    dropped = [node for node, _ in made.dropped]
    becomes = rewrite.rewrite(store, forest, {node.commit for node in dropped})
    moves = rewrite.moves(store, forest, becomes)
    now = store.repo.host.now()
    name = trash.new_name(store, now)
    ids = [node.id for node in dropped]
    operation = Operation(
        number=0,
        time=now,
        what=what,
        said=f"dropped {trash.said(ids)}",
        worktree=store.repo.worktree_name,
        trash=name,
        dropped=ranges(ids),
        of=of,
        automatic=automatic,
    )
    return rewrite.carry_out(store, [*rewrite.put_away(moves, name), *moves], operation)


def judged(
    store: Store,
    forest: Forest,
    judge: Judge,
    sessions: Collection[str] | None = None,
    *,
    labels: bool = False,
) -> Iterator[tuple[Summary, Verdict]]:
    """The verdicts on every checkpoint, or on those of some sessions; `labels`: whether the judge
    looks at them.
    """
    for name, found in candidates(store, forest).items():
        if sessions is not None and name not in sessions:
            continue
        verdicts = judge(tuple(candidate for _, candidate in found))
        # in a commit's subject, and to be sure in its metadata: read only where it decides
        if labels:
            condemned = {v.id for v in verdicts if not v.keep}
            known = (
                replace(c, labelled=_is_labelled(store, n)) if c.id in condemned else c
                for n, c in found
            )
            verdicts = judge(tuple(known))
        yield from zip((node for node, _ in found), verdicts, strict=True)


def candidates(store: Store, forest: Forest) -> dict[str, list[tuple[Summary, Candidate]]]:
    """Every checkpoint as a policy sees it, by session, newest first."""
    tags: dict[Oid, tuple[str, ...]] = {}
    for name, commit in forest.tagged.items():
        tags[commit] = (*tags.get(commit, ()), name)
    forks, firsts = _forks(forest)
    (needed, safeties), tips = awaited(store), set(forest.sessions.values())
    found: dict[str, list[tuple[Summary, Candidate]]] = {}
    for commit, node in forest.nodes.items():
        candidate = Candidate(
            id=node.id,
            created=node.created,
            trigger=Trigger.BEFORE_RESTORE
            if node.id in safeties
            else node.trailers.get("Gitcp-Trigger", ""),
            tags=tags.get(commit, ()),
            forks=forks.get(node.id, ()),
            last=commit in tips,
            origin=firsts.get(node.id),
            needed=needed.get(node.id, "") or (UNDONE if effects.is_open(store, node) else ""),
            state="Gitcp-State" in node.trailers,
        )
        found.setdefault(node.id.session, []).append((node, candidate))
    for each in found.values():
        each.sort(key=lambda pair: pair[0].id.number, reverse=True)
    return dict(sorted(found.items()))


def _forks(
    forest: Forest,
) -> tuple[dict[CheckpointId, tuple[str, ...]], dict[CheckpointId, CheckpointId]]:
    """The checkpoints where sessions branch off, and which; and the first one of each fork, with
    where it began.
    """
    points: dict[CheckpointId, tuple[str, ...]] = {}
    firsts: dict[CheckpointId, CheckpointId] = {}
    for node in forest.nodes.values():
        parent = forest.nodes[node.parent].id if node.parent else None
        session, _, number = node.trailers.get("Gitcp-Forked-From", "").rpartition("@")
        if session and number.isdecimal():
            firsts[node.id] = CheckpointId(session, int(number))
        elif parent is not None and parent.session != node.id.session:
            firsts[node.id] = parent
        for point in {firsts.get(node.id), parent} if node.id in firsts else ():
            if point is not None:
                points[point] = tuple(sorted({*points.get(point, ()), node.id.session}))
    return points, firsts


def awaited(store: Store) -> tuple[dict[CheckpointId, str], set[CheckpointId]]:
    """What restores and runs of any working tree still go to, and why; and all that were made or
    found before one.
    """
    needed: dict[CheckpointId, str] = {}
    safeties: set[CheckpointId] = set()
    common = store.repo.common_dir
    for git_dir in (common, *sorted(common.glob("worktrees/*"))):
        known, begun = _restores(Repository(store.repo.root, Path(git_dir), store.repo.host))
        needed |= dict.fromkeys(known.undo[-1:], "undo goes back to it") | dict.fromkeys(
            known.redo[-1:], "redo goes to it"
        )
        needed |= dict.fromkeys((begun.target, begun.safety) if begun else (), UNFINISHED)
        safeties |= {*known.undo, *known.redo}
        runs = transaction.everyone(Repository(store.repo.root, Path(git_dir), store.repo.host))
        needed |= {each.before: "a run goes back to it" for each in runs}
    return needed, safeties


def _restores(repo: Repository) -> tuple[Restores, Unfinished | None]:
    try:
        return journal.restores(repo), journal.unfinished(repo)
    except GitcpError as error:
        raise Refused(
            f"what undo needs cannot be told: nothing was dropped ({error})", hint=error.hint
        ) from None


def _is_labelled(store: Store, node: Summary) -> bool:
    """Whether the user named it. A subject that gitcp did not make is a label; one that looks like
    it is looked up.
    """
    trigger = node.trailers.get("Gitcp-Trigger", "")
    made = node.subject.startswith((f"{trigger}: ", f"{trigger} {node.id}", "restored "))
    try:
        return not made or bool(store.read(node.commit).note.label)
    except StoreDamaged:
        return False


def _only(made: Plan, agreed: Plan | None) -> Plan:
    """The plan without what was not agreed to."""
    if agreed is None:
        return made
    shown = {node.id for node, _ in agreed.dropped}
    stays = "saved or released since the plan was shown"
    verdicts = (
        (n, v if v.keep or n.id in shown else replace(v, keep=True, reason=stays))
        for n, v in made.verdicts
    )
    return Plan(
        tuple(verdicts),
        tuple(name for name in made.expired if name in agreed.expired),
        made.damaged,
    )


def _is_in(id: CheckpointId, wanted: Mapping[str, Collection[range]]) -> bool:
    return any(id.number in numbers for numbers in wanted.get(id.session, ()))
