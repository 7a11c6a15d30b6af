"""`gitcp mcp`."""

from __future__ import annotations

import click

from gitcp import installed
from gitcp.cli.context import Context
from gitcp.cli.options import Command
from gitcp.errors import GitcpError

MISSING = "gitcp mcp needs the package mcp, which is not installed"


@click.command(cls=Command)
@click.pass_obj
def command(context: Context) -> None:
    """Serve checkpoints to MCP clients on stdin and stdout

    The tools are save, list, show, diff, find, why, note, restore, undo, revert and fork. restore,
    undo and revert return a plan first, and run only with that plan's digest. The server works in
    the directory it is started in.

      gitcp mcp
      claude mcp add gitcp -- gitcp mcp
    """
    try:
        from gitcp.mcp.server import serve  # half a second, and an extra
    except ImportError as error:
        # Without the extra, the first one that is missing is anyio: an internal error once.
        if error.name is None or error.name.partition(".")[0] == "gitcp":
            raise
        raise GitcpError(MISSING, hint=installed.install_extra("mcp")) from None
    serve(str(context.cwd))
