"""The search of `gitcp bisect`, against a linear one."""

from __future__ import annotations

from itertools import pairwise
from math import ceil, log2

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from gitcp.running.search import Bounds, Verdict, bounds, is_sound, lineage, next_try, verdict

GOOD, BAD, SKIPPED = Verdict


def search(truth: list[Verdict]) -> tuple[dict[int, Verdict], int]:
    """Try states until there is nothing more to find out; the verdicts, and how many were tried."""
    verdicts: dict[int, Verdict] = {}
    while (number := next_try(len(truth), verdicts)) is not None:
        assert number not in verdicts
        verdicts[number] = truth[number]
    return verdicts, len(verdicts)


@given(st.integers(1, 300), st.data())
def test_first_bad(after: int, data: st.DataObject) -> None:
    """One planted fault is found, as a linear search finds it, in ⌈log₂ n⌉ + 2 tries."""
    fault = data.draw(st.integers(1, after))
    truth = [GOOD] * fault + [BAD] * (after + 1 - fault)
    verdicts, tried = search(truth)
    assert bounds(len(truth), verdicts) == Bounds(fault - 1, truth.index(BAD))
    assert tried <= ceil(log2(after)) + 2


@given(st.integers(1, 100), st.data())
def test_skips(after: int, data: st.DataObject) -> None:
    """Between the two that are named, every state is skipped; the fault is one of them. Each skip
    costs one try at most.
    """
    fault = data.draw(st.integers(1, after))
    skips = data.draw(st.sets(st.integers(1, after)).map(lambda some: some - {after}))
    truth = [GOOD] * fault + [BAD] * (after + 1 - fault)
    for each in skips:
        truth[each] = SKIPPED
    verdicts, tried = search(truth)
    good, bad = bounds(len(truth), verdicts)
    linear_good = max(n for n in range(fault) if n not in skips)
    linear_bad = min(n for n in range(fault, after + 1) if n not in skips)
    assert (good, bad) == (linear_good, linear_bad)
    skipped = sum(each is SKIPPED for each in verdicts.values())
    assert tried <= ceil(log2(after)) + 2 + skipped


@given(st.lists(st.sampled_from((GOOD, BAD)), max_size=60))
def test_back_and_forth(between: list[Verdict]) -> None:
    """Where a fault comes and goes, a change from passing to failing is found all the same."""
    truth = [GOOD, *between, BAD]
    verdicts, _ = search(truth)
    good, bad = bounds(len(truth), verdicts)
    assert bad == good + 1
    assert (truth[good], truth[bad]) == (GOOD, BAD)


@pytest.mark.parametrize("ends", [(GOOD, GOOD), (BAD, BAD), (BAD, GOOD), (SKIPPED, BAD)])
def test_ends(ends: tuple[Verdict, Verdict]) -> None:
    """Both ends are tried, and nothing else unless the first passes and the last fails."""
    verdicts, tried = search([ends[0], GOOD, BAD, ends[1]])
    assert tried == 2
    assert not is_sound(4, verdicts)


@pytest.mark.parametrize(
    ("codes", "expected"),
    [
        ((0, 0), GOOD),
        ((0, 1), BAD),
        ((124,), BAD),
        ((126,), BAD),
        ((127,), BAD),
        ((125,), SKIPPED),
        ((125, 0), SKIPPED),
        ((125, 1), BAD),
    ],
)
def test_codes(codes: tuple[int, ...], expected: Verdict) -> None:
    """Exit codes are those of `git bisect run`; of several runs, one that failed decides."""
    assert verdict(codes) is expected


@given(st.lists(st.integers(0, 8), min_size=1, max_size=40))
def test_lineage(states: list[int]) -> None:
    """The way begins and ends with the same states, has no state twice, and each step was one."""
    path = lineage(states)
    way = [states[number] for number in path]
    assert (way[0], way[-1]) == (states[0], states[-1])
    assert len({*way}) == len(way)
    steps = {*pairwise(states)}
    assert all(step in steps for step in pairwise(way))
    assert path == sorted(path)


@given(st.lists(st.integers(0, 8), max_size=10), st.lists(st.integers(20, 28), max_size=10))
def test_abandoned(kept: list[int], abandoned: list[int]) -> None:
    """What a restore took back is not on the way."""
    assume(kept)
    assert lineage([*kept, *abandoned, kept[-1], 9]) == [
        *lineage(kept),
        len(kept) + len(abandoned) + 1,
    ]
