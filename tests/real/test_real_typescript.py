"""The TypeScript programs of docs/typescript.md, run as they are by Node.js with the real SDK and
agent against a model that is told what to say.
"""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest
from pages import blocks
from real_agents import CLAUDE, NODE, OFFLINE, PREFIX, in_order

from driver import SOURCE, Project
from scripted_model import ScriptedModel, Step, said

PACKAGES = PREFIX / "typescript/node_modules"

pytestmark = pytest.mark.skipif(
    not (CLAUDE.exists() and NODE.exists() and PACKAGES.exists()),
    reason=f"needs Claude Code, Node.js and the SDK (npm) in {PREFIX}",
)

PROGRAMS = [
    "\n".join(block.lines)
    for block in blocks(SOURCE.joinpath("docs/typescript.md").read_text("utf-8"))
    if block.kind == "typescript"
]
SHELL = "echo 'b = 2' >> auth.py; echo x > junk.txt"


def run(project: Project, program: str, home: Path, *steps: Step) -> tuple[str, list[list[str]]]:
    """Run a program in the project: what it printed, and what the model heard in each request."""
    # The test's SDK comes without the agent that its package brings: it is told where the other is.
    whole = f"pathToClaudeCodeExecutable: {json.dumps(str(CLAUDE))}, settingSources:"
    assert program.count("settingSources:") == 1
    project.write("program.ts", program.replace("settingSources:", whole))
    project.write("package.json", '{"type": "module"}')
    project.write("gitcp.ts", SOURCE.joinpath("hooks/typescript/gitcp.ts").read_bytes())
    project.write(".gitignore", "node_modules\n")
    if not project.root.joinpath("node_modules").exists():
        project.root.joinpath("node_modules").symlink_to(PACKAGES)
    with ScriptedModel(*steps) as model:
        env = {
            **os.environ,
            **OFFLINE,
            "HOME": str(home),
            "CLAUDE_CONFIG_DIR": str(home / ".claude"),
            "IS_SANDBOX": "1",
            "ANTHROPIC_API_KEY": "not-a-key",
            "ANTHROPIC_BASE_URL": model.url,
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            "DISABLE_AUTOUPDATER": "1",
            "DISABLE_TELEMETRY": "1",
        }
        done = subprocess.run(
            [str(NODE), "program.ts"],
            cwd=project.root,
            env=env,
            capture_output=True,
            text=True,
            stdin=subprocess.DEVNULL,
            timeout=180,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout, [said(request) for request in model.requests]


def two_turns(project: Project) -> tuple[Step, ...]:
    """A file by the edit tool; then the shell changes it and makes another one."""
    write = {"file_path": str(project.root / "auth.py"), "content": "a = 1\n"}
    return (
        {"tool": "Write", "input": write},
        {"text": "Written."},
        {"tool": "Bash", "input": {"command": SHELL}},
        {"text": "Refactored."},
    )


def test_sessions(project: Project, tmp_path: Path) -> None:
    """Resumed and forked: each SDK session is one of gitcp, with what was said in it."""
    project.gitcp("enable", "claude", "--yes", check=0)
    answers = [{"text": f"answer {number}"} for number in range(4)]

    printed, heard = run(project, PROGRAMS[0], tmp_path / "home", *answers)

    assert in_order(
        ["answer 0", "answer 1", "answer 2", "answer 3", "two sessions"], printed.splitlines()
    )
    assert "2 sessions" in printed
    assert in_order(["answer 0", "answer 1", "Redesign it as a GraphQL API"], heard[2])
    assert in_order(["answer 1", "Add authentication to the REST API"], heard[3])
    assert not any("GraphQL" in text for text in heard[3])


def test_go_back(project: Project, tmp_path: Path) -> None:
    """What the shell did goes back, and the agent forgets the turn."""
    project.gitcp("enable", "claude", "--yes", check=0)

    printed, heard = run(
        project, PROGRAMS[1], tmp_path / "home", *two_turns(project), {"text": "Again."}
    )

    assert "written [ 'auth.py' ] removed [ 'junk.txt' ]" in printed
    assert project.read("auth.py") == b"a = 1\n"
    assert not project.root.joinpath("junk.txt").exists()
    assert in_order(["Written.", "Refactor it in another way"], heard[-1])
    assert not any("with the shell" in text for text in heard[-1])


def test_store(project: Project, tmp_path: Path) -> None:
    """The store that is copied: the same under the session's own id, and to the first prompt."""
    answers = ({"text": "Again."}, {"text": "Begun."})

    printed, heard = run(project, PROGRAMS[2], tmp_path / "home", *two_turns(project), *answers)

    assert not project.root.joinpath("auth.py").exists()
    assert in_order(["Written.", "Refactor it in another way"], heard[-2])
    assert not any("with the shell" in text for text in heard[-2])
    assert not any("Write the authentication" in text for text in heard[-1])
    (session,) = project.json_lines("sessions")
    assert session["agent"]["name"] == "claude-code"
    assert printed.count("sessionId") == 1
    project.gitcp("check", check=0)
