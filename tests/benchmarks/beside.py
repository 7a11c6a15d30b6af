"""One changed file kept, beside what a user would pick instead, on the same tree with the same
edits.

    python tests/benchmarks/beside.py --tree DIR [--stepback PYTHON]

PYTHON is an interpreter that has the package `stepback`. The tree is copied first. Prints medians
of whole processes, each in turn with gitcp, and how many times as long as gitcp each takes.
"""

from __future__ import annotations

import argparse
import random
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from measure import Action, command, in_turn
from run import Bench, copied, tracked

STEPBACK = (
    "import pathlib; from stepback.engine import Engine; assert "
    "Engine(pathlib.Path('.')).checkpoint('x')"
)


class Other(NamedTuple):
    """Another way to keep the state of a working tree; `prepared` is done once before."""

    name: str
    prepared: Action
    keep: Action


def others(bench: Bench, repo: Path, stepback: str | None) -> Iterator[Other]:
    """What there is beside gitcp."""

    def shell(script: str) -> Action:
        return command(["sh", "-c", script], repo, bench.env)

    yield Other(
        "git stash push -u, then apply",
        lambda: None,
        shell("git stash push -q -u && git stash apply -q"),
    )
    yield Other(
        "git add, write-tree, commit-tree on an index of its own", lambda: None, bench.shadow(repo)
    )
    away = f"git --git-dir={bench.scratch / 'shadow.git'} --work-tree=."
    first = f"{away} init -q && {away} add -A && {away} commit -q -m first"
    yield Other(
        "a shadow repository: add -A, commit",
        shell(first),
        shell(f"{away} add -A && {away} commit -q -m x"),
    )
    if stepback is not None:
        checkpoint = command([stepback, "-c", STEPBACK], repo, bench.env)
        yield Other("stepback: one checkpoint", checkpoint, checkpoint)


def main() -> None:
    """Measure all of them, print a line each."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--tree", type=Path, required=True)
    parser.add_argument("--stepback", help="an interpreter that has it")
    parser.add_argument("--runs", type=int, default=11)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="gitcp-bench-") as scratch:
        bench = Bench(Path(scratch), options.runs)
        repo = copied(bench, options.tree, "tree")
        files, rng = tracked(bench, repo), random.Random(5)

        def touch() -> None:
            with rng.choice(files).open("ab") as file:
                file.write(b"x\n")

        bench.gitcp(repo, "save", "first")()
        for other in others(bench, repo, options.stepback):
            touch()
            other.prepared()
            pair = in_turn(bench.gitcp(repo, "save"), other.keep, bench.runs, before=touch)
            ours, theirs = (1000 * timing.median for timing in pair)
            print(  # noqa: T201
                f"{other.name:58} {theirs:7.0f} ms   gitcp {ours:5.0f} ms   {theirs / ours:6.2f} x",
                flush=True,
            )


if __name__ == "__main__":
    main()
