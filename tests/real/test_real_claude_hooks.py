"""The real Claude Code with hooks in its settings, offline: checkpoints come about by themselves,
and it is told.
"""

from __future__ import annotations

import json
import shlex
import sys
import uuid
from pathlib import Path
from typing import Any

import pytest
from real_agents import CLAUDE, claude
from test_hook import log_of, until

from gitcp.restoring.rollback import BEFORE_PROMPT, TURN_END

from driver import SOURCE, Project
from scripted_model import ScriptedModel, said

pytestmark = pytest.mark.skipif(
    not CLAUDE.exists(), reason=f"needs Claude Code (npm) in {CLAUDE.parents[2]}"
)

EVENTS = (
    "SessionStart",
    "UserPromptSubmit",
    "PreToolUse",
    "PostToolBatch",
    "Stop",
    "SubagentStop",
    "SessionEnd",
)


@pytest.fixture
def hooked(project: Project, tmp_path: Path) -> Project:
    """A project whose settings call gitcp at each event."""
    launcher = tmp_path / "gitcp"
    launcher.write_text(
        f'#!/bin/sh\nPYTHONPATH={shlex.quote(str(SOURCE))} exec "{sys.executable}" -P -m gitcp "$@"\n'  # noqa: E501
    )
    launcher.chmod(0o755)
    hooks = {
        event: [
            {
                "hooks": [
                    {"type": "command", "command": f"{launcher} hook claude {event}", "timeout": 60}
                ]
            }
        ]
        for event in EVENTS
    }
    project.write(".claude/settings.json", json.dumps({"hooks": hooks}))
    project.write("a.txt", "one\n")
    project.commit()
    return project


def write(project: Project, name: str, content: str) -> dict[str, Any]:
    """A step in which the model writes a file."""
    return {"tool": "Write", "input": {"file_path": str(project.root / name), "content": content}}


def bash(command: str) -> dict[str, Any]:
    """A step in which the model uses the shell."""
    return {"tool": "Bash", "input": {"command": command}}


def checkpoints(project: Project, session: str) -> list[Any]:
    """The checkpoints of the agent's session, newest first."""
    return project.json_lines("log", "--session", session[:8])


def is_complete(project: Project, home: Path, session: str) -> bool:
    """Whether the last checkpoint has all that the agent wrote."""
    transcript = next(home.glob(f".claude/projects/*/{session}.jsonl"))
    conversation = checkpoints(project, session)[0]["conversation"]
    return conversation is not None and conversation["bytes"] == transcript.stat().st_size


def test_checkpoints_by_themselves(hooked: Project, tmp_path: Path) -> None:
    """A session that edits by tool and by shell: what must be there is there; after a restore it is
    told, once.
    """
    home, session = tmp_path / "home", str(uuid.uuid4())
    steps = (
        write(hooked, "b.txt", "by the tool\n"),
        bash("echo more >> b.txt"),
        bash("rm a.txt"),
        {"text": "All done."},
    )
    with hooked.guard():
        with ScriptedModel(*steps) as model:
            claude(home, hooked.root, model, "--session-id", session, "turn ONE")
        until(lambda: is_complete(hooked, home, session))
    log = checkpoints(hooked, session)
    made = {each["trigger"] for each in log}
    last = hooked.git("ls-tree", "--name-only", log[0]["commit"]).split()
    assert log[-1]["trigger"] == "prompt"
    assert made >= {"prompt", "tools"}
    assert made & {"turn", "session-end"}  # whichever of them saw the last words
    assert log[0]["conversation"]["last_message"]["text"] == "All done."
    assert ("a.txt" in last, "b.txt" in last) == (False, True)
    assert log_of(hooked) == ""

    # Before the deletion there is one with everything, whether or not the command's own line was
    # written by then.
    risky = next(
        each
        for each in log
        if "a.txt" in hooked.git("ls-tree", "--name-only", each["commit"]).split()
    )
    assert risky["trigger"] in {"before-risky-change", "tools"}
    env = {"HOME": str(home)}
    report = json.loads(
        hooked.gitcp("restore", risky["id"], "--yes", "--json", env=env, check=0).out
    )
    assert hooked.read("a.txt") == b"one\n"
    assert hooked.read("b.txt") == b"by the tool\nmore\n"

    with ScriptedModel({"text": "Going on."}) as model:
        claude(home, hooked.root, model, *report["resume"]["command"][1:], "turn TWO")
    heard = "\n".join([*said(model.requests[0]), json.dumps(model.requests[0].get("system", ""))])
    assert f"gitcp restored checkpoint {risky['id']}" in heard
    assert "All done." not in heard


def test_rollback_in_an_emergency(hooked: Project, tmp_path: Path) -> None:
    """A turn wrecks the files and the session ends: rollback brings back what was there before its
    prompt.
    """
    home, session = tmp_path / "home", str(uuid.uuid4())
    env = {"HOME": str(home)}
    with ScriptedModel(write(hooked, "b.txt", "good\n"), {"text": "Written."}) as model:
        claude(home, hooked.root, model, "--session-id", session, "turn ONE")
    until(lambda: is_complete(hooked, home, session))
    good = hooked.files()
    with ScriptedModel(bash("rm b.txt; echo WRECK > a.txt"), {"text": "Cleaned up."}) as model:
        claude(home, hooked.root, model, "--resume", session, "turn TWO")
    until(lambda: is_complete(hooked, home, session))
    wreck = hooked.files()
    tip = checkpoints(hooked, session)[0]["commit"]
    assert "b.txt" not in hooked.git("ls-tree", "--name-only", tip).split()

    with hooked.guard():
        report = json.loads(hooked.gitcp("rollback", "--yes", "--json", env=env, check=0).out)
        assert hooked.files() == good
        hooked.gitcp("undo", "--yes", env=env, check=0)
        assert hooked.files() == wreck
    assert report["reason"] in (BEFORE_PROMPT, TURN_END)
    assert report["resume"]["command"]


def test_killed_in_a_turn(hooked: Project, tmp_path: Path) -> None:
    """Killed while a tool runs, by the tool itself: the next start of the agent saves what was
    written since.
    """
    home, session = tmp_path / "home", str(uuid.uuid4())
    kill = bash("echo 'lost?' > c.txt; kill -9 $PPID; sleep 60")
    steps = (write(hooked, "b.txt", "x\n"), kill, {"text": "never said"})
    with ScriptedModel(*steps) as model, pytest.raises(AssertionError):
        claude(home, hooked.root, model, "--session-id", session, "turn ONE")
    before = {each["trigger"] for each in checkpoints(hooked, session)}
    with ScriptedModel({"text": "Hello."}) as model:
        claude(home, hooked.root, model, "--session-id", str(uuid.uuid4()), "another session")

    assert "session-end" not in before
    until(lambda: is_complete(hooked, home, session))
    tip = checkpoints(hooked, session)[0]["commit"]
    assert "c.txt" in hooked.git("ls-tree", "--name-only", tip).split()
