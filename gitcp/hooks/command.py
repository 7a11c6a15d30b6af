"""`gitcp hook`: its help. Calls of agents go to gitcp.hooks.handler directly."""

from __future__ import annotations

import click

from gitcp.cli.context import Context
from gitcp.cli.options import WORDS, Command
from gitcp.hooks import handler, limits


@click.command(cls=Command)
@click.argument("agent", type=WORDS)
@click.argument("event", type=WORDS)
@click.argument("payload", type=WORDS, required=False)
@click.pass_obj
def command(_: Context, /, agent: str, event: str, payload: str | None) -> None:
    """Handle an event from an agent (agents call this)

    AGENT is claude, codex, copilot, cursor, gemini, kilo, opencode, pi or qwen; EVENT is the
    agent's name for the event. The event's JSON is read from standard input, or from PAYLOAD. Saves
    a checkpoint if the event calls for one and something changed.

    Always exits with 0. Prints only notices for the agent. Errors are logged in
    .git/gitcp/hook.log.

      gitcp hook claude Stop < payload.json
    """
    arguments = [agent, event, *([payload] if payload else [])]
    handler.run(arguments, limits.begin(arguments))
