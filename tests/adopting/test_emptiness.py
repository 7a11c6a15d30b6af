"""Transcripts without a conversation: named in the plan, with what they have, and not stored."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import pytest
from talk import Talk

from driver import Project

SETTINGS = b'{"type":"permission-mode","permissionMode":"default","sessionId":"e7baae82"}\n'
META = b'{"type":"user","isMeta":true,"message":{"role":"user","content":"<context>"}}\n'
TORN = b'{"type":"user","uuid":"u1","parentUuid":null,"mess'
CODEX = {"id": "019dad77-8919-7173-a0d5-61b781415e5a", "cwd": ""}


def planned(project: Project) -> list[tuple[str, str | None]]:
    """State and reason of each transcript."""
    (share,) = project.json("adopt", "--dry-run")["stores"]
    return [(each["state"], each["empty"]) for each in share["conversations"]]


def located(talk: Talk, *lines: bytes) -> None:
    """Write a transcript by hand; its first line names the directory."""
    first = {"type": "attachment", "cwd": str(talk.cwd), "sessionId": talk.session}
    talk.path.write_bytes(json.dumps(first).encode() + b"\n" + b"".join(lines))


@pytest.mark.parametrize(
    ("lines", "reason"),
    [
        ((SETTINGS,), "no message, only attachment, permission-mode"),
        ((META,), "no message, only attachment, user"),
        ((TORN,), "no message, only attachment"),
    ],
    ids=["settings", "context", "unfinished"],
)
def test_nothing(project: Project, lines: tuple[bytes, ...], reason: str) -> None:
    """The plan says what it has instead of messages, each time, and nothing is stored."""
    located(Talk(project), *lines)

    for _ in range(2):
        assert planned(project) == [("empty", reason)]
        assert project.json("adopt", "--yes")["adopted"] == []
    shown = project.gitcp("adopt", "--dry-run", check=0).out
    assert f"nothing to store in 1 transcript of claude-code: {reason}" in shown
    again = project.gitcp("adopt", "--yes", check=0)
    assert "0 conversations stored already" in again.out
    assert "nothing to store in 1 transcript without a message" in again.err


def test_then_something(project: Project) -> None:
    """With its first message it is a conversation."""
    talk = Talk(project)
    located(talk, SETTINGS)
    assert project.json("adopt", "--yes")["adopted"] == []
    talk.say("hello", "Hello.")

    (result,) = project.json("adopt", "--yes")["adopted"]

    assert result["id"] == "e7baae82@1"


@pytest.mark.parametrize("damaged", [TORN + b"\n", b"\0" * 40 + b"\n", b"\xff\xfe{\n"])
def test_damaged_lines_are_stored(project: Project, damaged: bytes) -> None:
    """What cannot be read may be a message: it is kept as it is."""
    talk = Talk(project)
    located(talk, damaged)

    (result,) = project.json("adopt", "--yes")["adopted"]

    assert result["id"] == "e7baae82@1"
    tree = "refs/gitcp/sessions/e7baae82:.gitcp/conversation/main/a/000000000000.jsonl"
    assert project.git("rev-parse", tree) == project.git("hash-object", str(talk.path))


def test_only_a_sub_agent_spoke(project: Project) -> None:
    """The messages of a sub-agent are messages."""
    talk = Talk(project)
    located(talk, SETTINGS)
    beside = talk.path.with_suffix("") / "subagents" / "agent-1.jsonl"
    beside.parent.mkdir(parents=True)
    turn = {"type": "assistant", "uuid": "a1", "message": {"role": "assistant", "content": "Hi"}}
    beside.write_text(json.dumps({**turn, "isSidechain": True}) + "\n", "utf-8")

    (result,) = project.json("adopt", "--yes")["adopted"]

    assert result["id"] == "e7baae82@1"


def test_another_agent(project: Project, sealed: Path) -> None:
    """A thread of Codex that was left before the first prompt."""
    path = sealed / f".codex/sessions/2026/04/21/rollout-2026-04-21T00-36-25-{CODEX['id']}.jsonl"
    path.parent.mkdir(parents=True)
    meta = {"type": "session_meta", "payload": {**CODEX, "cwd": str(project.root)}}
    path.write_text(json.dumps(meta) + "\n", "utf-8")

    assert planned(project) == [("empty", "no message, only session_meta")]


def test_no_warning(project: Project) -> None:
    """Nobody is warned before an agent deletes what has no message."""
    talk = Talk(project)
    located(talk, SETTINGS)
    os.utime(talk.path, (time.time() - 28 * 86400,) * 2)

    assert "gitcp import" not in project.gitcp("status", check=0).out
