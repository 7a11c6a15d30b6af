"""Decide which checkpoints are kept. Pure: (checkpoints, policy, now) → a
verdict with a reason for each.

Always kept are the last checkpoint of a session, tagged ones, fork points, recent safety
checkpoints, and whatever is needed elsewhere. All others need a rule.

The order is that of the chain, not of clocks: `last` counts checkpoints. If a clock jumped, a
checkpoint may look younger and is kept longer; one from the future counts as new.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime, timedelta

from gitcp.model import CheckpointId, Trigger
from gitcp.value import Value

YOUNG_SAFETY = timedelta(days=7)
"""How long a safety checkpoint (before a restore) is kept."""
YOUNG = timedelta(days=1)
"""Younger checkpoints are never dropped automatically."""

UNWANTED = "no rule keeps it"


class Candidate(Value):
    """A checkpoint as policies see it.

    `forks` are the sessions that start at it, `last` marks the last one of a session, `origin` is
    set on the first one of a fork, `labelled` means that the user labeled it, `needed` is the
    reason it is needed elsewhere ("" if it is not), `state` marks a framework's data, where only
    the framework knows what depends on it.
    """

    id: CheckpointId
    created: datetime
    trigger: str = Trigger.MANUAL.value
    tags: tuple[str, ...] = ()
    forks: tuple[str, ...] = ()
    last: bool = False
    origin: CheckpointId | None = None
    labelled: bool = False
    needed: str = ""
    state: bool = False


class Policy(Value):
    """What `prune` keeps in each session; a checkpoint that no rule keeps is dropped.

    `last`: so many of the newest ones. `within`: all that are not older than this. `hourly`,
    `daily`, `weekly`, `monthly`: the newest one of each of so many of the last hours, days, weeks
    and months that have any. `labelled`: all with a label. Tags, fork points, the last checkpoint
    of a session and what is needed elsewhere are kept in any case.
    """

    last: int = 10
    within: timedelta | None = None
    hourly: int = 0
    daily: int = 0
    weekly: int = 0
    monthly: int = 0
    labelled: bool = False

    def __bool__(self) -> bool:
        """Return whether it keeps anything by itself."""
        return any(
            (
                self.last,
                self.within,
                self.hourly,
                self.daily,
                self.weekly,
                self.monthly,
                self.labelled,
            )
        )


class Limits(Value):
    """When saving prunes automatically: checkpoints per session, their age, and
    total bytes. None means no limit.
    """

    count: int | None = None
    age: timedelta | None = None
    size: int | None = None

    def __bool__(self) -> bool:
        return (self.count, self.age, self.size) != (None, None, None)


class RetentionVerdict(Value):
    """Whether a checkpoint is kept, and why."""

    id: CheckpointId
    keep: bool
    reason: str


Rule = Callable[[Candidate], str | None]
"""Returns why this rule keeps a checkpoint, None if it does not. Called for each, newest first."""


def decide(
    candidates: Sequence[Candidate], policy: Policy, now: datetime
) -> tuple[RetentionVerdict, ...]:
    """Return the verdicts on one session's checkpoints, given and returned
    newest first. `now` must be aware.
    """
    return _verdicts(candidates, [_protected(now), *_rules(policy, now)])


def overdue(
    candidates: Sequence[Candidate], limits: Limits, now: datetime
) -> tuple[RetentionVerdict, ...]:
    """Return the verdicts by limits of count and age: what exceeds one is dropped unless it
    is protected (see `droppable`).
    """
    verdicts = []
    exempt = _verdicts(candidates, [_protected(now), _labelled, _young(now)])
    for index, (candidate, verdict) in enumerate(zip(candidates, exempt, strict=True)):
        reason = _exceeded(limits, index, candidate, now)
        verdicts.append(
            verdict
            if verdict.keep
            else RetentionVerdict(candidate.id, not reason, reason or "within the limits")
        )
    return tuple(verdicts)


def droppable(candidates: Sequence[Candidate], now: datetime) -> tuple[Candidate, ...]:
    """Return the checkpoints that can be dropped to free space: not recent, labeled or
    protected.
    """
    exempt = _verdicts(candidates, [_protected(now), _labelled, _young(now)])
    return tuple(c for c, verdict in zip(candidates, exempt, strict=True) if not verdict.keep)


def _verdicts(
    candidates: Sequence[Candidate], rules: Sequence[Rule]
) -> tuple[RetentionVerdict, ...]:
    """Apply every rule to every checkpoint, since some rules count. The first match gives the
    reason.
    """
    verdicts = []
    for candidate in candidates:
        reasons = [reason for reason in [rule(candidate) for rule in rules] if reason is not None]
        verdicts.append(
            RetentionVerdict(candidate.id, bool(reasons), reasons[0] if reasons else UNWANTED)
        )
    return tuple(verdicts)


def _protected(now: datetime) -> Rule:
    """Return the rule for checkpoints that are always kept."""

    def rule(candidate: Candidate) -> str | None:
        if candidate.last:
            return "last of its session"
        if candidate.tags:
            return f"tag {', '.join(candidate.tags)}"
        if candidate.forks:
            return f"{', '.join(candidate.forks)} was forked from it"
        if candidate.origin:
            return f"start of a fork of {candidate.origin}"
        if candidate.needed:
            return candidate.needed
        if candidate.state:
            return "graph state that others may need"
        if candidate.trigger == Trigger.BEFORE_RESTORE and now - candidate.created < YOUNG_SAFETY:
            return f"safety checkpoint, kept for {YOUNG_SAFETY.days} days"
        return None

    return rule


def _rules(policy: Policy, now: datetime) -> Iterator[Rule]:
    yield _last(policy.last)
    if policy.within is not None:
        yield _within(policy.within, now)
    if policy.labelled:
        yield _labelled
    yield _newest_of("hour", policy.hourly, "%Y-%m-%d %H:00", now)
    yield _newest_of("day", policy.daily, "%Y-%m-%d", now)
    yield _newest_of("week", policy.weekly, "%G-W%V", now)
    yield _newest_of("month", policy.monthly, "%Y-%m", now)


def _last(count: int) -> Rule:
    seen: list[CheckpointId] = []

    def rule(candidate: Candidate) -> str | None:
        seen.append(candidate.id)
        return f"one of the last {count}" if len(seen) <= count else None

    return rule


def _within(length: timedelta, now: datetime) -> Rule:
    return lambda candidate: (
        f"from the last {_span(length)}" if now - candidate.created <= length else None
    )


def _newest_of(unit: str, count: int, form: str, now: datetime) -> Rule:
    """Return the rule for the newest checkpoint of each of the last `count` units that have
    one, in the time zone of `now`.
    """
    seen: set[str] = set()

    def rule(candidate: Candidate) -> str | None:
        if len(seen) >= count:
            return None
        name = _local(candidate.created, now).strftime(form)
        if name in seen:
            return None
        seen.add(name)
        return f"last of {unit} {name}"

    return rule


def _local(time: datetime, now: datetime) -> datetime:
    try:
        return time.astimezone(now.tzinfo)
    except OverflowError:  # first or last day of the calendar
        return time


def _labelled(candidate: Candidate) -> str | None:
    return "labeled" if candidate.labelled else None


def _young(now: datetime) -> Rule:
    return lambda candidate: "younger than a day" if now - candidate.created < YOUNG else None


def _exceeded(limits: Limits, index: int, candidate: Candidate, now: datetime) -> str:
    if limits.count is not None and index >= limits.count:
        return f"beyond {limits.count} in its session"
    if limits.age is not None and now - candidate.created > limits.age:
        return f"older than {_span(limits.age)}"
    return ""


def _span(length: timedelta) -> str:
    """Format a duration in the largest unit that divides it."""
    seconds = int(length.total_seconds())
    units = (("week", 604800), ("day", 86400), ("hour", 3600), ("minute", 60), ("second", 1))
    unit, size = next(each for each in units if seconds % each[1] == 0)
    count = seconds // size
    return f"{count} {unit}{'' if count == 1 else 's'}"


def ranges(ids: Iterable[CheckpointId]) -> dict[str, tuple[tuple[int, int], ...]]:
    """Return ids by session as ranges (first, last) of consecutive numbers."""
    by_session: dict[str, list[tuple[int, int]]] = {}
    for session, number in sorted(set(ids)):
        runs = by_session.setdefault(session, [])
        if runs and runs[-1][1] == number - 1:
            runs[-1] = (runs[-1][0], number)
        else:
            runs.append((number, number))
    return {session: tuple(runs) for session, runs in by_session.items()}
