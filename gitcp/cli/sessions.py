"""`gitcp sessions`."""

from __future__ import annotations

from itertools import islice

import click

from gitcp import wire
from gitcp.cli import filters, humanize, objects
from gitcp.cli.context import Context
from gitcp.cli.options import WORDS, Command, json_option, pass_context, session_option
from gitcp.history import sessions as op
from gitcp.history.sessions import Selection, Session


@click.command(cls=Command)
@click.option("-n", "limit", metavar="N", type=click.IntRange(min=0), help="list at most so many")
@click.option("--agent", metavar="NAME", type=WORDS, help="only those of this agent")
@click.option("--since", metavar="TIME", type=WORDS, help="only those saved at this time or later")
@click.option(
    "--grep",
    metavar="REGEX",
    type=WORDS,
    help="only those whose name, title or last prompt matches",
)
@click.option("--fetched", is_flag=True, help="list those that were fetched or imported instead")
@session_option
@json_option
@pass_context
def command(
    context: Context,
    limit: int | None,
    agent: str | None,
    since: str | None,
    grep: str | None,
    session: str | None,
    *,
    fetched: bool,
    as_json: bool,
) -> None:
    """List all sessions

    The one saved last comes first; the current one is marked.

      gitcp sessions
      gitcp sessions --agent codex --since yesterday
      gitcp sessions --grep migration
      gitcp sessions --fetched
      gitcp log --session e7ba
    """
    wanted = Selection(
        agent, filters.time(context, since, end=False), filters.pattern(grep, "gitcp sessions -h")
    )
    found, damaged = op.listing(context.store, op.fetched(context.store) if fetched else None)
    for name, error in damaged:
        context.output.say(f"note: session {name} cannot be read: {error}")
    chosen = tuple(islice(filter(wanted.takes, found), limit))
    current = context.current(session)
    if as_json:
        for each in chosen:
            context.output.document(objects.document("session", _fields(each, current)))
    else:
        _print(context, chosen, current)


def _fields(session: Session, current: str | None) -> wire.Json:
    return {
        "session": session.name,
        "current": session.name == current,
        "agent": objects.agent(session.last.agent),
        "title": session.title or None,
        "last_prompt": session.last_prompt or None,
        "checkpoints": session.count,
        "last": str(session.last.id),
        "saved": wire.encode_time(session.last.created),
        "tags": list(session.tags),
        "forked_from": session.forked_from,
    }


def _print(context: Context, found: tuple[Session, ...], current: str | None) -> None:
    from gitcp.cli.table import Column, show  # rich: only for a table

    columns = (
        Column(""),
        Column("session", "yellow"),
        Column("agent", "dim"),
        Column("checkpoints", right=True),
        Column("last saved"),
        Column("forked from"),
        Column("tags", "yellow", cut=True),
        Column("about", cut=True),
        Column("last prompt", cut=True),
    )
    now = context.host.now()
    rows = (
        (
            "*" if session.name == current else "",
            session.name,
            session.last.agent.name if session.last.agent else "",
            str(session.count),
            humanize.ago(session.last.created, now),
            session.forked_from or "",
            ", ".join(session.tags),
            session.title,
            session.last_prompt if session.last_prompt != session.title else "",
        )
        for session in found
    )
    show(context.output, columns, rows)
