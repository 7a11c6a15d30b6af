"""Settings that cannot be read stop nothing that saves, looks or goes back; what they protect is
refused.
"""

from __future__ import annotations

import os
from collections.abc import Callable

import pytest

from gitcp.errors import BadValue
from gitcp.state import settings
from gitcp.worktree.snapshot import Limits

from driver import Project
from samples import open_store

GOOD = "[save]\nmax_file_size = 2000\n"


def text(content: str | bytes) -> Callable[[Project], None]:
    """A way to break the settings: this content."""
    return lambda project: project.write(".gitcp.toml", content)


def directory(project: Project) -> None:
    """A directory in the place of the settings."""
    project.remove(".gitcp.toml")
    os.mkdir(project.path(".gitcp.toml"))


def loop(project: Project) -> None:
    """A link to itself in the place of the settings."""
    project.remove(".gitcp.toml")
    project.symlink(".gitcp.toml", ".gitcp.toml")


def in_git(project: Project) -> None:
    """A value in git's config, and an edit."""
    project.write("a.txt", "three\n")
    project.git("config", "gitcp.maxFileSize", "lots")


BROKEN: dict[str, tuple[Callable[[Project], None], str]] = {
    "syntax": (text("[save]\nmax_file_size = = 3\n"), "line 2"),
    "type": (text("[save]\n\nmax_file_size = 'x'\n"), "save.max_file_size in .gitcp.toml:3 is 'x'"),
    "number": (text(f"[save]\nmax_file_size = {'9' * 5000}\n"), ".gitcp.toml"),
    "size": (text(f"[save]\nmax_file_size = {'9' * 30}\n"), ".gitcp.toml:2"),
    "nesting": (text("a = " + "[" * 5000), ".gitcp.toml"),
    "encoding": (text(b"[save]\n# \xff\n"), "not UTF-8"),
    "unknown": (text("[save]\nmax_size = 3\n"), "save.max_size"),
    "table": (text("\nsave = 3\n"), ".gitcp.toml:2"),
    "directory": (directory, "not a small file"),
    "loop": (loop, ".gitcp.toml cannot be read"),
    "git config": (in_git, "gitcp.maxFileSize is 'lots'"),
}


@pytest.fixture
def saved(project: Project) -> Project:
    """A project with good settings and two checkpoints."""
    project.write(".gitcp.toml", GOOD)
    project.write("a.txt", "one\n")
    project.gitcp("save", "one", check=0)
    project.write("a.txt", "two\n")
    project.gitcp("save", "two", check=0)
    return project


@pytest.mark.parametrize("how", BROKEN)
def test_going_back(saved: Project, how: str) -> None:
    """The edit that broke the settings is itself taken back, by undo too, and every look goes
    on.
    """
    broken, said = BROKEN[how]
    good = saved.files()
    broken(saved)
    wreck = saved.files()
    for command in (
        ("log",),
        ("show",),
        ("diff",),
        ("status",),
        ("list",),
        ("sessions",),
        ("restore", "1", "-n"),
    ):
        done = saved.gitcp(*command, check=0)
        assert done.err.count("warning: ") <= 1

    with saved.guard():
        done = saved.gitcp("restore", "2", "--yes", check=0)
        assert saved.files() == good
        assert said in done.err
        assert done.err.count("warning: ") == 1
        assert done.err.count("\n") == 1
        saved.gitcp("undo", "--yes", check=0)
        assert saved.files() == wreck
        saved.gitcp("redo", "--yes", check=0)
        assert saved.files() == good
        broken(saved)
        saved.write("a.txt", "three\n")
        saved.gitcp("rollback", "--yes", check=0)
        assert saved.files() == good


@pytest.mark.parametrize("how", BROKEN)
def test_what_is_protected(saved: Project, how: str) -> None:
    """Where a setting protects, a mistake in it is an error, with its place."""
    broken, said = BROKEN[how]
    broken(saved)
    repo = open_store(saved).repo
    mistakes: list[BadValue] = []
    assert (
        settings.limits(repo, mistakes=mistakes).max_dependency_files
        == Limits().max_dependency_files
    )
    assert settings.limits(repo, ("*.log",)).include == ("*.log",)
    assert len(mistakes) == 1
    assert said in str(mistakes[0])
    if how in ("type", "size", "git config"):  # of settings that these do not read
        return
    for strict in (settings.retention, settings.allowed_secrets):
        with pytest.raises(BadValue, match=r"gitcp\.toml"):
            strict(repo)


def test_push_is_refused(saved: Project) -> None:
    """Nothing is sent by rules that cannot be read."""
    hub = Project(saved.root.parent / "hub")
    saved.gitcp("remote", "hub", str(hub.root), check=0)
    saved.write(".gitcp.toml", "[secrets]\nallow_secrets = 3\n")
    assert "allow_secrets" in saved.gitcp("push", check=2).err
    assert hub.git("for-each-ref") == ""
    saved.gitcp("save", check=0)


def test_the_rest_holds(saved: Project) -> None:
    """One mistake does not cost the settings beside it."""
    saved.write("big", "x" * 3000)
    saved.write(
        ".gitcp.toml", "[save]\nmax_file_size = 2000\nmax_dependency_files = 'x'\nnew = 1\n[else]\n"
    )
    done = saved.gitcp("save", check=0)
    assert done.err.count("warning: ") == 3
    assert "not saved: big" in done.out


def test_hooks_go_on(saved: Project) -> None:
    """A hook saves by the settings that can be read, and logs the others."""
    saved.write(".gitcp.toml", "[triggers]\ntools = false\nturn = 'x'\n")
    for event in ("PostToolUse", "Stop"):
        saved.write("a.txt", event)
        done = saved.gitcp(
            "hook", "claude", event, input=f'{{"session_id": "s", "tool_name": "{event}"}}', check=0
        )
        assert (done.out, done.err) == ("", "")
    assert [each["trigger"] for each in saved.json_lines("log", "--session", "s")] == ["turn"]
    assert (
        "triggers.turn in .gitcp.toml:3 is 'x'"
        in saved.git_dir.joinpath("gitcp/hook.log").read_text()
    )
