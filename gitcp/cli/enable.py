"""`gitcp enable`."""

from __future__ import annotations

from typing import Any

import click

from gitcp.automation.install import plan
from gitcp.cli import enabling
from gitcp.cli.context import Context
from gitcp.cli.options import Command, json_option, pass_context, yes_option


@click.command(cls=Command)
@enabling.agents_argument
@enabling.user_option
@click.option("--dry-run", "-n", is_flag=True, help="show what would change, and change nothing")
@yes_option
@json_option
@pass_context
def command(context: Context, /, **given: Any) -> None:
    """Set up agents so that they save by themselves

    Hooks, a skill and slash commands are put where each agent looks for them: in this project, for
    everybody who works in it, or with --user in your home, for every project of yours. Without
    AGENT, for every agent that is installed here. What would change is shown first; of your own
    settings every other byte stays as it is.

      gitcp enable
      gitcp enable claude codex --user
      gitcp enable cursor

    Agents with hooks: claude, codex, gemini, opencode, copilot. By name only, as they have none:
    cursor (a rule), openclaw (a skill), agents-md (a section in AGENTS.md), git (its commits name
    the checkpoint they come from).
    """
    targets, scope = enabling.meant(context, given["agents"], user=given["user"])
    made = plan.enable(targets, scope, context.host)
    enabling.carry_out(context, made, given, verb="enable")
