"""The state file grows by what is otherwise, is written anew when that is much, and is trusted only
whole.
"""

from __future__ import annotations

import itertools
import os
from pathlib import Path

import pytest
from capturing import Camera

from gitcp.fastpath import fingerprint, stat_check, trusted_cache
from gitcp.worktree import state
from gitcp.worktree.summary import Totals

from driver import Project


@pytest.fixture
def camera(project: Project) -> Camera:
    """A tree of some directories, captured once."""
    for number in range(40):
        project.write(f"dir{number}/file", f"{number}\n")
    project.commit()
    camera = Camera(project)
    camera.take()
    return camera


def parts(path: Path) -> list[int]:
    """The lengths of the parts of a state file."""
    data, at, found = path.read_bytes(), len(trusted_cache.MAGIC), []
    while at < len(data):
        length = int.from_bytes(data[at : at + 4], "big")
        found.append(length)
        at += trusted_cache.PART + length
    return found


def test_a_change_is_appended(camera: Camera) -> None:
    """One changed file adds a part that does not follow the size of the tree; the rest stays as it
    is.
    """
    before = camera.state.read_bytes()
    camera.project.write("dir7/file", "changed\n")

    camera.take()

    assert camera.state.read_bytes().startswith(before)
    whole, added = parts(camera.state)
    assert added < whole / 5


def test_what_is_gone_is_gone(camera: Camera) -> None:
    """A removed directory and a new one, appended one after the other, are what the next scan goes
    by.
    """
    camera.project.remove("dir3")
    camera.take()
    camera.project.write("new/below/file", "new\n")
    camera.take()

    shot = camera.take()

    assert b"dir3/file" not in shot.entries
    assert b"new/below/file" in shot.entries
    assert len(parts(camera.state)) == 3


@pytest.mark.faults
def test_it_does_not_grow_for_ever(camera: Camera, monkeypatch: pytest.MonkeyPatch) -> None:
    """When what was appended is as large as the rest, the whole is written anew."""
    monkeypatch.setattr(state, "SPARE", 0)
    first = camera.state.stat().st_size
    sizes = []
    for number in range(60):
        camera.project.write(f"dir{number % 40}/file", f"again {number}\n")
        camera.take()
        sizes.append(camera.state.stat().st_size)

    assert max(sizes) < 3 * first
    assert any(later < earlier for earlier, later in itertools.pairwise(sizes))


def test_two_at_once(camera: Camera) -> None:
    """Of two snapshots made from the same state, the second to be remembered does not add to what
    it does not know.
    """
    project = camera.project
    project.write("dir1/file", "one\n")
    earlier = camera.state.read_bytes()
    camera.take()
    later = camera.state.read_bytes()
    camera.state.write_bytes(earlier)  # another process read this
    known = fingerprint.of(os.stat(camera.state))
    camera.state.write_bytes(later)
    repo = camera.repo

    totals, changed = Totals(0, [], []), frozenset([b"dir2"])
    memory = state.Memory(
        b"", None, frozenset(), {}, {}, totals, (), (), state.File(known), changed
    )  # fmt: skip
    basis = type("Basis", (), {"place": (b"", 0, 0)})()
    state.save(repo, basis, memory)

    assert len(parts(camera.state)) == 1, "written whole, not appended"


@pytest.mark.parametrize("cut", [1, 5, 40])
def test_a_torn_end(camera: Camera, cut: int) -> None:
    """A part that was not written to its end makes the whole file nothing: everything is looked
    at.
    """
    camera.project.write("dir7/file", "changed\n")
    camera.take()
    camera.state.write_bytes(camera.state.read_bytes()[:-cut])

    assert stat_check.unpack(camera.state.read_bytes()) is None
    assert camera.take().blob(b"dir7/file") == b"changed\n"
