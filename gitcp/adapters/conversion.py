"""What the readers and writers of dialogues share: their protocol, and times, ids, files, JSON.

Writing is deterministic: the same dialogue and target always give the same bytes, and a dialogue
that only grew gives bytes that only grew. So converting a conversation again appends to the
transcript, unless its agent has continued it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple, Protocol
from uuid import UUID, uuid5

from gitcp import wire
from gitcp.adapters import base
from gitcp.adapters.base import Stored
from gitcp.dialogue import (
    Aside,
    Block,
    Call,
    Content,
    Dialogue,
    File,
    Item,
    Result,
    Text,
    Thinking,
    unique_id,
)
from gitcp.model import Capture, Stream
from gitcp.value import Value, replace

SPACE = UUID("6f1dbd4e-5a4c-4a57-9f0e-1d6f0a1c7e11")
"""The namespace of the ids that are made here."""

UNFITTING = "files that the agent cannot take (named in the text)"
FAILURES = "error marks of results"
THINKING = "thinking"
ASIDES = "sub-agents' conversations"
IMAGES = ("image/png", "image/jpeg", "image/gif", "image/webp")


class Target(Value):
    """Where a dialogue goes: the id of the new session, its directory, and the time of the first
    conversion, which stands in where the dialogue has no times. `model` is the one to continue
    with, for an agent that takes it from the transcript.
    """

    session_id: str
    cwd: str
    began: datetime
    model: str | None = None


class WrittenTranscript(NamedTuple):
    """A transcript as the adapter would capture it, and what is not in it, by description."""

    capture: Capture
    omitted: dict[str, int]


class DialogueReader(Protocol):
    """The reader of an agent's transcripts."""

    def read(self, stored: Stored) -> Dialogue:
        """Return a stored conversation as a dialogue. Lines that are not understood are skipped."""


class Converter(DialogueReader, Protocol):
    """The reader and the writer of an agent's transcripts."""

    def write(self, dialogue: Dialogue, target: Target) -> WrittenTranscript:
        """Return the transcript of a dialogue. Writes no file."""


def stored(capture: Capture) -> Stored:
    """Return a written capture as if it had been stored."""
    from hashlib import sha256

    assert capture.agent is not None
    streams = []
    for source in capture.sources:
        data = source.data or b""
        stream = Stream(source.name, len(data), sha256(data).hexdigest(), source.place)
        streams.append((stream, lambda data=data: iter([data])))
    return Stored(capture.agent, tuple(streams))


# ---------------------------------------------------------------- reading


def stream_lines(stored: Stored, name: str) -> Iterator[bytes]:
    """Yield the lines of a stream, nothing if there is none."""
    for stream, read in stored.streams:
        if stream.name == name:
            yield from base.lines(read())


def records(stored: Stored, name: str) -> Iterator[dict[str, Any]]:
    """Yield the objects on the lines of a stream."""
    for line in stream_lines(stored, name):
        fields = wire.parse_line(line)
        if fields is not None:
            yield fields


def branch(
    records: list[dict[str, Any]], id: str, parent: str
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Return the records on the branch of the last one, and the others, both in file order.

    `id` and `parent` are the fields that link them. A record whose parent is missing, or that names
    none, follows the one before it; a parent that is null is the root.
    """
    nodes = [record for record in records if base.string(record, id)]
    places = {record[id]: n for n, record in enumerate(nodes)}
    chain: set[int] = set()
    at = len(nodes) - 1
    while at >= 0 and at not in chain:
        chain.add(at)
        above = nodes[at].get(parent, "")
        named = places.get(above, at - 1) if isinstance(above, str) else at - 1
        at = -1 if above is None else named
    on, off = ([r for n, r in enumerate(nodes) if (n in chain) is kept] for kept in (True, False))
    return on, off


def streams_below(stored: Stored, prefix: str) -> list[str]:
    """Return the names of the streams that start with `prefix`, sorted."""
    return sorted(stream.name for stream, _ in stored.streams if stream.name.startswith(prefix))


def arguments(value: Any) -> str:
    """Return a call's arguments as the text of a JSON object; anything else is its `input`."""
    if isinstance(value, str):
        parsed = wire.parse_line(value.encode("utf-8", "surrogatepass"))
        value = {"input": value} if parsed is None else parsed
    elif value is None:
        value = {}
    elif not isinstance(value, dict):
        value = {"input": value}
    return wire.dumps(value).decode()


def argument_object(call: Call) -> dict[str, Any]:
    """Return a call's arguments."""
    value: dict[str, Any] = wire.loads(call.arguments.encode())
    return value


def free_text(call: Call) -> str | None:
    """Return the argument of a tool that takes free text; None for any other."""
    value = argument_object(call)
    text = value.get("input")
    return text if isinstance(text, str) and len(value) == 1 else None


def file_at(url: str, media: str | None = None, name: str | None = None) -> File:
    """Return the file at a URL or path; a `data:` URL includes its bytes."""
    image = base.image_at(url, media)
    return File(image.media, image.data, name, image.place)


def texts(value: Any) -> tuple[Content, ...]:
    """Return the text of a string, or of strings and parts with a `text`, as content."""
    text = base.text_of(value)
    return (Text(text),) if text else ()


# ---------------------------------------------------------------- writing


def data_url(file: File) -> str | None:
    """Return a file as a `data:` URL, None if its bytes are not known."""
    return None if file.data is None else f"data:{file.media};base64,{file.data}"


def is_image(file: File) -> bool:
    """Return whether a file is an image with its bytes, of a type that every provider takes."""
    return file.data is not None and file.media in IMAGES


def stream_part(id: str) -> str:
    """Return an id as part of a stream's name and of a file's."""
    return id if base.STREAM_PART.fullmatch(id) else unique_id(id, set())


def asides_by_call(dialogue: Dialogue) -> dict[str, Aside]:
    """Return the sub-agents that a call started, by its id."""
    return {aside.call: aside for aside in dialogue.asides if aside.call is not None}


def fitted(
    dialogue: Dialogue,
    takes: Callable[[File], bool],
    *,
    thinking: bool = True,
    failures: bool = True,
    in_results: bool = True,
) -> tuple[Dialogue, dict[str, int]]:
    """Return a dialogue with only what an agent has a place for, and what that leaves out.

    A file that the agent does not take (`takes`; `in_results`), becomes a text that names it.
    """
    fit = _Fit(takes, thinking, failures, in_results, Counter())
    asides = (replace(aside, items=fit.items(aside.items)) for aside in dialogue.asides)
    whole = replace(dialogue, items=fit.items(dialogue.items), asides=tuple(asides))
    return whole, {what: count for what, count in fit.omitted.items() if count}


class _Fit(NamedTuple):
    takes: Callable[[File], bool]
    thinking: bool
    failures: bool
    in_results: bool
    omitted: Counter[str]

    def items(self, items: tuple[Item, ...]) -> tuple[Item, ...]:
        """Return the items that have something left."""
        fitting = (replace(item, blocks=tuple(self._blocks(item.blocks))) for item in items)
        return tuple(item for item in fitting if item.blocks)

    def _blocks(self, blocks: tuple[Block, ...]) -> Iterator[Block]:
        for block in blocks:
            if isinstance(block, Thinking) and not self.thinking:
                self.omitted[THINKING] += 1
            elif isinstance(block, Call):
                yield replace(block, result=self._result(block.result))
            elif isinstance(block, File):
                yield self._content(block)
            else:
                yield block

    def _result(self, result: Result) -> Result:
        is_lost = result.failed and not self.failures
        self.omitted[FAILURES] += is_lost
        # Claude Code drops the images of a failed call, and opencode has no place for them.
        allowed = self.in_results and not result.failed
        content = tuple(self._content(part, allowed=allowed) for part in result.content)
        return Result(content, result.failed and not is_lost)

    def _content(self, part: Content, *, allowed: bool = True) -> Content:
        if not isinstance(part, File) or (allowed and self.takes(part)):
            return part
        self.omitted[UNFITTING] += 1
        return Text(part.described())


def runs(item: Item) -> Iterator[list[Block]]:
    """Yield the blocks of an agent's message in runs of thinking, then text, then calls, for
    formats that have one message for each.
    """
    run: list[Block] = []
    for block in item.blocks:
        if run and _rank(block) < _rank(run[-1]):
            yield run
            run = []
        run.append(block)
    if run:
        yield run


def _rank(block: Block) -> int:
    return 0 if isinstance(block, Thinking) else 2 if isinstance(block, Call) else 1


class Clock:
    """Times for the lines of a transcript: those of the items, never going back."""

    def __init__(self, began: datetime) -> None:
        self._last: datetime | None = None
        self._began = began.astimezone(UTC)

    def at(self, item: Item) -> datetime:
        """Return the time of an item."""
        time = parse_time(item.time) or self._last or self._began
        self._last = time if self._last is None else max(time, self._last)
        return self._last

    def tick(self) -> datetime:
        """Return the next time, a millisecond later."""
        self._last = (self._last or self._began) + timedelta(milliseconds=1)
        return self._last


def parse_time(text: str | None) -> datetime | None:
    """Return a time in ISO format; None for anything else, and without a time zone."""
    try:
        time = datetime.fromisoformat(text) if text else None
    except ValueError:
        return None
    return time.astimezone(UTC) if time is not None and time.tzinfo is not None else None


def iso(time: datetime) -> str:
    """Return a time as agents write it: with milliseconds, in UTC."""
    return time.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.") + f"{time.microsecond // 1000:03}Z"


def from_milliseconds(value: Any) -> str | None:
    """Return a number of milliseconds since 1970 as a time in ISO format, None if it is none."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        return iso(datetime.fromtimestamp(value / 1000, UTC))
    except (OverflowError, OSError, ValueError):
        return None


class Ids:
    """Ids for the lines of a session: always the same for the same session and order."""

    def __init__(self, *seed: str) -> None:
        self._space = uuid5(SPACE, "\0".join(seed))
        self._count = 0

    def next(self) -> str:
        """Return the next id, a UUID."""
        self._count += 1
        return str(uuid5(self._space, str(self._count)))


def line(fields: dict[str, Any]) -> bytes:
    """Return an object as a line."""
    return wire.dumps(fields).rstrip() + b"\n"
