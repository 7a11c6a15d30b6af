"""Read a stored opencode conversation as a dialogue, and write one for `opencode import`.

An opencode message has the calls of several steps, each with its result. What is written has one
message for each step. Ids begin with the time and sort by it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from datetime import datetime
from hashlib import sha256
from pathlib import Path
from typing import Any

from gitcp import regular, wire
from gitcp.adapters import base, conversion
from gitcp.adapters.base import Stored
from gitcp.adapters.conversion import Clock, Target, WrittenTranscript
from gitcp.adapters.databases import Unreadable
from gitcp.adapters.opencode import ADAPTER, AGENTS, SESSIONS, database, documents, lines
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
from gitcp.model import MAIN, Agent, Capture, Host, Source

VERSION = "1.18.33"
"""The version whose format is written."""

PROVIDER = "gitcp"
"""Not a provider of opencode's, so no model there counts as the one that wrote the answers."""

PROVIDERS = {
    "claude-code": "anthropic",
    "codex": "openai",
    "copilot": "github-copilot",
    "gemini": "google",
}
"""opencode's names of the agents' providers."""

SETTINGS = ("opencode.json", "opencode.jsonc", "config.json")

AGENT = "build"
"""opencode's default agent."""

Fields = dict[str, Any]


# ---------------------------------------------------------------- reading


def read(stored: Stored) -> Dialogue:
    """Return a stored conversation as a dialogue."""
    assembler = _assembled(stored, MAIN)
    items = assembler.done()
    rows = list(conversion.records(stored, SESSIONS))
    row = rows[0] if rows else {}
    asides = []
    names = conversion.streams_below(stored, AGENTS)
    calls = _calls_of_agents(stored) if names else {}  # reads the whole conversation
    for name in names:
        aside = _assembled(stored, name).done()
        if aside:
            id = name.removeprefix(AGENTS)
            asides.append(Aside(id, aside, calls.get(id)))
    return Dialogue(
        stored.agent,
        items,
        tuple(asides),
        cwd=base.string(row, "directory"),
        title=base.string(row, "title"),
        omitted=dict(assembler.omitted),
    )


def _calls_of_agents(stored: Stored) -> dict[str, str]:
    """Return the id of the call that started each sub-agent, by the sub-agent's session."""
    calls = {}
    for fields in conversion.records(stored, MAIN):
        for part in lines.parse(fields)[1]:
            metadata = _state(part).get("metadata")
            session = base.string(metadata, "sessionId") if isinstance(metadata, dict) else None
            if session is not None:
                calls[session] = str(part.get("callID"))
    return calls


def _assembled(stored: Stored, name: str) -> Assembler:
    assembler = Assembler()
    for fields in conversion.records(stored, name):
        info, parts = lines.parse(fields)
        time = info.get("time")
        at = conversion.from_milliseconds(time.get("created")) if isinstance(time, dict) else None
        if info.get("role") == "user":
            _user(assembler, parts, at)
        elif info.get("role") == "assistant" and info.get("summary") is True:
            text = "\n".join(base.text_of(part) for part in parts if part.get("type") == "text")
            assembler.compacted()
            assembler.user([Text(text)], at, "summary")
        elif info.get("role") == "assistant":
            _agent(assembler, parts, at, base.string(info, "modelID"))
    return assembler


def _user(assembler: Assembler, parts: list[Fields], time: str | None) -> None:
    content: list[Content] = []
    for part in parts:
        # An image that a person attached is synthetic, too: opencode read it.
        is_added = part.get("synthetic") and part.get("type") != "file"
        if is_added or part.get("ignored") or part.get("type") == "compaction":
            assembler.omit(NOTICES)
        else:
            content += _contents(part)
    assembler.user(content, time)


def _agent(assembler: Assembler, parts: list[Fields], time: str | None, model: str | None) -> None:
    """Add a message of the agent. The calls of one step were made together."""
    step: list[Fields] = []
    for part in [*parts, {"type": "step-start"}]:
        if part.get("type") != "step-start":
            step.append(part)
            continue
        assembler.assistant([block for each in step for block in _blocks(each)], time, model)
        for each in step:
            result = _result(_state(each)) if each.get("type") == "tool" else None
            if result is not None:
                assembler.result(str(each.get("callID")), result)
        step = []


def _blocks(part: Fields) -> Iterator[Block]:
    if part.get("type") == "tool":
        name, input = base.string(part, "tool") or "tool", _state(part).get("input")
        yield Call(str(part.get("callID")), name, conversion.arguments(input))
    elif part.get("type") == "reasoning":
        yield Thinking(base.text_of(part))
    else:
        yield from _contents(part)


def _contents(part: Fields) -> Iterator[Content]:
    if part.get("type") == "text" and not part.get("ignored"):
        yield Text(base.text_of(part))
    elif part.get("type") == "file":
        url = base.string(part, "url") or ""
        yield conversion.file_at(url, base.string(part, "mime"), base.string(part, "filename"))


def _state(part: Fields) -> Fields:
    state = part.get("state")
    return state if isinstance(state, dict) else {}


def _result(state: Fields) -> Result | None:
    """Return the result of a call; None if it has not ended."""
    if state.get("status") not in lines.ENDED:
        return None
    text = base.string(state, "output") or base.string(state, "error") or ""
    files = [
        content for part in base.objects(state.get("attachments")) for content in _contents(part)
    ]
    return Result((*conversion.texts(text), *files), state.get("status") == "error")


# ---------------------------------------------------------------- writing


def write(dialogue: Dialogue, target: Target) -> WrittenTranscript:
    """Return the session of a dialogue, and those of its sub-agents.

    Thinking is left out: opencode would send another model's as words of the answer.
    """
    dialogue, omitted = conversion.fitted(dialogue, _takes, thinking=False)
    root = session_id(target)
    sessions = [_Session(dialogue, dialogue.items, target, root)]
    for aside in dialogue.asides:
        sessions.append(_Session(dialogue, aside.items, target, _child(root, aside), root))
    main, *agents = sessions
    head = lines.head(main.row)
    sources = [
        Source(MAIN, data=head + b"".join(main.messages)),
        Source(SESSIONS, data=b"".join(conversion.line(each.row) for each in sessions)),
        *(Source(f"{AGENTS}{each.row['id']}", data=b"".join(each.messages)) for each in agents),
    ]
    agent = Agent(ADAPTER.NAME, root, VERSION, dialogue.agent.model)
    return WrittenTranscript(Capture(agent, ADAPTER.NAME, tuple(sources)), omitted)


def model(cwd: str, host: Host) -> str | None:
    """Return the model that opencode would use for a new session, as `provider/model`: that of the
    last prompt, else the one in its settings; None if there is none.
    """
    path = ADAPTER.path(host)
    with suppress(Unreadable):
        last = database.last_model(path) if os.path.exists(path) else None
        if last is not None:
            return last
    config = Path(host.env.get("XDG_CONFIG_HOME") or host.home / ".config") / "opencode"
    for directory in (Path(cwd), config):
        for name in SETTINGS:
            with suppress(OSError, ValueError, AttributeError):
                value = wire.loads(regular.content(directory / name)).get("model")
                if isinstance(value, str) and "/" in value:
                    return value
    return None


def session_id(target: Target) -> str:
    """Return the id of the session: opencode's sort by time, the latest first."""
    if documents.ID.fullmatch(target.session_id):
        return target.session_id
    return documents.other_id(f"ses_{_stamp(target.began, 0, descending=True)}", target.session_id)


def _child(root: str, aside: Aside) -> str:
    return documents.other_id(root, aside.id)


def _stamp(time: datetime, count: int, *, descending: bool = False) -> str:
    """Return the 12 hex digits with which opencode's ids begin."""
    number = int(time.timestamp() * 1000) * 0x1000 + count
    return f"{(~number if descending else number) & 0xFFFFFFFFFFFF:012x}"


def _takes(file: File) -> bool:
    return file.data is not None and "/" in file.media


class _Session:
    """A session's row, and its messages as lines."""

    def __init__(
        self,
        dialogue: Dialogue,
        items: tuple[Item, ...],
        target: Target,
        id: str,
        parent: str | None = None,
    ) -> None:
        self._id, self._cwd = id, target.cwd
        self._count, self._prompt = 0, ""
        self._model = dialogue.agent.model or "unknown"
        self._next = target.model or f"{PROVIDERS.get(dialogue.agent.name, PROVIDER)}/{self._model}"
        self._clock = Clock(target.began)
        asides = conversion.asides_by_call(dialogue).items()
        self._children = {} if parent else {call: _child(id, aside) for call, aside in asides}
        self.messages = [
            message for item in items for message in self._messages(item, self._clock.at(item))
        ]
        began = int(target.began.timestamp() * 1000)
        self.row: Fields = {
            "id": id,
            "project_id": "global",
            "parent_id": parent,
            "slug": f"gitcp-{sha256(id.encode()).hexdigest()[:8]}",
            "directory": target.cwd,
            "path": "",
            "title": dialogue.title or f"Continued from {dialogue.agent.name}",
            "version": VERSION,
            "time_created": began,
            "time_updated": began,
        }

    def _messages(self, item: Item, time: datetime) -> Iterator[bytes]:
        if item.role == "assistant":
            yield self._message(item, time, self._assistant_info(item, time))
        else:
            # The model of the last prompt is the one that opencode continues with.
            provider, _, model = self._next.partition("/")
            info: Fields = {"role": "user", "agent": AGENT}
            info["model"] = {"providerID": provider, "modelID": model}
            yield self._message(item, time, info)

    def _assistant_info(self, item: Item, time: datetime) -> Fields:
        cache = {"read": 0, "write": 0}
        return {
            "role": "assistant",
            "parentID": self._prompt or self._new_id("msg", time),
            "mode": AGENT,
            "agent": AGENT,
            "path": {"cwd": self._cwd, "root": self._cwd},
            "cost": 0,
            "tokens": {"input": 0, "output": 0, "reasoning": 0, "cache": cache},
            "providerID": PROVIDER,
            "modelID": item.model or self._model,
            "finish": "tool-calls" if item.calls() else "stop",
        }

    def _message(self, item: Item, time: datetime, info: Fields) -> bytes:
        id, stamp = self._new_id("msg", time), int(time.timestamp() * 1000)
        times = {"created": stamp} | ({"completed": stamp} if item.role == "assistant" else {})
        if item.role != "assistant":
            self._prompt = id
        parts = [
            {**self._part(block, id, time), "id": self._new_id("prt", time)}
            for block in item.blocks
        ]
        owner = {"sessionID": self._id, "messageID": id}
        whole = {**info, "time": times, "id": id, "sessionID": self._id}
        return conversion.line({"info": whole, "parts": [{**part, **owner} for part in parts]})

    def _new_id(self, kind: str, time: datetime) -> str:
        self._count += 1
        return documents.other_id(f"{kind}_{_stamp(time, self._count)}", f"{self._id}{self._count}")

    def _part(self, block: Block, message: str, time: datetime) -> Fields:
        match block:
            case Call():
                state = self._call_state(block, message, time)
                return {"type": "tool", "callID": block.id, "tool": block.name, "state": state}
            case File():
                return _file(block)
            case _:
                return {"type": "text", "text": block.text}

    def _call_state(self, call: Call, message: str, time: datetime) -> Fields:
        stamp = int(time.timestamp() * 1000)
        state: Fields = {"input": conversion.argument_object(call), "metadata": {}}
        if call.id in self._children:
            state["metadata"] = {"sessionId": self._children[call.id]}
        state["time"] = {"start": stamp, "end": stamp}
        if call.result.failed:
            return {"status": "error", "error": call.result.text(), **state}
        owner = {"sessionID": self._id, "messageID": message}
        files = [
            {**_file(file), "id": self._new_id("prt", time), **owner}
            for file in call.result.files()
        ]
        state |= {"attachments": files} if files else {}
        return {"status": "completed", "output": call.result.text(), "title": "", **state}


def _file(file: File) -> Fields:
    fields = {"type": "file", "mime": file.media, "url": conversion.data_url(file)}
    return fields | ({"filename": file.name} if file.name else {})
