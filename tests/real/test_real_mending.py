"""Damaged transcripts that the real agents refuse, or of which they lose most: restored by gitcp,
they go on with every message.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import real_agents
import transcripts
from damages import DAMAGES
from scripted_gemini import ScriptedGemini
from test_real_converting import PROGRAMS, RUNS, entries
from transcripts import INNER

from gitcp.adapters.mending import FIRST, GLUED, MARK, NOT_UTF8, NULS, TORN

from driver import Project
from scripted_model import ScriptedModel

UNCHAINED = "without parents"
UNANSWERED = "without a result"
UNCALLED = "without a call"
INTERLEAVED = "by two processes"
OTHER = "said to the other process"

CASES = [
    ("claude-code", UNCHAINED),
    ("claude-code", UNANSWERED),
    ("claude-code", UNCALLED),
    ("claude-code", INTERLEAVED),
    ("codex", MARK),
    ("codex", NOT_UTF8),
    ("codex", FIRST),
    ("copilot", FIRST),
    ("gemini", MARK),
    ("gemini", FIRST),
]

pytestmark = [
    pytest.mark.full,
    pytest.mark.skipif(
        not all(program.exists() for program in PROGRAMS.values()),
        reason=f"needs the five agents (npm) in {real_agents.PREFIX}",
    ),
]


def damaged(data: bytes, what: str) -> bytes:
    """The transcript with this damage."""
    if what in DAMAGES:
        return DAMAGES[what](data.splitlines(keepends=True))
    nodes = [json.loads(line) for line in data.splitlines()]
    if what == UNCHAINED:
        nodes = [{**node, "parentUuid": None} for node in nodes]
        nodes = [node for node in nodes if node["type"] != "system"]
    elif what == UNCALLED:
        lost = next(node for node in nodes if "'id': 'call_3'" in str(node))
        nodes.remove(lost)
        nodes[-2]["parentUuid"] = lost["parentUuid"]
    elif what == INTERLEAVED:
        nodes[-2:-2] = others(nodes[-4], nodes[-3])
    else:
        lost = next(node for node in nodes if "'tool_use_id': 'call_3'" in str(node))
        nodes.remove(lost)
        nodes[-1]["parentUuid"] = lost["parentUuid"]
    return b"".join(json.dumps(node).encode() + b"\n" for node in nodes)


def others(prompt: dict[str, Any], answer: dict[str, Any]) -> list[dict[str, Any]]:
    """The turn that another process wrote meanwhile, after the same message."""
    asked, told = "0" * 8 + prompt["uuid"][8:-2] + "f1", "0" * 8 + answer["uuid"][8:-2] + "f2"
    message = {**answer["message"], "id": "msg_other", "content": [{"type": "text", "text": OTHER}]}
    return [
        {**prompt, "uuid": asked, "message": {"role": "user", "content": OTHER}},
        {**answer, "uuid": told, "parentUuid": asked, "message": message},
    ]


@pytest.mark.parametrize(("agent", "what"), CASES)
def test_it_goes_on(project: Project, tmp_path: Path, agent: str, what: str) -> None:
    """Saved broken, restored in another home, resumed by the real agent."""
    project.write("a.txt", "one\n")
    project.commit()
    first, second = tmp_path / "first-home", tmp_path / "second-home"
    transcripts.write(agent, first, project.root)
    (path,) = (p for p in first.rglob("*.jsonl") if transcripts.DONE in p.read_text("utf-8"))
    data = damaged(path.read_bytes(), what)
    path.write_bytes(data)
    given = ("--agent", agent, "--conversation", str(path))
    project.gitcp("save", "broken", *given, env={"HOME": str(first)}, check=0)
    report = real_agents.restore(project, second, "@")
    resume = report["resume"]
    assert resume["repaired"]

    scripted = ScriptedGemini if agent == "gemini" else ScriptedModel
    with scripted({"text": "Going on."}) as model:
        session_id = RUNS[agent](second, project.root, model, *resume["command"][1:], "and then?")
    assert session_id == resume["session_id"]
    texts = [text for kind, _, text in entries(model.requests[0]) if kind in ("text", "result")]
    # Claude Code sends results in the order of the file if that is all there is to go by.
    anywhere = {transcripts.LISTED, transcripts.FAILED}
    lost = transcripts.FOUND if what == UNANSWERED else ""
    told = [text for text in transcripts.TOLD if text not in {lost, *anywhere}]
    assert real_agents.in_order([*told, "and then?"], texts), texts
    assert transcripts.LISTED in texts
    assert OTHER not in texts
    assert transcripts.FAILED in texts or what == NOT_UTF8


SEEN, REPORT, GO_ON = "seen.txt", "the sub-agent saw it", "sub-agent, go on"
AGENT_DAMAGES = [GLUED, TORN, UNCALLED, UNCHAINED]


def agent_damaged(data: bytes, what: str) -> bytes:
    """The sub-agent's transcript with this damage."""
    lines = data.splitlines(keepends=True)
    if what == GLUED:
        return b"".join(lines[:-2]) + lines[-2].rstrip() + lines[-1]
    if what == TORN:
        return b"".join(lines[:-1]) + lines[-1][: len(lines[-1]) // 2] + lines[-1]
    nodes = [json.loads(line) for line in lines]
    if what == UNCALLED:
        nodes = [node for node in nodes if "'tool_use'" not in str(node)]
    else:
        nodes = [{**node, "parentUuid": None} for node in nodes]
    return b"".join(json.dumps(node).encode() + b"\n" for node in nodes)


@pytest.mark.parametrize("what", AGENT_DAMAGES)
def test_a_sub_agent_goes_on(project: Project, tmp_path: Path, what: str) -> None:
    """Claude Code's sub-agent, saved broken, restored in another home, and sent a message."""
    project.write(SEEN, "one\n")
    project.commit()
    first, second = tmp_path / "first-home", tmp_path / "second-home"
    asked = {"description": "look", "prompt": INNER, "subagent_type": "general-purpose"}
    listed = {"command": "ls", "description": "list"}
    steps = [{"tool": "Agent", "input": asked}, {"tool": "Bash", "input": listed}]
    with ScriptedModel(*steps, {"text": REPORT}, {"text": "Done."}) as model:
        session_id = real_agents.claude(first, project.root, model, "go")
    (path,) = first.rglob("agent-*.jsonl")
    path.write_bytes(agent_damaged(path.read_bytes(), what))
    main = path.parents[1].with_suffix(".jsonl")
    assert main.stem == session_id
    given = ("--agent", "claude-code", "--conversation", str(main))
    project.gitcp("save", "broken", *given, env={"HOME": str(first)}, check=0)
    resume = real_agents.restore(project, second, "@")["resume"]
    assert all(fault.endswith(f" in agents/{path.stem[6:]}") for fault in resume["repaired"])
    assert resume["repaired"]

    message = {"to": path.stem[6:], "summary": "go on", "message": GO_ON}
    with ScriptedModel({"tool": "SendMessage", "input": message}) as model:
        real_agents.claude(second, project.root, model, *resume["command"][1:], "and then?")
    (heard,) = (each for each in model.requests if GO_ON in str(each["messages"][-1]))
    texts = [text for kind, _, text in entries(heard) if kind in ("text", "result")]
    assert real_agents.in_order([INNER, SEEN, REPORT, GO_ON], texts), texts


def spawning(body: dict[str, Any]) -> dict[str, Any]:
    """The answer to a request of Codex's main thread or of the sub-agent that it begins; when asked
    to go on, it sends that one a message.
    """
    items, last = body["input"], body["input"][-1]
    prompts = [n for n, each in enumerate(items) if "<" not in _prompt(each)]
    if INNER in _prompt(items[prompts[0]]):
        is_begun = INNER not in _prompt(last)
        return {"text": REPORT} if is_begun else _called("exec_command", cmd="ls")
    outputs = [each.get("output") for each in items if each["type"] == "function_call_output"]
    id = json.loads(outputs[0])["agent_id"] if outputs else None
    calls: list[dict[str, Any]] = [_called("tool_search", query="spawn a sub-agent")]
    if len(prompts) == 1:
        calls += [_called("spawn_agent", message=INNER)]
    else:
        calls += [_called("resume_agent", id=id), _called("send_input", target=id, message=GO_ON)]
    calls += [_called("wait_agent", targets=[id], timeout_ms=20_000), {"text": "Done."}]
    return calls[len([each for each in items[prompts[-1] :] if each["type"].endswith("_call")])]


def _prompt(item: dict[str, Any]) -> str:
    """What a user said in this; "<" if it is not that."""
    return str(item["content"][0]["text"]) if item.get("role") == "user" else "<"


def _called(tool: str, **arguments: Any) -> dict[str, Any]:
    """A call of one of Codex's tools. Those for sub-agents are found by a search."""
    namespace = "multi_agent_v1" if tool.endswith(("_agent", "_input")) else None
    return {"tool": tool, "input": arguments, **({"namespace": namespace} if namespace else {})}


@pytest.mark.parametrize("what", [MARK, NULS, TORN])
def test_a_sub_agent_of_codex_goes_on(project: Project, tmp_path: Path, what: str) -> None:
    """Saved broken, restored in another home, resumed and sent a message."""
    project.write(SEEN, "one\n")
    project.commit()
    first, second = tmp_path / "first-home", tmp_path / "second-home"
    with ScriptedModel(*[spawning] * 9) as model:
        thread = real_agents.codex(first, project.root, model, "go")
    (main,) = first.rglob(f"rollout-*-{thread}.jsonl")
    (path,) = (path for path in main.parent.iterdir() if path != main)
    agent_id = path.stem[-len(thread) :]
    assert REPORT in path.read_text("utf-8")
    path.write_bytes(damaged(path.read_bytes(), what))
    given = ("--agent", "codex", "--conversation", str(main))
    project.gitcp("save", "broken", *given, env={"HOME": str(first)}, check=0)
    resume = real_agents.restore(project, second, "@")["resume"]
    assert resume["repaired"]
    assert all(fault.endswith(f" in agents/{agent_id}") for fault in resume["repaired"])

    with ScriptedModel(*[spawning] * 9) as model:
        real_agents.codex(second, project.root, model, *resume["command"][1:], "and then?")
    heard = next(each for each in model.requests if GO_ON in str(each["input"][-1]))
    texts = [text for kind, _, text in entries(heard) if kind in ("text", "result")]
    assert real_agents.in_order([INNER, SEEN, REPORT, GO_ON], texts), texts
