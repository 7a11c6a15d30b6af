"""Plans of 30 steps with three faults each: what it takes to finish, where the affected steps run
again, beside a restart from scratch after each fault.

    python tests/benchmarks/injected_faults.py [SECONDS]      real sessions; a step takes SECONDS

A fault is a step that fails once, or a step that finds an earlier one wrong: that one runs again
with another result, and what depends on it. Tokens are counted, so they are the same on every
machine; time is measured, of the first plans.
"""

from __future__ import annotations

import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple

import gitcp

STEPS, FAULTS, PLANS, MEASURED = 30, 3, 400, 8


class Step(NamedTuple):
    """A step of a plan: what it depends on, and what it costs."""

    depends: tuple[int, ...]
    tokens: int


class Fault(NamedTuple):
    """A step that fails once; with `wrong`, because of the result of that earlier step."""

    at: int
    wrong: int | None


Plan = dict[int, Step]
Work = Callable[[int], None]
"""Does a step: raises Failed for one that fails."""


class Failed(Exception):
    """A step failed."""


def plan(seed: int) -> tuple[Plan, tuple[Fault, ...]]:
    """A plan in which a step depends on up to two earlier ones, and its faults."""
    chance = random.Random(seed)
    steps = {}
    for number in range(1, STEPS + 1):
        many = min(number - 1, chance.choice([0, 1, 1, 2]))
        depends = tuple(sorted(chance.sample(range(1, number), many)))
        steps[number] = Step(depends, chance.randint(500, 5000))
    faults = []
    for _ in range(FAULTS):
        at = chance.randint(5, STEPS)
        faults.append(Fault(at, None if chance.random() < 0.5 else chance.randint(1, at - 1)))
    return steps, tuple(faults)


class Program:
    """What a step does: it takes its time, and fails where a fault says so. `ran` are the steps."""

    def __init__(self, steps: Plan, faults: tuple[Fault, ...], seconds: float) -> None:
        self.steps, self.pending, self.seconds = steps, list(faults), seconds
        self.version = dict.fromkeys(steps, 0)
        self.ran: list[int] = []

    def __call__(self, number: int) -> None:
        self.ran.append(number)
        time.sleep(self.seconds)
        fault = next((each for each in self.pending if each.at == number), None)
        if fault is not None:
            self.pending.remove(fault)
            if fault.wrong is not None:
                self.version[fault.wrong] += 1
            raise Failed(number)

    @property
    def tokens(self) -> int:
        """What the steps cost that ran."""
        return sum(self.steps[number].tokens for number in self.ran)


def restarted(program: Program) -> Program:
    """Run a plan, from scratch after each fault."""
    while True:
        try:
            for number in program.steps:
                program(number)
        except Failed:
            continue
        return program


def predicted(program: Program) -> Program:
    """Run a plan as gitcp does: a step whose result is current is skipped."""
    used: dict[int, tuple[object, ...]] = {}
    while True:
        try:
            for number, step in program.steps.items():
                now = (program.version[number], *(used[each] for each in step.depends))
                if used.get(number) != now:
                    program(number)
                    used[number] = now
        except Failed:
            continue
        return program


def measured(program: Program, directory: Path) -> Program:
    """Run a plan as a session, which is called again after each fault."""
    subprocess.run(["git", "init", "--quiet", directory], check=True)
    session = gitcp.open(directory).session("plan")
    results: dict[int, str] = {}
    while True:
        try:
            for number, step in program.steps.items():

                def work(number: int = number, step: Step = step) -> str:
                    program(number)
                    made = [program.version[number], *(results[each] for each in step.depends)]
                    directory.joinpath(f"{number}.txt").write_text(f"{made}\n")
                    return sha256(str(made).encode()).hexdigest()

                results[number] = session.step(
                    str(number),
                    work,
                    inputs=program.version[number],
                    depends=[str(each) for each in step.depends],
                    files=str(directory / f"{number}.txt"),
                )
        except Failed:
            continue
        return program


def row() -> str:
    """The row of docs/pipelines.md: steps and tokens of all plans."""
    scratch = [restarted(Program(*plan(seed), 0)) for seed in range(PLANS)]
    again = [predicted(Program(*plan(seed), 0)) for seed in range(PLANS)]
    steps, tokens = (
        [sum(len(each.ran) for each in run) for run in (scratch, again)],
        [sum(each.tokens for each in run) for run in (scratch, again)],
    )
    saved = 1 - tokens[1] / tokens[0]
    return f"| {PLANS} | {steps[0]} | {steps[1]} | {tokens[0]:,} | {tokens[1]:,} | {saved:.0%} |"


def main() -> None:
    """Print the row, and how much faster real sessions are."""
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 0.4
    print(row(), flush=True)
    spent = [0.0, 0.0]
    for seed in range(MEASURED):
        with tempfile.TemporaryDirectory(prefix="gitcp-faults-") as directory:
            started = time.perf_counter()
            restarted(Program(*plan(seed), seconds))
            between = time.perf_counter()
            real = measured(Program(*plan(seed), seconds), Path(directory))
            spent[1] += time.perf_counter() - between
            spent[0] += between - started
        assert real.ran == predicted(Program(*plan(seed), 0)).ran
    print(f"steps of {seconds} s: {spent[0]:.1f} s, {spent[1]:.1f} s, {spent[0] / spent[1]:.2f} x")


if __name__ == "__main__":
    main()
