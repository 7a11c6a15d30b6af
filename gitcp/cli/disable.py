"""`gitcp disable`."""

from __future__ import annotations

from typing import Any

from gitcp.automation.install import plan
from gitcp.cli import enabling
from gitcp.cli.context import Context
from gitcp.cli.options import flag, json_option, takes, yes_option


@takes(
    enabling.agents_argument,
    enabling.user_option,
    flag("--dry-run", "-n", help="show the plan and change nothing"),
    yes_option,
    json_option,
)
def command(context: Context, /, **given: Any) -> None:
    """Remove what enable installed

    Removes exactly what gitcp added to an agent's settings, and gitcp's own files there; everything
    else is unchanged. Without AGENT, for every agent. Checkpoints are kept.

      gitcp disable
      gitcp disable codex --user
    """
    targets, scope = enabling.meant(context, given["agents"], user=given["user"], all_known=True)
    made = plan.disable(targets, scope, context.host)
    enabling.carry_out(context, made, given, verb="disable")
