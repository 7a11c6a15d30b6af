"""`gitcp redo`."""

from __future__ import annotations

from gitcp.cli import delete, prune_view, restore_view
from gitcp.cli.context import Context
from gitcp.cli.options import json_option, session_option, takes, yes_option
from gitcp.lifecycle import prune
from gitcp.restoring import restore as op
from gitcp.restoring.undo import to_redo


@takes(
    yes_option,
    session_option,
    json_option,
)
def command(context: Context, session: str | None, *, yes: bool, as_json: bool) -> None:  # noqa: ARG001
    """Redo what was undone

    Restores the state from before the last undo, or drops again what it restored from the trash.

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
    agreed = None if yes else prune.plan_redo(context.store, found)
    if agreed:
        prune_view.agree(context, agreed)
    prune_view.report(context, prune.redo(context.store, found, agreed), as_json=as_json)
