"""`gitcp adapters`."""

from __future__ import annotations

import click

from gitcp import adapters, documents, wire
from gitcp.adapters import Known
from gitcp.cli.context import Context
from gitcp.cli.options import Command, json_option
from gitcp.cli.output import DIM, RED, YELLOW, Styled
from gitcp.cli.table import TableColumn, show

ABILITIES = ("save", "place", "resume", "hooks", "tokens", "convert")


@click.command(cls=Command)
@json_option
@click.pass_obj
def command(context: Context, *, as_json: bool) -> None:
    """List the agents gitcp saves, or test a file for one

    Lists built-in ones, those of installed packages, and those that a file in
    ~/.config/gitcp/adapters describes, each with what works.

      gitcp adapters
      gitcp adapters check ~/.config/gitcp/adapters/mine.toml
    """
    listed = adapters.known()
    if as_json:
        rows = [_fields(each) for each in listed]
        context.output.document(documents.document("adapters", {"adapters": rows}))
        return
    columns = [TableColumn("agent", YELLOW), TableColumn("from", DIM)]
    columns += [TableColumn(ability) for ability in ABILITIES]
    show(context.output, columns, map(_row, listed))
    for each in listed:
        if each.problem:
            context.output.line(Styled("problem  ", RED), each.problem)


def _row(known: Known) -> tuple[str, ...]:
    return (
        known.name,
        known.source,
        *("yes" if ability in known.abilities else "" for ability in ABILITIES),
    )


def _fields(known: Known) -> wire.Json:
    fields = {"name": known.name, "title": known.title, "from": known.source}
    can = {ability: ability in known.abilities for ability in ABILITIES}
    return {**fields, **can, "problem": known.problem or None}
