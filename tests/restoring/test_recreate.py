"""`restore --worktree`: a worktree that is gone comes back as a checkpoint recorded it."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from talk import Talk

from driver import Project


@pytest.fixture
def topic(project: Project, tmp_path: Path) -> Project:
    """A linked worktree on a branch with a commit of its own, saved twice with an agent's
    conversation: staged, unstaged, untracked and deleted files.
    """
    project.write("app.py", "one\n")
    project.write("old.py", "old\n")
    project.commit()
    project.git("worktree", "add", "--quiet", "-b", "topic", str(tmp_path / "topic"))
    tree = Project(tmp_path / "topic")
    tree.write("topic.py", "topic\n")
    tree.commit("of the topic")
    talk = Talk(tree)
    talk.say("begin", "begun")
    tree.gitcp("save", "first", check=0)
    tree.write("app.py", "staged\n")
    tree.git("add", "app.py")
    tree.write("app.py", "not staged\n")
    tree.write("new.py", "new\n")
    tree.remove("old.py")
    talk.say("go on", "gone on")
    tree.gitcp("save", "second", check=0)
    return tree


def state(tree: Project) -> tuple[object, ...]:
    """Everything that is to come back."""
    head = tree.git("rev-parse", "HEAD"), tree.git("rev-parse", "--abbrev-ref", "HEAD")
    index = tree.git("ls-files", "--stage"), tree.git("diff", "--cached")
    return (*head, *index, tree.git("status", "--porcelain"), tree.files())


@pytest.mark.parametrize("branch", ["kept", "deleted"])
@pytest.mark.parametrize("how", ["removed", "deleted", "deleted and pruned"])
def test_as_it_was(project: Project, topic: Project, how: str, branch: str) -> None:
    """Branch, base commit, index and files are as they were, to the byte; the session goes on
    there.
    """
    before = state(topic)
    if how == "removed":
        project.git("worktree", "remove", "--force", str(topic.root))
    else:
        shutil.rmtree(topic.root)
    if how == "deleted and pruned":
        project.git("worktree", "prune")
    if branch == "deleted" and how != "deleted":
        project.git("branch", "-D", "topic")
    here = project.files()

    done = project.json("restore", "e7baae82@2", "--worktree", str(topic.root))

    assert state(topic) == before
    assert project.files() == here
    assert (done["branch"], done["why"]) == ("topic", None)
    assert done["branch_created"] == (branch == "deleted" and how != "deleted")
    assert done["report"]["checkpoint"] == "e7baae82@3"
    topic.write("more.py", "more\n")
    assert topic.json("save")["checkpoint"]["id"] == "e7baae82@4"
    assert project.json("check")["ok"]


def test_what_the_agent_wrote_since(project: Project, topic: Project) -> None:
    """Of the last checkpoint the conversation goes on with what its agent wrote after it, also at
    another path; of an earlier one it is the earlier conversation, under a new id.
    """
    talk = Talk(topic)
    talk.count = 4
    talk.say("not saved any more", "indeed")
    project.git("worktree", "remove", "--force", str(topic.root))

    last = project.json("restore", "e7baae82@2", "--worktree", "../other")
    assert last["report"]["resume"]["session_id"] == talk.session
    assert Path(last["report"]["resume"]["path"]).read_bytes() == talk.path.read_bytes()
    project.gitcp("worktree", "remove", "../other", check=0)
    first = project.json("restore", "e7baae82@1", "--worktree", "../other")

    assert first["report"]["resume"]["session_id"] != talk.session
    text = Path(first["report"]["resume"]["path"]).read_text()
    assert "begun" in text
    assert "gone on" not in text


def test_a_branch_that_is_elsewhere(project: Project, topic: Project) -> None:
    """A branch that moved on, or is checked out, is left alone: the worktree gets one beside it."""
    base = topic.git("rev-parse", "HEAD")
    project.git("worktree", "remove", "--force", str(topic.root))
    project.git("branch", "--force", "topic", "main")

    said = project.gitcp("restore", "e7baae82@2", "--worktree", "../a", check=0).out
    assert "on branch topic-2 (new)" in said
    assert "branch topic has other commits by now" in said
    assert "undo with: gitcp fork --remove ../a" in said
    assert Project(project.root.parent / "a").git("rev-parse", "HEAD") == base
    project.gitcp("worktree", "remove", "../a", check=0)
    project.git("switch", "--quiet", "topic")
    said = project.gitcp("restore", "e7baae82@2", "--worktree", "../a", check=0).out
    assert "on branch topic-2," in said or "on branch topic-3 (new)" in said
    project.gitcp("worktree", "remove", "../a", check=0)
    named = project.json("restore", "e7baae82@2", "--worktree", "../a", "--branch", "mine")
    assert named["branch"] == "mine"


def test_refused(project: Project, topic: Project) -> None:
    """Nothing is created where the session is in use, something is there, or a word is wrong."""
    before = project.git("worktree", "list"), project.git("for-each-ref")
    cases = {
        ("e7baae82@2", "--worktree", "../new"): (12, "is in use in"),
        ("e7baae82@2", "--worktree", ""): (2, "--worktree is empty"),
        ("e7baae82@2", "--worktree", "../new", "--files"): (2, "cannot be used together"),
        ("e7baae82@2", "--branch", "b"): (2, "together with --worktree"),
    }
    for args, (code, said) in cases.items():
        assert said in project.gitcp("restore", *args, check=code).err
    project.git("worktree", "lock", str(topic.root))
    shutil.rmtree(topic.root)
    locked = project.gitcp("restore", "e7baae82@2", "--worktree", str(topic.root), check=12)
    assert "may be on a disk that is not mounted" in locked.err
    project.git("worktree", "unlock", str(topic.root))
    listed = project.gitcp("restore", "e7baae82@2", "--worktree", "../new", check=12)
    assert "git still lists the worktree" in listed.err
    topic.root.mkdir()
    topic.write("mine", "mine\n")
    assert project.gitcp("restore", "e7baae82@2", "--worktree", str(topic.root), check=12).err
    topic.remove("mine")
    topic.root.rmdir()
    assert (project.git("for-each-ref")) == before[1]

    project.gitcp("restore", "e7baae82@2", "--worktree", str(topic.root), "-n", check=0)
    assert not topic.root.exists()
