"""Requests that the protocol's library cannot read: they are repaired, or answered with an error.

It drops them, and the client waits for ever. A model that cuts an emoji in two sends half a
surrogate pair, which is valid JSON.
"""

from __future__ import annotations

import json
from types import TracebackType
from typing import Any, Self

from mcp.shared.message import SessionMessage
from mcp_types import (
    INVALID_REQUEST,
    PARSE_ERROR,
    ErrorData,
    JSONRPCError,
    jsonrpc_message_adapter,
)
from pydantic import ValidationError

UNREADABLE = "this is no request of the protocol: nothing was changed"


class Incoming:
    """The messages of a stream, each one read or answered (on the stream `answers`)."""

    def __init__(self, messages: Any, answers: Any) -> None:
        self._messages, self._answers = messages, answers

    @property
    def last_context(self) -> Any:
        """The context in which the last message was sent."""
        return self._messages.last_context

    async def receive(self) -> SessionMessage | Exception:
        """Return the next message. Raises EndOfStream."""
        return await self._read(await self._messages.receive())

    async def aclose(self) -> None:
        """Close the stream."""
        await self._messages.aclose()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> SessionMessage | Exception:
        return await self._read(await self._messages.__anext__())

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.aclose()

    async def _read(self, item: SessionMessage | Exception) -> SessionMessage | Exception:
        if not isinstance(item, ValidationError):
            return item
        line = item.errors(include_url=False)[0]["input"]
        fields = _parsed(line) if isinstance(line, str) else line
        try:
            text = json.dumps(fields, ensure_ascii=False)
            whole = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
            return SessionMessage(jsonrpc_message_adapter.validate_json(whole, by_name=False))
        except (ValueError, TypeError, RecursionError):
            if answer := _answer(fields):
                await self._answers.send(SessionMessage(answer))
            return item


def _parsed(line: str) -> object:
    try:
        return json.loads(line)
    except (ValueError, RecursionError):
        return None


def _answer(fields: object) -> JSONRPCError | None:
    """Return the error for a request that cannot be read, None for what wants no answer."""
    if not isinstance(fields, dict):
        error = ErrorData(code=PARSE_ERROR, message=UNREADABLE)
        return JSONRPCError(jsonrpc="2.0", id=None, error=error)
    id = fields.get("id")
    if "id" not in fields or "result" in fields or "error" in fields:
        return None
    error = ErrorData(code=INVALID_REQUEST, message=UNREADABLE)
    valid = isinstance(id, str) or type(id) is int
    return JSONRPCError(jsonrpc="2.0", id=id if valid else None, error=error)
