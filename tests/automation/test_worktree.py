"""`gitcp worktree remove`: nothing that can be saved is lost, and the rest only if told."""

from __future__ import annotations

from pathlib import Path

import pytest
from talk import Talk

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
    Project(topic.root / "inner").commit()
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
    for words, hint in (("add x", "gitcp fork --worktree DIR"), ("list", "sessions --worktrees")):
        assert hint in project.gitcp("worktree", *words.split(), check=2).err
    project.gitcp("worktree", "remove", check=2)


def test_from_inside(topic: Project, project: Project) -> None:
    """It can be removed by a command that runs in it."""
    topic.gitcp("worktree", "remove", ".", check=0)
    assert not topic.root.exists()
    assert len(project.json_lines("log", "--session", "e7ba")) == 1
