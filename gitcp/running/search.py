"""The search of `gitcp bisect`: which state to try next, and what the verdicts prove. Pure.

States are numbered from 0, the first one, which should pass, to the last one, which should fail.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from enum import StrEnum
from typing import NamedTuple

SKIP = 125
"""The exit code of a command that cannot judge a state, as for `git bisect run`."""

STOP = 128
"""From this exit code on, a command was killed or asks to stop."""


class Verdict(StrEnum):
    """What a try says of a state."""

    GOOD = "good"
    BAD = "bad"
    SKIPPED = "skipped"


class Bounds(NamedTuple):
    """The last state known to pass, and the first known to fail after it. The states between them
    are not known.
    """

    good: int
    bad: int


def verdict(codes: Sequence[int]) -> Verdict:
    """Return the verdict of the exit codes of one state's runs, none of which is STOP or more: bad
    if any failed, skipped if any could not judge and none failed.
    """
    if any(code not in (0, SKIP) for code in codes):
        return Verdict.BAD
    return Verdict.SKIPPED if SKIP in codes else Verdict.GOOD


def next_try(count: int, verdicts: Mapping[int, Verdict]) -> int | None:
    """Return the number of the next of `count` states to try; None when there is nothing to find
    out. Both ends come first. Of n states after the first, ⌈log₂ n⌉ more are tried, and one more
    for each that is skipped.
    """
    last = count - 1
    untried_end = next((end for end in (0, last) if end not in verdicts), None)
    if untried_end is not None or not is_sound(count, verdicts):
        return untried_end
    good, bad = bounds(count, verdicts)
    untried = [number for number in range(good + 1, bad) if number not in verdicts]
    return untried[len(untried) // 2] if untried else None


def is_sound(count: int, verdicts: Mapping[int, Verdict]) -> bool:
    """Return whether the first state passes and the last one fails: there is something between."""
    ends = verdicts.get(0), verdicts.get(count - 1)
    return ends == (Verdict.GOOD, Verdict.BAD)


def bounds(count: int, verdicts: Mapping[int, Verdict]) -> Bounds:
    """Return the closest pair that the verdicts of a sound search prove."""
    good = max(number for number, each in verdicts.items() if each is Verdict.GOOD)
    bad = (number for number in range(good + 1, count) if verdicts.get(number) is Verdict.BAD)
    return Bounds(good, next(bad))


def lineage(states: Sequence[Hashable]) -> list[int]:
    """Return the numbers of the states on the way from the first to the last: where a state is back
    that was there before, what came between was taken back, and is left out.
    """
    path: list[int] = []
    places: dict[Hashable, int] = {}
    for number, state in enumerate(states):
        earlier = places.get(state)
        if earlier is None:
            places[state] = len(path)
            path.append(number)
            continue
        for undone in path[earlier + 1 :]:
            del places[states[undone]]
        del path[earlier + 1 :]
    return path
