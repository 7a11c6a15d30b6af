"""`gitcp undo`."""

from __future__ import annotations

import click

from gitcp import humanize
from gitcp.cli import objects, restore_view
from gitcp.cli.context import Context
from gitcp.cli.options import (
    Command,
    Number,
    dry_run_option,
    json_option,
    keep_later_option,
    session_option,
    undo_later_option,
    yes_option,
)
from gitcp.cli.output import GREEN, Styled
from gitcp.errors import BadValue
from gitcp.model import CheckpointId
from gitcp.restoring import restore as op
from gitcp.restoring.undo import to_undo
from gitcp.state import trash
from gitcp.state.oplog import Operation


class OperationNumber(Number):
    """The number of an operation, which is not that of a checkpoint."""

    def read(self, text: str) -> int:
        try:
            return super().read(text)
        except ValueError:
            raise BadValue(
                f"{text!r} is not the number of an operation: nothing was changed",
                hint="gitcp log --operations",
            ) from None


@click.command(cls=Command)
@click.argument("operation", type=OperationNumber(1), required=False, metavar="[OPERATION]")
@dry_run_option
@keep_later_option
@undo_later_option
@yes_option
@session_option
@json_option
@click.pass_obj
def command(
    context: Context,
    operation: int | None,
    session: str | None,  # noqa: ARG001 -- it is on every command
    *,
    dry_run: bool,
    mine: bool,
    whole_tree: bool,
    yes: bool,
    as_json: bool,
) -> None:
    """Undo the last restore or delete

    Reverses what the restore changed and keeps what changed since, merged line by line. Changes
    that cannot be merged are listed, and nothing is changed; --whole-tree undoes them as well.
    Repeat it to undo earlier restores; `gitcp redo` redoes. A delete can also be undone by its
    number in `gitcp log --operations`.

      gitcp undo
      gitcp undo --yes
      gitcp undo 7
    """
    dropped = to_undo(context.store, operation)
    if dropped is not None and dry_run:
        _show(context, dropped, as_json=as_json)
    elif dropped is not None:
        _bring_back(context, dropped, as_json=as_json)
    else:
        restore_view.walk(
            context,
            op.undo,
            lambda known: known.undo,
            mine=mine,
            whole_tree=whole_tree,
            dry_run=dry_run,
            yes=yes,
            as_json=as_json,
            back="redo",
        )


def _show(context: Context, operation: Operation, *, as_json: bool) -> None:
    """Print what would be restored from the trash."""
    ids = [
        CheckpointId(session, number)
        for session, runs in operation.dropped.items()
        for first, last in runs
        for number in range(first, last + 1)
    ]
    if as_json:
        fields = {"operation": operation.number, "checkpoints": [str(id) for id in ids]}
        context.output.document(objects.document("brought-back", fields))
        return
    count = humanize.count(len(ids), "checkpoint")
    context.output.line(f"{count} would be restored from the trash: {trash.summarize(ids)}")


def _bring_back(context: Context, operation: Operation, *, as_json: bool) -> None:
    """Restore from the trash. Does not ask: nothing can be lost."""
    done = trash.bring_back(context.store, operation)
    if as_json:
        fields = {
            "operation": operation.number,
            "checkpoints": [str(id) for id in done.checkpoints],
        }
        context.output.document(objects.document("brought-back", fields))
        return
    count = humanize.count(len(done.checkpoints), "checkpoint")
    context.output.line(
        Styled("restored", GREEN),
        f" {count} from the trash: {trash.summarize(done.checkpoints)}",
    )
    context.output.line("redo with: gitcp redo")
