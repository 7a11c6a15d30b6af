"""`gitcp run --step`: a command of a script runs again only if what it depends on changed."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest

import gitcp
from gitcp.errors import Refused
from gitcp.model import StepName

from driver import Project

WORDS = ("run", "--session", "s", "--step")


@pytest.fixture
def shop(project: Project) -> Project:
    """A project with a source file."""
    project.write("src.txt", "one\n")
    project.commit()
    return project


def build(shop: Project, command: str = "tr a-z A-Z <src.txt >built.txt") -> list[str]:
    """A script of two steps; those that ran."""
    shop.gitcp(
        *WORDS, "build", "--input", "@src.txt", "--produces", "built.txt",
        "--", "sh", "-c", f"{command}; echo build >>../ran", check=0,
    )  # fmt: skip
    shop.gitcp(
        *WORDS, "count", "--depends", "build", "--produces", "count.txt",
        "--", "sh", "-c", "wc -c <built.txt >count.txt; echo count >>../ran", check=0,
    )  # fmt: skip
    path = shop.root.parent / "ran"
    ran = path.read_text().split() if path.exists() else []
    path.unlink(missing_ok=True)
    return ran


def test_only_the_affected(shop: Project) -> None:
    """A changed input, command or file runs the step again; the next one only if the file that it
    reads comes out different.
    """
    assert build(shop) == ["build", "count"]
    assert build(shop) == []
    shop.write("src.txt", "two!\n")
    assert build(shop) == ["build", "count"]
    assert shop.read("count.txt").strip() == b"5"
    shop.remove("built.txt")
    assert build(shop) == ["build"]
    assert build(shop, "cat src.txt | tr a-z A-Z >built.txt") == ["build"]
    assert gitcp.open(shop.root).check().ok


def test_skipped(shop: Project) -> None:
    """A step that is skipped says so, on stderr; the command is not run and nothing is saved."""
    build(shop)
    before = shop.git("rev-parse", "refs/gitcp/sessions/s")

    command = (*WORDS, "count", "--depends", "build", "--produces", "count.txt")
    script = "wc -c <built.txt >count.txt; echo count >>../ran"
    skipped = shop.gitcp(*command, "--", "sh", "-c", script, check=0)
    assert skipped.err == "skipped step count: nothing that it depends on changed\n"
    assert skipped.out == ""
    assert json.loads(shop.gitcp(*command, "--json", "--", "sh", "-c", script, check=0).out) == {
        "schema": "gitcp.step-plan/1",
        "session": "s",
        "steps": [{"name": "count", "key": "", "verdict": "skip", "reasons": []}],
        "compensations": [],
    }
    assert shop.git("rev-parse", "refs/gitcp/sessions/s") == before


def test_plan_and_invalidate(shop: Project) -> None:
    """The plan lists every step, and compares the inputs of the one that is given; to invalidate
    one prints what that affects.
    """
    build(shop)
    assert shop.gitcp("run", "--session", "s", "--plan", check=0).out.splitlines() == [
        "skip        build",
        "skip        count",
    ]
    with shop.guard():
        planned = shop.gitcp(*WORDS, "build", "--input", "x", "--plan", "--", "true", check=0).out
    assert planned.splitlines() == [
        "run         build: its inputs changed",
        "if-changed  count: it depends on step 'build'",
    ]
    invalidated = shop.gitcp("run", "--session", "s", "--invalidate", "build", check=0).out
    assert invalidated.splitlines()[0] == "run         build: it was invalidated"
    assert [s["verdict"] for s in shop.json("run", "--session", "s", "--plan")["steps"]] == [
        "run",
        "if-changed",
    ]
    assert build(shop) == ["build"]


def test_recorded_as_run_and_step(shop: Project) -> None:
    """The checkpoint after it has the command and the step; a label is its title."""
    shop.gitcp(*WORDS, "a", "first", "--", "true", check=0)
    shop.gitcp(*WORDS, "b", "--", "true", check=0)

    first, second = shop.json("show", "s@2"), shop.json("show", "s@4")
    assert (first["label"], first["step"]) == ("first", {"name": "a", "key": ""})
    assert (second["label"], second["step"]["name"]) == ("step b", "b")
    assert second["run"]["command"] == ["true"]


def test_without_files(shop: Project) -> None:
    """Without files there is nothing to compare: when it runs again, so does what depends on it."""
    for text, ran in (("1", 2), ("1", 2), ("2", 4)):
        shop.gitcp(*WORDS, "a", "--input", text, "--", "sh", "-c", "echo a >>../ran", check=0)
        shop.gitcp(*WORDS, "b", "--depends", "a", "--", "sh", "-c", "echo b >>../ran", check=0)
        assert len((shop.root.parent / "ran").read_text().split()) == ran


def test_failure(shop: Project) -> None:
    """A step that fails, or does not write its file, is not recorded; with --rollback its files go
    back.
    """
    failed = shop.gitcp(*WORDS, "a", "--rollback", "--", "sh", "-c", "rm src.txt; exit 3", check=3)
    assert "failed step a" in failed.err
    assert shop.read("src.txt") == b"one\n"
    missing = shop.gitcp(*WORDS, "a", "--produces", "no.txt", "--", "true", check=2)
    assert "step 'a' did not write no.txt: its result is not recorded" in missing.err
    assert gitcp.open(shop.root).session("s").plan().steps == ()
    shop.gitcp(*WORDS, "a", "--", "true", check=0)
    assert gitcp.open(shop.root).session("s").plan().steps[0].step == StepName("a")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--step", "b", "--depends", "a", "--", "true"), "which has to run first (it has not run"),
        (("--step", "a", "--input", "@no.txt", "--", "true"), "no.txt cannot be read: nothing"),
        (("x", "--input", "1", "--", "true"), "--input requires --step: nothing was run"),
        (("--step", "a"), "LABEL or --step, and -- CMD are required: nothing was run"),
        (("--plan", "--invalidate", "a"), "takes no command, and none of the others"),
        (("--invalidate", "a", "--", "true"), "takes no command, and none of the others"),
        (("--invalidate", "a"), "session s has no step 'a': nothing was changed"),
    ],
)
def test_refused(shop: Project, words: tuple[str, ...], said: str) -> None:
    """What does not go together, or cannot be done, is refused before anything runs."""
    shop.gitcp("save", "--session", "s", check=0)
    with shop.guard():
        refused = shop.gitcp("run", "--session", "s", *words)

    assert refused.code in (2, 12, 16)
    assert said in refused.err
    assert "hint: " in refused.err


def book(shop: Project, day: str, *options: str, command: str = "true") -> list[str]:
    """A step with an effect outside of the files; what undid it before this run."""
    undo = f"echo cancel {day} >>../cancelled"
    words = (*WORDS, "flight", "--input", day, "--compensate", undo)
    shop.gitcp(*words, *options, "--", "sh", "-c", command)
    path = shop.root.parent / "cancelled"
    done = path.read_text().splitlines() if path.exists() else []
    path.unlink(missing_ok=True)
    return done


def test_the_effect_is_undone_before_it_runs_again(shop: Project) -> None:
    """As in Python: what undoes the effect is recorded before the step runs, shown by the plan, and
    runs once, before the step runs again.
    """
    assert book(shop, "monday") == []
    assert book(shop, "monday") == []  # skipped
    plan = shop.gitcp("run", "--session", "s", "--step", "flight", "--input", "friday", "--plan")
    assert "cancel monday" in plan.out
    assert book(shop, "friday") == ["cancel monday"]
    assert book(shop, "friday") == []
    assert gitcp.open(shop.root).check().ok


def test_the_effect_of_a_failed_step(shop: Project) -> None:
    """It is undone before the next try, or at once with --rollback; never twice."""
    assert book(shop, "monday", command="exit 3") == []
    assert book(shop, "monday") == ["cancel monday"]
    assert book(shop, "friday", "--rollback", command="exit 3") == [
        "cancel monday",
        "cancel friday",
    ]
    assert book(shop, "friday") == []


def test_an_undo_that_fails(shop: Project) -> None:
    """The step is not run, and the error says so; nor is the undo tried again."""
    words = (*WORDS, "flight", "--compensate", "exit 9")
    shop.gitcp(*words, "--input", "monday", "--", "true", check=0)
    failed = shop.gitcp(*words, "--input", "friday", "--", "touch", "../again")
    assert (
        "exit 9, which undoes step 'flight', exited with 9: step 'flight' was not run" in failed.err
    )
    assert failed.code == 1
    assert not shop.root.parent.joinpath("again").exists()
    shop.gitcp(*words, "--input", "friday", "--", "touch", "../again", check=0)
    two = shop.gitcp(*words, "--compensate", "true", "--", "true", check=2)
    assert "--step takes one --compensate: nothing was run" in two.err


def test_it_says_what_was_undone(shop: Project) -> None:
    """A line for each on stderr, and a row in the document; a step that is skipped records nothing
    new, and says so.
    """
    words = (*WORDS, "flight", "--compensate", "echo gone >>../cancelled")
    shop.gitcp(*words, "--input", "monday", "--", "true", check=0)
    again = shop.gitcp(*words, "--input", "friday", "--", "true", check=0)
    assert "echo gone >>../cancelled  (done)" in again.err
    skipped = shop.gitcp(*words, "--input", "friday", "--", "true", check=0)
    assert skipped.err.endswith("changed; --compensate is recorded when it runs\n")
    done = shop.gitcp(*words, "--input", "sunday", "--json", "--", "true", check=0)
    (undone,) = json.loads(done.out)["compensations"]
    assert (undone["command"], undone["outcome"]) == ("echo gone >>../cancelled", "done")
    refused = shop.gitcp(*words, "--plan", check=2)
    assert "--plan and --compensate cannot be used together: nothing was run" in refused.err


def test_what_an_archive_records_is_not_run(shop: Project, tmp_path: Path) -> None:
    """A command that only a checkpoint names, which somebody else recorded, is not run when a step
    of the same name runs here, from the shell or from Python.
    """
    command = f"touch {tmp_path}/pwned"
    shop.gitcp(*WORDS, "build", "--compensate", command, "--", "true", check=0)
    copy = tmp_path / "unpacked"
    shutil.copytree(shop.root, copy, symlinks=True)
    there = Project(copy)

    with there.guard():
        refused = there.gitcp(*WORDS, "build", "--", "echo", "other")
        assert refused.code == 12
        assert "you did not record that in this directory: step 'build' was not run" in refused.err
        with pytest.raises(Refused, match="you did not record that"):
            gitcp.open(copy).session("s").step("build", lambda: 1)
    assert not (tmp_path / "pwned").exists()


def test_functions_are_not_called(shop: Project) -> None:
    """A function that a program recorded is not imported by a command of the shell."""
    session = gitcp.open(shop.root).session("s")
    session.step("first", lambda: 1)
    session.step("then", lambda: 2, depends=["first"], compensate=os.getpid)
    refused = shop.gitcp(*WORDS, "first", "--compensate", "true", "--", "true")
    assert refused.code == 12
    assert "a function of another program: nothing was run" in refused.err
