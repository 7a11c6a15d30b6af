"""Real agents with `gitcp mcp`, offline, and a model that knows nothing but what they tell it.

The model is scripted in what it wants. Which argument it should have named, which call a hint
means, and which call carries out a plan, it reads in what the agent sends it.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from real_agents import CLAUDE, COPILOT, claude, copilot

from driver import SOURCE, Project
from scripted_model import Reader, ScriptedModel, Step

SERVER: dict[str, Any] = {
    "command": sys.executable,
    "args": ["-P", "-m", "gitcp", "mcp"],
    "env": {"PYTHONPATH": str(SOURCE)},
}
TOOLS = set("diff find fork list note restore revert save show undo why".split())


class Agent(NamedTuple):
    """An agent that has the server: how it is run, and what it calls things."""

    program: Path
    run: Callable[[Path, Path, ScriptedModel, str], None]
    prefix: str
    shell: str
    first: tuple[Step, ...] = ()


def run_claude(home: Path, root: Path, model: ScriptedModel, prompt: str) -> None:
    """Run Claude Code with the server."""
    config = json.dumps({"mcpServers": {"gitcp": SERVER}})
    claude(home, root, model, "--mcp-config", config, "--strict-mcp-config", "--", prompt)


def run_copilot(home: Path, root: Path, model: ScriptedModel, prompt: str) -> None:
    """Run Copilot CLI with the server."""
    config = json.dumps({"mcpServers": {"gitcp": {"type": "local", "tools": ["*"], **SERVER}}})
    copilot(home, root, model, "--additional-mcp-config", config, prompt)


WAIT: Step = {"tool": "WaitForMcpServers", "input": {}}
AGENTS = {
    "claude": Agent(CLAUDE, run_claude, "mcp__gitcp__", "Bash", (WAIT,)),
    "copilot": Agent(COPILOT, run_copilot, "gitcp-", "bash"),
}


@pytest.fixture(params=AGENTS)
def agent(request: pytest.FixtureRequest) -> Agent:
    """One of the agents, where it is installed."""
    found = AGENTS[request.param]
    if not found.program.exists():
        pytest.skip(f"needs {request.param} (npm) in {found.program.parents[2]}")
    return found


def result(body: dict[str, Any]) -> str:
    """What the last call of a tool gave, as the model is told."""
    parts = [
        part
        for message in body["messages"]
        for part in (message["content"] if isinstance(message["content"], list) else [])
        if part["type"] == "tool_result"
    ]
    content = parts[-1]["content"]
    return content if isinstance(content, str) else "".join(part["text"] for part in content)


def corrected(tool: str, arguments: dict[str, Any]) -> Reader:
    """Call again, with the argument that the error names."""

    def read(body: dict[str, Any]) -> Step:
        found = re.search(r"no argument '(\w+)' \(did you mean '(\w+)'\?\)", result(body))
        assert found, result(body)
        renamed = {found[2] if name == found[1] else name: v for name, v in arguments.items()}
        return {"tool": tool, "input": renamed}

    return read


def hinted(prefix: str) -> Reader:
    """Make the call that the hint of an error names."""

    def read(body: dict[str, Any]) -> Step:
        found = re.search(r"hint: call (\w+) with (\{.*\})", result(body))
        assert found, result(body)
        return {"tool": prefix + found[1], "input": json.loads(found[2])}

    return read


def planned(prefix: str) -> Reader:
    """Make the call that carries out a plan."""

    def read(body: dict[str, Any]) -> Step:
        following = json.loads(result(body))["next"]
        return {"tool": prefix + following["tool"], "input": following["arguments"]}

    return read


def test_a_model_with_the_descriptions_alone(
    project: Project, tmp_path: Path, agent: Agent
) -> None:
    """It saves with a misspelled argument, asks for a revision of git's, and restores: each time
    what it is told suffices. The conversation that calls is in the checkpoint.
    """
    project.write("app.py", "one\n")
    project.commit()
    home, prefix = tmp_path / "home", agent.prefix
    wrong = {"lable": "before the change", "decided": ["two"]}
    change = {"command": "printf 'two\\n' > app.py", "description": "change"}
    steps: tuple[Step | Reader, ...] = (
        *agent.first,
        {"tool": f"{prefix}save", "input": wrong},
        corrected(f"{prefix}save", wrong),
        {"tool": agent.shell, "input": change},
        {"tool": f"{prefix}show", "input": {"revision": "HEAD"}},
        hinted(prefix),
        {"tool": f"{prefix}restore", "input": {"revision": "before the change"}},
        planned(prefix),
        {"text": "Done."},
    )
    with ScriptedModel(*steps) as model:
        agent.run(home, project.root, model, "change it, and change it back")

    body = model.requests[-1]
    tools = {tool["name"].removeprefix(prefix): tool for tool in body["tools"]}
    assert tools.keys() >= TOOLS
    assert all(len(tools[name]["description"]) > 40 for name in TOOLS)
    assert all(tools[name]["input_schema"]["additionalProperties"] is False for name in TOOLS)
    assert json.loads(result(body))["schema"] == "gitcp.restore/1"
    assert project.read("app.py") == b"one\n"
    found = project.gitcp("show", "before the change", "--json", env={"HOME": str(home)}, check=0)
    checkpoint = json.loads(found.out)
    assert checkpoint["handoff"]["decisions"] == ["two"]
    assert checkpoint["conversation"] is not None
    project.gitcp("undo", "--yes", env={"HOME": str(home)}, check=0)
    assert project.read("app.py") == b"two\n"
