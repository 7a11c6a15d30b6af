"""Many flushes: a pack each, put together before they become many, and nothing lost of them."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from gitcp.errors import StoreDamaged
from gitcp.git import catfile, repack, stored
from gitcp.git.gathering import MANY, Gathering, GatheringObjects
from gitcp.git.packs import PackIndex, indexes
from gitcp.git.repo import Repository
from gitcp.model import Host, Oid

from driver import Project


def writing(project: Project) -> GatheringObjects:
    """The objects of a project, for who flushes often."""
    host = Host(os.environ, Path(os.environ["HOME"]), lambda: datetime.now().astimezone())
    return GatheringObjects(Repository.open(project.root, host), Gathering())


def flushed(objects: GatheringObjects, count: int) -> list[Oid]:
    """So many flushes of two blobs each."""
    oids = []
    for number in range(count):
        oids += [objects.writer.write_blob(b"%d%d" % (number, each)) for each in range(2)]
        objects.writer.flush()
        objects.writer.release()
        objects.gathering.wait()
    return oids


def packs(project: Project) -> int:
    """How many packs there are, each with its index."""
    names = os.listdir(project.git_dir / "objects/pack")
    names = [name for name in names if not name.endswith(".rev")]  # of git 2.41 on
    assert len(names) == 2 * sum(name.endswith(".pack") for name in names)
    return len(names) // 2


def test_packs_stay_few(project: Project) -> None:
    """However many flushes: few packs, no loose object, and every object is what it was, for git
    too.

    Of those that were joined housekeeping makes one, while who wrote them reads on.
    """
    objects = writing(project)
    oids = flushed(objects, MANY * MANY + 3)
    assert packs(project) == MANY + 3
    repo = objects.repo
    assert repack.is_due(repo)
    assert objects.reader.read_blob(oids[0]) == b"00"

    repack.repack(repo)

    assert packs(project) == 4
    oids += flushed(objects, MANY)
    found = project.git("cat-file", "--batch-check", "--batch-all-objects").splitlines()
    assert {line.split()[0] for line in found} == set(oids)
    assert all(objects.reader.read_blob(oid) for oid in oids)
    assert project.git("fsck", "--strict", "--no-dangling") == ""


def test_git_repacks_meanwhile(project: Project) -> None:
    """Packs that git put together itself are left to it."""
    objects = writing(project)
    project.write("a.txt", "one")
    project.commit()
    oids = flushed(objects, MANY - 1)
    tree = objects.writer.write_tree([])
    assert tree
    project.git("repack", "-a", "-d", "-q", "--keep-unreachable")

    oids += flushed(objects, MANY + 2)
    assert all(objects.reader.read_blob(oid) for oid in oids)
    assert objects.repo.head().commit
    assert project.git("fsck", "--strict", "--no-dangling") == ""


def test_an_index_of_many_packs(project: Project) -> None:
    """Packs that git finds objects of by an index of many stay; those that come later are put
    together.
    """
    objects = writing(project)
    oids = flushed(objects, MANY - 2)
    project.git("multi-pack-index", "write")

    oids += flushed(objects, 2 * MANY)

    project.git("multi-pack-index", "verify")
    assert len(list(project.git_dir.glob("objects/pack/*.pack"))) == MANY + 1
    assert all(objects.reader.read_blob(oid) for oid in oids)
    assert project.git("fsck", "--strict", "--no-dangling") == ""


def test_packs_change_within_one_tick(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    """A pack is read that came within the same tick of the file system's clock in which the packs
    were listed: the time of their directory is the same as before.
    """
    monkeypatch.setattr(stored, "TICK", 3600.0)
    ours, others = writing(project), writing(project)
    flushed(others, 1)
    directory = project.git_dir / "objects/pack"
    listed = directory.stat().st_mtime_ns
    assert not ours.reader.exists(Oid("1" * 40))
    oid = others.writer.write_blob(b"new")
    others.writer.flush()
    os.utime(directory, ns=(listed, listed))

    assert ours.reader.read_blob(oid) == b"new"


def test_packs_are_joined_while_listed(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    """An object is read whose pack was joined between the listing of the directory and the opening
    of the pack's index: the listing has neither the pack nor the joined one.
    """
    objects, others = writing(project), writing(project)
    oids = flushed(others, MANY - 1)

    def interrupted(*args: Any) -> list[PackIndex]:
        monkeypatch.setattr(stored, "indexes", indexes)
        flushed(others, 1)
        return []

    monkeypatch.setattr(stored, "indexes", interrupted)
    assert objects.reader.read_blob(oids[-1]) == b"%d1" % (MANY - 2)


@pytest.mark.parametrize("way", ["read", "stream"])
def test_packs_are_joined_twice_while_git_looks(
    project: Project, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    """An object is read that each git in turn misses: its pack went to another one while git
    listed packs, and again when it looked once more.
    """
    objects, others = writing(project), writing(project)
    (oid, _) = flushed(others, 1)
    directory = project.git_dir / "objects/pack"
    moves = iter(range(3))

    def moved(function: Callable[..., Any]) -> Callable[..., Any]:
        def looking(git: Any, *args: Any) -> Any:
            move = next(moves, None)
            if move is None:
                return function(git, *args)
            away = directory.rename(directory.with_name("away"))
            directory.mkdir()
            try:
                answer = function(git, *args)
                return iter(list(answer)) if isinstance(answer, Iterator) else answer
            finally:
                for path in away.iterdir():
                    path.rename(directory / f"pack-{move}{path.suffix}")
                away.rmdir()

        return looking

    objects.reader.exists(oid)
    objects.repo.cat_file.read(objects.repo.object_format.empty_tree)  # it greets
    name = "read" if way == "read" else "ask"
    monkeypatch.setattr(catfile._Git, name, moved(getattr(catfile._Git, name)))
    if way == "read":
        assert objects.reader.read_blob(oid) == b"00"
    else:
        assert list(objects.reader.stream_blob(oid)) == [b"00"]
    assert next(moves, None) is None


def test_missing_object_is_missing(project: Project) -> None:
    """An object that is in no pack is said to be missing, also right after one was written."""
    objects = writing(project)
    flushed(objects, 1)
    with pytest.raises(StoreDamaged, match="is missing"):
        objects.reader.read(Oid("1" * 40))
