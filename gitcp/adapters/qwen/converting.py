"""Read a Qwen Code transcript as a dialogue, and write one.

What counts is the branch of the last record, since the last compression of the chat. The name of a
sub-agent's transcript ends in the id of the call that started it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from gitcp import wire
from gitcp.adapters import base, conversion
from gitcp.adapters.base import Stored
from gitcp.adapters.conversion import Clock, Ids, Target, WrittenTranscript
from gitcp.adapters.qwen import ROLES
from gitcp.adapters.session_files import SESSION
from gitcp.dialogue import (
    BRANCHES,
    NOTICES,
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

NAME = "qwen"
VERSION = "0.24.4"
"""The version whose format is written."""
AGENTS = "agents/"

Fields = dict[str, Any]


# ---------------------------------------------------------------- reading


def read(stored: Stored) -> Dialogue:
    """Return a stored conversation as a dialogue."""
    records = list(conversion.records(stored, MAIN))
    branch, others = conversion.branch(records, "uuid", "parentUuid")
    assembler = _assembled(branch)
    assembler.omit(BRANCHES, sum(record.get("type") in ("user", "assistant") for record in others))
    items = assembler.done()
    calls = [call.id for item in items for call in item.calls()]
    return Dialogue(
        stored.agent,
        items,
        tuple(_asides(stored, calls)),
        cwd=base.string(records[0], "cwd") if records else None,
        omitted=dict(assembler.omitted),
    )


def _asides(stored: Stored, calls: list[str]) -> Iterator[Aside]:
    for name in conversion.streams_below(stored, AGENTS):
        items = _assembled(conversion.records(stored, name)).done()
        if items:
            call = next((each for each in calls if name.endswith(f"-{each}")), None)
            yield Aside(name.removeprefix(f"{AGENTS}agent-"), items, call)


def _assembled(records: Iterable[Fields]) -> Assembler:
    assembler = Assembler()
    for record in records:
        time, model = base.string(record, "timestamp"), base.string(record, "model")
        role = ROLES.get(str(record.get("type")))
        if record.get("subtype") == "chat_compression":
            _compress(assembler, record, time)
        elif role == "user" and record.get("provenance", "real_user") != "real_user":
            assembler.omit(NOTICES)
        elif role is not None:
            _add(assembler, base.message_of(record), time, model)
    return assembler


def _compress(assembler: Assembler, record: Fields, time: str | None) -> None:
    """Begin again with the history that a compression left, the summary first."""
    payload = record.get("systemPayload")
    history = payload.get("compressedHistory") if isinstance(payload, dict) else None
    assembler.compacted()
    for number, message in enumerate(base.objects(history)):
        if number == 0:
            assembler.user(_contents(message.get("parts")), time, "summary")
        else:
            _add(assembler, message, time, None)


def _add(assembler: Assembler, message: Fields, time: str | None, model: str | None) -> None:
    parts = base.objects(message.get("parts"))
    if message.get("role") == "model":
        assembler.assistant(_blocks(parts), time, model)
        return
    for part in parts:
        answered = part.get("functionResponse")
        if isinstance(answered, dict):
            assembler.result(base.string(answered, "id"), _result(answered))
    assembler.user(_contents(parts), time)


def _blocks(parts: list[Fields]) -> Iterator[Block]:
    for part in parts:
        called = part.get("functionCall")
        if isinstance(called, dict):
            name = base.string(called, "name") or "tool"
            yield Call(str(called.get("id")), name, conversion.arguments(called.get("args")))
        elif part.get("thought") is True:
            yield Thinking(base.string(part, "text") or "")
        else:
            yield from _contents([part])


def _result(answered: Fields) -> Result:
    response = answered.get("response")
    told = response if isinstance(response, dict) else {"output": response}
    failed = "error" in told and "output" not in told
    text = told.get("error" if failed else "output")
    if not isinstance(text, str):
        text = wire.dumps(response).decode().strip()
    return Result((Text(text), *_contents(answered.get("parts"))), failed)


def _contents(parts: Any) -> Iterator[Content]:
    """Yield text and files, but no calls, results and thoughts."""
    for part in base.objects(parts):
        data = part.get("inlineData") or part.get("fileData")
        if isinstance(data, dict):
            media = base.string(data, "mimeType") or "application/octet-stream"
            name, uri = base.string(data, "displayName"), base.string(data, "fileUri")
            yield File(media, base.string(data, "data"), name, uri)
        elif isinstance(part.get("text"), str) and part.get("thought") is not True:
            yield Text(part["text"])


# ---------------------------------------------------------------- writing


def write(dialogue: Dialogue, target: Target) -> WrittenTranscript:
    """Return the transcript of a dialogue, and those of its sub-agents."""
    dialogue, omitted = conversion.fitted(dialogue, _takes)
    data = _transcript(dialogue.items, target)
    sources = [Source(MAIN, data=data, place=f"chats/{SESSION}.jsonl")]
    for aside in dialogue.asides:
        id = f"agent-{aside.call or conversion.stream_part(aside.id)}"
        path = f"subagents/{SESSION}/agent-{id}.jsonl"
        data = _transcript(aside.items, target, id)
        sources.append(Source(f"{AGENTS}agent-{id}", data=data, place=path))
    agent = Agent(NAME, target.session_id, VERSION, dialogue.agent.model)
    return WrittenTranscript(Capture(agent, NAME, tuple(sources)), omitted)


def _takes(file: File) -> bool:
    is_document = file.data is not None and file.media == "application/pdf"
    return is_document or conversion.is_image(file)


def _transcript(items: tuple[Item, ...], target: Target, agent: str | None = None) -> bytes:
    clock, ids, parent = Clock(target.began), Ids(NAME, target.session_id, agent or ""), None
    own = {"agentId": agent, "isSidechain": True} if agent else {}
    lines = []
    for item in items:
        time = conversion.iso(clock.at(item))
        for kind, fields in _records(item):
            record: Fields = {"uuid": ids.next(), "parentUuid": parent}
            record |= {"sessionId": target.session_id, "timestamp": time, "type": kind}
            record |= {"provenance": PROVENANCES[kind], "cwd": target.cwd, "version": VERSION}
            lines.append(conversion.line({**record, **own, **fields}))
            parent = record["uuid"]
    return b"".join(lines)


PROVENANCES = {
    "user": "real_user",
    "assistant": "assistant_output",
    "tool_result": "tool_result",
}


def _records(item: Item) -> Iterator[tuple[str, Fields]]:
    """Yield the records of an item: the type and what it adds."""
    if item.role != "assistant":
        parts = [_part(block) for block in item.blocks if isinstance(block, Text | File)]
        yield "user", {"message": {"role": "user", "parts": parts}}
        return
    for blocks in conversion.runs(item):
        model = {"model": item.model} if item.model else {}
        parts = [_part(block) for block in blocks]
        yield "assistant", {**model, "message": {"role": "model", "parts": parts}}
        for block in blocks:
            if isinstance(block, Call):
                yield "tool_result", _answered(block)


def _answered(call: Call) -> Fields:
    result = call.result
    response: Fields = {"id": call.id, "name": call.name}
    response |= {"response": {"error" if result.failed else "output": result.text()}}
    files = [_part(file) for file in result.files()]
    response |= {"parts": files} if files else {}
    message = {"role": "user", "parts": [{"functionResponse": response}]}
    status = "error" if result.failed else "success"
    return {"message": message, "toolCallResult": {"callId": call.id, "status": status}}


def _part(block: Block) -> Fields:
    match block:
        case Call():
            args = conversion.argument_object(block)
            return {"functionCall": {"id": block.id, "name": block.name, "args": args}}
        case File():
            return {"inlineData": {"mimeType": block.media, "data": block.data}}
        case Thinking():
            return {"text": block.text, "thought": True}
        case Text():
            return {"text": block.text}
