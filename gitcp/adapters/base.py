"""What an adapter is, and the values it speaks in. One adapter knows one agent: where its
conversations lie, how they are read, and where they go so that the agent's own resume continues.

An adapter is a module whose functions satisfy `Adapter`. It decides and never does: nothing here or
in an adapter writes a file. Environment, home and working directory are arguments. Formats drift,
so whatever a line holds that is not understood is passed over, never refused: the bytes are kept by
`gitcp.conversation` whatever they say.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, BinaryIO, Literal, NamedTuple, Protocol

from gitcp import wire
from gitcp.errors import StoreDamaged
from gitcp.model import Agent, Capture, Digest, Host, Stream
from gitcp.value import Value, replace

SHOWN = 200
"""Characters of a message that a digest keeps."""

SESSION_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")
STREAM_PART = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,99}")
PLACE_PART = re.compile(r"[^\x00-\x1f\x7f/\\\ud800-\udfff]{1,200}")

IMAGE = "[image]"
IMAGES = {
    "png": "image/png",
    "jpg": "image/jpeg",
    "jpeg": "image/jpeg",
    "gif": "image/gif",
    "webp": "image/webp",
}
"""Types of images, by how their names end."""

LONGEST_LINE = 16 << 20

NOTHING = "nothing was written"
CHECK = "gitcp check"

How = Literal["create", "append", "same"]
Reader = Callable[[], Iterator[bytes]]
"""Gives a stream's bytes in chunks, from its beginning, each time it is called."""


# ---------------------------------------------------------------- values


class Found(Value):
    """A session of an agent: its id, its main file, and when that was last written (seconds since
    1970).
    """

    agent: str
    session_id: str
    path: Path
    modified: float


class Running(NamedTuple):
    """The agent that is running us, and its session."""

    agent: str
    session_id: str


class Image(Value):
    """An image in a message. The agent keeps its bytes (`data`, as base64 text) or says where it is
    (`place`, a path or a URL). `media` is its type, like "image/png", or "image" where that is not
    known.
    """

    media: str
    data: str | None = None
    place: str | None = None

    def size(self) -> int | None:
        """How many bytes it has, None where the agent does not keep them."""
        return None if self.data is None else len(self.data.rstrip("=")) * 3 // 4


class Message(Value):
    """One part of a turn, as it is shown.

    `role` is "user", "assistant", "thinking", "tool" (what a tool gave back), "summary" (of a
    compacted conversation) or "system" (said by the agent's program itself). `tool` names the tool
    where the part is its call (role "assistant", `text` is its input) or its result. `time` is as
    the agent wrote it. `call` is the agent's id of that call, in both; `failed` says that it
    failed, by the agent's own word. A message that is nothing but `images` has the text IMAGE.
    """

    role: str
    text: str
    id: str | None = None
    time: str | None = None
    tool: str | None = None
    call: str | None = None
    failed: bool = False
    images: tuple[Image, ...] = ()

    def is_shown(self) -> bool:
        """Whether it says anything. A result does without a text too: that the call has ended."""
        return bool(self.text) or (self.role == "tool" and self.call is not None)


class Stored(Value):
    """A stored conversation: whose it is, its streams, and how each is read. `aside` is a directory
    of gitcp's own, for what an agent does not find by itself.
    """

    agent: Agent
    streams: tuple[tuple[Stream, Reader], ...]
    aside: Path | None = None


class Write(Value):
    """A file that a conversation needs, whole in `content`.

    "create": it is not there, and is made with mode 0600 (directories 0700). "append": its `skip`
    bytes are the beginning of the content, and the rest is added. "same": it is there already.
    """

    path: Path
    content: Reader
    how: How
    skip: int = 0


class Latest(NamedTuple):
    """The session that an agent's own `command` for "the latest one" continues."""

    session_id: str
    command: tuple[str, ...]


class Placement(Value):
    """Where a conversation goes, and how it is continued.

    `session_id` is the agent's (None: no agent resumes it), `files` begin with the main one, `note`
    is for people ("" where there is nothing to say). `prepare` are commands to be run before
    `command`, in the same directory. Nobody but the person runs any of them. `latest` is what the
    agent takes for its latest session in that directory where that is another one than this.
    """

    session_id: str | None
    files: tuple[Write, ...]
    command: tuple[str, ...]
    note: str = ""
    prepare: tuple[tuple[str, ...], ...] = ()
    latest: Latest | None = None


class Adapter(Protocol):
    """One agent. `NAME` is its name, and the format of the conversations it captures."""

    NAME: str

    def find(self, cwd: Path, host: Host) -> tuple[Found, ...]:
        """The agent's sessions for this directory, newest first. Raises nothing: what cannot be
        read is not found.
        """

    def watched(self, cwd: Path, host: Host) -> tuple[Path, ...]:
        """Paths, there or not, whose stat changes whenever `find` or `capture` could say something
        else.
        """

    def running(self, host: Host) -> str | None:
        """The session id of the agent that is running us, by the environment."""

    def capture(self, found: Found) -> Capture:
        """The streams of a session, and the directory that it is resumed in. A file is read when it
        is stored.
        """

    def digest(self, before: Digest, lines: Iterable[bytes]) -> Digest:
        """What listings show after these lines of the main stream, given what they showed before
        them.
        """

    def messages(self, lines: Iterable[bytes]) -> Iterator[Message]:
        """The parts of a stream that are shown, in its order."""

    def before(self, lines: Iterable[bytes], message_id: str) -> int | None:
        """The offset at which the user message with this id begins, None if the stream does not
        have it.
        """

    def place(self, stored: Stored, cwd: Path, host: Host, *, new_id: str) -> Placement:
        """Where the files go so that the agent, run in `cwd`, continues. Reads what is there,
        writes nothing.

        An existing file is kept: it is the same, or it is a beginning and is completed; if any says
        something else, everything goes under `new_id`. Raises StoreDamaged for a stored name that
        would lead elsewhere, Refused if `new_id` is taken too.
        """


# ---------------------------------------------------------------- lines


def lines(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """The lines of a stream with their ends; joined they are the stream."""
    rest: list[bytes] = []
    for chunk in chunks:
        *whole, last = chunk.split(b"\n")
        for line in whole:
            yield b"".join((*rest, line, b"\n"))
            rest.clear()
        if last:
            rest.append(last)
    if rest:
        yield b"".join(rest)


def offsets(lines: Iterable[bytes]) -> Iterator[tuple[int, bytes]]:
    """Each line, with or without its end, and the offset at which it begins."""
    offset = 0
    for line in lines:
        yield offset, line
        offset += len(line) + (not line.endswith(b"\n"))


def string(fields: dict[str, Any], name: str) -> str | None:
    """A field that is a string, None for any other."""
    value = fields.get(name)
    return value if isinstance(value, str) else None


def message_of(fields: dict[str, Any]) -> dict[str, Any]:
    """The object in a line's field `message`, empty where there is none."""
    message = fields.get("message")
    return message if isinstance(message, dict) else {}


def text_of(content: Any) -> str:
    """The text in a message's content: a string, or a list of strings and parts that have a
    text.
    """
    parts = content if isinstance(content, list) else [content]
    texts = [part.get("text") if isinstance(part, dict) else part for part in parts]
    return "\n".join(text for text in texts if isinstance(text, str) and text)


def with_images(message: Message, images: Iterable[Image]) -> Message:
    """The message with these images."""
    held = tuple(images)
    return replace(message, text=message.text or IMAGE, images=held) if held else message


def image_at(url: str, media: str | None = None) -> Image:
    """The image that a URL or a path is of; one in the URL itself (`data:`) with its bytes."""
    head, _, data = url.partition(",")
    if head.startswith("data:") and head.endswith(";base64"):
        return Image(media or head[5:].partition(";")[0], data)
    ending = url.partition("?")[0].rpartition(".")[2].lower()
    return Image(media or IMAGES.get(ending, "image"), place=url)


def objects(value: Any) -> list[dict[str, Any]]:
    """The objects in a list, none of what is no list."""
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def shown(text: str) -> str:
    """As much of a message as a digest keeps."""
    return text.strip()[:SHOWN]


def first_line(path: Path) -> dict[str, Any]:
    """The object on the first line of a file, empty where there is none or it is too long to be
    one.
    """
    try:
        with open(path, "rb") as file:
            return wire.parse_line(file.readline(LONGEST_LINE)) or {}
    except (OSError, ValueError):
        return {}


def renamed(content: Reader, old: str, new: str) -> Reader:
    """The content with another session id for `old` in its first line, where some agents look for
    it; no other byte differs. With "" for `old`, it stays as it is.
    """

    def chunks() -> Iterator[bytes]:
        rest = lines(content())
        yield next(rest, b"").replace(old.encode(), new.encode())
        yield from rest

    return chunks if old and old != new else content


# ---------------------------------------------------------------- places


def roots(cwd: Path) -> set[str]:
    """A directory and the root of its repository, by their real paths."""
    place = Path(os.path.realpath(cwd))
    root = next((d for d in (place, *place.parents) if os.path.lexists(d / ".git")), place)
    return {str(place), str(root)}


def found(agent: str, session_id: str, path: Path) -> Found | None:
    """A session whose main file is this one; None if it is no regular file."""
    try:
        status = path.lstat()
    except OSError:
        return None
    return Found(agent, session_id, path, status.st_mtime) if stat.S_ISREG(status.st_mode) else None


def modified(path: Path) -> float:
    """When a file was last written, in seconds since 1970; 0 if it is not there."""
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0


def newer(
    sessions: Iterable[Found], session_id: str, since: float, command: tuple[str, ...]
) -> Latest | None:
    """The newest of these sessions, if it is another one than `session_id`, written after
    `since`.
    """
    later = [
        session
        for session in sessions
        if session.session_id != session_id and session.modified > since
    ]
    newest = max(later, key=lambda session: session.modified, default=None)
    return Latest(newest.session_id, command) if newest else None


def check_session_id(session_id: str) -> str:
    """A session id that may become part of a path. Raises StoreDamaged for any other."""
    if SESSION_ID.fullmatch(session_id) is None:
        raise StoreDamaged(f"{session_id[:80]!r} cannot be a session id: {NOTHING}", hint=CHECK)
    return session_id


def place_parts(place: str) -> tuple[str, ...] | None:
    """The components of a relative path that stays below where it starts; None for any other."""
    parts = tuple(place.split("/"))
    sound = all(PLACE_PART.fullmatch(part) and part not in {".", ".."} for part in parts)
    return parts if sound and len(parts) <= 8 else None


def check_distinct(paths: Sequence[Path]) -> None:
    """Raises StoreDamaged if two streams would be one file."""
    if len(set(paths)) < len(paths):
        raise StoreDamaged(f"two streams of the conversation have one place: {NOTHING}", hint=CHECK)


def plan_writes(files: Sequence[tuple[Path, Reader]]) -> tuple[Write, ...] | None:
    """How each file is to be written, None if one of them is there and says something else.

    Raises StoreDamaged if two streams would be one file.
    """
    check_distinct([path for path, _ in files])
    writes = []
    for path, content in files:
        met = _meet(path, content)
        if met is None:
            return None
        writes.append(Write(path, content, *met))
    return tuple(writes)


def _meet(path: Path, content: Reader) -> tuple[How, int] | None:
    """What is to be done to a file so that it holds `content`, and how much of it is there; None if
    it cannot.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        # Where nothing can be, making it will say why; what is there and cannot be read says
        # something else.
        return None if os.path.lexists(path) else ("create", 0)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        return None
    with open(descriptor, "rb") as file:
        return _compare(file, content())


def _compare(file: BinaryIO, content: Iterator[bytes]) -> tuple[How, int] | None:
    there = 0
    for chunk in content:
        have = file.read(len(chunk))
        there += len(have)
        if not chunk.startswith(have):
            return None
        if len(have) < len(chunk):
            return "append", there
    return None if file.read(1) else ("same", there)
