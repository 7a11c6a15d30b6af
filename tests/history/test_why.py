"""`gitcp why`: who made a line, who changed a path, and why a path is in no checkpoint."""

from __future__ import annotations

from pathlib import Path

import pytest
from back import last
from talk import Talk

from gitcp.history import authors
from gitcp.history import why as op

from driver import Project
from samples import open_store


@pytest.fixture
def worked(project: Project) -> Project:
    """Three checkpoints, each with a prompt and a change, and an edit that no checkpoint has."""
    project.write("app.py", "one\ntwo\nthree\n")
    project.write(".gitignore", "/build\n")
    project.commit()
    talk = Talk(project)
    talk.say("Begin.", "Done.")
    project.gitcp("save", "first", check=0)
    talk.say("Make it loud.", "LOUD.")
    project.write("app.py", "one\nTWO\nthree\n")
    project.gitcp("save", "second", check=0)
    talk.say("Add four.", "Added.")
    project.write("app.py", "one\nTWO\nthree\nfour\n")
    project.gitcp("save", "third", check=0)
    project.write("app.py", "zero\none\nTWO\nthree\nfour\n")
    project.write("build/out", "made\n")
    return project


def test_line(worked: Project) -> None:
    """Lines are counted in the file as it is; each is the one checkpoint's that made it, with what
    was asked for.
    """
    with worked.guard():
        loud = worked.json("why", "app.py:3")
    made = {n: worked.json("why", f"app.py:{n}")["checkpoint"] for n in range(1, 6)}

    assert (loud["text"], loud["prompt"], loud["began"]) == ("TWO", "Make it loud.", False)
    assert made == {1: None, 2: "e7baae82@1", 3: "e7baae82@2", 4: "e7baae82@1", 5: "e7baae82@3"}
    assert worked.json("why", "app.py:2")["began"] is True


def test_said(worked: Project) -> None:
    """What a person reads: the line, its checkpoint, the prompt, and what to type next."""
    said = worked.gitcp("why", "app.py:3", check=0).out.splitlines()
    assert said[0] == "app.py:3  TWO"
    assert said[1].startswith('added by e7baae82@2 "second"  (')
    assert said[2:] == [
        "unclaimed: not written by any recorded session, so by you or a script",
        "last prompt before that: Make it loud.",
        "see: gitcp diff e7baae82@2~1 e7baae82@2 -- app.py",
    ]
    assert "+TWO" in worked.gitcp("diff", "e7baae82@2~1", "e7baae82@2", "--", "app.py", check=0).out
    assert "not saved yet" in worked.gitcp("why", "app.py:1", check=0).out
    older = worked.gitcp("why", "app.py:2", check=0).out.splitlines()
    assert older[1].startswith('there since the session\'s first checkpoint, e7baae82@1 "first"  (')
    (command,) = [line for line in older if "git blame" in line]
    assert "one" in worked.git(*command.removeprefix("before that: git ").split())


def test_in_no_commit(project: Project) -> None:
    """A file that is newer than the commit before the session is blamed on nobody."""
    project.write("b.txt", "b\n")
    project.gitcp("save", check=0)
    assert "not in any commit" in project.gitcp("why", "b.txt:1", check=0).out
    project.git("commit", "--quiet", "--allow-empty", "--message", "first")
    project.gitcp("save", "--session", "other", check=0)
    head = project.git("rev-parse", "HEAD").strip()
    said = project.gitcp("why", "b.txt:1", "other", check=0).out
    assert f"not in the commit before it, {head[:10]}" in said


def test_path(worked: Project) -> None:
    """The checkpoints that changed a path, the newest first; and why a path is in none."""
    assert worked.json("why", "app.py")["changed"] == ["e7baae82@3", "e7baae82@2", "e7baae82@1"]
    assert worked.json("why", "app.py", "2")["changed"] == ["e7baae82@2", "e7baae82@1"]
    assert worked.json("why", "build/out")["missing"].startswith("ignored")
    assert worked.json("why", "nowhere")["missing"] == "not on disk and in no checkpoint"
    assert worked.json("why", ".git/config")["missing"].startswith("never saved")
    worked.write("new", "new\n")
    assert "gitcp save includes it" in worked.json("why", "new")["missing"]


def test_left_out(worked: Project) -> None:
    """What a save left out says the reason that was given then."""
    worked.git("config", "gitcp.maxFileSize", "10")
    worked.write("large", "x" * 100)
    worked.gitcp("save", check=0)

    assert worked.json("why", "large")["missing"].startswith("skipped in e7baae82@4: too-large")


def test_no_program_runs(worked: Project, tmp_path: Path) -> None:
    """The user's textconv and what blame is told to ignore are no business of ours."""
    trap = tmp_path / "ran"
    worked.git("config", "diff.trap.textconv", f"touch '{trap}'; cat")
    tmp_path.joinpath("revs").write_text(
        worked.git("rev-parse", "refs/gitcp/sessions/e7baae82~1") + "\n"
    )
    worked.git("config", "blame.ignoreRevsFile", str(tmp_path / "revs"))
    worked.write(worked.git_dir / "info/attributes", "* diff=trap\n")

    assert worked.json("why", "app.py:3")["checkpoint"] == "e7baae82@2"
    assert not trap.exists()


def test_refused(worked: Project) -> None:
    """A line or a file that is not there, a place outside."""
    assert "has 5 lines: no line 9" in worked.gitcp("why", "app.py:9", check=2).err
    assert "is not a file" in worked.gitcp("why", "nowhere:1", check=2).err
    assert "is outside " in worked.gitcp("why", "../x", check=2).err
    worked.gitcp("why", "app.py", "77", check=16)


@pytest.mark.parametrize(
    "steps",
    [
        (("restore", "1"), ("undo",)),
        (("restore", "1"), ("undo",), ("redo",), ("undo",)),
        (("restore", "1", "--", "app.py"), ("restore", "2", "--files")),
        (("restore", "1"), ("restore", "3")),
        (("revert", "2"), ("undo",)),
    ],
    ids=["undo", "redo", "restores", "later", "revert"],
)
def test_restores_write_nothing(worked: Project, steps: tuple[tuple[str, ...], ...]) -> None:
    """A line that restores take away and give back is still its author's, and was still asked for
    by the same prompt.
    """
    worked.write("app.py", "one\nTWO\nthree\nfour\n")
    for command, *rest in steps:
        worked.gitcp(command, "--yes", *rest, check=0)
    told = worked.json("why", "app.py:2")

    assert (told["text"], told["checkpoint"]) == ("TWO", "e7baae82@2")
    assert told["prompt"] == "Make it loud."
    reverted = ["e7baae82@4"] if steps[0][0] == "revert" else []  # a state that was in no other
    listed = worked.json("why", "app.py")["changed"]
    assert listed == [*reverted, "e7baae82@3", "e7baae82@2", "e7baae82@1"]


def test_restored_from_a_dropped_checkpoint(
    worked: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The checkpoint that undo restored is gone: an older one that has the line is as good."""
    worked.write("app.py", "one\nTWO\nthree\nfour\n")
    worked.gitcp("restore", "1", "--yes", check=0)
    worked.gitcp("undo", "--yes", check=0)
    store = open_store(worked)
    monkeypatch.setattr(authors, "restored_source", lambda *_: None)

    told = op.line(store, last(worked, "e7baae82"), b"app.py", 2)
    assert told.made is not None
    assert str(told.made.id) == "e7baae82@2"


def test_restored_from_another_session(worked: Project) -> None:
    """What a session restored from another one is that one's line, also in what is saved later."""
    worked.write("app.py", "one\n")
    worked.gitcp("save", "--session", "beta", check=0)
    worked.gitcp("restore", "e7baae82@2", "--session", "beta", "--yes", "--", "app.py", check=0)
    worked.write("other", "beta's\n")
    worked.gitcp("save", "--session", "beta", check=0)

    told = worked.json("why", "--session", "beta", "app.py:2")
    assert (told["text"], told["checkpoint"]) == ("TWO", "e7baae82@2")
    assert worked.json("why", "--session", "beta", "app.py")["changed"] == ["beta@2", "beta@1"]


@pytest.mark.parametrize(
    "setting",
    [
        "blame.ignoreRevsFile=.git-blame-ignore-revs",
        "blame.date=unknown",
        "blame.blankBoundary=true",
        "blame.coloring=repeatedLines",
        "color.blame.highlightRecent=unknown",
        "color.ui=always",
        "diff.algorithm=unknown",
        "diff.external=false",
        "diff.noprefix=true",
        "diff.orderFile=.order",
        "diff.renames=false",
        "diff.text.textconv=false",
        "log.date=unknown",
        "log.follow=true",
        "log.showSignature=true",
    ],
)
def test_whatever_the_settings(worked: Project, setting: str) -> None:
    """The user's settings for blame, diff and log change no answer: those that name a file which
    this repository does not have stopped git.
    """
    worked.write(".git/info/attributes", "*.py diff=text\n")
    before = worked.json("why", "app.py:3")

    name, _, value = setting.partition("=")
    worked.git("config", "--global", name, value)

    assert worked.json("why", "app.py:3") == before
    assert worked.json("why", "app.py")["changed"][0] == "e7baae82@3"


def test_converted(project: Project) -> None:
    """Lines of a file that git converts are counted as they are read, and compared as stored."""
    project.write(".gitattributes", "*.u text working-tree-encoding=UTF-16\n*.id ident\n")
    talk = Talk(project)
    for number in range(2):
        talk.say(f"Step {number}.", "Done.")
        project.write("v.u", f"first\nstep {number}\n".encode("utf-16"))
        project.write("x.id", f"first\n$Id$\nstep {number}\n")
        project.commit()
        project.remove("x.id")
        project.git("checkout", "--", "x.id")
        project.gitcp("save", f"step {number}", check=0)

    line = project.json("why", "v.u:2")
    assert (line["text"], line["checkpoint"]) == ("step 1", "e7baae82@2")
    assert b"$Id: " in project.read("x.id")
    assert project.json("why", "x.id:2")["checkpoint"] == "e7baae82@1"
    assert project.json("why", "x.id:3")["checkpoint"] == "e7baae82@2"

    project.write("v.u", b"no UTF-16\n")
    assert project.json("why", "v.u:1")["checkpoint"] is None
