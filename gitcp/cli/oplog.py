"""`gitcp log --operations`."""

from __future__ import annotations

import click

from gitcp import documents, humanize, wire
from gitcp.cli.context import Context
from gitcp.cli.options import NUMBER, Command, json_option
from gitcp.cli.output import YELLOW
from gitcp.state import oplog
from gitcp.state.oplog import Operation


@click.command(cls=Command)
@click.option("-n", "limit", type=NUMBER, metavar="N", help="limit the number shown")
@json_option
@click.pass_obj
def command(context: Context, limit: int | None, *, as_json: bool) -> None:
    """List restores, undos and other operations

    Shows what changed files or checkpoints in all working trees, newest first, except saves.

      gitcp log --operations
      gitcp log --operations -n 5
    """
    operations = oplog.entries(context.store.repo)[::-1][:limit]
    if as_json:
        for operation in operations:
            context.output.document(documents.document("operation", _fields(operation)))
    else:
        _print(context, operations)


def _fields(operation: Operation) -> wire.Json:
    return {
        "number": operation.number,
        "time": wire.encode_time(operation.time),
        "operation": operation.what,
        "said": operation.summary,
        "worktree": operation.worktree,
        "checkpoints": [str(id) for id in operation.checkpoints],
        "trash": operation.trash,
        "of": operation.of,
        "automatic": operation.automatic,
    }


def _print(context: Context, operations: tuple[Operation, ...]) -> None:
    from gitcp.cli.table import TableColumn, show  # only for a table

    columns = (
        TableColumn("", right=True),
        TableColumn("when"),
        TableColumn("operation", YELLOW),
        TableColumn("what", cut=True),
    )
    now = context.host.now()
    rows = (
        (str(each.number), humanize.ago(each.time, now), _name(each), each.summary)
        for each in operations
    )
    show(context.output, columns, rows)


def _name(operation: Operation) -> str:
    of = f" of {operation.of}" if operation.of is not None else ""
    return operation.what + of + (" (automatic)" if operation.automatic else "")
