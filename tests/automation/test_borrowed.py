"""Events of an agent that runs the hooks of another one: Copilot those of `.claude/settings.json`,
Codex those of a plugin for Claude Code. Payloads and variables are as these agents have them.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from gitcp import agents
from gitcp.policy import events
from gitcp.state import tool_log

from driver import Project

SESSION = "d5a2185d-98d6-4926-a3a6-fd5afea4ca58"
IN_COPILOT = {"COPILOT_CLI": "1", "CLAUDE_PROJECT_DIR": "/p", "COPILOT_PROJECT_DIR": "/p"}
SENT = "2026-11-27T00:29:13.197Z"


def copilot(project: Project) -> Path:
    """A session of Copilot in this project, with a prompt and an answer."""
    directory = Path(os.environ["HOME"]) / ".copilot/session-state" / SESSION
    directory.mkdir(parents=True, exist_ok=True)
    root = os.path.realpath(project.root)
    (directory / "workspace.yaml").write_text(f"id: {SESSION}\ncwd: {root}\n")
    lines = [
        {"type": "session.start", "data": {"sessionId": SESSION, "context": {"cwd": root}}},
        {"type": "user.message", "data": {"content": "Add a file."}},
        {"type": "assistant.message", "data": {"content": "Done.", "toolRequests": []}},
    ]
    path = directory / "events.jsonl"
    path.write_text("".join(json.dumps({"timestamp": SENT, **line}) + "\n" for line in lines))
    return path


def codex(project: Project) -> Path:
    """A thread of Codex in this project, with a prompt and an answer."""
    day = Path(os.environ["HOME"]) / ".codex/sessions/2026/11/27"
    day.mkdir(parents=True, exist_ok=True)
    path = day / f"rollout-2026-11-27T00-29-13-{SESSION}.jsonl"
    root = os.path.realpath(project.root)
    texts = [("user", "Add a file."), ("assistant", "Done.")]
    items = [
        {"type": "message", "role": role, "content": [{"type": "text", "text": text}]}
        for role, text in texts
    ]
    lines = [
        {"type": "session_meta", "payload": {"id": SESSION, "cwd": root, "source": "cli"}},
        *({"type": "response_item", "payload": item} for item in items),
    ]
    path.write_text("".join(json.dumps({"timestamp": SENT, **line}) + "\n" for line in lines))
    return path


def call(
    project: Project, agent: str, event: str, env: dict[str, str] | None = None, **fields: object
) -> None:
    """Call a hook."""
    payload = {"session_id": SESSION, "cwd": str(project.root), "timestamp": SENT, **fields}
    project.gitcp("hook", agent, event, env=env, input=json.dumps(payload), check=0)


def sessions(project: Project) -> list[tuple[str, int]]:
    """The agent of each session, and how many checkpoints it has."""
    return [(each["agent"]["name"], each["checkpoints"]) for each in project.json_lines("sessions")]


def test_copilot(project: Project) -> None:
    """Copilot names no transcript before a turn has ended. All events are of its one session, whose
    conversation is stored, and a rollback restores it.
    """
    path = copilot(project)
    project.write("a.txt", "one\n")
    call(project, "claude", "UserPromptSubmit", IN_COPILOT, prompt="Add a file.")
    project.write("a.txt", "two\n")
    call(project, "claude", "Stop", IN_COPILOT, transcript_path=str(path))
    assert sessions(project) == [("copilot", 2)]
    assert project.json("show", "@")["conversation"]["messages"] == 2


def test_codex(project: Project) -> None:
    """Codex names its own transcript."""
    path = codex(project)
    for number, event in enumerate(("SessionStart", "UserPromptSubmit", "Stop", "SessionEnd")):
        project.write("a.txt", f"{number}\n")
        call(project, "claude", event, transcript_path=str(path))
    assert [agent for agent, _ in sessions(project)] == ["codex"]
    assert project.json("show", "@")["conversation"]["messages"] == 2


def test_both_hooks(project: Project) -> None:
    """Where the agent's own hooks are installed too, both say the same: there is one session, and a
    call that began twice is logged once.
    """
    path = copilot(project)
    project.gitcp("enable", "claude", "copilot", "--yes", check=0)
    project.write("a.txt", "one\n")
    call(project, "copilot", "userPromptSubmitted", IN_COPILOT, prompt="Add a file.")
    call(project, "claude", "UserPromptSubmit", IN_COPILOT, prompt="Add a file.")
    arguments = {"path": str(project.root / "b.txt"), "file_text": "new\n"}
    call(project, "copilot", "preToolUse", IN_COPILOT, toolName="create", toolArgs=arguments)
    call(project, "claude", "PreToolUse", IN_COPILOT, tool_name="Write", tool_input=arguments)
    project.write("b.txt", "new\n")
    call(project, "copilot", "postToolUse", IN_COPILOT, toolName="create", toolArgs=arguments)
    call(project, "claude", "Stop", IN_COPILOT, transcript_path=str(path))
    assert [agent for agent, _ in sessions(project)] == ["copilot"]
    begun = [each for each in tool_log.read(str(project.git_dir)) if each.mark == tool_log.BEGIN]
    assert [each.call for each in begun] == ["create"]


def test_own(project: Project) -> None:
    """Claude Code that runs in another agent's shell has that agent's variables, and its own
    transcript.
    """
    directory = Path(os.environ["HOME"]) / ".claude/projects/-p"
    directory.mkdir(parents=True)
    path = directory / f"{SESSION}.jsonl"
    message = {"role": "user", "content": "Add a file."}
    path.write_text(json.dumps({"type": "user", "uuid": "u", "message": message}) + "\n")
    call(project, "claude", "UserPromptSubmit", IN_COPILOT, transcript_path=str(path))
    assert sessions(project) == [("claude-code", 1)]


@pytest.mark.parametrize(
    ("transcript", "env", "expected"),
    [
        ("", {}, "claude-code"),
        ("/elsewhere/x.jsonl", {}, "claude-code"),
        ("/elsewhere/x.jsonl", {"COPILOT_CLI": "1"}, "claude-code"),
        ("/h/.claude/projects/-p/x.jsonl", {}, "claude-code"),
        ("/h/.claude/projects/-p/x.jsonl", {"GEMINI_CLI_HOME": "/h"}, "claude-code"),
        ("/h/.codex/sessions/x.jsonl", {}, "codex"),
        ("/c/sessions/x.jsonl", {"CODEX_HOME": "/c"}, "codex"),
        ("/h/.codex/sessions/x.jsonl", {"CLAUDE_CONFIG_DIR": "/h/.codex"}, "claude-code"),
        ("/h/.copilot/session-state/x/events.jsonl", {}, "copilot"),
        ("/h/.gemini/tmp/x/chats/x.json", {}, "gemini"),
        ("/g/.gemini/tmp/x/chats/x.json", {"GEMINI_CLI_HOME": "/g"}, "gemini"),
        ("", {"COPILOT_CLI": "1"}, "copilot"),
        ("", {"COPILOT_AGENT_SESSION_ID": SESSION}, "copilot"),
        ("", {"COPILOT_AGENT_SESSION_ID": "another"}, "claude-code"),
        ("", {"CODEX_THREAD_ID": SESSION}, "codex"),
        ("", {"CLAUDE_CODE_SESSION_ID": SESSION, "COPILOT_CLI": "1"}, "claude-code"),
        ("bad\0path", {}, "claude-code"),
    ],
)
def test_whose(transcript: str, env: dict[str, str], expected: str) -> None:
    """The transcript decides, else the environment; where neither tells, it is whose hook it is."""
    fields: dict[str, object] = {"session_id": SESSION, "transcript_path": transcript}
    event = events.read("claude", "Stop", {**fields, "timestamp": SENT})
    assert event is not None
    events.attribute(event, env, "/h")
    assert event.agent == expected
    assert event.is_borrowed is (expected != "claude-code")
    assert event.kind == agents.TURN
    if expected == "copilot":
        assert (event.name, event.stamp) == ("agentStop", 1_795_739_353_197)


@pytest.mark.parametrize("sent", ["", "yesterday", "9999-12-31T23:59:59-23:00"])
def test_unknown_time(sent: str) -> None:
    """A time that cannot be read is none."""
    fields: dict[str, object] = {"session_id": SESSION, "timestamp": sent}
    event = events.read("claude", "Stop", fields)
    assert event is not None
    events.attribute(event, {"COPILOT_CLI": "1"}, "/h")
    assert event.stamp >= 0
