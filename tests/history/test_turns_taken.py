"""Sessions that take turns in one working tree: each looks at what changed only, trusts no more
than refs hold, and its checkpoints are what git itself would capture.
"""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Container, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import gitcp
from gitcp.git.objects import Objects
from gitcp.git.repo import Repository
from gitcp.lifecycle.check import check
from gitcp.model import Oid
from gitcp.saving.save import Saved
from gitcp.worktree import scan, snapshot
from gitcp.worktree.records import ScannedDirectory
from gitcp.worktree.snapshot import Limits, Taken

from driver import Project
from samples import open_store

MONTH = 30 * 86400


def captured(project: Project) -> set[str]:
    """The files as git itself would add them, each with its mode and blob; on an index of its
    own.
    """
    index = project.root.parent / "an-index"
    env = {**os.environ, "GIT_INDEX_FILE": str(index)}
    subprocess.run(["git", "add", "-A"], cwd=project.root, env=env, check=True)
    listed = subprocess.run(
        ["git", "ls-files", "-s"], cwd=project.root, env=env, check=True, capture_output=True
    )
    index.unlink()
    return {line.replace(" 0\t", "\t") for line in listed.stdout.decode().splitlines()}


def held(project: Project, session: str) -> set[str]:
    """The files in the last checkpoint of a session."""
    listed = project.git("ls-tree", "-r", f"refs/gitcp/sessions/{session}").splitlines()
    return {line.replace(" blob ", " ") for line in listed if "\t.gitcp/" not in line}


def saved(root: Path, session: str) -> Saved:
    return gitcp.open(root).save(session=session)


@pytest.fixture
def shared(project: Project) -> Project:
    """A project of forty files that both sessions have saved."""
    for number in range(40):
        project.write(f"dir{number % 4}/file{number}", f"{number}\n")
    project.commit()
    time.sleep(0.05)
    for session in ("one", "two", "one", "two"):
        project.write("last", f"{session} {time.time()}\n")
        time.sleep(0.05)  # what is saved in the tick in which it changed is looked at again
        saved(project.root, session)
    return project


@contextmanager
def looking(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[bytes]]:
    """The files that are looked at meanwhile, besides the one lstat of each."""
    looked_at: list[bytes] = []
    file_of = scan.Scan._file

    def look(
        self: scan.Scan,
        record: ScannedDirectory,
        name: bytes,
        full: bytes,
        old: ScannedDirectory | None,
    ) -> None:
        looked_at.append(record.below(name))
        file_of(self, record, name, full, old)

    with monkeypatch.context() as patched:
        patched.setattr(scan.Scan, "_file", look)
        yield looked_at


@pytest.mark.parametrize("sessions", [2, 5])
def test_only_changed_files_are_looked_at(
    shared: Project, monkeypatch: pytest.MonkeyPatch, sessions: int
) -> None:
    """Whoever saved last; and each checkpoint is what git would capture."""
    for number in range(3 * sessions):
        name = f"session{number % sessions}"
        path = f"dir{number % 4}/file{number}"
        shared.write(path, f"changed {number}\n")
        time.sleep(0.05)
        with looking(monkeypatch) as looked_at, shared.guard():
            saved(shared.root, name)
        assert looked_at == [path.encode()]
        assert held(shared, name) == captured(shared)
    assert check(open_store(shared)).ok


def test_a_session_in_two_working_trees(
    shared: Project, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """What the other one added since does not matter."""
    shared.git("worktree", "add", "--quiet", str(tmp_path / "other"))
    beside = Project(tmp_path / "other")
    for round in range(3):
        for place in (shared, beside):
            place.write("dir1/file1", f"{round} {place.root}\n")
            time.sleep(0.05)
            with looking(monkeypatch) as looked_at:
                saved(place.root, "one")
            assert looked_at == [b"dir1/file1"] or not round
            assert held(shared, "one") == captured(place)


def gone(project: Project, session: str) -> None:
    """Nothing names this session any more, and git has removed what nothing names."""
    project.gitcp("delete", session, "--yes", check=0)
    for ref in project.git("for-each-ref", "--format=%(refname)", "refs/gitcp/trash").splitlines():
        project.git("update-ref", "-d", ref)
    then = time.time() - MONTH
    for directory, _, files in os.walk(project.git_dir / "objects"):
        for name in files:
            os.utime(os.path.join(directory, name), (then, then))
    project.git("-c", "gc.cruftPacks=false", "gc", "--quiet", "--prune=now")


def test_the_other_session_is_deleted(shared: Project) -> None:
    """What it alone held is stored again by the next save; what was saved on top of it was whole
    all the time.
    """
    shared.write("dir1/mine", "seen by the first alone\n")
    saved(shared.root, "one")
    shared.write("dir2/both", "on top of it\n")
    saved(shared.root, "two")
    shared.write("dir3/last", "again by the first alone\n")
    saved(shared.root, "one")

    gone(shared, "one")
    assert check(open_store(shared)).ok
    assert {line.rpartition("\t")[2] for line in held(shared, "two")} >= {"dir1/mine", "dir2/both"}

    saved(shared.root, "two")
    assert held(shared, "two") == captured(shared)
    assert check(open_store(shared)).ok
    assert shared.git("fsck", "--strict", "--no-dangling", "--no-progress") == ""


def test_it_is_deleted_while_the_tree_is_scanned(
    shared: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was trusted is not trusted any more once the lock is held: everything is read and stored
    again.
    """
    shared.write("dir1/mine", "in the other session alone\n")
    saved(shared.root, "one")
    real, takes = snapshot.take, [0]

    def interrupted(
        repo: Repository,
        objects: Objects,
        limits: Limits,
        live: Container[Oid],
        since: Any,
        *,
        watched: bool,
    ) -> Taken:
        takes[0] += 1
        taken = real(repo, objects, limits, live, since, watched=watched)
        if takes[0] == 1:
            gone(shared, "one")
        return taken

    monkeypatch.setattr("gitcp.saving.save.take", interrupted)
    saved(shared.root, "two")

    assert takes == [2]
    assert held(shared, "two") == captured(shared)
    assert check(open_store(shared)).ok


@pytest.mark.parametrize("what", ["", "^{tree}"], ids=["commit", "tree"])
def test_a_damaged_checkpoint_vouches_for_nothing(
    shared: Project, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    """Where the other session's last checkpoint cannot be read, all files are looked at."""
    shared.write("dir1/mine", "in the damaged one\n")
    saved(shared.root, "one")
    oid = shared.git("rev-parse", f"refs/gitcp/sessions/one{what}")
    shared.loosen()
    (shared.git_dir / "objects" / oid[:2] / oid[2:]).unlink()

    with looking(monkeypatch) as looked_at:
        saved(shared.root, "two")

    assert len(looked_at) > 40
    assert held(shared, "two") == captured(shared)
