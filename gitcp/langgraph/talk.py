"""The messages in a graph's state → a conversation that `gitcp show` and `log` can read, one JSON object a line.

It is for looking at. What the graph goes on from is the state, as its serialiser wrote it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gitcp import wire

ROLES = {"human": "user", "ai": "assistant"}


class Talk:
    """The messages of one thread as lines; those that are the very same as last time are not written again."""

    def __init__(self) -> None:
        self._seen: list[Any] = []
        self._lines: list[bytes] = []

    def lines(self, messages: Any) -> bytes:
        """All messages as lines; empty where `messages` is no list of them."""
        given = list(messages) if isinstance(messages, Sequence) and not isinstance(messages, str | bytes) else []
        pairs = zip(self._seen, given, strict=False)
        same = next(
            (place for place, (old, new) in enumerate(pairs) if old is not new), min(len(self._seen), len(given))
        )
        self._lines[same:] = [_line(message) for message in given[same:]]
        self._seen = given
        return b"".join(self._lines)


def _line(message: Any) -> bytes:
    fields = message if isinstance(message, dict) else _fields(message)
    try:
        return wire.dumps(fields) + b"\n"
    except (TypeError, ValueError):  # somebody's own content: as Python shows it
        return wire.dumps({"role": "message", "content": repr(fields)[:1000]}) + b"\n"


def _fields(message: Any) -> dict[str, Any]:
    kind = getattr(message, "type", None)
    fields = {
        "role": ROLES.get(str(kind), str(kind or "message")),
        "content": getattr(message, "content", None),
        "id": getattr(message, "id", None),
        "name": getattr(message, "name", None),
        "tool_calls": getattr(message, "tool_calls", None),
    }
    if fields["content"] is None:
        fields["content"] = repr(message)[:1000]
    return {name: value for name, value in fields.items() if value}
