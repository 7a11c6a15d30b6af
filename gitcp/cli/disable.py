"""`gitcp disable`."""

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
    """Take back what enable set up

    Exactly what gitcp put into an agent's settings is taken out again, and its own files are
    removed; everything else stays as it is. Without AGENT, for every agent. The checkpoints stay.

      gitcp disable
      gitcp disable codex --user
    """
    targets, scope = enabling.meant(context, given["agents"], user=given["user"], all_known=True)
    made = plan.disable(targets, scope, context.host)
    enabling.carry_out(context, made, given, verb="disable")
