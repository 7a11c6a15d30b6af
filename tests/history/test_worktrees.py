"""`sessions --worktrees`: every worktree, there or gone, with its sessions."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from mcp_client import Called, Tools, with_tools
from talk import Talk

import gitcp
from gitcp.tui import reading

from driver import Project
from samples import open_store


@pytest.fixture
def trees(project: Project, tmp_path: Path) -> dict[str, Project]:
    """Four worktrees beside the main one, each saved in once."""
    project.write("app.py", "one\n")
    project.commit()
    project.gitcp("save", "here", "--session", "home", check=0)
    made = {}
    for name in ("busy", "gone", "lost", "moved"):
        project.git("worktree", "add", "--quiet", "-b", name, str(tmp_path / name))
        made[name] = Project(tmp_path / name)
        made[name].write(f"{name}.py", f"{name}\n")
        made[name].gitcp("save", f"in {name}", "--session", name, check=0)
    return made


def listed(project: Project) -> dict[str | None, Any]:
    return {each["worktree"]: each for each in project.json_lines("sessions", "--worktrees")}


def test_there_and_gone(project: Project, trees: dict[str, Project]) -> None:
    """Each is listed with what became of it, its branch, unsaved changes and sessions."""
    Talk(trees["busy"]).say("do it", at=datetime.now(UTC))
    trees["busy"].gitcp("save", check=0)
    trees["busy"].write("busy.py", "more\n")
    trees["busy"].write("two.py", "two\n")
    project.git("worktree", "remove", "--force", str(trees["gone"].root))
    shutil.rmtree(trees["lost"].root)
    moved = trees["moved"].root.with_name("moved elsewhere")
    project.git("worktree", "move", str(trees["moved"].root), str(moved))
    with project.guard():
        known = listed(project)

    assert {name: each["state"] for name, each in known.items()} == {
        None: "there",
        "busy": "there",
        "moved": "there",
        "lost": "missing",
        "gone": "removed",
    }
    assert {name: each["unsaved"] for name, each in known.items()} == {
        None: 0,
        "busy": 2,
        "moved": 0,
        "lost": None,
        "gone": None,
    }
    running = {each["session"]: each["running"] for each in known["busy"]["sessions"]}
    assert running == {"e7baae82": True, "busy": False}
    assert known["gone"]["path"] == str(trees["gone"].root)
    assert known["gone"]["branch"] == "gone"
    assert known["moved"]["path"] == str(moved)
    assert [each["session"] for each in known[None]["sessions"]] == ["home"]
    shown = project.gitcp("sessions", "--worktrees", check=0).out
    assert "../moved elsewhere" in shown
    assert "removed" in shown


def test_the_same_name_again(project: Project, trees: dict[str, Project]) -> None:
    """A worktree with the name of a removed one does not take its sessions; a session that goes on
    in another worktree goes with it, and a renamed one keeps its own.
    """
    gone = trees["gone"].root
    project.git("worktree", "remove", "--force", str(gone))
    project.git("worktree", "add", "--quiet", "--detach", str(gone))
    Project(gone).gitcp("save", "again", "--session", "again", check=0)
    project.gitcp("rename", "busy", "quiet", check=0)
    project.gitcp("save", "--session", "lost", "--force", check=0)

    known = project.json_lines("sessions", "--worktrees")
    # what was saved in one second has no order
    sessions = [(each["state"], {s["session"] for s in each["sessions"]}) for each in known]
    assert ("there", {"again"}) in sessions
    assert ("removed", {"gone"}) in sessions
    assert ("there", {"quiet"}) in sessions
    assert ("there", {"lost", "home"}) in sessions


def test_with_other_options(project: Project) -> None:
    """What only lists of sessions can do is refused."""
    project.gitcp("save", check=0)
    refused = project.gitcp("sessions", "--worktrees", "--fetched", check=2)
    assert "--fetched and --worktrees cannot be used together" in refused.err
    assert len(project.json_lines("sessions", "--worktrees", "-n", "1")) == 1


def test_in_the_interface(project: Project, trees: dict[str, Project]) -> None:
    """The list of sessions says which worktree is gone."""
    project.git("worktree", "remove", "--force", str(trees["gone"].root))
    shutil.rmtree(trees["lost"].root)
    *_, detailed = reading.listed(open_store(project), "home")

    places = {each.name: each.place for each in detailed.sessions}
    assert places["home"] == ""
    assert places["gone"] == "removed worktree ../gone"
    assert places["lost"] == "missing worktree ../lost"
    assert places["busy"] == "working tree ../busy"


NOTE = "nothing was saved in this worktree yet; "


@pytest.fixture
def new(project: Project) -> Project:
    """A worktree in which nothing was saved, beside one with two checkpoints and other files."""
    project.write("app.py", "one\n")
    project.commit()
    project.gitcp("save", "first", "--session", "home", "--phase", "plan", check=0)
    project.write("app.py", "two\n")
    project.gitcp("save", "here", "--session", "home", check=0)
    project.git("worktree", "add", "--quiet", "--detach", str(project.root.with_name("new")))
    new = Project(project.root.with_name("new"))
    new.write("mine.txt", "only here\n")
    return new


def test_numbers_of_another_worktree(new: Project) -> None:
    """In a worktree without a save, numbers are those of another one's session: what only looks
    says so, what changes files is refused with the whole id. After a save they are its own.
    """
    files = new.files()

    for looking in (("log",), ("show", "1"), ("diff", "@")):
        said = new.gitcp(*looking, check=0).err
        assert said.startswith(f"note: {NOTE}home is a session of ../"), looking
    for command in ("restore", "revert", "resume"):
        for revision, id in (("1", "home@1"), ("@", "home@2"), ("today", "home@2")):
            refused = new.gitcp(command, revision, "--yes", check=12).err.splitlines()
            assert refused[-2].startswith(f"error: {NOTE}{revision} would be {id}, of ../"), refused
            assert refused[-2].endswith(": nothing was changed")
            assert refused[-1] == f"hint: gitcp {command} {id} --yes"
    for revision, whole in (("1..@", "home@1..home@2"), ("home@1..", "home@1..home@2")):
        refused = new.gitcp("revert", revision, "--yes", check=12).err.splitlines()
        assert refused[-1] == f"hint: gitcp revert {whole} --yes"
    refused = new.gitcp("delete", "@~1", "--yes", check=12).err.splitlines()
    assert refused[-1] == "hint: gitcp delete home@1 --yes"
    assert new.files() == files
    new.gitcp("restore", "home@1", "--dry-run", check=0)
    new.gitcp("save", "--session", "own", check=0)
    assert new.gitcp("log", "--oneline", check=0) == (0, "own@1 (no label)\n", "")
    assert new.json("restore", "1", "--dry-run")["target"] == "own@1"


@pytest.mark.parametrize(
    "words",
    [
        ("rollback", "--yes"),
        ("restore", "--at", "now", "--yes"),
        ("restore", "--phase", "plan", "--yes"),
        ("restore", "--message", "m", "--yes"),
        ("save", "--amend", "-m", "renamed"),
    ],
)
def test_the_session_of_another_worktree(new: Project, words: tuple[str, ...]) -> None:
    """What finds its checkpoint in the current session is refused, too; the hint names it."""
    files, refs = new.files(), new.git("for-each-ref")

    refused = new.gitcp(*words, check=12).err.splitlines()

    assert refused[-2].startswith(f"error: {NOTE}home is a session of ../")
    assert refused[-2].endswith(": nothing was changed")
    assert refused[-1] == f"hint: gitcp {' '.join(words)} --session home"
    assert new.files() == files
    assert new.git("for-each-ref") == refs


def test_programs_in_another_worktree(new: Project) -> None:
    """The Python API refuses what the command line refuses."""
    files, refs = new.files(), new.git("for-each-ref")
    with gitcp.open(new.root) as checkpoints:
        acts: list[Callable[[], object]] = [
            checkpoints.restore,
            lambda: checkpoints.restore("@", paths=["app.py"]),
            lambda: checkpoints.restore("today"),
            lambda: checkpoints.restore(at="now"),
            lambda: checkpoints.restore(phase="plan"),
            lambda: checkpoints.restore(message="m"),
            lambda: checkpoints.plan("1"),
            checkpoints.rollback,
            checkpoints.plan_rollback,
            lambda: checkpoints.plan_revert("@"),
            lambda: checkpoints.plan_revert("home@1.."),
        ]
        for number, act in enumerate(acts):
            with pytest.raises(gitcp.Refused, match=NOTE) as caught:
                act()
            assert str(caught.value).endswith(": nothing was changed"), number
            assert "home" in caught.value.hint
        assert new.files() == files
        assert new.git("for-each-ref") == refs
        assert checkpoints.plan("@", session="home").target.id.number == 2


def test_agents_in_another_worktree(new: Project) -> None:
    """So does MCP, and the hint is the call with the whole id."""
    files = new.files()

    async def work(tools: Tools) -> None:
        for tool in ("restore", "revert"):
            for revision, id in (("@", "home@2"), ("1", "home@1")):
                with pytest.raises(Called) as caught:
                    await tools(tool, revision=revision)
                said = str(caught.value)
                assert said.startswith(f"{NOTE}{revision} would be {id}, of ../"), said
                assert said.endswith(f'hint: call {tool} with {{"revision":"{id}"}}')
            assert (await tools(tool, revision="home@2"))["digest"]

    with_tools(new, work)
    assert new.files() == files
