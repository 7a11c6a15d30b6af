"""The figures of docs/langgraph.md: GitSaver beside SqliteSaver on the same states, in the same run.

    PYTHONPATH=. python tests/benchmarks/langgraph_savers.py [CHECKPOINTS]

A thread grows by one message of 2 KB a checkpoint. Processor time and wall clock are medians.
"""

from __future__ import annotations

import os
import random
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from langchain_core.messages import AIMessage, HumanMessage
from langgraph.checkpoint.base import empty_checkpoint
from langgraph.checkpoint.base.id import uuid6
from langgraph.checkpoint.sqlite import SqliteSaver

from gitcp.langgraph import GitSaver

ROW = "{:12} {:>14} {:>14} {:>14} {:>14} {:>16} {:>12}"


def state(step: int, **channels: Any) -> Any:
    """A state whose channels are all at version `step`."""
    made = empty_checkpoint()
    made["id"] = str(uuid6(clock_seq=step))
    made["channel_values"] = channels
    made["channel_versions"] = dict.fromkeys(channels, f"{step:032}.1")
    return made


def put(saver: Any, config: Any, made: Any) -> Any:
    """Put it with all channels new."""
    metadata = {"source": "loop", "step": 1, "parents": {}}
    return saver.put(config, made, metadata, made["channel_versions"])


def timed(action: Callable[[], Any]) -> tuple[Any, float, float]:
    """What it gives back, its wall clock and its processor time in milliseconds."""
    wall, cpu = time.perf_counter(), time.process_time()
    result = action()
    return result, (time.perf_counter() - wall) * 1000, (time.process_time() - cpu) * 1000


def grow(saver: Any, count: int) -> tuple[list[float], list[float]]:
    """Put a growing thread; what each put took."""
    chance = random.Random(1)
    words = [f"{chance.getrandbits(28):x}" for _ in range(3000)]
    config: Any = {"configurable": {"thread_id": "t", "checkpoint_ns": ""}}
    messages: list[Any] = []
    walls, cpus = [], []
    for step in range(count):
        text = " ".join(chance.choice(words) for _ in range(280))[:2000]
        messages = [*messages, (HumanMessage if step % 2 else AIMessage)(content=text, id=str(step))]
        made = state(step, messages=messages, n=step)
        config, wall, cpu = timed(partial(put, saver, config, made))
        walls.append(wall)
        cpus.append(cpu)
    return walls, cpus


def latest(saver: Any) -> float:
    """The processor time of reading the last state."""
    config = {"configurable": {"thread_id": "t", "checkpoint_ns": ""}}
    return statistics.median(timed(lambda: saver.get_tuple(config))[2] for _ in range(20))


def writers(saver: Any, count: int, each: int = 10) -> float:
    """States a second that so many threads put into one thread of the graph; all must be there afterwards."""
    config: Any = {"configurable": {"thread_id": f"w{count}", "checkpoint_ns": ""}}

    def work(number: int) -> None:
        for step in range(each):
            put(saver, config, state(number * each + step, n=step))

    threads = [threading.Thread(target=work, args=(number,)) for number in range(count)]
    start = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    took = time.perf_counter() - start
    assert len(list(saver.list(config))) == count * each
    return count * each / took


def say(line: str) -> None:
    """A line, at once."""
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def size(directory: Path) -> int:
    """The bytes of all files below."""
    return sum(file.stat().st_size for file in directory.rglob("*") if file.is_file())


def main() -> None:
    """Print a row for each saver."""
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 300
    say(ROW.format("", "put wall p50", "put cpu p50", "put cpu mean", "get cpu p50", "bytes", "16 writers"))
    with tempfile.TemporaryDirectory() as scratch:
        sqlite, git = Path(scratch, "sqlite"), Path(scratch, "git")
        sqlite.mkdir()
        subprocess.run(["git", "init", "--quiet", os.fspath(git)], check=True)
        empty = size(git)
        connection = sqlite3.connect(sqlite / "store.db", check_same_thread=False)
        for name, saver, place in (("SqliteSaver", SqliteSaver(connection), sqlite), ("GitSaver", GitSaver(git), git)):
            walls, cpus = grow(saver, count)
            held = size(place) - (empty if place is git else 0)
            told = [statistics.median(walls), statistics.median(cpus), statistics.mean(cpus), latest(saver)]
            rate = f"{writers(saver, 16):.0f}/s"
            say(ROW.format(name, *(f"{figure:.2f} ms" for figure in told), f"{held:,}", rate))
        connection.close()


if __name__ == "__main__":
    main()
