"""`gitcp demo`."""

from __future__ import annotations

import os
from pathlib import Path

import click

from gitcp.cli.context import Context
from gitcp.cli.options import Command, pass_context
from gitcp.demo import run


@click.command(cls=Command)
@click.option(
    "--keep",
    metavar="DIR",
    help="tell the story in DIR, which must be empty or absent, and leave it there",
)
@pass_context
def command(context: Context, keep: str | None) -> None:
    """Show gitcp at work in a scratch repository

    An agent's session is saved, wrecked, restored and undone, and every byte is compared. Nothing
    of yours is touched.

      gitcp demo
      gitcp demo --keep /tmp/demo
    """
    if keep is not None:
        run(Path(os.path.join(context.cwd, keep)), context.host, context.output.line)
        return
    import tempfile  # with shutil and random behind it: only here

    with tempfile.TemporaryDirectory(prefix="gitcp-demo-") as directory:
        run(Path(directory), context.host, context.output.line)
