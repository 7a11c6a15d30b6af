"""`gitcp undo`."""

from __future__ import annotations

import click

from gitcp.cli import restoring
from gitcp.cli.context import Context
from gitcp.cli.options import Command, json_option, pass_context, session_option, yes_option
from gitcp.ops import restore as op


@click.command(cls=Command)
@yes_option
@session_option
@json_option
@pass_context
def command(context: Context, session: str | None, *, yes: bool, as_json: bool) -> None:  # noqa: ARG001 -- --session is on every command
    """Undo the last restore

    Each undo goes one restore further back; `gitcp redo` takes it back.

      gitcp undo
      gitcp undo --yes
    """
    restoring.walk(context, op.undo, lambda known: known.undo, yes=yes, as_json=as_json, back="redo")
