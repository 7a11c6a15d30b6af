"""`gitcp sessions rename`."""

from __future__ import annotations

import click

from gitcp import documents, humanize
from gitcp.cli.context import Context
from gitcp.cli.options import SESSION, WORDS, Command, json_option
from gitcp.cli.output import BOLD, GREEN, Styled
from gitcp.lifecycle import rename as op
from gitcp.saving import session as session_op


@click.command(cls=Command)
@click.argument("name", type=SESSION, metavar="SESSION")
@click.argument("new", type=WORDS, metavar="NAME")
@json_option
@click.pass_obj
def command(context: Context, name: str, new: str, *, as_json: bool) -> None:
    """Rename a session

    Numbers, forks, tags, undo and the agent's conversation are kept. Commit ids change. Copies on
    remotes keep the old name.

      gitcp sessions rename e7ba postgres
    """
    done = op.rename(context.store, session_op.expand(context.store, name), new)
    if as_json:
        fields = {"session": done.new, "before": done.old, "checkpoints": done.count}
        context.output.document(documents.document("rename", fields))
    else:
        what = humanize.count(done.count, "checkpoint")
        context.output.line(
            Styled("renamed", GREEN), f" {done.old} to ", Styled(done.new, BOLD), f"  ({what})"
        )
