"""`gitcp mcp`."""

from __future__ import annotations

import click

from gitcp.cli.context import Context
from gitcp.cli.options import Command, pass_context
from gitcp.errors import GitcpError

MISSING = "gitcp mcp needs the package mcp, which is not installed"
INSTALL = "pip install 'gitcp-checkpoints[mcp]'"


@click.command(cls=Command)
@pass_context
def command(context: Context) -> None:
    """Serve checkpoints to any MCP client, on standard input and output

    The tools are save, list, show, diff, note and restore. A restore gives a plan first, and is
    done only for that plan. It works in the directory that it is started in.

      gitcp mcp
      claude mcp add gitcp -- gitcp mcp
    """
    try:
        from gitcp.cli.mcp_server import Tools  # half a second, and an extra
    except ImportError as error:
        if error.name is None or not error.name.startswith(("mcp", "pydantic")):
            raise
        raise GitcpError(MISSING, hint=INSTALL) from None
    Tools(str(context.cwd)).server().run("stdio")
