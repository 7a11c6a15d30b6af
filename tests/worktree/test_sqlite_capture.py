"""SQLite databases are captured as they are at one moment, with writers at work, and a save changes
nothing about them.
"""

from __future__ import annotations

import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path

import pytest
import thorough

import gitcp
from gitcp.model import Checkpoint
from gitcp.worktree import sqlite_files

from driver import Project

WRITER = """
import os, sqlite3, sys
app = sqlite3.connect(sys.argv[1], timeout=30, isolation_level=None)
acknowledged = os.open(sys.argv[3], os.O_CREAT | os.O_WRONLY | os.O_APPEND)
for number in range(10**9):
    app.execute("begin immediate")
    for half in (1, 2):
        app.execute("insert into rows values (?, ?, ?, zeroblob(700))", (sys.argv[2], number, half))
    app.execute("commit")
    os.write(acknowledged, b".")
    if not number:
        print("writing", flush=True)
"""
HOLDER = """
import sqlite3, sys
app = sqlite3.connect(sys.argv[1], isolation_level=None)
app.execute("begin exclusive")
app.execute("insert into rows values ('holder', 0, 1, '')")
print("held", flush=True)
sys.stdin.readline()
app.execute("rollback")
"""


def create(path: Path, mode: str) -> None:
    with closing(sqlite3.connect(path)) as app:
        app.execute(f"pragma journal_mode={mode}")
        app.execute("create table rows(writer, number, half, filler)")
        app.commit()


@contextmanager
def running(program: str, *args: str) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        [sys.executable, "-c", program, *args],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with process:
        assert process.stdout is not None
        process.stdout.readline()
        yield process
        process.kill()


def rows_in(directory: Path) -> dict[str, int]:
    """Return how many transactions of each writer a database has; each is there as a whole."""
    with closing(sqlite3.connect(directory / "app.db")) as app:
        assert app.execute("pragma integrity_check").fetchone() == ("ok",)
        rows = app.execute("select writer, number, count(*) from rows group by 1, 2 order by 1, 2")
        counts: dict[str, int] = {}
        for writer, number, halves in rows:
            assert halves == 2
            assert number == counts.get(writer, 0)
            counts[writer] = number + 1
    return counts


def materialised(project: Project, checkpoint: Checkpoint, place: Path) -> Path:
    """Write the files of a checkpoint's database to a new directory."""
    place.mkdir()
    for name in project.git("ls-tree", "--name-only", checkpoint.commit).split():
        if name.startswith("app.db"):
            content = gitcp.open(project.root).file(str(checkpoint.id), name)
            assert isinstance(content, bytes)
            (place / name).write_bytes(content)
    return place


@pytest.mark.parametrize("mode", ["wal", "delete", "truncate"])
@pytest.mark.parametrize("writers", [1, 4])
def test_writers_at_work(
    project: Project, mode: str, writers: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each checkpoint has whole transactions only, and all that were acknowledged before it."""
    # On a busy machine, four writers without a pause leave nobody a lock within a second.
    monkeypatch.setattr(sqlite_files, "SECONDS", 60.0)
    path = project.root / "app.db"
    create(path, mode)
    project.git("config", "gitcp.maxFileSize", "1g")
    checkpoints = gitcp.open(project.root)
    logs = {str(number): tmp_path / f"log-{number}" for number in range(writers)}
    made = []
    with ExitStack() as stack:
        for name, log in logs.items():
            stack.enter_context(running(WRITER, str(path), name, str(log)))
        for _ in range(len(thorough.sample(range(80), 4))):
            acknowledged = {name: log.stat().st_size for name, log in logs.items()}
            made.append((checkpoints.save(session="alpha", force=True).checkpoint, acknowledged))
    for checkpoint, acknowledged in made:
        assert not checkpoint.snapshot.unlocked
        counts = rows_in(materialised(project, checkpoint, tmp_path / str(checkpoint.id)))
        assert all(counts[name] >= least for name, least in acknowledged.items())


@pytest.mark.parametrize("mode", ["wal", "delete"])
def test_a_save_changes_nothing(project: Project, mode: str) -> None:
    """Neither with the database open elsewhere, nor with a log and nobody, as after a crash."""
    path = project.root / "app.db"
    create(path, mode)

    def state() -> dict[str, tuple[bytes, int]]:
        files = sorted(project.root.glob("app.db*"))
        return {each.name: (each.read_bytes(), each.stat().st_mtime_ns) for each in files}

    with running(HOLDER.replace("exclusive", "deferred"), str(path)) as holder:
        before = state()
        assert len(before) > 1
        gitcp.open(project.root).save(session="alpha")
        assert state() == before
        holder.kill()
        holder.wait()
    before = state()
    assert len(before) > 1
    gitcp.open(project.root).save(session="alpha", force=True)
    assert state() == before


def test_held_lock(project: Project) -> None:
    """A database whose lock is not to be had is captured all the same, which is said, with who has
    it. The next save with the lock says it no more.
    """
    path = project.root / "app.db"
    create(path, "delete")
    with running(HOLDER, str(path)) as holder:
        said = project.gitcp("save").out
        assert "saved without a lock: app.db  (python" in said
        assert f"(pid {holder.pid}) held its locks" in said
        files = project.json("show")["files"]
        assert [each["path"] for each in files["unlocked"]] == ["app.db"]
        assert "Saved without a lock (1)" in project.gitcp("show").out
        assert holder.stdin is not None
        holder.stdin.write("\n")
        holder.stdin.close()
        holder.wait()
    assert "saved without a lock" not in project.gitcp("save").out
    assert project.json("show")["files"]["unlocked"] == []


def test_own_connection(project: Project) -> None:
    """A program that saves in the middle of its own transaction keeps its locks: closing any
    descriptor of the file would drop them.
    """
    path = project.root / "app.db"
    create(path, "delete")
    other = (
        "import sqlite3, sys; sqlite3.connect(sys.argv[1], timeout=0).execute('begin immediate')"
    )
    with closing(sqlite3.connect(path, isolation_level=None)) as app:
        app.execute("begin immediate")
        app.execute("insert into rows values ('own', 0, 1, '')")
        saved = gitcp.open(project.root).save(session="alpha")
        assert not saved.checkpoint.snapshot.unlocked
        tried = subprocess.run([sys.executable, "-c", other, path], capture_output=True)
        assert b"database is locked" in tried.stderr
        app.execute("commit")
    assert not sqlite_files.is_ours(bytes(path))


def test_unchanged_database_is_not_opened(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The stat cache answers for it, while other files are saved."""
    path = project.root / "app.db"
    create(path, "wal")
    checkpoints = gitcp.open(project.root)
    checkpoints.save(session="alpha")

    time.sleep(0.02)  # in another tick of the clock than the file
    path.with_name("other").write_text("x")
    checkpoints.save(session="alpha")
    path.with_name("other").write_text("y")
    opened = sqlite_files.size_of_database

    def unexpected(path: bytes) -> int | None:
        raise AssertionError(path)

    monkeypatch.setattr(sqlite_files, "size_of_database", unexpected)
    assert checkpoints.save(session="alpha").saved
    monkeypatch.setattr(sqlite_files, "size_of_database", opened)
