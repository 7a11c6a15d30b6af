"""Which messages each checkpoint added to the conversation, and where it went back. Reads only.

A conversation that only grew is read once, whatever the number of its checkpoints: an earlier one
is a beginning of it, by length and checksum. Where it went back (a restore) or was written anew,
the messages themselves are compared.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from hashlib import sha256

from gitcp import adapters
from gitcp.adapters.base import Message
from gitcp.conversation import segments
from gitcp.history import show
from gitcp.model import Conversation, Stream
from gitcp.saving.conversation import MAIN, stored
from gitcp.store import Store
from gitcp.value import Value

Heard = tuple[list[Message], int]
"""Messages, and how many of them a checkpoint has."""


class Aside(Value):
    """A stream beside the main one (a sub-agent's), with its messages."""

    name: str
    messages: tuple[Message, ...]


class Turn(Value):
    """What one checkpoint added: messages and streams. `back` counts the messages before it that it
    does not have.
    """

    messages: tuple[Message, ...] = ()
    back: int = 0
    asides: tuple[Aside, ...] = ()


def turns(store: Store, conversations: Sequence[Conversation | None]) -> list[Turn]:
    """What each of these added to the one before it; they are those of a chain of checkpoints,
    oldest first.
    """
    heard, asides = _heard(store, conversations), _asides(store, conversations)
    found: list[Turn] = []
    before: Heard = ([], 0)
    for place, now in enumerate(heard):
        same = _common(before, now)
        found.append(
            Turn(tuple(now[0][same : now[1]]), before[1] - same, tuple(asides.get(place, ())))
        )
        before = now
    return found


def _common(before: Heard, now: Heard) -> int:
    """How many messages both begin with."""
    most = min(before[1], now[1])
    if before[0] is now[0]:
        return most
    pairs = zip(before[0][:most], now[0][:most], strict=True)
    return next((place for place, (a, b) in enumerate(pairs) if _said(a) != _said(b)), most)


def _said(message: Message) -> tuple[str, str]:
    return message.role, message.text


def _heard(store: Store, conversations: Sequence[Conversation | None]) -> list[Heard]:
    found: dict[int, Heard] = {}
    nothing: Heard = ([], 0)
    for place in reversed(range(len(conversations))):
        whole = conversations[place]
        if place not in found and whole is not None:
            earlier = {
                n: c
                for n, c in enumerate(conversations[: place + 1])
                if c is not None and n not in found
            }
            found |= _read(
                store, whole, {n: c for n, c in earlier.items() if c.format == whole.format}
            )
    return [found.get(place, nothing) for place in range(len(conversations))]


def _read(store: Store, whole: Conversation, earlier: dict[int, Conversation]) -> dict[int, Heard]:
    """The messages of `whole`, for each of `earlier` that is a beginning of it (as it is
    itself).
    """
    data = b"".join(segments.content(store.objects, stored(store, whole, MAIN)))
    lines = _Lines(data)
    messages, ends = [], []
    for message in adapters.for_format(whole.format).messages(lines):
        messages.append(message)
        ends.append(lines.end)
    mains = {
        place: main for place, conversation in earlier.items() if (main := _main(conversation))
    }
    sums = _sums(data, {main.bytes for main in mains.values()})
    begun = {
        place: main.bytes for place, main in mains.items() if sums.get(main.bytes) == main.sha256
    }
    # A last line may lack its end there, and have it here.
    return {place: (messages, bisect_right(ends, size + 1)) for place, size in begun.items()}


class _Lines:
    """The lines of a stream without their ends; `end` is the offset after the one that was taken
    last.
    """

    def __init__(self, data: bytes) -> None:
        self._data = data
        self.end = 0

    def __iter__(self) -> Iterator[bytes]:
        for line in self._data.split(b"\n"):
            self.end += len(line) + 1
            yield line


def _sums(data: bytes, sizes: set[int]) -> dict[int, str]:
    """The checksum of the first so many bytes, for each size."""
    found, digest, place = {}, sha256(), 0
    view = memoryview(data)
    for size in sorted(size for size in sizes if size <= len(data)):
        digest.update(view[place:size])
        place = size
        found[size] = digest.hexdigest()
    return found


def _main(conversation: Conversation) -> Stream | None:
    return next((stream for stream in conversation.streams if stream.name == MAIN), None)


def _asides(store: Store, conversations: Sequence[Conversation | None]) -> dict[int, list[Aside]]:
    """Every stream beside the main one, as it was last, by the checkpoint that had it first."""
    first: dict[str, int] = {}
    last: dict[str, Conversation] = {}
    for place, conversation in enumerate(conversations):
        for stream in conversation.streams if conversation else ():
            if conversation and stream.name != MAIN:
                first.setdefault(stream.name, place)
                last[stream.name] = conversation
    found: dict[int, list[Aside]] = {}
    for name, place in first.items():
        messages = tuple(show.messages(store, last[name], name))
        if messages:
            found.setdefault(place, []).append(Aside(name, messages))
    return found
