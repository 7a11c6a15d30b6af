"""`gitcp publish`: a session as an ordinary branch; nothing else of the repository changes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from talk import Talk
from tokens import tokens

from gitcp.git import worktrees
from gitcp.git.writer import MOST_LOOSE
from gitcp.review import publish
from gitcp.secrets.scan import fingerprint

from driver import Project
from samples import open_store

TOKEN = tokens()["github-token"]
ID = fingerprint("github-token", TOKEN.encode())


@pytest.fixture
def spoken(project: Project) -> Project:
    """A project with a commit and session e7baae82: a new file, nothing, two files changed and one
    of them staged.
    """
    project.write("a.txt", "one\n")
    project.write("run", "#!/bin/sh\n", 0o755)
    project.commit()
    talk = Talk(project)
    talk.say("Make it work.", "It works.")
    project.write("new/b.txt", "b\n")
    project.gitcp("save", "a new file", check=0)
    talk.say("Go on.", "I go on.")
    project.gitcp("save", "nothing", check=0)
    project.write("a.txt", "two\n")
    project.remove("run")
    project.git("add", "a.txt")
    project.gitcp("save", "both", check=0)
    return project


def commits(project: Project, branch: str) -> list[str]:
    """The subjects of what is on a branch and not on main, the oldest first."""
    return project.git("log", "--reverse", "--format=%s", f"main..{branch}").splitlines()


@pytest.mark.parametrize("merge", [("--no-ff",), ("--squash",)])
@pytest.mark.parametrize("is_pulled", [True, False])
def test_published_again(
    project: Project, tmp_path: Path, merge: tuple[str, ...], is_pulled: bool
) -> None:
    """A session goes on after its branch was merged, and its next branch merges, too: with what
    came since, if the session works on the merged branch by now.
    """
    project.write("a.txt", "one\n")
    project.commit()
    talk = Talk(project)
    talk.say("Make it work.", "It works.")
    project.write("a.txt", "two\n")
    project.gitcp("save", "first", check=0)
    project.gitcp("publish", "--branch", "one", "--yes", check=0)
    forge = Project(tmp_path / "forge", own_store=False)
    forge.git("fetch", "--quiet", str(project.git_dir), "main", "one")
    forge.git("reset", "--quiet", "--hard", project.git("rev-parse", "main"))
    forge.git("merge", "--quiet", *merge, project.git("rev-parse", "one"))
    forge.commit("pull request 1")
    if is_pulled:
        project.git("checkout", "--quiet", "--force", "main")
        project.git("pull", "--quiet", "--ff-only", str(forge.root), "main")
    talk.say("Go on.", "I go on.")
    project.write("b.txt", "b\n")
    project.gitcp("save", "second", check=0)
    project.gitcp("publish", "--branch", "two", "--yes", check=0)

    forge.git("fetch", "--quiet", str(project.git_dir), "two")
    forge.git("merge", "--quiet", "--no-ff", "-m", "pull request 2", "FETCH_HEAD")

    assert (forge.read("a.txt"), forge.read("b.txt")) == (b"two\n", b"b\n")
    assert b"I go on." in forge.read(".gitcp/e7baae82/conversation-2.md")
    subjects = project.git("log", "--format=%s", "two", "--not", "main").splitlines()
    assert ("first" in subjects) is not is_pulled


def test_branch(spoken: Project) -> None:
    """One commit for each checkpoint that changed files, and one with what was said; HEAD, index
    and files stay.
    """
    before = spoken.files()
    head, index, status = (
        spoken.git("rev-parse", "HEAD"),
        spoken.read(spoken.git_dir / "index"),
        spoken.git("status", "--porcelain"),
    )
    said = spoken.gitcp("publish", "--branch", "topic/x", "--yes", check=0).out

    assert said.startswith("published e7baae82@3 as branch topic/x  (3 commits)\n")
    assert commits(spoken, "topic/x") == ["a new file", "both", "Conversation of e7baae82"]
    assert spoken.git("diff", "--name-status", "main", "topic/x~1").splitlines() == [
        "M\ta.txt",
        "A\tnew/b.txt",
        "D\trun",
    ]
    assert spoken.git("diff", "--name-only", "topic/x~1", "topic/x").splitlines() == [
        ".gitcp/.gitattributes",
        ".gitcp/e7baae82/conversation-3.md",
    ]
    assert "It works." in spoken.git("show", "topic/x:.gitcp/e7baae82/conversation-3.md")
    assert "Gitcp-Checkpoint: e7baae82@3" in spoken.git("log", "-1", "--format=%B", "topic/x~1")
    assert spoken.git("fsck", "--strict", "--no-dangling", "--no-progress") == ""
    assert (spoken.git("rev-parse", "HEAD"), spoken.read(spoken.git_dir / "index")) == (head, index)
    assert spoken.git("status", "--porcelain") == status
    assert spoken.files() == before
    assert "* linguist-generated" in spoken.git("show", "topic/x:.gitcp/.gitattributes")
    linked = spoken.json("review", "main..topic/x")
    assert "e7baae82@3" in json.dumps(linked)


def test_plan(spoken: Project) -> None:
    """The plan is shown first and makes nothing; without a terminal --yes is needed."""
    with spoken.guard():
        shown = spoken.gitcp("publish", "--branch", "x", "--dry-run", check=0).out
        plan = spoken.json("publish", "--branch", "x", "--dry-run")
        refused = spoken.gitcp("publish", "--branch", "x", check=12)
    assert [c["subject"] for c in plan["commits"]] == [
        "a new file",
        "both",
        "Conversation of e7baae82",
    ]
    assert "2 files  both" in shown
    assert shown in refused.err
    assert "--yes" in refused.err
    assert spoken.json("publish", "--branch", "x", "--yes")["tip"] == plan["tip"]
    assert spoken.git("rev-parse", "x") == plan["tip"]


def test_existing_branch(spoken: Project) -> None:
    """A branch that is there is moved only with --force, and never while it is checked out."""
    spoken.git("branch", "x")
    with spoken.guard():
        assert "--force" in spoken.gitcp("publish", "--branch", "x", "--yes", check=12).err
        assert (
            "checked out"
            in spoken.gitcp("publish", "--branch", "main", "--force", "--yes", check=12).err
        )
        for name in ("a..b", "-x", "HEAD", "@{-1}", "x/", ""):
            assert spoken.gitcp("publish", f"--branch={name}", "--yes", check=2).err.startswith(
                "error: "
            )
    spoken.gitcp("publish", "--branch", "x", "--force", "--yes", check=0)
    assert commits(spoken, "x")[-1] == "Conversation of e7baae82"
    unborn = spoken.git("symbolic-ref", "HEAD", "refs/heads/unborn")
    assert unborn == ""
    assert "checked out" in spoken.gitcp("publish", "--branch", "unborn", "--yes", check=12).err


def test_other_base(spoken: Project) -> None:
    """On another base what that has stays, but for what the session changed; what both changed is
    refused by name.
    """
    spoken.git("stash", "--quiet", "--include-untracked")
    spoken.write("c.txt", "of main\n")
    spoken.write(".gitcp/older/conversation.md", "merged before\n")
    spoken.git("add", "--force", "c.txt", ".gitcp")
    spoken.commit()
    spoken.gitcp("publish", "--branch", "x", "--base", "main", "--yes", check=0)
    assert commits(spoken, "x") == ["a new file", "both", "Conversation of e7baae82"]
    assert spoken.git("diff", "--name-status", "main", "x~1").splitlines() == [
        "M\ta.txt",
        "A\tnew/b.txt",
        "D\trun",
    ]
    assert spoken.git("show", "x:.gitcp/older/conversation.md") == "merged before"

    spoken.write("a.txt", "otherwise\n")
    spoken.write("new", "a file where the session has a directory\n")
    spoken.commit()
    with spoken.guard():
        refused = spoken.gitcp("publish", "--branch", "y", "--base", "main", "--yes", check=12)
    assert "  a.txt\n  new/b.txt\n" in refused.err
    assert (
        "names no commit"
        in spoken.gitcp("publish", "--branch", "y", "--base", "nowhere", "--yes", check=2).err
    )


def test_no_base(project: Project) -> None:
    """A session that began before the first commit needs a base."""
    project.write("a.txt", "a\n")
    project.gitcp("save", "one", check=0)
    assert "--base" in project.gitcp("publish", "--branch", "x", "--yes", check=12).err


def test_secrets(spoken: Project) -> None:
    """A secret in a file stops it, or is replaced; one in the conversation is always replaced."""
    Talk(spoken).say(f"Use {TOKEN}.", "Yes.")
    spoken.write("env", f"KEY={TOKEN}\n")
    spoken.gitcp("save", "leak", check=0)
    with spoken.guard():
        refused = spoken.gitcp("publish", "--branch", "x", "--yes", check=15)
    assert ID in refused.err
    assert TOKEN not in refused.err

    spoken.gitcp("publish", "--branch", "x", "--redact", "--yes", check=0)
    assert spoken.git("show", "x:env") == "KEY=[REDACTED:github-token]"
    spoken.remove("env")
    spoken.gitcp("save", "clean", check=0)
    everything = spoken.git("log", "-p", "--format=%B", "main..x")
    assert TOKEN not in everything
    assert "REDACTED:github" in everything.replace("\\", "")
    spoken.gitcp("publish", "--branch", "y", "--allow", ID, "--yes", check=0)
    assert spoken.git("show", "y~2:env") == f"KEY={TOKEN}"


def test_author(spoken: Project) -> None:
    """A secret in the author's name or address leaves no more than one in a file: it stops the
    branch, or is replaced.
    """
    spoken.git("config", "user.name", TOKEN)
    spoken.write("a.txt", "three\n")
    spoken.gitcp("save", "three", check=0)
    with spoken.guard():
        refused = spoken.gitcp("publish", "--branch", "x", "--yes", check=15)
    assert f"{ID}  github-token" in refused.err
    assert "in author e7baae82@4" in refused.err
    spoken.gitcp("publish", "--branch", "x", "--redact", "--yes", check=0)
    names = spoken.git("log", "--format=%an %cn", "main..x")
    assert TOKEN not in names
    assert "[REDACTED:github-token] [REDACTED:github-token]" in names
    spoken.gitcp("publish", "--branch", "y", "--allow", ID, "--yes", check=0)
    assert TOKEN in spoken.git("log", "-1", "--format=%an", "y")


def test_foreign(spoken: Project) -> None:
    """What came from somebody else becomes a branch only with --trust."""
    spoken.gitcp("export", "-o", "../x.bundle", check=0)
    other = Project(spoken.root.parent / "other")
    other.write("a.txt", "one\n")
    other.commit()
    other.gitcp("import", "../x.bundle", check=0)
    arguments = ("publish", "imported/e7baae82", "--branch", "x", "--base", "main", "--yes")
    assert other.gitcp(*arguments, check=14).code == 14
    assert other.git("branch", "--list", "x") == ""


def test_beside_a_repack(spoken: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    """git puts its packs together after it read the refs, and before the branch is there: it is
    whole.
    """
    for number in range(MOST_LOOSE):
        spoken.write(f"dir{number}/file", f"{number}\n")
    spoken.gitcp("save", "many", check=0)
    store = open_store(spoken)
    checkpoint = store.read(next(iter(store.sessions().values())))
    plan = publish.plan(store, publish.PublishRequest(checkpoint, "topic", trust=True))
    set_branch = worktrees.set_branch

    def late(*args: Any) -> bool:
        spoken.git("repack", "-adq")
        return set_branch(*args)

    monkeypatch.setattr(worktrees, "set_branch", late)
    publish.publish(store, plan)

    assert spoken.git("rev-list", "--count", "topic")
    assert spoken.git("fsck", "--strict", "--no-dangling", "--no-progress") == ""
    assert not list(spoken.git_dir.glob("objects/pack/*.keep"))
