"""A host that checks objects with git's fsck, as GitHub and GitLab do."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from driver import Project

BAD = '[submodule "x"]\n\tpath = x\n\turl = -uevil\n'


@pytest.fixture
def checking(project: Project, tmp_path: Path) -> Path:
    """A remote that refuses what fsck calls an error."""
    hub = tmp_path / "hub.git"
    project.git("init", "-q", "--bare", str(hub))
    project.git("--git-dir", str(hub), "config", "receive.fsckObjects", "true")
    project.write("a", "one\n")
    project.commit()
    project.gitcp("remote", "add", "hub", str(hub), check=0)
    return hub


def pushed(project: Project, hub: Path) -> str:
    """Return the sessions that the host has."""
    listed = project.git("--git-dir", str(hub), "for-each-ref", "--format=%(refname)")
    names = sorted(ref.rpartition("/")[2] for ref in listed.split())
    return " ".join(name for name in names if name != "catalogue")


def test_the_path_is_named(project: Project, checking: Path) -> None:
    """git tells an object's name; gitcp tells the path, the checkpoint, and what removes it."""
    project.gitcp("save", "--session", "s", check=0)
    project.write("sub/.gitmodules", BAD)
    project.gitcp("save", "--session", "s", check=0)
    project.write("b", "later\n")
    project.gitcp("save", "--session", "s", check=0)

    done = project.gitcp("push", "hub", "--session", "s", check=1)

    assert "refuses sub/.gitmodules in s@2: gitmodulesUrl: disallowed submodule url" in done.err
    assert "hint: gitcp purge --path sub/.gitmodules --dry-run" in done.err
    project.gitcp("purge", "--path", "sub/.gitmodules", "--yes", check=0)
    project.gitcp("push", "hub", "--session", "s", check=0)
    assert pushed(project, checking) == "s"


def test_other_sessions_are_sent(project: Project, checking: Path) -> None:
    """The host refuses all refs of a push for one object; those without it are sent again."""
    project.gitcp("save", "--session", "good", check=0)
    project.gitcp("save", "--session", "fine", "--force", check=0)
    project.write(".gitmodules", BAD)
    project.gitcp("save", "--session", "bad", "--tag", "t", check=0)
    os.unlink(project.path(".gitmodules"))
    os.symlink("a", project.path(".gitmodules"))
    project.gitcp("save", "--session", "worse", check=0)

    done = project.gitcp("push", "hub", "--all", check=3)

    assert pushed(project, checking) == "fine good"
    assert "refuses .gitmodules in bad@1" in done.out
    assert "refuses the directory / in worse@1: gitmodulesSymlink" in done.out
    assert {each["session"] for each in project.json_lines("fetch", "hub", "--list")} == {
        "fine",
        "good",
    }


ACCEPTED = ("sub/.GIT/x", "sub/git~1/x", "sub/.git /x", "sub/.g\u200cit/x", "a\\b", "\n")


def test_odd_names_are_taken(project: Project, checking: Path) -> None:
    """Names that git itself refuses are not in a checkpoint's tree by these names."""
    for path in ACCEPTED:
        project.write(path, "x\n")

    project.gitcp("save", "--session", "s", check=0)
    project.gitcp("push", "hub", "--session", "s", check=0)

    assert pushed(project, checking) == "s"
