"""`gitcp enable`."""

from __future__ import annotations

from typing import Any

import click

from gitcp import humanize
from gitcp.automation.install import plan
from gitcp.cli import enabling
from gitcp.cli.context import Context
from gitcp.cli.options import Command


@click.command(cls=Command)
@enabling.options
@click.pass_obj
def command(context: Context, /, **values: Any) -> None:
    """Set up agents to save automatically

    Installs hooks, a skill and slash commands: in this project, for everyone who works on it, or
    with --user in your home directory, for all your projects. Without AGENT, for every installed
    agent. Shows the changes and asks first.

      gitcp enable
      gitcp enable claude codex --user
      gitcp enable openclaw

    Agents with hooks: claude, codex, gemini, opencode, kilo, copilot, pi, qwen, cursor. Without
    hooks, by name only: openclaw (a skill), agents-md (a section in AGENTS.md), git (a trailer in
    each commit with its checkpoint).
    """
    given = enabling.Options(**values)
    enabling.require_program(context)
    targets, scope = enabling.meant(context, given.agents, user=given.user)
    made = plan.enable(targets, scope, context.host)
    enabling.carry_out(context, made, given, verb="enable")
    if not (given.user or given.dry_run or given.as_json):
        _offer(context, given)


def _offer(context: Context, given: enabling.Options) -> None:
    """Offer to import the conversations that the agents have had here before."""
    from gitcp import adapters
    from gitcp.adopting.sweeps import unstored

    number = len(unstored(context.store, adapters.find_all(context.cwd, context.host)))
    if not number:
        return
    earlier = humanize.count(number, "earlier conversation")
    if given.yes or not context.output.ask(f"Import {earlier} of this directory?"):
        context.output.line(f"{earlier} can be imported: gitcp import")
        return
    from gitcp.cli import adopt

    agreed = adopt.Options(
        everywhere=False,
        agent=None,
        since=None,
        former=(),
        dry_run=False,
        yes=True,
        as_json=given.as_json,
    )
    adopt.adopt(context, agreed)
