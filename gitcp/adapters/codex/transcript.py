"""What the lines of a rollout say: items of the conversation, and records about them, which are
passed over.
"""

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
"""How texts begin that stand in the place of a prompt and that nobody typed."""


def payload_of(fields: dict[str, Any]) -> dict[str, Any]:
    """The object in a line's field `payload`, empty where there is none."""
    payload = fields.get("payload")
    return payload if isinstance(payload, dict) else {}


def digest(before: Digest, lines: Iterable[bytes]) -> Digest:
    """Counts what the user and the assistant said, tool calls and what they gave back."""
    for line in lines:
        fields = wire.parse_line(line) or {}
        payload = payload_of(fields)
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
    shown = _shown(payload, {})
    if shown is None or shown.role == "thinking":
        return before
    before = replace(before, messages=before.messages + 1)
    if shown.tool is not None or not shown.text.strip():
        return before
    text = base.shown(shown.text)
    if shown.role == "user":
        before = replace(before, last_prompt=text)
    return replace(before, last_message=LastMessage(shown.role, text, shown.id))


def messages(lines: Iterable[bytes]) -> Iterator[Message]:
    """What was said, with tool calls and what they gave back, in the order of the file."""
    tools: dict[str, str] = {}
    for line in lines:
        fields = wire.parse_line(line) or {}
        payload, message = payload_of(fields), None
        if fields.get("type") == "response_item":
            message = _shown(payload, tools)
        elif fields.get("type") == "compacted":
            message = Message("summary", base.string(payload, "message") or "")
        if message is not None and message.is_shown():
            yield replace(message, time=base.string(fields, "timestamp"))


def _shown(payload: dict[str, Any], tools: dict[str, str]) -> Message | None:
    """An item as it is shown, None for one that was put in for the model alone. Calls are entered
    in `tools`.
    """
    kind, call = str(payload.get("type")), str(payload.get("call_id"))
    shown = Message("assistant", "", base.string(payload, "id"))
    if kind == "message":
        text = base.text_of(payload.get("content"))
        role = payload.get("role")
        typed = role == "user" and not text.lstrip().startswith(NOT_TYPED)
        said = base.with_images(replace(shown, text=text), _images(payload.get("content")))
        return replace(said, role=role) if typed or role == "assistant" else None
    if kind == "reasoning":
        return replace(shown, role="thinking", text=base.text_of(payload.get("summary")))
    if kind.endswith("_output"):
        output = payload.get("output")
        failed = isinstance(output, dict) and output.get("success") is False
        text, id = _given_back(output), base.string(payload, "call_id")
        result = replace(
            shown, role="tool", text=text, tool=tools.get(call, "?"), call=id, failed=failed
        )
        return base.with_images(
            result, _images(output.get("content") if isinstance(output, dict) else output)
        )
    if kind.endswith("_call"):
        tools[call] = base.string(payload, "name") or kind.removesuffix("_call")
        return replace(
            shown, text=_asked(payload), tool=tools[call], call=base.string(payload, "call_id")
        )
    return None


def _asked(payload: dict[str, Any]) -> str:
    """What a tool was called with: text, or an object."""
    given = next(
        (payload[key] for key in ("arguments", "input", "action") if payload.get(key) is not None),
        "",
    )
    return given if isinstance(given, str) else wire.dumps(given).decode()


def _images(content: Any) -> Iterator[Image]:
    for part in base.objects(content):
        url = base.string(part, "image_url") if part.get("type") == "input_image" else None
        if url is not None:
            yield base.image_at(url)


def _given_back(output: Any) -> str:
    return base.text_of(output.get("content") if isinstance(output, dict) else output)


def before(lines: Iterable[bytes], message_id: str) -> int | None:
    """The offset of the line that is the user message with this id."""
    needle = message_id.encode("utf-8", "replace")
    for offset, line in base.offsets(lines):
        if needle in line:
            fields = wire.parse_line(line) or {}
            payload = payload_of(fields) if fields.get("type") == "response_item" else {}
            if payload.get("role") == "user" and payload.get("id") == message_id:
                return offset
    return None
