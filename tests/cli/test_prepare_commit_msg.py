"""`gitcp enable git`: a trailer in each commit's message, beside whatever hooks there are, and gone
to the byte.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gitcp.automation.install import scripts, shipped
from gitcp.errors import BadValue

from driver import SOURCE, Project

HOOK = ".git/hooks/prepare-commit-msg"
SCRIPT = shipped.read("git/prepare-commit-msg").decode()
THEIRS = {
    "plain": "#!/bin/sh\necho theirs >> ran\n",
    "bash by env": '#!/usr/bin/env bash\nset -eu\necho theirs >> ran\nexec true "$@"\n',
    "no line end": "#!/bin/sh -e\necho theirs >> ran",
    "ends early": "#!/bin/dash\necho theirs >> ran\nexit 0\n",
}


@pytest.fixture
def project(project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    """A project with a commit and a checkpoint of something new, and `gitcp` on the PATH."""
    programs = tmp_path / "bin"
    programs.mkdir()
    programs.joinpath("gitcp").write_text(
        f'#!/bin/sh\nPYTHONPATH="{SOURCE}" exec "{sys.executable}" -P -m gitcp "$@"\n'
    )
    programs.joinpath("gitcp").chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}{os.pathsep}{os.environ['PATH']}")
    project.write("a.txt", "one\n")
    project.commit("begin")
    project.write("a.txt", "two\n")
    project.gitcp("save", "two", "--session", "work", check=0)
    return project


def trailer(project: Project) -> str:
    """What the last commit's message says of checkpoints."""
    return project.git(
        "log", "-1", "--format=%(trailers:key=Gitcp-Checkpoint,valueonly,separator=%x2C)"
    )


def test_commits_are_named(project: Project) -> None:
    """Once it is asked for, a commit names the checkpoint that stands below it; an amended one
    keeps it.
    """
    project.gitcp("enable", "git", "--yes", check=0)
    project.commit("two")
    assert trailer(project) == "work@1"
    assert project.json("review", "HEAD~1..")["commits"][0]["how"] == "trailer"

    project.git("commit", "--quiet", "--amend", "--no-edit")
    assert trailer(project) == "work@1"
    # git does not say that it amends
    project.git("commit", "--quiet", "--amend", "-m", "two, said anew")
    assert project.json("review", "HEAD~1..")["commits"][0]["how"] == "tree"

    project.write("a.txt", "by hand\n")
    project.commit("no checkpoint since")
    assert trailer(project) == ""


def test_taken_back(project: Project) -> None:
    """Nothing is left of it, and commits are as before."""
    before = project.files() | {HOOK.encode(): None}
    project.gitcp("enable", "git", "--yes", check=0)
    assert os.access(project.path(HOOK), os.X_OK)
    assert "nothing to do" in project.gitcp("enable", "git", "--yes", check=0).out
    project.gitcp("disable", "git", "--yes", check=0)

    project.commit("two")
    assert project.files() | {HOOK.encode(): None} == before
    assert not os.path.lexists(project.path(HOOK))
    assert trailer(project) == ""


@pytest.mark.parametrize("theirs", THEIRS.values(), ids=THEIRS)
def test_beside_others(project: Project, theirs: str) -> None:
    """A hook that is there still runs, also where it ends by another program; and is as it was when
    ours is gone.
    """
    project.write(HOOK, theirs, 0o755)
    project.gitcp("enable", "git", "--yes", check=0)
    project.commit("two")
    assert trailer(project) == "work@1"
    assert project.read("ran") == b"theirs\n"

    project.gitcp("disable", "git", "--yes", check=0)
    assert project.read(HOOK) == theirs.encode()


@pytest.mark.parametrize(
    ("theirs", "mode", "why"),
    [
        ("#!/usr/bin/python3\n", 0o755, "not a shell script"),
        ("#!/bin/sh\n", 0o644, "not executable"),
        (b"\xff\0", 0o755, "UTF-8"),
    ],
)
def test_left_alone(project: Project, theirs: str | bytes, mode: int, why: str) -> None:
    """What is no shell script, or is not run, is left as it is, and said."""
    project.write(HOOK, theirs, mode)

    assert why in project.gitcp("enable", "git", "--yes", check=1).out
    assert project.read(HOOK) == (theirs if isinstance(theirs, bytes) else theirs.encode())


def test_hooks_elsewhere(project: Project, tmp_path: Path) -> None:
    """Where core.hooksPath points; above the directory that husky makes anew; never outside of the
    project.
    """
    project.git("config", "core.hooksPath", ".githooks")
    project.gitcp("enable", "git", "--yes", check=0)
    assert os.access(project.path(".githooks/prepare-commit-msg"), os.X_OK)
    project.gitcp("disable", "git", "--yes", check=0)

    project.write(
        ".husky/_/prepare-commit-msg",
        '#!/bin/sh\nsh -e "$(dirname "$0")/../prepare-commit-msg" "$@"\n',
        0o755,
    )
    project.write(".husky/prepare-commit-msg", "echo theirs >> ran\n")
    project.git("config", "core.hooksPath", ".husky/_")
    project.gitcp("enable", "git", "--yes", check=0)
    project.commit("two")
    assert trailer(project) == "work@1"
    assert project.read("ran") == b"theirs\n"
    project.gitcp("disable", "git", "--yes", check=0)
    assert project.read(".husky/prepare-commit-msg") == b"echo theirs >> ran\n"

    project.git("config", "core.hooksPath", str(tmp_path / "shared"))
    assert "shared with other projects" in project.gitcp("enable", "git", "--yes", check=2).err
    assert not (tmp_path / "shared").exists()


def test_a_commit_never_fails(project: Project) -> None:
    """Whatever the store holds, and whatever the arguments are: commits are made, and nothing is
    said.
    """
    project.gitcp("enable", "git", "--yes", check=0)
    project.write(project.git_dir / "refs/gitcp/sessions/work", "nonsense\n")
    assert project.commit("two")
    project.remove(project.git_dir / "refs/gitcp/sessions/work")
    for arguments in (
        (),
        ("prepare-commit-msg",),
        ("prepare-commit-msg", "nowhere"),
        ("other", "a", "b", "c"),
    ):
        assert project.gitcp("hook", "git", *arguments) == (0, "", "")


@given(st.text(alphabet="#!/bin/sh \n\rgitcp:e'é\t", max_size=60))
def test_to_the_byte(rest: str) -> None:
    """Whatever a shell script says, putting the block in and taking it out gives the same bytes."""
    for text in (f"#!/bin/sh\n{rest}", rest):
        try:
            made = scripts.merged(text, SCRIPT)
        except BadValue:
            continue
        assert scripts.merged(made, SCRIPT) == made
        assert scripts.removed(made, SCRIPT) == (None if made == SCRIPT else text)
