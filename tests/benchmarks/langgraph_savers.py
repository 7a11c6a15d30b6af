"""The figures of docs/langgraph.md: GitSaver beside SqliteSaver, and PostgresSaver where a server
can be started.

    PYTHONPATH=. python tests/benchmarks/langgraph_savers.py [CHECKPOINTS]

A thread grows by one message of 2 KB a checkpoint; the savers take turns, so that all meet the same
machine. Wall clock and processor time (of this process, so not the server's) are medians. Then the
slowest call of a hundred (p99) of each operation, with one thread and with eight that each have a
thread of the graph: medians of several runs; `WithFiles` is a GitSaver with a working tree of 200
files. Then the first `put` of a process, after its imports. Last in each line is the p99 of each
saver as a multiple of SqliteSaver's, and OVER where GitSaver's wall clock is above the limit. By
processor time one thread commits what others have put meanwhile, so theirs is next to nothing.
PostgresSaver needs langgraph-checkpoint-postgres and psycopg[binary].
"""

from __future__ import annotations

import glob
import os
import random
import shutil
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

from langchain_core.messages import AIMessage, HumanMessage
from langgraph.checkpoint.base import empty_checkpoint
from langgraph.checkpoint.base.id import uuid6
from langgraph.checkpoint.sqlite import SqliteSaver

from gitcp.langgraph import GitSaver

HEAD = "{:13}" + " {:>11}" * 6 + " {:>12}"
TAIL = 3
"""The limit of the p99 of GitSaver, as a multiple of that of SqliteSaver."""
POSTGRES = ("initdb", "pg_ctl")


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
    """What it gives back, its wall clock and the processor time of its thread in milliseconds."""
    wall, cpu = time.perf_counter(), time.thread_time()
    result = action()
    return result, (time.perf_counter() - wall) * 1000, (time.thread_time() - cpu) * 1000


def grow(savers: Sequence[Any], count: int) -> list[tuple[list[float], list[float]]]:
    """Put the same growing thread into each saver, in turns; what each put took, by saver."""
    chance = random.Random(1)
    words = [f"{chance.getrandbits(28):x}" for _ in range(3000)]
    configs: list[Any] = [{"configurable": {"thread_id": "t", "checkpoint_ns": ""}} for _ in savers]
    took: list[tuple[list[float], list[float]]] = [([], []) for _ in savers]
    messages: list[Any] = []
    for step in range(count):
        text = " ".join(chance.choice(words) for _ in range(280))[:2000]
        messages = [
            *messages,
            (HumanMessage if step % 2 else AIMessage)(content=text, id=str(step)),
        ]
        for number, saver in enumerate(savers):
            made = state(step, messages=messages, n=step)
            configs[number], wall, cpu = timed(partial(put, saver, configs[number], made))
            took[number][0].append(wall)
            took[number][1].append(cpu)
    return took


def latest(saver: Any) -> tuple[float, float]:
    """The wall clock and the processor time of reading the last state."""
    config = {"configurable": {"thread_id": "t", "checkpoint_ns": ""}}
    took = [timed(lambda: saver.get_tuple(config))[1:] for _ in range(20)]
    return statistics.median(wall for wall, _ in took), statistics.median(cpu for _, cpu in took)


def writers(saver: Any, count: int, each: int = 10) -> float:
    """States a second that so many threads put into one thread of the graph; all must be there
    afterwards.
    """
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


def operations(saver: Any, name: str, count: int) -> dict[str, list[float]]:
    """What each call takes while one thread of the graph is written and read, in milliseconds: by
    wall clock and, as `cpu`, in processor time.
    """
    config: Any = {"configurable": {"thread_id": name, "checkpoint_ns": ""}}
    last, took = config, dict[str, list[float]]()
    messages: list[Any] = []
    for step in range(count):
        messages = [*messages, HumanMessage(content=f"{step} " + "x" * 500, id=str(step))]
        made = state(step, messages=messages, n=step)
        last, *put_took = timed(partial(put, saver, last, made))
        writes = [("messages", messages[-1:]), ("n", step)]
        calls = {
            "put_writes": partial(saver.put_writes, last, writes, f"task {step}"),
            "get_tuple": partial(saver.get_tuple, config),
            "list": partial(lambda: list(saver.list(config, limit=3))),
        }
        results = {"put": put_took, **{each: timed(call)[1:] for each, call in calls.items()}}
        for operation, (wall, cpu) in results.items():
            took.setdefault(operation, []).append(wall)
            took.setdefault(f"{operation} cpu", []).append(cpu)
    return took


def crowd(saver: Any, name: str, threads: int, count: int) -> dict[str, list[float]]:
    """What each call takes while so many threads do that at once."""
    with ThreadPoolExecutor(threads) as pool:
        each = pool.map(
            lambda n: operations(saver, f"{name}-{n}", count // threads), range(threads)
        )
        found = list(each)
    return {operation: [took for one in found for took in one[operation]] for operation in found[0]}


def tails(savers: Sequence[Any], threads: int, count: int, runs: int = 5) -> Iterator[str]:
    """A line for each operation: the median and the p99 of each saver."""
    names = [type(saver).__name__ for saver in savers]
    measured: list[list[dict[str, list[float]]]] = [
        [crowd(saver, f"{threads}-{run}", threads, count) for saver in savers]
        for run in range(runs)
    ]
    for operation in measured[0][0]:
        parts, slowest = [], dict[str, float]()
        for number, name in enumerate(names):
            hundredths = [statistics.quantiles(run[number][operation], n=100) for run in measured]
            middle, tail = (statistics.median(each[n] for each in hundredths) for n in (49, 98))
            slowest[name] = tail
            parts.append(f"{name} {middle:6.2f} {tail:7.2f} {tail / slowest[names[0]]:5.1f} x")
        is_wall = not operation.endswith(" cpu")
        over = "  OVER" if is_wall and slowest["GitSaver"] > TAIL * slowest[names[0]] else ""
        line = f"{threads} threads, {operation:14} median and p99 in ms: " + ", ".join(parts)
        yield line + over


class WithFiles(GitSaver):
    """A saver whose states have files."""

    def __init__(self, directory: Path) -> None:
        subprocess.run(["git", "init", "--quiet", os.fspath(directory)], check=True)
        for number in range(200):
            directory.joinpath(f"{number}.txt").write_text("x" * 500)
        super().__init__(directory, worktree=directory)


def first_puts(directory: Path, processes: int = 9) -> Iterator[str]:
    """A line for each saver: the median of the first `put` of a process, which has imported the
    saver, by wall clock and in processor time.
    """
    subprocess.run(["git", "init", "--quiet", os.fspath(directory)], check=True)
    for kind in (SqliteSaver, GitSaver):
        took = [_in_a_process(kind.__name__, directory, f"first-{n}") for n in range(processes)]
        wall, cpu = (statistics.median(each[n] for each in took) for n in (0, 1))
        yield f"first put of a process, {kind.__name__:12} {wall:6.1f} ms, cpu {cpu:6.1f} ms"


def _in_a_process(kind: str, directory: Path, thread_id: str) -> tuple[float, float]:
    command = [sys.executable, __file__, kind, os.fspath(directory), thread_id]
    printed = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    wall, cpu = map(float, printed.split())
    return wall, cpu


def first_put(kind: str, directory: str, thread_id: str) -> None:
    """Print the wall clock and the processor time of one `put`, those of programs that it starts
    included.
    """
    saver: Any = GitSaver(directory)
    if kind == SqliteSaver.__name__:
        saver = SqliteSaver(sqlite3.connect(os.path.join(directory, "first.db")))
        saver.setup()
    config = {"configurable": {"thread_id": thread_id, "checkpoint_ns": ""}}
    before = os.times()
    _, wall, _ = timed(partial(put, saver, config, state(1, n=1)))
    used = sum(os.times()[:4]) - sum(before[:4])
    say(f"{wall} {used * 1000}")


def say(line: str) -> None:
    """A line, at once."""
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def size(directory: Path) -> int:
    """The bytes of all files below."""
    return sum(file.stat().st_size for file in directory.rglob("*") if file.is_file())


@contextmanager
def postgres(directory: Path) -> Iterator[Any]:
    """A PostgresSaver on a server of its own in this directory; None where there is no server or no
    saver.
    """
    programs = [
        shutil.which(name) or next(iter(glob.glob(f"/usr/lib/postgresql/*/bin/{name}")), None)
        for name in POSTGRES
    ]
    try:
        saver_class = import_module("langgraph.checkpoint.postgres").PostgresSaver
    except ImportError:
        programs = [None]
    if None in programs:
        yield None
        return
    initdb, pg_ctl = map(str, programs)
    who: dict[str, Any] = (
        {"user": "nobody", "cwd": "/", "stdout": subprocess.DEVNULL} if os.geteuid() == 0 else {}
    )
    if who:
        shutil.chown(directory, "nobody")
    data = directory / "data"
    subprocess.run([initdb, "-D", data, "-A", "trust", "-U", "bench"], check=True, **who)
    options = f"-c listen_addresses= -k {directory}"
    subprocess.run(
        [pg_ctl, "-D", data, "-w", "-l", directory / "log", "-o", options, "start"],
        check=True,
        **who,
    )
    try:
        with saver_class.from_conn_string(f"host={directory} user=bench dbname=postgres") as saver:
            saver.setup()
            yield saver
    finally:
        subprocess.run([pg_ctl, "-D", data, "-w", "-m", "fast", "stop"], check=True, **who)


def main() -> None:
    """Print a row for each saver."""
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 300
    with tempfile.TemporaryDirectory() as scratch:
        os.chmod(scratch, 0o755)
        places = [Path(scratch, name) for name in ("sqlite", "git", "postgres")]
        sqlite, git, server = places
        sqlite.mkdir()
        server.mkdir()
        subprocess.run(["git", "init", "--quiet", os.fspath(git)], check=True)
        connection = sqlite3.connect(sqlite / "store.db", check_same_thread=False)
        with postgres(server) as third:
            savers = [SqliteSaver(connection), GitSaver(git), *([third] if third else [])]
            before = [size(place) for place in places]
            say(
                HEAD.format(
                    "", "put wall", "p90", "put cpu", "mean", "get wall", "get cpu", "bytes"
                )
            )
            for saver, place, start, took in zip(
                savers, places, before, grow(savers, count), strict=False
            ):
                walls, cpus = took
                tenths = statistics.quantiles(walls, n=10)
                told = [
                    tenths[4],
                    tenths[8],
                    statistics.median(cpus),
                    statistics.mean(cpus),
                    *latest(saver),
                ]
                say(
                    HEAD.format(
                        type(saver).__name__,
                        *(f"{one:.2f} ms" for one in told),
                        f"{size(place) - start:,}",
                    )
                )
            for many in (1, 2, 4, 8, 16):
                rates = (f"{type(saver).__name__} {writers(saver, many):.0f}" for saver in savers)
                say(f"states a second of {many} threads: " + ", ".join(rates))
            for many in (1, 8):
                for line in tails([*savers, WithFiles(Path(scratch, f"files{many}"))], many, count):
                    say(line)
            for line in first_puts(Path(scratch, "first")):
                say(line)
        connection.close()


if __name__ == "__main__":
    if sys.argv[1:2] in (["SqliteSaver"], ["GitSaver"]):
        first_put(*sys.argv[1:4])
    else:
        main()
