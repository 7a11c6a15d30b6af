"""Refs in reftable beside what kills processes: git's lock there, and what a kill leaves."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest
from faults import process, tracer
from faults.tracer import Fault
from kinds import has_reftable

from gitcp.git import reftable

from driver import Project

traced = pytest.mark.skipif(bool(tracer.unusable()), reason=tracer.unusable() or "")
KILLS = 12


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


@traced
def test_everything_is_killed(tables: Project) -> None:
    """As by a power cut, at the calls by which git moves the ref: it moved or it did not. A lock
    that stays is the one thing to remove.
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
    sound(tables)
