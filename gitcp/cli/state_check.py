"""`gitcp doctor --state`."""

from __future__ import annotations

import click

from gitcp import documents, humanize
from gitcp.cli.context import Context
from gitcp.cli.failure import end
from gitcp.cli.options import Command, json_option
from gitcp.cli.output import RED, YELLOW, Styled
from gitcp.model import CommandState
from gitcp.saving import states
from gitcp.state import state_commands
from gitcp.wire import Json


@click.command(cls=Command)
@json_option
@click.pass_obj
def command(context: Context, *, as_json: bool) -> None:
    """Run the commands that save states

    Runs each gitcp.state command as a save would, with its limits, and throws away what it writes.
    A command that you have not allowed is not run, nor is one that restores. Exit code 1: a state
    cannot be saved.

      gitcp doctor --state
    """
    commands = state_commands.listing(context.store.repo)
    listed: list[Json] = []
    failed = False
    for each in commands:
        state, problem = states.attempt(context.store, each)
        if as_json:
            listed.append(_fields(state, problem))
        elif problem:
            context.output.line(Styled("problem  ", RED), f"state {each.name}: {problem}")
            if each.allowable:
                context.output.line("         ", Styled(state_commands.ALLOW, YELLOW))
        else:
            seconds = f"{state.milliseconds / 1000:.1f} s"
            context.output.line(f"state {each.name}: {humanize.size(state.bytes)} in {seconds}")
        failed = failed or bool(problem)
    if as_json:
        context.output.document(documents.document("state-check", {"states": listed}))
    elif not commands:
        context.output.line("no command saves a state")
    end(1 if failed else 0)


def _fields(state: CommandState, problem: str) -> Json:
    return {
        "name": state.name,
        "bytes": state.bytes,
        "milliseconds": state.milliseconds,
        "exit_code": state.code,
        "problem": problem,
    }
