"""`gitcp resume --with`: a conversation goes on in another agent, and the one that had it keeps
it.
"""

from __future__ import annotations

import json
import os
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from dialogues import AGENTS
from talk import SESSION, Talk

from gitcp.adapters import load
from gitcp.adapters.base import text_of
from gitcp.state import conversions

from driver import Project
from samples import open_store

OTHERS = [agent for agent in AGENTS if agent not in ("claude-code", "opencode")]
HEAD = "[gitcp] This conversation was begun with Claude Code"


@pytest.fixture
def talk(project: Project) -> Talk:
    """A project with a checkpoint of an agent's session."""
    project.write("app.py", "one\n")
    project.commit()
    talk = Talk(project)
    talk.say("begin", "begun")
    project.gitcp("save", "first", "--fact", "budget=2s", "--next", "measure", check=0)
    return talk


def resume(project: Project, agent: str, *args: str) -> Any:
    """Convert for this agent; the report. Nothing that git has is touched."""
    with project.guard():
        return json.loads(
            project.gitcp("resume", *args, "--with", agent, "--json", "--yes", check=0).out
        )


def told(report: Any) -> list[str]:
    """What the transcript at the reported path says, message by message."""
    lines = Path(report["resume"]["path"]).read_bytes().splitlines()
    return [text_of(m.text) for m in load(report["resume"]["agent"]).messages(lines)]


@pytest.mark.parametrize("agent", OTHERS)
def test_it_goes_on_there(project: Project, talk: Talk, agent: str) -> None:
    """A transcript of the other agent's, with the note at its head, which that agent finds; the
    conversation stays as it was.
    """
    before = talk.path.read_bytes()
    talk.say("unsaved", "yes")
    said = talk.path.read_bytes()
    report = resume(project, agent)

    head, *messages = told(report)
    assert head.startswith(HEAD)
    assert f"session {SESSION}" in head
    assert "budget = 2s" in head
    assert "- measure" in head
    assert messages == ["begin", "begun", "unsaved", "yes"]
    assert report["converted"] == {
        "from": {"agent": "claude-code", "session_id": SESSION},
        "to": {"agent": agent, "session_id": report["resume"]["session_id"]},
        "messages": 4,
        "omitted": {},
    }
    found = load(agent).find(project.root, open_store(project).repo.host)
    assert [session.session_id for session in found] == [report["resume"]["session_id"]]
    assert talk.path.read_bytes() == said
    assert said.startswith(before)


@pytest.mark.parametrize("agent", OTHERS)
def test_more_work_is_appended(project: Project, talk: Talk, agent: str) -> None:
    """To the same session: what came since, and the note where it changed. Nothing new: nothing
    is written.
    """
    first = resume(project, agent)
    path = Path(first["resume"]["path"])
    data = path.read_bytes()
    assert resume(project, agent)["resume"] == {**first["resume"], "latest": None}
    assert path.read_bytes() == data

    talk.say("more", "done")
    project.gitcp("note", "--fact", "budget=3s", check=0)
    again = resume(project, agent)
    assert again["resume"]["path"] == str(path)
    assert path.read_bytes().startswith(data)
    texts = told(again)
    assert [text for text in texts if not text.startswith("[gitcp]")] == [
        "begin", "begun", "more", "done"
    ]  # fmt: skip
    assert "budget = 2s" in texts[0]
    assert texts.index("begun") < next(n for n, text in enumerate(texts) if "budget = 3s" in text)

    logged = [o["said"] for o in project.json_lines("oplog") if o["operation"] == "convert"]
    assert (
        logged
        == [
            f"from claude-code session {SESSION} to {agent} session {first['resume']['session_id']}"
        ]
        * 2
    )
    (record,) = conversions.entries(open_store(project).repo)
    assert (record.source, record.agent, record.items) == ("claude-code", agent, 4)


@pytest.mark.parametrize("agent", OTHERS)
def test_what_went_on_there_is_kept(project: Project, talk: Talk, agent: str) -> None:
    """If the other agent has continued its session, the next conversion is a new one."""
    first = resume(project, agent)
    path = Path(first["resume"]["path"])
    with path.open("ab") as file:
        file.write(b'{"type":"its own"}\n')
    data = path.read_bytes()
    talk.say("more", "done")
    again = resume(project, agent)

    assert again["resume"]["session_id"] != first["resume"]["session_id"]
    assert path.read_bytes() == data
    assert told(again)[1:] == ["begin", "begun", "more", "done"]


@pytest.mark.parametrize("agent", OTHERS)
def test_the_copy_is_saved_once_it_goes_on(project: Project, talk: Talk, agent: str) -> None:
    """Until somebody continues the copy, a save stores the original, also without news in it."""
    path = Path(resume(project, agent)["resume"]["path"])
    project.write("app.py", "two\n")
    assert project.json("save")["checkpoint"]["agent"]["session_id"] == SESSION
    talk.say("on", "yes")
    assert project.json("save")["checkpoint"]["agent"]["session_id"] == SESSION

    now = datetime.now(UTC).isoformat()
    said = next(json.loads(line) for line in path.read_bytes().splitlines() if b"begun" in line)
    with path.open("a") as file:
        file.write(json.dumps(said | {"id": "new", "timestamp": now}) + "\n")
    project.write("app.py", "three\n")
    assert project.json("save")["checkpoint"]["agent"]["name"] == agent


def test_files_go_back_with_a_revision(project: Project, talk: Talk) -> None:
    """With one, the files of that checkpoint are restored, and its messages converted."""
    project.write("app.py", "two\n")
    talk.say("more", "done")
    project.gitcp("save", "second", check=0)
    report = json.loads(
        project.gitcp("resume", "1", "--with", "codex", "--yes", "--json", check=0).out
    )

    assert project.read("app.py") == b"one\n"
    assert told(report)[1:] == ["begin", "begun"]
    project.gitcp("undo", "--yes", check=0)
    assert project.read("app.py") == b"two\n"


def test_print_changes_nothing(project: Project, talk: Talk) -> None:
    """The command that would convert; once that is done, the one that starts the agent."""
    shown = project.gitcp("resume", "--with", "gemini", "--print", check=0)
    assert shown.out == "gitcp resume --session e7baae82 --with gemini\n"
    assert shown.err == "converted 2 messages from Claude Code to Gemini CLI\n"
    assert not Path(os.environ["HOME"], ".gemini").exists()

    report = resume(project, "gemini")
    shown = project.gitcp("resume", "--with", "gemini", "--print", check=0)
    assert shown.out == f"gemini --resume {report['resume']['session_id']}\n"


def test_opencode_imports(project: Project, talk: Talk) -> None:
    """A document for its import; nothing is written into its database."""
    report = resume(project, "opencode")

    (prepare,) = report["resume"]["prepare"]
    assert prepare[:2] == ["opencode", "import"]
    document = json.loads(Path(prepare[2]).read_bytes())
    texts = [part["text"] for message in document["messages"] for part in message["parts"]]
    assert texts[0].startswith(HEAD)
    assert texts[1:] == ["begin", "begun"]
    assert report["resume"]["command"] == ["opencode", "--session", document["info"]["id"]]


def test_the_agent_must_be_there(project: Project, talk: Talk) -> None:
    """Without it on PATH, nothing is converted; to the same agent, neither."""
    with project.guard():
        missing = project.gitcp("resume", "--with", "codex", "--yes", check=1)
        assert "codex is not on PATH" in missing.err
        project.gitcp("resume", "--with", "claude-code", "--yes", check=12)
    assert not Path(os.environ["HOME"], ".codex").exists()
