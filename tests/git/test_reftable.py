"""Refs in reftable beside what kills processes: git's lock there, and what a kill leaves."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import pytest
from faults import process, tracer
from faults.tracer import Fault
from kinds import has_reftable

from gitcp.errors import DiskFull, GitcpError, GitFailed
from gitcp.git import refs, reftable
from gitcp.git.refs import Update
from gitcp.model import Oid

from driver import Project
from samples import open_store

traced = pytest.mark.skipif(bool(tracer.unusable()), reason=tracer.unusable() or "")
KILLS = 12
REF = refs.SESSIONS + "s"


@pytest.fixture
def tables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    """A repository with reftable, a commit and a checkpoint."""
    if not has_reftable():
        pytest.skip("this git has no reftable")
    monkeypatch.setenv("GIT_DEFAULT_REF_FORMAT", "reftable")
    project = Project(tmp_path / "tables", own_store=False)
    project.write("a.txt", "0\n")
    project.commit()
    project.gitcp("save", "first", "--session", "s", check=0)
    return project


def lock(project: Project) -> Path:
    """What git holds while it moves a ref."""
    return project.git_dir / f"{reftable.TABLES}.lock"


def labels(project: Project) -> list[str]:
    """Each checkpoint with its tree, the oldest first."""
    listed = project.json_lines("log", "s")[::-1]
    return [f"{each['label']} {project.git('rev-parse', each['commit'] + ':')}" for each in listed]


def sound(project: Project) -> None:
    """git and gitcp have nothing to say against it."""
    assert project.git("fsck", "--strict", "--no-dangling") == ""
    project.gitcp("check", check=0)


def test_refs_move_together(tables: Project) -> None:
    """All or none: one that is not where it was keeps the others, and nothing is promised then."""
    moved, first = open_store(tables).repo.refs, Oid(tables.git("rev-parse", "HEAD"))
    last = Oid(tables.git("rev-parse", REF))
    promised: list[Oid | None] = []
    both = [Update(REF, first, last), Update(f"{REF}-2", last, None)]

    assert moved.update_all(both, lambda: promised.append(moved.read(REF)))
    assert promised == [last]
    assert moved.list(refs.SESSIONS) == {REF: first, f"{REF}-2": last}
    assert not moved.update_all(both, lambda: pytest.fail("promised"))
    back = [both[0]._replace(new=last, old=first), both[1]]
    assert not moved.update_all(back, lambda: pytest.fail("promised"))
    assert moved.list(refs.SESSIONS) == {REF: first, f"{REF}-2": last}


def test_a_lock_that_a_crash_left(tables: Project) -> None:
    """A command that moves a ref waits for ten seconds, is refused and changes nothing; `check`
    names the lock once it is a minute old; gitcp does not delete it. Without it everything works.
    """
    before = labels(tables)
    lock(tables).touch()

    began = time.monotonic()
    done = tables.gitcp("tag", "v1", check=11)
    assert time.monotonic() - began < 60  # of which a busy machine has some
    assert f"hint: ls {lock(tables)}" in done.err
    tables.gitcp("check", check=0)
    minutes_ago = time.time() - 120
    os.utime(lock(tables), (minutes_ago, minutes_ago))
    assert tables.gitcp("check", check=13).out.count(f"{reftable.TABLES}.lock: ") == 1
    assert labels(tables) == before
    assert lock(tables).exists()

    lock(tables).unlink()
    tables.gitcp("tag", "v1", check=0)
    assert labels(tables) == before
    sound(tables)


def test_gitcp_is_killed(tables: Project) -> None:
    """Killed at any moment, git lives on: no lock stays, the next command works, and every earlier
    checkpoint is there.
    """
    process.load()
    began = time.monotonic()
    assert process.run(process.forked(["save", "--session", "s"]), tables.root).code == 0
    took = time.monotonic() - began
    for number in range(KILLS):
        before = labels(tables)
        tables.write("a.txt", f"{number}\n")
        save = process.forked(["save", "--session", "s"])
        process.run(save, tables.root, kill=took * number / KILLS)
        tables.gitcp("save", "--session", "s", check=0)
        assert labels(tables)[: len(before)] == before
        assert not lock(tables).exists()
    sound(tables)


def test_a_lock_of_a_table_that_a_crash_left(tables: Project) -> None:
    """git cannot join tables then, and its gc fails; gitcp works, and `check` names the lock."""
    (table, *_) = (tables.git_dir / "reftable").glob("*.ref")
    left = table.with_name(f"{table.name}.lock")
    left.touch()
    minutes_ago = time.time() - 120
    os.utime(left, (minutes_ago, minutes_ago))

    tables.gitcp("tag", "v1", check=0)
    done = tables.gitcp("check", check=13)

    assert f"reftable/{left.name}: stops git's gc: delete it" in done.out + done.err
    left.unlink()
    sound(tables)
    tables.git("gc", "--quiet")


@pytest.mark.parametrize("error", [GitFailed, DiskFull])
def test_git_fails_after_the_move(tables: Project, error: type[GitcpError]) -> None:
    """git moves a ref and fails then, as when a disk is full and it joins tables: the ref has
    moved.
    """
    repo = open_store(tables).repo
    first, second = (tables.commit(text) for text in ("first", "second"))

    def failing(*args: str, **options: Any) -> bytes:
        done = repo.git(*args, **options)
        if "update-ref" in args:
            raise error("no space left")
        return done

    own = reftable.TableRefs((tables.git_dir, tables.git_dir), failing, repo.object_format)
    name = "refs/gitcp/tags/v1"
    assert own.update(name, Oid(first), None)
    assert own.update(name, Oid(second), Oid(first))
    assert repo.refs.read(name) == second
    assert own.delete(name, Oid(second))
    assert repo.refs.read(name) is None


@traced
def test_everything_is_killed(tables: Project) -> None:
    """As by a power cut, at the calls by which git moves the ref: it moved or it did not. Locks
    that stay are the one thing to remove.
    """
    process.load()
    save = process.forked(["save", "--session", "s"])
    tables.write("a.txt", "none\n")
    calls = tracer.run(save, tables.root, [tables.root]).calls
    at = [n for n, call in enumerate(calls, 1) if any("/reftable/" in p for p in call.paths)]
    assert at
    left = 0
    for number in at[:: max(1, len(at) // KILLS)]:
        before = labels(tables)
        tables.write("a.txt", f"at {number}\n")
        tracer.run(save, tables.root, [tables.root], Fault(number))
        after = labels(tables)
        assert after[: len(before)] == before
        assert len(after) - len(before) in (0, 1)
        if lock(tables).exists():
            left += 1
            lock(tables).unlink()
        tables.gitcp("save", "--session", "s", check=0)
    assert left
    for path in lock(tables).parent.glob("*.lock"):  # of single tables
        path.unlink()
    sound(tables)
