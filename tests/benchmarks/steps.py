"""What a step of a program costs that is done, and one that is skipped: processor time of the
process and its children, and wall clock, medians; beside a row that is committed to SQLite.

    python tests/benchmarks/steps.py [STEPS] [FILES]
"""

from __future__ import annotations

import resource
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import gitcp

WARM = 20
"""Steps before those that are measured."""


def processed() -> float:
    """The processor time of this process and its children in seconds."""
    usages = map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


def measured(act: Callable[[int], object], count: int) -> str:
    """The medians of doing something `count` times, after a few that do not count."""
    spent: list[tuple[float, float]] = []
    for number in range(WARM + count):
        before, started = processed(), time.perf_counter()
        act(number)
        spent.append((processed() - before, time.perf_counter() - started))
    processor, wall = (statistics.median(each) * 1000 for each in zip(*spent[WARM:], strict=True))
    return f"{processor:6.1f} ms of processor time, {wall:6.1f} ms"


def repository(directory: Path, files: int) -> gitcp.Session:
    """A session in a repository of so many files."""
    for number in range(files):
        file = directory / f"d{number % 20}" / f"{number}.txt"
        file.parent.mkdir(exist_ok=True)
        file.write_text(f"{number}\n")
    git = ["git", "-C", str(directory), "-c", "user.name=a", "-c", "user.email=a@b"]
    for command in (["init", "-q"], ["add", "-A"], ["commit", "-q", "-m", "first"]):
        subprocess.run([*git, *command], check=True)
    session = gitcp.open(directory).session("steps")
    session.save("first")
    return session


def main() -> None:
    """Print a row each."""
    count, files = (int(text) for text in (*sys.argv[1:], "200", "100")[:2])
    with tempfile.TemporaryDirectory(prefix="gitcp-steps-") as scratch:
        tree = Path(scratch, "tree")
        tree.mkdir()
        session = repository(tree, files)
        print("done     ", measured(lambda n: session.step("a", lambda: n, key=str(n)), count))
        print("skipped  ", measured(lambda n: session.step("a", lambda: n, key=str(n)), count))
        database = sqlite3.connect(Path(scratch, "steps.sqlite"), isolation_level=None)
        database.execute("create table steps (name primary key, result)")
        insert = "insert into steps values (?, ?)"
        print("in SQLite", measured(lambda n: database.execute(insert, (n, n)), count))


if __name__ == "__main__":
    main()
