"""Parse the lines of a rollout: conversation items, and records about them, which are skipped."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from gitcp import wire
from gitcp.adapters import base
from gitcp.adapters.base import Image, Message
from gitcp.model import Digest, LastMessage
from gitcp.value import replace

NOT_TYPED = (
    "# AGENTS.md instructions",
    "<environment_context>",
    "<hook_prompt",
    "<skill>",
    "<subagent_notification>",
    "<turn_aborted>",
    "<user_instructions>",
    "<user_shell_command>",
)
"""Prefixes of texts in the role of a prompt that no person typed."""

ITEMS = ("message", "reasoning")
"""Kinds of items in a conversation, besides calls and their outputs."""


KINDS = frozenset(
    (
        *("compacted", "event_msg", "response_item", "session_meta", "token_usage_record"),
        *("turn_context", "world_state"),
    )
)
"""The types of records that were seen, up to version 0.171."""


def payload_of(fields: dict[str, Any]) -> dict[str, Any]:
    """Return the object in a line's field `payload`, empty if there is none."""
    payload = fields.get("payload")
    return payload if isinstance(payload, dict) else {}


def record_of(line: bytes) -> dict[str, Any]:
    """Return a line as a record, empty if it is none."""
    return enveloped(wire.parse_line(line) or {})


def enveloped(fields: dict[str, Any]) -> dict[str, Any]:
    """Return a record. Codex once wrote the items themselves, after a first line with the thread's
    description: each is returned in the record that it would be in today.
    """
    kind = fields.get("type")
    if "payload" in fields:
        return fields
    if kind is None and "timestamp" in fields and isinstance(fields.get("id"), str):
        return {"type": "session_meta", "timestamp": fields["timestamp"], "payload": fields}
    if isinstance(kind, str) and (kind in ITEMS or kind.endswith(("_call", "_output"))):
        return {"type": "response_item", "payload": fields}
    return fields


def digest(before: Digest, lines: Iterable[bytes]) -> Digest:
    """Count messages of user and assistant, tool calls and results."""
    for line in lines:
        fields = record_of(line)
        payload = payload_of(fields)
        if fields:
            before = base.with_unknown(before, fields.get("type"), KINDS)
        match fields.get("type"):
            case "session_meta":
                before = replace(
                    before, version=base.string(payload, "cli_version") or before.version
                )
            case "turn_context":
                before = replace(before, model=base.string(payload, "model") or before.model)
            case "response_item":
                before = _digest_item(before, payload)
    return before


def _digest_item(before: Digest, payload: dict[str, Any]) -> Digest:
    message = _message(payload, {})
    if message is None:
        before = base.with_unknown(before, payload.get("type"), ITEMS)
    if message is None or message.role == "thinking":
        return before
    before = replace(before, messages=before.messages + 1)
    if message.tool is not None or not message.text.strip():
        return before
    text = base.shown(message.text)
    if message.role == "user":
        before = replace(before, last_prompt=text)
    return replace(before, last_message=LastMessage(message.role, text, message.id))


def messages(lines: Iterable[bytes]) -> Iterator[Message]:
    """Yield messages, tool calls and results, in file order."""
    tools: dict[str, str] = {}
    for line, _ in base.records(lines):
        fields = record_of(line)
        payload, message = payload_of(fields), None
        if fields.get("type") == "response_item":
            message = _message(payload, tools)
        elif fields.get("type") == "compacted":
            message = Message("summary", base.string(payload, "message") or "")
        if message is not None and message.is_shown():
            yield replace(message, time=base.string(fields, "timestamp"))


def _message(payload: dict[str, Any], tools: dict[str, str]) -> Message | None:
    """Return an item as a message, None if it was added for the model alone. Registers calls in
    `tools`.
    """
    kind, call = str(payload.get("type")), str(payload.get("call_id"))
    message = Message("assistant", "", base.string(payload, "id"))
    if kind == "message":
        text = base.text_of(payload.get("content"))
        role = payload.get("role")
        typed = role == "user" and not text.lstrip().startswith(NOT_TYPED)
        full = base.with_images(replace(message, text=text), _images(payload.get("content")))
        return replace(full, role=role) if typed or role == "assistant" else None
    if kind == "reasoning":
        return replace(message, role="thinking", text=base.text_of(payload.get("summary")))
    if kind.endswith("_output"):
        output = payload.get("output")
        failed = isinstance(output, dict) and output.get("success") is False
        content = output.get("content") if isinstance(output, dict) else output
        text, id = base.text_of(content), base.string(payload, "call_id")
        result = replace(
            message, role="tool", text=text, tool=tools.get(call, "?"), call=id, failed=failed
        )
        return base.with_images(result, _images(content))
    if kind.endswith("_call"):
        tools[call] = base.string(payload, "name") or kind.removesuffix("_call")
        return replace(
            message, text=_input(payload), tool=tools[call], call=base.string(payload, "call_id")
        )
    return None


def _input(payload: dict[str, Any]) -> str:
    value = next(
        (payload[key] for key in ("arguments", "input", "action") if payload.get(key) is not None),
        "",
    )
    return value if isinstance(value, str) else wire.dumps(value).decode()


def _images(content: Any) -> Iterator[Image]:
    for part in base.objects(content):
        url = base.string(part, "image_url") if part.get("type") == "input_image" else None
        if url is not None:
            yield base.image_at(url)


def before(lines: Iterable[bytes], message_id: str) -> int | None:
    """Return the offset of the line with this user message."""
    needle = message_id.encode("utf-8", "replace")
    for offset, line in base.offsets(lines):
        if needle in line:
            fields = record_of(line)
            payload = payload_of(fields) if fields.get("type") == "response_item" else {}
            if payload.get("role") == "user" and payload.get("id") == message_id:
                return offset
    return None
