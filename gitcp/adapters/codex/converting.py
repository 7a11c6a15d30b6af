"""Read a Codex rollout as a dialogue, and write one, in the form that needs no ordinals.

The lines of type `response_item` are what Codex sends; `compacted` replaces all before it. A fork
begins with a part of its parent's rollout. What is written also has the events with which Codex's
interface shows the past; thinking is only there, since its items are sealed by the provider.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from functools import partial
from typing import Any

from gitcp import wire
from gitcp.adapters import base, conversion, mending
from gitcp.adapters.base import Stored
from gitcp.adapters.codex import ENVIRONMENT, NAME
from gitcp.adapters.codex.rollouts import PACKED
from gitcp.adapters.codex.transcript import NOT_TYPED, enveloped, payload_of, record_of
from gitcp.adapters.conversion import Clock, Target, WrittenTranscript
from gitcp.adapters.mending import Edit, Faults, Plan, Record, Transcript
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

AGENTS, PARENTS = "agents/", "parents/"
MENDED = (AGENTS,)
"""Prefixes of the names of streams that are repaired as the main one is."""

VERSION = "0.169.0"
"""The version whose format is written."""

DEEPEST = 32
DROPPED = tuple(prefix for prefix in NOT_TYPED if prefix != "<user_shell_command>")
"""Prefixes of texts that concern Codex alone. Commands that a person ran are part of the
conversation.
"""

Fields = dict[str, Any]


# ---------------------------------------------------------------- reading


def read(stored: Stored) -> Dialogue:
    """Return a stored conversation as a dialogue."""
    records = list(_history(stored, MAIN))
    assembler = _assembled(records)
    items = assembler.done()
    meta = next((payload_of(r) for r in records if r.get("type") == "session_meta"), {})
    git = meta.get("git")
    return Dialogue(
        agent=stored.agent,
        items=items,
        asides=tuple(_asides(stored)),
        cwd=base.string(meta, "cwd"),
        branch=base.string(git, "branch") if isinstance(git, dict) else None,
        omitted=dict(assembler.omitted),
    )


def _history(stored: Stored, name: str, depth: int = 0) -> Iterator[Fields]:
    """Yield the records of a thread, beginning with what it shares with the one it was forked
    from.
    """
    own = list(conversion.stream_lines(stored, name))
    meta = payload_of(record_of(own[0])) if own else {}
    origin = meta.get("history_base")
    parent = base.string(origin, "thread_id") if isinstance(origin, dict) else None
    end = origin.get("end_byte_offset") if isinstance(origin, dict) else None
    if parent is not None and isinstance(end, int) and depth < DEEPEST:
        shared = b"".join(conversion.stream_lines(stored, f"{PARENTS}{parent}"))[:end]
        own = [*base.lines([shared]), *own]
    yield from filter(None, map(record_of, own))


def _assembled(records: list[Fields]) -> Assembler:
    assembler, thoughts = Assembler(), _thoughts(records)
    for fields in records:
        payload, time = payload_of(fields), base.string(fields, "timestamp")
        match fields.get("type"):
            case "response_item":
                _add(assembler, payload, time)
            case "compacted":
                _compacted(assembler, payload, time)
            case "event_msg" if payload.get("type") == "thread_rolled_back":
                count = payload.get("num_turns")
                assembler.drop_turns(count if isinstance(count, int) else 0)
            case "event_msg" if payload.get("type") == "agent_reasoning":
                text = base.string(payload, "text") or ""
                if text not in thoughts:
                    assembler.assistant([Thinking(text)], time)
    return assembler


def _thoughts(records: Iterable[Fields]) -> set[str]:
    """Return the texts of all items of thinking, which events repeat."""
    items = (payload_of(r) for r in records if r.get("type") == "response_item")
    summaries = (item.get("summary") for item in items if item.get("type") == "reasoning")
    return {base.text_of(part) for summary in summaries for part in base.objects(summary)}


def _add(assembler: Assembler, payload: Fields, time: str | None) -> None:
    kind = str(payload.get("type"))
    if kind == "message":
        _message(assembler, payload, time)
    elif kind == "reasoning":
        text = base.text_of(payload.get("summary")) or base.text_of(payload.get("content"))
        assembler.omit(SEALED, not text)
        assembler.assistant([Thinking(text)], time)
    elif kind.endswith("_output"):
        assembler.result(base.string(payload, "call_id"), _result(payload.get("output")))
    elif kind.endswith("_call"):
        _call(assembler, payload, kind, time)


def _call(assembler: Assembler, payload: Fields, kind: str, time: str | None) -> None:
    names = ("arguments", "input", "action")
    value = next((payload[name] for name in names if payload.get(name) is not None), None)
    id, name = base.string(payload, "call_id"), base.string(payload, "name")
    name = name or kind.removesuffix("_call")
    # Free text that happens to be JSON stays text.
    value = {"input": value} if kind == "custom_tool_call" else value
    if id is None:  # what the provider does itself, such as a web search, has no output
        done = Result((Text("[done by the provider]"),))
        assembler.answered(
            Call(base.string(payload, "id") or name, name, conversion.arguments(value), done), time
        )
    else:
        assembler.assistant([Call(id, name, conversion.arguments(value))], time)


def _message(assembler: Assembler, payload: Fields, time: str | None) -> None:
    role, content = payload.get("role"), tuple(_contents(payload.get("content")))
    text = base.text_of(payload.get("content")).lstrip()
    if role == "assistant":
        assembler.assistant(content, time)
    elif role == "user" and not text.startswith(DROPPED):
        assembler.user(content, time)
    else:
        assembler.omit(NOTICES)


def _contents(content: Any) -> Iterator[Content]:
    for part in base.objects(content):
        url = base.string(part, "image_url")
        if url is not None:
            yield conversion.file_at(url)
        else:
            yield Text(base.text_of(part))


def _result(output: Any) -> Result:
    failed = isinstance(output, dict) and output.get("success") is False
    content = output.get("content") if isinstance(output, dict) else output
    if isinstance(content, list):
        return Result(tuple(_contents(content)), failed)
    return Result(conversion.texts(content), failed)


def _compacted(assembler: Assembler, payload: Fields, time: str | None) -> None:
    """Replace what came before: by the items in the record, or by the user's own texts and the
    summary.
    """
    message, replacement = base.string(payload, "message") or "", payload.get("replacement_history")
    prompts = [item for item in assembler.items if item.role == "user"]
    assembler.compacted()
    if isinstance(replacement, list) and replacement:
        for item in base.objects(replacement):
            _add(assembler, item, time)
        if message.strip() and not any(message in item.text() for item in assembler.items):
            assembler.user([Text(message)], time, "summary")
        return
    for prompt in prompts:
        kept = tuple(block for block in prompt.blocks if isinstance(block, Text | File))
        assembler.user(kept, prompt.time)
    assembler.user([Text(message)], time, "summary")


def _asides(stored: Stored) -> Iterator[Aside]:
    for name in conversion.streams_below(stored, AGENTS):
        records = list(_history(stored, name))
        items = _assembled(records).done()
        meta = next((payload_of(r) for r in records if r.get("type") == "session_meta"), {})
        if items:
            yield Aside(name.removeprefix(AGENTS), items, base.string(meta, "gitcp_call"))


# ---------------------------------------------------------------- mending

BARE = "bare items, as Codex once wrote them (put into records)"
ORDINALS = "records without a number (numbers left out)"


def mend(transcript: Transcript, stored: Stored, stream: Stream) -> Plan:
    """Rebuild a lost first record, and leave out the numbers of records where one is missing: Codex
    refuses such a rollout whole.

    Streams of threads that this one was forked from are not repaired: it names its part of them by
    a number of bytes.
    """
    if stream.place.endswith(PACKED):
        return [], Counter()  # stored as Codex compressed it
    first: Fields | None = None
    cwd, numbered = None, Counter[bool]()
    bare = 0
    for raw, fields in transcript:
        if cwd is None and fields.get("role") == "user" and (match := ENVIRONMENT.search(raw)):
            cwd = base.string(wire.parse_line(b'{"cwd":"%s"}' % match[1]) or {}, "cwd")
        bare += (record := enveloped(fields)) is not fields
        first = first or record
        cwd = cwd or base.string(payload_of(fields), "cwd")
        numbered[isinstance(fields.get("ordinal"), int)] += 1
    edits: list[Edit] = []
    faults: Faults = Counter()
    if bare:
        edits, faults = [partial(_today, cwd or "/")], Counter({BARE: bare})
    elif first is not None and first.get("type") != "session_meta":
        edits, faults = mending.first_rebuilt(_first(first, cwd or "/", stored, stream))
        numbered[False] += 1
    if len(numbered) == 2:
        edits.append(lambda records: (mending.record(_without_number(each)) for _, each in records))
        faults[ORDINALS] = numbered[False]
    return edits, faults


def _today(cwd: str, records: Iterator[Record]) -> Iterator[Record]:
    """Yield bare items, of a thread that began in `cwd`, in today's records."""
    time = None
    for raw, fields in records:
        each = enveloped(fields)
        payload = payload_of(each)
        if each is fields and payload:
            yield raw, fields
        elif payload:
            time = base.string(payload, "timestamp") or time
            if each["type"] == "session_meta":
                made = {"cwd": cwd, "originator": "codex_cli_rs", "cli_version": "0.0.0"}
                payload = {**made, **payload}
            yield mending.record({"timestamp": time, "type": each["type"], "payload": payload})


def _first(after: Fields, cwd: str, stored: Stored, stream: Stream) -> Fields:
    """Return a first record before `after`, of a thread that began in `cwd`."""
    session, time = stored.agent.session_id or "", base.string(after, "timestamp") or ""
    is_main = stream.name == MAIN
    thread = session if is_main else stream.name.removeprefix(AGENTS)
    meta: Fields = {"session_id": session, "id": thread, "timestamp": time, "cwd": cwd}
    meta |= {"originator": "gitcp", "cli_version": VERSION}
    meta |= {"source": "exec"} if is_main else _spawned(session)
    return {"timestamp": time, "type": "session_meta", "payload": meta}


def _without_number(fields: Fields) -> Fields:
    kept = {name: value for name, value in fields.items() if name != "ordinal"}
    payload = payload_of(fields)
    if "history_mode" in payload:
        kept["payload"] = {k: v for k, v in payload.items() if k != "history_mode"}
    return kept


# ---------------------------------------------------------------- writing


def write(dialogue: Dialogue, target: Target) -> WrittenTranscript:
    """Return the rollout of a dialogue, and those of its sub-agents. Codex has no error marks."""
    dialogue, omitted = conversion.fitted(dialogue, conversion.is_image, failures=False)
    main = _rollout(dialogue, dialogue.items, target, target.session_id)
    sources = [Source(MAIN, data=main, place=_place(target, target.session_id))]
    for aside in dialogue.asides:
        thread = conversion.Ids(NAME, target.session_id, aside.id).next()
        data = _rollout(dialogue, aside.items, target, thread, aside)
        sources.append(Source(f"{AGENTS}{thread}", data=data, place=_place(target, thread)))
    agent = Agent(NAME, target.session_id, VERSION, dialogue.agent.model)
    return WrittenTranscript(Capture(agent, NAME, tuple(sources)), omitted)


def _place(target: Target, thread: str) -> str:
    return f"rollout-{target.began:%Y-%m-%dT%H-%M-%S}-{thread}.jsonl"


def _rollout(
    dialogue: Dialogue,
    items: tuple[Item, ...],
    target: Target,
    thread: str,
    aside: Aside | None = None,
) -> bytes:
    clock = Clock(target.began)
    lines = [
        _record(
            "session_meta", conversion.iso(target.began), _meta(dialogue, target, thread, aside)
        )
    ]
    for item in items:
        time = conversion.iso(clock.at(item))
        lines += [_record(kind, time, payload) for kind, payload in _payloads(item)]
    return b"".join(lines)


def _record(kind: str, time: str, payload: Fields) -> bytes:
    return conversion.line({"timestamp": time, "type": kind, "payload": payload})


def _meta(dialogue: Dialogue, target: Target, thread: str, aside: Aside | None) -> Fields:
    fields: Fields = {"session_id": target.session_id, "id": thread}
    fields |= {"timestamp": conversion.iso(target.began), "cwd": target.cwd}
    fields |= {"originator": "gitcp", "cli_version": VERSION}
    if aside is None:
        fields |= {"source": "exec", "thread_source": "user"}
    else:
        fields |= _spawned(target.session_id) | {"gitcp_call": aside.call}
    return fields | ({"git": {"branch": dialogue.branch}} if dialogue.branch else {})


def _spawned(parent: str) -> Fields:
    """Return what a sub-agent's first record says of where it comes from."""
    spawn = {"parent_thread_id": parent, "depth": 1}
    source = {"subagent": {"thread_spawn": spawn}}
    return {"source": source, "thread_source": "subagent", "parent_thread_id": parent}


def _payloads(item: Item) -> Iterator[tuple[str, Fields]]:
    """Yield the records of an item: what is sent, then the results, then what is only shown."""
    if item.role != "assistant":
        content = [
            _part(block, "input_text") for block in item.blocks if isinstance(block, Text | File)
        ]
        yield "response_item", {"type": "message", "role": "user", "content": content}
        yield "event_msg", {"type": "user_message", "message": item.text(), "kind": "plain"}
        return
    for block in item.blocks:
        yield from _agent_payloads(block)
    for call in item.calls():
        kind = "function" if conversion.free_text(call) is None else "custom_tool"
        output: Any = call.result.text()
        if call.result.files():
            output = [_part(part, "input_text") for part in call.result.content]
        answer = {"type": f"{kind}_call_output", "call_id": call.id, "output": output}
        yield "response_item", answer


def _agent_payloads(block: Block) -> Iterator[tuple[str, Fields]]:
    if isinstance(block, Thinking):
        yield "event_msg", {"type": "agent_reasoning", "text": block.text}
    elif isinstance(block, Call):
        text = conversion.free_text(block)
        call = {"call_id": block.id, "name": block.name}
        if text is None:
            yield "response_item", {"type": "function_call", **call, "arguments": block.arguments}
        else:
            yield (
                "response_item",
                {"type": "custom_tool_call", "status": "completed", **call, "input": text},
            )
    else:
        content = [_part(block, "output_text")]
        yield "response_item", {"type": "message", "role": "assistant", "content": content}
        if isinstance(block, Text):
            yield "event_msg", {"type": "agent_message", "message": block.text}


def _part(block: Content, kind: str) -> Fields:
    if isinstance(block, File):
        return {"type": "input_image", "image_url": conversion.data_url(block)}
    return {"type": kind, "text": block.text}
