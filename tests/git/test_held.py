"""A repository that borrows objects from another one holds what its checkpoints need: whatever is
deleted there, and whatever git's `gc` does here.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

import gitcp
from gitcp.git import held
from gitcp.git.gathering import Gathering
from gitcp.integrations.fast_store import FastStore
from gitcp.lifecycle import purge
from gitcp.lifecycle.purge import PurgeRequest

from driver import Project
from samples import open_store, save

pytestmark = pytest.mark.skipif(
    "own" in os.environ.get("GITCP_TEST_KIND", ""), reason="it is a clone"
)


@pytest.fixture
def other(project: Project) -> Project:
    """The other repository, with two committed files."""
    project.write("a.txt", "committed\n")
    project.write("below/b.txt", "committed, too\n")
    project.commit()
    return project


def clone(other: Project, path: Path, *options: str) -> Project:
    """A clone that borrows."""
    other.git("clone", "--quiet", *(options or ("--shared",)), str(other.root), str(path))
    return Project(path)


@pytest.fixture
def here(other: Project, tmp_path: Path) -> Project:
    """A clone with `git clone -s`."""
    return clone(other, tmp_path / "here")


def abandon(other: Project) -> None:
    """The other repository loses everything but its branch."""
    for ref in other.git("for-each-ref", "--format=%(refname)", "refs/gitcp").split():
        other.git("update-ref", "-d", ref)
    other.git("reflog", "expire", "--expire=now", "--all")
    other.git("gc", "--quiet", "--prune=now")


def require_whole(here: Project, other: Project) -> None:
    """Everything is there after both repositories did their housekeeping."""
    here.git("gc", "--quiet", "--prune=now")
    abandon(other)
    here.git("gc", "--quiet", "--prune=now")
    assert here.git("rev-list", "--objects", "--all", "--quiet") == ""
    assert gitcp.open(here.root).check().ok
    assert here.git("fsck", "--no-dangling", "--connectivity-only") == ""


def unreachable(other: Project, here: Project, data: str) -> None:
    """The bytes of a file here are in the other repository, where nothing names them."""
    other.git("hash-object", "-w", "--stdin", input=data.encode())


def saved(other: Project, here: Project, data: str) -> None:
    """They are in a checkpoint there."""
    other.write("f.txt", data)
    gitcp.open(other.root).save()
    os.unlink(other.root / "f.txt")


def saved_and_packed(other: Project, here: Project, data: str) -> None:
    """The same, in a pack: `gc` here then drops its own copy."""
    saved(other, here, data)
    other.git("gc", "--quiet")


def staged(other: Project, here: Project, data: str) -> None:
    """git's index here names them, and git wrote nothing for that."""
    saved_and_packed(other, here, data)
    here.git("add", "f.txt")


def staged_alone(other: Project, here: Project, data: str) -> None:
    """Only git's index here names them: the file is another one."""
    staged(other, here, data)
    here.write("f.txt", "another\n")


WAYS = (unreachable, saved, saved_and_packed, staged, staged_alone)


@pytest.mark.parametrize("put", WAYS, ids=lambda put: put.__name__)
def test_bytes_that_the_other_one_has(
    put: Callable[[Project, Project, str], None], other: Project, here: Project
) -> None:
    """A file whose bytes are in the other repository, however they came there, is in the checkpoint
    for good.
    """
    data = "these bytes\n" * 100
    here.write("f.txt", data)
    put(other, here, data)
    kept = here.read("f.txt")
    first = gitcp.open(here.root).save().checkpoint
    require_whole(here, other)
    os.unlink(here.root / "f.txt")
    gitcp.open(here.root).restore(str(first.id))
    assert here.read("f.txt") == kept
    require_whole(here, other)


@pytest.mark.parametrize("how", ["reference", "chain", "later"])
def test_ways_to_borrow(how: str, other: Project, tmp_path: Path) -> None:
    """By `--reference`, through a third repository, and where it began to borrow after it saved."""
    data = "these bytes\n" * 100
    options = ("--reference", str(other.root)) if how == "reference" else ()
    here = Project(tmp_path / "here") if how == "later" else clone(other, tmp_path / "a", *options)
    if how == "chain":
        here = clone(here, tmp_path / "b")
    here.write("f.txt", data)
    if how == "later":
        gitcp.open(here.root).save()
        info = here.git_dir / "objects/info"
        info.mkdir(exist_ok=True)
        info.joinpath("alternates").write_text(f"{other.git_dir}/objects\n")
        here.write("g.txt", "more\n")
    saved_and_packed(other, here, data)
    gitcp.open(here.root).save()
    require_whole(here, other)


def test_what_is_committed_is_not_copied(other: Project, here: Project) -> None:
    """What HEAD has stays where git has it. Nothing is written for an unchanged save."""
    opened = gitcp.open(here.root)
    opened.save(session="s")
    here.write("a.txt", "edited\n")
    opened.save(session="s")
    repo = open_store(here).repo
    packs = sorted(here.git_dir.glob("objects/pack/*.keep"))
    names = here.git("show-index", input=packs[0].with_suffix(".idx").read_bytes())
    assert here.git("rev-parse", "HEAD:below/b.txt") not in names
    assert here.git("rev-parse", "HEAD:below") not in names
    assert len(packs) == 2
    assert not opened.save(session="s").saved
    assert sorted(here.git_dir.glob("objects/pack/*.keep")) == packs
    # another commit is checked out: what only the old one had is held then
    other.write("a.txt", "newer\n")
    other.write("below/b.txt", "newer\n")
    other.git("commit", "--quiet", "--all", "--amend", "--message", "other")
    here.git("fetch", "--quiet")
    here.git("reset", "--quiet", "origin/main")
    here.git("reflog", "expire", "--expire=now", "--all")
    opened.save(session="s", force=True)
    held.join(repo)
    require_whole(here, other)


def test_whoever_moves_a_ref(other: Project, here: Project, tmp_path: Path) -> None:
    """A fork, an undo, a tag, an undone delete, an import and a fetched session are held, too."""
    data = "these bytes\n" * 100
    other.write("f.txt", data)
    gitcp.open(other.root).save(session="there")
    other.gitcp("export", "there", "-o", str(tmp_path / "there.bundle"), check=0)
    other.git("gc", "--quiet")
    here.gitcp("import", str(tmp_path / "there.bundle"), check=0)
    here.gitcp("remote", "origin", check=0)
    here.git("fetch", "--quiet", "origin", "refs/gitcp/sessions/there")
    here.gitcp("restore", "imported/there@1", "--yes", "--trust", check=0)
    opened = gitcp.open(here.root)
    opened.undo()
    opened.redo()
    here.gitcp("tag", "good", "imported/there@1", check=0)
    here.write("f.txt", "other\n")
    opened.save(session="mine")
    here.gitcp("fork", "mine", "--name", "forked", check=0)
    here.gitcp("delete", "mine", "--yes", check=0)
    here.gitcp("undo", "--yes")
    require_whole(here, other)


def test_purged(other: Project, here: Project) -> None:
    """What is purged is held no more."""
    secret = "correct horse battery staple"
    here.write("f.txt", f"{secret}\n")
    gitcp.open(here.root).save(session="s")
    oid = here.git("rev-parse", "refs/gitcp/sessions/s:f.txt")
    purge.purge(open_store(here), PurgeRequest("a text", texts=(secret.encode(),)))
    os.unlink(here.root / "f.txt")
    here.git("gc", "--quiet", "--prune=now")
    assert here.git("cat-file", "-t", oid, check=False) == ""
    require_whole(here, other)


def test_joined(other: Project, here: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    """Many packs become one that is held; what was dropped is left to git."""
    opened = gitcp.open(here.root)
    for number in range(held.MANY):
        here.write("f.txt", f"{number}\n")
        opened.save(session=f"s{number % 2}")
    repo = open_store(here).repo
    assert not held.are_many(repo)
    monkeypatch.setattr(held, "SETTLED", -1.0)
    assert held.are_many(repo)
    dropped = here.git("rev-parse", "refs/gitcp/sessions/s1:f.txt")
    here.gitcp("delete", "s1", "--yes", "--forget")
    here.git("update-ref", "-d", "refs/gitcp/sessions/s1")
    held.join(repo)
    assert len(list(here.git_dir.glob("objects/pack/*.keep"))) == 1
    here.git("gc", "--quiet", "--prune=now")
    trash = here.git("for-each-ref", "refs/gitcp/trash")
    assert trash or here.git("cat-file", "-t", dropped, check=False) == ""
    require_whole(here, other)


def test_of_the_environment(
    other: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a variable lets git borrow for one command does not count as stored."""
    data = "these bytes\n" * 100
    here = Project(tmp_path / "here")
    here.write("f.txt", data)
    saved_and_packed(other, here, data)
    for name in ("GIT_ALTERNATE_OBJECT_DIRECTORIES", "GIT_OBJECT_DIRECTORY"):
        monkeypatch.setenv(name, str(other.git_dir / "objects"))
    monkeypatch.setenv("GIT_QUARANTINE_PATH", str(other.git_dir / "objects"))
    here.gitcp("save", "--session", "s", check=0)
    for name in ("GIT_ALTERNATE_OBJECT_DIRECTORIES", "GIT_OBJECT_DIRECTORY", "GIT_QUARANTINE_PATH"):
        monkeypatch.delenv(name)
    require_whole(here, other)


def test_saves_of_a_framework(other: Project, here: Project) -> None:
    """Saves that are recorded in the write-ahead log are held, too."""
    data = b"these bytes\n" * 100
    saved_and_packed(other, here, data.decode())
    store = FastStore(open_store(here).repo, Gathering())
    for number in range(3):
        save(store, "s", {b"f.txt": data, b"n": b"%d\n" % number})
    with store.lock():
        pass  # which settles the log
    require_whole(here, other)
