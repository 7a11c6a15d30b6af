"""Find the messages that each checkpoint added to the conversation, and where it was rewound.

A conversation that only grew is read once, whatever the number of checkpoints: an earlier one is a
prefix, by length and checksum. If it was rewound (a restore) or rewritten, the messages themselves
are compared.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from hashlib import sha256

from gitcp import adapters
from gitcp.adapters.base import Message
from gitcp.conversation import segments
from gitcp.history import show
from gitcp.model import MAIN, Conversation, Stream
from gitcp.saving.conversation import stored
from gitcp.store import Store
from gitcp.value import Value

MessagePrefix = tuple[list[Message], int]
"""Messages, and the number of them that a checkpoint has."""


class SideStream(Value):
    """A stream beside the main one (a sub-agent's), with its messages."""

    name: str
    messages: tuple[Message, ...]


class Turn(Value):
    """What one checkpoint added: messages and side streams. `back` counts the earlier messages that
    it no longer has.
    """

    messages: tuple[Message, ...] = ()
    back: int = 0
    asides: tuple[SideStream, ...] = ()


def turns(store: Store, conversations: Sequence[Conversation | None]) -> list[Turn]:
    """Return what each conversation added to the previous one, for a chain of checkpoints, oldest
    first.
    """
    prefixes, asides = _message_prefixes(store, conversations), _side_streams(store, conversations)
    added: list[Turn] = []
    before: MessagePrefix = ([], 0)
    for index, current in enumerate(prefixes):
        common = _common(before, current)
        added.append(
            Turn(
                tuple(current[0][common : current[1]]),
                before[1] - common,
                tuple(asides.get(index, ())),
            )
        )
        before = current
    return added


def _common(before: MessagePrefix, current: MessagePrefix) -> int:
    """Return the number of messages that both begin with."""
    limit = min(before[1], current[1])
    if before[0] is current[0]:
        return limit
    pairs = zip(before[0][:limit], current[0][:limit], strict=True)
    return next((index for index, (a, b) in enumerate(pairs) if _key(a) != _key(b)), limit)


def _key(message: Message) -> tuple[str, str]:
    return message.role, message.text


def _message_prefixes(
    store: Store, conversations: Sequence[Conversation | None]
) -> list[MessagePrefix]:
    prefixes: dict[int, MessagePrefix] = {}
    nothing: MessagePrefix = ([], 0)
    for index in reversed(range(len(conversations))):
        longest = conversations[index]
        if index not in prefixes and longest is not None:
            earlier = {
                n: c
                for n, c in enumerate(conversations[: index + 1])
                if c is not None and n not in prefixes
            }
            prefixes |= _read(
                store, longest, {n: c for n, c in earlier.items() if c.format == longest.format}
            )
    return [prefixes.get(index, nothing) for index in range(len(conversations))]


def _read(
    store: Store, whole: Conversation, earlier: dict[int, Conversation]
) -> dict[int, MessagePrefix]:
    """Return the messages of `whole`, for each of `earlier` that is a prefix of it (including
    itself).
    """
    data = b"".join(segments.content(store.reader, stored(store, whole, MAIN)))
    lines = _Lines(data)
    messages, ends = [], []
    for message in adapters.for_format(whole.format).messages(lines):
        messages.append(message)
        ends.append(lines.end)
    mains = {
        index: main for index, conversation in earlier.items() if (main := _main(conversation))
    }
    sums = _sums(data, {main.bytes for main in mains.values()})
    prefixes = {
        index: main.bytes for index, main in mains.items() if sums.get(main.bytes) == main.sha256
    }
    # The last line may end without a line feed in the earlier one, and with it in this one.
    return {index: (messages, bisect_right(ends, size + 1)) for index, size in prefixes.items()}


class _Lines:
    """The lines of a stream without line feeds; `end` is the offset after the last line read."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self.end = 0

    def __iter__(self) -> Iterator[bytes]:
        for line in self._data.split(b"\n"):
            self.end += len(line) + 1
            yield line


def _sums(data: bytes, sizes: set[int]) -> dict[int, str]:
    """Return the SHA-256 of the first `size` bytes, for each size."""
    sums, digest, start = {}, sha256(), 0
    view = memoryview(data)
    for size in sorted(size for size in sizes if size <= len(data)):
        digest.update(view[start:size])
        start = size
        sums[size] = digest.hexdigest()
    return sums


def _main(conversation: Conversation) -> Stream | None:
    return next((stream for stream in conversation.streams if stream.name == MAIN), None)


def _side_streams(
    store: Store, conversations: Sequence[Conversation | None]
) -> dict[int, list[SideStream]]:
    """Return every stream beside the main one, in its last state, by the checkpoint that had it
    first.
    """
    first: dict[str, int] = {}
    last: dict[str, Conversation] = {}
    for index, conversation in enumerate(conversations):
        for stream in conversation.streams if conversation else ():
            if conversation and stream.name != MAIN:
                first.setdefault(stream.name, index)
                last[stream.name] = conversation
    streams: dict[int, list[SideStream]] = {}
    for name, index in first.items():
        messages = tuple(show.messages(store, last[name], name))
        if messages:
            streams.setdefault(index, []).append(SideStream(name, messages))
    return streams
