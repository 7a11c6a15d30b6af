"""Transcripts as a newer version of an agent may write them: a field has another name, or another
form. Whatever it is, nothing raises, and where no message is found any more that is noticed.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import transcripts
from dialogues import AGENTS
from test_described import cline_session, kimi_session

from gitcp import adapters
from gitcp.adapters.base import Message
from gitcp.conformance import stored
from gitcp.errors import GitcpError
from gitcp.model import MAIN, Agent, Capture, Digest, Host, Source

Change = Callable[[dict[str, Any], str], dict[str, Any]]

CHANGES: dict[str, Change] = {
    "another name": lambda record, field: {
        f"{name}2" if name == field else name: value for name, value in record.items()
    },
    "nested": lambda record, field: {**record, field: {"v2": record[field]}},
    "a list": lambda record, field: {**record, field: [record[field]]},
    "a number": lambda record, field: {**record, field: 7},
}
OF_GITCP = {"opencode": {"info", "parts", "session"}}
"""Fields of the lines that gitcp makes of rows: no version of the agent names them."""

UNNOTICED = {"kimi": {"type"}}
"""What tells messages from everything else in a log of events: without it there is none."""


def transcript(agent: str, home: Path, cwd: Path) -> bytes:
    """A conversation of this agent."""
    if agent in ("cline", "kimi"):
        session = cline_session if agent == "cline" else kimi_session
        return session(home, cwd, ["one", "two"]).read_bytes()
    transcripts.write(agent, home, cwd)
    host = Host({}, home, lambda: datetime(2026, 11, 28, 12, tzinfo=UTC))
    (listed,) = adapters.list_all(host, agent)
    main = listed.capture().sources[0]
    return main.data if main.data is not None else Path(str(main.path)).read_bytes()


def fields(value: Any) -> Iterator[str]:
    """The names of all fields, however deep."""
    for inner in value.values() if isinstance(value, dict) else value:
        if isinstance(inner, dict | list):
            yield from fields(inner)
    yield from value if isinstance(value, dict) else ()


def changed(value: Any, field: str, change: Change) -> Any:
    """The record in which every field of this name is changed."""
    if isinstance(value, list):
        return [changed(each, field, change) for each in value]
    if not isinstance(value, dict):
        return value
    record = {name: changed(inner, field, change) for name, inner in value.items()}
    return change(record, field) if field in record else record


def read(agent: str, lines: list[bytes]) -> tuple[Digest, list[Message]]:
    """Read a transcript in every way; what it says."""
    adapter = adapters.load(agent)
    messages = list(adapter.messages(lines))
    for message in messages[:2]:
        adapter.before(lines, message.id or "")
    list(adapters.usage(agent, lines))
    if agent in adapters.READABLE:
        source = Source(MAIN, data=b"".join(lines), place="x.jsonl")
        with suppress(GitcpError):  # it says that it cannot be converted
            adapters.reader(agent).read(stored(Capture(Agent(agent, "s1"), agent, (source,))))
    return adapter.digest(Digest(), lines), messages


@pytest.mark.parametrize("how", CHANGES)
@pytest.mark.parametrize("agent", [*AGENTS, "cline", "kimi"])
def test_every_field(tmp_path: Path, agent: str, how: str) -> None:
    """Wherever it is: read without an error, and noticed if no message is left."""
    home, cwd = tmp_path / "home", tmp_path / "project"
    cwd.joinpath(".git").mkdir(parents=True)
    records = [json.loads(line) for line in transcript(agent, home, cwd).splitlines()]
    digest, messages = read(agent, [json.dumps(each).encode() + b"\n" for each in records])
    assert (digest.unknown, messages == []) == ((), False)

    for field in sorted(set(fields(records)) - OF_GITCP.get(agent, set())):
        lines = [changed(each, field, CHANGES[how]) for each in records]
        digest, messages = read(agent, [json.dumps(each).encode() + b"\n" for each in lines])
        if how == "another name" and not messages and field not in UNNOTICED.get(agent, ()):
            assert digest.unknown, field


def turns(role: str, *contents: Any, key: str = "content", **others: Any) -> list[Any]:
    """Messages of a role, each with one of these contents."""
    return [{"role": role, key: content, **others} for content in contents]


def kinds(key: str, *names: str) -> list[Any]:
    """Contents of one part of a kind each, and the empty one."""
    return [[], *([{key: name}] for name in names)]


WITHOUT_TEXT: dict[str, list[Any]] = {
    "claude-code": [
        {"type": role, "message": {"role": role, "content": content}}
        for role in ("user", "assistant")
        for content in kinds("type", "thinking", "redacted_thinking", "tool_use", "image")
    ],
    "codex": [
        {"type": "response_item", "payload": payload}
        for payload in (
            {"type": "reasoning", "summary": [], "encrypted_content": "x"},
            {"type": "function_call", "name": "ls", "arguments": "{}", "call_id": "c1"},
            *turns("user", *kinds("type", "input_image"), type="message"),
            *turns("assistant", [], type="message"),
        )
    ],
    "gemini": [
        {"id": "1", "type": "gemini", "content": "", "thoughts": [{"subject": "x"}]},
        {"id": "2", "type": "gemini", "content": [], "toolCalls": [{"id": "c1", "name": "ls"}]},
        {"id": "3", "type": "gemini", "content": []},
        {"id": "4", "type": "user", "content": [{"inlineData": {"mimeType": "image/png"}}]},
    ],
    "pi": [
        {"type": "message", "id": "1", "message": message}
        for role in ("user", "assistant")
        for message in turns(role, *kinds("type", "thinking", "toolCall", "image"))
    ],
    "qwen": [
        {"type": "assistant", "uuid": "1", "message": message}
        for message in turns(
            "model",
            [],
            [{"text": "x", "thought": True}],
            [{"functionCall": {"id": "c1", "name": "ls", "args": {}}}],
            [{"inlineData": {"mimeType": "image/png", "data": "eA=="}}],
            key="parts",
        )
    ],
    "kiro": [
        {"version": "v1", "kind": kind, "data": {"message_id": "1", "content": content}}
        for kind in ("Prompt", "AssistantMessage")
        for content in kinds("kind", "toolUse", "image")
    ],
    "cline": [
        {"messages": [message]}
        for role in ("user", "assistant")
        for message in turns(role, *kinds("type", "redacted_thinking", "tool_use", "image"))
    ],
}
"""Messages as they are, of which none has text: thoughts, tool calls, pictures, nothing."""


@pytest.mark.parametrize("agent", WITHOUT_TEXT)
def test_a_message_without_text_is_known(agent: str) -> None:
    """It has nothing to show, and no other form."""
    adapter = adapters.load(agent)
    for record in WITHOUT_TEXT[agent]:
        assert adapter.digest(Digest(), [json.dumps(record).encode() + b"\n"]).unknown == (), record


@pytest.mark.parametrize(
    ("agent", "name", "noticed"),
    [
        ("kiro", "kind2", "assistant in another form"),
        ("cline", "type2", "assistant in another form"),
    ],
)
def test_parts_without_their_kind(agent: str, name: str, noticed: str) -> None:
    """What tells one part from another is gone: that is another form."""
    part = {name: "text", "data": "hi", "text": "hi"}
    record = (
        {"kind": "AssistantMessage", "data": {"content": [part]}}
        if agent == "kiro"
        else {"messages": turns("assistant", [part])}
    )
    line = json.dumps(record).encode() + b"\n"
    assert adapters.load(agent).digest(Digest(), [line]).unknown == (noticed,)
