"""Cline CLI, which a shipped file describes: what the real program sends after it resumed what
gitcp restored. It resumes in a terminal alone, so `gitcp resume` is typed there.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
from real_agents import (
    CLINE,
    OFFLINE,
    cline,
    cline_environment,
    clone,
    in_order,
    save,
    sub_agents,
)
from scripted_openai import ScriptedOpenAI, said
from tmux import terminal

from driver import Project
from scripted_model import Step

pytestmark = [
    pytest.mark.full,
    pytest.mark.skipif(not CLINE.exists(), reason=f"needs Cline CLI (npm) in {CLINE.parents[2]}"),
    pytest.mark.skipif(shutil.which("tmux") is None, reason="tmux is not installed"),
]
INNER, REPORT = "look what is there", "The sub-agent saw it."
FIRST = ["first prompt", "editor", "spawn_agent", "First done."]


def resumed(project: Project, home: Path, prompt: str, answer: str, *place: str) -> list[str]:
    """Type `gitcp resume`, and the prompt once Cline is there; what the model is told."""
    with ScriptedOpenAI({"text": answer}) as model:
        env = {**OFFLINE, **cline_environment(home, model), "HOME": str(home)}
        env["PATH"] = f"{CLINE.parent}{os.pathsep}{os.environ['PATH']}"
        with terminal(project.root, "resume", *place, env=env) as shown:
            shown.until("Ask anything")
            shown.press(prompt)
            shown.until(prompt)
            shown.press("Enter")
            shown.until(answer)
    return said(model.requests[0])


def test_it_goes_on(project: Project, tmp_path: Path) -> None:
    """In place, as it is and from before its second prompt, and in an empty home at another path:
    everything that was said until then is sent, once, and nothing later. Its sub-agent is saved.
    """
    home, by_tool = tmp_path / "home", str(project.root / "by_tool.txt")
    edit: Step = {"tool": "editor", "input": {"path": by_tool, "new_text": "by the tool\n"}}
    spawn: Step = {"tool": "spawn_agent", "input": {"systemPrompt": "You look.", "task": INNER}}
    with ScriptedOpenAI(edit, spawn, {"text": REPORT}, {"text": "First done."}) as model:
        session = cline(home, project.root, model, "first prompt")
    saved = save(project, home, "first")
    assert saved["agent"] == {**saved["agent"], "name": "cline", "session_id": session}
    assert len(sub_agents(saved)) == 1

    heard = resumed(project, home, "second prompt", "Second done.")
    assert in_order([*FIRST, "second prompt"], heard), heard
    whole = save(project, home, "second")
    assert whole["agent"]["session_id"] == session
    heard = resumed(project, home, "and then?", "Going on.", saved["id"], "--yes")
    assert in_order([*FIRST, "and then?"], heard), heard
    assert not any("second prompt" in text for text in heard)
    assert project.read("by_tool.txt") == b"by the tool\n"

    other, there = clone(project, tmp_path / "elsewhere"), tmp_path / "another-home"
    heard = resumed(other, there, "and then?", "Going on.", whole["id"], "--yes")
    assert in_order([*FIRST, "second prompt", "Second done.", "and then?"], heard), heard
    assert sum("second prompt" in text for text in heard) == 1
    (copy,) = there.glob(f".cline/data/sessions/{session}/agent_*.messages.json")
    assert REPORT in copy.read_text("utf-8")
