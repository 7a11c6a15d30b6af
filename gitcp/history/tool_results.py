"""Match the results of tools with their calls."""

from __future__ import annotations

from typing import Protocol, TypeVar

from gitcp.adapters.base import Message


class Called(Protocol):
    """A call without a result: its tool, and the agent's id for the call, None if it has none."""

    @property
    def tool(self) -> str: ...

    @property
    def call(self) -> str | None: ...


C = TypeVar("C", bound=Called)


def pop_call(pending: list[C], result: Message) -> C | None:
    """Remove the call that a result belongs to from `pending`, which is in call order, and return
    it.

    It is the call with the result's id; if the agent gave no id, the oldest call of the same tool.
    None if no pending call matches.
    """
    if result.call is not None:
        call_of_result = next((each for each in pending if each.call == result.call), None)
    else:
        call_of_result = next((each for each in pending if each.tool == result.tool), None)
    if call_of_result is not None:
        pending.remove(call_of_result)
    return call_of_result
