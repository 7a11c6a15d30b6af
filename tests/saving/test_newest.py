"""Which of several recent conversations a save without names stores, and the reason it prints."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import pytest
from talk import SESSION, Talk

from driver import Project

SECOND = "b0b0b0b0-5d1c-4f0a-9b3e-2c6d8f1a7b90"
THIRD = "c0c0c0c0-5d1c-4f0a-9b3e-2c6d8f1a7b90"
NEWEST = "the newest conversation of claude-code in this directory"
AMBIGUOUS = 16

STUBS = {
    "empty": "",
    "snapshot": '{"type": "file-history-snapshot", "messageId": "x", "snapshot": {}}\n',
    "summary": '{"type": "summary", "summary": "Old work", "leafUuid": "x"}\n',
    "mode": '{"type": "mode", "mode": "normal", "sessionId": "x"}\n',
    "clear": json.dumps(
        {
            "type": "user",
            "uuid": "x",
            "message": {"role": "user", "content": "<command-name>/clear</command-name>"},
        }
    )
    + "\n",
}


@pytest.fixture
def first(project: Project) -> Talk:
    """A project whose agent has worked, and been saved."""
    talk = Talk(project)
    talk.say("Begin.", "I begin.")
    project.write("a.txt", "one\n")
    project.gitcp("save", "one", check=0)
    return talk


def saved(project: Project, *args: str) -> str | None:
    """Save after a change of the files; the id of the conversation that is stored."""
    project.write("a.txt", f"{time.monotonic()}\n")
    agent = project.json("save", *args)["checkpoint"]["agent"]
    return agent["session_id"] if agent else None


def test_cleared(project: Project, first: Talk) -> None:
    """After /clear the next save stores the new conversation, which no checkpoint has, and the
    reason says so; `status` names it before.
    """
    Talk(project, SECOND).say("Another task.", "I do it.")
    project.write("a.txt", "two\n")
    status = project.gitcp("status", check=0).out
    assert f"Session       b0b0b0b0  ({NEWEST})" in status
    said = project.gitcp("save", "two", check=0).out
    assert "saved b0b0b0b0@1" in said
    assert f"conversation: {NEWEST}" in said
    first.say("Here again.", "Yes.")
    assert saved(project, "three") == SESSION


def test_cleared_twice(project: Project, first: Talk) -> None:
    """Of two new conversations it is the one whose last message is newer, whatever was written to
    the other's file since.
    """
    Talk(project, SECOND).say(*"abcd")
    Talk(project, THIRD).say(*"abcdef")
    os.utime(Talk(project, SECOND).path)
    assert saved(project) == THIRD


def test_no_conversation_of_a_session(project: Project) -> None:
    """A session that is named is no reason for a checkpoint without a conversation."""
    said = project.gitcp("save", "--session", "other", check=0).out
    assert "no conversation)\nconversation: no agent conversation found for session other\n" in said


def test_nothing_new(project: Project, first: Talk) -> None:
    """Without messages since, the conversation that was last saved here is it, also if a newer one
    is stored elsewhere; and then that is the reason.
    """
    Talk(project, SECOND).say(*"abcd")
    assert saved(project) == SECOND
    project.write("a.txt", "two\n")
    said = project.gitcp("save", "--session", SESSION[:8], check=0).out
    assert "conversation: as given" in said
    project.write("a.txt", "three\n")
    said = project.gitcp("save", check=0).out
    assert "saved e7baae82@3" in said
    assert "conversation: the conversation of claude-code that was last saved here" in said


@pytest.mark.parametrize("touched", [True, False])
def test_not_a_message(project: Project, first: Talk, *, touched: bool) -> None:
    """A file that was touched, or got a line that is no message, is not a newer conversation."""
    second = Talk(project, SECOND)
    second.say(*"abcd")
    assert saved(project) == SECOND
    if touched:
        os.utime(first.path)
    else:
        with first.path.open("a") as file:
            file.write(STUBS["mode"])
    assert saved(project) == SECOND


def test_touched_later(project: Project, first: Talk) -> None:
    """The newest file is not the newest conversation if its messages are old."""
    old = time.time() - 3600
    os.utime(first.path, (old, old))
    lines = first.path.read_text().replace("2026-11-02", "2001-01-01")
    other = Talk(project, SECOND).path
    other.write_text(lines)
    assert saved(project) == SESSION
    assert other.stat().st_mtime > old + 600


def test_undecided(project: Project, first: Talk) -> None:
    """A conversation that was never saved, and whose messages are older, is not chosen silently,
    nor passed over.
    """
    first.say("More.", "Yes.")
    assert saved(project) == SESSION
    Talk(project, SECOND).say("Another task.", "I do it.")
    project.write("a.txt", "two\n")
    refused = project.gitcp("save", check=AMBIGUOUS)
    assert SECOND in refused.err
    assert SESSION in refused.err
    hint = refused.err.partition("hint: gitcp ")[2].split()
    project.gitcp(*hint, check=0)


@pytest.mark.parametrize("stub", sorted(STUBS))
@pytest.mark.parametrize("is_known", [True, False])
def test_stub(project: Project, stub: str, *, is_known: bool) -> None:
    """A transcript without a message is no candidate, however new it is."""
    talk = Talk(project)
    talk.say("Begin.", "I begin.")
    if is_known:
        assert saved(project) == SESSION
    before = time.time() - 3600
    os.utime(talk.path, (before, before))
    Talk(project, SECOND).path.write_text(STUBS[stub])
    Talk(project, THIRD).path.write_text(STUBS[stub])
    assert saved(project) == SESSION


def test_only_stubs(project: Project) -> None:
    """Transcripts without a message never keep the files from being saved."""
    for session in (SECOND, THIRD):
        Talk(project, session).path.write_text(STUBS["mode"])
    assert saved(project) in (SECOND, THIRD)


def test_long_end(project: Project, first: Talk) -> None:
    """The last message is found behind long lines that are none."""
    with first.path.open("a") as file:
        file.write(json.dumps({"type": "mode", "filler": "x" * 300_000}) + "\n")
    Talk(project, SECOND).path.write_text(STUBS["mode"])
    assert saved(project) == SESSION


def codex(project: Project, messages: int) -> Path:
    """A thread of Codex in this project."""
    day = Path(os.environ["HOME"]) / ".codex/sessions/2026/11/02"
    day.mkdir(parents=True, exist_ok=True)
    path = day / f"rollout-2026-11-02T10-00-00-{THIRD}.jsonl"
    root = os.path.realpath(project.root)
    lines = [{"type": "session_meta", "payload": {"id": THIRD, "cwd": root, "source": "cli"}}]
    for number in range(messages):
        role = ("user", "assistant")[number % 2]
        content = [{"type": "text", "text": f"message {number}"}]
        item = {"type": "message", "role": role, "content": content}
        lines.append({"type": "response_item", "payload": item})
    times = (f"2026-11-02T10:{number:02d}:00Z" for number, _ in enumerate(lines))
    path.write_text(
        "".join(json.dumps({"timestamp": next(times), **line}) + "\n" for line in lines)
    )
    return path


def test_another_agent(project: Project, first: Talk) -> None:
    """The same between two agents: a thread without a message is none, one with messages is the
    newest.
    """
    codex(project, 0)
    assert saved(project) == SESSION
    codex(project, 2)
    assert saved(project) == THIRD
