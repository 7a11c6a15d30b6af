"""The names by which people call the agents, on the command line."""

from __future__ import annotations

from collections.abc import Iterable

from gitcp.cli.context import Context
from gitcp.cli.options import Words

ALIASES = {
    "claude-code": "claude",
    "claudecode": "claude",
    "codex-cli": "codex",
    "openai-codex": "codex",
    "gemini-cli": "gemini",
    "google-gemini": "gemini",
    "open-code": "opencode",
    "copilot-cli": "copilot",
    "github-copilot": "copilot",
    "github-copilot-cli": "copilot",
    "cursor-agent": "cursor",
    "agents.md": "agents-md",
}
"""Other names of the agents that `enable` knows."""

RECORDED = {"claude": "claude-code"}
"""Agents whose name in a checkpoint differs from the one that `enable` prints."""


class RecordedName(Words):
    """An agent as checkpoints record it, by any of its names. Other names are kept: an installed
    adapter may have them.
    """

    name = "agent"

    def read(self, text: str) -> str:
        name = canonical(super().read(text))
        return RECORDED.get(name, name)

    def complete(self, context: Context) -> Iterable[tuple[str, str]]:  # noqa: ARG002
        from gitcp.adapters import BUILTIN  # only when a shell asks

        return ((known.name, "") for known in BUILTIN)


def canonical(name: str) -> str:
    """Return the name by which `enable` knows an agent, `name` itself if it does not know it."""
    known = name.lower()
    if known in ALIASES:
        return ALIASES[known]
    return known if known in ALIASES.values() else name


RECORDED_NAME = RecordedName()
