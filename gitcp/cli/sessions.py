"""`gitcp sessions`."""

from __future__ import annotations

import click

from gitcp import wire
from gitcp.cli import objects, words
from gitcp.cli.context import Context
from gitcp.cli.options import Command, json_option, pass_context, session_option
from gitcp.ops.sessions import Session, listing


@click.command(cls=Command)
@session_option
@json_option
@pass_context
def command(context: Context, session: str | None, *, as_json: bool) -> None:
    """List all sessions

    The one saved last comes first; the current one is marked.

      gitcp sessions
      gitcp log --session e7ba
    """
    found, damaged = listing(context.store)
    for name, error in damaged:
        context.output.say(f"note: session {name} cannot be read: {error}")
    current = context.current(session)
    if as_json:
        for each in found:
            context.output.document(objects.document("session", _fields(each, current)))
    else:
        _print(context, found, current)


def _fields(session: Session, current: str | None) -> wire.Json:
    return {
        "session": session.name,
        "current": session.name == current,
        "agent": objects.agent(session.last.agent),
        "title": session.title or None,
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
    )
    now = context.host.now()
    rows = (
        (
            "*" if session.name == current else "",
            session.name,
            session.last.agent.name if session.last.agent else "",
            str(session.count),
            words.ago(session.last.created, now),
            session.forked_from or "",
            ", ".join(session.tags),
            session.title,
        )
        for session in found
    )
    show(context.output, columns, rows)
