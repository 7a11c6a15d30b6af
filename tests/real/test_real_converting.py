"""A conversation of each agent goes on in the others, for real: the model is sent
every message that the first one would have sent, in order, each result with its call.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import real_agents
import transcripts
from dialogues import AGENTS
from scripted_gemini import ScriptedGemini
from scripted_openai import ScriptedOpenAI

from driver import Project
from scripted_model import ScriptedModel

PROGRAMS = {
    "claude-code": real_agents.CLAUDE,
    "codex": real_agents.CODEX,
    "copilot": real_agents.COPILOT,
    "gemini": real_agents.GEMINI,
    "opencode": real_agents.OPENCODE,
    "pi": real_agents.PI,
    "qwen": real_agents.QWEN,
}
MODELS = {
    "gemini": ScriptedGemini,
    "opencode": ScriptedOpenAI,
    "pi": ScriptedOpenAI,
    "qwen": ScriptedOpenAI,
}
RUNS = {
    "claude-code": real_agents.claude,
    "codex": real_agents.codex,
    "copilot": real_agents.copilot_run,
    "gemini": real_agents.gemini,
    "opencode": real_agents.opencode_run,
    "pi": real_agents.pi,
    "qwen": real_agents.qwen,
}
WITHOUT_PICTURE = {"opencode"}
"""Agents whose scripted model sees no pictures: they say so in their place."""

FIRST = ("claude-code", "codex")
NEWER = ("pi", "qwen")
PAIRS = [
    (source, agent)
    for source in AGENTS
    for agent in AGENTS
    if source != agent and (source in FIRST or agent in FIRST or not {source, agent} & set(NEWER))
]
"""Each in each; the newer ones from the first two, and to them."""

pytestmark = [
    pytest.mark.full,
    pytest.mark.skipif(
        not all(program.exists() for program in PROGRAMS.values()),
        reason=f"needs the agents (npm) in {real_agents.PREFIX}",
    ),
]


@pytest.mark.parametrize(("source", "agent"), PAIRS)
def test_it_goes_on(project: Project, tmp_path: Path, source: str, agent: str) -> None:
    """Converted, resumed by the real agent: the request has it all, and after it the new prompt."""
    home = tmp_path / "agents-home"
    transcripts.write(source, home, project.root)
    with MODELS.get(agent, ScriptedModel)({"text": "Going on."}) as model:
        if agent == "opencode":
            real_agents.opencode_environment(home, model)
        report = convert(project, home, agent)
        resume = report["resume"]
        for command in resume["prepare"]:
            real_agents.opencode(home, project.root, model, *command[1:])
        session_id = RUNS[agent](home, project.root, model, *resume["command"][1:], "and then?")
    assert session_id == resume["session_id"]

    heard = list(entries(model.requests[0]))
    texts = [text for kind, _, text in heard if kind in ("text", "result")]
    head = f"[gitcp] This conversation was begun with {NAMES[source]}"
    assert real_agents.in_order([head, *transcripts.TOLD, "and then?"], texts), texts
    assert any(head in text and "budget = 2s" in text for text in texts)
    assert not any(text in part for text in transcripts.NOT_TOLD for part in texts)
    calls = [id for kind, id, _ in heard if kind == "call"]
    results = [(id, text) for kind, id, text in heard if kind == "result"]
    assert calls == [id for id, _ in transcripts.CALLS]
    assert sorted(results) == sorted(transcripts.CALLS)
    pictures = [text for kind, _, text in heard if kind == "picture"]
    assert pictures == ([] if agent in WITHOUT_PICTURE else [transcripts.PICTURE])
    assert transcripts.SEAL not in json.dumps(model.requests)


MORE, ANSWER = "one more question", "and its answer"


@pytest.mark.parametrize("agent", ["claude-code", "opencode"])
def test_more_is_appended(project: Project, tmp_path: Path, agent: str) -> None:
    """Converted, worked on, converted again: the same session of the other agent, which is sent
    everything once, in order.
    """
    home = tmp_path / "agents-home"
    transcripts.write("codex", home, project.root)
    with MODELS.get(agent, ScriptedModel)({"text": "Going on."}) as model:
        if agent == "opencode":
            real_agents.opencode_environment(home, model)
        first = convert(project, home, agent)["resume"]
        for command in first["prepare"]:
            real_agents.opencode(home, project.root, model, *command[1:])
        before = Path(first["path"]).read_bytes()
        work_on(home)
        second = convert(project, home, agent)["resume"]
        for command in second["prepare"]:
            real_agents.opencode(home, project.root, model, *command[1:])
        RUNS[agent](home, project.root, model, *second["command"][1:], "and then?")

    assert second["session_id"] == first["session_id"]
    if agent == "claude-code":
        assert Path(second["path"]).read_bytes().startswith(before)
    texts = [text for kind, _, text in entries(model.requests[0]) if kind in ("text", "result")]
    assert real_agents.in_order([*transcripts.TOLD, MORE, ANSWER, "and then?"], texts), texts
    for text in (transcripts.PROMPT, transcripts.LISTED, MORE, ANSWER):
        assert sum(text in each for each in texts) == 1, text


def work_on(home: Path) -> None:
    """Add a question and its answer to Codex's transcript."""
    (rollout,) = home.glob(f".codex/sessions/*/*/*/*-{transcripts.SESSION}.jsonl")
    with rollout.open("a", encoding="utf-8") as file:
        for role, kind, text in (
            ("user", "input_text", MORE),
            ("assistant", "output_text", ANSWER),
        ):
            content = [{"type": kind, "text": text}]
            payload = {"type": "message", "role": role, "content": content}
            line = {"timestamp": transcripts.TIME, "type": "response_item", "payload": payload}
            file.write(json.dumps(line) + "\n")


NAMES = {
    "claude-code": "Claude Code",
    "codex": "Codex",
    "copilot": "Copilot CLI",
    "gemini": "Gemini CLI",
    "opencode": "opencode",
    "pi": "Pi",
    "qwen": "Qwen Code",
}


def convert(project: Project, home: Path, agent: str) -> Any:
    """Save, with a fact, and convert for this agent; the report."""
    env = {"HOME": str(home), "XDG_CONFIG_HOME": str(home / ".config")}
    project.gitcp("save", "one", "--fact", "budget=2s", env=env, check=0)
    with project.guard():
        done = project.gitcp("resume", "--with", agent, "--yes", "--json", env=env, check=0)
    return json.loads(done.out)


def entries(body: dict[str, Any]) -> Iterator[tuple[str, str, str]]:
    """What a request tells the model, in any of the four protocols: kind ("text", "picture",
    "call", "result"), the call's id, and the text.
    """
    for message in body.get("messages") or body.get("input") or body["contents"]:
        if message.get("role") in ("system", "developer"):
            continue
        if message.get("role") == "tool":
            yield "result", message["tool_call_id"], _text(message["content"])
            continue
        content = message.get("content") or message.get("parts") or []
        parts = [{"text": content}] if isinstance(content, str) else content
        for part in [message] if "call_id" in message else parts:
            yield from _entry(part)
        for call in message.get("tool_calls") or []:
            yield "call", call["id"], call["function"]["name"]


def _entry(part: dict[str, Any]) -> Iterator[tuple[str, str, str]]:
    kind = part.get("type", "")
    if kind == "tool_use":
        yield "call", part["id"], part["name"]
    elif kind == "tool_result":
        yield "result", part["tool_use_id"], _text(part["content"])
    elif kind.endswith("_call_output"):
        yield "result", part["call_id"], _text(part["output"])
    elif kind.endswith("_call"):
        yield "call", part["call_id"], part["name"]
    elif "functionCall" in part:
        yield "call", part["functionCall"]["id"], part["functionCall"]["name"]
    elif "functionResponse" in part:
        response = part["functionResponse"]["response"]
        yield "result", part["functionResponse"]["id"], next(iter(response.values()))
    elif kind == "image":
        yield "picture", "", part["source"]["data"]
    elif kind == "image_url":
        yield "picture", "", part["image_url"]["url"].partition(",")[2]
    elif kind == "input_image":
        yield "picture", "", part["image_url"].partition(",")[2]
    elif "inlineData" in part:
        yield "picture", "", part["inlineData"]["data"]
    elif "text" in part:
        yield "text", "", part["text"]


def _text(content: Any) -> str:
    if isinstance(content, str):
        return content
    return "\n".join(part["text"] for part in content if "text" in part)
