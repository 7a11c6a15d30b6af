"""Tokens of a conversation that grows: each full segment is read once, and what is kept of it is
believed only if this user's gitcp wrote it.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from gitcp import adapters, trusted_cache
from gitcp.adapters.base import Usage
from gitcp.conversation import segments
from gitcp.git.fsync import replace_cache
from gitcp.history import usage
from gitcp.history.usage import UsageReader
from gitcp.model import Conversation
from gitcp.saving.conversation import stored as segments_of
from gitcp.store import Store
from gitcp.value import replace

from driver import Project
from samples import open_store, save, talk

PADDING = "x" * 5000


def claude(number: int, padding: str = PADDING) -> bytes:
    spent = {"input_tokens": number, "output_tokens": 2}
    message = {"id": f"m{number // 2}", "model": "opus", "usage": spent, "content": padding}
    return json.dumps({"type": "assistant", "message": message}).encode() + b"\n"


def codex(number: int) -> bytes:
    total = {"input_tokens": 10 * number, "cached_input_tokens": number, "output_tokens": number}
    info = {"type": "token_count", "info": {"total_token_usage": total}, "padding": PADDING}
    if number % 40 == 0:
        info = {"type": "turn_context", "payload": {}, "model": f"model-{number}"}
        return json.dumps({"type": "turn_context", "payload": info}).encode() + b"\n"
    line = {"timestamp": f"T{number}", "type": "event_msg", "payload": info}
    return json.dumps(line).encode() + b"\n"


def stored(store: Store, data: bytes, format: str = "claude-code") -> Conversation:
    before = save(store, "alpha", streams={"main": data[: len(data) // 2]})
    conversation = talk(store, {"main": data}, before)
    return replace(conversation, format=format)


def whole(data: bytes, format: str) -> dict[str, Usage]:
    return {each.key: each for each in adapters.usage(format, data.splitlines(keepends=True))}


@pytest.fixture
def read_blobs(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The sizes of the blobs that are read."""
    sizes: list[int] = []
    from gitcp.git.reader import ObjectReader

    original = ObjectReader.read_blob

    def noted(self: ObjectReader, *given: Any) -> bytes:
        data = original(self, *given)
        sizes.append(len(data))
        return data

    monkeypatch.setattr(ObjectReader, "read_blob", noted)
    return sizes


@pytest.mark.parametrize("format", ["claude-code", "codex"])
def test_the_same(project: Project, read_blobs: list[int], format: str) -> None:
    """What is kept gives what reading everything gives, and only the last segment is read."""
    store = open_store(project)
    line = codex if format == "codex" else claude
    data = b"".join(map(line, range(200)))
    conversation = stored(store, data, format)
    expected = whole(data, format)
    assert len({each.model for each in expected.values()}) == (5 if format == "codex" else 1)
    first = UsageReader(store).of_conversation(conversation)
    assert first == expected
    read_blobs.clear()
    assert UsageReader(store).of_conversation(conversation) == expected
    assert 0 < sum(read_blobs) <= segments.LARGEST < len(data) / 3


def test_long_line(project: Project) -> None:
    """A line that goes on in other segments is read with the first of them."""
    store = open_store(project)
    lines = [claude(n, "y" * 700_000 if n == 3 else PADDING) for n in range(120)]
    data = b"".join(lines)
    conversation = stored(store, data)
    for _ in range(2):
        assert UsageReader(store).of_conversation(conversation) == whole(data, "claude-code")


def test_document(project: Project) -> None:
    """A chat that is one document of many lines is read as a whole."""
    store = open_store(project)
    spent = {"input": 3, "output": 2, "cached": 1}
    messages = [
        {"id": f"g{n}", "type": "gemini", "model": "g", "tokens": spent, "content": PADDING}
        for n in range(100)
    ]
    data = json.dumps({"sessionId": "s", "messages": messages}, indent=2).encode()
    conversation = stored(store, data, "gemini")
    for _ in range(2):
        assert len(UsageReader(store).of_conversation(conversation)) == 100
    assert not (store.repo.store_dir / usage.DIRECTORY).exists()


def kept(store: Store) -> list[Path]:
    return sorted((store.repo.store_dir / usage.DIRECTORY).iterdir())


def test_forged(project: Project) -> None:
    """A cache of another user, or one of another version, is not believed."""
    store = open_store(project)
    data = b"".join(map(claude, range(120)))
    conversation = stored(store, data)
    UsageReader(store).of_conversation(conversation)
    (file,) = kept(store)
    version, parts = trusted_cache.load(str(file))
    lies: list[Any] = [
        (oid, {}, more, (("lie", "m", 9, 9, 0, 0, None, None),), {}) for oid, _, more, *_ in parts
    ]
    replace_cache(file, (version + 1, lies))
    assert UsageReader(store).of_conversation(conversation) == whole(data, "claude-code")
    file.write_bytes(trusted_cache.dump((version, lies)) + bytes(16))
    assert UsageReader(store).of_conversation(conversation) == whole(data, "claude-code")
    assert trusted_cache.load(str(file)) == (version, parts)


def test_bounded(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    """The oldest files go; a format that records nothing is not read, and names no file."""
    monkeypatch.setattr(usage, "MOST_FILES", 2)
    store = open_store(project)
    for number in range(3):
        data = b"".join(map(claude, range(number, 120 + number)))
        UsageReader(store).of_conversation(stored(store, data))
    assert len(kept(store)) == 2
    strange = replace(stored(store, data), format="../../x")
    assert UsageReader(store).of_conversation(strange) == {}


def test_rewritten(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a conversation that is written anew, again and again, a few earlier forms are kept."""
    monkeypatch.setattr(usage, "MOST_TIMES", 2)
    store = open_store(project)
    begin = b"".join(map(claude, range(120)))
    sizes = []
    for number in range(8):
        data = begin + b"".join(claude(n, f"{number} {PADDING}") for n in range(120, 240))
        conversation = stored(store, data)
        for _ in range(2):
            read = UsageReader(store).of_conversation(conversation)
            assert read == whole(data, "claude-code")
        (file,) = kept(store)
        sizes.append(len(trusted_cache.load(str(file))[1]))
    most = usage.MOST_TIMES * len(segments_of(store, conversation, "main"))
    assert most - 4 < max(sizes) <= most


def test_nothing_to_write_to(project: Project) -> None:
    """Where nothing can be kept, everything is counted all the same."""
    store = open_store(project)
    data = b"".join(map(claude, range(120)))
    conversation = stored(store, data)
    (store.repo.store_dir / usage.DIRECTORY).write_text("a file")
    assert UsageReader(store).of_conversation(conversation) == whole(data, "claude-code")
