"""Many agents, each in one of many worktrees: all save at once, and worktrees come and go.

Each agent is a process that has loaded gitcp, and each of its saves is a fork of it
(faults.process). How long a save waited for others is taken where gitcp locks.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import time
from collections import defaultdict
from collections.abc import Callable, Iterable
from functools import partial
from itertools import count
from pathlib import Path
from typing import NamedTuple

from faults import process
from faults.life import everything
from gitcp.git import locks
from gitcp.lifecycle.check import check

from driver import Project
from samples import open_store

FILES = 40
TIDYING = (
    ("worktree", "prune"),
    ("gc", "--quiet", "--prune=2.minutes.ago"),
    ("pack-refs", "--all"),
    ("repack", "-d", "--quiet"),
)
PAUSE = 0.5
LONGEST_STAY = 20
"""Saves in a worktree before it is removed, at most."""

BRANCH = ("worktree", "add", "--quiet", "-b")


class Waits(NamedTuple):
    """How long saves waited for the locks of others, in seconds: of a hundred, the 50th and 95th,
    and the longest.
    """

    saves: int
    median: float
    usual: float
    longest: float


class Fleet:
    """A repository with worktrees beside it, and what its agents were told."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._others = process.children()
        self.project = process.Forking(directory / "main")
        for number in range(FILES):
            self.project.write(f"d{number % 8}/{number}", f"{number}\n" * 20)
        self.project.commit()

    def add(self, name: str) -> Project:
        """Add a worktree on a branch of its name. Again, if another process of git's is in the
        way.
        """
        path = self.directory / name
        for _ in range(5):
            self.project.git(*BRANCH, name, str(path), check=False)
            if path.joinpath(".git").exists():
                return Project(path)
            shutil.rmtree(path, ignore_errors=True)
            self.project.git("worktree", "prune", check=False)
            self.project.git("branch", "-D", name, check=False)
        raise AssertionError(f"git added no worktree {name}")

    # ------------------------------------------------------------ all at once

    def save_at_once(self, agents: int, worktrees: int, saves: int) -> Waits:
        """Let so many agents, spread over so many worktrees, save so often."""
        trees = [self.add(f"tree-{number}") for number in range(worktrees)]
        start = time.time() + 1
        self._work(
            partial(self._save_often, trees[number % worktrees], number, saves, start)
            for number in range(agents)
        )
        process.reap(self._others)
        return self.waits()

    def _save_often(self, tree: Project, number: int, saves: int, start: float) -> None:
        time.sleep(max(0.0, start - time.time()))
        for turn in range(saves):
            tree.write(f"of-{number}", f"{number}, {turn}\n")
            self._save(tree, f"agent-{number}", f"{number}.{turn}")

    # ------------------------------------------------------------ coming and going

    def come_and_go(self, lanes: int, saves: int, minutes: float) -> None:
        """Let agents save so often together, each in one worktree after another, beside git's own
        housekeeping; no more after so many minutes.
        """
        until = time.monotonic() + 60 * minutes
        tidying = os.fork()
        if not tidying:
            _ending(self._tidy)
        try:
            self._work(partial(self._move_on, lane, saves // lanes, until) for lane in range(lanes))
        finally:
            os.kill(tidying, 9)
            # its `git gc` went on: the last one refused to start, and objects vanished below rmtree
            process.reap(self._others)

    def _move_on(self, lane: int, saves: int, until: float) -> None:
        chance, done = random.Random(lane), 0
        for stay in count():
            name = f"lane-{lane}-{stay}"
            tree = self.add(name)
            for turn in range(min(chance.randint(1, LONGEST_STAY), saves - done)):
                tree.write(f"d{turn % 8}/of-{lane}", f"{name}, {turn}\n")
                self._save(tree, name, f"{name}.{turn}")
                done += 1
            if chance.random() < 0.5:
                self.project.git("worktree", "remove", "--force", str(tree.root), check=False)
            shutil.rmtree(tree.root, ignore_errors=True)  # git did, or nobody told git
            self.project.git("branch", "-D", name, check=False)
            if done >= saves or time.monotonic() > until:
                return

    def _tidy(self) -> None:
        for turn in count():
            self.project.git(*TIDYING[turn % len(TIDYING)], check=False)
            time.sleep(PAUSE)

    # ------------------------------------------------------------ what they do, and were told

    def _work(self, agents: Iterable[Callable[[], None]]) -> None:
        """Let each work in a process of its own, to its end."""
        pids = []
        for work in agents:
            pid = os.fork()
            if not pid:
                _ending(work)
            pids.append(pid)
        ends = [os.waitpid(pid, 0)[1] for pid in pids]
        assert not any(ends), ends

    def _save(self, tree: Project, session: str, label: str) -> None:
        args = ["save", label, "--session", session, "--json"]
        run = process.forked(args)

        def become() -> None:
            _time_locks(self.directory / "waits")
            run()

        done = process.run(become, tree.root)
        if done.code == 0 and json.loads(done.out)["saved"]:
            self._note("saves", json.loads(done.out)["checkpoint"]["id"])
        else:
            self._note("failures", f"{label}: {done.code} {done.err}".replace("\n", " "))

    def _note(self, name: str, line: str) -> None:
        with open(self.directory / name, "ab", buffering=0) as file:
            file.write(line.encode() + b"\n")

    def lines(self, name: str) -> list[str]:
        """What the agents noted: `saves`, the ids that were reported, or `failures`."""
        path = self.directory / name
        return path.read_text().splitlines() if path.exists() else []

    def waits(self) -> Waits:
        """How long the saves waited for locks."""
        by_process: defaultdict[str, float] = defaultdict(float)
        for line in self.lines("waits"):
            pid, seconds = line.split()
            by_process[pid] += float(seconds)
        waits = sorted(by_process.values())
        middle, usual = waits[len(waits) // 2], waits[len(waits) * 95 // 100]
        return Waits(len(waits), middle, usual, waits[-1])

    def insist(self) -> None:
        """Every save was done and is there, each under an id of its own; the store is sound, also
        for git, after a last `gc`.
        """
        for command in TIDYING:
            self.project.git(*command)
        assert not self.lines("failures"), self.lines("failures")[:3]
        ids = self.lines("saves")
        assert len(set(ids)) == len(ids)
        lost = set(ids) - set(everything(self.project))
        assert not lost, sorted(lost)[:10]
        report = check(open_store(self.project))
        assert report.ok, report.problems[:3]
        said = self.project.git("fsck", "--strict", "--no-dangling", "--no-progress")
        assert not said, said


def _ending(work: Callable[[], None]) -> None:
    """Work, and end this process."""
    code = 1
    try:
        work()
        code = 0
    finally:
        os._exit(code)


def _time_locks(notes: Path) -> None:
    """From now on, note how long each lock was waited for: the process and seconds, one a line."""
    take = locks.take

    def timed(descriptor: int, until: float, *, alone: bool = True) -> bool:
        began = time.monotonic()
        try:
            return take(descriptor, until, alone=alone)
        finally:
            line = f"{os.getpid()} {time.monotonic() - began:.6f}\n"
            with open(notes, "ab", buffering=0) as file:
                file.write(line.encode())

    locks.take = timed
