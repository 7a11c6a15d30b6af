"""`--agent`: an agent by any of its names."""

from __future__ import annotations

import json

import pytest

from driver import Project

EVENTS = {
    "claude-code": "UserPromptSubmit",
    "codex": "UserPromptSubmit",
    "gemini": "BeforeAgent",
    "copilot": "userPromptSubmitted",
    "opencode": "chat.message",
}
"""What each agent calls the event before a prompt."""


@pytest.mark.parametrize(
    ("typed", "recorded"),
    [
        ("claude", "claude-code"),
        ("Claude-Code", "claude-code"),
        ("openai-codex", "codex"),
        ("codex-cli", "codex"),
        ("gemini-cli", "gemini"),
        ("github-copilot", "copilot"),
        ("copilot-cli", "copilot"),
        ("opencode", "opencode"),
    ],
)
def test_sessions_of_an_agent(project: Project, typed: str, recorded: str) -> None:
    """`sessions --agent` finds an agent's session by each of its names."""
    for agent, event in EVENTS.items():
        payload = {"session_id": agent, "sessionId": agent, "prompt": "hello"}
        project.write("talk.txt", agent)
        project.gitcp("hook", agent, event, input=json.dumps(payload), check=0)

    lines = project.gitcp("sessions", "--agent", typed, "--json", check=0).out.splitlines()

    assert [json.loads(line)["agent"]["name"] for line in lines] == [recorded]


def test_unknown_names(project: Project) -> None:
    """A name that no agent has is answered with those that there are."""
    project.gitcp(
        *("hook", "claude", "UserPromptSubmit"), input='{"session_id": "mine", "prompt": "x"}'
    )

    assert project.gitcp("sessions", "--agent", "nobody", check=0).err == (
        "note: no session of nobody; agents: claude-code\n"
    )
