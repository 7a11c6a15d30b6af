"""What help says of the agents, which is written by hand, is what their records say."""

from __future__ import annotations

from gitcp.agents import KNOWN
from gitcp.cli.enable import command as enable
from gitcp.hooks.command import command as hook

HOOKED = [known.command for known in KNOWN if known.hooks.events]


def test_help_names_each_agent_with_hooks() -> None:
    """The help of `enable` and of `hook`."""
    assert f"Agents with hooks: {', '.join(HOOKED)}." in " ".join((enable.help or "").split())
    *others, last = sorted(HOOKED)
    assert f"AGENT is {', '.join(others)} or {last};" in " ".join((hook.help or "").split())
