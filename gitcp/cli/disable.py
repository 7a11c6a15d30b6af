"""`gitcp disable`."""

from __future__ import annotations

from typing import Any

import click

from gitcp.automation.install import plan
from gitcp.cli import enabling
from gitcp.cli.context import Context
from gitcp.cli.options import Command


@click.command(cls=Command)
@enabling.options
@click.pass_obj
def command(context: Context, /, **values: Any) -> None:
    """Remove what enable installed

    Everything else is unchanged. Without AGENT, for every agent. Checkpoints are kept.

      gitcp disable
      gitcp disable codex --user
    """
    given = enabling.Options(**values)
    targets, scope = enabling.meant(context, given.agents, user=given.user, all_known=True)
    made = plan.disable(targets, scope, context.host)
    enabling.carry_out(context, made, given, verb="disable")
