"""The real Codex, offline, against a scripted model: saved, wrecked, restored elsewhere,
continued.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from real_agents import CODEX, clone, codex, in_order, restore, save

from driver import SOURCE, Project
from scripted_model import ScriptedModel, said

pytestmark = [
    pytest.mark.full,
    pytest.mark.skipif(not CODEX.exists(), reason=f"needs Codex (npm) in {CODEX.parents[2]}"),
]

PATCH = "*** Begin Patch\n*** Add File: by_tool.txt\n+by the tool\n*** End Patch\n"
SHELL = "printf 'by the shell\\n' > by_shell.txt; chmod 755 by_shell.txt; rm a.txt"
FIRST = ["first: write a file", "apply_patch", "Written by tool."]
SECOND = ["second: use the shell", "exec_command", "Done in the shell."]


@pytest.fixture
def session(project: Project, tmp_path: Path) -> tuple[str, Path]:
    """A thread of two turns: one edits with the patch tool, one with the shell. Its id and the
    agent's home.
    """
    project.write("a.txt", "one\n")
    project.commit()
    home = tmp_path / "first-home"
    with ScriptedModel(
        {"tool": "apply_patch", "input": PATCH}, {"text": "Written by tool."}
    ) as model:
        thread = codex(home, project.root, model, "first: write a file")
    with ScriptedModel(
        {"tool": "exec_command", "input": {"cmd": SHELL}}, {"text": "Done in the shell."}
    ) as model:
        codex(home, project.root, model, "resume", thread, "second: use the shell")
    return thread, home


def heard_after(project: Project, home: Path, report: Any, prompt: str) -> list[str]:
    """What the model is sent when the agent goes on by the command that a restore printed."""
    name, *arguments = report["resume"]["command"]
    assert name == "codex"
    with ScriptedModel({"text": "Going on."}) as model:
        assert (
            codex(home, project.root, model, *arguments, prompt) == report["resume"]["session_id"]
        )
    return said(model.requests[0])


def test_it_continues_in_an_empty_home_at_another_path(
    project: Project, session: tuple[str, Path], tmp_path: Path
) -> None:
    """Save, wreck, clone elsewhere, restore into an empty home: the model is sent every earlier
    message, and what was said there is saved there without being named.
    """
    thread, home = session
    before = project.files()
    checkpoint = save(project, home, "both turns")
    assert checkpoint["agent"]["session_id"] == thread
    assert checkpoint["agent"]["version"]
    assert before.keys() >= {b"by_tool.txt", b"by_shell.txt"}
    assert b"a.txt" not in before
    project.write("by_tool.txt", "wrecked\n")
    project.remove("by_shell.txt")
    rollout = next(home.glob(".codex/sessions/*/*/*/*.jsonl"))

    other, empty = clone(project, tmp_path / "elsewhere"), tmp_path / "second-home"
    report = restore(other, empty, checkpoint["id"])

    assert other.files() == before
    assert report["resume"]["session_id"] == thread
    assert Path(report["resume"]["path"]).read_bytes() == rollout.read_bytes()
    heard = heard_after(other, empty, report, "third: go on")
    assert in_order([*FIRST, *SECOND, "third: go on"], heard), heard
    again = save(other, empty, "went on")
    assert (again["agent"]["session_id"], again["session"]) == (thread, checkpoint["session"])
    assert again["conversation"]["messages"] == checkpoint["conversation"]["messages"] + 2


def test_a_restore_in_place_changes_no_byte(project: Project, session: tuple[str, Path]) -> None:
    """Where the thread did not go on, it continues under its own id, in its own file."""
    thread, home = session
    before = project.files()
    checkpoint = save(project, home, "both turns")
    rollout = next(home.glob(".codex/sessions/*/*/*/*.jsonl"))
    whole = rollout.read_bytes()
    project.write("by_tool.txt", "wrecked\n")

    report = restore(project, home, checkpoint["id"])

    assert project.files() == before
    assert rollout.read_bytes() == whole
    assert (report["resume"]["session_id"], report["resume"]["path"]) == (thread, str(rollout))
    heard = heard_after(project, home, report, "third: go on")
    assert in_order([*FIRST, *SECOND, "third: go on"], heard), heard


def test_going_back_to_the_first_turn_forgets_the_second(
    project: Project, session: tuple[str, Path]
) -> None:
    """A restore before a message, in the same home: a new thread that knows turn one and nothing of
    turn two.
    """
    thread, home = session
    rollout = next(home.glob(".codex/sessions/*/*/*/*.jsonl"))
    whole = rollout.read_bytes()
    save(project, home, "both turns")
    payloads = [
        json.loads(line)["payload"]
        for line in whole.splitlines()
        if b"second: use the shell" in line
    ]
    message = next(payload["id"] for payload in payloads if payload.get("role") == "user")

    report = restore(project, home, "--message", message)

    assert rollout.read_bytes() == whole
    assert report["resume"]["session_id"] != thread
    heard = heard_after(project, home, report, "third: another way")
    assert in_order([*FIRST, "third: another way"], heard), heard
    assert not any(
        "second: use the shell" in text or "Done in the shell." in text for text in heard
    )
    assert rollout.read_bytes() == whole
    assert (
        save(project, home, "another way")["agent"]["session_id"] == report["resume"]["session_id"]
    )


def test_a_fork_takes_what_it_goes_on_from_along(
    project: Project, session: tuple[str, Path], tmp_path: Path
) -> None:
    """Codex's own fork holds only what is new: in an empty home it continues all the same."""
    thread, home = session
    with ScriptedModel({"text": "Forked."}) as model:
        fork = codex(home, project.root, model, "fork", thread, "third: in the fork")
    saved = project.gitcp("save", "--session", fork, "--json", env={"HOME": str(home)}, check=0).out
    checkpoint = json.loads(saved)["checkpoint"]
    assert checkpoint["agent"]["session_id"] == fork

    other, empty = clone(project, tmp_path / "elsewhere"), tmp_path / "second-home"
    report = restore(other, empty, checkpoint["id"])

    assert report["resume"]["session_id"] == fork
    heard = heard_after(other, empty, report, "fourth: go on")
    assert in_order([*FIRST, *SECOND, "third: in the fork", "Forked.", "fourth: go on"], heard), (
        heard
    )


def test_the_running_agent_is_found_by_a_save_from_its_shell(
    project: Project, session: tuple[str, Path]
) -> None:
    """`gitcp save` typed by the agent in its own shell takes that agent's conversation, sub-agents
    included.
    """
    thread, home = session
    launcher = project.root.parent / "bin" / "gitcp"
    launcher.parent.mkdir()
    launcher.write_text(f'#!/bin/sh\nPYTHONPATH="{SOURCE}" exec "{sys.executable}" -m gitcp "$@"\n')
    launcher.chmod(0o755)
    step = {"tool": "exec_command", "input": {"cmd": f"{launcher} save 'by the agent itself'"}}
    with ScriptedModel(step, {"text": "Saved."}) as model:
        codex(home, project.root, model, "resume", thread, "third: save yourself")
    shown = json.loads(project.gitcp("show", "--json", env={"HOME": str(home)}, check=0).out)
    assert shown["label"] == "by the agent itself"
    assert shown["agent"]["session_id"] == thread
