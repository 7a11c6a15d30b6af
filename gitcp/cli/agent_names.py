"""Options whose value is an agent, by any of its names."""

from __future__ import annotations

from collections.abc import Iterable

from gitcp.adapters import names
from gitcp.cli.context import Context
from gitcp.cli.options import OneOf, Words


class RecordedName(Words):
    """An agent as checkpoints record it, by any of its names. Other names are kept: an installed
    adapter may have them.
    """

    name = "agent"

    def read(self, text: str) -> str:
        return names.recorded(super().read(text))

    def complete(self, context: Context) -> Iterable[tuple[str, str]]:  # noqa: ARG002
        from gitcp.adapters import BUILTIN  # only when a shell asks

        return ((known.name, "") for known in BUILTIN)


class OneRecorded(OneOf):
    """One of a few agents, by any of their names."""

    def read(self, text: str) -> str:
        return super().read(names.recorded(text))


RECORDED_NAME = RecordedName()
