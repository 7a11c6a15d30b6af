"""`gitcp help`."""

from __future__ import annotations

from gitcp.cli.context import Context
from gitcp.cli.options import argument, flag, takes


@takes(
    argument("name", required=False, metavar="[COMMAND]"),
    flag("--all", "-a", target="everything", help="list all commands, by task"),
)
def command(context: Context, /, *, name: str | None, everything: bool) -> None:
    """Show all commands, or how to use one

    Shows every option of COMMAND, including those that its `-h` omits.

      gitcp help
      gitcp help --all
      gitcp help restore
    """
    from gitcp.cli import commands, group  # group loads click

    wanted = [name, "--help"] if name else ["--help" if everything else "-h"]
    group.run(commands.expanded(wanted)[0], context)
