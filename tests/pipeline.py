"""A pipeline of many records that is killed again and again, and ends with each record processed
exactly once.

The records are the numbers from 0. Processed ones are written into files of the project, as bytes
that say which they are; now and then the pipeline saves a checkpoint with its position. It is
killed with SIGKILL at random moments, and at one record exactly (the 7,000,001st of 10,000,000),
and started again. In the end every record must be in the files once, in order, byte for byte.
With `one`, all records go into one file that grows far beyond the size limit: the pipeline names
it as one that it only appends to. All of it:

    python tests/pipeline.py 10000000 20
    python tests/pipeline.py 10000000 5 one

It works in a scratch directory, prints what happened, and ends with 1 if a record is missing or
there twice.
"""

from __future__ import annotations

import array
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import gitcp

SESSION = "pipeline"
FILES = 100
SAVES = 200
"""So many files are written in all, and so many checkpoints saved."""

BATCH = 1000


def work(records: int, *, one: bool = False, killed_at: int = -1) -> None:
    """The pipeline itself, from where it stands to its end. It is killed at one record, if asked,
    and knows nothing of other kills.
    """
    session = gitcp.open(".").session(SESSION)
    session.resume(appends="out-00000.bin")
    position = int(session.position.get("record", 0))
    per_file = records if one else max(1, records // FILES)
    per_save = max(1, records // SAVES)
    while position < records:
        end = min(records, position + min(BATCH, per_save), (position // per_file + 1) * per_file)
        end = min(end, (position // per_save + 1) * per_save)
        name = f"out-{position // per_file:05}.bin"
        with open(name, "ab") as out:
            if position <= killed_at < end:
                out.write(array.array("Q", range(position, killed_at)).tobytes() + b"part")
                out.flush()
                os.kill(os.getpid(), signal.SIGKILL)
            out.write(array.array("Q", range(position, end)).tobytes())
        position = end
        if position % per_save == 0 or position == records:
            session.save(position={"record": position}, appends=name)


def differing(directory: Path, records: int) -> str:
    """Compare the files with what was to be written, byte for byte; what differs, "" if nothing."""
    at = 0
    for path in sorted(directory.glob("out-*.bin")):
        with path.open("rb") as file:
            while data := file.read(BATCH * 80):
                expected = array.array("Q", range(at, min(records, at + BATCH * 10))).tobytes()
                if data != expected[: len(data)] or len(data) % 8:
                    return f"{path.name} is wrong after record {at:,}"
                at += len(data) // 8
    return "" if at == records else f"{records - at:,} records are missing"


def supervise(
    directory: Path, records: int, kills: int, seed: int = 1, *, one: bool = False
) -> list[str]:
    """Start the pipeline in a repository, kill it `kills` times and at one record more, and let it
    end; the position at each start.

    The moments are drawn: each time it is killed some way behind the checkpoint that it saved last.
    """
    chance, positions = random.Random(seed), []
    exactly = records * 7 // 10 + 1
    for attempt in range(kills + 2):
        position = _position(directory)
        positions.append(str(position))
        killed_at, end = (exactly, exactly) if attempt <= kills // 2 else (-1, records)
        process = _start(directory, records, killed_at, one=one)
        if attempt not in (kills // 2, kills + 1):
            goal = position + (end - position) * chance.random() / max(1, (kills - attempt) / 2)
            _kill_behind(process, directory, goal, chance.random() * 0.3)
        if process.wait() not in (0, -9):
            raise RuntimeError(f"the pipeline ended with {process.returncode}")
    return positions


def _start(
    directory: Path, records: int, killed_at: int = -1, *, one: bool = False
) -> subprocess.Popen[bytes]:
    words = ["work", str(records), str(killed_at), *(["one"] if one else [])]
    command = [sys.executable, "-P", os.path.abspath(__file__), *words]
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


def main(records: int, kills: int, *, one: bool) -> int:
    """Run it all in a scratch repository, and say how it went; the exit code."""
    with tempfile.TemporaryDirectory(prefix="gitcp-pipeline-") as name:
        directory = Path(name)
        subprocess.run(["git", "init", "--quiet", name], check=True)
        begun = time.monotonic()
        positions = supervise(directory, records, kills, one=one)
        print(f"{records:,} records, {time.monotonic() - begun:.0f} s")
        print("started at", ", ".join(f"{int(position):,}" for position in positions))
        wrong = differing(directory, records)
        size = sum(path.stat().st_size for path in directory.glob("out-*.bin"))
        print(f"output, {size:,} bytes: {wrong or 'as it must be, byte for byte'}")
        whole = gitcp.open(directory).check().ok
        print(
            f"checkpoints: {len(gitcp.open(directory).log(SESSION)):,}; store "
            f"{'whole' if whole else 'DAMAGED'}"
        )
        return 0 if whole and not wrong else 1


if __name__ == "__main__":
    one_file = sys.argv[-1] == "one"
    if sys.argv[1] == "work":
        work(int(sys.argv[2]), killed_at=int(sys.argv[3]), one=one_file)
    else:
        sys.exit(main(int(sys.argv[1]), int(sys.argv[2]), one=one_file))
