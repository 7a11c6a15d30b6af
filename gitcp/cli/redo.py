"""`gitcp redo`."""

from __future__ import annotations

import click

from gitcp.cli import delete, prune_view, restore_view
from gitcp.cli.context import Context
from gitcp.cli.options import Command, json_option, pass_context, session_option, yes_option
from gitcp.lifecycle import prune
from gitcp.restoring import restore as op
from gitcp.restoring.undo import to_redo


@click.command(cls=Command)
@yes_option
@session_option
@json_option
@pass_context
# --session is on every command
def command(context: Context, session: str | None, *, yes: bool, as_json: bool) -> None:  # noqa: ARG001
    """Take back the last undo

    What the undo found is there again; what it brought back from the trash is dropped again.

      gitcp redo
      gitcp redo --yes
    """
    found = to_redo(context.store)
    if found is None:
        restore_view.walk(
            context, op.redo, lambda known: known.redo, yes=yes, as_json=as_json, back="undo"
        )
        return
    if found.what == "delete":
        delete.carry_out(context, next(iter(found.dropped)), yes=yes, as_json=as_json, of=found)
        return
    agreed = None if yes else prune.plan_again(context.store, found)
    if agreed:
        prune_view.agree(context, agreed)
    prune_view.report(context, prune.again(context.store, found, agreed), as_json=as_json)
