"""`gitcp redo`."""

from __future__ import annotations

import click

from gitcp.cli import delete, prune_view, restore_view
from gitcp.cli.context import Context
from gitcp.cli.options import (
    Command,
    dry_run_option,
    json_option,
    keep_later_option,
    state_option,
    undo_later_option,
    yes_option,
)
from gitcp.lifecycle import prune
from gitcp.restoring import restore as op
from gitcp.restoring.undo import to_redo


@click.command(cls=Command)
@dry_run_option
@keep_later_option
@undo_later_option
@state_option
@yes_option
@json_option
@click.pass_obj
def command(
    context: Context,
    *,
    dry_run: bool,
    mine: bool,
    whole_tree: bool,
    state: bool,
    yes: bool,
    as_json: bool,
) -> None:
    """Redo what was undone

    Keeps what changed since, as undo does; or drops again what undo restored from the trash.

      gitcp redo
      gitcp redo --yes
    """
    operation = to_redo(context.store)
    if operation is None:
        restore_view.walk(
            context,
            op.redo,
            lambda known: known.redo,
            mine=mine,
            whole_tree=whole_tree,
            state=state,
            dry_run=dry_run,
            yes=yes,
            as_json=as_json,
            back="undo",
        )
        return
    if dry_run:
        prune_view.show(context, prune.plan_redo(context.store, operation), as_json=as_json)
        return
    if operation.what == "delete":
        delete.carry_out(
            context, next(iter(operation.dropped)), yes=yes, as_json=as_json, of=operation
        )
        return
    agreed = None if yes else prune.plan_redo(context.store, operation)
    if agreed:
        prune_view.agree(context, agreed)
    prune_view.report(context, prune.redo(context.store, operation, agreed), as_json=as_json)
