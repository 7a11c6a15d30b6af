"""The directory in which commands try checkpoints: always the files of one, and only what differs
is written.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest
from back import save
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gitcp.errors import BadValue, StoreDamaged
from gitcp.model import Checkpoint
from gitcp.restoring.scratch_tree import ScratchTree

from driver import Project
from samples import open_store
from samples import save as stored

NAMES = [b"a", b"b", b"a/b", b"a/c/d", b"d/e"]


@pytest.fixture(autouse=True)
def at_once(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """No waiting for the next second."""
    if request.node.name != "test_mtimes":
        monkeypatch.setattr("gitcp.restoring.scratch_tree.time.sleep", lambda _: None)


@pytest.fixture
def steps(project: Project) -> list[Checkpoint]:
    """Three checkpoints: a file changes, a directory becomes a file, a link and an executable."""
    project.write("same", "same\n")
    project.write("dir/one", "1\n")
    project.write("changes", "1\n")
    made = [save(project)]
    project.remove("dir")
    project.write("dir", "a file\n")
    project.write("changes", "2\n")
    made.append(save(project))
    project.remove("dir")
    os.makedirs(project.path("dir/empty"))
    project.symlink("link", "same")
    project.write("run", "#!/bin/sh\n", mode=0o755)
    made.append(save(project))
    return made


def files(root: Path) -> dict[str, str]:
    """Every path below a directory: the content of a file, the target of a link, "/" for a
    directory.
    """
    return {str(path.relative_to(root)): _content(path) for path in root.rglob("*")}


def _content(path: Path) -> str:
    if path.is_symlink():
        return f"-> {os.readlink(path)}"
    return "/" if path.is_dir() else path.read_text()


EXPECTED = [
    {"same": "same\n", "dir": "/", "dir/one": "1\n", "changes": "1\n"},
    {"same": "same\n", "dir": "a file\n", "changes": "2\n"},
    {
        "same": "same\n",
        "dir": "/",
        "dir/empty": "/",
        "changes": "2\n",
        "link": "-> same",
        "run": "#!/bin/sh\n",
    },
]


@pytest.mark.parametrize("order", ["012", "210", "0201", "11"])
def test_files(project: Project, steps: list[Checkpoint], order: str) -> None:
    """In any order, the directory has exactly the files of the checkpoint that was written last."""
    with project.guard(), ScratchTree(open_store(project)) as tree:
        for number in map(int, order):
            tree.write(steps[number])
            assert files(tree.root) == EXPECTED[number]
        root = tree.root
    assert not root.exists()


def test_only_what_differs(project: Project, steps: list[Checkpoint]) -> None:
    """A file that is the same is not written again, unless the command changed it."""
    with ScratchTree(open_store(project)) as tree:
        assert tree.write(steps[0]) == 3
        inode = tree.root.joinpath("same").stat().st_ino
        assert tree.write(steps[1]) == 3  # dir/one is removed, dir and changes are written
        assert tree.root.joinpath("same").stat().st_ino == inode
        assert tree.write(steps[1]) == 0
        tree.root.joinpath("same").write_text("else\n")
        assert tree.write(steps[1]) == 1
        assert files(tree.root) == EXPECTED[1]


def test_what_a_command_left(project: Project, steps: list[Checkpoint]) -> None:
    """Files that the command made stay; where they are in the way of a checkpoint's, its files are
    written to another directory.
    """
    with ScratchTree(open_store(project)) as tree:
        tree.write(steps[0])
        tree.root.joinpath("build").mkdir()
        tree.root.joinpath("build/out").write_text("made\n")
        tree.write(steps[2])
        assert files(tree.root) == {**EXPECTED[2], "build": "/", "build/out": "made\n"}
        tree.root.joinpath("dir/made").write_text("in the way\n")
        shut = tree.root.joinpath("shut")
        shut.mkdir()
        shut.joinpath("file").touch()
        shut.chmod(0o500)
        before = tree.root
        tree.write(steps[1])
        assert files(tree.root) == EXPECTED[1]
        assert not before.exists()


def test_shared(project: Project, steps: list[Checkpoint]) -> None:
    """A shared path is the user's, by a link; closing removes the link alone."""
    project.write(".gitignore", "deps\n")
    project.write("deps/lib", "code\n")
    with project.guard(), ScratchTree(open_store(project), [b"deps"]) as tree:
        for step in steps:
            tree.write(step)
            assert tree.root.joinpath("deps/lib").read_text() == "code\n"
    assert project.read("deps/lib") == b"code\n"


@pytest.mark.parametrize("path", [b"dir", b"dir/one"])
def test_shared_but_saved(project: Project, steps: list[Checkpoint], path: bytes) -> None:
    """What a checkpoint has is not shared: its files would be written over the user's."""
    with (
        project.guard(),
        ScratchTree(open_store(project), [path]) as tree,
        pytest.raises(BadValue, match="only paths that are not saved"),
    ):
        tree.write(steps[0])


def test_modes(project: Project, steps: list[Checkpoint]) -> None:
    """An executable is one."""
    with ScratchTree(open_store(project)) as tree:
        tree.write(steps[2])
        assert stat.S_IMODE(tree.root.joinpath("run").stat().st_mode) & 0o100


def test_missing_blob(project: Project, steps: list[Checkpoint]) -> None:
    """A file that cannot be read is an error, before anything is tried."""
    oid = project.git("rev-parse", f"{steps[1].commit}:changes")
    os.unlink(project.path(project.git_dir / f"objects/{oid[:2]}/{oid[2:]}"))
    with ScratchTree(open_store(project)) as tree:
        tree.write(steps[0])
        with pytest.raises(StoreDamaged, match="changes"):
            tree.write(steps[1])


def test_mtimes(project: Project, steps: list[Checkpoint]) -> None:
    """What is written again has the mtime of another second: a module that Python compiled is
    compiled again.
    """
    seconds = []
    with ScratchTree(open_store(project)) as tree:
        for number in (0, 1):
            tree.write(steps[number])
            seconds.append(int(tree.root.joinpath("changes").stat().st_mtime))
    assert seconds[0] < seconds[1]


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.dictionaries(st.sampled_from(NAMES), st.sampled_from([b"1", b"2"])), max_size=6))
def test_random(project: Project, states: list[dict[bytes, bytes]]) -> None:
    """As a restore to an empty directory writes it, whatever was there before."""
    store = open_store(project)
    with ScratchTree(store) as tree:
        for state in states:
            blocked = {name for name in state for other in state if name.startswith(other + b"/")}
            kept = {name: data for name, data in state.items() if name not in blocked}
            tree.write(stored(store, "random", kept))
            written = {p: c for p, c in files(tree.root).items() if c != "/"}
            assert written == {name.decode(): data.decode() for name, data in kept.items()}
