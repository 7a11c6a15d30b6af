"""Convert the messages in a graph's state to a conversation for `gitcp show` and `log`, as JSON
lines.

For display only. The graph resumes from the state, as its serializer wrote it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gitcp import wire
from gitcp.model import Conversation, Oid
from gitcp.saving.conversation import GrowingConversation
from gitcp.store import Store

ROLES = {"human": "user", "ai": "assistant"}


class Talk:
    """The messages of one thread as a conversation. Messages that are identical
    objects are not converted again.
    """

    def __init__(self) -> None:
        self._seen: list[Any] = []
        self._growing: GrowingConversation | None = None

    def store(self, store: Store, messages: Any, tip: Oid | None) -> Conversation | None:
        """Store the conversation with all messages; return None if `messages` is not a non-empty
        list.

        `tip` is the thread's last checkpoint, whose conversation is shared. Writes objects only.
        """
        items = (
            list(messages)
            if isinstance(messages, Sequence) and not isinstance(messages, str | bytes)
            else []
        )
        if not items:
            return None
        grown = len(items) >= len(self._seen) and all(
            a is b for a, b in zip(self._seen, items, strict=False)
        )
        if self._growing is None or not grown:
            before = store.read(tip).conversation if tip else None
            self._growing = GrowingConversation(store, "jsonl", b"".join(map(_line, items)), before)
        elif len(items) > len(self._seen):
            self._growing.add(store, b"".join(map(_line, items[len(self._seen) :])))
        self._seen = items
        return self._growing.conversation(store)


def _line(message: Any) -> bytes:
    fields = message if isinstance(message, dict) else _fields(message)
    try:
        return wire.dumps(fields) + b"\n"
    except (TypeError, ValueError):  # not JSON: use its repr
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
