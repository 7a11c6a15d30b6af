"""Qwen Code: a file for each session below `~/.qwen/projects`, in a directory for each working
directory, whose name is that of Claude Code's.

    <projects>/<directory>/chats/<session>.jsonl                main stream, append-only
    <projects>/<directory>/subagents/<session>/agent-<id>.jsonl
    <projects>/<directory>/memory/MEMORY.md, <name>.md          the project's memory

Each line has the session's id. The first line's `cwd` must be that in which the session is resumed,
else it is refused. Messages are Gemini's: roles `user` and `model`, with parts. As tried with
0.24.4.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from gitcp import wire
from gitcp.adapters import base, directories
from gitcp.adapters.base import Image, Message
from gitcp.adapters.session_files import SessionFiles
from gitcp.model import Digest, Host
from gitcp.value import replace

ROLES = {"user": "user", "assistant": "assistant", "tool_result": "tool"}


class QwenCode(SessionFiles):
    """Qwen Code's sessions."""

    NAME = "qwen"
    id_field = "sessionId"
    in_each_line = True
    latest = ("qwen", "--continue")
    below = "chats"
    kinds = frozenset((*ROLES, "system"))

    def directory(self, cwd: str, host: Host) -> Path:
        """Return the directory of a working directory."""
        return _projects(host) / directories.dashed(cwd)

    def files(self, host: Host) -> Iterable[Path]:
        """Return all transcripts."""
        return base.glob(_projects(host), "*/chats/*.jsonl")

    def beside(self, path: Path) -> Iterable[Path]:
        """Return the transcripts of sub-agents."""
        agents = path.parents[1] / "subagents" / path.stem
        return [
            each for each in base.glob(agents, "agent-*.jsonl") if base.found(self.NAME, "", each)
        ]

    def memory(self, cwd: Path, host: Host) -> Path:
        """Return the directory of the memory that all sessions of a repository share."""
        root = next(iter(base.roots(cwd) - {os.path.realpath(cwd)}), os.path.realpath(cwd))
        return self.directory(root, host) / "memory"

    def command(self, session_id: str) -> tuple[str, ...]:
        """Return the command that resumes a session."""
        return ("qwen", "--resume", session_id)

    def recognise(self, fields: Mapping[str, Any]) -> str | None:
        """Return the session that a record names."""
        is_ours = "uuid" in fields and "provenance" in fields
        return fields.get("sessionId") if is_ours else None

    def described(self, before: Digest, fields: dict[str, Any]) -> Digest:
        """Take the version, and the model of the last answer."""
        version, model = base.string(fields, "version"), base.string(fields, "model")
        return replace(before, version=version or before.version, model=model or before.model)

    def formed(self, before: Digest, fields: dict[str, Any]) -> Digest:
        """Add a turn whose message has no parts."""
        kind, parts = fields.get("type"), base.message_of(fields).get("parts")
        is_known = kind not in ("user", "assistant") or isinstance(parts, list)
        return before if is_known else base.with_other_form(before, kind)

    def parts(self, fields: dict[str, Any]) -> Iterator[Message]:
        """Yield what a record shows: of a tool's result its own record, and not a call's copy."""
        role = ROLES.get(str(fields.get("type")))
        id, time = base.string(fields, "uuid"), base.string(fields, "timestamp")
        if role == "user" and fields.get("provenance", "real_user") != "real_user":
            role = "system"
        for part in base.objects(base.message_of(fields).get("parts")) if role else ():
            yield from _shown(Message(role or "", "", id, time), part, fields)


def _projects(host: Host) -> Path:
    home = host.env.get("QWEN_RUNTIME_DIR") or host.env.get("QWEN_HOME") or host.home / ".qwen"
    return Path(home) / "projects"


def _shown(message: Message, part: dict[str, Any], fields: dict[str, Any]) -> Iterator[Message]:
    called, answered = part.get("functionCall"), part.get("functionResponse")
    if isinstance(called, dict):
        arguments = wire.dumps(called.get("args")).decode().strip()
        name, id = base.string(called, "name") or "?", base.string(called, "id")
        yield replace(message, text=arguments, tool=name, call=id)
    elif isinstance(answered, dict):
        yield _answer(message, answered, fields)
    elif isinstance(part.get("text"), str):
        role = "thinking" if part.get("thought") is True else message.role
        yield replace(message, role=role, text=part["text"])
    else:
        yield base.with_images(message, _images(part))


def _answer(message: Message, answered: dict[str, Any], fields: dict[str, Any]) -> Message:
    response = answered.get("response")
    told = response if isinstance(response, dict) else {}
    text = base.string(told, "output") or base.string(told, "error")
    if text is None:
        text = wire.dumps(response).decode().strip()
    status = fields.get("toolCallResult")
    failed = "error" in told or (isinstance(status, dict) and status.get("status") == "error")
    name, id = base.string(answered, "name") or "?", base.string(answered, "id")
    return replace(message, role="tool", text=text, tool=name, call=id, failed=failed)


def _images(part: dict[str, Any]) -> Iterator[Image]:
    data = part.get("inlineData") or part.get("fileData")
    media = base.string(data, "mimeType") or "" if isinstance(data, dict) else ""
    if isinstance(data, dict) and media.startswith("image/"):
        yield Image(media, base.string(data, "data"), base.string(data, "fileUri"))


ADAPTER = QwenCode()
