"""Copilot CLI: a directory for each session below `~/.copilot/session-state`.

    <session-state>/<session>/events.jsonl        what was said and done, only ever appended to
    <session-state>/<session>/workspace.yaml      where the session works; made again where it is
    missing <session-state>/<session>/checkpoints/, files/, research/, plan.md       what the agent
    wrote down beside it

Its resume needs the events. It goes to the directory that workspace.yaml names, wherever it was
started; so a session that works elsewhere is never continued in its own place. Not kept are
workspace.yaml, locks, Copilot's own copies of files for its rewind, and session.db, which is
changed while it runs.

To resume under another id, the directory's name and the id in the first line change.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any

from gitcp import wire
from gitcp.adapters import base
from gitcp.adapters.base import Found, Image, Message, Placement, Reader, Stored, Write
from gitcp.errors import Refused, StoreDamaged
from gitcp.model import Agent, Capture, Digest, Host, LastMessage, Source
from gitcp.value import replace

NAME = "copilot"

MAIN = "main"
EVENTS = "events.jsonl"
WORKSPACE = "workspace.yaml"
SESSION = "{session}"
"""Stands for the session id in a stored place."""

COUNTED = ("user.message", "assistant.message", "tool.execution_complete")
HEAD = 64 << 10
TOLERANCE = 2
"""Milliseconds by which the times that Copilot gives one call may differ."""
LEFT_OUT = ("rewind-file-snapshots", "session.db", WORKSPACE, EVENTS)
"""How names begin that are no part of the conversation."""

CWD = re.compile(rb'"cwd":\s*("(?:[^"\\]|\\.)*")')


# ---------------------------------------------------------------- finding


def find(cwd: Path, host: Host) -> tuple[Found, ...]:
    """The sessions that work in `cwd` or at the root of its repository, and the one that runs us;
    newest first.
    """
    places, own = base.roots(cwd), running(host)
    found = [
        session
        for name in _names(_state(host))
        if (session := base.found(NAME, name, _state(host) / name / EVENTS))
        and (name == own or _workplace(session.path.parent) in places)
    ]
    return tuple(sorted(found, key=lambda session: (-session.modified, session.session_id)))


def located(session_id: str, host: Host) -> Found | None:
    """The session of this id, wherever it works."""
    return base.found(NAME, session_id, _state(host) / session_id / EVENTS)


def watched(cwd: Path, host: Host) -> tuple[Path, ...]:
    """What every session says of where it works, and everything of this directory's sessions."""
    state = _state(host)
    named = (path for name in _names(state) for path in (state / name, state / name / WORKSPACE))
    own = (
        path for found in find(cwd, host) for path in (found.path, *_directories(found.path.parent))
    )
    return (state, *named, *own)


def running(host: Host) -> str | None:
    """The session named by the environment of a command that Copilot runs."""
    session_id = host.env.get("COPILOT_AGENT_SESSION_ID", "")
    return session_id if base.SESSION_ID.fullmatch(session_id) else None


def _state(host: Host) -> Path:
    return Path(host.env.get("COPILOT_HOME") or host.home / ".copilot") / "session-state"


def _names(state: Path) -> list[str]:
    try:
        return sorted(name for name in os.listdir(state) if base.SESSION_ID.fullmatch(name))
    except OSError:
        return []


def _workplace(directory: Path) -> str | None:
    """The real path of where a session works: as last written down, else where it was started."""
    named = _named_workplace(directory)
    if named is None:
        begun = CWD.search(_head(directory / EVENTS))
        named = _string(begun[1]) if begun else None
    return os.path.realpath(named) if named and "\0" not in named else None


def _named_workplace(directory: Path) -> str | None:
    """What workspace.yaml says; None where it is not there, or is not written as Copilot writes
    it.
    """
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
        with open(path, "rb", buffering=0) as file:
            return file.read(HEAD)
    except OSError:
        return b""


# ---------------------------------------------------------------- capturing


def capture(found: Found) -> Capture:
    """The events, and the files that the agent wrote beside them. Regular files only, no links."""
    start = _data(base.first_line(found.path))
    own = (
        found.path.parent.name
        if found.path.name == EVENTS
        else base.string(start, "sessionId") or ""
    )
    main = Source(MAIN, path=found.path, live=True, place=f"{SESSION}/{EVENTS}")
    beside = _beside(found.path.parent) if found.path.name == EVENTS else ()
    directory = _workplace(found.path.parent) if found.path.name == EVENTS else None
    agent = Agent(NAME, own if base.SESSION_ID.fullmatch(own) else None)
    return Capture(agent, NAME, (main, *beside), Path(directory) if directory else None)


def _beside(directory: Path) -> Iterator[Source]:
    for below in sorted(_files(directory)):
        plain = (
            below
            if base.STREAM_PART.fullmatch(below)
            else sha256(os.fsencode(below)).hexdigest()[:32]
        )
        place = (
            f"{SESSION}/{below}"
            if base.place_parts(f"{SESSION}/{below}")
            else f"{SESSION}/files/{plain}"
        )
        yield Source(f"beside/{plain}", path=directory / below, live=False, place=place)


def _files(directory: Path) -> Iterator[str]:
    """The paths, below a session's directory, of the files that are part of it."""
    for here in _directories(directory):
        for name in _listed(here):
            below = str((here / name).relative_to(directory))
            if (
                not below.startswith(LEFT_OUT)
                and not name.endswith(".lock")
                and base.found(NAME, "", here / name)
            ):
                yield below


def _directories(directory: Path) -> list[Path]:
    """A session's directory and those below it that are part of it."""
    walked = (Path(here) for here, _, _ in os.walk(directory))
    return [
        here
        for here in walked
        if here == directory or not _below(here, directory).startswith(LEFT_OUT)
    ]


def _below(path: Path, directory: Path) -> str:
    return str(path.relative_to(directory))


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
    """Counts what the user and the assistant said and what tools gave back; a sub-agent's are not
    counted.
    """
    for line in lines:
        fields = wire.parse_line(line) or {}
        data, kind = _data(fields), fields.get("type")
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
    """Who said it: what came to the model as the user's may have been put in by the program."""
    data, role = _data(fields), str(fields["type"]).partition(".")[0]
    typed = data.get("source") in (None, "user") and not data.get("isAutopilotContinuation")
    return role if role != "user" or typed else "system"


def messages(lines: Iterable[bytes]) -> Iterator[Message]:
    """What was said, with tool calls and what they gave back, in the order of the file."""
    tools: dict[str, str] = {}
    for line in lines:
        fields = wire.parse_line(line) or {}
        for message in _shown(fields, tools):
            if message.is_shown():
                yield message


def has_called(events: bytes, hook: str, stamp: int) -> bool:
    """Whether these events say that a hook was called at `stamp` (milliseconds since 1970), or
    later.

    Of some hooks Copilot writes down the very payload, which has that time; of others only when it
    wrote.
    """
    from datetime import datetime  # not where sessions are looked for

    for line in events.splitlines():
        fields = (wire.parse_line(line) or {}) if b'"hook.start"' in line else {}
        data = _data(fields)
        given = data.get("input")
        if data.get("hookType") != hook:
            continue
        if isinstance(given, dict) and given.get("timestamp") == stamp:
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


def _shown(fields: dict[str, Any], tools: dict[str, str]) -> Iterator[Message]:
    data = _data(fields)
    shown = Message("user", base.string(data, "content") or "", base.string(fields, "id"))
    shown = replace(shown, time=base.string(fields, "timestamp"))
    match fields.get("type"):
        case "user.message":
            yield base.with_images(
                replace(shown, role=_role(fields)), _images(data.get("attachments"))
            )
        case "assistant.message":
            yield replace(shown, role="thinking", text=base.string(data, "reasoningText") or "")
            yield replace(shown, role="assistant")
            yield from _calls(shown, data, tools)
        case "tool.execution_complete":
            yield _result(shown, data, tools)
        case "session.compaction_complete":
            yield replace(shown, role="summary", text=base.string(data, "summaryContent") or "")


def _result(shown: Message, data: dict[str, Any], tools: dict[str, str]) -> Message:
    result, error = data.get("result"), data.get("error")
    text = base.text_of(result.get("content") if isinstance(result, dict) else result)
    text = text or base.text_of(error.get("message") if isinstance(error, dict) else error)
    id = base.string(data, "toolCallId")
    called = replace(shown, role="tool", text=text, tool=tools.get(str(id), "?"), call=id)
    images = _images(result.get("contents")) if isinstance(result, dict) else ()
    return base.with_images(replace(called, failed=data.get("success") is False), images)


def _images(parts: Any) -> Iterator[Image]:
    """The images that are attached to a prompt, or that a tool gave back."""
    for part in base.objects(parts):
        media, data = base.string(part, "mimeType") or "", base.string(part, "data")
        path = base.string(part, "path")
        if data is not None and media.startswith("image/"):
            yield Image(media, data)
        elif (
            part.get("type") == "file" and path is not None and base.image_at(path).media != "image"
        ):
            yield base.image_at(path)


def _calls(shown: Message, data: dict[str, Any], tools: dict[str, str]) -> Iterator[Message]:
    requests = data.get("toolRequests")
    for request in requests if isinstance(requests, list) else []:
        if isinstance(request, dict):
            name = tools[str(request.get("toolCallId"))] = base.string(request, "name") or "?"
            called = replace(shown, tool=name, call=base.string(request, "toolCallId"))
            yield replace(
                called, role="assistant", text=wire.dumps(request.get("arguments")).decode()
            )


def before(lines: Iterable[bytes], message_id: str) -> int | None:
    """The offset of the `user.message` with this id."""
    needle = message_id.encode("utf-8", "replace")
    for offset, line in base.offsets(lines):
        if needle in line:
            fields = wire.parse_line(line) or {}
            if fields.get("type") == "user.message" and fields.get("id") == message_id:
                return offset
    return None


# ---------------------------------------------------------------- placing


def place(stored: Stored, cwd: Path, host: Host, *, new_id: str) -> Placement:
    """Under the session's own id, or under `new_id` where that went on meanwhile or works
    elsewhere.

    A file of ours says that it works in `cwd`, where Copilot has written none.
    """
    state, own, note = _state(host), stored.agent.session_id, ""
    session_id = new_id if own is None else own
    files = None if own is None else _plan(stored, state / base.check_session_id(own), cwd)
    if files is None:
        session_id = new_id
        files = _plan(stored, state / base.check_session_id(new_id), cwd)
        why = "has gone on since, or works elsewhere: it was left as it is"
        note = f"session {own} {why}, and this one goes on as {new_id}" if own else ""
    if files is None:
        raise Refused(
            f"session {new_id} of Copilot exists and says something else: it was left as it is"
        )
    latest = None
    if files[0].how == "same":
        since = base.modified(files[0].path)
        latest = base.newer(find(cwd, host), session_id, since, ("copilot", "--continue"))
    return Placement(session_id, files, ("copilot", f"--resume={session_id}"), note, latest=latest)


def _plan(stored: Stored, directory: Path, cwd: Path) -> tuple[Write, ...] | None:
    there = _named_workplace(directory)
    if there is not None and base.roots(Path(there)).isdisjoint(base.roots(cwd)):
        return None
    files = []
    for stream, read in sorted(stored.streams, key=lambda item: item[0].name != MAIN):
        if stream.name == MAIN:
            files.append((directory / EVENTS, _renamed(read, stored, directory.name)))
        else:
            files.append((directory.joinpath(*_target(stream.place)), read))
    writes, here = base.plan_writes(files), os.path.realpath(cwd)
    if writes is None or there is not None or not here.isprintable():
        return writes
    text = b"id: %s\ncwd: %s\n" % (directory.name.encode(), wire.dumps(here))
    return (*writes, Write(directory / WORKSPACE, lambda: iter([text]), "create"))


def _renamed(read: Reader, stored: Stored, session_id: str) -> Reader:
    """The events as those of a session: they say in their first line whose they are."""
    if session_id == stored.agent.session_id:
        return read
    first = next(base.lines(read()), b"")
    return base.renamed(
        read, base.string(_data(wire.parse_line(first) or {}), "sessionId") or "", session_id
    )


def _target(place: str) -> tuple[str, ...]:
    """Where a file goes, below the session's directory. What a checkpoint says of it is not
    trusted.
    """
    parts = base.place_parts(place)
    if (
        parts is None
        or len(parts) < 2
        or parts[0] != SESSION
        or "/".join(parts[1:]).startswith(LEFT_OUT)
    ):
        raise StoreDamaged(
            f"a stream would be written to {place[:200]!r}: {base.NOTHING}", hint=base.CHECK
        )
    return parts[1:]
