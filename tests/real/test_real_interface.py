"""The real Claude Code, offline, from the terminal interface: its session is found, previewed,
restored, undone and resumed without a command being typed.
"""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest
from real_agents import CLAUDE, OFFLINE, claude, claude_environment, in_order
from tmux import Terminal, terminal

from driver import Project
from scripted_model import ScriptedModel, said

pytestmark = [
    pytest.mark.skipif(
        not CLAUDE.exists(), reason=f"needs Claude Code (npm) in {CLAUDE.parents[2]}"
    ),
    pytest.mark.skipif(shutil.which("tmux") is None, reason="tmux is not installed"),
]

KEY = "not-a-key"


@pytest.fixture
def home(project: Project, tmp_path: Path) -> Path:
    """The home of an agent that has made two turns, each of them saved."""
    project.write("a.txt", "one\n")
    project.commit()
    home = tmp_path / "home"
    write = {"file_path": str(project.root / "by_tool.txt"), "content": "by the tool\n"}
    with ScriptedModel({"tool": "Write", "input": write}, {"text": "Written."}) as model:
        session_id = claude(home, project.root, model, "first: write a file")
    project.gitcp("save", "one file", env={"HOME": str(home)}, check=0)
    shell = "echo by the shell > by_shell.txt; rm a.txt"
    step = {"tool": "Bash", "input": {"command": shell}}
    with ScriptedModel(step, {"text": "Done in the shell."}) as model:
        claude(home, project.root, model, "--resume", session_id, "second: use the shell")
    project.gitcp("save", "two turns", env={"HOME": str(home)}, check=0)
    return home


def accept(home: Path, project: Project) -> None:
    """Answer what Claude Code asks a person when it first runs."""
    file = home / ".claude.json"
    settings = json.loads(file.read_text()) if file.exists() else {}
    settings |= {"hasCompletedOnboarding": True, "theme": "dark", "lastOnboardingVersion": "99"}
    settings["customApiKeyResponses"] = {"approved": [KEY[-20:]], "rejected": []}
    known = settings.setdefault("projects", {}).setdefault(str(project.root), {})
    known |= {"hasTrustDialogAccepted": True, "hasCompletedProjectOnboarding": True}
    file.write_text(json.dumps(settings))


def find(shown: Terminal, words: str, name: str) -> None:
    """Find a checkpoint, and look at what it changed."""
    shown.until("two turns")
    shown.press("/", words)
    shown.until("1 match")
    shown.press("Enter")
    shown.until(name)


def test_interface(project: Project, home: Path) -> None:
    """By keys alone: the files of the first turn are back, the undo is byte for byte, and the agent
    that goes on knows the first turn and not the second.
    """
    accept(home, project)
    before = project.files()
    assert before.keys() >= {b"by_tool.txt", b"by_shell.txt"}
    with ScriptedModel({"text": "Another way it is."}) as model:
        env = {**OFFLINE, **claude_environment(model), "HOME": str(home)}
        env["PATH"] = f"{CLAUDE.parent}{os.pathsep}{os.environ['PATH']}"
        with terminal(project.root, env=env) as shown:
            find(shown, "one file", "by_tool.txt")
            shown.press("r")
            shown.until("y apply")
            assert project.files() == before
            shown.press("y")
            shown.until("u undoes it")
            assert project.files().keys() == {b"a.txt", b"by_tool.txt"}
            shown.press("u")
            shown.until("y apply")
            shown.press("y")
            shown.until("U redoes it")
            assert project.files() == before

            shown.press("R")
            shown.until("Restore?")
            shown.press("y", "Enter")
            shown.until("first: write a file")
            shown.press("third: another way", "Enter")
            shown.until("Another way it is.")
            shown.press("/exit", "Enter")
            shown.until("ended with 0")
            shown.until("Timeline")
    heard = said(model.requests[0])
    assert in_order(["first: write a file", "Written.", "third: another way"], heard), heard
    assert not any("second: use the shell" in text for text in heard)
