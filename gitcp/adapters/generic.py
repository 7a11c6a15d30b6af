"""Conversations of no particular agent: a file or bytes, stored verbatim and parsed as far as
possible.

The formats are "jsonl" (a JSON value per line), "json" (one document) and "text". Also
used for agents without an adapter. No agent can resume such a conversation; a restore
writes it where people can read it.
"""

from __future__ import annotations

import re
import stat
from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path
from typing import Any

from gitcp import regular, wire
from gitcp.adapters import base
from gitcp.adapters.base import Found, Message, Placement, Stored
from gitcp.errors import ConversationUnreadable, Refused, StoreDamaged
from gitcp.model import MAIN, Capture, Digest, Host, LastMessage, Source, Stream
from gitcp.value import replace

NAME = "generic"
DOCUMENT = "json"

HEAD = 64 << 10
LARGEST_DOCUMENT = 16 << 20
USERS = ("user", "human")
IDS = ("uuid", "id", "message_id")
SHA256 = re.compile(r"[0-9a-f]{64}")


def find(cwd: Path, host: Host) -> tuple[Found, ...]:  # noqa: ARG001 -- the protocol's
    """Return nothing: these conversations are always given explicitly."""
    return ()


def watched(cwd: Path, host: Host) -> tuple[Path, ...]:  # noqa: ARG001 -- the protocol's
    """Return nothing: no files are discovered."""
    return ()


def running(host: Host) -> str | None:  # noqa: ARG001 -- the protocol's
    """Return None: this is not an agent."""
    return None


# ---------------------------------------------------------------- capturing


def capture(found: Found) -> Capture:
    """Return the file as one stream."""
    return from_file(found.path)


def from_file(path: Path) -> Capture:
    """Capture a whole file. A pipe is read immediately.

    Raises ConversationUnreadable if it does not exist, is a directory, or cannot be read.
    """
    try:
        mode = path.stat().st_mode
        if stat.S_ISFIFO(mode):
            return from_bytes(path.read_bytes())
        if not stat.S_ISREG(mode):
            raise ConversationUnreadable(
                f"{path} is not a regular file; nothing was saved",
                hint="pass a file, or - to read stdin",
            )
        with regular.opened(path) as file:
            head = file.read(HEAD)
            if b"\n" not in head and len(head) == HEAD:
                head += file.readline(LARGEST_DOCUMENT)
            whole = not file.read(1)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise ConversationUnreadable(f"cannot read {path}: {reason}; nothing was saved") from None
    name = path.name if base.place_parts(path.name) else ""
    return Capture(None, _format(head, whole=whole), (Source(MAIN, path=path, place=name),))


def from_bytes(data: bytes) -> Capture:
    """Capture a conversation given as bytes."""
    return Capture(None, _format(data[:HEAD], whole=len(data) <= HEAD), (Source(MAIN, data=data),))


def _format(head: bytes, *, whole: bool) -> str:
    """Guess the format from the first bytes. `whole` means that there are no others."""
    lines = [line for line in base.lines([head]) if line.strip()]
    if lines and not whole and not lines[-1].endswith(b"\n"):
        lines.pop()
    values = [_value(line) for line in lines]
    if len(values) == 1 and whole and _listed(values[0]) is not None:
        return DOCUMENT
    if not head.strip() or (values and None not in values):
        return "jsonl"
    return DOCUMENT if head.lstrip()[:1] in {b"{", b"["} else "text"


# ---------------------------------------------------------------- understanding


def digest(before: Digest, lines: Iterable[bytes]) -> Digest:
    """Count messages: objects with a role, type or message."""
    for entry in entries(lines):
        before = _digest_entry(before, entry)
    return before


def messages(lines: Iterable[bytes]) -> Iterator[Message]:
    """Yield every message that has text."""
    for entry in entries(lines):
        text = _text(entry)
        if text:
            yield Message(_role(entry), text, _id(entry), base.string(entry, "timestamp"), None)


def before(lines: Iterable[bytes], message_id: str) -> int | None:
    """Return the offset of the line with this user message. A single document cannot be split."""
    for offset, line in base.offsets(lines):
        entry = wire.parse_line(line) or {}
        if _id(entry) == message_id and _role(entry) in USERS:
            return offset
    return None


def entries(lines: Iterable[bytes]) -> Iterator[dict[str, Any]]:
    """Yield the messages, one per line or from a single document."""
    for value in _values(iter(lines)):
        listed = _listed(value)
        for entry in [value] if listed is None else listed:
            if isinstance(entry, dict) and not entry.keys().isdisjoint(("role", "type", "message")):
                yield entry


def _values(lines: Iterator[bytes]) -> Iterator[Any]:
    """Yield the value of each line, or a single value if the lines are one document of limited
    size.
    """
    first = next((line for line in lines if line.strip()), b"")
    value = _value(first)
    if isinstance(value, dict):
        yield value
        yield from map(_value, lines)
        return
    pending, size = [first], len(first)
    for line in lines:
        pending.append(line)
        size += len(line)
        if size > LARGEST_DOCUMENT:
            break
    else:
        document = _value(b"\n".join(pending))
        if document is not None:
            yield document
            return
    yield from map(_value, chain(pending, lines))


def _value(text: bytes) -> Any:
    """Parse JSON, None if it is not."""
    try:
        return wire.loads(text)
    except ValueError:
        return None


def _listed(value: Any) -> list[Any] | None:
    """Return the messages of a document, which is a list or has a list `messages`."""
    messages = value.get("messages") if isinstance(value, dict) else value
    return messages if isinstance(messages, list) else None


def _digest_entry(before: Digest, entry: dict[str, Any]) -> Digest:
    role, text, model = (
        _role(entry),
        _text(entry),
        base.string(entry, "model") or base.string(base.message_of(entry), "model"),
    )
    after = replace(before, messages=before.messages + 1, model=model or before.model)
    if text and role in USERS:
        after = replace(after, last_prompt=base.shown(text))
    return (
        replace(after, last_message=LastMessage(role, base.shown(text), _id(entry)))
        if text
        else after
    )


def _role(entry: dict[str, Any]) -> str:
    return (
        base.string(entry, "role")
        or base.string(base.message_of(entry), "role")
        or base.string(entry, "type")
        or "message"
    )


def _text(entry: dict[str, Any]) -> str:
    contents = [
        holder.get(key)
        for holder in (entry, base.message_of(entry))
        for key in ("content", "text", "parts")
    ]
    texts = (base.text_of(content) for content in (*contents, base.string(entry, "message")))
    return next((text for text in texts if text.strip()), "")


def _id(entry: dict[str, Any]) -> str | None:
    return next(
        (
            value
            for holder in (entry, base.message_of(entry))
            for key in IDS
            if (value := base.string(holder, key))
        ),
        None,
    )


# ---------------------------------------------------------------- placing


# the protocol's
def place(stored: Stored, cwd: Path, host: Host, *, new_id: str) -> Placement:  # noqa: ARG001
    """Put the conversation where people can read it (`set_aside`)."""
    reader = (
        "no agent"
        if stored.agent.name == NAME
        else f"no adapter for {stored.agent.name} is installed, so no agent"
    )
    return set_aside(stored, f"{reader} can resume this conversation; it")


def set_aside(stored: Stored, why: str) -> Placement:
    """Plan to write a conversation below gitcp's own directory for restored conversations, which no
    agent reads. The note says `why`, and where it is.

    The directory is named after the content: restoring twice makes one copy.
    """
    main = next((stream for stream, _ in stored.streams if stream.name == MAIN), None)
    if main is None or SHA256.fullmatch(main.sha256) is None:
        raise StoreDamaged(
            f"the stored conversation has no main stream; {base.NOTHING}", hint=base.CHECK
        )
    assert stored.aside is not None
    directory = stored.aside / main.sha256[:16]
    streams = sorted(stored.streams, key=lambda item: item[0] is not main)
    files = base.plan_writes(
        [(directory.joinpath(*_target(stream)), read) for stream, read in streams]
    )
    if files is None:
        raise Refused(
            f"{directory} has other files; {base.NOTHING}", hint=base.move_away(directory)
        )
    return Placement(None, files, (), f"{why} was written to {files[0].path}")


def _target(stream: Stream) -> tuple[str, ...]:
    """Return where a stream goes: the file's original name if it is a plain one, else the stream's
    name.
    """
    name, relative = stream.name, base.place_parts(stream.place)
    if name == MAIN and relative is not None and len(relative) == 1 and "{" not in relative[0]:
        return relative
    parts = tuple(name.split("/"))
    if len(parts) > 2 or not all(base.STREAM_PART.fullmatch(part) for part in parts):
        raise StoreDamaged(f"invalid stream name {name[:80]!r}; {base.NOTHING}", hint=base.CHECK)
    return parts
