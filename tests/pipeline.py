"""A pipeline of many records that is killed again and again, and ends with each record processed
exactly once.

The records are the numbers from 0. Processed ones are written into files of the project, as bytes
that say which they are; now and then the pipeline saves a checkpoint with its position. It is
killed with SIGKILL at a random moment, and started again. In the end every record must be in the
files once, in order. All of it:

    python tests/pipeline.py 10000000 20

It works in a scratch directory, prints what happened, and ends with 1 if a record is missing or
there twice.
"""

from __future__ import annotations

import array
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import gitcp

SESSION = "pipeline"
FILES = 100
SAVES = 200
"""So many files are written in all, and so many checkpoints saved."""

BATCH = 1000


def work(records: int) -> None:
    """The pipeline itself, from where it stands to its end. It knows nothing of being killed."""
    session = gitcp.open(".").session(SESSION)
    session.resume()
    position = int(session.position.get("record", 0))
    per_file, per_save = max(1, records // FILES), max(1, records // SAVES)
    while position < records:
        end = min(records, position + min(BATCH, per_save), (position // per_file + 1) * per_file)
        end = min(end, (position // per_save + 1) * per_save)
        with open(f"out-{position // per_file:05}.bin", "ab") as out:
            out.write(array.array("Q", range(position, end)).tobytes())
        position = end
        if position % per_save == 0 or position == records:
            session.save(position={"record": position})


def processed(directory: Path) -> Iterator[int]:
    """Every record in the files, in their order."""
    for path in sorted(directory.glob("out-*.bin")):
        found = array.array("Q")
        found.frombytes(path.read_bytes())
        yield from found


def supervise(directory: Path, records: int, kills: int, seed: int = 1) -> list[str]:
    """Start the pipeline in a repository, kill it `kills` times, and let it end; the position at
    each start.

    The moments are drawn: each time it is killed some way behind the checkpoint that it saved last.
    """
    chance, positions = random.Random(seed), []
    for attempt in range(kills + 1):
        position = _position(directory)
        positions.append(str(position))
        process = _start(directory, records)
        if attempt < kills:
            goal = position + (records - position) * chance.random() / max(1, (kills - attempt) / 2)
            _kill_behind(process, directory, goal, chance.random() * 0.3)
        if process.wait() not in (0, -9):
            raise RuntimeError(f"the pipeline ended with {process.returncode}")
    return positions


def _start(directory: Path, records: int) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-P", os.path.abspath(__file__), "work", str(records)]
    return subprocess.Popen(command, cwd=directory, stdin=subprocess.DEVNULL)


def _kill_behind(
    process: subprocess.Popen[bytes], directory: Path, goal: float, pause: float
) -> None:
    """Kill it a moment after its position passed the goal, unless it ended before that."""
    while process.poll() is None and _position(directory) < goal:
        time.sleep(0.02)
    time.sleep(pause)
    process.kill()


def _position(directory: Path) -> int:
    return int(gitcp.open(directory).session(SESSION).position.get("record", 0))


def main(records: int, kills: int) -> int:
    """Run it all in a scratch repository, and say how it went; the exit code."""
    with tempfile.TemporaryDirectory(prefix="gitcp-pipeline-") as name:
        directory = Path(name)
        subprocess.run(["git", "init", "--quiet", name], check=True)
        begun = time.monotonic()
        positions = supervise(directory, records, kills)
        print(f"{records:,} records, killed {kills} times, {time.monotonic() - begun:.0f} s")
        print("started at", ", ".join(f"{int(position):,}" for position in positions))
        count = wrong = 0
        for expected, found in enumerate(processed(directory)):
            count, wrong = expected + 1, wrong + (expected != found)
        whole = gitcp.open(directory).check().ok
        print(
            f"processed exactly once: {count - wrong:,}; wrong: {wrong:,}; missing: "
            f"{records - count:,}"
        )
        print(
            f"checkpoints: {len(gitcp.open(directory).log(SESSION)):,}; store "
            f"{'whole' if whole else 'DAMAGED'}"
        )
        return 0 if (count, wrong, whole) == (records, 0, True) else 1


if __name__ == "__main__":
    if sys.argv[1] == "work":
        work(int(sys.argv[2]))
    else:
        sys.exit(main(*map(int, sys.argv[1:])))
