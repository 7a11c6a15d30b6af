"""`gitcp fork --remove`: nothing that can be saved is lost, and the rest only if told."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from talk import Talk

from gitcp.policy.events import EventCall
from gitcp.policy.risk import deleted_directories

from driver import Project


@pytest.fixture
def topic(project: Project, tmp_path: Path) -> Project:
    """A linked worktree with unsaved work and an agent's conversation."""
    project.write(".gitignore", "*.log\n")
    project.write("app.py", "one\n")
    project.commit()
    project.git("worktree", "add", "--quiet", "-b", "topic", str(tmp_path / "topic"))
    tree = Project(tmp_path / "topic")
    tree.write("app.py", "two\n")
    tree.write("new.py", "new\n")
    Talk(tree).say("begin", "begun")
    return tree


def test_all_is_saved_first(project: Project, topic: Project) -> None:
    """Files and conversation are in a checkpoint, and come back; other worktrees are untouched."""
    files = topic.files()
    removed = project.json("worktree", "remove", "../topic")

    assert not topic.root.exists()
    assert (removed["saved"], removed["last"]) == (["e7baae82@1"], "e7baae82@1")
    assert (removed["branch"], removed["lost"]) == ("topic", [])
    assert "topic" in project.git("branch", "--list", "topic")
    back = project.json("restore", removed["last"], "--worktree", "../topic")
    assert back["report"]["resume"]["session_id"] == Talk(topic).session
    assert topic.files() == files
    assert project.json("check")["ok"]


def test_what_no_checkpoint_has(project: Project, topic: Project) -> None:
    """Ignored files, repositories inside and commits on no branch are listed, and kept until it is
    told; the rest is saved either way.
    """
    topic.write("debug.log", "x\n")
    Project(topic.root / "inner", own_store=False).commit()
    topic.git("switch", "--quiet", "--detach")
    topic.commit("on no branch")
    topic.write("app.py", "three\n")
    refused = project.gitcp("worktree", "remove", "../topic", check=12)

    for line in ("debug.log  ignored", "inner", "which is on no branch"):
        assert line in refused.err
    assert "all else is saved as e7baae82@1" in refused.err
    assert topic.read("app.py") == b"three\n"
    forced = project.json("worktree", "remove", "--force", "../topic")
    assert [each["path"] for each in forced["lost"]] == ["debug.log", "inner", None]
    assert not topic.root.exists()


def test_refused(project: Project, topic: Project, tmp_path: Path) -> None:
    """Only a linked worktree of this repository, which is not locked, is removed."""
    other = Project(tmp_path / "other")
    cases = {
        str(project.root): (2, "is the main worktree"),
        str(other.root): (2, "is not a worktree of this repository"),
        str(topic.root / "sub"): (2, "is not a worktree"),
    }
    (topic.root / "sub").mkdir()
    for path, (code, said) in cases.items():
        assert said in project.gitcp("worktree", "remove", path, check=code).err
    project.git("worktree", "lock", str(topic.root))
    assert "git worktree unlock" in project.gitcp("worktree", "remove", "../topic", check=12).err
    assert topic.root.exists()
    assert "gitcp fork --worktree x" in project.gitcp("worktree", "add", "x", check=2).err
    project.gitcp("worktree", "remove", check=2)


def test_from_inside(topic: Project, project: Project) -> None:
    """It can be removed by a command that runs in it."""
    topic.gitcp("worktree", "remove", ".", check=0)
    assert not topic.root.exists()
    assert len(project.json_lines("log", "--session", "e7ba")) == 1


@pytest.mark.parametrize(
    "command",
    [
        "git worktree remove --force {}",
        "cd /tmp && git -C {main} worktree remove -f {}",
        "rm -rf {}",
        "rm -r -f {above}",
    ],
)
def test_an_agent_deletes_it(project: Project, topic: Project, command: str) -> None:
    """Before an agent deletes another worktree, what is in it is saved, into its own session."""
    talk = Talk(project, "99999999-5d1c-4f0a-9b3e-2c6d8f1a7b90")
    talk.say("remove it", "I do")
    below = topic.root.parent / "trees"
    below.mkdir()
    project.git("worktree", "move", str(topic.root), str(below / "topic"))
    Talk(Project(below / "topic")).say("begin", "begun")
    typed = command.format(below / "topic", main=project.root, above=below)
    payload = {
        "session_id": talk.session,
        "transcript_path": str(talk.path),
        "cwd": str(project.root),
        "hook_event_name": "PreToolUse",
        "tool_name": "Bash",
        "tool_input": {"command": typed},
        "tool_use_id": "toolu_1",
    }
    project.gitcp("hook", "claude", "PreToolUse", input=json.dumps(payload), check=0)
    project.git("worktree", "remove", "--force", str(below / "topic"))

    gone = {each["worktree"]: each for each in project.json_lines("sessions", "--worktrees")}
    assert [each["session"] for each in gone["topic"]["sessions"]] == ["e7baae82"]
    last = gone["topic"]["sessions"][0]["last"]
    assert project.gitcp("show", f"{last}:new.py", check=0).out == "new\n"


def test_what_is_deleted() -> None:
    """Only what deletes directories counts."""
    for command, paths in {
        "git worktree remove ../a && rm -Rf b c": ["../a", "b", "c"],
        "git worktree list; git worktree add x; rm file": [],
        "git status": [],
    }.items():
        assert (
            deleted_directories(EventCall({"tool": "Bash", "args": {"command": command}})) == paths
        )
