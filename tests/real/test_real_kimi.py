"""Kimi Code, which a shipped file describes: what the real program sends after it resumed what
gitcp restored.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from real_agents import KIMI, clone, in_order, kimi, restore, save
from scripted_openai import ScriptedOpenAI, said

from gitcp.adapters import load

from driver import Project

KIMI_TABLE = load("kimi")

pytestmark = [
    pytest.mark.full,
    pytest.mark.skipif(not KIMI.exists(), reason=f"needs {KIMI}"),
]
CALL = {"tool": "Bash", "input": {"command": "echo one > a.txt"}}


def goes_on(home: Path, project: Project, command: list[str]) -> tuple[str, list[str]]:
    """The session that goes on, and what the model is told of it."""
    with ScriptedOpenAI({"text": "On."}) as model:
        session = kimi(home, project.root, model, *command[1:], "and then?")
    return session, said(model.requests[0])


def test_it_goes_on(project: Project, tmp_path: Path) -> None:
    """In place, in an empty home at another path, and from before its second prompt: everything
    that was said until then is sent, once, and nothing later.
    """
    home = tmp_path / "home"
    with ScriptedOpenAI(CALL, {"text": "First done."}) as model:
        session = kimi(home, project.root, model, "first prompt")
    saved = save(project, home, "first")
    assert saved["agent"]["name"] == "kimi"
    with ScriptedOpenAI({"text": "Second done."}) as model:
        kimi(home, project.root, model, "--session", session, "second prompt")
    whole = save(project, home, "second")
    first = ["first prompt", "Bash", "First done."]

    report = restore(project, home, saved["id"])["resume"]
    assert f"session_{report['session_id']}" != session  # it went on
    copied, heard = goes_on(home, project, report["command"])
    assert copied == f"session_{report['session_id']}"
    assert in_order([*first, "and then?"], heard), heard
    assert not any("second prompt" in text for text in heard)

    other = clone(project, tmp_path / "elsewhere" / "clone")
    there = tmp_path / "another home"
    there.mkdir()
    moved = restore(other, there, whole["id"])["resume"]
    assert f"session_{moved['session_id']}" == session
    _, heard = goes_on(there, other, moved["command"])
    assert in_order([*first, "second prompt", "Second done.", "and then?"], heard), heard
    assert sum("second prompt" in text for text in heard) == 1

    (wire,) = home.glob(f".kimi-code/sessions/*/{session}/agents/main/wire.jsonl")
    typed = [
        each for each in KIMI_TABLE.messages(wire.read_bytes().splitlines()) if each.role == "user"
    ]
    assert [each.text for each in typed] == ["first prompt", "second prompt"]
    rewound = restore(project, home, "--message", typed[1].id or "")["resume"]
    _, heard = goes_on(home, project, rewound["command"])
    assert in_order([*first, "and then?"], heard), heard
    assert not any("second prompt" in text for text in heard)
