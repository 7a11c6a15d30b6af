"""OpenClaw, whose database is read and never written: what the real program left in it is saved,
with its sub-agent, and goes on in Claude Code.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import real_agents
from real_agents import CLAUDE, NODE, OFFLINE, OPENCLAW, PI_MODEL, in_order, save, sub_agents
from scripted_openai import ScriptedOpenAI
from scripted_openai import said as told

from driver import Project
from scripted_model import ScriptedModel, Step, said

pytestmark = [
    pytest.mark.full,
    pytest.mark.skipif(
        not all(each.exists() for each in (CLAUDE, NODE, OPENCLAW)),
        reason=f"needs OpenClaw, Claude Code and Node.js (npm) in {real_agents.PREFIX}",
    ),
]
PROMPT, INNER, REPORT = "ask somebody to look", "look what is there", "The sub-agent saw it."


def environment(home: Path) -> dict[str, str]:
    """What OpenClaw is to find in its environment: nothing but its home and the newer Node.js."""
    path = f"{NODE.parent}{os.pathsep}{os.environ['PATH']}"
    return {"HOME": str(home), "PATH": path, "LANG": "C.UTF-8", **OFFLINE}


def free_port() -> int:
    """A port on which nobody listens."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port: int = server.getsockname()[1]
        return port


@contextmanager
def gateway(home: Path, cwd: Path, model: ScriptedModel) -> Iterator[None]:
    """Run OpenClaw's service, which sub-agents need, with this model and working directory."""
    port = free_port()
    provider = {"baseUrl": f"{model.url}/v1", "apiKey": "not-a-key", "api": "openai-completions"}
    providers = {"scripted": {**provider, "models": [PI_MODEL]}}
    defaults = {
        "workspace": str(cwd),
        "model": {"primary": "scripted/m"},
        "skipBootstrap": True,
    }
    settings = {
        "models": {"mode": "replace", "providers": providers},
        "agents": {"defaults": defaults},
        "gateway": {"mode": "local", "port": port, "auth": {"mode": "token", "token": "t"}},
    }
    path = home / ".openclaw" / "openclaw.json"
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps(settings))
    with (home / "gateway.log").open("w") as log:
        service = subprocess.Popen(
            [NODE, OPENCLAW, "gateway", "run"],
            cwd=cwd,
            env=environment(home),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
        )
    try:
        while service.poll() is None and not listens(port):
            time.sleep(0.5)
        assert service.poll() is None, (home / "gateway.log").read_text()[-2000:]
        yield
    finally:
        service.terminate()
        service.wait(timeout=60)


def listens(port: int) -> bool:
    """Whether somebody listens there."""
    try:
        socket.create_connection(("127.0.0.1", port), 1).close()
    except OSError:
        return False
    return True


def answer(body: dict[str, Any]) -> Step:
    """The sub-agent's report, or what its parent does: write a file, spawn it, end the turn."""
    texts = told(body)
    if any(INNER in text for text in texts) and not any(PROMPT in text for text in texts):
        return {"text": REPORT}
    if "write" not in texts:
        return {"tool": "write", "input": {"path": "by_tool.txt", "content": "by the tool\n"}}
    spawn = {"id": "sessions_spawn", "args": {"task": INNER}}
    return {"text": "Done."} if "tool_call" in texts else {"tool": "tool_call", "input": spawn}


def test_it_goes_on_in_another(project: Project, tmp_path: Path) -> None:
    """Saved by hand, with its sub-agent; the files are back, its database is as it was, and Claude
    Code is sent what was said.
    """
    home = tmp_path / "home"
    home.mkdir()
    with (
        ScriptedOpenAI(*[answer] * 12) as model,
        gateway(home, project.root, model),
    ):
        command = [str(NODE), str(OPENCLAW), "agent", "--agent", "main", "--message", PROMPT]
        subprocess.run(command, env=environment(home), check=True, capture_output=True, timeout=240)
        until_reported(model)
    saved = save(project, home, "first")
    assert saved["agent"]["name"] == "openclaw"
    assert len(sub_agents(saved)) == 1
    show = ("show", saved["id"], "--conversation")
    shown = project.gitcp(*show, env={"HOME": str(home)}, check=0).out
    assert in_order([PROMPT, "by_tool.txt", "Done."], shown.splitlines()), shown

    files = project.files()
    project.write("by_tool.txt", "wrecked\n")
    path = home / ".openclaw/agents/main/agent/openclaw-agent.sqlite"
    before = path.read_bytes()
    resume = ("resume", saved["id"], "--with", "claude", "--yes", "--json")
    report = json.loads(project.gitcp(*resume, env={"HOME": str(home)}, check=0).out)["resume"]
    assert (project.files(), path.read_bytes()) == (files, before)
    with ScriptedModel({"text": "Going on."}) as other:
        real_agents.claude(home, project.root, other, *report["command"][1:], "and then?")
    heard = said(other.requests[0])
    assert in_order([PROMPT, "write", "Done.", "and then?"], heard), heard


def until_reported(model: ScriptedModel) -> None:
    """Wait until the sub-agent has made its request, and its parent has heard of it."""
    end = time.monotonic() + 120
    while time.monotonic() < end:
        if any(REPORT in json.dumps(each["messages"]) for each in model.requests):
            time.sleep(2)  # what it writes after that
            return
        time.sleep(0.2)
    raise AssertionError([told(each)[-2:] for each in model.requests])
