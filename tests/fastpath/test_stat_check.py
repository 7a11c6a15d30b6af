"""A look at the working tree: what it found is good for the state file that it went by, and for one
scan.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import Any

import pytest
from capturing import Camera

from gitcp import fingerprint
from gitcp.fastpath import stat_check
from gitcp.fastpath.stat_check import Look
from gitcp.git import trees
from gitcp.git.objects import Objects
from gitcp.worktree.snapshot import Limits, take

from driver import Project


@pytest.fixture
def camera(project: Project, monkeypatch: pytest.MonkeyPatch) -> Camera:
    """A project of which a scan is remembered, too large for one process, which may fork."""
    monkeypatch.setattr(stat_check, "may_fork", lambda: True)
    monkeypatch.setattr(stat_check, "SMALL", 0)
    for number in range(4):
        project.write(f"d{number}/file", "x")
    project.commit()
    time.sleep(0.02)
    camera = Camera(project)
    camera.take()
    return camera


def look_at(camera: Camera) -> Look:
    return Look(os.fsencode(camera.project.root), str(camera.state))


def seen(camera: Camera) -> fingerprint.Fingerprint:
    return fingerprint.of(os.stat(camera.state))


def test_what_changed(camera: Camera) -> None:
    """The directory, and the name in it."""
    camera.project.write("d2/file", "edited")
    look = look_at(camera)
    look.begin()

    assert look.answer(seen(camera)) == [(b"d2", (True, [b"file"]))]
    assert look.answer(seen(camera)) is not None  # the first stage asked, and a scan asks again


def test_a_small_tree(camera: Camera, monkeypatch: pytest.MonkeyPatch) -> None:
    """A few directories are looked at by this process, also where it may not fork."""
    monkeypatch.setattr(stat_check, "SMALL", 100)
    monkeypatch.setattr(stat_check, "may_fork", lambda: False)
    monkeypatch.setattr(os, "fork", lambda: pytest.fail("a child was started"))
    directory = os.getcwd()
    camera.project.write("d2/file", "edited")
    look = look_at(camera)
    look.begin()
    camera.project.write("d3/file", "edited later")

    assert look.answer(seen(camera)) == [(b"d2", (True, [b"file"]))]
    assert os.getcwd() == directory


def test_another_state_file(camera: Camera) -> None:
    """What was found by one says nothing of what is in another."""
    look = look_at(camera)
    look.begin()
    before = seen(camera)
    camera.state.write_bytes(camera.state.read_bytes())

    assert seen(camera) != before
    assert look.answer(seen(camera)) is None
    assert look.answer(before) == []


def test_half_a_look(camera: Camera, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where only one of two children could be started, nobody looked at the rest."""
    monkeypatch.setattr(stat_check, "LARGE", 0)
    child: Callable[..., tuple[int, int]] = stat_check.child
    started: list[tuple[int, int]] = []

    def once(*args: Any) -> tuple[int, int]:
        if started:
            raise BlockingIOError
        started.append(child(*args))
        return started[0]

    monkeypatch.setattr(stat_check, "child", once)
    look = look_at(camera)
    look.begin()

    assert len(started) == 1
    assert look.answer(seen(camera)) is None


def test_again(camera: Camera, monkeypatch: pytest.MonkeyPatch) -> None:
    """A second look does not take what the first one found, also where it cannot begin."""
    look = look_at(camera)
    look.begin()
    assert look.answer(seen(camera)) == []
    monkeypatch.setattr(stat_check, "may_fork", lambda: False)
    look.begin()

    assert look.answer(seen(camera)) is None


def test_read_once(camera: Camera) -> None:
    """Who scans is given what was read, as long as the file is the same."""
    look = look_at(camera)
    first = look.load()
    assert look.load() is first

    camera.state.write_bytes(camera.state.read_bytes())

    assert look.load() is not first
    assert look.load().head == first.head


def test_one_scan(camera: Camera) -> None:
    """What comes after the scan that it was made for is seen by the next one."""
    repo = camera.repo
    repo.look = look_at(camera)
    repo.look.begin()
    first = take(repo, Objects(repo, dry=True), Limits(), camera.live)
    camera.project.write("d1/file", "edited")
    second = take(repo, Objects(repo, dry=True), Limits(), camera.live)

    assert repo.look is None
    assert first.snapshot.tree != second.snapshot.tree


@pytest.mark.parametrize("begun", [True, False])
@pytest.mark.parametrize(
    ("only", "seen_there"),
    [
        (None, {b"d1/below/file", b"d2/file"}),
        ({b"d2"}, {b"d2/file"}),
        ({b"d1"}, set()),
        ({b"d1/"}, {b"d1/below/file"}),
        ({b"d1/below/no/such"}, {b"d1/below/file"}),
        ({b"/"}, {b"d1/below/file", b"d2/file"}),
        (set(), set()),
    ],
)
def test_only(
    camera: Camera, only: set[bytes] | None, seen_there: set[bytes], *, begun: bool
) -> None:
    """Of directories that cannot have changed nothing is looked at, whether a look began or not."""
    camera.project.write("d1/below/file", "x")
    time.sleep(0.02)
    camera.take()
    edited = {b"d1/below/file", b"d2/file"}
    for path in edited:
        camera.project.write(path.decode(), "edited")
    repo = camera.repo
    repo.look = look_at(camera)
    repo.look.only = only if only is None else frozenset(only)
    if begun:
        repo.look.begin()
    objects = Objects(repo)

    taken = take(repo, objects, Limits(), camera.live, watched=True)

    entries = dict(trees.walk(objects.reader, taken.snapshot.tree))
    blobs = {path: objects.reader.read_blob(entries[path].oid) for path in edited}
    assert {path for path, data in blobs.items() if data == b"edited"} == seen_there
