"""Which checkpoints are kept. Pure: (checkpoints, policy, now) → a verdict for each, with its
reason.

Some are kept whatever the policy says: the last of a session, what has a tag, what a fork begins
at, what a restore made of the work before it while that is young, and what somebody still needs. Of
the others a rule must want one.

The order is that of the chain and never that of the clocks: `last` counts checkpoints. A clock that
jumped can make a checkpoint look younger, and then it is kept longer; one from the future is as
young as can be.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime, timedelta

from gitcp.model import CheckpointId, Trigger
from gitcp.value import Value

YOUNG_SAFETY = timedelta(days=7)
"""A checkpoint that a restore made of the work before it is kept for so long."""
YOUNG = timedelta(days=1)
"""What is younger is never dropped by itself."""

UNWANTED = "no rule keeps it"


class Candidate(Value):
    """What is known of a checkpoint. `forks` are the sessions that begin at it, `last` says that it
    is a session's last one, `origin` is set on the first one of a fork, `labelled` says that the
    user named it, `needed` what else needs it ("" if nothing does), `state` that a framework goes
    on from it, which alone knows what others build on.
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
    """What `prune` keeps of each session: so many of the last ones, all of the last while, and the
    newest of so many hours, days, weeks and months that have one. `labelled` keeps what has a
    label.
    """

    last: int = 10
    within: timedelta | None = None
    hourly: int = 0
    daily: int = 0
    weekly: int = 0
    monthly: int = 0
    labelled: bool = False

    def __bool__(self) -> bool:
        """Whether it keeps anything by itself."""
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
    """What a store may hold before a save prunes it: checkpoints in a session, their age, bytes.
    None: no limit.
    """

    count: int | None = None
    age: timedelta | None = None
    size: int | None = None

    def __bool__(self) -> bool:
        return (self.count, self.age, self.size) != (None, None, None)


class Verdict(Value):
    """Whether a checkpoint is kept, and why."""

    id: CheckpointId
    keep: bool
    reason: str


Rule = Callable[[Candidate], str | None]
"""Why a checkpoint is kept by this rule, None if it is not. Asked of each in turn, the newest
first.
"""


def decide(candidates: Sequence[Candidate], policy: Policy, now: datetime) -> tuple[Verdict, ...]:
    """The verdicts on the checkpoints of one session, given and returned newest first. `now` must
    be aware.
    """
    return _judged(candidates, [_protected(now), *_rules(policy, now)])


def overdue(candidates: Sequence[Candidate], limits: Limits, now: datetime) -> tuple[Verdict, ...]:
    """The same by limits of number and age: what is beyond one is dropped, if nothing protects it
    (see `droppable`).
    """
    verdicts = []
    spared = _judged(candidates, [_protected(now), _labelled, _young(now)])
    for place, (candidate, verdict) in enumerate(zip(candidates, spared, strict=True)):
        why = _beyond(limits, place, candidate, now)
        verdicts.append(
            verdict if verdict.keep else Verdict(candidate.id, not why, why or "within the limits")
        )
    return tuple(verdicts)


def droppable(candidates: Sequence[Candidate], now: datetime) -> tuple[Candidate, ...]:
    """What may go to make room: neither young nor labelled nor protected."""
    spared = _judged(candidates, [_protected(now), _labelled, _young(now)])
    return tuple(c for c, verdict in zip(candidates, spared, strict=True) if not verdict.keep)


def _judged(candidates: Sequence[Candidate], rules: Sequence[Rule]) -> tuple[Verdict, ...]:
    """Every rule sees every checkpoint, since some count; the first that wants it says why."""
    verdicts = []
    for candidate in candidates:
        wanted = [reason for reason in [rule(candidate) for rule in rules] if reason is not None]
        verdicts.append(Verdict(candidate.id, bool(wanted), wanted[0] if wanted else UNWANTED))
    return tuple(verdicts)


def _protected(now: datetime) -> Rule:
    """What is kept whatever the policy says."""

    def rule(candidate: Candidate) -> str | None:
        if candidate.last:
            return "the last of its session"
        if candidate.tags:
            return f"tag {', '.join(candidate.tags)}"
        if candidate.forks:
            return f"{', '.join(candidate.forks)} was forked from it"
        if candidate.origin:
            return f"it begins a fork of {candidate.origin}"
        if candidate.needed:
            return candidate.needed
        if candidate.state:
            return "a graph's state: others may need it"
        if candidate.trigger == Trigger.BEFORE_RESTORE and now - candidate.created < YOUNG_SAFETY:
            return f"what was there before a restore, for {YOUNG_SAFETY.days} days"
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
        f"of the last {_span(length)}" if now - candidate.created <= length else None
    )


def _newest_of(unit: str, count: int, form: str, now: datetime) -> Rule:
    """The newest one of each of the last `count` hours, days, … that have one, by the calendar of
    `now`.
    """
    seen: set[str] = set()

    def rule(candidate: Candidate) -> str | None:
        if len(seen) >= count:
            return None
        name = _local(candidate.created, now).strftime(form)
        if name in seen:
            return None
        seen.add(name)
        return f"the last of {unit} {name}"

    return rule


def _local(time: datetime, now: datetime) -> datetime:
    try:
        return time.astimezone(now.tzinfo)
    except OverflowError:  # at the very ends of the calendar
        return time


def _labelled(candidate: Candidate) -> str | None:
    return "it has a label" if candidate.labelled else None


def _young(now: datetime) -> Rule:
    return lambda candidate: "younger than a day" if now - candidate.created < YOUNG else None


def _beyond(limits: Limits, place: int, candidate: Candidate, now: datetime) -> str:
    if limits.count is not None and place >= limits.count:
        return f"more than {limits.count} in its session"
    if limits.age is not None and now - candidate.created > limits.age:
        return f"older than {_span(limits.age)}"
    return ""


def _span(length: timedelta) -> str:
    """A length of time in the largest unit that it is a whole number of."""
    seconds = int(length.total_seconds())
    units = (("week", 604800), ("day", 86400), ("hour", 3600), ("minute", 60), ("second", 1))
    unit, size = next(each for each in units if seconds % each[1] == 0)
    count = seconds // size
    return f"{count} {unit}{'' if count == 1 else 's'}"


def ranges(ids: Iterable[CheckpointId]) -> dict[str, tuple[tuple[int, int], ...]]:
    """Ids by session, numbers that follow each other as first and last: a thousand of them are a
    few words.
    """
    found: dict[str, list[tuple[int, int]]] = {}
    for session, number in sorted(set(ids)):
        runs = found.setdefault(session, [])
        if runs and runs[-1][1] == number - 1:
            runs[-1] = (runs[-1][0], number)
        else:
            runs.append((number, number))
    return {session: tuple(runs) for session, runs in found.items()}
