"""Which call of a tool a result belongs to."""

from __future__ import annotations

from typing import Protocol, TypeVar

from gitcp.adapters.base import Message


class Called(Protocol):
    """A call that nothing answered yet: its tool, and the agent's id of it, None where the agent
    gave none.
    """

    @property
    def tool(self) -> str: ...

    @property
    def call(self) -> str | None: ...


C = TypeVar("C", bound=Called)


def take(open: list[C], result: Message) -> C | None:
    """The call that a result belongs to, taken out of those that are open, in the order in which
    they were made.

    It is the one whose id the result has; the oldest of its tool only where the agent gave the
    result no id. None: a second result of a call, or one of no call.
    """
    if result.call is not None:
        found = next((each for each in open if each.call == result.call), None)
    else:
        found = next((each for each in open if each.tool == result.tool), None)
    if found is not None:
        open.remove(found)
    return found
