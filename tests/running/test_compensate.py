"""Effects outside of the files: recorded, listed, and compensated at most once, on request
alone.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from terminal import on_terminal

import gitcp
from gitcp.model import Checkpoint, Oid
from gitcp.running import compensate
from gitcp.state import effects
from gitcp.state.effects import Effect
from gitcp.store import Store

from driver import Project
from samples import open_store

SESSION = "work"


@pytest.fixture
def shop(project: Project) -> Project:
    """A project with three checkpoints; the second and third have effects."""
    project.write("a.txt", "one\n")
    project.commit()
    project.gitcp("save", "one", "--session", SESSION, check=0)
    add = ("--compensate", "echo first >> ../effects", "--compensate", "echo second >> ../effects")
    project.gitcp("save", "two", "--session", SESSION, *add, check=0)
    project.gitcp(
        "save",
        "three",
        "--session",
        SESSION,
        "--compensate",
        "echo third >> ../effects; exit 3",
        check=0,
    )
    return project


def written(project: Project) -> list[str]:
    """The lines that compensations wrote."""
    path = project.root.parent / "effects"
    return path.read_text().splitlines() if path.exists() else []


def listed(project: Project, *args: str) -> list[tuple[str, str | None]]:
    """Keys and outcomes, as listed."""
    found = project.json("compensate", "--list", *args)["compensations"]
    return [(each["key"], each["outcome"]) for each in found]


def effect(project: Project, key: str) -> Effect:
    """A recorded effect by its key."""
    return next(
        each for each in effects.after(open_store(project), None, SESSION) if each.key == key
    )


def test_listed(shop: Project) -> None:
    """The newest first; after a checkpoint only what came later, unless it was taken before a risky
    change.
    """
    assert listed(shop) == [("work@3:0", None), ("work@2:1", None), ("work@2:0", None)]
    assert listed(shop, "2") == [("work@3:0", None)]
    assert listed(shop, "3") == []
    risky = ("--trigger", "before-risky-change", "--compensate", "true")
    shop.gitcp("save", "risky", "--session", SESSION, *risky, check=0)
    assert listed(shop, "work@3") == listed(shop, "work@4") == [("work@4:0", None)]


def test_others_are_not_read(shop: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is asked of every restore reads the last checkpoint, and those that record effects."""
    for number in range(5):
        shop.gitcp("save", f"plain {number}", "--session", SESSION, check=0)
    read, real = [], Store.read

    def reading(store: Store, commit: Oid) -> Checkpoint:
        read.append(str(real(store, commit).id))
        return real(store, commit)

    monkeypatch.setattr(Store, "read", reading)

    assert len(effects.after(open_store(shop), None, SESSION)) == 3
    assert read == ["work@8", "work@3", "work@2"]


def test_restore_lists_and_runs_none(shop: Project) -> None:
    """Going back past effects says which are not undone and how that is done, and runs nothing."""
    shop.write("a.txt", "two\n")
    planned = shop.gitcp("restore", "2", "--dry-run", check=0).out
    done = shop.gitcp("restore", "1", "--yes", check=0).out

    assert "not undone: echo third" in planned
    assert "echo second" not in planned
    assert [
        line.split("echo ")[1].split()[0] for line in done.splitlines() if "not undone" in line
    ] == [
        "third",
        "second",
        "first",
    ]
    assert "undo that with: gitcp run --compensations work@1" in done
    assert written(shop) == []


def test_nobody_to_ask(shop: Project) -> None:
    """Without a terminal nothing is run unless it is named."""
    done = shop.gitcp("compensate")

    assert done.code == 12
    assert "gitcp run --compensations --run work@3:0" in done.err
    assert written(shop) == []


def test_named(shop: Project) -> None:
    """What is named is run, once; its outcome is in the checkpoint that records it, and is not
    listed by a restore.
    """
    with shop.guard():
        shop.gitcp("compensate", "--run", "work@2:1", check=0)
        done = shop.gitcp("compensate", "--run", "work@3:0", "--run", "work@2:0")

    assert done.code == 3, done
    assert written(shop) == ["second", "third", "first"]
    assert listed(shop) == [("work@3:0", "failed"), ("work@2:1", "done"), ("work@2:0", "done")]
    again = shop.gitcp("compensate", "--run", "work@2:1")
    assert (again.code, len(written(shop))) == (12, 3)
    shown = shop.json("show", "@~1")
    assert (shown["label"], shown["run"]["exit_code"]) == (
        "compensation failed: echo third >> ../effects; exit 3",
        3,
    )
    plan = shop.json("restore", "1", "--dry-run")
    assert plan["effects"] == ["echo third >> ../effects; exit 3"]


def test_unknown_key(shop: Project) -> None:
    """A key that is nowhere is an error, and nothing is run, not even what is named beside it
    first.
    """
    assert shop.gitcp("compensate", "--run", "work@2:1", "--run", "work@9:0").code == 16
    assert written(shop) == []


def test_asked_one_by_one(shop: Project) -> None:
    """Each is shown and asked about; what is not agreed to is left for another time."""
    done = on_terminal(shop, "compensate", typed="n\ny\nn\n")

    assert done.out.count("Run it? [y/N]") == 3
    assert written(shop) == ["second"]
    assert listed(shop) == [("work@3:0", None), ("work@2:1", "done"), ("work@2:0", None)]


def test_outcomes_travel(shop: Project, tmp_path: Path) -> None:
    """Another clone that has the checkpoints knows what was run, and does not run it again."""
    shop.gitcp("compensate", "--run", "work@2:1", check=0)
    other = Project(tmp_path / "other")
    other.git("fetch", "--quiet", str(shop.root), "refs/gitcp/*:refs/gitcp/*")

    assert listed(other, "--session", SESSION)[1] == ("work@2:1", "done")
    assert other.gitcp("compensate", "--session", SESSION, "--run", "work@2:1").code == 12


def test_key_and_place(shop: Project) -> None:
    """A compensation runs in the root of the working tree, without input, and is told its key."""
    command = 'echo "$GITCP_COMPENSATION $PWD $(cat)" >> ../effects'
    shop.write("sub/x", "")
    shop.gitcp("save", "--session", SESSION, "--compensate", command, check=0)
    shop.gitcp("compensate", "--run", "work@4:0", cwd=shop.root / "sub", input="typed", check=0)

    assert written(shop) == [f"work@4:0 {shop.root} "]


def test_hanging(shop: Project) -> None:
    """One that hangs is ended, with all that it started, and is not run again."""
    command = "(trap '' TERM; sleep 100; echo late >> ../effects) & echo begun >> ../effects; wait"
    shop.gitcp("save", "--session", SESSION, "--compensate", command, check=0)
    begun = time.monotonic()
    done = shop.gitcp("compensate", "--limit", "0.5", "--run", "work@4:0")

    assert done.code == 3, done
    assert "timed out" in done.out
    assert "late" not in written(shop)
    assert time.monotonic() - begun < 60
    assert listed(shop)[0] == ("work@4:0", "timeout")
    assert shop.gitcp("compensate", "--run", "work@4:0").code == 12


def test_at_once(shop: Project) -> None:
    """Of many who begin at once, one runs it, and all get its outcome."""
    found: list[str | None] = []

    def run() -> None:
        store = open_store(shop)
        found.append(compensate.compensate(store, effect(shop, "work@2:0"), SESSION).effect.outcome)

    threads = [threading.Thread(target=run) for _ in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert found == ["done"] * 5
    assert written(shop) == ["first"]
    assert gitcp.open(shop.root).check().ok


def test_killed_while_it_runs(shop: Project) -> None:
    """gitcp is killed; the compensation goes on, ends well, and whoever comes next waits for it and
    knows.
    """
    command = (
        "echo begun >> ../effects; while [ ! -e ../go ]; do sleep 0.05; done; echo ended >> "
        "../effects"
    )
    shop.gitcp("save", "--session", SESSION, "--compensate", command, check=0)
    process = subprocess.Popen(
        [sys.executable, "-P", "-m", "gitcp", "compensate", "--run", "work@4:0"],
        cwd=shop.root,
        env=_env(),
    )
    _wait_for(shop, "begun")
    process.kill()
    process.wait()
    go = shop.root.parent / "go"
    threading.Timer(0.3, go.touch).start()

    outcome = compensate.compensate(open_store(shop), effect(shop, "work@4:0"), SESSION)

    assert outcome.effect.outcome == "done"
    assert written(shop) == ["begun", "ended"]
    assert listed(shop)[0] == ("work@4:0", "done")


def test_cut_off(shop: Project) -> None:
    """One that was itself killed may have done its work or not: that is said, and it is not run
    again.
    """
    command = "echo $$ >> ../effects; while :; do sleep 0.05; done"
    shop.gitcp("save", "--session", SESSION, "--compensate", command, check=0)
    process = subprocess.Popen(
        [sys.executable, "-P", "-m", "gitcp", "compensate", "--run", "work@4:0"],
        cwd=shop.root,
        env=_env(),
    )
    _wait_for(shop, "")
    process.kill()
    process.wait()
    inner = int(written(shop)[0])
    os.killpg(os.getpgid(inner), signal.SIGKILL)

    outcome = compensate.compensate(open_store(shop), effect(shop, "work@4:0"), SESSION)

    assert outcome.effect.outcome == "unknown"
    assert len(written(shop)) == 1
    assert "result unknown" in shop.gitcp("compensate", "--list", check=0).out


def _env() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}


def _wait_for(project: Project, line: str) -> None:
    deadline = time.monotonic() + 60
    while not any(each.startswith(line) for each in written(project)):
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_from_somebody_else(project: Project) -> None:
    """A command that somebody else wrote down is run only with --trust."""
    project.write("a.txt", "1\n")
    project.gitcp("save", "start", "--session", "alpha", check=0)
    command = "touch ran"
    project.gitcp(
        "save",
        "--session",
        "alpha",
        "--compensate",
        command,
        "--trigger",
        "before-risky-change",
        check=0,
    )
    other = Project(project.root.parent / "other")
    other.gitcp("remote", "hub", str(project.root), check=0)
    other.gitcp("fetch", check=0)

    for target in ("hub/alpha@1", "hub/alpha@2"):
        refused = other.gitcp("compensate", target, "--run", "alpha@2:0", check=14)
        assert "--trust" in refused.err
    assert not (other.root / "ran").exists()
    assert other.git("for-each-ref", "refs/gitcp/sessions") == ""

    other.gitcp("compensate", "hub/alpha@1", "--run", "alpha@2:0", "--trust", check=0)
    assert (other.root / "ran").exists()
