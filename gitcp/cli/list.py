"""`gitcp list`."""

from __future__ import annotations

import click

from gitcp.cli import humanize, objects
from gitcp.cli.context import Context
from gitcp.cli.options import Command, json_option, pass_context, session_option
from gitcp.history.log import Selection, select
from gitcp.store import Summary


@click.command(cls=Command)
@click.option(
    "-n",
    "limit",
    metavar="N",
    type=click.IntRange(min=0),
    default=20,
    help="list at most so many (20)",
)
@click.option("--all", "everything", is_flag=True, help="list the checkpoints of every session")
@session_option
@json_option
@pass_context
def command(
    context: Context, limit: int, session: str | None, *, everything: bool, as_json: bool
) -> None:
    """List the checkpoints of the session in a short table

    The newest is the last one, nearest to where you type.

      gitcp list
      gitcp list --all -n 50
    """
    sessions = context.store.sessions()
    tips = list(sessions.values()) if everything else [sessions[context.session(session)]]
    found = list(select(context.store, tips, Selection(limit=limit)))[::-1]
    if as_json:
        for summary in found:
            fields = objects.checkpoint(
                context.store.read(summary.commit), context.tags.get(summary.commit, ())
            )
            context.output.document(objects.document("checkpoint", fields))
        return
    with context.output.paged(context.core_pager):
        _print(context, found, whole=everything)


def _print(context: Context, found: list[Summary], *, whole: bool) -> None:
    from gitcp.cli.table import Column, show  # rich: only for a table

    now = context.host.now()
    columns = (
        Column("id" if whole else "#", "yellow", right=not whole),
        Column("when"),
        Column("trigger", "dim"),
        Column("files", right=True),
        Column("messages", right=True),
        Column("tags", "yellow"),
        Column("subject", cut=True),
    )
    rows = (
        (
            str(summary.id) if whole else str(summary.id.number),
            humanize.ago(summary.created, now),
            summary.trailers.get("Gitcp-Trigger", ""),
            _changed(summary),
            summary.trailers.get("Gitcp-Messages", ""),
            ", ".join(context.tags.get(summary.commit, ())),
            summary.subject,
        )
        for summary in found
    )
    show(context.output, columns, rows)


def _changed(summary: Summary) -> str:
    """How many files changed: the number in `7 (3 changed)`."""
    return summary.trailers.get("Gitcp-Files", "").partition("(")[2].partition(" ")[0]
