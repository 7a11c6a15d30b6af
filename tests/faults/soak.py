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
from collections.abc import Callable, Iterator
from pathlib import Path

from gitcp.watchers import watched

from driver import SOURCE, Project

RULES = ("*.log\n", "new*\n", "x.d/\n", "", "sub/\n!sub/keep\n")
WIDTH = 10
"""Entries of a directory, at the start."""

PER_KILL = 25
"""Saves from one kill of the watcher to the next, about."""

REPORTED = 50
"""Saves from one line on how far it is to the next."""

REF = "refs/gitcp/sessions/soak"
WHOLE = ""


class Soak:
    """A project of so many files at `place`, its watcher, and indexes of the judge's own. With
    `paranoid`, gitcp compares each watched look with a full one as well.

    If there is a repository at `place`, its directories of the third level are used instead.
    """

    def __init__(self, place: Path, files: int, seed: int, *, paranoid: bool) -> None:
        self.chance = random.Random(seed)
        exists = place.joinpath(".git").exists()
        self.project = Project(place)
        self.indexes = place.with_name("indexes-of-the-judge")
        self.indexes.mkdir()
        self.directories = _third_level(place) if exists else _furnished(place, files)
        self.environment = {"GITCP_PARANOID": "1"} if paranoid else {}
        self.saves = self.watched = 0
        self.process: subprocess.Popen[bytes] | None = None
        self.edited = {WHOLE}
        """The parts of the tree, its directories of the second level, that were edited since the
        last save: WHOLE if rules for all of it were.
        """
        self.last = ""

    def run(self, saves: int, report: Callable[[str], object] = str) -> Iterator[str]:
        """Edit, save and compare so often. Yields what is wrong; `report` is told how far it is."""
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
                wrong = self._compare()
                self.saves += 1
                if self.saves % REPORTED == 0:
                    report(f"{self.saves} saves, {self.watched} watched")
                if wrong is not None:
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
        return self._judge()

    def _judge(self) -> str | None:
        """Compare what was edited with git's view, and see that nothing else changed."""
        edited, self.edited = self.edited, set()
        last, self.last = self.last, self.project.git("rev-parse", REF)
        for part in [WHOLE] if WHOLE in edited else sorted(edited):
            differing = self._saved(part) ^ self._seen(part)
            if differing:
                return f"in {part or 'the root'} {sorted(differing)} differ"
        if not last or last == self.last or WHOLE in edited:
            return None
        changed = self.project.git("diff-tree", "-r", "-z", "--name-only", last, self.last)
        paths = (path for path in changed.split("\0") if path and not path.startswith(".gitcp/"))
        others = {path for path in paths if "/".join(path.split("/")[:2]) not in edited}
        return f"{sorted(others)} changed, which nobody edited" if others else None

    def _saved(self, part: str) -> set[str]:
        """The entries of a part of the checkpoint, without gitcp's own."""
        lines = self.project.git("ls-tree", f"{REF}:{part}", check=False).splitlines()
        return {line for line in lines if not line.endswith("\t.gitcp")}

    def _seen(self, part: str) -> set[str]:
        """The entries of a part of the tree as git sees it."""
        os.environ["GIT_INDEX_FILE"] = str(self.indexes / (part.replace("/", "-") or "whole"))
        try:
            ignored = self.project.git("ls-files", "-c", "-i", "-z", "--exclude-standard")
            paths = ignored.encode("utf-8", "surrogateescape")
            if paths:
                self.project.git("update-index", "--force-remove", "-z", "--stdin", input=paths)
            self.project.git("add", "--all", "--", part or ".", check=False)
            prefix = [f"--prefix={part}/"] if part else []
            tree = self.project.git("write-tree", *prefix, check=False)
            return set(self.project.git("ls-tree", tree).splitlines()) if tree else set()
        finally:
            del os.environ["GIT_INDEX_FILE"]

    def _edit(self) -> None:
        """Do one of what agents and users do."""
        root, act = self.project.root, self.chance.randrange(10)
        name = self.chance.choice(self.directories)
        self.edited.add("/".join(name.split("/")[:2]))
        directory = root / name
        if not directory.is_dir():
            directory.mkdir(parents=True)
        if act == 0:
            shutil.rmtree(directory)
        elif act <= 2:
            self._rename(directory)
        elif act == 3:
            is_whole = self.chance.randrange(max(20, len(self.directories) // 100)) == 0
            self.edited |= {WHOLE} if is_whole else set()
            rules = root if is_whole else directory
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


def _furnished(place: Path, files: int) -> list[str]:
    directories = [f"{n % WIDTH}/{n // WIDTH % WIDTH}/{n}" for n in range(files // WIDTH)]
    for directory in directories:
        place.joinpath(directory, "sub").mkdir(parents=True)
        for name in range(WIDTH - 1):
            place.joinpath(directory, str(name)).write_text(f"{directory} {name}\n")
        place.joinpath(directory, "sub", "file").write_text("below\n")
    return directories


def _third_level(place: Path) -> list[str]:
    found = [f"{part.parent.name}/{part.name}" for part in place.glob("[!.]*/*/") if part.is_dir()]
    return sorted(f"{part}/{name}" for part in found for name in os.listdir(place / part))
