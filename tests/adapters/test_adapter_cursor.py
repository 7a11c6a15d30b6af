"""Cursor's conversations, in the shape that is documented: they are saved and shown, continued by
other agents, and never placed for Cursor itself.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from gitcp import adapters
from gitcp.adapters.cursor import ADAPTER
from gitcp.adapters.cursor.converting import UNRECORDED
from gitcp.agents import SAVED
from gitcp.conformance import AdapterConformance, stored
from gitcp.model import Digest, Host
from gitcp.policy import events, triggers
from gitcp.policy.settings import Settings

from driver import Project

ID = "0b1c2d3e-1111-4222-8333-444455556666"
SUB = "aaaa2d3e-1111-4222-8333-444455556666"
WRITE = {"type": "tool_use", "name": "Write", "input": {"path": "b.txt", "contents": "hi\n"}}


def said(role: str, *blocks: Any) -> dict[str, Any]:
    content = [{"type": "text", "text": each} if isinstance(each, str) else each for each in blocks]
    return {"role": role, "message": {"content": content}}


def lines(*prompts: str) -> list[dict[str, Any]]:
    """A conversation, in which each prompt is answered after a call."""
    return [
        each
        for number, prompt in enumerate(prompts)
        for each in (
            said("user", f"<timestamp>Saturday</timestamp>\n<user_query>\n{prompt}\n</user_query>"),
            said("assistant", "I write it.", WRITE),
            said("assistant", f"Answer {number}."),
            {"type": "turn_ended", "status": "completed"},
        )
    ]


def put(home: Path, cwd: Path, id: str, records: Sequence[dict[str, Any]]) -> Path:
    """Write a transcript where Cursor has it."""
    path = ADAPTER.directory(str(cwd), host(home)) / ADAPTER.below / id / f"{id}.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{json.dumps(each)}\n" for each in records))
    return path


def host(home: Path) -> Host:
    return Host({}, home, lambda: datetime(2026, 11, 28, 12, tzinfo=UTC))


class Sessions(AdapterConformance):
    """Conversations in the shape that Cursor is documented to write."""

    adapter = ADAPTER

    def begin(self, home: Path, cwd: Path, prompts: Sequence[str]) -> None:
        id = str(uuid4())
        put(home, cwd, id, lines(*prompts))


READING = [
    *("is_an_adapter", "where_the_agent_never_was", "a_session_is_found", "a_second_session"),
    *("a_session_that_goes_on_is_noticed", "capture", "digest", "odd_lines_are_passed_over"),
]


@pytest.mark.parametrize("name", READING)
def test_as_every_adapter(name: str, tmp_path: Path) -> None:
    """What every adapter must do that places nothing, and whose messages have no ids."""
    test = getattr(Sessions(), f"test_it_{name}" if name.startswith("is") else f"test_{name}")
    test() if name.startswith("is") else test(tmp_path)


def test_what_is_shown(tmp_path: Path) -> None:
    """What was typed, without what the editor adds; calls, and answers; sub-agents beside."""
    path = put(tmp_path, tmp_path / "app", ID, lines("größer"))
    agent = path.parent / "subagents" / f"{SUB}.jsonl"
    agent.parent.mkdir()
    agent.write_text("{}\n")
    found = ADAPTER.located(ID, host(tmp_path))
    assert found is not None
    data = path.read_bytes().splitlines()
    assert [(each.role, each.text, each.tool) for each in ADAPTER.messages(data)] == [
        ("user", "größer", None),
        ("assistant", "I write it.", None),
        ("assistant", '{"path":"b.txt","contents":"hi\\n"}', "Write"),
        ("assistant", "Answer 0.", None),
    ]
    digest = ADAPTER.digest(Digest(), [*data, b'{"type":"of next year"}'])
    assert (digest.messages, digest.last_prompt) == (3, "größer")
    assert digest.unknown == ("of next year",)
    assert [each.name for each in ADAPTER.capture(found).sources] == ["main", f"agents/{SUB}"]


def test_whose_a_directory_is(tmp_path: Path) -> None:
    """Two directories can have one name there; a file in it says which, if Cursor has asked whether
    to trust it. A long name ends in a checksum, and earlier versions made no directory each.
    """
    one, other = tmp_path / "my-app", tmp_path / "my" / "app"
    path = put(tmp_path, one, ID, lines("one"))
    flat = path.parent.parent / f"{SUB}.jsonl"
    flat.write_bytes(path.read_bytes())
    both = {ID, SUB}
    assert {each.session_id for each in ADAPTER.find(one, host(tmp_path))} == both
    assert {each.session_id for each in ADAPTER.find(other, host(tmp_path))} == both
    named = path.parents[2] / ".workspace-trusted"
    named.write_text(json.dumps({"workspacePath": str(one)}))
    assert {each.session_id for each in ADAPTER.find(one, host(tmp_path))} == both
    assert ADAPTER.find(other, host(tmp_path)) == ()
    (found,) = [each for each in ADAPTER.list_all(host(tmp_path)) if each.found.session_id == ID]
    assert ADAPTER.origin(found.found).directories == (str(one),)
    assert len(ADAPTER.directory(f"/{'x' * 300}", host(tmp_path)).name) == 92


def test_continued_by_another_agent(tmp_path: Path) -> None:
    """Calls have no results there, and say so; nothing is written for Cursor."""
    put(tmp_path, tmp_path / "app", ID, lines("one", "two"))
    found = ADAPTER.located(ID, host(tmp_path))
    assert found is not None
    dialogue = adapters.reader("cursor").read(stored(ADAPTER.capture(found)))
    assert [item.text() for item in dialogue.items if item.role == "user"] == ["one", "two"]
    results = [call.result for item in dialogue.items for call in item.calls()]
    assert results == [UNRECORDED, UNRECORDED]
    assert not dialogue.omitted
    assert "cursor" not in adapters.CONVERTIBLE


def payload(event: str, root: Path, **fields: Any) -> dict[str, Any]:
    """A payload as it is documented."""
    return {
        "conversation_id": ID, "generation_id": "g1", "model": "m", "cursor_version": "3.7",
        "hook_event_name": event, "workspace_roots": [str(root)], "user_email": None,
        "transcript_path": None, **fields,
    }  # fmt: skip


def test_events(tmp_path: Path) -> None:
    """The conversation is the session, the place that was opened is the directory, and a risky
    command is one.
    """
    fields = {"tool_name": "Shell", "tool_input": {"command": "rm -rf src"}, "tool_use_id": "t1"}
    event = events.read("cursor", "preToolUse", payload("preToolUse", tmp_path, **fields))
    assert event is not None
    assert (event.session_id, event.cwd, event.transcript) == (ID, str(tmp_path), "")
    assert triggers.decide(event, Settings(), None, lambda _: 0) == "before-risky-change"
    odd = events.read("cursor", "stop", {**payload("stop", tmp_path), "workspace_roots": [{}]})
    assert odd is not None
    assert odd.cwd == ""


def test_the_hook_of_another_agent(tmp_path: Path) -> None:
    """Cursor runs Claude Code's hooks as well, in its own name."""
    fields: dict[str, object] = {"session_id": ID, "cwd": str(tmp_path)}
    event = events.read("claude", "Stop", fields)
    assert event is not None
    events.attribute(event, {"CURSOR_VERSION": "3.7"}, str(tmp_path))
    assert (event.agent, event.name, event.is_borrowed) == ("cursor", "stop", True)
    assert SAVED["cursor"].hooks.runs_others


def test_from_save_to_restore(project: Project, sealed: Path) -> None:
    """A hook saves files and conversation; a restore brings the files, and the conversation as a
    file; what cannot be resumed says so and names what can.
    """
    project.write("a.txt", "one\n")
    project.commit()
    put(sealed, project.root, ID, lines("add a greeting"))
    project.write("b.txt", "hi\n")
    stop = json.dumps(payload("stop", project.root, status="completed"))
    project.gitcp("hook", "cursor", "stop", input=stop, check=0)
    (saved,) = project.json_lines("log")
    assert (saved["trigger"], saved["agent"]["session_id"]) == ("turn", ID)
    assert "add a greeting" in project.gitcp("show", "--conversation", check=0).out

    before = {path: path.read_bytes() for path in (sealed / ".cursor").rglob("*.jsonl")}
    project.write("b.txt", "other\n")
    said = project.gitcp("restore", "1", "--yes", check=0).out
    assert "Cursor cannot import this conversation; it was written to " in said
    assert project.read("b.txt") == b"hi\n"
    assert {path: path.read_bytes() for path in (sealed / ".cursor").rglob("*.jsonl")} == before
    assert list((project.git_dir / "gitcp/restored").rglob(f"{ID}.jsonl"))
    refused = project.gitcp("resume", "1", "--print", check=1)
    assert f"hint: gitcp resume {saved['id']} --with claude-code" in refused.err
    other = project.gitcp("resume", "1", "--print", "--with", "claude-code", check=0)
    assert "converted 3 messages from Cursor to Claude Code" in other.err
