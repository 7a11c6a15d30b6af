"""Parse the lines of a stored opencode conversation: a session header, then a
message with its parts per line.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from gitcp import wire
from gitcp.adapters import base, conversion
from gitcp.adapters.base import Image, Message
from gitcp.model import Digest, LastMessage
from gitcp.value import replace

ROLES = ("user", "assistant")
PARTS = frozenset(
    (
        *("agent", "compaction", "file", "patch", "reasoning", "retry", "snapshot"),
        *("step-finish", "step-start", "subtask", "text", "tool"),
    )
)
"""The types of parts that were seen, up to version 1.18.33."""
ENDED = ("completed", "error")
"""States of a tool call that has a result."""


def head(row: dict[str, Any]) -> bytes:
    """Return the header line of a conversation: the fields of its session that
    listings show and that rarely change.
    """
    return (
        wire.dumps(
            {"session": {name: row.get(name) for name in ("id", "title", "version")}}
        ).rstrip()
        + b"\n"
    )


def digest(before: Digest, lines: Iterable[bytes]) -> Digest:
    """Count the messages of user and assistant."""
    for line in lines:
        fields = wire.parse_line(line) or {}
        session = fields.get("session")
        if isinstance(session, dict):
            title, version = base.string(session, "title"), base.string(session, "version")
            before = replace(before, title=title or before.title, version=version or before.version)
        info, parts = parse(fields)
        if info.get("role") in ROLES:
            before = _digest_message(replace(before, messages=before.messages + 1), info, parts)
        elif info:
            before = base.with_other_form(before, "message")
        for part in parts:
            before = base.with_unknown(before, part.get("type"), PARTS)
    return before


def _digest_message(before: Digest, info: dict[str, Any], parts: list[dict[str, Any]]) -> Digest:
    text = "\n".join(_texts(parts))
    if info["role"] == "user":
        before = replace(before, last_prompt=base.shown(text)) if text.strip() else before
    else:
        before = replace(before, model=base.string(info, "modelID") or before.model)
        text = text or "".join(
            f"[{part.get('tool')}]" for part in parts if part.get("type") == "tool"
        )
    last = LastMessage(info["role"], base.shown(text), base.string(info, "id"))
    return replace(before, last_message=last) if last.text else before


def _texts(parts: list[dict[str, Any]]) -> Iterator[str]:
    """Yield the texts typed or written, without those the program added."""
    for part in parts:
        if part.get("type") == "text" and not part.get("synthetic") and not part.get("ignored"):
            yield base.text_of(part)


def messages(lines: Iterable[bytes]) -> Iterator[Message]:
    """Yield the parts of turns in order."""
    for line in lines:
        info, parts = parse(wire.parse_line(line) or {})
        if info.get("role") in ROLES:
            time = info.get("time")
            created = time.get("created") if isinstance(time, dict) else None
            at = conversion.from_milliseconds(created)
            empty = Message(info["role"], "", base.string(info, "id"), at)
            for part in parts:
                yield from (message for message in _messages(empty, part) if message.is_shown())


def _messages(message: Message, part: dict[str, Any]) -> Iterator[Message]:
    match part.get("type"):
        case "text":
            yield replace(
                message,
                role="system" if part.get("synthetic") else message.role,
                text=base.text_of(part),
            )
        case "reasoning":
            yield replace(message, role="thinking", text=base.text_of(part))
        case "tool":
            name, state = base.string(part, "tool") or "?", part.get("state")
            state = state if isinstance(state, dict) else {}
            call = replace(message, tool=name, call=base.string(part, "callID"))
            yield replace(call, role="assistant", text=wire.dumps(state.get("input")).decode())
            if state.get("status") in ENDED:
                answer = base.string(state, "output") or base.string(state, "error") or ""
                result = replace(
                    call, role="tool", text=answer, failed=state.get("status") == "error"
                )
                yield base.with_images(result, _images(base.objects(state.get("attachments"))))
        case "file":
            file_message = replace(message, text=f"[{base.string(part, 'filename') or 'file'}]")
            yield base.with_images(file_message, _images([part]))
        case "compaction":
            yield replace(message, role="system", text="[compaction]")


def _images(files: list[dict[str, Any]]) -> Iterator[Image]:
    for file in files:
        media, url = base.string(file, "mime") or "", base.string(file, "url")
        if media.startswith("image/") and url is not None:
            yield base.image_at(url, media)


def before(lines: Iterable[bytes], message_id: str) -> int | None:
    """Return the offset of the line with this user message."""
    needle = message_id.encode("utf-8", "replace")
    for offset, line in base.offsets(lines):
        if needle in line:
            info, _ = parse(wire.parse_line(line) or {})
            if info.get("role") == "user" and info.get("id") == message_id:
                return offset
    return None


def parse(fields: dict[str, Any]) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Return the message of a line and its parts; both empty for any other line."""
    info, parts = fields.get("info"), fields.get("parts")
    objects = [part for part in parts if isinstance(part, dict)] if isinstance(parts, list) else []
    return (info, objects) if isinstance(info, dict) else ({}, [])
