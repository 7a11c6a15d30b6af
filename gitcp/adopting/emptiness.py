"""Tell whether a transcript has a conversation, and if not, what it has instead."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from gitcp import adapters, humanize, regular, wire
from gitcp.adapters import base
from gitcp.errors import ConversationUnreadable
from gitcp.model import MAIN, Capture, Source

AGENTS = "agents/"
MOST_KINDS = 4
CHUNK = 1 << 16


def why_empty(capture: Callable[[], Capture]) -> str:
    """Return why there is nothing to store, "" if there is. Reads up to the first message.

    A line that is damaged may be a message, and counts as one.
    """
    kinds: dict[str, None] = {}
    try:
        captured = capture()
        streams = [s for s in captured.sources if s.name == MAIN or s.name.startswith(AGENTS)]
        for source in streams:
            lines = _noting(_lines(source), kinds)
            messages = adapters.for_format(captured.format).messages(lines)
            if any(message.role != "system" for message in messages) or "" in kinds:
                return ""
    except (ConversationUnreadable, OSError):
        return ""
    listed = humanize.listed(list(kinds), MOST_KINDS)
    return f"no message, only {', '.join(listed)}" if kinds else "no complete line"


def _noting(lines: Iterator[bytes], kinds: dict[str, None]) -> Iterator[bytes]:
    """Yield lines, and add what kinds they are; "" for one that is damaged."""
    for line in lines:
        if line.strip():
            fields = wire.parse_line(line)
            kinds["" if fields is None else base.string(fields, "type") or "settings"] = None
        yield line


def _lines(source: Source) -> Iterator[bytes]:
    """Yield the complete lines of a stream."""
    for line in base.lines(_chunks(source)):
        if line.endswith(b"\n") or not source.live:
            yield line


def _chunks(source: Source) -> Iterator[bytes]:
    if source.data is not None:
        yield source.data
    elif source.path is not None:
        with regular.opened(source.path) as file:
            while chunk := file.read(CHUNK):
                yield chunk
