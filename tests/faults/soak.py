"""Saves beside edits in a watched working tree, whose watcher is killed at random: the tree of each
checkpoint is the one that git sees.
"""

from __future__ import annotations

import math
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from faults.process import Forking
from gitcp.fastpath import watched

from driver import SOURCE

RULES = ("*.log\n", "new*\n", "x.d/\n", "", "sub/\n!sub/keep\n")
WIDTH = 10
"""Entries of a directory, at the start."""

PER_KILL = 25
"""Saves from one kill of the watcher to the next, about."""

REPORTED = 50
"""Saves from one line on how far it is to the next."""

PER_WHOLE = 1000
"""Saves from one comparison of the whole tree to the next."""

EDITED = 60
"""Directories that are edited, of a tree that was there before: what is not as in git's index costs
each save, as it does git.
"""

REF = "refs/gitcp/sessions/soak"
WHOLE = ""


class Soak:
    """A project of so many files at `place`, its watcher, and an index of the judge's own. With
    `paranoid`, gitcp compares each watched look with a full one as well. The watcher is killed once
    in `per_kill` saves.

    If there is a repository at `place`, some of its directories of the third level are used
    instead.
    """

    def __init__(
        self, place: Path, files: int, seed: int, *, paranoid: bool, per_kill: int = PER_KILL
    ) -> None:
        self.chance = random.Random(seed)
        exists = place.joinpath(".git").exists()
        self.project = Forking(place)
        self.indexes = place.with_name("indexes-of-the-judge")
        self.indexes.mkdir(exist_ok=True)
        all_directories = _third_level(place) if exists else _furnished(place, files)
        self.per_whole_rules = max(20, len(all_directories) // 100)
        """Edits of rules for one of those for the whole tree, after which all of it is scanned."""
        count = min(EDITED, len(all_directories)) if exists else len(all_directories)
        self.directories = self.chance.sample(all_directories, count)
        self.environment = {"GITCP_PARANOID": "1"} if paranoid else {}
        self.per_kill = per_kill
        self.saves = self.watched = self.kills = 0
        self.process: subprocess.Popen[bytes] | None = None
        self.edited = {WHOLE}
        """The directories that were edited since the last save: WHOLE if rules for all of it
        were.
        """
        self.last = ""

    def run(
        self, saves: int, report: Callable[[str], object] = str, seconds: float = math.inf
    ) -> Iterator[str]:
        """Edit, save and compare so often, and end after so many seconds. Yields what is wrong;
        `report` gets the progress.
        """
        until = time.monotonic() + seconds
        try:
            while self.saves < saves and time.monotonic() < until:
                if self.process is not None and self.process.poll() is not None:
                    yield f"save {self.saves}: the watcher ended with {self.process.returncode}"
                    self.process = None
                self._edit_and_kill()
                if self.saves % PER_WHOLE == 0:
                    self.edited.add(WHOLE)
                yield from self._compare()
                self.saves += 1
                if self.saves % REPORTED == 0:
                    report(f"{self.saves} saves, {self.watched} watched, {self.kills} kills")
            self.edited.add(WHOLE)
            yield from self._compare()
        finally:
            self._kill()

    def _edit_and_kill(self) -> None:
        if self.process is None:
            self._watch()
        for _ in range(self.chance.randrange(0, 8)):
            self._edit()
        if self.chance.randrange(self.per_kill) == 0:
            self._kill()
            self.kills += 1
            for _ in range(self.chance.randrange(0, 3)):
                self._edit()

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
            socket = self.project.git_dir / watched.SOCKET
            while not socket.exists() and self.process.poll() is None:
                time.sleep(0.05)

    def _kill(self) -> None:
        if self.process is not None:
            self.process.send_signal(signal.SIGKILL)
            self.process.wait()
            self.process = None

    def _compare(self) -> Iterator[str]:
        """Save, and yield what is otherwise than git sees it."""
        before = watched.load(str(self.project.git_dir))
        self.project.gitcp("save", "-q", "--session", "soak", env=self.environment, check=0)
        known = watched.load(str(self.project.git_dir))
        if known is not None and known.missed is not None:
            yield f"save {self.saves}: gitcp watch missed a change in {known.missed!r}"
        if before is not None and known is not None:
            self.watched += watched.instance(before.token) == watched.instance(known.token)
        yield from (f"save {self.saves}: {wrong}" for wrong in self._judge())

    def _judge(self) -> Iterator[str]:
        """Compare what was edited with git's view, and see that nothing else changed since the last
        checkpoint, which was compared.
        """
        edited, self.edited = self.edited, set()
        last, self.last = self.last, self.project.git("rev-parse", REF)
        if WHOLE in edited:
            yield from _differing(self._whole_saved(), self._whole_seen())
        directories = sorted(edited - {WHOLE})
        if directories:
            yield from _differing(self._saved(directories), self._seen(directories))
        if last and last != self.last and WHOLE not in edited:
            others = {path for path in self._changed(last) if not _is_in(path, edited)}
            if others:
                yield f"{sorted(others)} changed, which nobody edited"

    def _changed(self, last: str) -> list[str]:
        """The files in which the checkpoint differs from the last one."""
        with _index(self.indexes / "none"):  # git reads an index here, which says nothing
            changed = self.project.git("diff-tree", "-r", "-z", "--name-only", last, self.last)
        return changed.split("\0")[:-1]

    def _saved(self, directories: list[str]) -> set[str]:
        """The files of these directories in the checkpoint."""
        entries = self.project.git("ls-tree", "-r", "-z", self.last, "--", *directories)
        return set(entries.split("\0"))

    def _seen(self, directories: list[str]) -> set[str]:
        """The files of these directories as git sees them: into an index without any."""
        index = self.indexes / "edited"
        index.unlink(missing_ok=True)
        with _index(index):
            listing = ("ls-files", "-o", "-z", "--exclude-standard", "--", *directories)
            paths = self.project.git(*listing).encode("utf-8", "surrogateescape")
            if not paths:
                return {""}
            self.project.git("update-index", "--add", "-z", "--stdin", input=paths)
            tree = self.project.git("write-tree")
        return set(self.project.git("ls-tree", "-r", "-z", tree).split("\0"))

    def _whole_saved(self) -> set[str]:
        """The entries of the root of the checkpoint, without gitcp's own."""
        lines = self.project.git("ls-tree", self.last).splitlines()
        return {line for line in lines if not line.endswith("\t.gitcp")}

    def _whole_seen(self) -> set[str]:
        """The entries of the root as git sees it, in an index that is kept."""
        index = self.indexes / "whole"
        if not index.exists() and self.project.git_dir.joinpath("index").exists():
            shutil.copy2(self.project.git_dir / "index", index)
        with _index(index):
            ignored = self.project.git("ls-files", "-c", "-i", "-z", "--exclude-standard")
            paths = ignored.encode("utf-8", "surrogateescape")
            if paths:
                self.project.git("update-index", "--force-remove", "-z", "--stdin", input=paths)
            self.project.git("add", "--all", "--", ".")
            return set(self.project.git("ls-tree", self.project.git("write-tree")).splitlines())

    def _edit(self) -> None:
        """Do one of what agents and users do."""
        root, act = self.project.root, self.chance.randrange(10)
        number = self.chance.randrange(len(self.directories))
        name = self.directories[number]
        self.edited.add(name)
        directory = root / name
        if not directory.is_dir():
            directory.mkdir(parents=True)
        if act == 0:
            shutil.rmtree(directory)
        elif act <= 2:
            self.directories[number] = self._renamed(directory)
        elif act == 3:
            is_whole = self.chance.randrange(self.per_whole_rules) == 0
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

    def _renamed(self, directory: Path) -> str:
        """Rename a directory, and edit in it before anybody has looked. Its name from now on."""
        target = directory.with_name(f"moved{self.chance.randrange(50)}")
        if target.exists():
            target = directory
        else:
            directory.rename(target)
            target.joinpath("sub").mkdir(exist_ok=True)
            target.joinpath("sub", "file").write_text(str(self.chance.random()))
        name = str(target.relative_to(self.project.root))
        self.edited.add(name)
        return name


def _differing(saved: set[str], seen: set[str]) -> Iterator[str]:
    if saved != seen:
        yield f"saved {sorted(saved - seen)}, git sees {sorted(seen - saved)}"


def _is_in(path: str, directories: set[str]) -> bool:
    """Whether a path is in one of these directories of the third level, or gitcp's own."""
    return path.startswith(".gitcp/") or "/".join(path.split("/")[:3]) in directories


@contextmanager
def _index(path: Path) -> Iterator[None]:
    """Let git use another index meanwhile."""
    os.environ["GIT_INDEX_FILE"] = str(path)
    try:
        yield
    finally:
        del os.environ["GIT_INDEX_FILE"]


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
