"""Parse the lines of a Gemini CLI chat. A message with a known id replaces the earlier one; a line
may replace the whole history or rewind it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import takewhile
from typing import Any, NamedTuple

from gitcp import wire
from gitcp.adapters import base
from gitcp.adapters.base import Image, Message
from gitcp.model import Digest, LastMessage
from gitcp.value import replace

NOT_TYPED = ("<session_context>", "<hook_context>")
NO_CONTENT = (*NOT_TYPED, "/", "?")
"""Prefixes of texts that do not make a chat resumable by themselves."""


KINDS = frozenset(("user", "gemini", "info", "error", "warning"))
"""The types of messages that were seen, up to version 0.61."""

IN_CHANGES = ("messages", "summary")
"""Fields of a document that are changes in a chat of lines."""


class _Answer(NamedTuple):
    """A tool's result: the id of the call, and the tool's name if given."""

    id: str
    tool: str | None
    response: Any
    images: list[Image]


def unfolded(lines: Iterable[bytes]) -> Iterator[bytes]:
    """Yield the lines of a chat. One in the old format is a single document: of that, yield a
    header, and a line with all messages.
    """
    rest = iter(lines)
    first = next(rest, b"")
    whole = [first, *rest] if first.strip() == b"{" else [first]
    document = wire.parse_line(b"\n".join(whole)) or {}
    if isinstance(document.get("messages"), list):
        changed = {name: document.pop(name) for name in IN_CHANGES if name in document}
        whole = [wire.dumps(document).strip(), wire.dumps({"$set": changed}).strip()]
        whole = [line + b"\n" for line in whole]
    yield from whole
    yield from rest


def id_set(fields: dict[str, Any]) -> str | None:
    """Return the session id that a line sets: in a chat's header, or in a change."""
    changed = fields.get("$set")
    if isinstance(changed, dict):
        return base.string(changed, "sessionId")
    return base.string(fields, "sessionId") if "projectHash" in fields else None


def began(lines: Iterable[bytes]) -> str:
    """Return the last start time in a chat, "" if there is none."""
    time = ""
    for line in unfolded(lines):
        if b'"startTime"' in line:
            fields = wire.parse_line(line) or {}
            changed = fields.get("$set")
            time = (
                base.string(changed if isinstance(changed, dict) else fields, "startTime") or time
            )
    return time


def has_content(fields: dict[str, Any]) -> bool:
    """Return whether a line has a message that makes a chat worth resuming."""
    return any(_has_content(message) for message in (fields, *(replaced_by(fields) or ())))


def _has_content(message: dict[str, Any]) -> bool:
    text = _text(message.get("content")).strip()
    if message.get("type") == "user":
        return bool(text) and not text.startswith(NO_CONTENT)
    return message.get("type") == "gemini" and bool(
        text or message.get("toolCalls") or message.get("thoughts")
    )


def replaced_by(fields: dict[str, Any]) -> list[dict[str, Any]] | None:
    """Return the messages with which a line replaces all earlier ones, None if it does not."""
    changed = fields.get("$set")
    messages = changed.get("messages") if isinstance(changed, dict) else None
    return (
        [entry for entry in messages if isinstance(entry, dict)]
        if isinstance(messages, list)
        else None
    )


def digest(before: Digest, lines: Iterable[bytes]) -> Digest:
    """Count messages of user and agent and tool calls. A replaced history is counted from zero."""
    for line in unfolded(lines):
        fields = wire.parse_line(line) or {}
        replaced = replaced_by(fields)
        if replaced is not None:
            before = replace(before, messages=0, last_message=None)
        for message in replaced or [fields]:
            before = _digest_message(before, message)
        changed = fields.get("$set")
        title = base.string(changed, "summary") if isinstance(changed, dict) else None
        before = replace(before, title=title.strip()) if title and title.strip() else before
    return before


def _digest_message(before: Digest, message: dict[str, Any]) -> Digest:
    text, id = _text(message.get("content")), base.string(message, "id")
    if "id" in message:
        before = base.with_unknown(before, message.get("type"), KINDS)
    if message.get("type") in ("user", "gemini") and id is None:
        before = base.with_other_form(before, message["type"])
    if message.get("type") == "gemini":
        before = replace(before, model=base.string(message, "model") or before.model)
        text = text.strip() or "".join(
            f"[{base.string(call, 'name') or '?'}]" for call in _calls(message)
        )
        last = LastMessage("assistant", base.shown(text), id)
    elif message.get("type") == "user" and not text.lstrip().startswith(NOT_TYPED):
        before = replace(before, last_prompt=base.shown(text)) if text.strip() else before
        last = LastMessage("user", base.shown(text), id)
    else:
        return before
    if not last.text:
        return before
    again = before.last_message is not None and (
        before.last_message.role,
        before.last_message.id,
    ) == (last.role, id)
    return replace(before, last_message=last, messages=before.messages + (not again))


def messages(lines: Iterable[bytes]) -> Iterator[Message]:
    """Yield the parts of turns that a resume would show, without replaced and rewound ones."""
    current = history(lines)
    separate = {answer.id for message in current for answer in _answers(message.get("content"))}
    tools: dict[str, str] = {}
    answered: set[str] = set()
    for message in current:
        for part in _messages(message, tools, separate, answered):
            if part.is_shown():
                yield part


def history(lines: Iterable[bytes]) -> list[dict[str, Any]]:
    """Return the messages that a resume would send, without replaced and rewound ones."""
    current: dict[tuple[str, str], dict[str, Any]] = {}
    for line in unfolded(lines):
        fields = wire.parse_line(line) or {}
        replaced, rewound = replaced_by(fields), base.string(fields, "$rewindTo")
        if replaced is not None:
            current.clear()
        if rewound is not None:
            ids = [id for id, _ in current]
            for key in list(current)[ids.index(rewound) if rewound in ids else 0 :]:
                del current[key]
        for message in [fields] if replaced is None else replaced:
            id, kind = base.string(message, "id"), base.string(message, "type")
            if id is not None and kind is not None:
                current[id, kind] = message
    return list(current.values())


def _messages(
    message: dict[str, Any], tools: dict[str, str], separate: set[str], answered: set[str]
) -> Iterator[Message]:
    """Yield the parts of a message. Each call has one result: a separate message if its id is in
    `separate`, else the inline one. Registers calls in `tools` and results in `answered`.
    """
    roles = {"user": "user", "gemini": "assistant"}
    text = _text(message.get("content"))
    role = "system" if text.lstrip().startswith(NOT_TYPED) else roles.get(message["type"], "system")
    base_message = Message(role, text, message["id"], base.string(message, "timestamp"))
    for thought in base.objects(message.get("thoughts")):
        texts = (base.string(thought, name) for name in ("subject", "description"))
        yield replace(base_message, role="thinking", text="\n".join(filter(None, texts)))
    yield base.with_images(base_message, _images(_own_parts(message.get("content"))))
    for call in _calls(message):
        id, name = str(call.get("id")), base.string(call, "name") or "?"
        tools[id] = name
        call_message = replace(base_message, tool=name, call=_id(id))
        yield replace(call_message, role="assistant", text=wire.dumps(call.get("args")).decode())
        if call.get("result") and id not in separate | answered:
            answered.add(id)
            yield _inline_result(call_message, call)
    for answer in _answers(message.get("content")):
        # After a resume, earlier results appear twice.
        if answer.id not in answered:
            answered.add(answer.id)
            name = answer.tool or tools.get(answer.id, "?")
            yield _result(replace(base_message, text="", tool=name, call=_id(answer.id)), answer)


def _inline_result(message: Message, call: dict[str, Any]) -> Message:
    result = call["result"]
    answers = [_result(message, answer) for answer in _answers(result)]
    text = "\n".join(answer.text for answer in answers) if answers else base.text_of(result)
    failed = call.get("status") in ("error", "cancelled") or any(
        answer.failed for answer in answers
    )
    images = [image for answer in answers for image in answer.images]
    return base.with_images(replace(message, role="tool", text=text, failed=failed), images)


def _result(message: Message, answer: _Answer) -> Message:
    response = answer.response
    failed = isinstance(response, dict) and "error" in response and "output" not in response
    return base.with_images(
        replace(message, role="tool", text=_answer(response), failed=failed), answer.images
    )


def _answers(content: Any) -> list[_Answer]:
    """Return the tool results in these parts. Images are inside a result, or follow it."""
    answers: list[_Answer] = []
    for part in base.objects(content):
        result = part.get("functionResponse")
        if isinstance(result, dict):
            images = _images(result.get("parts"))
            answers.append(
                _Answer(
                    str(result.get("id")),
                    base.string(result, "name"),
                    result.get("response"),
                    images,
                )
            )
        elif answers:
            answers[-1].images.extend(_images([part]))
    return answers


def _own_parts(content: Any) -> list[dict[str, Any]]:
    """Return the parts before the first tool result."""
    return list(takewhile(lambda part: "functionResponse" not in part, base.objects(content)))


def _images(parts: Any) -> list[Image]:
    images = []
    for part in base.objects(parts):
        data = part.get("inlineData") or part.get("fileData")
        media = base.string(data, "mimeType") or "" if isinstance(data, dict) else ""
        if isinstance(data, dict) and media.startswith("image/"):
            images.append(Image(media, base.string(data, "data"), base.string(data, "fileUri")))
    return images


def _calls(message: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the tool calls of a message: next to its content, or inside it after a resume."""
    return base.objects(message.get("toolCalls")) or base.objects(
        [part.get("functionCall") for part in base.objects(message.get("content"))]
    )


def _id(id: str) -> str | None:
    """Return the id of a call, None if it had none."""
    return None if id == "None" else id


def _answer(response: Any) -> str:
    if isinstance(response, dict):
        text = base.string(response, "output") or base.string(response, "error")
        return wire.dumps(response).decode() if text is None else text
    return base.text_of(response)


def _text(content: Any) -> str:
    """Return the text of a message, without what hooks added, unless there is nothing else."""
    parts = content if isinstance(content, list) else [content]
    parts_shown = [part for part in parts if not (isinstance(part, dict) and part.get("thought"))]
    typed = [
        part for part in parts_shown if not base.text_of([part]).lstrip().startswith(NOT_TYPED)
    ]
    return base.text_of(typed) or base.text_of(parts_shown)


def before(lines: Iterable[bytes], message_id: str) -> int | None:
    """Return the offset of the first line with this user message."""
    needle = message_id.encode("utf-8", "replace")
    for offset, line in base.offsets(lines):
        if needle in line:
            fields = wire.parse_line(line) or {}
            if fields.get("type") == "user" and fields.get("id") == message_id:
                return offset
    return None
