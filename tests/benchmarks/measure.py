"""Times whole processes, two commands in turn, so that a ratio holds when the machine's speed
drifts.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

Action = Callable[[], object]


class Timing(NamedTuple):
    """Seconds of each counted run."""

    runs: tuple[float, ...]

    @property
    def median(self) -> float:
        """The middle run."""
        return statistics.median(self.runs)


class Pair(NamedTuple):
    """Two commands timed in turn."""

    ours: Timing
    theirs: Timing

    @property
    def ratio(self) -> float:
        """Our median over theirs."""
        return self.ours.median / self.theirs.median


def in_turn(ours: Action, theirs: Action, runs: int, before: Action = lambda: None) -> Pair:
    """Time both `runs` times after one warm-up, alternating; `before` each run, not counted."""
    times: tuple[list[float], list[float]] = ([], [])
    for number in range(runs + 1):
        for action, into in zip((ours, theirs), times, strict=True):
            before()
            seconds = timed(action)
            if number:
                into.append(seconds)
    return Pair(Timing(tuple(times[0])), Timing(tuple(times[1])))


def timed(action: Action) -> float:
    """How long it takes once, in seconds."""
    start = time.perf_counter()
    action()
    return time.perf_counter() - start


def processed(action: Action) -> float:
    """How much processor time the processes of an action take, in seconds."""
    before = os.times()
    action()
    after = os.times()
    return after[2] + after[3] - before[2] - before[3]


class Spent(NamedTuple):
    """The processor time of the processes of an action, and how long it took, in seconds."""

    processor: float
    clock: float


def spent(action: Action) -> Spent:
    """What an action takes, once."""
    start = time.perf_counter()
    processor = processed(action)
    return Spent(processor, time.perf_counter() - start)


def spent_in_median(action: Action, runs: int, before: Action = lambda: None) -> Spent:
    """What an action takes in the middle of so many runs, after one warm-up; `before` each run, not
    counted.
    """
    taken = []
    for _ in range(runs + 1):
        before()
        taken.append(spent(action))
    return Spent(*map(statistics.median, zip(*taken[1:], strict=True)))


def command(args: Sequence[str | Path], cwd: Path, env: Mapping[str, str]) -> Action:
    """A command as an action. An exit code other than 0 ends the benchmark: a crash is not a
    time.
    """

    def run() -> None:
        done = subprocess.run(
            list(args), cwd=cwd, env=env, stdin=subprocess.DEVNULL, capture_output=True, check=False
        )
        if done.returncode:
            raise SystemExit(
                f"{args} ended with {done.returncode}: {done.stderr.decode(errors='replace')}"
            )

    return run


def peak_memory(args: Sequence[str | Path], cwd: Path, env: Mapping[str, str]) -> int:
    """The largest resident set of a command, in bytes."""
    pid = os.posix_spawnp(str(args[0]), [str(arg) for arg in args], {**env, "PWD": str(cwd)})
    _, status, usage = os.wait4(pid, 0)
    if status:
        raise SystemExit(f"{args} ended with status {status}")
    return usage.ru_maxrss * 1024
