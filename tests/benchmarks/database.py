"""What an unchanged SQLite database of 100 MB costs a save: processor time beside the same tree
without it, closed and open in WAL mode.

    python tests/benchmarks/database.py
"""

from __future__ import annotations

import os
import resource
import sqlite3
import statistics
import subprocess
import sys
import tempfile
from contextlib import closing
from pathlib import Path

SOURCE = Path(__file__).resolve().parents[2]
ROWS, RUNS = 100_000, 21


def main() -> None:
    """Print the median of each tree, in milliseconds."""
    with tempfile.TemporaryDirectory() as directory:
        top = Path(directory)
        env = {**os.environ, "HOME": directory, "PYTHONPATH": str(SOURCE)}
        trees = {name: _made(top / name, env) for name in ("none", "closed", "open")}
        with closing(_database(trees["closed"])):
            pass
        with closing(_database(trees["open"], "wal")):
            for number in (-2, -1):  # the first stores it
                for root in trees.values():
                    _save(root, env, number)
            times: dict[str, list[float]] = {name: [] for name in trees}
            for number in range(RUNS):
                for name, root in trees.items():
                    times[name].append(_save(root, env, number))
    for name, each in times.items():
        sys.stdout.write(f"{name:8}{statistics.median(each):5.0f} ms\n")


def _made(root: Path, env: dict[str, str]) -> Path:
    root.mkdir()
    for number in range(200):
        root.joinpath(f"f{number}").write_text(f"{number}\n" * 20)
    for words in (("init", "-q"), ("add", "."), ("config", "gitcp.maxFileSize", "200m")):
        subprocess.run(["git", *words], cwd=root, env=env, check=True)
    return root


def _database(root: Path, mode: str = "delete") -> sqlite3.Connection:
    database = sqlite3.connect(root / "app.db")
    database.execute(f"pragma journal_mode={mode}")
    database.execute("create table t (x)")
    rows = ((os.urandom(1000),) for _ in range(ROWS))
    database.executemany("insert into t values (?)", rows)
    database.commit()
    return database


def _save(root: Path, env: dict[str, str], number: int) -> float:
    """Change a file and save; return the processor time in milliseconds."""
    root.joinpath("f0").write_text(f"{number}\n")
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    command = [sys.executable, "-P", "-m", "gitcp", "save", "-q", "--session", "s"]
    subprocess.run(command, cwd=root, env=env, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return (after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime) * 1000


if __name__ == "__main__":
    main()
