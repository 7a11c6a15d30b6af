"""`--agent`: an agent by any of its names."""

from __future__ import annotations

import json

import pytest
from talk import Talk

import gitcp

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


@pytest.mark.parametrize("typed", ["codex", "Codex-CLI", "openai-codex"])
def test_converted_for(project: Project, typed: str) -> None:
    """`export --as` and `resume --with` know an agent by each of its names."""
    Talk(project).say("Go.", "Done.")
    project.gitcp("save", check=0)

    exported = project.gitcp("export", "--as", typed, "--format", "transcript", check=0).out
    assert '"session_meta"' in exported
    assert "codex" in project.gitcp("resume", "--with", typed, "--print", "--yes", check=0).out


def test_converted_for_its_own_agent(project: Project) -> None:
    """`claude`, which most commands print, is Claude Code wherever an agent is named."""
    Talk(project).say("Go.", "Done.")
    project.gitcp("save", "--agent", "claude", check=0)

    exported = project.gitcp("export", "--as", "claude", "--format", "transcript")
    resumed = project.gitcp("resume", "--with", "claude", "--print", "--yes")
    for done in (exported, resumed):
        assert "is not one of" not in done.err
    saved = gitcp.open(project.root).save(agent="claude", force=True)
    assert saved.checkpoint.agent is not None
    assert saved.checkpoint.agent.name == "claude-code"


def test_unknown_names(project: Project) -> None:
    """A name that no agent has is answered with those that there are."""
    project.gitcp(
        *("hook", "claude", "UserPromptSubmit"), input='{"session_id": "mine", "prompt": "x"}'
    )

    assert project.gitcp("sessions", "--agent", "nobody", check=0).err == (
        "note: no session of nobody; agents: claude-code\n"
    )
