"""`gitcp restore`."""

from __future__ import annotations

from typing import Any

import click

from gitcp.cli import back
from gitcp.cli.context import Context
from gitcp.cli.options import (
    REVISION,
    WORDS,
    WithPaths,
    json_option,
    pass_context,
    paths_given,
    session_option,
    trust_option,
    yes_option,
)


@click.command(cls=WithPaths)
@click.argument("revision", required=False, type=REVISION, metavar="[REV]")
@click.option("--at", metavar="TIME", type=WORDS, help="the last checkpoint of this time or before")
@click.option("--phase", metavar="NAME", type=WORDS, help="the last checkpoint of this phase")
@click.option(
    "--message", metavar="ID", type=WORDS, help="the state just before this message of the user's"
)
@click.option("--files", is_flag=True, help="only the files")
@click.option("--conversation", is_flag=True, help="only the conversation")
@click.option("--index", is_flag=True, help="also what was staged (git's index)")
@click.option(
    "--to",
    metavar="DIR",
    help="write into DIR, which must be empty or absent, and touch nothing else",
)
@click.option("--dry-run", "-n", is_flag=True, help="show the plan and change nothing")
@click.option("--force", is_flag=True, help="go on during a merge or rebase")
@click.option(
    "--continue", "forward", flag_value=True, default=None, help="finish an interrupted restore"
)
@click.option("--abort", "forward", flag_value=False, help="take an interrupted restore back")
@trust_option
@yes_option
@session_option
@json_option
@pass_context
def command(context: Context, /, **given: Any) -> None:
    """Bring files and conversation back from a checkpoint

    What you have now is saved first, so every restore can be undone. Only files that differ are
    written; a file is removed only if the checkpoint looked where it lies and it is saved now.
    HEAD, branches and the index stay.

      gitcp restore 12
      gitcp restore before-migration --dry-run
      gitcp restore --at "yesterday 17:00" --yes
      gitcp restore @~2 -- src/app.py
      gitcp restore 12 --to ../look
    """
    back.perform(context, {**given, "paths": paths_given()})
