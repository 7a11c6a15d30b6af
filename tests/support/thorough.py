"""How much is tried where everything takes minutes: an even sample, the same one in every run; with
GITCP_FULL=1 in the environment, as `.ci/full` has it, all of it.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import TypeVar

import pytest

T = TypeVar("T")

FULL = bool(os.environ.get("GITCP_FULL"))


def sample(items: Iterable[T], most: int) -> list[T]:
    """Return `most` of the items, two or more, evenly spread, with the first and the last; all with
    GITCP_FULL.
    """
    every = list(items)
    if FULL or len(every) <= most:
        return every
    return [every[number * (len(every) - 1) // (most - 1)] for number in range(most)]


def cases(names: Iterable[str], most: int) -> list[object]:
    """Parameters of a test: those that are not in the sample have the mark `full`."""
    every = list(names)
    tried = sample(every, most)
    return [name if name in tried else pytest.param(name, marks=pytest.mark.full) for name in every]
