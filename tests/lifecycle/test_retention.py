"""Which checkpoints are kept, and why: golden verdicts, and what holds for any history, policy and
clock.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from gitcp.model import CheckpointId, Trigger
from gitcp.retention import (
    Candidate,
    Limits,
    Policy,
    RetentionVerdict,
    decide,
    droppable,
    overdue,
    ranges,
)
from gitcp.value import replace

NOW = datetime(2026, 11, 20, 18, 30, tzinfo=UTC)


def at(number: int, hours: float, **fields: Any) -> Candidate:
    """A checkpoint of so many hours ago."""
    return Candidate(CheckpointId("s", number), NOW - timedelta(hours=hours), **fields)


def said(verdicts: tuple[RetentionVerdict, ...]) -> list[str]:
    """The verdicts as lines."""
    return [f"{v.id.number} {'keep' if v.keep else 'drop'}: {v.reason}" for v in verdicts]


HISTORY = (
    at(14, 0.1, last=True),
    at(13, 0.4),
    at(12, 1),
    at(11, 1.2),
    at(10, 5, tags=("works", "also")),
    at(9, 20, trigger=Trigger.BEFORE_RESTORE),
    at(8, 30),
    at(7, 31, labelled=True),
    at(6, 60, forks=("other",)),
    at(5, 24 * 8, trigger=Trigger.BEFORE_RESTORE),
    at(4, 24 * 9, needed="target of the next undo"),
    at(3, 24 * 40),
    at(2, 24 * 41, origin=CheckpointId("t", 5)),
    at(1, 24 * 400),
)


def test_last() -> None:
    """The last ones, and what is always kept."""
    assert said(decide(HISTORY, Policy(last=2), NOW)) == [
        "14 keep: last of its session",
        "13 keep: one of the last 2",
        "12 drop: no rule keeps it",
        "11 drop: no rule keeps it",
        "10 keep: tag works, also",
        "9 keep: safety checkpoint, kept for 7 days",
        "8 drop: no rule keeps it",
        "7 drop: no rule keeps it",
        "6 keep: other was forked from it",
        "5 drop: no rule keeps it",
        "4 keep: target of the next undo",
        "3 drop: no rule keeps it",
        "2 keep: start of a fork of t@5",
        "1 drop: no rule keeps it",
    ]


def test_time() -> None:
    """By time: what is young, and the newest of each hour, day, week and month that has one."""
    policy = Policy(
        last=0, within=timedelta(hours=1), hourly=3, daily=3, weekly=3, monthly=3, labelled=True
    )

    assert said(decide(HISTORY, policy, NOW)) == [
        "14 keep: last of its session",
        "13 keep: from the last 1 hour",
        "12 keep: from the last 1 hour",
        "11 drop: no rule keeps it",
        "10 keep: tag works, also",
        "9 keep: safety checkpoint, kept for 7 days",
        "8 drop: no rule keeps it",
        "7 keep: labeled",
        "6 keep: other was forked from it",
        "5 keep: last of week 2026-W46",
        "4 keep: target of the next undo",
        "3 keep: last of week 2026-W41",
        "2 keep: start of a fork of t@5",
        "1 keep: last of month 2025-10",
    ]


def test_the_calendar_is_that_of_now() -> None:
    """A day is one of the zone that the user lives in, not of UTC."""
    history = (at(3, 0, last=True), at(2, 2), at(1, 3))
    tokyo = NOW.astimezone(timezone(timedelta(hours=9)))  # 03:30 of the next day

    assert [v.keep for v in decide(history, Policy(last=0, daily=2), NOW)] == [True, False, False]
    late = tokyo.replace(hour=2)
    assert [v.keep for v in decide(history, Policy(last=0, daily=2), late)] == [True, False, False]
    apart = (at(3, 0, last=True), at(2, 4), at(1, 5))
    assert [v.keep for v in decide(apart, Policy(last=0, daily=2), tokyo)] == [True, True, False]


def test_a_clock_that_jumped() -> None:
    """The order is that of the chain: what a wrong clock made look old or young is counted where it
    stands.
    """
    history = (at(4, 24, last=True), at(3, -9000), at(2, 5), at(1, 9000))

    assert [v.keep for v in decide(history, Policy(last=2), NOW)] == [True, True, False, False]
    assert said(decide(history, Policy(last=0, within=timedelta(hours=6)), NOW)) == [
        "4 keep: last of its session",
        "3 keep: from the last 6 hours",
        "2 keep: from the last 6 hours",
        "1 drop: no rule keeps it",
    ]


def test_the_ends_of_the_calendar() -> None:
    """Times that no other zone can say are times all the same."""
    history = (Candidate(CheckpointId("s", 2), datetime.max.replace(tzinfo=UTC)), at(1, 1))
    east = NOW.astimezone(timezone(timedelta(hours=14)))

    assert [v.keep for v in decide(history, Policy(last=0, monthly=2), east)] == [True, True]


def test_limits() -> None:
    """By themselves only what is beyond a limit goes, and nothing young, labelled or protected."""
    assert said(overdue(HISTORY, Limits(count=7, age=timedelta(days=30)), NOW)) == [
        "14 keep: last of its session",
        "13 keep: younger than a day",
        "12 keep: younger than a day",
        "11 keep: younger than a day",
        "10 keep: tag works, also",
        "9 keep: safety checkpoint, kept for 7 days",
        "8 keep: within the limits",
        "7 keep: labeled",
        "6 keep: other was forked from it",
        "5 drop: beyond 7 in its session",
        "4 keep: target of the next undo",
        "3 drop: beyond 7 in its session",
        "2 keep: start of a fork of t@5",
        "1 drop: beyond 7 in its session",
    ]
    aged = overdue(HISTORY, Limits(age=timedelta(days=30)), NOW)
    assert [v.reason for v in aged if not v.keep] == ["older than 30 days"] * 2
    assert [c.id.number for c in droppable(HISTORY, NOW)] == [8, 5, 3, 1]


def test_limits_and_policies_that_say_nothing() -> None:
    """A policy of nothing keeps nothing, and no limits are none."""
    assert not Policy(last=0)
    assert Policy(last=0, daily=1)
    assert Policy()
    assert not Limits()
    assert Limits(count=0)


def test_ranges() -> None:
    """Numbers that follow each other are one range."""
    ids = [CheckpointId("b", 2), *(CheckpointId("a", n) for n in (5, 1, 2, 3, 9))]

    assert ranges(ids) == {"a": ((1, 3), (5, 5), (9, 9)), "b": ((2, 2),)}


CANDIDATES = st.lists(
    st.builds(
        Candidate,
        id=st.just(CheckpointId("s", 1)),
        created=st.integers(-(10**8), 10**8).map(lambda seconds: NOW + timedelta(seconds=seconds)),
        trigger=st.sampled_from(["manual", "before-restore"]),
        tags=st.sampled_from([(), (), ("t",)]),
        forks=st.sampled_from([(), (), ("f",)]),
        labelled=st.booleans(),
    ),
    max_size=30,
).map(lambda found: tuple(_numbered(found)))

COUNTS = st.integers(0, 40)
POLICIES = st.builds(
    Policy,
    last=COUNTS,
    within=st.none() | st.integers(0, 10**6).map(lambda seconds: timedelta(seconds=seconds)),
    hourly=COUNTS,
    daily=COUNTS,
    weekly=COUNTS,
    monthly=COUNTS,
    labelled=st.booleans(),
)


def _numbered(found: list[Candidate]) -> list[Candidate]:
    count = len(found)
    return [replace(c, id=CheckpointId("s", count - n), last=n == 0) for n, c in enumerate(found)]


@settings(max_examples=30)
@given(CANDIDATES, POLICIES)
def test_any_policy(history: tuple[Candidate, ...], policy: Policy) -> None:
    """A verdict on each in its place; the protected stay, and so many of the last; twice is the
    same as once.
    """
    verdicts = decide(history, policy, NOW)
    kept = {v.id for v in verdicts if v.keep}

    assert [v.id for v in verdicts] == [c.id for c in history]
    assert {c.id for c in history if c.last or c.tags or c.forks} <= kept
    assert {c.id for c in history[: policy.last]} <= kept
    assert all(v.reason for v in verdicts)
    rest = tuple(c for c in history if c.id in kept)
    assert all(v.keep for v in decide(rest, policy, NOW))


@settings(max_examples=30)
@given(CANDIDATES, POLICIES)
def test_more_keeps_more(history: tuple[Candidate, ...], policy: Policy) -> None:
    """A wider policy keeps all that a narrower one does."""
    wider = replace(policy, last=policy.last + 1, daily=policy.daily + 1, hourly=policy.hourly + 2)
    kept, more = ({v.id for v in decide(history, p, NOW) if v.keep} for p in (policy, wider))

    assert kept <= more


@settings(max_examples=30)
@given(CANDIDATES, st.integers(0, 30))
def test_limits_spare_the_young(history: tuple[Candidate, ...], count: int) -> None:
    """Whatever the limit: nothing younger than a day, labelled, tagged or last goes by itself."""
    gone = {
        v.id for v in overdue(history, Limits(count=count, age=timedelta(0)), NOW) if not v.keep
    }

    assert (
        not {
            c.id
            for c in history
            if c.last or c.tags or c.labelled or NOW - c.created < timedelta(days=1)
        }
        & gone
    )
    assert {c.id for c in droppable(history, NOW)} >= gone
