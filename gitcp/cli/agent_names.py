"""Options whose value is an agent, by any of its names."""

from __future__ import annotations

from collections.abc import Iterable

from gitcp.agents import SAVED, recorded
from gitcp.cli.context import Context
from gitcp.cli.options import OneOf, Words


class RecordedName(Words):
    """An agent as checkpoints record it, by any of its names. Other names are kept: an installed
    adapter may have them.
    """

    name = "agent"

    def read(self, text: str) -> str:
        return recorded(super().read(text))

    def complete(self, context: Context) -> Iterable[tuple[str, str]]:  # noqa: ARG002
        return ((name, "") for name in SAVED)


class OneRecorded(OneOf):
    """One of a few agents, by any of their names."""

    def read(self, text: str) -> str:
        return super().read(recorded(text))


RECORDED_NAME = RecordedName()
