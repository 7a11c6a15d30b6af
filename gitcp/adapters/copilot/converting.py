"""Read Copilot CLI's events as a dialogue, and write some.

Events with an `agentId` belong to a sub-agent, and are not sent. An event of a sub-agent's start
names the call.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

from gitcp.adapters import base, conversion, mending
from gitcp.adapters.base import Stored
from gitcp.adapters.conversion import Clock, Ids, Target, WrittenTranscript
from gitcp.adapters.copilot import EVENTS, NAME, SESSION, is_typed
from gitcp.adapters.mending import Plan, Transcript
from gitcp.dialogue import (
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
from gitcp.model import MAIN, Agent, Capture, Source, Stream

VERSION = "1.0.102"
"""The version whose format is written."""

Fields = dict[str, Any]


# ---------------------------------------------------------------- reading


def read(stored: Stored) -> Dialogue:
    """Return a stored conversation as a dialogue."""
    events = list(conversion.records(stored, MAIN))
    main = _assembled(event for event in events if not event.get("agentId"))
    items = main.done()
    start = next((_data(event) for event in events if event.get("type") == "session.start"), {})
    context = start.get("context")
    context = context if isinstance(context, dict) else {}
    return Dialogue(
        stored.agent,
        items,
        tuple(_asides(events)),
        cwd=base.string(context, "cwd"),
        branch=base.string(context, "branch"),
        omitted=dict(main.omitted),
    )


def _data(event: Fields) -> Fields:
    data = event.get("data")
    return data if isinstance(data, dict) else {}


def _asides(events: list[Fields]) -> Iterator[Aside]:
    calls = {
        str(event.get("agentId")): base.string(_data(event), "toolCallId")
        for event in events
        if event.get("type") == "subagent.started"
    }
    for id in dict.fromkeys(str(event["agentId"]) for event in events if event.get("agentId")):
        items = _assembled(event for event in events if event.get("agentId") == id).done()
        if items:
            yield Aside(id, items, calls.get(id))


def _assembled(events: Iterable[Fields]) -> Assembler:
    assembler = Assembler()
    for event in events:
        data, time = _data(event), base.string(event, "timestamp")
        match event.get("type"):
            case "user.message" if is_typed(data):
                text = base.string(data, "content") or ""
                assembler.user([Text(text), *_attachments(data.get("attachments"))], time)
            case "user.message":
                assembler.omit(NOTICES)
            case "assistant.message":
                assembler.assistant(_blocks(data, assembler), time, base.string(data, "model"))
            case "tool.execution_complete":
                assembler.result(base.string(data, "toolCallId"), _result(data))
            case "session.compaction_complete" if base.string(data, "summaryContent"):
                assembler.compacted()
                assembler.user([Text(base.string(data, "summaryContent") or "")], time, "summary")
    return assembler


def _blocks(data: Fields, assembler: Assembler) -> Iterator[Block]:
    thought = base.string(data, "reasoningText") or ""
    assembler.omit(SEALED, bool(data.get("reasoningOpaque")) and not thought)
    yield Thinking(thought)
    yield Text(base.string(data, "content") or "")
    for request in base.objects(data.get("toolRequests")):
        name = base.string(request, "name") or "tool"
        arguments = conversion.arguments(request.get("arguments"))
        yield Call(str(request.get("toolCallId")), name, arguments)


def _attachments(parts: Any) -> Iterator[Content]:
    for part in base.objects(parts):
        name = base.string(part, "displayName")
        media, data = base.string(part, "mimeType"), base.string(part, "data")
        path = base.string(part, "path")
        if data is not None:
            yield File(media or "application/octet-stream", data, name)
        elif path is not None:
            yield conversion.file_at(path, media, name)


def _result(data: Fields) -> Result:
    result, error = data.get("result"), data.get("error")
    result = result if isinstance(result, dict) else {"content": result}
    error = error.get("message") if isinstance(error, dict) else error
    content = conversion.texts(result.get("content")) or conversion.texts(error)
    files = [
        File(base.string(part, "mimeType") or "image", base.string(part, "data"))
        for part in base.objects(result.get("binaryResultsForLlm") or result.get("contents"))
        if base.string(part, "data") is not None
    ]
    return Result((*content, *files), data.get("success") is False)


# ---------------------------------------------------------------- mending


def mend(transcript: Transcript, stored: Stored, main: Stream) -> Plan:  # noqa: ARG001
    """Rebuild a lost first event, without which Copilot refuses the session."""
    first: Fields | None = None
    for _, fields in transcript:
        first = first or fields
    if first is None or first.get("type") == "session.start":
        return [], Counter()
    time, id = base.string(first, "timestamp") or "", stored.agent.session_id or ""
    data = {"sessionId": id, "version": 1, "producer": "gitcp", "copilotVersion": VERSION}
    event: Fields = {"type": "session.start", "data": {**data, "startTime": time}}
    event |= {"id": Ids(NAME, id, "start").next(), "timestamp": time, "parentId": None}
    return mending.first_rebuilt(event)


# ---------------------------------------------------------------- writing


def write(dialogue: Dialogue, target: Target) -> WrittenTranscript:
    """Return the events of a dialogue, with those of its sub-agents. Copilot does not send the
    images of results again.
    """
    dialogue, omitted = conversion.fitted(dialogue, conversion.is_image, in_results=False)
    events = _Events(target)
    events.start(dialogue)
    asides = conversion.asides_by_call(dialogue)
    for item in dialogue.items:
        events.add(item, asides)
    for aside in dialogue.asides:
        if aside.call is None:
            events.aside(aside)
    data = b"".join(events.lines)
    source = Source(MAIN, data=data, place=f"{SESSION}/{EVENTS}")
    agent = Agent(NAME, target.session_id, VERSION, dialogue.agent.model)
    return WrittenTranscript(Capture(agent, NAME, (source,)), omitted)


class _Events:
    """The events of a session, each the child of the one before."""

    def __init__(self, target: Target) -> None:
        self.lines: list[bytes] = []
        self._parent: str | None = None
        self._target = target
        self._clock, self._ids = Clock(target.began), Ids(NAME, target.session_id)
        self._time = conversion.iso(target.began)
        self._agent: str | None = None

    def start(self, dialogue: Dialogue) -> None:
        """Add the first event."""
        context = {"cwd": self._target.cwd}
        context |= {"branch": dialogue.branch} if dialogue.branch else {}
        data = {"sessionId": self._target.session_id, "version": 1, "producer": "gitcp"}
        data |= {"copilotVersion": VERSION, "startTime": self._time, "context": context}
        self._event("session.start", **data)

    def add(self, item: Item, asides: dict[str, Aside]) -> None:
        """Add a message, with its results and the sub-agents that it started."""
        if self._agent is None:
            self._time = conversion.iso(self._clock.at(item))
        if item.role != "assistant":
            files = [_attachment(file) for file in item.blocks if isinstance(file, File)]
            attachments = {"attachments": files} if files else {}
            self._event("user.message", content=item.text(), **attachments)
            return
        for blocks in conversion.runs(item):
            self._answer(blocks, item.model)
        for call in item.calls():
            if call.id in asides:
                self.aside(asides[call.id])
            self._result(call)

    def aside(self, aside: Aside) -> None:
        """Add the events of a sub-agent."""
        self._agent = aside.id
        named = {"agentName": "task", "agentDisplayName": "task", "agentDescription": ""}
        self._event("subagent.started", toolCallId=aside.call or "", **named)
        for item in aside.items:
            self.add(item, {})
        self._event("subagent.completed", toolCallId=aside.call or "", **named)
        self._agent = None

    def _answer(self, blocks: list[Block], model: str | None) -> None:
        texts = "\n".join(block.text for block in blocks if isinstance(block, Text))
        thoughts = "\n".join(block.text for block in blocks if isinstance(block, Thinking))
        requests = [_request(block) for block in blocks if isinstance(block, Call)]
        data: Fields = {"messageId": self._ids.next(), "content": texts, "toolRequests": requests}
        data |= {"model": model} if model else {}
        data |= {"reasoningText": thoughts} if thoughts else {}
        self._event("assistant.message", **data)

    def _result(self, call: Call) -> None:
        text = call.result.text()
        failed = (
            {"error": {"message": text}} if call.result.failed else {"result": {"content": text}}
        )
        self._event(
            "tool.execution_complete", toolCallId=call.id, success=not call.result.failed, **failed
        )

    def _event(self, kind: str, **data: Any) -> None:
        id = self._ids.next()
        event: Fields = {"type": kind, "data": data, "id": id, "timestamp": self._time}
        event |= {"parentId": self._parent} | ({"agentId": self._agent} if self._agent else {})
        self.lines.append(conversion.line(event))
        self._parent = id


def _request(call: Call) -> Fields:
    arguments = conversion.argument_object(call)
    return {"toolCallId": call.id, "name": call.name, "arguments": arguments, "type": "function"}


def _attachment(file: File) -> Fields:
    name = {"displayName": file.name} if file.name else {}
    return {"type": "blob", "data": file.data, "mimeType": file.media, **name}
