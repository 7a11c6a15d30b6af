"""Read a Gemini CLI chat as a dialogue, and write one.

A call and its result are in one line, next to the text before it. Gemini CLI does not send a prompt
that begins with "/" or "?", so an invisible space goes before it.
"""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import sha256
from typing import Any

from gitcp import wire
from gitcp.adapters import base, conversion, mending
from gitcp.adapters.base import Stored
from gitcp.adapters.conversion import Clock, Ids, Target, WrittenTranscript
from gitcp.adapters.gemini import CHATS, DOCUMENT, NAME, SESSION
from gitcp.adapters.gemini.lines import NOT_TYPED, history, id_set, replaced_by
from gitcp.adapters.mending import Edit, Faults, Plan, Record, Transcript
from gitcp.dialogue import (
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
from gitcp.model import MAIN, Agent, Capture, Source, Stream

AGENTS = "agents/"
COMMANDS = ("/", "?")
INVISIBLE = "\u200b"
"""Not a space that trimming removes."""

Fields = dict[str, Any]


# ---------------------------------------------------------------- reading


def read(stored: Stored) -> Dialogue:
    """Return a stored conversation as a dialogue."""
    assembler = _assembled(stored, MAIN)
    items = assembler.done()
    asides = []
    for name in conversion.streams_below(stored, AGENTS):
        aside = _assembled(stored, name).done()
        if aside:
            first = next(conversion.records(stored, name), {})
            call = base.string(first, "gitcpCall")
            asides.append(Aside(name.removeprefix(AGENTS), aside, call))
    return Dialogue(stored.agent, items, tuple(asides), omitted=dict(assembler.omitted))


def _assembled(stored: Stored, name: str) -> Assembler:
    messages = history(conversion.stream_lines(stored, name))
    separate = _separate_results(messages)
    assembler = Assembler()
    for message in messages:
        _add(assembler, message, separate)
    return assembler


def _separate_results(messages: list[Fields]) -> set[str]:
    """Return the ids of calls whose results are messages of their own, besides the inline ones."""
    parts = (part for message in messages for part in base.objects(message.get("content")))
    responses = (part.get("functionResponse") for part in parts)
    return {str(response.get("id")) for response in responses if isinstance(response, dict)}


def _add(assembler: Assembler, message: Fields, separate: set[str]) -> None:
    time, content = base.string(message, "timestamp"), message.get("content")
    parts = content if isinstance(content, list) else [content]
    if message.get("type") == "user":
        _user(assembler, parts, time)
    elif message.get("type") == "gemini":
        _agent(assembler, message, parts, separate)
    else:
        assembler.omit(NOTICES)


def _user(assembler: Assembler, parts: list[Any], time: str | None) -> None:
    own: list[Content] = []
    results = list(_responses(parts))
    for id, result in results:
        assembler.result(id, result)
    for part in _before_responses(parts) if results else parts:
        for content in _contents(part):
            if isinstance(content, Text) and content.text.lstrip().startswith(NOT_TYPED):
                assembler.omit(NOTICES)
            elif isinstance(content, Text):
                own.append(Text(content.text.removeprefix(INVISIBLE)))
            else:
                own.append(content)
    assembler.user(own, time)


def _before_responses(parts: list[Any]) -> Iterator[Any]:
    """Yield the parts before the first result; those after it belong to results."""
    for part in parts:
        if isinstance(part, dict) and "functionResponse" in part:
            return
        yield part


def _agent(assembler: Assembler, message: Fields, parts: list[Any], separate: set[str]) -> None:
    time, model = base.string(message, "timestamp"), base.string(message, "model")
    blocks: list[Block] = []
    for thought in base.objects(message.get("thoughts")):
        texts = (base.string(thought, name) for name in ("subject", "description"))
        blocks.append(Thinking("\n".join(filter(None, texts))))
    for part in parts:
        blocks += _contents(part)
    calls = base.objects(message.get("toolCalls")) or _inline_calls(parts)
    blocks += [
        Call(
            str(call.get("id")),
            base.string(call, "name") or "tool",
            conversion.arguments(call.get("args")),
        )
        for call in calls
    ]
    assembler.assistant(blocks, time, model)
    for call in calls:
        if call.get("result") and str(call.get("id")) not in separate:
            assembler.result(str(call.get("id")), _result(call))


def _inline_calls(parts: list[Any]) -> list[Fields]:
    return base.objects([part.get("functionCall") for part in base.objects(parts)])


def _result(call: Fields) -> Result:
    """Return the result in a call: all its responses as one."""
    responses = [result for _, result in _responses(call["result"])]
    failed = call.get("status") in ("error", "cancelled") or any(r.failed for r in responses)
    content = tuple(part for result in responses for part in result.content)
    return Result(content if responses else conversion.texts(call["result"]), failed)


def _responses(parts: Any) -> Iterator[tuple[str, Result]]:
    """Yield the results in these parts. Files are inside one, or follow it."""
    last: tuple[str, Result] | None = None
    for part in base.objects(parts):
        response = part.get("functionResponse")
        if isinstance(response, dict):
            if last:
                yield last
            last = str(response.get("id")), _response(response)
        elif last:
            last = last[0], Result((*last[1].content, *_contents(part)), last[1].failed)
    if last:
        yield last


def _response(response: Fields) -> Result:
    value = response.get("response")
    value = value if isinstance(value, dict) else {"output": value}
    failed = "error" in value and "output" not in value
    text = value.get("error" if failed else "output")
    if len(value) != 1 or not isinstance(text, str):
        text = wire.dumps(value).decode()
    files = [content for part in base.objects(response.get("parts")) for content in _contents(part)]
    return Result((Text(text), *files) if text else tuple(files), failed)


def _contents(part: Any) -> Iterator[Content]:
    """Yield the text or the file in a part; nothing for calls, results and thoughts."""
    if not isinstance(part, dict):
        yield from conversion.texts(part)
        return
    data = part.get("inlineData") or part.get("fileData")
    if isinstance(data, dict):
        media = base.string(data, "mimeType") or "application/octet-stream"
        name = base.string(data, "displayName")
        yield File(media, base.string(data, "data"), name, base.string(data, "fileUri"))
    elif not part.get("thought"):
        yield from conversion.texts(part)


# ---------------------------------------------------------------- mending


def mend(transcript: Transcript, stored: Stored, main: Stream) -> Plan:
    """Rebuild a lost header, without which Gemini CLI deletes the chat, and keep results without a
    call as text: Gemini's API refuses them.
    """
    if main.place.endswith(DOCUMENT):
        return [], Faults()  # not made of lines
    first: Fields | None = None
    time, calls, results = "", set[str](), set[str]()
    for _, fields in transcript:
        first = first or fields
        time = time or base.string(fields, "timestamp") or ""
        for message in replaced_by(fields) or [fields]:
            parts = base.objects(message.get("content"))
            each = [*base.objects(message.get("toolCalls")), *_inline_calls(parts)]
            calls.update(str(call.get("id")) for call in each)
            results.update(_lost_ids(parts, calls))
    edits, faults = list[Edit](), Faults()
    if first is not None and not id_set(first):
        head = {"sessionId": stored.agent.session_id or "", "projectHash": "0" * 64}
        head |= {"startTime": time, "lastUpdated": time, "kind": "main"}
        edits, faults = mending.first_rebuilt(head)
    lost = results - calls
    if lost:
        edits.append(lambda records: _results_as_text(records, lost))
        faults[mending.ORPHANS] = len(lost)
    return edits, faults


def _lost_ids(parts: list[Fields], calls: set[str]) -> Iterator[str]:
    """Yield the ids of results whose call is not among these."""
    for part in parts:
        response = part.get("functionResponse")
        id = base.string(response, "id") if isinstance(response, dict) else None
        if id is not None and id not in calls:
            yield id


def _results_as_text(records: Iterator[Record], lost: set[str]) -> Iterator[Record]:
    for text, fields in records:
        messages = replaced_by(fields)
        if messages is not None:
            shown = [_result_as_text(message, lost) for message in messages]
            new = {**fields, "$set": {**fields["$set"], "messages": shown}}
            changed = shown != messages
        else:
            new = _result_as_text(fields, lost)
            changed = new is not fields
        yield mending.record(new) if changed else (text, fields)


def _result_as_text(message: Fields, lost: set[str]) -> Fields:
    parts = message.get("content")
    if not isinstance(parts, list) or not lost & set(_lost_ids(base.objects(parts), set())):
        return message
    return {**message, "content": [new for part in parts for new in _shown(part, lost)]}


def _shown(part: Any, lost: set[str]) -> list[Any]:
    """Return a result without a call as text and files; anything else as it is."""
    response = part.get("functionResponse") if isinstance(part, dict) else None
    if not isinstance(response, dict) or response.get("id") not in lost:
        return [part]
    result = _response(response)
    return [{"text": f"{mending.LOST}\n{result.text()}"}, *map(_part, result.files())]


# ---------------------------------------------------------------- writing


def write(dialogue: Dialogue, target: Target) -> WrittenTranscript:
    """Return the chat of a dialogue, and those of its sub-agents."""
    dialogue, omitted = conversion.fitted(dialogue, _takes)
    minute = f"{target.began:%Y-%m-%dT%H-%M}"
    main = _chat(dialogue.items, target, target.session_id, "main")
    sources = [Source(MAIN, data=main, place=f"{CHATS}/session-{minute}-{{short}}.jsonl")]
    for aside in dialogue.asides:
        id = conversion.stream_part(aside.id)
        data = _chat(aside.items, target, id, "subagent", aside.call)
        sources.append(Source(f"{AGENTS}{id}", data=data, place=f"{CHATS}/{SESSION}/{id}.jsonl"))
    agent = Agent(NAME, target.session_id, None, dialogue.agent.model)
    return WrittenTranscript(Capture(agent, NAME, tuple(sources)), omitted)


def _takes(file: File) -> bool:
    return file.data is not None and "/" in file.media


def _chat(
    items: tuple[Item, ...], target: Target, id: str, kind: str, call: str | None = None
) -> bytes:
    began = conversion.iso(target.began)
    head = {
        "sessionId": id,
        "projectHash": sha256(target.cwd.encode("utf-8", "replace")).hexdigest(),
    }
    head |= {"startTime": began, "lastUpdated": began, "kind": kind}
    head |= {"gitcpCall": call} if call else {}
    clock, ids = Clock(target.began), Ids(NAME, target.session_id, id)
    lines = [conversion.line(head)]
    for item in items:
        time = conversion.iso(clock.at(item))
        lines += [
            conversion.line({"id": ids.next(), "timestamp": time, **message})
            for message in _messages(item)
        ]
    return b"".join(lines)


def _messages(item: Item) -> Iterator[Fields]:
    if item.role != "assistant":
        yield {
            "type": "user",
            "content": [
                _part(_hidden(block)) for block in item.blocks if isinstance(block, Text | File)
            ],
        }
        return
    for blocks in conversion.runs(item):
        yield _answer(blocks, item.model)


def _hidden(content: Content) -> Content:
    if isinstance(content, Text) and content.text.lstrip().startswith((*COMMANDS, INVISIBLE)):
        return Text(INVISIBLE + content.text)
    return content


def _answer(blocks: list[Block], model: str | None) -> Fields:
    content = [_part(block) for block in blocks if isinstance(block, Text | File)]
    thoughts = [
        {"subject": "", "description": block.text}
        for block in blocks
        if isinstance(block, Thinking)
    ]
    calls = [_call(block) for block in blocks if isinstance(block, Call)]
    message: Fields = {"type": "gemini", "content": content or ""}
    message |= {"thoughts": thoughts} if thoughts else {}
    message |= {"toolCalls": calls} if calls else {}
    return message | ({"model": model} if model else {})


def _call(call: Call) -> Fields:
    answer = {"error" if call.result.failed else "output": call.result.text()}
    response = {"id": call.id, "name": call.name, "response": answer}
    fields: Fields = {"id": call.id, "name": call.name, "args": conversion.argument_object(call)}
    fields["result"] = [{"functionResponse": response}, *map(_part, call.result.files())]
    return fields | {"status": "error" if call.result.failed else "success"}


def _part(content: Content) -> Fields:
    if isinstance(content, File):
        return {"inlineData": {"mimeType": content.media, "data": content.data}}
    return {"text": content.text}
