"""Pi's and Qwen Code's sessions: a file of JSON lines each; a move changes only what it must."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from gitcp.adapters.base import Stored, Usage
from gitcp.adapters.pi import ADAPTER as PI
from gitcp.adapters.qwen import ADAPTER as QWEN
from gitcp.adapters.session_files import SessionFiles
from gitcp.conformance import AdapterConformance
from gitcp.model import Digest, Host, Stream

ID = "01a22233-23f3-7049-a242-133e75abde8b"
OTHER = "99999999-8888-4777-8666-555555555555"
TIME = "2026-11-28T12:00:00.000Z"
CALL = {"path": "a.txt", "content": "one\n"}


def lines(*records: dict[str, Any]) -> bytes:
    """Records as both agents write them: without spaces, letters as they are."""
    texts = (json.dumps(each, separators=(",", ":"), ensure_ascii=False) for each in records)
    return "".join(f"{text}\n" for text in texts).encode()


def entry(id: str, role: str, *content: dict[str, Any], **more: Any) -> dict[str, Any]:
    """A message of Pi's."""
    message = {"role": role, "content": list(content), **more}
    return {
        "type": "message",
        "id": id,
        "timestamp": "2026-11-28T12:00:00.000Z",
        "message": message,
    }


def text(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


def record(
    uuid: str, type: str, session: str, cwd: Path, *parts: Any, **more: Any
) -> dict[str, Any]:
    """A record of Qwen Code's."""
    return {
        "uuid": uuid, "sessionId": session, "timestamp": TIME, "type": type,
        "provenance": {"user": "real_user"}.get(type, type), "cwd": str(cwd), "version": "0.24.4",
        "message": {"parts": list(parts)}, **more,
    }  # fmt: skip


def pi_session(cwd: Path, prompts: Sequence[str], session: str) -> bytes:
    """A session of Pi's, in which each prompt is answered after a call."""
    head = {"type": "session", "version": 3, "id": session, "cwd": str(cwd)}
    said = [
        each
        for number, prompt in enumerate(prompts)
        for each in (
            entry(f"u{number}", "user", text(prompt)),
            entry(f"c{number}", "assistant",
                  {"type": "toolCall", "id": f"t{number}", "name": "write", "arguments": CALL},
                  model="m"),
            entry(f"r{number}", "toolResult", text("written"), toolCallId=f"t{number}",
                  toolName="write", isError=False),
            entry(f"a{number}", "assistant", text(f"Answer {number}."), model="m"),
        )
    ]  # fmt: skip
    return lines(head, *said)


def qwen_session(cwd: Path, prompts: Sequence[str], session: str) -> bytes:
    """A session of Qwen Code's, the same."""
    said = [
        each
        for number, prompt in enumerate(prompts)
        for each in (
            record(f"u{number}", "user", session, cwd, {"text": prompt}),
            record(f"c{number}", "assistant", session, cwd,
                   {"functionCall": {"id": f"t{number}", "name": "write", "args": CALL}},
                   model="m"),
            record(f"r{number}", "tool_result", session, cwd,
                   {"functionResponse": {"id": f"t{number}", "name": "write",
                                         "response": {"output": "written"}}}),
            record(f"a{number}", "assistant", session, cwd, {"text": f"Answer {number}."},
                   model="m"),
        )
    ]  # fmt: skip
    return lines(*said)


def put(adapter: SessionFiles, home: Path, cwd: Path, data: bytes, session: str) -> Path:
    """Write a transcript where the agent has it."""
    directory = adapter.directory(str(cwd), host(home)) / adapter.below
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / adapter.name_of(session, host(home))
    path.write_bytes(data)
    return path


def host(home: Path, **env: str) -> Host:
    return Host(env, home, lambda: datetime(2026, 11, 28, 12, tzinfo=UTC))


class TestPi(AdapterConformance):
    """Sessions in the shape that Pi writes."""

    adapter = PI

    def begin(self, home: Path, cwd: Path, prompts: Sequence[str]) -> None:
        session = str(uuid4())
        put(PI, home, cwd, pi_session(cwd, prompts, session), session)


class TestQwenCode(AdapterConformance):
    """Sessions in the shape that Qwen Code writes."""

    adapter = QWEN

    def begin(self, home: Path, cwd: Path, prompts: Sequence[str]) -> None:
        session = str(uuid4())
        put(QWEN, home, cwd, qwen_session(cwd, prompts, session), session)


BOTH = pytest.mark.parametrize(
    ("adapter", "session"), [(PI, pi_session), (QWEN, qwen_session)], ids=["pi", "qwen"]
)
Session = Callable[[Path, Sequence[str], str], bytes]


@BOTH
def test_what_is_shown(adapter: SessionFiles, session: Session, tmp_path: Path) -> None:
    """Prompts, calls, results and answers, with what belongs together; and what a digest counts."""
    data = session(tmp_path, ["größer"], ID)
    shown = [
        (each.role, each.text, each.tool, each.call) for each in adapter.messages(data.splitlines())
    ]
    assert shown == [
        ("user", "größer", None, None),
        ("assistant", json.dumps(CALL, separators=(",", ":")), "write", "t0"),
        ("tool", "written", "write", "t0"),
        ("assistant", "Answer 0.", None, None),
    ]
    digest = adapter.digest(Digest(), data.splitlines(keepends=True))
    assert (digest.messages, digest.last_prompt, digest.model) == (4, "größer", "m")
    assert digest.last_message is not None
    assert digest.last_message.text == "Answer 0."


@BOTH
def test_only_what_must_changes(adapter: SessionFiles, session: Session, tmp_path: Path) -> None:
    """Under another id and at another path, the id and the first line's directory are others, and
    what is written is what the agent would have written there.
    """
    here, there = tmp_path / "größer", tmp_path / "there"
    path = put(adapter, tmp_path, here, session(here, ["one"], ID), ID)
    found = adapter.located(ID, host(tmp_path))
    assert found is not None
    assert found.path == path
    capture = adapter.capture(found)
    (source,) = capture.sources
    data = path.read_bytes()
    stream = Stream("main", len(data), "", source.place)
    assert capture.agent is not None
    path.write_bytes(data + b"{}\n")  # it went on
    stored = Stored(capture.agent, ((stream, lambda: iter([data])),))
    placement = adapter.place(stored, here, host(tmp_path), new_id=OTHER)
    assert placement.session_id == OTHER
    assert b"".join(placement.files[0].content()) == session(here, ["one"], OTHER)

    moved = adapter.place(stored, there, host(tmp_path / "home"), new_id=OTHER)
    assert moved.session_id == ID
    first, *rest = b"".join(moved.files[0].content()).splitlines()
    was, *before = data.splitlines()
    assert json.loads(first) == {**json.loads(was), "cwd": str(there)}
    assert rest == before


@BOTH
def test_recognised(adapter: SessionFiles, session: Session, tmp_path: Path) -> None:
    """A transcript that is imported names its agent and session."""
    from gitcp import adapters

    running = adapters.recognise(session(tmp_path, ["one"], ID).splitlines())
    assert running is not None
    assert (running.agent, running.session_id) == (adapter.NAME, ID)


def test_tokens() -> None:
    """Each answer's, with what was read from a cache apart."""
    from gitcp import adapters

    spent = {"input": 10, "output": 5, "cacheRead": 7, "cacheWrite": 3, "cost": {"total": 0.25}}
    answer = entry("a1", "assistant", text("Yes."), model="m", usage=spent)
    assert list(adapters.usage("pi", lines(answer).splitlines())) == [
        Usage("a1", "m", 10, 5, 7, 3, TIME, 0.25)
    ]
    spent = {"promptTokenCount": 17, "cachedContentTokenCount": 7, "totalTokenCount": 22}
    answer = record("a1", "assistant", ID, Path("/w"), model="m", usageMetadata=spent)
    assert list(adapters.usage("qwen", lines(answer).splitlines())) == [
        Usage("a1", "m", 10, 5, 7, 0, TIME)
    ]


def test_agents_of_qwen_code(tmp_path: Path) -> None:
    """Transcripts of sub-agents are captured with their session, and placed with it."""
    path = put(QWEN, tmp_path, tmp_path, qwen_session(tmp_path, ["one"], ID), ID)
    agent = path.parents[1] / "subagents" / ID / "agent-x1.jsonl"
    agent.parent.mkdir(parents=True)
    agent.write_bytes(qwen_session(tmp_path, ["sub"], ID))
    found = QWEN.located(ID, host(tmp_path))
    assert found is not None
    sources = QWEN.capture(found).sources
    assert [(each.name, each.place) for each in sources] == [
        ("main", "chats/{session}.jsonl"),
        ("agents/agent-x1", "subagents/{session}/agent-x1.jsonl"),
    ]


def test_sessions_of_pi_elsewhere(tmp_path: Path) -> None:
    """In a directory that the user chose for all sessions, each is found from where it ran."""
    own = tmp_path / "own"
    own.mkdir()
    here, there = tmp_path / "here", tmp_path / "there"
    for cwd, session in ((here, ID), (there, OTHER)):
        name = PI.name_of(session, host(tmp_path))
        (own / name).write_bytes(pi_session(cwd, ["one"], session))
    chosen = host(tmp_path, PI_CODING_AGENT_SESSION_DIR=str(own))
    assert [each.session_id for each in PI.find(here, chosen)] == [ID]
    assert {each.found.session_id for each in PI.list_all(chosen)} == {ID, OTHER}
