"""`gitcp help`."""

from __future__ import annotations

import click

from gitcp.cli.context import Context
from gitcp.cli.options import Command


@click.command(cls=Command, context_settings={"ignore_unknown_options": True})
@click.argument("words", nargs=-1, metavar="[COMMAND]")
@click.option("--all", "-a", "everything", is_flag=True, help="list all commands, by task")
@click.pass_obj
def command(context: Context, /, *, words: tuple[str, ...], everything: bool) -> None:
    """Show all commands, or how to use one

    Shows every option of COMMAND, also those that its `-h` omits.

      gitcp help
      gitcp help --all
      gitcp help restore
      gitcp help log --operations
    """
    from gitcp.cli import main

    wanted = [*words, "--help"] if words else ["--help" if everything else "-h"]
    main.invoke(wanted, context)
