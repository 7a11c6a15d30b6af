"""The real Copilot CLI, offline, against a scripted model: saved, wrecked, restored elsewhere,
continued.
"""

from __future__ import annotations

import json
import os
import shutil
import uuid
from pathlib import Path
from typing import Any

import pytest
from real_agents import (
    COPILOT,
    OFFLINE,
    clone,
    copilot,
    copilot_environment,
    in_order,
    restore,
    save,
)
from tmux import terminal

from driver import Project
from scripted_model import ScriptedModel, said

pytestmark = [
    pytest.mark.full,
    pytest.mark.skipif(
        not COPILOT.exists(), reason=f"needs Copilot CLI (npm) in {COPILOT.parents[2]}"
    ),
]

SHELL = "printf 'by the shell\\n' > by_shell.txt; chmod 755 by_shell.txt; rm a.txt"
FIRST = ["first: write a file", "create", "Written by tool."]
SECOND = ["second: use the shell", "bash", "Done in the shell."]


def shell(command: str) -> dict[str, Any]:
    return {"tool": "bash", "input": {"command": command, "description": "a command"}}


@pytest.fixture
def session(project: Project, tmp_path: Path) -> tuple[str, Path]:
    """A session of two turns: one edits a file with a tool, one with the shell. Its id and the
    agent's home.
    """
    project.write("a.txt", "one\n")
    project.commit()
    home, session_id = tmp_path / "first-home", str(uuid.uuid4())
    create = {"path": str(project.root / "by_tool.txt"), "file_text": "by the tool\n"}
    with ScriptedModel({"tool": "create", "input": create}, {"text": "Written by tool."}) as model:
        copilot(home, project.root, model, "--session-id", session_id, "first: write a file")
    with ScriptedModel(shell(SHELL), {"text": "Done in the shell."}) as model:
        copilot(home, project.root, model, f"--resume={session_id}", "second: use the shell")
    return session_id, home


def events(home: Path, session_id: str) -> Path:
    return home / ".copilot" / "session-state" / session_id / "events.jsonl"


def heard_after(project: Project, home: Path, report: Any, prompt: str) -> list[str]:
    """What the model is sent when the agent goes on, by the command that a restore printed, and
    leaves a file.
    """
    name, *arguments = report["resume"]["command"]
    assert name == "copilot"
    with ScriptedModel(
        shell("pwd > where.txt; echo $COPILOT_AGENT_SESSION_ID >> where.txt"), {"text": "On."}
    ) as model:
        copilot(home, project.root, model, *arguments, prompt)
    assert (
        project.read("where.txt").decode() == f"{project.root}\n{report['resume']['session_id']}\n"
    )
    return said(model.requests[0])


def used(project: Project, checkpoint: str) -> dict[str, int]:
    """The tokens of a checkpoint's conversation."""
    tokens = project.json("show", checkpoint)["tokens"]
    return {name: tokens[name] for name in ("requests", "input", "output")}


def reported(path: Path) -> dict[str, int]:
    """The totals that the agent recorded when it ended last."""
    lines = [json.loads(line) for line in path.read_bytes().splitlines()]
    ends = [each["data"]["modelMetrics"] for each in lines if each["type"] == "session.shutdown"]
    (model,) = ends[-1].values()
    usage = model["usage"]
    assert usage["cacheReadTokens"] == 0
    return {
        "requests": model["requests"]["count"],
        "input": usage["inputTokens"],
        "output": usage["outputTokens"],
    }


def test_it_continues_in_an_empty_home_at_another_path(
    project: Project, session: tuple[str, Path], tmp_path: Path
) -> None:
    """Save, wreck, clone elsewhere, restore into an empty home: the model is sent every earlier
    message, the agent works in the new place, and what was said there is saved there without being
    named.
    """
    session_id, home = session
    before = project.files()
    checkpoint = save(project, home, "both turns")
    assert used(project, checkpoint["id"]) == reported(events(home, session_id))
    assert checkpoint["agent"]["session_id"] == session_id
    assert checkpoint["agent"]["version"]
    assert before.keys() >= {b"by_tool.txt", b"by_shell.txt"}
    assert b"a.txt" not in before
    project.write("by_tool.txt", "wrecked\n")
    project.remove("by_shell.txt")

    other, empty = clone(project, tmp_path / "elsewhere"), tmp_path / "second-home"
    report = restore(other, empty, checkpoint["id"])

    assert other.files() == before
    assert report["resume"]["session_id"] == session_id
    assert events(empty, session_id).read_bytes() == events(home, session_id).read_bytes()
    heard = heard_after(other, empty, report, "third: go on")
    assert in_order([*FIRST, *SECOND, "third: go on"], heard), heard
    again = save(other, empty, "went on")
    assert (again["agent"]["session_id"], again["session"]) == (session_id, checkpoint["session"])
    assert again["conversation"]["messages"] > checkpoint["conversation"]["messages"]


def test_a_restore_in_place_and_in_another_working_tree(
    project: Project, session: tuple[str, Path], tmp_path: Path
) -> None:
    """In the same home: in place it continues under its own id, and no byte changed. The agent goes
    where its session works, so a working tree that is elsewhere gets a session of its own.
    """
    session_id, home = session
    before, whole = project.files(), events(home, session_id).read_bytes()
    checkpoint = save(project, home, "both turns")
    project.write("by_tool.txt", "wrecked\n")

    report = restore(project, home, checkpoint["id"])

    assert project.files() == before
    assert report["resume"]["session_id"] == session_id
    other = clone(project, tmp_path / "elsewhere")
    elsewhere = restore(other, home, checkpoint["id"])
    assert elsewhere["resume"]["session_id"] != session_id
    assert events(home, session_id).read_bytes() == whole
    for place, printed in ((project, report), (other, elsewhere)):
        heard = heard_after(place, home, printed, "third: go on")
        assert in_order([*FIRST, *SECOND, "third: go on"], heard), heard


def test_going_back_to_the_first_turn_forgets_the_second(
    project: Project, session: tuple[str, Path]
) -> None:
    """A restore before a message, in the same home: a new session that knows turn one and nothing
    of turn two.
    """
    session_id, home = session
    whole = events(home, session_id).read_bytes()
    save(project, home, "both turns")
    second = [
        json.loads(line)
        for line in whole.splitlines()
        if b'"content":"second: use the shell"' in line
    ]

    report = restore(project, home, "--message", second[0]["id"])

    assert events(home, session_id).read_bytes() == whole
    assert report["resume"]["session_id"] != session_id
    heard = heard_after(project, home, report, "third: another way")
    assert in_order([*FIRST, "third: another way"], heard), heard
    assert not any(
        "second: use the shell" in text or "Done in the shell." in text for text in heard
    )
    assert events(home, session_id).read_bytes() == whole


@pytest.mark.skipif(shutil.which("tmux") is None, reason="tmux is not installed")
def test_a_slash_command(project: Project, tmp_path: Path) -> None:
    """`/gitcp restore 1` is the skill, with what was typed: in a terminal, since with -p Copilot
    CLI sends a slash command as text.
    """
    home = tmp_path / "home"
    home.joinpath(".copilot").mkdir(parents=True)
    trusted = {"trusted_folders": [str(project.root)], "banner": "never"}
    home.joinpath(".copilot", "config.json").write_text(json.dumps(trusted))
    with ScriptedModel({"text": "Restore it?"}) as model:
        env = {**OFFLINE, **copilot_environment(model), "HOME": str(home)}
        env["PATH"] = f"{COPILOT.parent}{os.pathsep}{os.environ['PATH']}"
        with terminal(project.root, "enable", "copilot", "--user", "--yes", env=env) as shown:
            shown.until("restart running sessions")
            shown.press("copilot", "Enter")
            shown.until("Interactive")
            shown.press("/gitcp restore 1")
            shown.until("/gitcp restore 1")
            shown.press("Enter")
            shown.until("Restore it?")
    sent = json.dumps(model.requests[0])
    assert "# Checkpoints with gitcp" in sent
    assert "restore 1" in sent
