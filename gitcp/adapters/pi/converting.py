"""Read a Pi session as a dialogue, and write one.

What counts is the branch of the last entry, since its last compaction: the summary, the entries
that it kept, and what follows. Pi has no sub-agents of its own, so there is no place for those of
others.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from gitcp import wire
from gitcp.adapters import base, conversion
from gitcp.adapters.base import Stored
from gitcp.adapters.conversion import Clock, Ids, Target, WrittenTranscript
from gitcp.adapters.pi import NAMED, SUMMARIES
from gitcp.adapters.session_files import SESSION
from gitcp.dialogue import (
    BRANCHES,
    EARLIER,
    NOTICES,
    SEALED,
    Assembler,
    Block,
    Call,
    Content,
    Dialogue,
    File,
    Item,
    Result,
    Text,
    Thinking,
)
from gitcp.model import MAIN, Agent, Capture, Source

NAME = "pi"
STRANGER = "gitcp"
"""The provider of answers that another agent received. Pi sends it no thinking of another provider,
and continues with the model of the user's settings.
"""
FREE = {
    "usage": {
        **dict.fromkeys(("input", "output", "cacheRead", "cacheWrite", "totalTokens"), 0),
        "cost": dict.fromkeys(("input", "output", "cacheRead", "cacheWrite", "total"), 0),
    }
}

Fields = dict[str, Any]


# ---------------------------------------------------------------- reading


def read(stored: Stored) -> Dialogue:
    """Return a stored conversation as a dialogue."""
    entries = list(conversion.records(stored, MAIN))
    branch, others = conversion.branch(entries, "id", "parentId")
    assembler = Assembler()
    assembler.omit(BRANCHES, sum(map(_is_turn, others)))
    for entry in _since_compaction(branch, assembler):
        _add(assembler, entry)
    items = assembler.done()
    cwd = base.string(entries[0], "cwd") if entries else None
    return Dialogue(stored.agent, items, cwd=cwd, omitted=dict(assembler.omitted))


def _is_turn(entry: Fields) -> bool:
    return base.message_of(entry).get("role") in ("user", "assistant")


def _since_compaction(branch: list[Fields], assembler: Assembler) -> list[Fields]:
    """Return the entries that Pi sends, with the last compaction first."""
    compactions = [n for n, entry in enumerate(branch) if entry.get("type") == "compaction"]
    if not compactions:
        return branch
    last = compactions[-1]
    ids = [entry.get("id") for entry in branch[:last]]
    first = branch[last].get("firstKeptEntryId")
    kept = ids.index(first) if first in ids else last
    assembler.omit(EARLIER, sum(map(_is_turn, branch[:kept])))
    between = [entry for entry in branch[kept:last] if entry.get("type") != "compaction"]
    return [branch[last], *between, *branch[last + 1 :]]


def _add(assembler: Assembler, entry: Fields) -> None:
    time, message = base.string(entry, "timestamp"), base.message_of(entry)
    if entry.get("type") in SUMMARIES:
        assembler.user([Text(base.string(entry, "summary") or "")], time, "summary")
        return
    if entry.get("type") == "custom_message":
        assembler.omit(NOTICES)
        return
    content = message.get("content")
    match message.get("role"):
        case "user":
            assembler.user(_contents(content), time)
        case "bashExecution":
            command, output = (base.string(message, name) for name in ("command", "output"))
            assembler.user([Text(f"! {command}\n{output or ''}".rstrip())], time)
        case "assistant":
            model = base.string(message, "model")
            assembler.assistant(_blocks(content, assembler), time, model)
        case "toolResult":
            result = Result(tuple(_contents(content)), message.get("isError") is True)
            assembler.result(base.string(message, "toolCallId"), result)


def _blocks(content: Any, assembler: Assembler) -> Iterator[Block]:
    if isinstance(content, str):
        yield Text(content)
    for part in base.objects(content):
        match part.get("type"):
            case "thinking" if (base.string(part, "thinking") or "").strip():
                yield Thinking(base.string(part, "thinking") or "")
            case "thinking":
                assembler.omit(SEALED)
            case "toolCall":
                name = base.string(part, "name") or "tool"
                yield Call(str(part.get("id")), name, conversion.arguments(part.get("arguments")))
            case _:
                yield from _contents([part])


def _contents(content: Any) -> Iterator[Content]:
    if isinstance(content, str):
        yield Text(content)
    for part in base.objects(content):
        if part.get("type") == "image":
            yield File(base.string(part, "mimeType") or "image", base.string(part, "data"))
        else:
            yield from conversion.texts(part)


# ---------------------------------------------------------------- writing


def write(dialogue: Dialogue, target: Target) -> WrittenTranscript:
    """Return the session of a dialogue."""
    dialogue, omitted = conversion.fitted(dialogue, conversion.is_image)
    if dialogue.asides:
        omitted[conversion.ASIDES] = len(dialogue.asides)
    time = conversion.iso(target.began)
    head = {"type": "session", "version": 3, "id": target.session_id}
    lines = [conversion.line({**head, "timestamp": time, "cwd": target.cwd})]
    clock, ids, parent = Clock(target.began), Ids(NAME, target.session_id), None
    for item in dialogue.items:
        at = clock.at(item)
        for message in _messages(item, dialogue.agent.model or "unknown"):
            entry = {"type": "message", "id": ids.next(), "parentId": parent}
            entry |= {"timestamp": conversion.iso(at)}
            message |= {"timestamp": int(at.timestamp() * 1000)}
            lines.append(conversion.line({**entry, "message": message}))
            parent = entry["id"]
    name = NAMED.format(time=time.replace(":", "-").replace(".", "-"), session=SESSION)
    source = Source(MAIN, data=b"".join(lines), place=name)
    agent = Agent(NAME, target.session_id, None, dialogue.agent.model)
    return WrittenTranscript(Capture(agent, NAME, (source,)), omitted)


def _messages(item: Item, model: str) -> Iterator[Fields]:
    if item.role != "assistant":
        parts = [_part(block) for block in item.blocks if isinstance(block, Text | File)]
        yield {"role": "user", "content": parts}
        return
    for blocks in conversion.runs(item):
        calls = [block for block in blocks if isinstance(block, Call)]
        message: Fields = {"role": "assistant", "content": [_part(block) for block in blocks]}
        message |= {"api": STRANGER, "provider": STRANGER, "model": item.model or model}
        yield message | FREE | {"stopReason": "toolUse" if calls else "stop"}
        for call in calls:
            yield _answered(call)


def _answered(call: Call) -> Fields:
    content = [_part(part) for part in call.result.content]
    result = {"role": "toolResult", "toolCallId": call.id, "toolName": call.name}
    return result | {"content": content, "isError": call.result.failed}


def _part(block: Block) -> Fields:
    match block:
        case Call():
            arguments = wire.loads(block.arguments.encode())
            return {"type": "toolCall", "id": block.id, "name": block.name, "arguments": arguments}
        case File():
            return {"type": "image", "data": block.data, "mimeType": block.media}
        case Thinking():
            return {"type": "thinking", "thinking": block.text}
        case Text():
            return {"type": "text", "text": block.text}
