"""The real Claude Code in a worktree that it removes itself, by force and in mid-session: its hook
saves first, and one command brings back worktree and agent.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from real_agents import CLAUDE, CLAUDE_HEADLESS, OFFLINE, claude_environment, in_order, run

from driver import SOURCE, Project
from scripted_model import ScriptedModel, said

pytestmark = pytest.mark.skipif(
    not CLAUDE.exists(), reason=f"needs Claude Code (npm) in {CLAUDE.parents[2]}"
)

SESSION = "3b5b8e0c-9a3e-4a55-8f0d-6f1f6d1f7f10"


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """`gitcp` on PATH, and a `claude` that goes on by itself when it is resumed."""
    directory = tmp_path / "bin"
    directory.mkdir()
    resumed = shlex.join([str(CLAUDE), *CLAUDE_HEADLESS])
    scripts = {
        "gitcp": f'PYTHONPATH={SOURCE} exec {sys.executable} -P -m gitcp "$@"',
        "claude": f'exec {resumed} "$@" "second: go on"',
    }
    for name, script in scripts.items():
        (directory / name).write_text(f"#!/bin/sh\n{script}\n")
        (directory / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{directory}{os.pathsep}{os.environ['PATH']}")
    return directory


@pytest.mark.parametrize("place", ["topic", "elsewhere"])
def test_removed_by_force_in_mid_session(
    project: Project, tmp_path: Path, programs: Path, place: str
) -> None:
    """Staged, unstaged and new files, branch and commit are as they were when the agent deleted
    them, and it hears everything that was said before.
    """
    project.write("a.txt", "one\n")
    project.commit()
    home, topic, back = tmp_path / "home", tmp_path / "topic", tmp_path / place
    project.git("worktree", "add", "--quiet", "-b", "topic", str(topic))
    home.mkdir()
    project.gitcp("enable", "claude", "--user", "--yes", env={"HOME": str(home)}, check=0)
    there = f"git -C {project.root}"
    steps = (
        {"tool": "Write", "input": {"file_path": str(topic / "new.py"), "content": "new\n"}},
        bash("echo two > a.txt; git add a.txt; echo three > a.txt"),
        bash(f"{there} worktree remove --force {topic}; {there} branch -D topic"),
        {"text": "It is gone."},
    )
    with ScriptedModel(*steps) as model:
        command = [str(CLAUDE), *CLAUDE_HEADLESS, "--session-id", SESSION, "first: work"]
        run(home, topic, command, claude_environment(model))
    assert not topic.exists()

    with ScriptedModel(bash("cat new.py a.txt > seen.txt"), {"text": "On."}) as model:
        env = {**os.environ, **OFFLINE, **claude_environment(model), "HOME": str(home)}
        one = ["gitcp", "resume", "--session", SESSION[:8], "--worktree", str(back)]
        done = subprocess.run(one, cwd=project.root, env=env, capture_output=True, text=True)
        assert done.returncode == 0, (done.stderr, project.gitcp("sessions", "--worktrees").out)

    heard = said(model.requests[0])
    assert in_order(["first: work", "second: go on"], heard), heard
    tree = Project(back)
    assert tree.read("seen.txt") == b"new\nthree\n"
    assert tree.git("rev-parse", "--abbrev-ref", "HEAD") == "topic"
    assert tree.git("show", ":a.txt") == "two"
    assert project.json("check")["ok"]


def bash(command: str) -> dict[str, object]:
    """A call of the agent's shell tool."""
    return {"tool": "Bash", "input": {"command": command}}
