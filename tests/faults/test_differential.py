"""Random operations, judged by a witness that knows nothing of gitcp: a sample, and whether the
witness sees.

The large one is `python tests/faults/run.py differential --operations 10000`; docs/reliability.md
says what is judged.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from faults import differential, process
from faults.differential import Life
from gitcp.restoring import restore

from driver import Result

RUN = Path(differential.__file__).with_name("run.py")


def test_sample() -> None:
    """Two lives of fifty operations each, always the same ones; .ci/full has more."""
    args = ("differential", "--operations", "100", "--seed", "1")
    done = subprocess.run([sys.executable, RUN, *args], capture_output=True, text=True)

    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.endswith("100 operations of gitcp\n0 broken\n")


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


def _restored(life: Life, name: str) -> None:
    life.beyond = frozenset(life.wrote.get(name, ()))
    outcome = life.gitcp(life.trees[0], "restore", name, "--yes", "--json")
    life.done(
        life.trees[0],
        differential.RESTORE,
        life.restored(life.trees[0], outcome, life.held[name]),
    )


def test_the_witness_sees_what_was_not_done(life: Life, monkeypatch: pytest.MonkeyPatch) -> None:
    """A restore that says that nothing was to be done passes only where that is so."""
    tree = life.trees[0]
    _restored(life, "one@1")
    _restored(life, "one@1")
    said = life.gitcp(tree, *STEPS["restore"])
    assert said.report["safety"] is None
    life.write(tree, b"a", b"4")
    monkeypatch.setattr(process, "run", lambda *_, **__: Result(0, said.out, said.err))

    with pytest.raises(AssertionError, match="not brought back"):
        _restored(life, "one@1")


def _killed(args: Sequence[str | bytes]) -> Callable[[], None]:
    """What becomes a restore that is killed when all files are written."""
    run = process.forked(args)

    def become() -> None:
        restore._save_after = lambda *_: os.kill(os.getpid(), signal.SIGKILL)  # type: ignore[assignment]
        run()

    return become


@pytest.fixture(params=[True, False], ids=["continued", "aborted"])
def recovered(
    request: pytest.FixtureRequest, life: Life, monkeypatch: pytest.MonkeyPatch
) -> tuple[Life, str]:
    """A restore was killed, and continued or aborted; `made` was written by that and is ignored
    since. And the checkpoint of before.
    """
    tree, forward = life.trees[0], request.param
    life.write(tree, b"made", b"made")
    if forward:
        life.gitcp(tree, *STEPS["save"], codes={0})
        life.remove(tree, b"made")
    target = "one@3" if forward else "one@1"
    with monkeypatch.context() as patched:
        patched.setattr(life, "become", _killed)
        args = ("restore", target, "--files", "--yes", "--json")
        begun = life.gitcp(tree, *args, codes={differential.KILLED})
    life.recover(tree, begun, life.held[target], forward=forward)
    tree.root.joinpath(".git/info/exclude").write_text("made\n")
    life.did(tree, "exclude made")
    backs = [id for id, paths in life.wrote.items() if b"made" in paths]
    return life, next(id for id in backs if b"made" not in life.held[id].files)


def test_what_a_killed_restore_wrote(recovered: tuple[Life, str]) -> None:
    """Whoever goes back to what was there before takes back what it wrote, ignored or not."""
    life, back = recovered

    _restored(life, back)

    assert not life.trees[0].root.joinpath("made").exists()
    life.undo(life.trees[0])
    assert life.trees[0].root.joinpath("made").exists()


@pytest.mark.parametrize("wrong", [_take_what_is_ignored, _leave_a_file])
def test_the_witness_sees_after_a_kill(
    recovered: tuple[Life, str], wrong: Callable[[Life], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing else that is ignored may go, nor anything else."""
    life, back = recovered
    real = process.run

    def run(*args: Any, **others: Any) -> Any:
        done = real(*args, **others)
        wrong(life)
        return done

    monkeypatch.setattr(process, "run", run)
    with pytest.raises(AssertionError):
        _restored(life, back)


@pytest.fixture
def dropped(life: Life) -> Life:
    """A prune that dropped two checkpoints, and was undone."""
    tree = life.trees[0]
    for number in (3, 4):
        life.write(tree, b"a", b"%d more" % number)
        life.gitcp(tree, *STEPS["save"], codes={0})
    life._drop(tree, "prune", "--keep-last", "2")
    assert life.there.keys() == {"one@3", "one@4"}
    life.undo(tree)
    return life


def test_redo_of_a_prune_may_leave_what_is_needed(dropped: Life) -> None:
    """Where a fork began since stays."""
    dropped.gitcp(dropped.trees[0], "fork", "one@2", "--name", "new", "--json")
    dropped.redo(dropped.trees[0])
    assert "one@2" in dropped.there
    assert "one@1" not in dropped.there


def test_the_witness_sees_a_redo(dropped: Life, monkeypatch: pytest.MonkeyPatch) -> None:
    """A redo that leaves what nobody needs does not pass, nor one that drops what was saved
    since.
    """
    tree, real = dropped.trees[0], process.run
    before = tree.git.refs()["refs/gitcp/sessions/one"]

    def run(*args: Any, **others: Any) -> Any:
        done = real(*args, **others)
        tree.git.run("update-ref", "refs/gitcp/sessions/one", before)
        return done

    monkeypatch.setattr(process, "run", run)
    with pytest.raises(AssertionError, match="not dropped"):
        dropped.redo(tree)


@pytest.mark.parametrize("is_gone", [True, False])
def test_redo_of_a_delete(dropped: Life, monkeypatch: pytest.MonkeyPatch, *, is_gone: bool) -> None:
    """A session is said to be deleted already only where it is."""
    tree, real = dropped.trees[0], process.run
    dropped.gitcp(tree, "save", "--json", "--session", "two", codes={0})
    dropped._drop(tree, "delete", "one")
    dropped.undo(tree)
    tip = tree.git.refs()["refs/gitcp/sessions/one"]
    tree.git.run("update-ref", "-d", "refs/gitcp/sessions/one")
    dropped.did(tree, "somebody deletes one")

    def run(*args: Any, **others: Any) -> Any:
        done = real(*args, **others)
        tree.git.run("update-ref", "refs/gitcp/sessions/one", tip)
        return done

    if is_gone:
        dropped.redo(tree)
        return
    monkeypatch.setattr(process, "run", run)
    with pytest.raises(AssertionError, match="redo refused"):
        dropped.redo(tree)
