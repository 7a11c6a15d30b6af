"""Convert a conversation passed by a program to a Capture: bytes, a file, a list of messages, or
streams by name.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain
from pathlib import Path

from gitcp import wire
from gitcp.adapters import base, generic
from gitcp.errors import BadValue
from gitcp.model import MAIN, Agent, Capture
from gitcp.value import replace

Stream = bytes | Path | Sequence[Mapping[str, object]]
"""One stream. Messages are JSON objects, and become a line each."""

Pushed = Stream | Mapping[str, Stream]


def capture(pushed: Pushed, agent: Agent | str | None, format: str | None) -> Capture:
    """Return the capture of a conversation. Streams are stored verbatim; a
    file is read when it is stored.

    `format` is the name of an adapter, or "jsonl", "json" or "text"; default: detected
    from the first bytes. Raises BadValue for an invalid stream name, and
    ConversationUnreadable for a missing file.
    """
    streams = pushed if isinstance(pushed, Mapping) else {MAIN: pushed}
    if MAIN not in streams:
        raise BadValue(f"the conversation has no stream {MAIN!r}; nothing was saved")
    for name in streams:
        parts = name.split("/")
        if len(parts) > 2 or not all(map(base.STREAM_PART.fullmatch, parts)):
            raise BadValue(f"invalid stream name {name[:80]!r}; nothing was saved")
    captured = {name: _capture(stream) for name, stream in streams.items()}
    sources = tuple(
        replace(captured[name].sources[0], name=name)
        for name in sorted(streams, key=lambda name: name != MAIN)
    )
    owner = Agent(agent) if isinstance(agent, str) else agent
    return Capture(owner, format or captured[MAIN].format, sources)


def _capture(stream: Stream) -> Capture:
    if isinstance(stream, Path):
        return generic.from_file(stream)
    return generic.from_bytes(stream if isinstance(stream, bytes) else _lines(stream))


def _lines(messages: Sequence[Mapping[str, object]]) -> bytes:
    """Return messages as JSON lines, so that a longer list shares what it begins with."""
    for number, message in enumerate(messages):
        if not wire.is_json(message):
            raise BadValue(
                f"message {number} of the conversation is not a JSON value; nothing was saved",
                hint="pass dicts with None, numbers, text, lists and dicts, or the bytes",
            )
    return b"".join(chain.from_iterable((wire.dumps(each), b"\n") for each in messages))
