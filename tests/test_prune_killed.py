"""A prune that dies: at whichever change to the file system, the store is whole, nothing is lost, and it is finished.

The process that prunes is a real one and is killed for good at its n-th change, for every n. With GITCP_FULL=1 the
store has a thousand checkpoints.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Set as AbstractSet
from pathlib import Path

import pytest
from pruned import Refs, holdings, in_trash, own_refs, story

from gitcp.model import CheckpointId, Oid
from gitcp.ops import rewrite
from gitcp.ops.check import check

from driver import SOURCE, Project
from samples import open_store

FULL = bool(os.environ.get("GITCP_FULL"))
COUNT = 900 if FULL else 8
MOST = 10_000 if FULL else 40
"""So many of the places where it could die are tried, evenly spread."""

Trees = dict[CheckpointId, Oid]

DYING = """
import os, shutil, signal, sys
from datetime import UTC, datetime
from pathlib import Path
from gitcp.git.repo import Repository
from gitcp.model import Host
from gitcp.ops import delete, oplog, prune, trash
from gitcp.retention import Policy
from gitcp.store import Store

what, original, copies, most = sys.argv[1], sys.argv[2], Path(sys.argv[3]), int(sys.argv[4])
now = datetime(2026, 11, 2, 9, 0, tzinfo=UTC)
CALLS = "open write fsync fchmod chmod rename replace link unlink rmdir mkdir symlink utime".split()

def run(last):
    count = 0

    def dying(call, name):
        def counted(*args, **named):
            nonlocal count
            count += 1
            if count == last:
                os.kill(os.getpid(), signal.SIGKILL)
            return None if name == "fsync" else call(*args, **named)
        return counted

    host = Host(os.environ, Path(os.environ["HOME"]), lambda: now)
    store = Store(Repository.open(Path.cwd(), host))
    for name in CALLS:
        setattr(os, name, dying(getattr(os, name), name))
    if what == "prune":
        prune.prune(store, prune.Request(Policy(last=1)))
    elif what == "delete":
        delete.delete(store, "beta")
    else:
        trash.bring_back(store, oplog.entries(store.repo)[-1])
    return count

def child(last):
    copy = copies / str(last)
    shutil.copytree(original, copy, symlinks=True)
    reading, writing = os.pipe()
    if not os.fork():
        os.chdir(copy)
        try:
            os.write(writing, b"%d" % run(last))
        finally:
            os._exit(0)
    os.close(writing)
    count = os.read(reading, 20)
    os.close(reading)
    _, status = os.wait()
    assert os.WIFSIGNALED(status) == bool(last) and bool(count) != bool(last), (last, status, count)
    return int(count or 0)

changes = child(0)
for last in range(1, changes + 1, max(1, changes // most)) if most else ():
    child(last)
print(changes)
"""


def die(project: Project, what: str, copies: Path, most: int) -> int:
    """Let processes prune, delete a session or bring back, each in a copy, and each killed at another change.

    In `copies/0` it lives. At most so many, evenly spread. How many changes it makes.
    """
    command = [sys.executable, "-P", "-c", DYING, what, str(project.root), str(copies), str(most)]
    env = {**os.environ, "PYTHONPATH": str(SOURCE)}
    done = subprocess.run(command, cwd=project.root, env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return int(done.stdout)


def finish(project: Project) -> None:
    """What the next command does first."""
    store = open_store(project)
    with store.lock():
        rewrite.finish(store)


def is_whole(project: Project) -> None:
    """Insist on a store in which every checkpoint can be read, and nothing is under way."""
    report = check(open_store(project))
    assert report.ok, report.problems


@pytest.mark.parametrize(("what", "packed"), [("prune", False), ("delete", True), ("back", True)])
def test_killed(project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str, packed: bool) -> None:
    """Killed at each of its changes: sound and complete at once, all or nothing after the next command."""
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)  # no power fails here
    story(project, COUNT)
    first, before = holdings(project), own_refs(project)
    if what == "back":
        die(project, "prune", tmp_path / "pruned", 0)
        project = Project(tmp_path / "pruned/0")
        before = own_refs(project)
    _shrink(project, packed=packed)
    copies = tmp_path / "copies"
    changes = die(project, what, copies, MOST)
    after = own_refs(Project(copies / "0"))
    kept = holdings(Project(copies / "0")).keys() & holdings(project).keys()
    assert changes > 20
    assert before != after
    (copies / "0").rename(tmp_path / "alive")

    done = [_judge(Project(copy), before, after, first, kept) for copy in sorted(copies.iterdir())]

    assert set(done) == {False, True}


def _judge(dying: Project, before: Refs, after: Refs, first: Trees, kept: AbstractSet[CheckpointId]) -> bool:
    """Insist on a store that is sound and has everything; whether the next command found it to be finished."""
    is_whole(dying)
    there = holdings(dying)
    assert all(first[id] == tree for id, tree in there.items()), dying.root
    assert there.keys() >= kept, dying.root
    assert first.items() <= {**in_trash(dying), **there}.items(), dying.root
    finish(dying)
    assert own_refs(dying) in (before, after), dying.root
    assert not rewrite.is_unfinished(open_store(dying))
    is_whole(dying)
    return own_refs(dying) == after


def _shrink(project: Project, *, packed: bool) -> None:
    """Few files, since they are copied often: one pack, and no examples of hooks. Refs stay loose unless `packed`."""
    project.git("repack", "-a", "-d", "--quiet")
    project.git("prune-packed", "--quiet")
    shutil.rmtree(project.path(".git/hooks"), ignore_errors=True)
    if packed:
        project.git("pack-refs", "--all")
