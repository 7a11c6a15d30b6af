"""`gitcp resume`: what must go back goes back, then the agent is started where it continues."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from talk import SESSION, Talk
from terminal import on_terminal

from driver import SOURCE, Project

CLAUDE = ("claude", "--resume", SESSION)


@pytest.fixture
def talk(project: Project) -> Talk:
    """A project with two checkpoints of an agent's session."""
    project.write("app.py", "one\n")
    project.write("src/lib.py", "")
    project.commit()
    talk = Talk(project)
    talk.say("begin", "begun")
    project.gitcp("save", "first", check=0)
    project.write("app.py", "two\n")
    talk.say("go on", "gone on")
    project.gitcp("save", "second", check=0)
    return talk


@pytest.fixture
def started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[], list[str]]:
    """An agent that writes down how it was started; gives that, line by line: its directory, then
    its arguments.
    """
    log, programs = tmp_path / "started", tmp_path / "bin"
    programs.mkdir()
    for name in ("claude", "opencode"):
        programs.joinpath(name).write_text(
            f'#!/bin/sh\npwd >>"{log}"\necho {name} "$@" >>"{log}"\nexit 7\n'
        )
        programs.joinpath(name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}{os.pathsep}{os.environ['PATH']}")
    return lambda: log.read_text("utf-8").splitlines() if log.exists() else []


def test_goes_on(project: Project, talk: Talk, started: Callable[[], list[str]]) -> None:
    """Without a revision nothing goes back: what the agent and the user did since stays, and is
    saved.
    """
    project.write("app.py", "three\n")
    talk.say("unsaved", "yes")
    files, said = project.files(), talk.path.read_bytes()

    with project.guard():
        done = project.gitcp("resume")

    assert done.code == 7, done.err  # the agent's own: it took our place
    assert started() == [str(talk.cwd), " ".join(CLAUDE)]
    assert (project.files(), talk.path.read_bytes()) == (files, said)
    assert project.json("show")["conversation"]["messages"] == 6


def test_missing_conversation(
    project: Project, talk: Talk, started: Callable[[], list[str]]
) -> None:
    """In an empty home the conversation is put back first, and the files still stay."""
    said = talk.path.read_bytes()
    shutil.rmtree(Path(os.environ["HOME"], ".claude"))
    project.write("app.py", "three\n")

    assert project.gitcp("resume", "--print", check=0).out == "gitcp resume --session e7baae82\n"
    assert project.gitcp("resume").code == 12
    assert started() == []
    assert project.gitcp("resume", "--yes").code == 7

    assert started() == [str(talk.cwd), " ".join(CLAUDE)]
    assert talk.path.read_bytes() == said
    assert project.read("app.py") == b"three\n"


def test_earlier(project: Project, talk: Talk, started: Callable[[], list[str]]) -> None:
    """With a revision files and conversation go back; the agent is started with the id that the
    restore gave.
    """
    said = talk.path.read_bytes()

    with project.guard():
        done = project.gitcp("resume", "1", "--yes")

    assert done.code == 7, done.err
    assert project.read("app.py") == b"one\n"
    assert talk.path.read_bytes() == said
    directory, command = started()
    new = command.split()[-1]
    assert (directory, new != SESSION) == (str(talk.cwd), True)
    assert talk.path.with_name(f"{new}.jsonl").read_bytes() == b"".join(
        said.splitlines(keepends=True)[:2]
    )
    assert f"continue with: {command}" in done.out
    assert project.gitcp("undo", "--yes", check=0)
    assert project.read("app.py") == b"two\n"


def test_asks(project: Project, talk: Talk, started: Callable[[], list[str]]) -> None:
    """On a terminal the plan is shown and asked about; "no" changes and starts nothing."""
    refused = on_terminal(project, "resume", "1", typed="n\n")

    assert refused.code == 12
    assert "1 file would be written" in refused.out
    assert started() == []
    assert project.read("app.py") == b"two\n"

    assert on_terminal(project, "resume", "1", typed="y\n").code == 7
    assert project.read("app.py") == b"one\n"
    assert len(started()) == 2


def test_print(project: Project, talk: Talk) -> None:
    """`--print` shows the command and changes nothing; no agent needs to be installed for it."""
    project.write("app.py", "three\n")
    talk.say("unsaved", "yes")
    before = (project.files(), project.git("for-each-ref"))

    same = project.gitcp("resume", "--print", check=0)
    other = project.gitcp("resume", "1", "--print", check=0)
    document = project.json("resume", "--print")

    assert other.out == "gitcp resume e7baae82@1\n"
    assert "gitcp must restore the conversation first" in other.err
    assert document["directory"] == str(talk.cwd)
    assert document["resume"]["command"] == [*CLAUDE]
    assert same.out == " ".join(CLAUDE) + "\n"
    assert (project.files(), project.git("for-each-ref")) == before


def test_print_of_what_is_here(project: Project, talk: Talk) -> None:
    """Where nothing must be restored it is the agent's command, and the way to its directory."""
    assert project.gitcp("resume", "--print", check=0).out == " ".join(CLAUDE) + "\n"
    inside = project.gitcp("resume", "2", "--print", cwd=project.root / "src", check=0)
    assert inside.out == f"cd {talk.cwd} && {' '.join(CLAUDE)}\n"


def test_right_directory(project: Project, talk: Talk, started: Callable[[], list[str]]) -> None:
    """From a subdirectory the agent is started where it has the conversation, not beside it."""
    project.gitcp("resume", cwd=project.root / "src", check=7)

    assert started() == [str(talk.cwd), " ".join(CLAUDE)]


@pytest.fixture
def elsewhere(project: Project, tmp_path: Path) -> Talk:
    """A session in a linked working tree on a branch of its own, saved there with a file that is
    not committed.
    """
    project.write("app.py", "one\n")
    project.commit()
    project.git("worktree", "add", "--quiet", "-b", "topic", str(tmp_path / "topic"))
    tree = Project(tmp_path / "topic")
    tree.write("new.py", "of the topic\n")
    talk = Talk(tree)
    talk.say("begin", "begun")
    tree.gitcp("save", check=0)
    return talk


@pytest.mark.parametrize("how", ["removed", "deleted", "branch too", "no commit"])
def test_a_working_tree_that_is_gone(
    project: Project, elsewhere: Talk, started: Callable[[], list[str]], how: str
) -> None:
    """The agent is not started without the files. What the hint says makes the working tree, and
    starts it there.
    """
    if how == "deleted":
        shutil.rmtree(elsewhere.cwd)
    else:
        project.git("worktree", "remove", "--force", str(elsewhere.cwd))
    if how == "branch too":
        project.git("branch", "-D", "topic")
    if how == "no commit":
        project.git("update-ref", "-d", "refs/heads/topic")
        project.git("update-ref", "-d", "refs/heads/main")
        project.git("reflog", "expire", "--expire=now", "--all")
        project.git("gc", "--quiet", "--prune=now")
    before = (project.files(), project.git("for-each-ref"))

    for more in ((), ("--print",)):
        refused = project.gitcp("resume", "--session", "e7ba", *more, check=12)
        assert "'topic' of session e7baae82 no longer exists" in refused.err
    assert started() == []
    assert (project.files(), project.git("for-each-ref")) == before
    hint = refused.err.partition("hint: ")[2].strip()
    ours = f"PYTHONPATH={SOURCE} {sys.executable} -P -m gitcp"
    subprocess.run(
        ["sh", "-c", hint.replace("gitcp", ours) + " --yes"], cwd=project.root, check=False
    )

    assert (elsewhere.cwd / "new.py").read_text() == "of the topic\n"
    assert not (project.root / "new.py").exists()
    assert started() == ([] if how == "no commit" else [str(elsewhere.cwd), " ".join(CLAUDE)])


def test_a_session_of_another_working_tree(
    project: Project, elsewhere: Talk, started: Callable[[], list[str]]
) -> None:
    """It is at work there, and the hint goes there; so for a session of the main one, from the
    linked one.
    """
    refused = project.gitcp("resume", "--session", "e7ba", check=12)
    assert f"hint: cd {elsewhere.cwd} && gitcp resume --session e7baae82\n" in refused.err
    project.gitcp("resume", "--session", "e7ba", cwd=elsewhere.cwd, check=7)
    assert started() == [str(elsewhere.cwd), " ".join(CLAUDE)]

    Talk(project, "aaaaaaaa-5d1c-4f0a-9b3e-2c6d8f1a7b90").say("begin", "begun")
    project.gitcp("save", check=0)
    refused = project.gitcp("resume", "--session", "aaaa", cwd=elsewhere.cwd, check=12)
    assert f"hint: cd {project.root} && gitcp resume --session aaaaaaaa\n" in refused.err
    project.gitcp("restore", "aaaaaaaa@1", "--yes", cwd=elsewhere.cwd, check=0)
    project.gitcp("resume", "--session", "aaaa", cwd=elsewhere.cwd, check=7)


def test_json_starts_nothing(
    project: Project, talk: Talk, started: Callable[[], list[str]]
) -> None:
    """For programs the command is printed after the restore, not run."""
    document = project.json("resume", "1", "--yes")

    assert started() == []
    assert document["schema"] == "gitcp.resume/1"
    assert (document["checkpoint"], document["restore"]) == ("e7baae82@1", False)
    assert project.read("app.py") == b"one\n"
    assert Path(document["resume"]["path"]).stem == document["resume"]["session_id"]


def test_no_agent(project: Project) -> None:
    """A session without an agent has nothing to resume: nothing goes back, and what to type is
    said.
    """
    project.write("app.py", "one\n")
    project.gitcp("save", "--session", "work", check=0)
    project.write("app.py", "two\n")
    project.gitcp("save", "--session", "work", check=0)

    done = project.gitcp("resume", "work@1", "--yes", check=1)

    assert "has no conversation: no agent was started" in done.err
    assert "hint: gitcp restore work@1" in done.err
    assert project.read("app.py") == b"two\n"


def test_not_installed(project: Project, talk: Talk, tmp_path: Path) -> None:
    """An agent that is not there is said before anything goes back."""
    programs = tmp_path / "programs"
    programs.mkdir()
    git = shutil.which("git")
    assert git is not None
    programs.joinpath("git").symlink_to(git)

    done = project.gitcp("resume", "1", "--yes", env={"PATH": str(programs)}, check=1)

    assert "claude is not on PATH: nothing was restored and no agent was started" in done.err
    assert project.read("app.py") == b"two\n"


def test_nothing_saved(project: Project) -> None:
    """Without a checkpoint there is nothing to resume."""
    assert project.gitcp("resume").code == 16
    assert project.gitcp("resume", "99").code == 16
