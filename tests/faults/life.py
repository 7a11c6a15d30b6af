"""A long life: thousands of saves in one store by several agents, beside git's own housekeeping,
with retention.

Each agent's clock goes on by minutes with each save, ten for all of them together; two weeks of
git's are two minutes here, so that what nothing names goes from the disk as it would in a life. A
session has two hundred saves.
"""

from __future__ import annotations

import fcntl
import json
import os
import random
import resource
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime, timedelta, tzinfo
from functools import partial
from itertools import count
from pathlib import Path
from typing import NamedTuple

from talk import Talk

from faults import process
from gitcp.cli import context
from gitcp.lifecycle.check import check
from gitcp.model import Oid

from driver import SOURCE, Project
from samples import open_store

FILES = 200
AGENTS = 4
SAVES_A_SESSION = 200
STEP = timedelta(minutes=10)
BEGIN = datetime(2026, 1, 5, 9, 0, tzinfo=UTC)
KEPT = "gitcp.maxCheckpoints=100", "gitcp.maxAge=7d"
GC = ("gc", "--quiet", "--prune=2.minutes.ago")
TIDYING = ("pack-refs", "--all"), GC, ("repack", "-d", "--quiet")
PAUSE = 1.0
LABELLED = 250
"""One of so many saves has a label, and is never dropped by itself."""

SAMPLES = 11
"""Of so many measured the median is taken."""


class Saved(NamedTuple):
    """A save that was reported: the id, when, whether with a label."""

    id: str
    at: datetime
    labelled: bool


class Row(NamedTuple):
    """What it is like after so many saves: what is held, what it takes, and processor time of
    commands in ms.
    """

    saves: int
    held: int
    kib: int
    save: float
    listing: float
    python: float


class Life:
    """A project that lives long."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._others = process.children()
        self.project = process.Forking(directory / "project")
        for number in range(FILES):
            self.project.write(f"d{number % 20}/{number}", f"{number}\n" * 50)
        self.project.commit()
        for setting in KEPT:
            self.project.git("config", *setting.split("="))

    def live(self, saves: int, stops: tuple[int, ...]) -> Iterator[Row]:
        """Let all agents save so often together; how it is at each stop."""
        with ExitStack() as others:
            for number in range(AGENTS):
                others.enter_context(_beside(partial(Agent(self, number).work, saves // AGENTS)))
            others.enter_context(_beside(self._tidy))
            for stop in sorted({*stops, saves}):
                while len(self.saves()) + len(self.failures()) < stop:
                    time.sleep(PAUSE)
                yield self._look(stop)
        process.reap(self._others)

    def _tidy(self) -> None:
        """What git does, over and over."""
        for turn in count():
            with self.alone():
                self.project.git(*TIDYING[turn % len(TIDYING)], check=False)
            time.sleep(PAUSE)

    def saves(self) -> list[Saved]:
        """What was reported so far."""
        rows = [json.loads(line) for line in self._lines("saves")]
        return [Saved(id, datetime.fromisoformat(at), labelled) for id, at, labelled in rows]

    def failures(self) -> list[str]:
        """What else was said."""
        return self._lines("failures")

    def _lines(self, name: str) -> list[str]:
        path = self.directory / name
        return path.read_text().splitlines() if path.exists() else []

    def note(self, name: str, row: object) -> None:
        """Add a line to what was reported or said."""
        with (self.directory / name).open("a") as file:
            file.write(json.dumps(row) + "\n")

    @contextmanager
    def alone(self) -> Iterator[None]:
        """While nobody else tidies up."""
        with (self.directory / "tidying").open("w") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield

    def _look(self, number: int) -> Row:
        with self.alone():
            self.project.git(*GC)
            held = sum(1 for _ in everything(self.project))
            counted = dict(
                line.split(": ") for line in self.project.git("count-objects", "-v").splitlines()
            )
        saving = statistics.median(
            self._timed("save", "--force", "--session", "timed") for _ in range(SAMPLES)
        )
        listing = statistics.median(
            self._timed("list", "-n", "20", "--session", "timed") for _ in range(SAMPLES)
        )
        bare = statistics.median(
            _timed([sys.executable, "-c", "pass"], self.project) for _ in range(SAMPLES)
        )
        return Row(
            number, held, int(counted["size"]) + int(counted["size-pack"]), saving, listing, bare
        )

    def _timed(self, *args: str) -> float:
        return _timed([sys.executable, "-P", "-m", "gitcp", *args], self.project)

    def insist(self) -> None:
        """Every save was done, and nothing is gone that no rule lets go; the store is sound."""
        saves = self.saves()
        assert not self.failures(), self.failures()[:3]
        assert len({saved.id for saved in saves}) == len(saves)
        there = set(everything(self.project))
        now = max(saved.at for saved in saves)
        kept = [saved for saved in saves if saved.labelled or now - saved.at < timedelta(days=1)]
        lost = [saved.id for saved in kept if saved.id not in there]
        assert not lost, lost[:10]
        report = check(open_store(self.project))
        assert report.ok, report.problems[:3]
        said = self.project.git("fsck", "--strict", "--no-dangling", "--no-progress")
        assert not said, said


class Agent:
    """One of those who work in the project, each with sessions of its own."""

    def __init__(self, life: Life, number: int) -> None:
        self.life, self.number = life, number
        self.chance = random.Random(number)

    def work(self, saves: int) -> None:
        """Save so often."""
        for turn in range(saves):
            if turn % SAVES_A_SESSION == 0:
                self.talk = Talk(
                    self.life.project, f"{self.number}{turn:07d}-5d1c-4f0a-9b3e-2c6d8f1a7b90"
                )
            self._save(turn)

    def _save(self, turn: int) -> None:
        self.talk.say(f"do {turn} " + "x" * 500, f"done {turn} " + "y" * 1500)
        self.life.project.write(
            f"d{self.number}/{self.chance.randrange(FILES)}", f"as of {turn}\n" * 50
        )
        at = BEGIN + STEP * AGENTS * turn
        label = [f"label {turn}"] if turn % LABELLED == LABELLED - 1 else []
        become = _at(at, ["save", *label, "--session", self.talk.session[:8], "--json"])
        done = process.run(become, self.life.project.root)
        if done.code == 0 and json.loads(done.out)["saved"]:
            self.life.note(
                "saves", [json.loads(done.out)["checkpoint"]["id"], at.isoformat(), bool(label)]
            )
        else:
            self.life.note("failures", [turn, *done])


def _at(moment: datetime, args: list[str]) -> Callable[[], None]:
    """What becomes `gitcp ARGS` at a time."""

    class Clock(datetime):
        """It is always that moment."""

        @classmethod
        def now(cls, tz: tzinfo | None = None) -> Clock:
            return cls.fromisoformat(moment.isoformat())

    run = process.forked(args)

    def become() -> None:
        context.datetime = Clock  # type: ignore[attr-defined]
        run()

    return become


def _timed(command: list[str], project: Project) -> float:
    """The processor time of a command, and of what it starts, in milliseconds."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    env = {**os.environ, "PYTHONPATH": str(SOURCE)}
    subprocess.run(
        command,
        cwd=project.root,
        env=env,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        check=True,
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return 1000 * (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)


def everything(project: Project) -> Iterator[str]:
    """The ids of all checkpoints that sessions and the trash reach."""
    listed = project.git(
        "for-each-ref", "--format=%(objectname)", "refs/gitcp/sessions", "refs/gitcp/trash"
    )
    return (
        str(node.id)
        for node in open_store(project).forest(Oid(tip) for tip in sorted(set(listed.split())))
    )


@contextmanager
def _beside(work: Callable[[], None]) -> Iterator[None]:
    """Meanwhile a process of its own works, until it is done or nobody waits for it any more."""
    pid = os.fork()
    if pid == 0:
        try:
            work()
        finally:
            os._exit(0)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
