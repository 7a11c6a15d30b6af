"""`gitcp log`."""

from __future__ import annotations

from typing import Any

import click

from gitcp.cli import history
from gitcp.cli.context import Context
from gitcp.cli.options import REVISION, WORDS, Command, json_option, pass_context, session_option


@click.command(cls=Command)
@click.argument("revision", required=False, type=REVISION, metavar="[REV|A..B]")
@click.option("-n", "limit", metavar="N", type=click.IntRange(min=0), help="show at most so many")
@click.option("--since", metavar="TIME", type=WORDS, help="only those of this time or later")
@click.option("--until", metavar="TIME", type=WORDS, help="only those of this time or before")
@click.option(
    "--grep",
    metavar="REGEX",
    type=WORDS,
    help="only those whose subject matches, whatever its case",
)
@click.option("--phase", metavar="NAME", type=WORDS, help="only those of this phase")
@session_option
@click.option("--all", "everything", is_flag=True, help="show the checkpoints of every session")
@click.option("--reverse", is_flag=True, help="show the oldest first")
@click.option("--graph", is_flag=True, help="draw sessions and their forks, one line for each")
@click.option("--oneline", is_flag=True, help="show one line for each")
@click.option("--stat", is_flag=True, help="show how much changed in which files")
@click.option("-p", "--patch", is_flag=True, help="show what changed")
@json_option
@pass_context
def command(context: Context, /, **given: Any) -> None:
    """Show checkpoints, newest first

    Those of the current session, or those up to REV, or those after A up to B.

      gitcp log --oneline -n 20
      gitcp log --since "yesterday 09:00" --grep migration
      gitcp log before-migration..@ --stat
      gitcp log --graph --all
    """
    history.perform(context, given)
