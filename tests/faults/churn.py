"""Saves of a watched working tree whose directories change places: renamed, exchanged, replaced by
files and links, moved out and in, written to while they move. Each checkpoint has the tree that git
makes with an index of its own.
"""

from __future__ import annotations

import ctypes
import math
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from threading import Thread

from capturing import git_tree

from gitcp.fastpath import mounts, watched
from gitcp.saving.save import SaveRequest, save
from gitcp.worktree.snapshot import Limits

from driver import SOURCE, Project
from samples import open_store

AT_CWD, EXCHANGE = -100, 2
DIRECTORIES, LEVELS = 30, 3
MOST = 150
"""Directories above which some are removed, so that a save takes the same time all along."""

PER_KILL = 400
"""Saves from one kill of the watcher to the next, about."""

REPORTED = 100
LIBC = ctypes.CDLL(None, use_errno=True)


def exchange(one: Path, other: Path) -> None:
    """Exchange two names at once, as `mv --exchange` does. Raises OSError."""
    paths = os.fsencode(one), os.fsencode(other)
    if LIBC.renameat2(AT_CWD, paths[0], AT_CWD, paths[1], EXCHANGE) != 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


class Churn:
    """A project at `place`, its watcher, and what changes it. With `mounting`, for which this
    process needs a mount namespace of its own, directories are mounted over others, too.
    """

    def __init__(self, place: Path, seed: int, *, mounting: bool = False) -> None:
        self.chance = random.Random(seed)
        self.project = Project(place / "project")
        self.outside = place / "outside"
        self.outside.mkdir()
        for number in range(DIRECTORIES):
            parts = [f"d{number}", *("s" * level for level in range(1, LEVELS))]
            self._furnish(self.project.root.joinpath(*parts))
        self.project.commit()
        self.mounting = mounting
        self.saves = self.narrow = self.kills = self.acts = 0
        self.process: subprocess.Popen[bytes] | None = None

    def run(
        self, saves: int, report: Callable[[str], object] = str, seconds: float = math.inf
    ) -> Iterator[str]:
        """Change, save and compare so often, and end after so many seconds. Yields what is
        wrong.
        """
        until = time.monotonic() + seconds
        try:
            while self.saves < saves and time.monotonic() < until:
                if self.process is None:
                    self._watch()
                acts = [self._act() for _ in range(self.chance.randrange(1, 6))]
                if self.chance.randrange(PER_KILL) == 0:
                    self._kill()
                    self.kills += 1
                where = f"save {self.saves}, after {acts}"
                yield from (f"{where}: {wrong}" for wrong in self._compare())
                self.saves += 1
                if self.saves % REPORTED == 0:
                    report(f"{self.saves} saves, {self.narrow} narrow, {self.kills} kills")
        finally:
            self._kill()
            self._unmount_all()

    # ------------------------------------------------------------ saves

    def _watch(self) -> None:
        options = ("--quiet", "86400", "--every", "0", "--session", "watch")
        self.process = subprocess.Popen(
            [sys.executable, "-P", "-m", "gitcp", "watch", *options],
            cwd=self.project.root,
            env={**os.environ, "PYTHONPATH": str(SOURCE)},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        socket = self.project.git_dir / watched.SOCKET
        while not socket.exists() and self.process.poll() is None:
            time.sleep(0.05)

    def _kill(self) -> None:
        if self.process is not None:
            self.process.send_signal(signal.SIGKILL)
            self.process.wait()
            self.process = None
            with suppress(FileNotFoundError):
                self.project.git_dir.joinpath(watched.SOCKET).unlink()

    def _compare(self) -> Iterator[str]:
        """Save by the word of the watcher, and yield what is otherwise than git sees it."""
        request = SaveRequest(
            cwd=self.project.root,
            session="churn",
            limits=Limits(max_dependency_files=3),
            watched=True,
        )
        taken = save(open_store(self.project), request).taken
        self.narrow += taken.watch is not None and taken.watch.is_narrow
        seen = git_tree(self.project)
        if str(taken.snapshot.tree) != seen:
            saved = "refs/gitcp/sessions/churn"
            differing = self.project.git(
                "diff-tree", "-r", "--name-status", saved, seen, "--", ".", ":!.gitcp"
            )
            yield f"saved {taken.snapshot.tree}, git sees {seen}: {differing[:300]}"
        known = watched.load(str(self.project.git_dir))
        if known is not None and known.missed is not None:
            yield f"gitcp watch is said to have missed a change in {known.missed!r}"

    # ------------------------------------------------------------ changes

    def _act(self) -> str:
        """Do one of them; return its name. Some cannot be done, as in a directory that is gone."""
        acts = [
            *(self._edit, self._edit, self._new, self._remove, self._move, self._move_deep),
            *(self._exchange, self._exchange_any, self._exchange_with_outside, self._move_out),
            *(self._move_in, self._replace_by_file, self._replace_by_link, self._retarget),
            *(self._link, self._write_while_moving, self._out_and_back, self._mode),
        ]
        act = self.chance.choice([*acts, self._mount] if self.mounting else acts)
        with suppress(OSError, shutil.Error):
            act()
            self.acts += 1
        return act.__name__

    def _directories(self) -> list[Path]:
        root, found = self.project.root, []
        for path, names, _ in os.walk(root):
            if Path(path) == root:
                names.remove(".git")
            found += [Path(path, name) for name in names if not os.path.islink(Path(path, name))]
        return sorted(found)

    def _directory(self) -> Path:
        found = self._directories()
        if len(found) > MOST:
            self._unmount_all()  # a mount point cannot be removed
            while len(found) > MOST // 2:
                shutil.rmtree(self.chance.choice(found), ignore_errors=True)
                found = self._directories()
        while len(found) < DIRECTORIES:
            new = self.project.root / f"d{self.chance.random()}"
            found += [new, new / "s", self._furnish(new / "s" / "s")]
        return self.chance.choice(found)

    def _furnish(self, directory: Path) -> Path:
        directory.mkdir(parents=True, exist_ok=True)
        directory.joinpath("file").write_text(str(self.chance.random()))
        directory.joinpath("other").write_text(str(self.chance.random()))
        return directory

    def _name(self) -> str:
        return f"n{self.chance.randrange(12)}"

    def _edit(self) -> None:
        self._directory().joinpath("file").write_text(str(self.chance.random()))

    def _new(self) -> None:
        self._furnish(self._directory() / self._name())

    def _remove(self) -> None:
        shutil.rmtree(self._directory())

    def _mode(self) -> None:
        file = self._directory() / "file"
        file.chmod(0o755 if file.stat().st_mode & 0o100 == 0 else 0o644)

    def _move(self) -> None:
        place = self._directory()
        place.rename(place.with_name(self._name()))

    def _move_deep(self) -> None:
        place, target = self._directory(), self._directory()
        place.rename(target / self._name())
        self._furnish(target / "after")

    def _exchange(self) -> None:
        one, other = self._directory(), self._directory()
        exchange(one, other)
        if self.chance.randrange(2):
            one.joinpath("file").write_text(str(self.chance.random()))
            other.joinpath("other").write_text(str(self.chance.random()))

    def _exchange_any(self) -> None:
        """Exchange a directory with a file or a link."""
        one, other = self._directory(), self._directory() / self.chance.choice(["file", "link"])
        if other.name == "link":
            other.unlink(missing_ok=True)
            other.symlink_to(self.chance.choice(["file", "..", "s"]))
        exchange(*((one, other) if self.chance.randrange(2) else (other, one)))

    def _exchange_with_outside(self) -> None:
        exchange(self._directory(), self._furnish(self.outside / self._name()))

    def _move_out(self) -> None:
        self._directory().rename(self.outside / f"o{self.chance.randrange(40)}")

    def _move_in(self) -> None:
        place = self.chance.choice([*self.outside.iterdir(), self._furnish(self.outside / "made")])
        self._furnish(place / "deep" / "er")
        place.rename(self._directory() / self._name())

    def _out_and_back(self) -> None:
        """Move a directory out, change it there, and move it back."""
        place = self._directory()
        away = self.outside / "away"
        place.rename(away)
        away.joinpath("file").write_text(str(self.chance.random()))
        self._furnish(away / "made outside")
        away.rename(place)

    def _replace_by_file(self) -> None:
        """Put a file where a directory was; sometimes a directory again."""
        place = self._directory()
        shutil.rmtree(place)
        place.write_text(str(self.chance.random()))
        if self.chance.randrange(2):
            place.unlink()
            self._furnish(place / "again")

    def _replace_by_link(self) -> None:
        """Move a directory, and leave a link to it."""
        place = self._directory()
        moved = place.with_name(self._name())
        place.rename(moved)
        place.symlink_to(moved.name)
        moved.joinpath("file").write_text(str(self.chance.random()))

    def _retarget(self) -> None:
        """Put another link in the place of one, at once."""
        place = self._directory()
        place.joinpath("new").symlink_to(self.chance.choice(["file", "other", "..", "missing"]))
        place.joinpath("new").rename(place / "link")

    def _link(self) -> None:
        """Give a file of one directory a second name in another, and write through one. The watcher
        looks at it first: it claims nothing about one that is gone before.
        """
        file, link = self._directory() / "file", self._directory() / f"link{self.chance.random()}"
        link.hardlink_to(file)
        watched.ask(str(self.project.git_dir), watched.NO_TOKEN)
        (link if self.chance.randrange(2) else file).write_text(str(self.chance.random()))

    def _write_while_moving(self) -> None:
        """Write into a directory, held by its descriptor, while it is moved several times."""
        place = self._directory()
        descriptor = os.open(place, os.O_RDONLY | os.O_DIRECTORY)
        writer = Thread(target=_write_into, args=(descriptor,))
        writer.start()
        try:
            for _ in range(4):
                target = place.with_name(self._name())
                with suppress(OSError):
                    place.rename(target)
                    place = target
                with suppress(OSError):
                    exchange(place, self._directory())
        finally:
            writer.join()
            os.close(descriptor)

    def _mount(self) -> None:
        """Mount a directory from outside over one; or unmount all."""
        if self.chance.randrange(3) == 0:
            self._unmount_all()
            return
        source = self._furnish(self.outside / "mounted" / self._name())
        place = self._directory()
        subprocess.run(["mount", "--bind", source, place], check=False, stderr=subprocess.DEVNULL)
        source.joinpath("file").write_text(str(self.chance.random()))

    def _unmount_all(self) -> None:
        top = self.outside.parent
        while points := mounts.below(os.fsencode(top)):  # some are mounted over others
            for point in sorted(points, reverse=True):
                command = ["umount", "--lazy", str(top / os.fsdecode(point))]
                subprocess.run(command, check=False, stderr=subprocess.DEVNULL)


def _write_into(directory: int) -> None:
    for number in range(20):
        name = f"written{number % 3}"
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
        with suppress(OSError):
            file = os.open(name, flags, 0o644, dir_fd=directory)
            os.write(file, str(time.monotonic_ns()).encode())
            os.close(file)
        with suppress(OSError):
            os.mkdir(f"made{number % 2}", dir_fd=directory)
