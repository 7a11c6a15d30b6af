"""`gitcp rename`."""

from __future__ import annotations

import click

from gitcp.cli import humanize, objects
from gitcp.cli.context import Context
from gitcp.cli.options import WORDS, Command, json_option, pass_context
from gitcp.cli.output import BOLD, GREEN, Styled
from gitcp.lifecycle import rename as op
from gitcp.saving import session as session_op


@click.command(cls=Command)
@click.argument("name", type=WORDS, metavar="SESSION")
@click.argument("new", type=WORDS, metavar="NAME")
@json_option
@pass_context
def command(context: Context, name: str, new: str, *, as_json: bool) -> None:
    """Give a session another name

    Numbers stay; forks, tags, undo and the agent's conversation stay with it. Commits get other
    names, as their checkpoints say another one. What was pushed keeps the old name where it is.

      gitcp rename e7ba postgres
    """
    done = op.rename(context.store, session_op.expand(context.store.sessions(), name), new)
    if as_json:
        fields = {"session": done.new, "before": done.old, "checkpoints": done.count}
        context.output.document(objects.document("rename", fields))
    else:
        what = humanize.count(done.count, "checkpoint")
        context.output.line(
            Styled("renamed", GREEN), f" {done.old} to ", Styled(done.new, BOLD), f"  ({what})"
        )
