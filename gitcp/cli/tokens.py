"""`gitcp sessions --tokens`."""

from __future__ import annotations

import click

from gitcp import wire
from gitcp.cli import objects, table
from gitcp.cli.context import Context
from gitcp.cli.options import Command, OneOf, json_option, session_option
from gitcp.cli.output import DIM, YELLOW
from gitcp.cli.table import Column
from gitcp.history import tokens as op
from gitcp.history.tokens import BY, Tokens

KINDS = ("input", "cache written", "cache read", "output", "total", "abandoned")


@click.command(cls=Command)
@click.option(
    "--by", type=OneOf(BY), metavar="WHAT", default="session", help=f"{', '.join(BY)} (session)"
)
@session_option
@json_option
@click.pass_obj
def command(context: Context, by: str, session: str | None, *, as_json: bool) -> None:
    """Show the tokens that conversations used

    Counts each request to a model once, also those of sub-agents, as the agents recorded them;
    Copilot CLI records none. `abandoned` are the tokens of turns that a restore took back. Counts
    all sessions of this repository, or the one given with --session.

      gitcp sessions --tokens
      gitcp sessions --tokens --by day
      gitcp sessions --tokens --by model --session e7ba
    """
    store = context.store
    name = context.viewed_session(session) if session is not None else None
    tips = {**store.sessions(), **store.fetched()}
    chosen = {each: tip for each, tip in tips.items() if name in (None, each)}
    readable = {each: tip for each, tip in chosen.items() if store.has_summary(tip)}
    sums = op.counted(op.of_sessions(store, readable).values(), by)
    total = Tokens()
    for each in sums.values():
        total = total.plus(each)
    if as_json:
        rows = [{"name": key, **_fields(each)} for key, each in sums.items()]
        document = {"by": by, "rows": rows, "total": _fields(total)}
        context.output.document(objects.document("tokens", document))
    elif not sums:
        context.output.say("no tokens: no conversation here records them")
    else:
        _print(context, by, sums, total)


def _print(context: Context, by: str, sums: dict[str, Tokens], total: Tokens) -> None:
    columns = [Column(by, YELLOW, cut=True), *(Column(kind, right=True) for kind in KINDS)]
    columns.append(Column("requests", DIM, right=True))
    rows = [(key, *_cells(each)) for key, each in sums.items()]
    if len(rows) > 1:
        rows.append(("total", *_cells(total)))
    table.show(context.output, columns, rows)


def _cells(tokens: Tokens) -> tuple[str, ...]:
    numbers = (
        *(tokens.input, tokens.cache_write, tokens.cache_read, tokens.output),
        *(tokens.total, tokens.abandoned, tokens.requests),
    )
    return tuple(f"{number:,}" for number in numbers)


def _fields(tokens: Tokens) -> wire.Json:
    return {**tokens._asdict(), "total": tokens.total}
