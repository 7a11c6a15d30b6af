"""Any conversation of any agent: a file or bytes given by hand, kept byte for byte, understood as
far as it goes.

The formats are "jsonl" (a JSON value on each line), "json" (one document) and "text". It stands in,
too, for an agent whose adapter is not here. Nothing resumes such a conversation, so a restore only
puts it where people find it.
"""

from __future__ import annotations

import re
import stat
from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path
from typing import Any

from gitcp import wire
from gitcp.adapters import base
from gitcp.adapters.base import Found, Message, Placement, Stored
from gitcp.errors import ConversationUnreadable, Refused, StoreDamaged
from gitcp.model import Capture, Digest, Host, LastMessage, Source, Stream
from gitcp.value import replace

NAME = "generic"
DOCUMENT = "json"

MAIN = "main"
HEAD = 64 << 10
LARGEST_DOCUMENT = 16 << 20
USERS = ("user", "human")
IDS = ("uuid", "id", "message_id")
SHA256 = re.compile(r"[0-9a-f]{64}")


def find(cwd: Path, host: Host) -> tuple[Found, ...]:  # noqa: ARG001 -- the protocol's
    """Nothing: no place is known to look at."""
    return ()


def watched(cwd: Path, host: Host) -> tuple[Path, ...]:  # noqa: ARG001 -- the protocol's
    """None: nothing is found by itself."""
    return ()


def running(host: Host) -> str | None:  # noqa: ARG001 -- the protocol's
    """Never: it is not an agent."""
    return None


# ---------------------------------------------------------------- capturing


def capture(found: Found) -> Capture:
    """The file as one stream."""
    return from_file(found.path)


def from_file(path: Path) -> Capture:
    """A file given by hand, to its last byte; what comes out of a pipe is read here and now.

    Raises ConversationUnreadable if it is not there, is a directory or cannot be read.
    """
    try:
        mode = path.stat().st_mode
        if stat.S_ISFIFO(mode):
            return from_bytes(path.read_bytes())
        if not stat.S_ISREG(mode):
            raise ConversationUnreadable(
                f"{path} is no ordinary file: nothing was saved", hint="give a file, or - and pipe"
            )
        with path.open("rb") as file:
            head = file.read(HEAD)
            if b"\n" not in head and len(head) == HEAD:
                head += file.readline(LARGEST_DOCUMENT)
            whole = not file.read(1)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise ConversationUnreadable(
            f"{path} cannot be read ({reason}): nothing was saved"
        ) from None
    place = path.name if base.place_parts(path.name) else ""
    return Capture(None, _format(head, whole=whole), (Source(MAIN, path=path, place=place),))


def from_bytes(data: bytes) -> Capture:
    """A conversation given as bytes."""
    return Capture(None, _format(data[:HEAD], whole=len(data) <= HEAD), (Source(MAIN, data=data),))


def _format(head: bytes, *, whole: bool) -> str:
    """What the beginning looks like; `whole` says that nothing follows it."""
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
    """Counts what looks like a message: an object with a role, a type or a message."""
    for entry in _entries(lines):
        before = _digest_entry(before, entry)
    return before


def messages(lines: Iterable[bytes]) -> Iterator[Message]:
    """Every message that has a text."""
    for entry in _entries(lines):
        text = _text(entry)
        if text:
            yield Message(_role(entry), text, _id(entry), base.string(entry, "timestamp"), None)


def before(lines: Iterable[bytes], message_id: str) -> int | None:
    """The offset of the line that is the user message with this id. A document cannot be cut."""
    for offset, line in base.offsets(lines):
        entry = wire.parse_line(line) or {}
        if _id(entry) == message_id and _role(entry) in USERS:
            return offset
    return None


def _entries(lines: Iterable[bytes]) -> Iterator[dict[str, Any]]:
    """The messages on the lines, or in the one document that the lines make up together."""
    for value in _values(iter(lines)):
        listed = _listed(value)
        for entry in [value] if listed is None else listed:
            if isinstance(entry, dict) and not entry.keys().isdisjoint(("role", "type", "message")):
                yield entry


def _values(lines: Iterator[bytes]) -> Iterator[Any]:
    """The value of each line; or one, where they make a document, which must be small enough to be
    read at once.
    """
    first = next((line for line in lines if line.strip()), b"")
    value = _value(first)
    if isinstance(value, dict):
        yield value
        yield from map(_value, lines)
        return
    held, size = [first], len(first)
    for line in lines:
        held.append(line)
        size += len(line)
        if size > LARGEST_DOCUMENT:
            break
    else:
        document = _value(b"\n".join(held))
        if document is not None:
            yield document
            return
    yield from map(_value, chain(held, lines))


def _value(text: bytes) -> Any:
    """The JSON value that a text is, None for any other."""
    try:
        return wire.loads(text)
    except ValueError:
        return None


def _listed(value: Any) -> list[Any] | None:
    """The messages of a document: it is a list, or has one called so."""
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
    said = [
        holder.get(key)
        for holder in (entry, base.message_of(entry))
        for key in ("content", "text", "parts")
    ]
    texts = (base.text_of(content) for content in (*said, base.string(entry, "message")))
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
    """Into a directory of its own where restored conversations are kept: no agent reads it.

    The directory is named by the content, so that the same conversation is there once however often
    it is restored.
    """
    main = next((stream for stream, _ in stored.streams if stream.name == MAIN), None)
    if main is None or SHA256.fullmatch(main.sha256) is None:
        raise StoreDamaged(
            f"the stored conversation does not say what it is: {base.NOTHING}", hint=base.CHECK
        )
    assert stored.aside is not None
    directory = stored.aside / main.sha256[:16]
    streams = sorted(stored.streams, key=lambda item: item[0] is not main)
    files = base.plan_writes(
        [(directory.joinpath(*_target(stream)), read) for stream, read in streams]
    )
    if files is None:
        raise Refused(
            f"{directory} holds other files: they were left as they are",
            hint=f"move {directory} away",
        )
    who = (
        "no agent"
        if stored.agent.name == NAME
        else f"no adapter for {stored.agent.name} is here, and no agent"
    )
    return Placement(
        None, files, (), f"{who} continues this conversation by itself: it is in {files[0].path}"
    )


def _target(stream: Stream) -> tuple[str, ...]:
    """Where a stream goes: under the name that its file had where that is a plain one, else under
    its own.
    """
    name, place = stream.name, base.place_parts(stream.place)
    if name == MAIN and place is not None and len(place) == 1 and "{" not in place[0]:
        return place
    parts = tuple(name.split("/"))
    if len(parts) > 2 or not all(base.STREAM_PART.fullmatch(part) for part in parts):
        raise StoreDamaged(
            f"{name[:80]!r} cannot be the name of a stream: {base.NOTHING}", hint=base.CHECK
        )
    return parts
