"""What the lines of a chat of Gemini CLI say. A message that comes again under its id replaces the
one before; a line may replace the whole history, or take its end back.
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
"""How texts begin that make no conversation: a chat of nothing else is not resumed."""


class _Answer(NamedTuple):
    """What a tool gave back: the id of the call, the tool's name if it is said."""

    id: str
    tool: str | None
    response: Any
    images: list[Image]


def id_set(fields: dict[str, Any]) -> str | None:
    """The session id that a line gives: the head of a chat, or a change of it."""
    changed = fields.get("$set")
    if isinstance(changed, dict):
        return base.string(changed, "sessionId")
    return base.string(fields, "sessionId") if "projectHash" in fields else None


def began(lines: Iterable[bytes]) -> str:
    """When a chat began, as its last line that says so has it; "" where none does."""
    time = ""
    for line in lines:
        if b'"startTime"' in line:
            fields = wire.parse_line(line) or {}
            changed = fields.get("$set")
            time = (
                base.string(changed if isinstance(changed, dict) else fields, "startTime") or time
            )
    return time


def says_something(fields: dict[str, Any]) -> bool:
    """Whether a line has a message that makes a chat worth resuming."""
    return any(_is_said(message) for message in (fields, *(replaced_by(fields) or ())))


def _is_said(message: dict[str, Any]) -> bool:
    text = _text(message.get("content")).strip()
    if message.get("type") == "user":
        return bool(text) and not text.startswith(NO_CONTENT)
    return message.get("type") == "gemini" and bool(
        text or message.get("toolCalls") or message.get("thoughts")
    )


def replaced_by(fields: dict[str, Any]) -> list[dict[str, Any]] | None:
    """The messages that a line puts in the place of all before it, None if it does not."""
    changed = fields.get("$set")
    messages = changed.get("messages") if isinstance(changed, dict) else None
    return (
        [entry for entry in messages if isinstance(entry, dict)]
        if isinstance(messages, list)
        else None
    )


def digest(before: Digest, lines: Iterable[bytes]) -> Digest:
    """Counts what people and the agent said, and its calls of tools; a history put in the place of
    another anew.
    """
    for line in lines:
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
    """The parts of turns as a resume would know them: what was replaced or rewound is left out."""
    history = _history(lines)
    told = {answer.id for message in history for answer in _answers(message.get("content"))}
    tools: dict[str, str] = {}
    answered: set[str] = set()
    for message in history:
        for part in _shown(message, tools, told, answered):
            if part.is_shown():
                yield part


def _history(lines: Iterable[bytes]) -> list[dict[str, Any]]:
    history: dict[tuple[str, str], dict[str, Any]] = {}
    for line in lines:
        fields = wire.parse_line(line) or {}
        replaced, rewound = replaced_by(fields), base.string(fields, "$rewindTo")
        if replaced is not None:
            history.clear()
        if rewound is not None:
            ids = [id for id, _ in history]
            for key in list(history)[ids.index(rewound) if rewound in ids else 0 :]:
                del history[key]
        for message in [fields] if replaced is None else replaced:
            id, kind = base.string(message, "id"), base.string(message, "type")
            if id is not None and kind is not None:
                history[id, kind] = message
    return list(history.values())


def _shown(
    message: dict[str, Any], tools: dict[str, str], told: set[str], answered: set[str]
) -> Iterator[Message]:
    """The parts of a message. Each call has one result: the one in a message of its own, if `told`
    has the call's id, else the one beside the call. Calls are entered in `tools`, results in
    `answered`.
    """
    roles = {"user": "user", "gemini": "assistant"}
    text = _text(message.get("content"))
    role = "system" if text.lstrip().startswith(NOT_TYPED) else roles.get(message["type"], "system")
    shown = Message(role, text, message["id"], base.string(message, "timestamp"))
    for thought in base.objects(message.get("thoughts")):
        said = (base.string(thought, name) for name in ("subject", "description"))
        yield replace(shown, role="thinking", text="\n".join(filter(None, said)))
    yield base.with_images(shown, _images(_said_before(message.get("content"))))
    for call in _calls(message):
        id, name = str(call.get("id")), base.string(call, "name") or "?"
        tools[id] = name
        called = replace(shown, tool=name, call=_id(id))
        yield replace(called, role="assistant", text=wire.dumps(call.get("args")).decode())
        if call.get("result") and id not in told | answered:
            answered.add(id)
            yield _beside(called, call)
    for answer in _answers(message.get("content")):
        # What was said before a resume is told twice after it.
        if answer.id not in answered:
            answered.add(answer.id)
            name = answer.tool or tools.get(answer.id, "?")
            yield _answered(replace(shown, text="", tool=name, call=_id(answer.id)), answer)


def _beside(called: Message, call: dict[str, Any]) -> Message:
    """The result that a call has beside it."""
    result = call["result"]
    answers = [_answered(called, answer) for answer in _answers(result)]
    text = "\n".join(answer.text for answer in answers) if answers else base.text_of(result)
    failed = call.get("status") in ("error", "cancelled") or any(
        answer.failed for answer in answers
    )
    images = [image for answer in answers for image in answer.images]
    return base.with_images(replace(called, role="tool", text=text, failed=failed), images)


def _answered(shown: Message, answer: _Answer) -> Message:
    response = answer.response
    failed = isinstance(response, dict) and "error" in response and "output" not in response
    return base.with_images(
        replace(shown, role="tool", text=_answer(response), failed=failed), answer.images
    )


def _answers(content: Any) -> list[_Answer]:
    """What tools gave back in these parts. Images are in an answer, or follow it."""
    found: list[_Answer] = []
    for part in base.objects(content):
        given = part.get("functionResponse")
        if isinstance(given, dict):
            images = _images(given.get("parts"))
            found.append(
                _Answer(
                    str(given.get("id")), base.string(given, "name"), given.get("response"), images
                )
            )
        elif found:
            found[-1].images.extend(_images([part]))
    return found


def _said_before(content: Any) -> list[dict[str, Any]]:
    """The parts that no tool gave back."""
    return list(takewhile(lambda part: "functionResponse" not in part, base.objects(content)))


def _images(parts: Any) -> list[Image]:
    found = []
    for part in base.objects(parts):
        given = part.get("inlineData") or part.get("fileData")
        media = base.string(given, "mimeType") or "" if isinstance(given, dict) else ""
        if isinstance(given, dict) and media.startswith("image/"):
            found.append(Image(media, base.string(given, "data"), base.string(given, "fileUri")))
    return found


def _calls(message: dict[str, Any]) -> list[dict[str, Any]]:
    """The calls of tools in a message. They come beside its content, or in it after a resume."""
    return base.objects(message.get("toolCalls")) or base.objects(
        [part.get("functionCall") for part in base.objects(message.get("content"))]
    )


def _id(id: str) -> str | None:
    """The id of a call, None where there was none."""
    return None if id == "None" else id


def _answer(response: Any) -> str:
    if isinstance(response, dict):
        text = base.string(response, "output") or base.string(response, "error")
        return wire.dumps(response).decode() if text is None else text
    return base.text_of(response)


def _text(content: Any) -> str:
    """The text of a message, without what hooks added to it, unless that is all there is."""
    parts = content if isinstance(content, list) else [content]
    said = [part for part in parts if not (isinstance(part, dict) and part.get("thought"))]
    typed = [part for part in said if not base.text_of([part]).lstrip().startswith(NOT_TYPED)]
    return base.text_of(typed) or base.text_of(said)


def before(lines: Iterable[bytes], message_id: str) -> int | None:
    """The offset of the line of the user's message with this id, which it keeps however often it is
    listed again.
    """
    needle = message_id.encode("utf-8", "replace")
    for offset, line in base.offsets(lines):
        if needle in line:
            fields = wire.parse_line(line) or {}
            if fields.get("type") == "user" and fields.get("id") == message_id:
                return offset
    return None
