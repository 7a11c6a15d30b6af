"""Random operations, judged by a witness that knows nothing of gitcp: a sample, and whether the
witness sees.

The large one is `python tests/faults/run.py differential --operations 10000`; docs/reliability.md
says what is judged.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from faults import differential, process
from faults.differential import Life

RUN = Path(differential.__file__).with_name("run.py")


def test_sample() -> None:
    """Four lives of fifty operations each, always the same ones."""
    args = ("differential", "--operations", "200", "--seed", "1")
    done = subprocess.run([sys.executable, RUN, *args], capture_output=True, text=True)

    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.endswith("200 operations of gitcp\n0 broken\n")


def _touch(life: Life) -> None:
    life.trees[0].root.joinpath("sub/main.py").write_text("something else")


def _take_what_is_ignored(life: Life) -> None:
    life.trees[0].root.joinpath("kept.ign").unlink()


def _change_permissions(life: Life) -> None:
    life.trees[0].root.joinpath("sub/main.py").chmod(0o600)


def _leave_a_file(life: Life) -> None:
    life.trees[0].root.joinpath("left over").touch()


def _leave_a_directory(life: Life) -> None:
    life.trees[0].root.joinpath("left over").mkdir()


def _drop_a_checkpoint(life: Life) -> None:
    life.trees[0].git.run("update-ref", "-d", "refs/gitcp/sessions/one")


def _move_head(life: Life) -> None:
    life.trees[0].git.run("checkout", "--quiet", "--detach")


def _stage(life: Life) -> None:
    life.trees[0].git.run("add", "--intent-to-add", "kept.txt")


def _cut_a_transcript(life: Life) -> None:
    path = life.agents[0].path
    path.write_bytes(path.read_bytes()[:-20])


WRONG = (
    *(_touch, _take_what_is_ignored, _change_permissions, _leave_a_file, _leave_a_directory),
    *(_drop_a_checkpoint, _move_head, _stage, _cut_a_transcript),
)
STEPS = {
    "save": ("save", "--json", "--session", "one"),
    "restore": ("restore", "one@1", "--yes", "--json"),
    "undo": ("undo", "--yes", "--json"),
}


@pytest.fixture
def life(tmp_path: Path, sealed: Path) -> Life:
    """Two checkpoints, a restore of the first one, an agent, a file that is ignored and one that is
    not staged.
    """
    life = Life(tmp_path, 1)
    life.become = process.typed
    tree = life.trees[0]
    life.write(tree, b".gitignore", b"*.ign\n")
    for number in (1, 2):
        life.write(tree, b"a", b"%d" % number)
        life.gitcp(tree, *STEPS["save"], codes={0})
    life.write(tree, b"kept.ign", b"ignored")
    life.write(tree, b"kept.txt", b"not staged")
    life.agent(tree).say(torn=False)
    life.write(tree, b"a", b"3")
    return life


@pytest.mark.parametrize("wrong", WRONG, ids=lambda wrong: wrong.__name__.strip("_"))
def test_the_witness_sees(
    life: Life, wrong: Callable[[Life], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever else a restore or its undo did does not pass."""
    tree, real = life.trees[0], process.run
    held = life.held["one@1"]

    def restored() -> None:
        outcome = life.gitcp(tree, *STEPS["restore"])
        move = life.restored(tree, outcome, held)
        life.done(tree, differential.RESTORE, move)

    restored()
    life.undo(tree)

    def run(*args: Any, **others: Any) -> Any:
        done = real(*args, **others)
        wrong(life)
        return done

    monkeypatch.setattr(process, "run", run)
    with pytest.raises(AssertionError):
        restored()
    monkeypatch.setattr(process, "run", real)
    assert os.path.exists(tree.root)


@pytest.mark.parametrize("wrong", WRONG[:5], ids=lambda wrong: wrong.__name__.strip("_"))
def test_the_witness_sees_an_undo(
    life: Life, wrong: Callable[[Life], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """An undo that is not exact does not pass."""
    tree, real = life.trees[0], process.run
    outcome = life.gitcp(tree, *STEPS["restore"])
    life.done(tree, differential.RESTORE, life.restored(tree, outcome, life.held["one@1"]))

    def run(*args: Any, **others: Any) -> Any:
        done = real(*args, **others)
        wrong(life)
        return done

    monkeypatch.setattr(process, "run", run)
    with pytest.raises(AssertionError):
        life.undo(tree)
