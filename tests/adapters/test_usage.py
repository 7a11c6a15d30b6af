"""The tokens that agents record: each request once, whatever is written again."""

from __future__ import annotations

import json
from typing import Any

import pytest

from gitcp import adapters
from gitcp.adapters.base import Usage


def usages(format: str, *records: Any) -> list[Usage]:
    """What a stream of these records has, each key once."""
    lines = [each if isinstance(each, bytes) else json.dumps(each).encode() for each in records]
    return list({each.key: each for each in adapters.usage(format, lines)}.values())


def claude(id: str, output: int, **more: Any) -> dict[str, Any]:
    usage = {
        "input_tokens": 3,
        "cache_creation_input_tokens": 20,
        "cache_read_input_tokens": 100,
        "output_tokens": output,
    }
    message = {"id": id, "model": "opus", "role": "assistant", "usage": usage, **more}
    return {"type": "assistant", "timestamp": "2026-11-02T09:00:00Z", "message": message}


def test_claude_code() -> None:
    """A message in several lines counts once, with the last usage; notices of the program do
    not.
    """
    made = usages(
        "claude-code",
        {"type": "user", "message": {"content": '"usage"'}},
        claude("a", 1),
        claude("a", 7),
        b'{"usage": torn',
        claude("b", 2, model="<synthetic>"),
        claude("c", 5, usage={"output_tokens": "many"}),
    )
    assert made == [
        Usage("a", "opus", 3, 7, 100, 20, "2026-11-02T09:00:00Z"),
        Usage("c", "opus", 0, 0, time="2026-11-02T09:00:00Z"),
    ]


def codex(second: int, read: int, cached: int, written: int) -> dict[str, Any]:
    total = {"input_tokens": read, "cached_input_tokens": cached, "output_tokens": written}
    payload = {"type": "token_count", "info": {"total_token_usage": total}}
    return {"timestamp": f"T{second}", "type": "event_msg", "payload": payload}


def test_codex() -> None:
    """Totals are turned into what each request used; the same totals again are none, and smaller
    ones begin anew.
    """
    made = usages(
        "codex",
        {"type": "turn_context", "payload": {"model": "gpt"}},
        {"type": "event_msg", "payload": {"type": "token_count", "info": None}},
        codex(1, 100, 60, 10),
        codex(2, 100, 60, 10),
        codex(3, 250, 160, 15),
        codex(4, 30, 0, 2),
    )
    assert [(each.input, each.cache_read, each.output) for each in made] == [
        (40, 60, 10),
        (50, 100, 5),
        (30, 0, 2),
    ]
    assert {each.model for each in made} == {"gpt"}


def test_gemini() -> None:
    """A message that is written again replaces the earlier one; thoughts are output, and the cache
    is a part of the input.
    """
    spent = {"input": 100, "output": 5, "cached": 80, "thoughts": 7, "tool": 3, "total": 115}
    message = {"id": "a", "type": "gemini", "model": "pro", "timestamp": "T", "tokens": spent}
    made = usages(
        "gemini",
        {"sessionId": "s", "projectHash": "p"},
        {**message, "tokens": {**spent, "output": 1}},
        message,
        {"$set": {"messages": [message, {**message, "id": "b", "tokens": None}]}},
    )
    assert made == [Usage("a", "pro", 23, 12, 80, 0, "T")]


def test_opencode() -> None:
    """With what opencode says that it cost."""
    tokens = {"input": 60, "output": 5, "reasoning": 2, "cache": {"read": 9, "write": 4}}
    info = {"id": "m", "role": "assistant", "modelID": "kimi", "tokens": tokens, "cost": 0.5}
    made = usages(
        "opencode",
        {"session": {"id": "s"}},
        {"info": info, "parts": []},
        {"info": {**info, "id": "u", "role": "user"}, "parts": []},
    )
    assert made == [Usage("m", "kimi", 60, 7, 9, 4, cost=0.5)]


def test_pi() -> None:
    """With what Pi says that it cost; entries of usage alone count, too."""
    spent = {"input": 4, "output": 5, "cacheRead": 6, "cacheWrite": 7, "cost": {"total": 0.25}}
    message = {"role": "assistant", "model": "opus", "usage": spent}
    made = usages(
        "pi",
        {"type": "session", "version": 3, "id": "s"},
        {"type": "message", "id": "u", "message": {"role": "user", "content": '"usage"'}},
        {"type": "message", "id": "a", "timestamp": "T", "message": message},
        {"type": "usage", "id": "w", "model": "opus", "usage": {**spent, "cost": {"total": 0}}},
    )
    assert made == [
        Usage("a", "opus", 4, 5, 6, 7, "T", 0.25),
        Usage("w", "opus", 4, 5, 6, 7),
    ]


@pytest.mark.parametrize(("thoughts", "total"), [(3, 115), (3, 112)])
def test_qwen(thoughts: int, total: int) -> None:
    """Thinking counts once, beside the answer or as a part of it."""
    spent = {
        "promptTokenCount": 100,
        "cachedContentTokenCount": 80,
        "candidatesTokenCount": 12,
        "thoughtsTokenCount": thoughts,
        "totalTokenCount": total,
    }
    record = {"type": "assistant", "uuid": "a", "model": "qwen3", "usageMetadata": spent}
    written = total - 100
    assert usages("qwen", record, {"type": "user", "uuid": "u"}) == [
        Usage("a", "qwen3", 20, written, 80)
    ]


def test_copilot() -> None:
    """A record keeps its identity in a copy; what the cache gave and took is a part of the input.
    Its `cost` is no money.
    """
    numbers = {"inputTokens": 1023, "cacheReadTokens": 1000, "cacheWriteTokens": 20}
    spent = {"model": "sonnet", "outputTokens": 10, "cost": 1.0, **numbers}
    identity = {"accounting": {"sourceSessionId": "s", "sequence": 4}}
    record = {"type": "session.usage_record", "timestamp": "T"}
    made = usages(
        "copilot",
        {"type": "assistant.message", "id": "m", "data": {"content": '"session.usage_record"'}},
        {**record, "id": "a", "data": {"usage": {**spent, **identity}}},
        {**record, "id": "copy", "data": {"usage": {**spent, **identity}}},
        {**record, "id": "b", "data": {"usage": {**spent, "accounting": None}}},
        {**record, "id": "c", "data": {"usage": "none"}},
    )
    assert made == [
        Usage("s 4", "sonnet", 3, 10, 1000, 20, "T"),
        Usage("b", "sonnet", 3, 10, 1000, 20, "T"),
    ]


@pytest.mark.parametrize("format", ["generic", "json", "of-an-installed-adapter"])
def test_none(format: str) -> None:
    """Where nothing is recorded, nothing is guessed."""
    assert usages(format, claude("a", 1)) == []
