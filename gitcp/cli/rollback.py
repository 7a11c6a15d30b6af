"""`gitcp rollback`."""

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
def command(context: Context, session: str | None, *, yes: bool, as_json: bool) -> None:
    """Restore the last checkpoint

    The same as `gitcp restore @`: what was done since then is saved, and taken back.

      gitcp rollback
      gitcp rollback --yes
    """
    request = op.Request(context.checkpoint("@", session), context.cwd, limits=context.limits())
    restoring.carry_out(
        context,
        request,
        lambda agreed: op.restore(context.store, request, agreed),
        lambda: op.plan(context.store, request),
        yes=yes,
        as_json=as_json,
    )
