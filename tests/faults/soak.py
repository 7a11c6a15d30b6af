"""Saves beside edits in a watched working tree, whose watcher is killed at random: the tree of each
checkpoint is the one that git sees.
"""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from gitcp.fastpath import watched

from driver import SOURCE, Project

RULES = ("*.log\n", "new*\n", "x.d/\n", "", "sub/\n!sub/keep\n")
WIDTH = 10
"""Entries of a directory, at the start."""

PER_KILL = 25
"""Saves from one kill of the watcher to the next, about."""


class Soak:
    """A project of so many files at `place`, its watcher, and an index of the judge's own. With
    `paranoid`, gitcp compares each watched look with a full one as well.
    """

    def __init__(self, place: Path, files: int, seed: int, *, paranoid: bool) -> None:
        self.chance = random.Random(seed)
        self.project = Project(place)
        self.index = place.with_name("index-of-the-judge")
        self.directories = [f"{n % WIDTH}/{n // WIDTH % WIDTH}/{n}" for n in range(files // WIDTH)]
        for directory in self.directories:
            place.joinpath(directory, "sub").mkdir(parents=True)
            for name in range(WIDTH - 1):
                place.joinpath(directory, str(name)).write_text(f"{directory} {name}\n")
            place.joinpath(directory, "sub", "file").write_text("below\n")
        self.environment = {"GITCP_PARANOID": "1"} if paranoid else {}
        self.watched = 0
        self.process: subprocess.Popen[bytes] | None = None

    def run(self, saves: int) -> Iterator[str]:
        """Edit, save and compare so often. Yields what is wrong."""
        try:
            for number in range(saves):
                if self.process is None:
                    self._watch()
                for _ in range(self.chance.randrange(0, 8)):
                    self._edit()
                if self.chance.randrange(PER_KILL) == 0:
                    self._kill()
                    for _ in range(self.chance.randrange(0, 3)):
                        self._edit()
                if (wrong := self._compare()) is not None:
                    yield f"save {number}: {wrong}"
        finally:
            self._kill()

    def _watch(self) -> None:
        command = [sys.executable, "-P", "-m", "gitcp", "watch", "--quiet", "86400", "--every", "0"]
        self.process = subprocess.Popen(
            command,
            cwd=self.project.root,
            env={**os.environ, "PYTHONPATH": str(SOURCE)},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        if self.chance.randrange(2):  # else it begins beside the next save
            socket = self.project.git_dir / watched.SOCKETS[watched.OWN]
            while not socket.exists() and self.process.poll() is None:
                time.sleep(0.05)

    def _kill(self) -> None:
        if self.process is not None:
            self.process.send_signal(signal.SIGKILL)
            self.process.wait()
            self.process = None

    def _compare(self) -> str | None:
        """Save, and return what is otherwise than git sees it."""
        before = watched.load(str(self.project.git_dir))
        self.project.gitcp("save", "-q", "--session", "soak", env=self.environment, check=0)
        known = watched.load(str(self.project.git_dir))
        if known is not None and known.missed is not None:
            return f"{known.watcher} missed a change in {known.missed!r}"
        if before is not None and known is not None:
            self.watched += watched.instance(before.token) == watched.instance(known.token)
        saved, seen = self._root("refs/gitcp/sessions/soak"), self._root(self._tree())
        return None if saved == seen else f"{saved ^ seen} differ"

    def _root(self, name: str) -> set[str]:
        """The entries of the root of a tree, without gitcp's own."""
        lines = self.project.git("ls-tree", name).splitlines()
        return {line for line in lines if not line.endswith("\t.gitcp")}

    def _tree(self) -> str:
        os.environ["GIT_INDEX_FILE"] = str(self.index)
        try:
            ignored = self.project.git("ls-files", "-c", "-i", "-z", "--exclude-standard")
            paths = ignored.encode("utf-8", "surrogateescape")
            self.project.git("update-index", "--force-remove", "-z", "--stdin", input=paths)
            self.project.git("add", "--all")
            return self.project.git("write-tree")
        finally:
            del os.environ["GIT_INDEX_FILE"]

    def _edit(self) -> None:
        """Do one of what agents and users do."""
        root, act = self.project.root, self.chance.randrange(10)
        directory = root / self.chance.choice(self.directories)
        if not directory.is_dir():
            directory.mkdir(parents=True)
        if act == 0:
            shutil.rmtree(directory)
        elif act <= 2:
            self._rename(directory)
        elif act == 3:
            rules = root if self.chance.randrange(20) == 0 else directory
            rules.joinpath(".gitignore").write_text(self.chance.choice(RULES))
        elif act == 4:
            directory.joinpath("x.d", "deep").mkdir(parents=True, exist_ok=True)
            directory.joinpath("x.d", "deep", "file").write_text(str(self.chance.random()))
        else:
            deep = self.chance.choice(["", "sub"])
            directory.joinpath(deep).mkdir(exist_ok=True)
            name = self.chance.choice(["1", "2", "new", "out.log", "keep"])
            directory.joinpath(deep, name).write_text(str(self.chance.random()))

    def _rename(self, directory: Path) -> None:
        """Rename a directory, and edit in it before anybody has looked."""
        target = directory.with_name(f"moved{self.chance.randrange(50)}")
        if not target.exists():
            directory.rename(target)
            target.joinpath("sub").mkdir(exist_ok=True)
            target.joinpath("sub", "file").write_text(str(self.chance.random()))
            self.directories.append(str(target.relative_to(self.project.root)))
