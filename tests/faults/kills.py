"""Thousands of saves in one store, some of them killed at any moment: nothing that was reported is
lost.
"""

from __future__ import annotations

import json
import math
import os
import random
import signal
import time
from pathlib import Path
from typing import NamedTuple

from talk import SESSION, Talk

from faults import process
from gitcp.lifecycle.check import check

from driver import Result
from samples import open_store

FILES = 50
SLACK = 1.3
"""How much later than a save usually ends a kill may come."""


class Reported(NamedTuple):
    """A checkpoint that was reported, and its tree."""

    id: str
    tree: str


class Killing:
    """A project whose saves are killed. `longest` is the longest a save took after a kill, in
    seconds.
    """

    def __init__(self, directory: Path, seed: int = 1) -> None:
        self.project = process.Forking(directory / "project")
        self.talk = Talk(self.project)
        self.chance = random.Random(seed)
        for number in range(FILES):
            self.project.write(f"d{number % 7}/{number}", f"{number}\n" * 40)
        self.project.commit()
        self.reported: list[Reported] = []
        self.saves = self.kills = 0
        self.longest = self.usual = 0.0

    def go_on(self, saves: int, kills: int, until: float = math.inf) -> None:
        """Save until so many were tried and so many of them were killed, or it is so late.

        Insists on what the next command does.
        """
        while (self.saves < saves or self.kills < kills) and time.monotonic() < until:
            done = self._save(kill=self.chance.random() < 1.2 * kills / saves)
            if done.code == -signal.SIGKILL:
                self.kills += 1
                began = time.monotonic()
                after = self._save(kill=False)
                self.longest = max(self.longest, time.monotonic() - began)
                assert after.code == 0, after
            else:
                assert done.code == 0, done

    def _save(self, *, kill: bool) -> Result:
        self.saves += 1
        self.talk.say(f"do {self.saves}", f"did {self.saves} " + "z" * 1000)
        for _ in range(self.chance.choice((1, 1, 1, 60))):  # a few objects, or a pack
            self.project.write(
                f"d{self.chance.randrange(7)}/{self.chance.randrange(200)}", f"{self.saves}\n" * 30
            )
        save = process.forked(["save", "--session", SESSION[:8], "--json"])
        began = time.monotonic()
        done = process.run(save, self.project.root, kill=self._until_killed() if kill else None)
        if not kill:
            self.usual = self.usual * 0.9 + (time.monotonic() - began) * 0.1
        if done.out.endswith("}\n"):  # what was said counts, whatever came then
            made = json.loads(done.out)["checkpoint"]
            self.reported.append(Reported(made["id"], made["tree"]))
        return done

    def _until_killed(self) -> float:
        return self.chance.random() * self.usual * SLACK

    def insist(self) -> None:
        """All that was reported is there, as it was reported; the store is sound."""
        store = open_store(self.project)
        tip = store.tip(SESSION[:8])
        assert tip is not None
        held = {str(node.id): node.root for node in store.history(tip)}
        lost = [one for one in self.reported if held.get(one.id) != one.tree]
        assert not lost, lost[:10]
        report = check(store)
        assert report.ok, report.problems[:3]
        said = self.project.git("fsck", "--strict", "--no-dangling", "--no-progress")
        assert not said, said
        assert not os.path.exists(self.project.path(self.project.git_dir / "gitcp/moves.json"))
