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
from real_agents import CLAUDE, CODEX, COPILOT, claude, codex, copilot

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
    shell: Callable[[str], Step]
    first: tuple[Step | Reader, ...] = ()
    namespace: str | None = None

    def call(self, tool: str, arguments: dict[str, Any]) -> Step:
        """A call of one of gitcp's tools."""
        namespace = {"namespace": self.namespace} if self.namespace else {}
        return {"tool": self.prefix + tool, "input": arguments, **namespace}


def run_claude(home: Path, root: Path, model: ScriptedModel, prompt: str) -> None:
    """Run Claude Code with the server."""
    config = json.dumps({"mcpServers": {"gitcp": SERVER}})
    claude(home, root, model, "--mcp-config", config, "--strict-mcp-config", "--", prompt)


def run_copilot(home: Path, root: Path, model: ScriptedModel, prompt: str) -> None:
    """Run Copilot CLI with the server."""
    config = json.dumps({"mcpServers": {"gitcp": {"type": "local", "tools": ["*"], **SERVER}}})
    copilot(home, root, model, "--additional-mcp-config", config, prompt)


def run_codex(home: Path, root: Path, model: ScriptedModel, prompt: str) -> None:
    """Run Codex with the server."""
    env = ", ".join(f"{name} = {json.dumps(value)}" for name, value in SERVER["env"].items())
    settings = {name: json.dumps(SERVER[name]) for name in ("command", "args")}
    settings["env"] = f"{{ {env} }}"
    given = [f"mcp_servers.gitcp.{name}={value}" for name, value in settings.items()]
    codex(home, root, model, *(arg for each in given for arg in ("-c", each)), prompt)


def until_announced(body: dict[str, Any]) -> Step | None:
    """Wait until Codex says that there are tools of gitcp's."""
    if NAMESPACE in str(body["input"]):
        return None
    return {"tool": "exec_command", "input": {"cmd": "sleep 1"}}


def bash(tool: str) -> Callable[[str], Step]:
    """The call of a shell that wants a description, by this name of the tool."""
    return lambda cmd: {"tool": tool, "input": {"command": cmd, "description": "change"}}


NAMESPACE = "mcp__gitcp"
WAIT: Step = {"tool": "WaitForMcpServers", "input": {}}
SEARCH: Step = {"tool": "tool_search", "input": {"query": "gitcp checkpoint", "limit": 30}}
AGENTS = {
    "claude": Agent(CLAUDE, run_claude, "mcp__gitcp__", bash("Bash"), (WAIT,)),
    "codex": Agent(
        CODEX,
        run_codex,
        "",
        lambda cmd: {"tool": "exec_command", "input": {"cmd": cmd}},
        (*[until_announced] * 60, SEARCH),
        NAMESPACE,
    ),
    "copilot": Agent(COPILOT, run_copilot, "gitcp-", bash("bash")),
}


@pytest.fixture(params=AGENTS)
def agent(request: pytest.FixtureRequest) -> Agent:
    """One of the agents, where it is installed."""
    found = AGENTS[request.param]
    if not found.program.exists():
        pytest.skip(f"needs {request.param} (npm) in {found.program.parents[2]}")
    return found


def tools_of(body: dict[str, Any], agent: Agent) -> dict[str, dict[str, Any]]:
    """The tools that the model was told of, with their schemas, by gitcp's names."""
    if agent.namespace is None:
        return {tool["name"].removeprefix(agent.prefix): tool for tool in body["tools"]}
    (found,) = (item["tools"] for item in body["input"] if item["type"] == "tool_search_output")
    (ours,) = (each["tools"] for each in found if each["name"] == agent.namespace)
    return {tool["name"]: {**tool, "input_schema": tool["parameters"]} for tool in ours}


def result(body: dict[str, Any]) -> str:
    """What the last call of a tool gave, as the model is told."""
    if "input" in body:
        outputs = [each for each in body["input"] if each["type"] == "function_call_output"]
        output: str | list[dict[str, str]] = outputs[-1]["output"]
        return output.partition("Output:\n")[2] if isinstance(output, str) else output[-1]["text"]
    parts = [
        part
        for message in body["messages"]
        for part in (message["content"] if isinstance(message["content"], list) else [])
        if part["type"] == "tool_result"
    ]
    content = parts[-1]["content"]
    return content if isinstance(content, str) else "".join(part["text"] for part in content)


def corrected(agent: Agent, tool: str, arguments: dict[str, Any]) -> Reader:
    """Call again, with the argument that the error names."""

    def read(body: dict[str, Any]) -> Step:
        found = re.search(r"no argument '(\w+)' \(did you mean '(\w+)'\?\)", result(body))
        assert found, result(body)
        renamed = {found[2] if name == found[1] else name: v for name, v in arguments.items()}
        return agent.call(tool, renamed)

    return read


def hinted(agent: Agent) -> Reader:
    """Make the call that the hint of an error names."""

    def read(body: dict[str, Any]) -> Step:
        found = re.search(r"hint: call (\w+) with (\{.*\})", result(body))
        assert found, result(body)
        return agent.call(found[1], json.loads(found[2]))

    return read


def planned(agent: Agent) -> Reader:
    """Make the call that carries out a plan."""

    def read(body: dict[str, Any]) -> Step:
        following = json.loads(result(body))["next"]
        return agent.call(following["tool"], following["arguments"])

    return read


def test_a_model_with_the_descriptions_alone(
    project: Project, tmp_path: Path, agent: Agent
) -> None:
    """It saves with a misspelled argument, asks for a revision of git's, and restores: each time
    what it is told suffices. The conversation that calls is in the checkpoint.
    """
    project.write("app.py", "one\n")
    project.commit()
    home = tmp_path / "home"
    wrong = {"lable": "before the change", "decided": ["two"]}
    steps: tuple[Step | Reader, ...] = (
        *agent.first,
        agent.call("save", wrong),
        corrected(agent, "save", wrong),
        agent.shell("printf 'two\\n' > app.py"),
        agent.call("show", {"revision": "HEAD"}),
        hinted(agent),
        agent.call("restore", {"revision": "before the change"}),
        planned(agent),
        {"text": "Done."},
    )
    with ScriptedModel(*steps) as model:
        agent.run(home, project.root, model, "change it, and change it back")

    body = model.requests[-1]
    tools = tools_of(body, agent)
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
