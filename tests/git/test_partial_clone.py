"""Partial clones whose remote cannot be reached: what git never fetched is no damage, and nobody
asks for it.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import NoReturn

import pytest
from capturing import Camera

from gitcp.git import repack
from gitcp.lifecycle.check import check
from gitcp.lifecycle.stats import usage
from gitcp.value import replace
from gitcp.worktree import blobs
from gitcp.worktree.blobs import SEED_FROM

from driver import Project
from samples import open_store


@pytest.fixture
def hub(project: Project) -> Path:
    """A repository to clone, with two directories."""
    for place in ("here", "there"):
        for number in range(SEED_FROM + 1):
            project.write(f"{place}/{number}", f"{number} is {place}\n")
    project.commit()
    project.git("config", "uploadpack.allowFilter", "true")
    return project.root


def cloned(hub: Path, left_out: str = "blob:none") -> Project:
    """One of them in a clone without blobs, or without trees."""
    found = Project(hub.parent / "clone")
    found.git("remote", "add", "origin", hub.as_uri())
    found.git("fetch", "--quiet", f"--filter={left_out}", "origin", "main")
    found.git("sparse-checkout", "set", "--cone", "here")
    found.git("checkout", "--quiet", "-b", "main", "FETCH_HEAD")
    return found


@pytest.fixture
def clone(hub: Path) -> Project:
    """The same, and the blobs are not to be had any more."""
    found = cloned(hub)
    hub.rename(hub.with_name("gone"))
    return found


def test_what_is_promised_is_no_damage(clone: Project) -> None:
    """It is counted; housekeeping, sizes and searches pass over it."""
    with clone.guard():
        clone.gitcp("save", "one", check=0)
        clone.write("here/new", "something new\n")
        clone.gitcp("save", "two", check=0)
    store = open_store(clone)

    report = check(store)
    assert report.ok
    assert report.promised == SEED_FROM + 1
    assert "OK: " in clone.gitcp("check", check=0).out
    assert usage(store, [store.summary(tip).root for tip in store.sessions().values()])
    assert "here/new" in clone.gitcp("find", "something new", check=0).out
    repack.repack(store.repo)
    assert not list(clone.git_dir.glob("objects/??/*"))
    assert check(open_store(clone)).ok


@pytest.mark.parametrize("left_out", ["blob:none", "tree:0"])
def test_what_leaves_is_whole(hub: Path, tmp_path: Path, left_out: str) -> None:
    """It is fetched first, in one go, to be looked through for secrets; so it can go to another
    remote too.
    """
    clone = cloned(hub, left_out)
    clone.gitcp("save", "one", check=0)
    other = Project(tmp_path / "other")
    clone.gitcp("remote", "other", str(other.git_dir), check=0)

    clone.gitcp("push", check=0)

    left, arrived = check(open_store(clone)), check(open_store(other))
    assert arrived.objects == left.objects + 3  # the catalogue's commit, tree and blob
    assert replace(arrived, objects=left.objects) == left
    assert arrived.ok


def test_what_cannot_be_fetched_does_not_leave(clone: Project, tmp_path: Path) -> None:
    """git says why."""
    clone.gitcp("save", "one", check=0)
    other = Project(tmp_path / "other")
    clone.gitcp("remote", "other", str(other.git_dir), check=0)

    assert "fetch" in clone.gitcp("push", check=1).err

    assert not open_store(other).sessions()
    assert check(open_store(clone)).promised


def test_what_nobody_promised_is_damage(clone: Project) -> None:
    """A blob that was made here is on no remote."""
    clone.write("here/new", "something new\n")
    clone.gitcp("save", "one", check=0)
    blob = clone.git("hash-object", "here/new")
    (clone.git_dir / "objects" / blob[:2] / blob[2:]).unlink()

    report = check(open_store(clone))

    assert blob in {problem.object for problem in report.problems}
    assert not report.promised


def test_the_index_is_believed(clone: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    """What git checked out is stored without reading it, as in any other clone."""

    def read(path: bytes, _: os.stat_result) -> NoReturn:
        pytest.fail(f"{path!r} was read")

    monkeypatch.setattr(blobs, "read", read)
    index = clone.git_dir / "index"
    later = index.stat().st_mtime_ns + 10**9  # no file is of the same tick
    os.utime(index, ns=(later, later))

    shot = Camera(clone).take()

    assert shot.snapshot.tree == clone.git("write-tree")


def test_files_that_git_never_fetched(hub: Path) -> None:
    """They were put there otherwise, and git's index says what they are: they are stored, and
    nobody is asked.
    """
    found = Project(hub.parent / "clone")
    found.git("remote", "add", "origin", hub.as_uri())
    found.git("fetch", "--quiet", "--filter=blob:none", "origin", "main")
    for place in ("here", "there"):
        for number in range(SEED_FROM + 1):
            found.write(f"{place}/{number}", f"{number} is {place}\n")
    found.git("reset", "--quiet", "FETCH_HEAD")
    found.git("update-index", "-q", "--refresh")
    hub.rename(hub.with_name("gone"))

    found.gitcp("save", "one", check=0)

    report = check(open_store(found))
    assert report.ok
    assert not report.promised
