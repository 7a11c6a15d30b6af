"""One conversation, in the shape in which each of seven agents writes it: compacted once, then with
a picture, two calls at once of which one failed, a sub-agent, thinking that is sealed and some that
can be read.
"""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path
from typing import Any

PICTURE = (
    "iVBORw0KGgoAAAANSUhEUgAAAAgAAAAICAIAAABLbSncAAAAEklEQVR4nGP4z8CAFWEXHbQSACj/P8Fu7N9h"
    "AAAAAElFTkSuQmCC"
)
SESSION = "5e55ed00-1111-4222-8333-444444444444"
TIME = "2026-11-20T09:00:00.000Z"
STAMP = 1763629200000
THREAD = "01a1fea6-9df6-77e0-a293-6d362ebd4b09"
OPENCODE = "ses_e015b9a4affeCV4kKz0s1foBb5"
OPENCODE_CHILD = "ses_e015b5ed5ffe6BmpXdG9AXel8D"

COMPACTED = "long before the compaction"
SUMMARY = "In short: it was begun."
PROMPT = "look at this picture"
SAYS = "Two things at once."
LISTED = "a.txt\nb.txt"
FAILED = "no such file: größer"
NEXT = "/usr/bin is next, please"
INNER = "the sub-agent looks around"
FOUND = "the sub-agent found nothing"
DONE = "All done."

TOLD = (SUMMARY, PROMPT, SAYS, LISTED, FAILED, NEXT, FOUND, DONE)
"""What is said, in order: texts and results."""

NOT_TOLD = (COMPACTED, INNER)
CALLS = (("call_1", LISTED), ("call_2", FAILED), ("call_3", FOUND))
SEAL = "c2VhbGVkIGFuZCBzaWduZWQ="
THOUGHT = "Let me see."


def write(agent: str, home: Path, cwd: Path) -> str:
    """Write the conversation where this agent keeps its own, as held in `cwd`; the session's id."""
    cwd = Path(os.path.realpath(cwd))
    return WRITERS[agent](home, cwd)


def _put(path: Path, lines: Iterable[Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    data = [json.dumps(line, ensure_ascii=False, separators=(",", ":")) for line in lines]
    path.write_text("".join(f"{line}\n" for line in data), "utf-8")


# ---------------------------------------------------------------- Claude Code


def _claude(home: Path, cwd: Path) -> str:
    name = "".join(c if c.isascii() and c.isalnum() else "-" for c in str(cwd))
    directory = home / ".claude" / "projects" / name
    text = {"type": "text"}
    source = {"type": "base64", "media_type": "image/png", "data": PICTURE}
    seal = {"type": "thinking", "signature": SEAL}
    lines = [
        _node(cwd, 1, "user", COMPACTED),
        _node(cwd, 2, "assistant", [{**text, "text": "earlier answer"}]),
        {**_node(cwd, 3, "system", None), "subtype": "compact_boundary", "parentUuid": None},
        {**_node(cwd, 4, "user", SUMMARY), "isCompactSummary": True},
        _node(cwd, 5, "user", [{**text, "text": PROMPT}, {"type": "image", "source": source}]),
        _node(cwd, 6, "assistant", [{**seal, "thinking": ""}, {**seal, "thinking": THOUGHT}], "m1"),
        _node(cwd, 7, "assistant", [{**text, "text": SAYS}], "m1"),
        _node(cwd, 8, "assistant", [_use("call_1", "Bash", command="ls")], "m1"),
        _node(cwd, 9, "assistant", [_use("call_2", "Read", file_path="größer")], "m1"),
        _node(cwd, 10, "user", [_answer("call_2", FAILED, is_error=True)]),
        {**_node(cwd, 11, "user", [_answer("call_1", LISTED)]), "parentUuid": _uuid(8)},
        {**_node(cwd, 12, "user", NEXT), "parentUuid": _uuid(10)},
        _node(cwd, 13, "assistant", [_use("call_3", "Task", prompt=INNER)], "m2"),
        _node(cwd, 14, "user", [_answer("call_3", FOUND)]),
        _node(cwd, 15, "assistant", [{**text, "text": DONE}], "m3"),
    ]
    _put(directory / f"{SESSION}.jsonl", lines)
    aside = [
        _node(cwd, 1, "user", INNER, side=True),
        _node(cwd, 2, "assistant", [{**text, "text": "inner answer"}], side=True),
    ]
    beside = directory / SESSION / "subagents"
    _put(beside / "agent-sub1.jsonl", aside)
    _put(beside / "agent-sub1.meta.json", [{"agentType": "Explore", "toolUseId": "call_3"}])
    return SESSION


def _uuid(number: int) -> str:
    return f"00000000-0000-4000-8000-{number:012}"


def _node(
    cwd: Path, number: int, kind: str, content: Any, message: str = "", *, side: bool = False
) -> dict[str, Any]:
    fields = {
        "parentUuid": _uuid(number - 1) if number > 1 else None,
        "isSidechain": side,
        "userType": "external",
        "cwd": str(cwd),
        "sessionId": SESSION,
        "version": "2.1.197",
        "gitBranch": "main",
        "type": kind,
        "uuid": _uuid(number),
        "timestamp": TIME,
    }
    if content is None:
        return fields
    said: dict[str, Any] = {"role": kind, "content": content}
    if kind == "assistant":
        usage = {"input_tokens": 1, "output_tokens": 1}
        said |= {"id": f"msg_{message or number}", "type": "message", "usage": usage}
        said |= {"model": "claude-opus-4-8", "stop_reason": None, "stop_sequence": None}
    return {**fields, "message": said}


def _use(id: str, name: str, **input: str) -> dict[str, Any]:
    return {"type": "tool_use", "id": id, "name": name, "input": input}


def _answer(id: str, text: str, **more: bool) -> dict[str, Any]:
    return {"type": "tool_result", "tool_use_id": id, "content": text, **more}


# ---------------------------------------------------------------- Codex


def _codex(home: Path, cwd: Path) -> str:
    parts = [{"type": "input_text", "text": PROMPT}]
    parts += [{"type": "input_image", "image_url": f"data:image/png;base64,{PICTURE}"}]
    user = [{"type": "input_text", "text": NEXT}]
    history = [_said("user", [{"type": "input_text", "text": SUMMARY}])]
    function, custom = {"type": "function_call"}, {"type": "custom_tool_call"}
    items: list[tuple[str, dict[str, Any]]] = [
        ("response_item", _said("user", [{"type": "input_text", "text": COMPACTED}])),
        ("compacted", {"message": SUMMARY, "replacement_history": history}),
        ("turn_context", {"turn_id": "t", "cwd": str(cwd), "model": "gpt-5.5"}),
        ("response_item", _said("user", parts)),
        ("response_item", {"type": "reasoning", "summary": [], "encrypted_content": SEAL}),
        ("response_item", _thought()),
        ("response_item", _said("assistant", [{"type": "output_text", "text": SAYS}])),
        ("response_item", {**function, "call_id": "call_1", "name": "exec_command"}),
        ("response_item", {**custom, "call_id": "call_2", "name": "apply_patch", "input": "*** x"}),
        ("response_item", {"type": "custom_tool_call_output", "call_id": "call_2"}),
        ("response_item", {"type": "function_call_output", "call_id": "call_1", "output": LISTED}),
        ("response_item", _said("user", user)),
        ("response_item", {**function, "call_id": "call_3", "name": "spawn_agent"}),
        ("response_item", {"type": "function_call_output", "call_id": "call_3", "output": FOUND}),
        ("response_item", _said("assistant", [{"type": "output_text", "text": DONE}])),
    ]
    items[7][1]["arguments"] = '{"cmd":"ls"}'
    items[9][1]["output"] = FAILED
    items[12][1]["arguments"] = json.dumps({"message": INNER})
    _rollout(home, cwd, SESSION, items, source="exec", thread_source="user")
    inner = ("response_item", _said("user", [{"type": "input_text", "text": INNER}]))
    spawned = {"subagent": {"thread_spawn": {"parent_thread_id": SESSION, "depth": 1}}}
    _rollout(home, cwd, THREAD, [inner], source=spawned, thread_source="subagent")
    return SESSION


def _said(role: str, content: list[dict[str, Any]]) -> dict[str, Any]:
    return {"type": "message", "role": role, "content": content}


def _thought() -> dict[str, Any]:
    summary = [{"type": "summary_text", "text": THOUGHT}]
    return {"type": "reasoning", "summary": summary, "encrypted_content": SEAL}


def _rollout(
    home: Path, cwd: Path, thread: str, items: list[tuple[str, dict[str, Any]]], **more: Any
) -> None:
    meta = {"session_id": SESSION, "id": thread, "timestamp": TIME, "cwd": str(cwd)}
    meta |= {"originator": "codex_exec", "cli_version": "0.169.0", **more}
    records = [("session_meta", meta), *items]
    lines = [{"timestamp": TIME, "type": kind, "payload": payload} for kind, payload in records]
    name = f"rollout-2026-11-20T09-00-00-{thread}.jsonl"
    _put(home / ".codex" / "sessions" / "2026" / "11" / "20" / name, lines)


# ---------------------------------------------------------------- Copilot CLI


def _copilot(home: Path, cwd: Path) -> str:
    attachment = {"type": "blob", "data": PICTURE, "mimeType": "image/png"}
    calls = [_request("call_1", "bash", command="ls"), _request("call_2", "view", path="größer")]
    task = [_request("call_3", "task", prompt=INNER)]
    named: dict[str, Any] = {
        "toolCallId": "call_3",
        "agentName": "task",
        "agentDisplayName": "task",
        "agentDescription": "",
    }
    context = {"cwd": str(cwd), "gitRoot": str(cwd), "branch": "main"}
    begun: dict[str, Any] = {"sessionId": SESSION, "version": 1, "producer": "copilot-agent"}
    events = [
        _event(1, "session.start", None, **begun, copilotVersion="1.0.102", context=context),
        _event(2, "user.message", content=COMPACTED),
        _event(3, "session.compaction_complete", success=True, summaryContent=SUMMARY),
        _event(4, "user.message", content=PROMPT, attachments=[attachment]),
        _event(5, "assistant.message", content="", toolRequests=[], reasoningOpaque=SEAL),
        _event(6, "assistant.message", content=SAYS, toolRequests=calls, reasoningText=THOUGHT),
        _event(7, "tool.execution_complete", toolCallId="call_2", success=False),
        _event(8, "tool.execution_complete", toolCallId="call_1", success=True),
        _event(9, "user.message", content=NEXT, transformedContent=f"<x/>{NEXT}"),
        _event(10, "assistant.message", content="", toolRequests=task),
        _event(11, "subagent.started", "sub1", **named),
        _event(12, "user.message", "sub1", content=INNER),
        _event(13, "tool.execution_complete", toolCallId="call_3", success=True),
        _event(14, "assistant.message", content=DONE, toolRequests=[], model="some-model"),
    ]
    for event in events:
        if event["type"] == "assistant.message":
            event["data"]["messageId"] = event["id"]
    events[6]["data"]["error"] = {"message": FAILED}
    events[7]["data"]["result"] = {"content": LISTED}
    events[12]["data"]["result"] = {"content": FOUND}
    directory = home / ".copilot" / "session-state" / SESSION
    _put(directory / "events.jsonl", events)
    directory.joinpath("workspace.yaml").write_text(f"id: {SESSION}\ncwd: {cwd}\n", "utf-8")
    return SESSION


def _request(id: str, name: str, **arguments: str) -> dict[str, Any]:
    return {"toolCallId": id, "name": name, "arguments": arguments, "type": "function"}


def _event(number: int, kind: str, agent: str | None = None, **data: Any) -> dict[str, Any]:
    parent = _uuid(number - 1) if number > 1 else None
    event = {"type": kind, "data": data, "id": _uuid(number), "timestamp": TIME}
    return event | {"parentId": parent} | ({"agentId": agent} if agent else {})


# ---------------------------------------------------------------- Gemini CLI


def _gemini(home: Path, cwd: Path) -> str:
    directory = home / ".gemini" / "tmp" / "work"
    head = {"sessionId": SESSION, "projectHash": "0" * 64, "startTime": TIME, "kind": "main"}
    picture = {"inlineData": {"mimeType": "image/png", "data": PICTURE}}
    calls = [
        _called("call_1", "run_shell_command", {"output": LISTED}, "success", command="ls"),
        _called("call_2", "read_file", {"error": FAILED}, "error", file_path="größer"),
    ]
    task = [_called("call_3", "codebase_investigator", {"output": FOUND}, "success", objective="x")]
    thoughts = [{"subject": "", "description": THOUGHT}]
    lines = [
        head,
        {"id": "u0", "timestamp": TIME, "type": "user", "content": [{"text": COMPACTED}]},
        {"$set": {"messages": [_message("s1", "user", [{"text": SUMMARY}])]}},
        _message("u1", "user", [{"text": PROMPT}, picture]),
        _message("g1", "gemini", SAYS, thoughts=thoughts, model="gemini-2.5-pro"),
        _message("g1", "gemini", SAYS, thoughts=thoughts, toolCalls=calls, model="gemini-2.5-pro"),
        _message("u2", "user", [{"text": "\u200b" + NEXT}]),
        _message("g2", "gemini", "", toolCalls=task, model="gemini-2.5-pro"),
        _message("g3", "gemini", DONE, model="gemini-2.5-pro"),
    ]
    _put(directory / "chats" / f"session-2026-11-20T09-00-{SESSION[:8]}.jsonl", lines)
    inner = [{**head, "sessionId": "sub1", "kind": "subagent"}]
    inner.append(_message("i1", "user", [{"text": INNER}]))
    _put(directory / "chats" / SESSION / "sub1.jsonl", inner)
    directory.joinpath(".project_root").write_text(str(cwd), "utf-8")
    return SESSION


def _message(id: str, kind: str, content: Any, **more: Any) -> dict[str, Any]:
    return {"id": id, "timestamp": TIME, "type": kind, "content": content, **more}


def _called(
    id: str, name: str, response: dict[str, str], status: str, **args: str
) -> dict[str, Any]:
    result = [{"functionResponse": {"id": id, "name": name, "response": response}}]
    return {"id": id, "name": name, "args": args, "result": result, "status": status}


# ---------------------------------------------------------------- opencode


def _opencode(home: Path, cwd: Path) -> str:
    path = home / ".local" / "share" / "opencode" / "opencode.db"
    path.parent.mkdir(parents=True)
    file = {"type": "file", "mime": "image/png", "url": f"data:image/png;base64,{PICTURE}"}
    ended, error = {"status": "completed"}, {"status": "error"}
    times = {"start": STAMP, "end": STAMP}
    thought = {"type": "reasoning", "text": THOUGHT, "metadata": {"anthropic": {"signature": SEAL}}}
    meta = {"sessionId": OPENCODE_CHILD}
    steps = [
        _tool("call_1", "bash", {**ended, "input": {"command": "ls"}, "output": LISTED}),
        _tool("call_2", "read", {**error, "input": {"filePath": "größer"}, "error": FAILED}),
    ]
    found = {**ended, "input": {"prompt": INNER}, "output": FOUND, "metadata": meta, "time": times}
    messages: list[tuple[str, dict[str, Any], list[dict[str, Any]]]] = [
        ("user", {}, [{"type": "text", "text": COMPACTED}]),
        ("user", {}, [{"type": "compaction", "auto": True}]),
        ("assistant", {"summary": True}, [{"type": "text", "text": SUMMARY}]),
        ("user", {}, [{"type": "text", "text": PROMPT}, file]),
        (
            "assistant",
            {},
            [{"type": "step-start"}, thought, {"type": "text", "text": SAYS}, *steps],
        ),
        ("user", {}, [{"type": "text", "text": NEXT}]),
        ("assistant", {}, [{"type": "step-start"}, _tool("call_3", "task", found)]),
        ("assistant", {}, [{"type": "text", "text": DONE}]),
    ]
    with closing(sqlite3.connect(path, isolation_level=None)) as database:
        database.executescript(SCHEMA)
        _session(database, OPENCODE, None, cwd, messages)
        inner: Any = ("user", {}, [{"type": "text", "text": INNER}])
        _session(database, OPENCODE_CHILD, OPENCODE, cwd, [inner])
    return OPENCODE


SCHEMA = """
    create table session (id text primary key, project_id text, parent_id text, slug text,
        directory text, path text, title text, version text, time_created integer,
        time_updated integer);
    create table message (id text primary key, session_id text, time_created integer,
        time_updated integer, data text);
    create table part (id text primary key, message_id text, session_id text, data text);
"""


def _tool(id: str, name: str, state: dict[str, Any]) -> dict[str, Any]:
    return {"type": "tool", "callID": id, "tool": name, "state": state}


def _session(
    database: sqlite3.Connection,
    id: str,
    parent: str | None,
    cwd: Path,
    messages: list[tuple[str, dict[str, Any], list[dict[str, Any]]]],
) -> None:
    row = (id, "0" * 40, parent, "slug", str(cwd), "", "a title", "1.18.33", STAMP, STAMP)
    database.execute("insert into session values (?,?,?,?,?,?,?,?,?,?)", row)
    for number, (role, more, parts) in enumerate(messages):
        at, name = STAMP + number, f"msg_{number:012}{id[4:18]}"
        info = {"role": role, "time": {"created": at}, "modelID": "some-model", **more}
        database.execute(
            "insert into message values (?,?,?,?,?)", (name, id, at, at, json.dumps(info))
        )
        for index, part in enumerate(parts):
            key = f"prt_{number:06}{index:06}{id[4:18]}"
            database.execute("insert into part values (?,?,?,?)", (key, name, id, json.dumps(part)))


# ---------------------------------------------------------------- Pi


def _pi(home: Path, cwd: Path) -> str:
    text, image = {"type": "text"}, {"type": "image", "data": PICTURE, "mimeType": "image/png"}
    thought = {"type": "thinking", "thinking": THOUGHT, "thinkingSignature": SEAL}
    sealed = {"type": "thinking", "thinking": "", "thinkingSignature": SEAL, "redacted": True}
    calls = [_pi_call("call_1", "bash", command="ls"), _pi_call("call_2", "read", path="größer")]
    task = [_pi_call("call_3", "task", prompt=INNER)]
    compacted = {"summary": SUMMARY, "firstKeptEntryId": "none", "tokensBefore": 1}
    entries: list[dict[str, Any]] = [
        _pi_said("user", [{**text, "text": COMPACTED}]),
        _pi_said("assistant", [{**text, "text": "earlier answer"}]),
        {"type": "compaction", **compacted},
        _pi_said("user", [{**text, "text": PROMPT}, image]),
        _pi_said("assistant", [sealed, thought, {**text, "text": SAYS}, *calls]),
        _pi_result("call_1", "bash", LISTED),
        _pi_result("call_2", "read", FAILED, failed=True),
        _pi_said("user", [{**text, "text": NEXT}]),
        _pi_said("assistant", task),
        _pi_result("call_3", "task", FOUND),
        _pi_said("assistant", [{**text, "text": DONE}]),
    ]
    head = {"type": "session", "version": 3, "id": SESSION, "timestamp": TIME, "cwd": str(cwd)}
    lines = [head]
    for number, entry in enumerate(entries, 1):
        parent = f"{number - 1:08}" if number > 1 else None
        lines.append({"id": f"{number:08}", "parentId": parent, "timestamp": TIME, **entry})
    name = str(cwd).removeprefix("/").replace("/", "-")
    directory = home / ".pi" / "agent" / "sessions" / f"--{name}--"
    _put(directory / f"2026-11-20T09-00-00-000Z_{SESSION}.jsonl", lines)
    return SESSION


def _pi_said(role: str, content: list[dict[str, Any]], **more: Any) -> dict[str, Any]:
    return {"type": "message", "message": {"role": role, "content": content, **more}}


def _pi_call(id: str, name: str, **arguments: str) -> dict[str, Any]:
    return {"type": "toolCall", "id": id, "name": name, "arguments": arguments}


def _pi_result(id: str, name: str, text: str, *, failed: bool = False) -> dict[str, Any]:
    more = {"toolCallId": id, "toolName": name, "isError": failed}
    return _pi_said("toolResult", [{"type": "text", "text": text}], **more)


# ---------------------------------------------------------------- Qwen Code


def _qwen(home: Path, cwd: Path) -> str:
    name = "".join(c if c.isascii() and c.isalnum() else "-" for c in str(cwd))
    directory = home / ".qwen" / "projects" / name
    left = [{"role": "user", "parts": [{"text": SUMMARY}]}]
    compressed = {"subtype": "chat_compression", "systemPayload": {"compressedHistory": left}}
    picture = {"inlineData": {"mimeType": "image/png", "data": PICTURE}}
    thought = {"text": THOUGHT, "thought": True, "thoughtSignature": SEAL}
    calls = [
        _qwen_call("call_1", "run_shell_command", command="ls"),
        _qwen_call("call_2", "read_file", file_path="größer"),
    ]
    task = [_qwen_call("call_3", "agent", prompt=INNER)]
    records: list[tuple[str, list[Any], dict[str, Any]]] = [
        ("user", [{"text": COMPACTED}], {}),
        ("system", [], compressed),
        ("user", [{"text": PROMPT}, picture], {}),
        ("assistant", [thought, {"text": SAYS}, *calls], {"model": "m"}),
        ("tool_result", [_qwen_result("call_2", "read_file", error=FAILED)], {}),
        ("tool_result", [_qwen_result("call_1", "run_shell_command", output=LISTED)], {}),
        ("user", [{"text": NEXT}], {}),
        ("assistant", task, {"model": "m"}),
        ("tool_result", [_qwen_result("call_3", "agent", output=FOUND)], {}),
        ("assistant", [{"text": DONE}], {"model": "m"}),
    ]
    _put(directory / "chats" / f"{SESSION}.jsonl", _qwen_records(cwd, records))
    inner = _qwen_records(cwd, [("user", [{"text": INNER}], {})])
    _put(directory / "subagents" / SESSION / "agent-general-purpose-call_3.jsonl", inner)
    return SESSION


def _qwen_records(
    cwd: Path, records: list[tuple[str, list[Any], dict[str, Any]]]
) -> Iterable[dict[str, Any]]:
    given = {"user": "real_user", "assistant": "assistant_output"}
    for number, (kind, parts, more) in enumerate(records, 1):
        parent = _uuid(number - 1) if number > 1 else None
        fields = {"uuid": _uuid(number), "parentUuid": parent, "sessionId": SESSION}
        fields |= {"timestamp": TIME, "type": kind, "provenance": given.get(kind, kind)}
        fields |= {"cwd": str(cwd), "version": "0.24.4"}
        role = "model" if kind == "assistant" else "user"
        yield fields | more | ({"message": {"role": role, "parts": parts}} if parts else {})


def _qwen_call(id: str, name: str, **args: str) -> dict[str, Any]:
    return {"functionCall": {"id": id, "name": name, "args": args}}


def _qwen_result(id: str, name: str, **response: str) -> dict[str, Any]:
    return {"functionResponse": {"id": id, "name": name, "response": response}}


WRITERS = {
    "claude-code": _claude,
    "codex": _codex,
    "copilot": _copilot,
    "gemini": _gemini,
    "opencode": _opencode,
    "pi": _pi,
    "qwen": _qwen,
}
