"""`gitcp why`: who made a line, who changed a path, and why a path is in no checkpoint."""

from __future__ import annotations

from pathlib import Path

import pytest
from talk import Talk

from driver import Project


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
        "unclaimed: written by you or a script, by no session that gitcp knows of",
        "prompt: Make it loud.",
        "see: gitcp diff e7baae82@2~1 e7baae82@2 -- app.py",
    ]
    assert "+TWO" in worked.gitcp("diff", "e7baae82@2~1", "e7baae82@2", "--", "app.py", check=0).out
    assert "not saved yet" in worked.gitcp("why", "app.py:1", check=0).out
    assert "git blame" in worked.gitcp("why", "app.py:2", check=0).out


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
