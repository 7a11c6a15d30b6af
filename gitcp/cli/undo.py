"""`gitcp undo`."""

from __future__ import annotations

from collections.abc import Sequence

import click

from gitcp import documents, humanize
from gitcp.cli import confirm, restore_view
from gitcp.cli.context import Context
from gitcp.cli.options import (
    Command,
    Number,
    dry_run_option,
    json_option,
    keep_later_option,
    state_option,
    undo_later_option,
    yes_option,
)
from gitcp.cli.output import GREEN, Part, Styled
from gitcp.errors import BadValue
from gitcp.restoring import restore as op
from gitcp.restoring.undo import to_undo
from gitcp.state import trash
from gitcp.state.oplog import Operation
from gitcp.state.trash import Restored

REDO = "redo with: gitcp redo"


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
@state_option
@yes_option
@json_option
@click.pass_obj
def command(
    context: Context,
    operation: int | None,
    *,
    dry_run: bool,
    mine: bool,
    whole_tree: bool,
    state: bool,
    yes: bool,
    as_json: bool,
) -> None:
    """Undo the last restore or delete

    Keeps what changed since, merged line by line. Changes that cannot be merged are listed, and
    nothing is changed. Repeat it to undo earlier restores; `gitcp redo` redoes. OPERATION is a
    delete's number in `gitcp log --operations`.

      gitcp undo
      gitcp undo --yes
      gitcp undo 7
    """
    dropped = to_undo(context.store, operation)
    if dropped is not None:
        _bring_back(context, dropped, dry_run=dry_run, yes=yes, as_json=as_json)
    else:
        restore_view.walk(
            context,
            op.undo,
            lambda known: known.undo,
            mine=mine,
            whole_tree=whole_tree,
            state=state,
            dry_run=dry_run,
            yes=yes,
            as_json=as_json,
            back="redo",
        )


def _bring_back(
    context: Context, operation: Operation, *, dry_run: bool, yes: bool, as_json: bool
) -> None:
    """Restore from the trash. Asks on a terminal; elsewhere it is done, since nothing can be
    lost.
    """
    if dry_run or (context.output.can_ask and not yes):
        planned = trash.planned(context.store, operation)
        plan = [f"restore {each}" for each in _extents(planned)] or [_nothing(operation)]
        if dry_run:
            _print(context, planned, [(line,) for line in plan], as_json=as_json)
            return
        no = "not restored: nothing was changed"
        confirm.ask(context, "Restore?", plan, nobody="nothing was changed", no=no)
    done = trash.bring_back(context.store, operation).restored
    lines: list[Sequence[Part]] = [
        (Styled("restored", GREEN), f" {each}") for each in _extents(done)
    ]
    lines = lines or [(_nothing(operation),)]
    # What gitcp did by itself is nobody's last step: `redo` does not know it.
    back = () if operation.automatic else ((REDO,),)
    _print(context, done, [*lines, *back], as_json=as_json)


def _print(
    context: Context, restored: Restored, lines: Sequence[Sequence[Part]], *, as_json: bool
) -> None:
    if as_json:
        context.output.document(documents.document("brought-back", restored.to_json()))
        return
    for line in lines:
        context.output.line(*line)


def _extents(restored: Restored) -> list[str]:
    """Return what is restored from the trash, nothing if all of it is here again."""
    ids, tags = restored.checkpoints, restored.tags
    count = humanize.count(len(ids), "checkpoint")
    of_ids = [f"{count} from the trash: {trash.summarize(ids)}"] if ids else []
    return of_ids + ([f"{'tag' if len(tags) == 1 else 'tags'} {', '.join(tags)}"] if tags else [])


def _nothing(operation: Operation) -> str:
    what = f"operation {operation.number} ({operation.what})"
    return f"nothing to restore: what {what} dropped is here again"
