"""`gitcp hook`: its help. What agents call goes to gitcp.cli.hooking directly."""

from __future__ import annotations

import click

from gitcp.cli import bounded, hooking
from gitcp.cli.options import WORDS, Command


@click.command(cls=Command)
@click.argument("agent", type=WORDS)
@click.argument("event", type=WORDS)
@click.argument("payload", type=WORDS, required=False)
def command(agent: str, event: str, payload: str | None) -> None:
    """Take an event from an agent; agents call this

    AGENT is claude, codex, copilot, gemini or opencode, EVENT what that agent calls it. The event's
    JSON comes on standard input (or as PAYLOAD, from an agent that passes it so). A checkpoint is
    made where the event is a reason for one and something changed.

    It ends with 0 whatever happens, and prints nothing, unless the agent is to be told that files
    went back to a checkpoint. What went wrong is in hook.log, in the directory gitcp of the git
    directory.

      gitcp hook claude Stop < payload.json
    """
    arguments = [agent, event, *([payload] if payload else [])]
    hooking.run(arguments, bounded.begin(arguments))
