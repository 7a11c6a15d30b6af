"""A checkpoint that was reported survives a power cut: objects are on disk before the ref, the ref
before the word.

Proved from the system calls of the real command, on the strictest disk that there may be
(faults.durable).
"""

from __future__ import annotations

from pathlib import Path

import pytest
from kinds import REFS

from faults import tracer
from faults.durable import Disk, everything
from faults.process import typed
from faults.tracer import Call, Traced

from driver import Project

if tracer.unusable():
    pytest.skip(tracer.unusable(), allow_module_level=True)

MANY = 100
"""More new files than are stored one by one: they go into a pack."""


def traced(project: Project, *args: str) -> tuple[Traced, Disk]:
    """Run gitcp under watch; how it ended, and the disk before it."""
    disk = Disk(everything(project.root))
    done = tracer.run(typed(args), project.root, [project.root])
    assert done.code == 0, done
    return done, disk


def is_move_to(call: Call, directory: Path) -> bool:
    """Whether a file is given a name below a directory by this call."""
    return call.name.startswith("rename") and call.paths[1].startswith(f"{directory}/")


def refs_of(project: Project) -> Path:
    """Where gitcp's refs are."""
    return project.git_dir / ("refs/gitcp" if REFS == "files" else "reftable")


def moves_a_ref(call: Call, project: Project) -> bool:
    """Whether a ref has another value after this call."""
    name = "" if REFS == "files" else "tables.list"
    return is_move_to(call, refs_of(project)) and call.paths[1].endswith(name)


@pytest.mark.parametrize("count", [1, MANY], ids=["loose", "packed"])
@pytest.mark.parametrize("first", [True, False], ids=["first", "later"])
def test_saved(project: Project, count: int, first: bool) -> None:
    """At the moment when the ref moves no object could be lost, and when "saved" is printed neither
    could the ref.
    """
    project.write("a", "one\n")
    project.commit()
    if not first:
        project.gitcp("save", "before", check=0)
    for number in range(count):
        project.write(f"d/{number}", f"new {number}\n")

    done, disk = traced(project, "save", "now")

    moves = words = 0
    for call in done.calls:
        if moves_a_ref(call, project):
            moves += 1
            lost = disk.would_lose(project.git_dir / "objects")
            # for git's eyes, until the ref has moved
            assert all(path.endswith(".keep") for path in lost)
            assert call.paths[0] not in disk.bytes
        if call == Call("write", ("stdout",)):
            words += 1
            assert not disk.would_lose(refs_of(project))
        disk.play(call)
    assert 1 <= moves <= (1 if REFS == "files" else 2)  # git may join tables afterwards
    assert words


def test_restored(project: Project) -> None:
    """No file is replaced before its journal and the safety checkpoint are on disk, and all are
    when it is said.
    """
    for number in range(5):
        project.write(f"d/{number}", "old\n")
    project.gitcp("save", "old", check=0)
    for number in range(5):
        project.write(f"d/{number}", "new, and longer\n")

    done, disk = traced(project, "restore", "1", "--yes")

    own = project.git_dir / "gitcp"
    replaced = 0
    for call in done.calls:
        if is_move_to(call, project.root / "d"):
            replaced += 1
            assert call.paths[0] not in disk.bytes
            assert not disk.would_lose(refs_of(project)) | disk.would_lose(
                project.git_dir / "objects"
            )
            assert not {path for path in disk.would_lose(own) if path.endswith("restore.json")}
        if call == Call("write", ("stdout",)):
            assert not disk.would_lose(project.root / "d")
        disk.play(call)
    assert replaced == 5


def test_the_strict_disk_notices() -> None:
    """A file that is renamed and not fsynced, and a directory that nobody synced, are lost on
    it.
    """
    disk = Disk([])
    for call in (
        Call("mkdir", ("/o/ab",)),
        Call("openat", ("/o/tmp",)),
        Call("write", ("/o/tmp",)),
        Call("rename", ("/o/tmp", "/o/ab/cd")),
    ):
        disk.play(call)
    assert disk.would_lose("/o") == {"/o/ab", "/o/ab/cd"}
    disk.play(Call("fsync", ("/o/ab",)))
    assert (disk.bytes, disk.names) == ({"/o/ab/cd"}, {"/o/ab"})
    disk.play(Call("fsync", ("/o/ab/cd",)))
    disk.play(Call("fsync", ("/o",)))
    assert not disk.would_lose("/o")
