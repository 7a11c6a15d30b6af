"""Copilot CLI: a directory for each session below `~/.copilot/session-state`.

    <session-state>/<session>/events.jsonl    events, append-only
    <session-state>/<session>/workspace.yaml  working directory; recreated when missing
    <session-state>/<session>/checkpoints/, files/, research/, plan.md  the agent's own files

A resume needs the events, and changes to the directory in workspace.yaml, wherever it is started.
So a session of another directory is always restored under a new id. Not stored: workspace.yaml,
locks, the file copies for Copilot's own rewind, and session.db, which changes while it runs.

Resuming under another id changes the directory name and the id in the first line.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Any

from gitcp import regular, wire
from gitcp.adapters import base
from gitcp.adapters.base import (
    Found,
    Image,
    Listed,
    Message,
    Origin,
    Placement,
    Reader,
    Stored,
    Write,
)
from gitcp.model import MAIN, Agent, Capture, Digest, Host, LastMessage, Source
from gitcp.value import replace

NAME = "copilot"

EVENTS = "events.jsonl"
WORKSPACE = "workspace.yaml"
SESSION = "{session}"
"""Placeholder for the session id in a stored path."""

COUNTED = ("user.message", "assistant.message", "tool.execution_complete")
KINDS = frozenset(
    (
        *("abort", "agent", "assistant", "auto_mode_switch", "capabilities", "command", "commands"),
        *("elicitation", "exit_plan_mode", "external_tool", "hook", "human_response", "mcp"),
        *("mcp_app", "model", "pending_messages", "permission", "sampling", "sandbox", "session"),
        *("session_limits_exhausted", "skill", "subagent", "system", "tool", "tool_search", "ui"),
        *("user", "user_input", "workflow"),
    )
)
"""What the names of events begin with, by the schema of version 1.0.102."""
HEAD = 64 << 10
TOLERANCE = 2
"""Milliseconds by which Copilot's timestamps of one call may differ."""
LEFT_OUT = ("rewind-file-snapshots", "session.db", WORKSPACE, EVENTS)
"""Prefixes of files that are not part of the conversation."""

CWD = re.compile(rb'"cwd":\s*("(?:[^"\\]|\\.)*")')


# ---------------------------------------------------------------- finding


def find(cwd: Path, host: Host) -> tuple[Found, ...]:
    """Return the sessions of `cwd` or its repository's root, and the running one, newest first."""
    paths, current = base.roots(cwd), running(host)
    sessions = [
        session
        for name in _names(_state(host))
        if (session := base.found(NAME, name, _state(host) / name / EVENTS))
        and (name == current or _workplace(session.path.parent) in paths)
    ]
    return tuple(sorted(sessions, key=lambda session: (-session.modified, session.session_id)))


def located(session_id: str, host: Host) -> Found | None:
    """Return the session with this id, in any directory."""
    return base.found(NAME, session_id, _state(host) / session_id / EVENTS)


def list_all(host: Host) -> Iterator[Listed]:
    """Yield the sessions of all directories."""
    for name in _names(_state(host)):
        found = base.found(NAME, name, _state(host) / name / EVENTS)
        if found is not None:
            directory = found.path.parent
            extra = (directory / relative for relative in _files(directory))
            yield base.listed(found, (found.path, *extra), partial(capture, found))


def unlisted(host: Host) -> Iterator[tuple[Path, str]]:
    """Yield the sessions that Copilot wrote before it had events."""
    for path in base.glob(_state(host).with_name("history-session-state"), "*.json"):
        yield path, "sessions in history-session-state, where Copilot kept them before its events"


def origin(found: Found) -> Origin:
    """Return where a session ran: its directory, and the repository that its start names."""
    start = base.first_line(found.path)
    given = _data(start).get("context")
    context = given if isinstance(given, dict) else {}
    directory = _workplace(found.path.parent) if found.path.name == EVENTS else None
    named = {
        name: (value,) if (value := base.string(context, name)) else ()
        for name in ("cwd", "gitRoot", "repository", "headCommit", "branch")
    }
    directories = (*((directory,) if directory else ()), *named["cwd"], *named["gitRoot"])
    return Origin(
        tuple(dict.fromkeys(directories)),
        remotes=named["repository"],
        commits=named["headCommit"],
        branches=named["branch"],
    )


def watched(cwd: Path, host: Host) -> tuple[Path, ...]:
    """Return the workspace files of all sessions, and all files of this directory's sessions."""
    state = _state(host)
    workspaces = (
        path for name in _names(state) for path in (state / name, state / name / WORKSPACE)
    )
    session_paths = (
        path
        for session in find(cwd, host)
        for path in (session.path, *_directories(session.path.parent))
    )
    return (state, *workspaces, *session_paths)


def running(host: Host) -> str | None:
    """Return the session id from the environment of a command run by Copilot."""
    session_id = host.env.get("COPILOT_AGENT_SESSION_ID", "")
    return session_id if base.SESSION_ID.fullmatch(session_id) else None


def recognise(fields: Mapping[str, Any]) -> str | None:
    """Return the session that the first event names; None for any other record."""
    is_ours = fields.get("type") == "session.start"
    return base.string(_data(dict(fields)), "sessionId") if is_ours else None


def _state(host: Host) -> Path:
    return Path(host.env.get("COPILOT_HOME") or host.home / ".copilot") / "session-state"


def _names(state: Path) -> list[str]:
    try:
        return sorted(name for name in os.listdir(state) if base.SESSION_ID.fullmatch(name))
    except OSError:
        return []


def _workplace(directory: Path) -> str | None:
    """Return the real path of a session's working directory: the recorded one, else where it
    started.
    """
    path = _recorded_workplace(directory)
    if path is None:
        match = CWD.search(_head(directory / EVENTS))
        path = _string(match[1]) if match else None
    return os.path.realpath(path) if path and "\0" not in path else None


def _recorded_workplace(directory: Path) -> str | None:
    """Return the directory in workspace.yaml; None if it is missing or not in Copilot's format."""
    for line in _head(directory / WORKSPACE).splitlines():
        if line.startswith(b"cwd: "):
            value = line[5:].strip()
            if value[:1] == b'"':
                return _string(value)
            if value[:1] == b"'":
                value = value[1:-1].replace(b"''", b"'")
            return os.fsdecode(value)
    return None


def _string(quoted: bytes) -> str | None:
    try:
        value = wire.loads(quoted)
    except ValueError:
        return None
    return value if isinstance(value, str) and value.isprintable() else None


def _head(path: Path) -> bytes:
    try:
        with regular.opened(path) as file:
            return file.read(HEAD)
    except OSError:
        return b""


# ---------------------------------------------------------------- capturing


def capture(found: Found) -> Capture:
    """Capture the events and the agent's files next to them. Regular files only."""
    start = _data(base.first_line(found.path))
    session_id = (
        found.path.parent.name
        if found.path.name == EVENTS
        else base.string(start, "sessionId") or ""
    )
    main = Source(MAIN, path=found.path, live=True, place=f"{SESSION}/{EVENTS}")
    extra = _extra_sources(found.path.parent) if found.path.name == EVENTS else ()
    directory = _workplace(found.path.parent) if found.path.name == EVENTS else None
    agent = Agent(NAME, session_id if base.SESSION_ID.fullmatch(session_id) else None)
    return Capture(agent, NAME, (main, *extra), Path(directory) if directory else None)


def _extra_sources(directory: Path) -> Iterator[Source]:
    for relative in sorted(_files(directory)):
        name = (
            relative
            if base.STREAM_PART.fullmatch(relative)
            else sha256(os.fsencode(relative)).hexdigest()[:32]
        )
        target = (
            f"{SESSION}/{relative}"
            if base.place_parts(f"{SESSION}/{relative}")
            else f"{SESSION}/files/{name}"
        )
        yield Source(f"beside/{name}", path=directory / relative, live=False, place=target)


def _files(directory: Path) -> Iterator[str]:
    """Yield the paths, below a session's directory, of its files."""
    for folder in _directories(directory):
        for name in _listed(folder):
            relative = str((folder / name).relative_to(directory))
            if (
                not relative.startswith(LEFT_OUT)
                and not name.endswith(".lock")
                and base.found(NAME, "", folder / name)
            ):
                yield relative


def _directories(directory: Path) -> list[Path]:
    """Return a session's directory and its subdirectories that belong to it."""
    walked = (Path(folder) for folder, _, _ in os.walk(directory))
    return [
        folder
        for folder in walked
        if folder == directory or not str(folder.relative_to(directory)).startswith(LEFT_OUT)
    ]


def _listed(directory: Path) -> list[str]:
    try:
        return sorted(os.listdir(directory))
    except OSError:
        return []


# ---------------------------------------------------------------- understanding


def _data(fields: dict[str, Any]) -> dict[str, Any]:
    data = fields.get("data")
    return data if isinstance(data, dict) else {}


def digest(before: Digest, lines: Iterable[bytes]) -> Digest:
    """Count messages of user and assistant and tool results, without those of sub-agents."""
    for line in lines:
        fields = wire.parse_line(line) or {}
        data, kind = _data(fields), fields.get("type")
        if fields:
            group = str(kind).partition(".")[0]
            before = before if group in KINDS else base.with_unknown(before, kind, ())
        if kind in COUNTED and not data:
            before = base.with_other_form(before, kind)
        if fields.get("agentId"):
            continue
        if kind == "session.start":
            version, model = base.string(data, "copilotVersion"), base.string(data, "selectedModel")
            before = replace(before, version=version or before.version, model=model or before.model)
        elif kind in COUNTED:
            before = _digest_message(replace(before, messages=before.messages + 1), fields)
    return before


def _digest_message(before: Digest, fields: dict[str, Any]) -> Digest:
    data, role = _data(fields), _role(fields)
    text = base.shown(base.string(data, "content") or "")
    before = replace(before, model=base.string(data, "model") or before.model)
    if not text or role in {"tool", "system"}:
        return before
    if role == "user":
        before = replace(before, last_prompt=text)
    return replace(before, last_message=LastMessage(role, text, base.string(fields, "id")))


def _role(fields: dict[str, Any]) -> str:
    """Return the role; a user message may have been added by the program."""
    data, role = _data(fields), str(fields["type"]).partition(".")[0]
    return role if role != "user" or is_typed(data) else "system"


def is_typed(data: dict[str, Any]) -> bool:
    """Return whether a person wrote a user message, from its data."""
    return data.get("source") in (None, "user") and not data.get("isAutopilotContinuation")


def messages(lines: Iterable[bytes]) -> Iterator[Message]:
    """Yield messages, tool calls and results, in file order."""
    tools: dict[str, str] = {}
    for line, _ in base.records(lines):
        fields = wire.parse_line(line) or {}
        for message in _messages(fields, tools):
            if message.is_shown():
                yield message


def has_called(events: bytes, hook: str, stamp: int) -> bool:
    """Return whether the events record a call of `hook` at or after `stamp` (milliseconds since
    1970).

    For some hooks Copilot records the payload, which has that time; for others only the time of the
    record.
    """
    from datetime import datetime  # not needed to find sessions

    for line in events.splitlines():
        fields = (wire.parse_line(line) or {}) if b'"hook.start"' in line else {}
        data = _data(fields)
        payload = data.get("input")
        if data.get("hookType") != hook:
            continue
        if isinstance(payload, dict) and payload.get("timestamp") == stamp:
            return True
        try:
            written = (
                datetime.fromisoformat(base.string(fields, "timestamp") or "").timestamp() * 1000
            )
        except ValueError:
            continue
        if written >= stamp - TOLERANCE:
            return True
    return False


def _messages(fields: dict[str, Any], tools: dict[str, str]) -> Iterator[Message]:
    data = _data(fields)
    message = Message("user", base.string(data, "content") or "", base.string(fields, "id"))
    message = replace(message, time=base.string(fields, "timestamp"))
    match fields.get("type"):
        case "user.message":
            yield base.with_images(
                replace(message, role=_role(fields)), _images(data.get("attachments"))
            )
        case "assistant.message":
            yield replace(message, role="thinking", text=base.string(data, "reasoningText") or "")
            yield replace(message, role="assistant")
            yield from _calls(message, data, tools)
        case "tool.execution_complete":
            yield _result(message, data, tools)
        case "session.compaction_complete":
            yield replace(message, role="summary", text=base.string(data, "summaryContent") or "")


def _result(message: Message, data: dict[str, Any], tools: dict[str, str]) -> Message:
    result, error = data.get("result"), data.get("error")
    text = base.text_of(result.get("content") if isinstance(result, dict) else result)
    text = text or base.text_of(error.get("message") if isinstance(error, dict) else error)
    id = base.string(data, "toolCallId")
    answer = replace(message, role="tool", text=text, tool=tools.get(str(id), "?"), call=id)
    images = _images(result.get("contents")) if isinstance(result, dict) else ()
    return base.with_images(replace(answer, failed=data.get("success") is False), images)


def _images(parts: Any) -> Iterator[Image]:
    """Yield the images attached to a prompt or returned by a tool."""
    for part in base.objects(parts):
        media, data = base.string(part, "mimeType") or "", base.string(part, "data")
        path = base.string(part, "path")
        if data is not None and media.startswith("image/"):
            yield Image(media, data)
        elif (
            part.get("type") == "file" and path is not None and base.image_at(path).media != "image"
        ):
            yield base.image_at(path)


def _calls(message: Message, data: dict[str, Any], tools: dict[str, str]) -> Iterator[Message]:
    requests = data.get("toolRequests")
    for request in requests if isinstance(requests, list) else []:
        if isinstance(request, dict):
            name = tools[str(request.get("toolCallId"))] = base.string(request, "name") or "?"
            call = replace(message, tool=name, call=base.string(request, "toolCallId"))
            yield replace(
                call, role="assistant", text=wire.dumps(request.get("arguments")).decode()
            )


def before(lines: Iterable[bytes], message_id: str) -> int | None:
    """Return the offset of the `user.message` with this id."""
    needle = message_id.encode("utf-8", "replace")
    for offset, line in base.offsets(lines):
        if needle in line:
            fields = wire.parse_line(line) or {}
            if fields.get("type") == "user.message" and fields.get("id") == message_id:
                return offset
    return None


# ---------------------------------------------------------------- placing


def place(stored: Stored, cwd: Path, host: Host, *, new_id: str) -> Placement:
    """Place the conversation under its own id, or under `new_id` if that has newer
    messages or another directory.

    Adds a workspace.yaml for `cwd` if Copilot has written none.
    """
    state, original, note = _state(host), stored.agent.session_id, ""
    session_id = new_id if original is None else original
    files = (
        None if original is None else _plan(stored, state / base.check_session_id(original), cwd)
    )
    if files is None:
        session_id = new_id
        files = _plan(stored, state / base.check_session_id(new_id), cwd)
        reason = "has newer messages or another directory and was kept"
        note = (
            f"session {original} {reason}; the restored conversation is {new_id}"
            if original
            else ""
        )
    if files is None:
        raise base.occupied(f"Copilot session {new_id}")
    latest = None
    if files[0].how == "same":
        since = base.modified(files[0].path)
        latest = base.newer(find(cwd, host), session_id, since, ("copilot", "--continue"))
    return Placement(session_id, files, ("copilot", f"--resume={session_id}"), note, latest=latest)


def _plan(stored: Stored, directory: Path, cwd: Path) -> tuple[Write, ...] | None:
    recorded = _recorded_workplace(directory)
    if recorded is not None and base.roots(Path(recorded)).isdisjoint(base.roots(cwd)):
        return None
    files = []
    for stream, read in sorted(stored.streams, key=lambda item: item[0].name != MAIN):
        if stream.name == MAIN:
            files.append((directory / EVENTS, _renamed(read, stored, directory.name)))
        else:
            files.append((directory.joinpath(*_target(stream.place)), read))
    writes, workplace = base.plan_writes(files), os.path.realpath(cwd)
    if writes is None or recorded is not None or not workplace.isprintable():
        return writes
    text = b"id: %s\ncwd: %s\n" % (directory.name.encode(), wire.dumps(workplace))
    return (*writes, Write(directory / WORKSPACE, lambda: iter([text]), "create"))


def _renamed(read: Reader, stored: Stored, session_id: str) -> Reader:
    """Return the events with the session's id in their first line."""
    if session_id == stored.agent.session_id:
        return read
    first = next(base.lines(read()), b"")
    return base.renamed(
        read, base.string(_data(wire.parse_line(first) or {}), "sessionId") or "", session_id
    )


def _target(relative: str) -> tuple[str, ...]:
    """Return where a file goes, below the session's directory. The stored path is not trusted."""
    parts = base.place_parts(relative)
    if (
        parts is None
        or len(parts) < 2
        or parts[0] != SESSION
        or "/".join(parts[1:]).startswith(LEFT_OUT)
    ):
        raise base.bad_target(relative)
    return parts[1:]
