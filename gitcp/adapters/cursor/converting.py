"""Read a transcript of Cursor as a dialogue. It cannot be written: Cursor imports none."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from gitcp.adapters import base, conversion
from gitcp.adapters.base import Stored
from gitcp.adapters.cursor import typed
from gitcp.dialogue import Aside, Assembler, Block, Call, Dialogue, Item, Result, Text, Thinking
from gitcp.model import MAIN

AGENTS = "agents/"
UNRECORDED = Result((Text("[Cursor's transcript does not have the result of this call.]"),))

Fields = dict[str, Any]


def read(stored: Stored) -> Dialogue:
    """Return a stored conversation as a dialogue."""
    asides = (
        Aside(name.removeprefix(AGENTS), items)
        for name in conversion.streams_below(stored, AGENTS)
        if (items := _items(conversion.records(stored, name)))
    )
    return Dialogue(stored.agent, _items(conversion.records(stored, MAIN)), tuple(asides))


def _items(records: Iterable[Fields]) -> tuple[Item, ...]:
    assembler = Assembler()
    for number, record in enumerate(records):
        content = base.message_of(record).get("content")
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
        if record.get("role") == "user":
            texts = (base.string(block, "text") or "" for block in _of(blocks, "text"))
            for block in _of(blocks, "tool_result"):
                failed = block.get("is_error") is True
                result = Result((Text(base.text_of(block.get("content"))),), failed)
                assembler.result(base.string(block, "tool_use_id"), result)
            assembler.user([Text(typed(text)) for text in texts])
        elif record.get("role") == "assistant":
            _answer(assembler, number, base.objects(blocks))
    return assembler.done()


def _answer(assembler: Assembler, number: int, blocks: Iterable[Fields]) -> None:
    for index, block in enumerate(blocks):
        if block.get("type") == "tool_use" and not base.string(block, "id"):
            # Most calls have no id, and then nothing has their result.
            assembler.answered(_call(block, f"call_{number}_{index}"))
        else:
            assembler.assistant(_blocks(block))


def _blocks(block: Fields) -> Iterator[Block]:
    match block.get("type"):
        case "text":
            yield Text(base.string(block, "text") or "")
        case "thinking":
            yield Thinking(base.string(block, "thinking") or "")
        case "tool_use":
            yield _call(block, str(block.get("id")))


def _call(block: Fields, id: str) -> Call:
    name = base.string(block, "name") or "tool"
    return Call(id, name, conversion.arguments(block.get("input")), UNRECORDED)


def _of(blocks: Any, kind: str) -> Iterator[Fields]:
    return (block for block in base.objects(blocks) if block.get("type") == kind)
