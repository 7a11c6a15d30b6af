"""Read a Claude Code transcript as a dialogue, and write one.

What counts is the branch of the last message (`tree`).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from gitcp import wire
from gitcp.adapters import base, conversion
from gitcp.adapters.base import Stored
from gitcp.adapters.claude_code import NAME, NOT_TYPED, SESSION, TURNS, repairs
from gitcp.adapters.claude_code.tree import Node, branch_of, is_boundary, is_turn, tree_of
from gitcp.adapters.conversion import Clock, Ids, Target, WrittenTranscript
from gitcp.dialogue import (
    BRANCHES,
    EARLIER,
    NOTICES,
    SEALED,
    Aside,
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
from gitcp.value import replace

mend = repairs.mend

AGENTS = "agents/"
MENDED = (AGENTS,)
"""Prefixes of the names of streams that are repaired as the main one is."""

VERSION = "2.1.197"
"""The version whose format is written."""

DROPPED = tuple(
    prefix for prefix in NOT_TYPED if prefix not in ("<bash-", "[Request interrupted by user")
)
"""Prefixes of texts that concern Claude Code alone. Commands that a person ran with `!`, and
interruptions, are part of the conversation.
"""

# ---------------------------------------------------------------- reading


def read(stored: Stored) -> Dialogue:
    """Return a stored conversation as a dialogue."""
    nodes, title, version = tree_of(conversion.records(stored, MAIN))
    branch = branch_of(nodes)
    assembler = Assembler()
    start = next((nodes.index(node) for node in branch[:1] if is_boundary(node)), 0)
    assembler.omit(EARLIER, sum(map(is_turn, nodes[:start])))
    messages = sum(map(is_turn, branch))
    assembler.omit(BRANCHES, sum(map(is_turn, nodes[start:])) - messages)
    for node in branch:
        _add(assembler, node)
    items = assembler.done()
    return Dialogue(
        agent=replace(stored.agent, version=stored.agent.version or version),
        items=items,
        asides=tuple(_asides(stored)),
        cwd=next(filter(None, (base.string(node, "cwd") for node in nodes)), None),
        branch=next(filter(None, (base.string(node, "gitBranch") for node in nodes)), None),
        title=title,
        omitted=dict(assembler.omitted),
    )


def _add(assembler: Assembler, node: Node) -> None:
    if is_boundary(node):
        return
    message, time = base.message_of(node), base.string(node, "timestamp")
    content = message.get("content")
    parts = (
        base.objects(content) if isinstance(content, list) else [{"type": "text", "text": content}]
    )
    if node["type"] == "assistant":
        model = base.string(message, "model")
        if model == "<synthetic>":
            assembler.omit(NOTICES)
            return
        assembler.assistant(_blocks(parts, assembler), time, model)
        return
    for part in parts:
        if part.get("type") == "tool_result":
            result = Result(tuple(_contents(part.get("content"))), part.get("is_error") is True)
            assembler.result(base.string(part, "tool_use_id"), result)
    typed = tuple(_contents([part for part in parts if part.get("type") != "tool_result"]))
    kept = tuple(part for part in typed if not node.get("isMeta") and not _is_notice(part))
    assembler.omit(NOTICES, len(typed) - len(kept))
    assembler.user(kept, time, "summary" if node.get("isCompactSummary") else "user")


def _is_notice(part: Content) -> bool:
    return isinstance(part, Text) and part.text.lstrip().startswith(DROPPED)


def _blocks(parts: list[dict[str, Any]], assembler: Assembler) -> Iterator[Block]:
    for part in parts:
        match part.get("type"):
            case "text":
                yield Text(base.text_of(part))
            case "thinking" if (base.string(part, "thinking") or "").strip():
                yield Thinking(base.string(part, "thinking") or "")
            case "thinking" | "redacted_thinking":
                assembler.omit(SEALED)
            case "tool_use":
                name = base.string(part, "name") or "tool"
                yield Call(str(part.get("id")), name, conversion.arguments(part.get("input")))
            case _:
                yield from _contents([part])


def _contents(content: Any) -> Iterator[Content]:
    """Yield text and files of a message or a result."""
    if isinstance(content, str):
        yield Text(content)
    for part in content if isinstance(content, list) else []:
        kind = part.get("type") if isinstance(part, dict) else "text"
        if kind in ("image", "document"):
            yield _file(part)
        elif kind == "text":
            yield Text(base.text_of(part))
        elif isinstance(part, dict):
            yield Text(f"[{kind}] {wire.dumps(part).decode()}")


def _file(part: dict[str, Any]) -> Content:
    source = part.get("source")
    source = source if isinstance(source, dict) else {}
    media, data = base.string(source, "media_type"), base.string(source, "data")
    name = base.string(part, "title")
    if source.get("type") == "text" and data is not None:
        return Text(data)
    if data is not None:
        return File(media or "image", data, name)
    location = base.string(source, "url") or base.string(source, "file_id") or ""
    return replace(conversion.file_at(location, media), name=name)


def _asides(stored: Stored) -> Iterator[Aside]:
    for name in conversion.streams_below(stored, AGENTS):
        id = name.removeprefix(AGENTS)
        nodes, _, _ = tree_of(conversion.records(stored, name))
        assembler = Assembler()
        for node in nodes:
            if node.get("type") in TURNS:
                _add(assembler, node)
        meta = next(conversion.records(stored, f"meta/{id}"), {})
        items = assembler.done()
        if items:
            yield Aside(id, items, base.string(meta, "toolUseId"))


# ---------------------------------------------------------------- writing


def write(dialogue: Dialogue, target: Target) -> WrittenTranscript:
    """Return the transcript of a dialogue.

    Thinking has no place in it: without its provider's signature it would be refused.
    """
    dialogue, omitted = conversion.fitted(dialogue, _takes, thinking=False)
    sources = [Source(MAIN, data=_transcript(dialogue, target), place=f"{SESSION}.jsonl")]
    for aside in dialogue.asides:
        id = conversion.stream_part(aside.id)
        stem = f"{SESSION}/subagents/agent-{id}"
        lines = _transcript(replace(dialogue, items=aside.items), target, id)
        sources.append(Source(f"{AGENTS}{id}", data=lines, place=f"{stem}.jsonl"))
        meta = {"agentType": "general-purpose", "toolUseId": aside.call, "spawnDepth": 1}
        sources.append(Source(f"meta/{id}", data=conversion.line(meta), place=f"{stem}.meta.json"))
    agent = Agent(NAME, target.session_id, VERSION, dialogue.agent.model)
    return WrittenTranscript(Capture(agent, NAME, tuple(sources)), omitted)


def _transcript(dialogue: Dialogue, target: Target, agent: str | None = None) -> bytes:
    lines = _Lines(dialogue, target, agent)
    for item in dialogue.items:
        lines.add(item)
    return lines.data()


class _Lines:
    """The lines of a transcript, each the child of the one before."""

    def __init__(self, dialogue: Dialogue, target: Target, agent: str | None = None) -> None:
        self._lines: list[bytes] = []
        self._parent: str | None = None
        self._clock, self._ids = Clock(target.began), Ids(NAME, target.session_id, agent or "")
        self._model = dialogue.agent.model or "unknown"
        self._fields: dict[str, Any] = {
            "isSidechain": agent is not None,
            "userType": "external",
            "cwd": target.cwd,
            "sessionId": target.session_id,
            "version": VERSION,
            "gitBranch": dialogue.branch or "",
            **({"agentId": agent} if agent else {}),
        }

    def data(self) -> bytes:
        return b"".join(self._lines)

    def add(self, item: Item) -> None:
        self._time = conversion.iso(self._clock.at(item))
        if item.role == "assistant":
            self._assistant(item)
        else:
            flags = {"isCompactSummary": True} if item.role == "summary" else {}
            self._user(
                [_part(block) for block in item.blocks if isinstance(block, Text | File)], **flags
            )

    def _assistant(self, item: Item) -> None:
        message = f"msg_{self._ids.next().replace('-', '')[:24]}"
        results: list[dict[str, Any]] = []
        for block in item.blocks:
            self._answer(message, item.model or self._model, _part(block))
            if isinstance(block, Call):
                results.append(_result(block))
        if results:
            self._user(results)

    def _answer(self, id: str, model: str, part: dict[str, Any]) -> None:
        usage = {"input_tokens": 0, "output_tokens": 0}
        stop = "tool_use" if part["type"] == "tool_use" else "end_turn"
        message: Node = {"id": id, "type": "message", "role": "assistant", "model": model}
        message |= {"content": [part], "stop_reason": stop, "stop_sequence": None, "usage": usage}
        self._line("assistant", message)

    def _user(self, content: list[dict[str, Any]], **flags: bool) -> None:
        self._line("user", {"role": "user", "content": content}, **flags)

    def _line(self, kind: str, message: dict[str, Any], **flags: bool) -> None:
        uuid = self._ids.next()
        node: Node = {"parentUuid": self._parent, **self._fields, "type": kind, **flags}
        node |= {"message": message, "uuid": uuid, "timestamp": self._time}
        self._lines.append(conversion.line(node))
        self._parent = uuid


def _part(block: Block) -> dict[str, Any]:
    match block:
        case Call():
            input = conversion.argument_object(block)
            return {"type": "tool_use", "id": block.id, "name": block.name, "input": input}
        case File():
            source = {"type": "base64", "media_type": block.media, "data": block.data}
            if conversion.is_image(block):
                return {"type": "image", "source": source}
            return {"type": "document", "source": source, "title": block.name}
        case _:
            return {"type": "text", "text": block.text}


def _takes(file: File) -> bool:
    is_document = file.data is not None and file.media == "application/pdf"
    return is_document or conversion.is_image(file)


def _result(call: Call) -> dict[str, Any]:
    parts = [_part(part) for part in call.result.content]
    result = {"type": "tool_result", "tool_use_id": call.id, "content": parts}
    return result | ({"is_error": True} if call.result.failed else {})
