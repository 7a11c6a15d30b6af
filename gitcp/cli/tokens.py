"""`gitcp sessions --tokens`."""

from __future__ import annotations

from typing import Any

import click

from gitcp import documents, wire
from gitcp.cli import rendering, table
from gitcp.cli.context import Context
from gitcp.cli.options import Command, OneOf, json_option, replace_option, session_option
from gitcp.cli.output import DIM, YELLOW
from gitcp.cli.table import TableColumn
from gitcp.history import prices
from gitcp.history import tokens as op
from gitcp.history.tokens import BY, Request, Tokens
from gitcp.sharing import output_file
from gitcp.sharing.output_file import STDOUT
from gitcp.value import Value

UNKNOWN = "—"
Costs = dict[str, float | None]
KINDS = ("input", "cache written", "cache read", "output", "total", "abandoned")


class Options(Value):
    """What was typed."""

    by: str
    file: str | None
    force: bool
    session: str | None
    as_json: bool


@click.command(cls=Command)
@click.option(
    "--by", type=OneOf(BY), metavar="WHAT", default="session", help=f"{', '.join(BY)} (session)"
)
@click.option("-o", "file", metavar="FILE", help="write a page with bars to FILE (- is stdout)")
@replace_option
@session_option
@json_option
@click.pass_obj
def command(context: Context, /, **values: Any) -> None:
    """Show the tokens that conversations used

    Counts each request to a model once, as the agents recorded it. `abandoned` are the tokens of
    turns that a restore took back. Costs are those that an agent reported, else by your prices in
    ~/.config/gitcp/prices.toml.

      gitcp sessions --tokens
      gitcp sessions --tokens --by day
      gitcp sessions --tokens -o tokens.html --session e7ba
    """
    given = Options(**values)
    if given.file not in (None, STDOUT):
        output_file.chosen(context.cwd, given.file, force=given.force)
    requests, known = _requests(context, given.session), prices.load(context.host)
    if given.file is not None:
        from gitcp.review.pages.tokens import render  # jinja2: only for the page

        rendering.write_page(context, given.file, render(requests, known), force=given.force)
        return
    sums, costs = op.counted(requests, given.by), prices.costs(requests, given.by, known)
    total = Tokens()
    for each in sums.values():
        total = total.plus(each)
    if given.as_json:
        rows = [{"name": key, **_fields(each, costs[key])} for key, each in sums.items()]
        document = {"by": given.by, "rows": rows, "total": _fields(total, _sum(costs))}
        context.output.document(documents.document("tokens", document))
    elif not sums:
        context.output.say("no tokens: no conversation here records them")
    else:
        _print(context, given.by, sums, total, costs)


def _requests(context: Context, session: str | None) -> list[Request]:
    """Return the requests of one session, or of all."""
    store = context.store
    name = context.viewed_session(session) if session is not None else None
    tips = {**store.sessions(), **store.fetched()}
    chosen = {each: tip for each, tip in tips.items() if name in (None, each)}
    readable = {each: tip for each, tip in chosen.items() if store.has_summary(tip)}
    return list(op.of_sessions(store, readable).values())


def _sum(costs: Costs) -> float | None:
    known = [each for each in costs.values() if each is not None]
    return sum(known) if known and len(known) == len(costs) else None


def _print(context: Context, by: str, sums: dict[str, Tokens], total: Tokens, costs: Costs) -> None:
    columns = [
        TableColumn(by, YELLOW, cut=True),
        *(TableColumn(kind, right=True) for kind in KINDS),
    ]
    columns += [TableColumn("cost ($)", right=True), TableColumn("requests", DIM, right=True)]
    is_priced = any(each is not None for each in costs.values())
    rows = [(key, *_cells(each, costs[key], is_priced)) for key, each in sums.items()]
    if len(rows) > 1:
        rows.append(("total", *_cells(total, _sum(costs), is_priced)))
    table.show(context.output, columns, rows)


def _cells(tokens: Tokens, cost: float | None, is_priced: bool) -> tuple[str, ...]:
    numbers = (
        *(tokens.input, tokens.cache_write, tokens.cache_read, tokens.output),
        *(tokens.total, tokens.abandoned),
    )
    known = f"{cost:,.2f}" if cost is not None else UNKNOWN
    return (*(f"{n:,}" for n in numbers), known if is_priced else "", f"{tokens.requests:,}")


def _fields(tokens: Tokens, cost: float | None) -> wire.Json:
    return {**tokens.to_json(), "abandoned": tokens.abandoned, "cost": cost}
