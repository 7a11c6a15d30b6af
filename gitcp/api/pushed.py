"""Convert a conversation passed by a program (bytes, files, or streams by name) to a Capture."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from gitcp.adapters import base, generic
from gitcp.errors import BadValue
from gitcp.model import MAIN, Agent, Capture, Source
from gitcp.value import replace

Stream = bytes | Path
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
        _named(name, captured[name].sources[0])
        for name in sorted(streams, key=lambda name: name != MAIN)
    )
    owner = Agent(agent) if isinstance(agent, str) else agent
    return Capture(owner, format or captured[MAIN].format, sources)


def _capture(stream: Stream) -> Capture:
    return generic.from_bytes(stream) if isinstance(stream, bytes) else generic.from_file(stream)


def _named(name: str, source: Source) -> Source:
    return replace(source, name=name)
