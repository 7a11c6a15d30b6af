"""SQLite databases are restored as a whole: with their sidecars, and through SQLite where a program
has one open.
"""

from __future__ import annotations

import os
import random
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from functools import partial
from pathlib import Path

import pytest
import thorough

import gitcp
from gitcp.errors import GitcpError, Refused
from gitcp.restoring.restore import Report

from driver import Project

APP = """
import sqlite3, sys
app = sqlite3.connect(sys.argv[1], timeout=5, isolation_level=None)
print(app.execute("select count(*) from rows").fetchone()[0], flush=True)
for line in sys.stdin:
    print(app.execute(line).fetchall(), flush=True)
"""
MODES = pytest.mark.parametrize("mode", ["wal", "delete"])


class App:
    """A program that has a database open, and runs what it is told."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process
        self.pid = process.pid

    def run(self, sql: str) -> str:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(sql + "\n")
        self._process.stdin.flush()
        return self._process.stdout.readline().strip()

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()


@contextmanager
def app_with(path: Path) -> Iterator[App]:
    command = [sys.executable, "-c", APP, str(path)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        app = App(process)
        yield app
        app.kill()


def create(path: Path, mode: str) -> None:
    with closing(sqlite3.connect(path)) as database:
        database.execute(f"pragma journal_mode={mode}")
        database.execute("create table rows(n)")
        database.executemany("insert into rows values (?)", [(n,) for n in range(500)])
        database.commit()


def count(path: Path) -> int:
    with closing(sqlite3.connect(path)) as database:
        assert database.execute("pragma integrity_check").fetchone() == ("ok",)
        number: int = database.execute("select count(*) from rows").fetchone()[0]
        return number


@pytest.mark.parametrize("scope", [[], ["--", "app.db"]])
@pytest.mark.parametrize("is_ignored", [False, True])
def test_log_of_another_state(project: Project, is_ignored: bool, scope: list[str]) -> None:
    """A log that the checkpoint does not have would be applied to the restored database: it is
    removed, ignored or not, and whatever paths were named. An undo brings it back.
    """
    path = project.root / "app.db"
    if is_ignored:
        project.write(".gitignore", "*.db-*\n")
    create(path, "wal")
    gitcp.open(project.root).save(session="alpha")
    with app_with(path) as app:
        app.run("delete from rows")
        app.kill()
    assert (project.root / "app.db-wal").exists()
    project.gitcp("restore", "1", "--files", "--yes", "--session", "alpha", *scope)
    assert not (project.root / "app.db-wal").exists()
    assert count(path) == 500
    project.gitcp("undo", "--yes")
    assert (project.root / "app.db-wal").exists()
    assert count(path) == 0


@MODES
def test_open_database(project: Project, mode: str) -> None:
    """A program that has the database open goes on with the restored rows, and what it writes then
    is in the database.
    """
    path = project.root / "app.db"
    create(path, mode)
    gitcp.open(project.root).save(session="alpha")
    with app_with(path) as app:
        app.run("delete from rows where n >= 100")
        plan = project.gitcp("restore", "1", "--dry-run", "--session", "alpha").out
        assert "app.db would be restored through SQLite: python" in plan
        assert f"(pid {app.pid}) has it open" in plan
        restored = project.json("restore", "1", "--files", "--yes", "--session", "alpha")
        assert restored["written"] == ["app.db"]
        (database,) = restored["databases"]
        assert (database["path"], restored["open_files"]) == ("app.db", [])
        assert f"(pid {app.pid})" in database["users"][0]
        assert app.run("select count(*) from rows") == "[(500,)]"
        app.run("insert into rows values (500)")
        project.gitcp("undo", "--yes", "--whole-tree")
        assert app.run("select count(*) from rows") == "[(100,)]"
        project.gitcp("redo", "--yes", "--whole-tree")
        assert app.run("select count(*) from rows") == "[(501,)]"
    assert count(path) == 501


def test_open_for_writing(project: Project) -> None:
    """A file that a program writes to is named before it is replaced; one that it reads, is new or
    is appended to elsewhere is not.
    """
    for name in ("written.log", "read.log"):
        project.write(name, "1\n")
    gitcp.open(project.root).save(session="alpha")
    for name in ("written.log", "read.log"):
        project.write(name, "2\n")
    restore = ("restore", "1", "--files", "--session", "alpha")
    with (
        open(project.root / "written.log", "a", encoding="utf-8"),
        open(project.root / "read.log", encoding="utf-8"),
    ):
        (each,) = project.json(*restore, "--dry-run")["open_files"]
        assert each["path"] == "written.log"
        assert f"(pid {os.getpid()})" in each["users"][0]
        assert "written.log is open for writing: " in project.gitcp(*restore, "--dry-run").out
        done = project.gitcp(*restore, "--yes")
        assert f"(pid {os.getpid()}) would go on writing to the replaced file" in done.err
    assert project.json(*restore, "--dry-run")["open_files"] == []


@MODES
def test_locked_database(project: Project, mode: str) -> None:
    """A database in the middle of a transaction is left as it is, and its program is named."""
    path = project.root / "app.db"
    create(path, mode)
    gitcp.open(project.root).save(session="alpha")
    with app_with(path) as app:
        app.run("delete from rows where n >= 100")
        app.run("begin immediate")
        restored = project.gitcp("restore", "1", "--files", "--yes", "--session", "alpha", check=3)
        assert "app.db" in restored.out
        assert f"(pid {app.pid}) has it open" in restored.out
        app.run("insert into rows values (7)")
        app.run("commit")
        assert app.run("select count(*) from rows") == "[(101,)]"


def test_open_database_that_would_go(project: Project) -> None:
    """What a program has open is not removed under it."""
    project.write("a.txt", "a")
    gitcp.open(project.root).save(session="alpha")
    path = project.root / "app.db"
    create(path, "wal")
    with app_with(path) as app:
        done = project.gitcp("restore", "1", "--files", "--yes", "--session", "alpha", check=3)
        assert f"(pid {app.pid}) has this database open: stop it first" in done.out
        assert app.run("select count(*) from rows") == "[(500,)]"
    assert count(path) == 500


def test_whole_database(project: Project) -> None:
    """The files of a database are never merged: without the change of one of them, the log that
    came later would be applied to a database that it does not belong to.
    """
    path = project.root / "app.db"
    create(path, "wal")
    checkpoints = gitcp.open(project.root)
    checkpoints.save(session="alpha")
    with closing(sqlite3.connect(path)) as database:
        database.execute("delete from rows where n < 100")
        database.commit()
    checkpoints.save(session="alpha")
    with app_with(path) as app:
        app.run("delete from rows where n < 200")
        app.kill()
    checkpoints.save(session="alpha")
    before = path.read_bytes()
    refused = project.gitcp("revert", "2", "--yes", "--session", "alpha", check=12)
    assert "app.db" in refused.err + refused.out
    assert "a database that changed since" in refused.err + refused.out
    assert path.read_bytes() == before
    assert count(path) == 300


WRITER = """
import os, random, sqlite3, sys, time
chance = random.Random(sys.argv[2])
app = sqlite3.connect(sys.argv[1], timeout=30, isolation_level=None)
acknowledged = os.open(sys.argv[3], os.O_CREAT | os.O_WRONLY | os.O_APPEND)
print("ready", flush=True)
for number in range(10**9):
    app.execute("insert into rows values (?)", (f"{sys.argv[2]}-{number}",))
    os.write(acknowledged, f"{sys.argv[2]}-{number}\\n".encode())
    time.sleep(chance.choice((0, 0.01, 0.5)))
"""


@contextmanager
def writing(path: Path, seed: str, log: Path) -> Iterator[int]:
    command = [sys.executable, "-c", WRITER, str(path), seed, str(log)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        process.stdout.readline()
        yield process.pid
        process.kill()


class History:
    """A database with programs that write into it, and what must be in it: `base`, and all that was
    acknowledged but for the `earlier` rows.
    """

    def __init__(self, project: Project, place: Path, mode: str, writers: int) -> None:
        self.path, self._project, self._place = project.root / "app.db", project, place
        self.checkpoints = gitcp.open(project.root)
        create(self.path, mode)
        self._logs = [place / f"log-{number}" for number in range(writers)]
        self.base, self.earlier = rows_in(self.path), set[object]()
        self.saved: dict[str, set[object]] = {}
        self.pids: list[int] = []

    @contextmanager
    def written(self) -> Iterator[None]:
        with ExitStack() as stack:
            for number, log in enumerate(self._logs):
                self.pids.append(stack.enter_context(writing(self.path, str(number), log)))
            yield

    @contextmanager
    def stopped(self, *, really: bool) -> Iterator[None]:
        """Let the programs stand still, with the database open."""
        for pid in self.pids if really else ():
            os.kill(pid, signal.SIGSTOP)
        yield
        for pid in self.pids if really else ():
            os.kill(pid, signal.SIGCONT)

    def acknowledged(self) -> set[object]:
        return {line for log in self._logs for line in log.read_text().splitlines()}

    def required(self) -> set[object]:
        return self.base | (self.acknowledged() - self.earlier)

    def read(self, id: str) -> set[object]:
        """Return the rows of a checkpoint."""
        place = self._place / id
        place.mkdir(exist_ok=True)
        for name in ("app.db", "app.db-wal", "app.db-journal"):
            with suppress(GitcpError):
                content = self.checkpoints.file(id, name)
                assert isinstance(content, bytes)
                (place / name).write_bytes(content)
        return rows_in(place / "app.db")

    def save(self) -> None:
        required = self.required()
        id = str(self.checkpoints.save(session="alpha", force=True).checkpoint.id)
        self.saved[id] = self.read(id)
        assert required <= self.saved[id]

    def restore(self, id: str) -> None:
        """Restore a checkpoint."""
        self._go(lambda: self.checkpoints.restore(id, conversation=False, whole_tree=True))

    def undo(self) -> None:
        """Undo the last restore, or redo the last undo, where there is one."""
        for step in (self.checkpoints.undo, self.checkpoints.redo):
            with suppress(Refused):
                self._go(partial(step, whole_tree=True))
                return

    def _go(self, back: Callable[[], Report]) -> None:
        """Go back to a state, if the database lets itself be restored."""
        required, before = self.required(), self.acknowledged()
        report = back()
        rows, target = rows_in(self.path), self.saved[str(report.target.id)]
        if report.failed:
            assert required <= rows
        else:
            assert target <= rows
            assert not (before - target) & rows
            self.base, self.earlier = target, self.acknowledged() - rows
        if report.safety is not None:
            self.saved[str(report.safety)] = self.read(str(report.safety))
            assert required <= self.saved[str(report.safety)]


def rows_in(path: Path) -> set[object]:
    with closing(sqlite3.connect(path)) as database:
        assert database.execute("pragma integrity_check").fetchone() == ("ok",)
        return {n for (n,) in database.execute("select n from rows")}


@pytest.mark.parametrize("seed", thorough.cases(map(str, range(500)), 4))
def test_any_history(project: Project, seed: str, tmp_path: Path) -> None:
    """While programs write, states are saved and restored in any order, safety checkpoints too, and
    restores are undone: the database is whole, and has the rows of the target and those
    acknowledged since, no others. If it could not be restored, it lacks none.
    """
    chance = random.Random(seed)
    number = int(seed)
    history = History(project, tmp_path, ("wal", "delete")[number % 2], (1, 4)[number // 2 % 2])
    with history.written():
        history.save()
        for _ in range(5):
            time.sleep(chance.random() / 20)
            if chance.random() < 0.3:
                history.save()
            else:
                with history.stopped(really=chance.random() < 0.7):
                    if chance.random() < 0.3:
                        history.undo()
                    else:
                        history.restore(chance.choice(sorted(history.saved)))
    assert history.required() <= rows_in(history.path)
