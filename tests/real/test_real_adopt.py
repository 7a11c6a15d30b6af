"""Every real agent, offline, against a scripted model: what it keeps is adopted, its own files are
deleted, and it resumes from the adopted session with everything that was said.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import scripted_gemini
import scripted_openai
import zstandard
from real_agents import (
    CLAUDE,
    CODEX,
    COPILOT,
    GEMINI,
    OPENCODE,
    claude,
    codex,
    copilot_run,
    gemini,
    in_order,
    opencode,
    opencode_run,
)
from scripted_gemini import ScriptedGemini
from scripted_openai import ScriptedOpenAI

import scripted_model
from driver import Project
from scripted_model import ScriptedModel

FIRST, SECOND = "first: what is a checkpoint?", "second: go on"
pytestmark = pytest.mark.full

ANSWER = "A saved state of files and conversation."


class Agent(NamedTuple):
    """How an agent is run in these tests, and the directory in its home that it is to lose."""

    program: Path
    run: Callable[..., str]
    model: type[ScriptedModel]
    said: Callable[[Any], list[str]]
    kept: str


AGENTS = {
    "claude-code": Agent(CLAUDE, claude, ScriptedModel, scripted_model.said, ".claude/projects"),
    "codex": Agent(CODEX, codex, ScriptedModel, scripted_model.said, ".codex"),
    "copilot": Agent(COPILOT, copilot_run, ScriptedModel, scripted_model.said, ".copilot"),
    "gemini": Agent(GEMINI, gemini, ScriptedGemini, scripted_gemini.said, ".gemini/tmp"),
    "opencode": Agent(
        OPENCODE, opencode_run, ScriptedOpenAI, scripted_openai.said, ".local/share/opencode"
    ),
}


def compressed(home: Path) -> None:
    """Compress the rollout, as Codex can."""
    (path,) = home.glob(".codex/sessions/*/*/*/rollout-*.jsonl")
    path.with_name(f"{path.name}.zst").write_bytes(zstandard.compress(path.read_bytes()))
    path.unlink()


def as_document(home: Path) -> None:
    """Write the chat as Gemini CLI did before it wrote lines."""
    (path,) = home.glob(".gemini/tmp/*/chats/session-*.jsonl")
    head, *lines = map(json.loads, path.read_bytes().splitlines())
    changes = [line["$set"] for line in lines if "$set" in line]
    messages = [*changes[0]["messages"], *(line for line in lines if "id" in line)]
    path.with_suffix(".json").write_text(json.dumps({**head, "messages": messages}, indent=2))
    path.unlink()


@pytest.mark.parametrize(
    ("name", "changed"),
    [*((name, None) for name in AGENTS), ("codex", compressed), ("gemini", as_document)],
)
def test_it_resumes_what_it_deleted(
    project: Project, tmp_path: Path, name: str, changed: Callable[[Path], None] | None
) -> None:
    """Talk, adopt, lose the agent's files, restore, go on: the model is sent what was said, in
    whatever format the agent kept it.
    """
    agent, home = AGENTS[name], tmp_path / "agents-home"
    if not agent.program.exists():
        pytest.skip(f"needs {name} (npm) in {agent.program.parents[2]}")
    project.write("a.txt", "one\n")
    project.commit()
    with agent.model({"text": ANSWER}) as model:
        session_id = agent.run(home, project.root, model, FIRST)
    env = {"HOME": str(home)}
    if changed is not None:
        changed(home)

    results = json.loads(project.gitcp("adopt", "--yes", "--json", env=env, check=0).out)
    (adopted,) = results["adopted"]
    assert (adopted["agent"], adopted["agent_session"]) == (name, session_id)
    shutil.rmtree(home / agent.kept)
    project.write("a.txt", "two\n")
    report = project.gitcp("restore", adopted["id"], "--yes", "--json", env=env, check=0)

    resume = json.loads(report.out)["resume"]
    assert resume["session_id"] == session_id
    assert project.read("a.txt") == b"two\n"
    with agent.model({"text": "Going on."}) as model:
        for _, *command in resume["prepare"]:
            opencode(home, project.root, model, *command)
        assert agent.run(home, project.root, model, *resume["command"][1:], SECOND) == session_id
    heard = agent.said(model.requests[0])
    assert in_order([FIRST, ANSWER, SECOND], heard), heard
