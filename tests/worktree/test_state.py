"""The state file grows by what is otherwise, is written anew when that is much, and is trusted only
whole.
"""

from __future__ import annotations

import errno
import fcntl
import itertools
import os
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from capturing import Camera
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gitcp.fastpath import nodes
from gitcp.fastpath.stat_check import Look
from gitcp.git import trees
from gitcp.git.objects import Objects
from gitcp.worktree import state
from gitcp.worktree.snapshot import take

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


def test_a_change_is_appended(camera: Camera) -> None:
    """One changed file adds a part that does not follow the size of the tree; the rest stays as it
    is.
    """
    before = camera.state.read_bytes()
    camera.project.write("dir7/file", "changed\n")

    camera.take()

    assert camera.state.read_bytes().startswith(before)
    assert camera.state.stat().st_size - len(before) < len(before) / 2


def test_what_is_gone_is_gone(camera: Camera) -> None:
    """A removed directory and a new one, appended one after the other, are what the next scan goes
    by.
    """
    camera.project.write("gone/file", "gone\n")
    camera.take()
    camera.project.remove("gone")
    camera.project.remove("dir3")
    camera.take()
    camera.project.write("new/below/file", "new\n")
    camera.take()

    shot = camera.take()

    assert b"dir3/file" not in shot.entries
    assert b"new/below/file" in shot.entries
    assert {b"new", b"new/below"} <= directories(camera)
    assert b"gone" not in directories(camera)


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
    """Of two snapshots made from the same state, the second to be remembered leaves alone what the
    first one wrote.
    """
    repo, project = camera.repo, camera.project
    project.write("dir1/file", "one\n")
    late = take(repo, Objects(repo), camera.limits, camera.live)
    camera.take()
    written = camera.state.read_bytes()

    late.remember()

    assert camera.state.read_bytes() == written


@pytest.mark.parametrize("cut", [1, 5, 40])
def test_a_torn_end(camera: Camera, cut: int) -> None:
    """A part that was not written to its end makes the whole file nothing: everything is looked
    at.
    """
    camera.project.write("dir7/file", "changed\n")
    camera.take()
    camera.state.write_bytes(camera.state.read_bytes()[:-cut])

    with pytest.raises(nodes.Damaged):
        nodes.opened(str(camera.state))
    assert camera.take().blob(b"dir7/file") == b"changed\n"


def test_an_old_node_in_the_place_of_a_new_one(camera: Camera) -> None:
    """A node that is whole but not the one that was written there last, as a power cut may leave
    it, is not believed: what changed is not missed.
    """
    state = nodes.opened(str(camera.state))
    old = state.read(*state.root[:2])
    camera.project.write("dir7/file", "changed\n")
    camera.take()
    ref = nodes.opened(str(camera.state)).root
    data = bytearray(camera.state.read_bytes())
    data[ref[0] : ref[0] + ref[1]] = old[: ref[1]].ljust(ref[1], b"\0")
    camera.state.write_bytes(data)

    assert camera.take().blob(b"dir7/file") == b"changed\n"
    assert b"dir7" in directories(camera)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(number=st.integers(0, 1 << 30), byte=st.integers(1, 255))
def test_any_byte(camera: Camera, number: int, byte: int) -> None:
    """With any byte changed the file says nothing else: reading all of it fails, or gives the
    same.
    """
    whole = camera.state.read_bytes()
    before = list(nodes.opened(str(camera.state)).walk())
    data = bytearray(whole)
    data[number % len(whole)] ^= byte
    camera.state.write_bytes(data)
    try:
        assert list(nodes.opened(str(camera.state)).walk()) == before
    except nodes.Damaged:
        pass
    finally:
        camera.state.write_bytes(whole)


def test_an_append_that_is_seen_half(camera: Camera) -> None:
    """Who comes while another process appends waits for it, and reads what it wrote."""
    whole = camera.state.read_bytes()
    camera.project.write("dir7/file", "changed\n")
    camera.take()
    longer = camera.state.read_bytes()
    with open(camera.state, "r+b") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        file.truncate(len(whole) + 9)
        with ThreadPoolExecutor() as pool:
            waiting = pool.submit(nodes.opened, str(camera.state))
            time.sleep(0.2)
            assert not waiting.done()
            file.seek(0)
            file.write(longer)
            file.flush()
            fcntl.flock(file, fcntl.LOCK_UN)
            assert len(list(waiting.result().walk())) == 41


def test_first_of_many(camera: Camera, monkeypatch: pytest.MonkeyPatch) -> None:
    """What does not fit into memory is held in a temporary file until it is remembered."""
    monkeypatch.setattr(state, "SPILL", 200)
    camera.state.unlink()

    camera.take()
    camera.project.write("dir7/file", "changed\n")
    shot = camera.take()

    assert shot.blob(b"dir7/file") == b"changed\n"
    assert len(directories(camera)) == 41


def test_no_room_for_a_temporary_file(camera: Camera, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where no temporary file can be made, everything stays in memory."""
    monkeypatch.setattr(state, "SPILL", 200)
    camera.state.unlink()

    def fail(**_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(tempfile, "TemporaryFile", fail)

    assert camera.take().blob(b"dir7/file") == b"7\n"
    assert len(directories(camera)) == 41


def test_one_file_changed_reads_few(camera: Camera, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where it is known what may have changed, only that and what is above it is read and
    written.
    """
    camera.project.write("dir7/file", "changed\n")
    before = camera.state.stat().st_size
    read = []
    node = nodes.ScanFile.node

    def counted(state: nodes.ScanFile, ref: Any) -> Any:
        read.append(ref)
        return node(state, ref)

    monkeypatch.setattr(nodes.ScanFile, "node", counted)
    repo = camera.repo
    repo.look = Look(os.fsencode(camera.project.root), str(camera.state))
    repo.look.only = frozenset({b"dir7"})
    objects = Objects(repo)

    taken = take(repo, objects, camera.limits, camera.live, watched=True)
    objects.writer.flush()
    taken.remember()

    assert len(read) < 10
    assert camera.state.stat().st_size - before < before / 2
    entry = dict(trees.walk(objects.reader, taken.snapshot.tree))[b"dir7/file"]
    assert objects.reader.read_blob(entry.oid) == b"changed\n"


def directories(camera: Camera) -> set[bytes]:
    """The directories that the state file has."""
    return {path for path, _ in nodes.opened(str(camera.state)).walk()}
