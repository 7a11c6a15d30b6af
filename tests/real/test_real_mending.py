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

from gitcp.adapters.mending import FIRST, MARK, NOT_UTF8

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

pytestmark = pytest.mark.skipif(
    not all(program.exists() for program in PROGRAMS.values()),
    reason=f"needs the five agents (npm) in {real_agents.PREFIX}",
)


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
