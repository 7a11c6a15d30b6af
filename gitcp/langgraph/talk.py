"""The messages in a graph's state → a conversation that `gitcp show` and `log` can read, one JSON
object a line.

It is for looking at. What the graph goes on from is the state, as its serialiser wrote it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gitcp import wire
from gitcp.model import Conversation, Oid
from gitcp.saving.conversation import Growing
from gitcp.store import Store

ROLES = {"human": "user", "ai": "assistant"}


class Talk:
    """The messages of one thread as a conversation; those that are the very same as last time are
    not looked at.
    """

    def __init__(self) -> None:
        self._seen: list[Any] = []
        self._growing: Growing | None = None

    def store(self, store: Store, messages: Any, tip: Oid | None) -> Conversation | None:
        """The conversation with all messages, stored; None where `messages` is no list of some.

        `tip` is the thread's last checkpoint, whose conversation is shared as far as it goes.
        Writes objects only.
        """
        given = (
            list(messages)
            if isinstance(messages, Sequence) and not isinstance(messages, str | bytes)
            else []
        )
        if not given:
            return None
        grown = len(given) >= len(self._seen) and all(
            a is b for a, b in zip(self._seen, given, strict=False)
        )
        if self._growing is None or not grown:
            before = store.read(tip).conversation if tip else None
            self._growing = Growing(store, "jsonl", b"".join(map(_line, given)), before)
        elif len(given) > len(self._seen):
            self._growing.add(store, b"".join(map(_line, given[len(self._seen) :])))
        self._seen = given
        return self._growing.conversation(store)


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
