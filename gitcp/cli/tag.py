"""`gitcp tag`."""

from __future__ import annotations

from typing import Any

import click

from gitcp.cli import humanize, objects
from gitcp.cli.context import Context
from gitcp.cli.options import REVISION, WORDS, Command, json_option, pass_context, session_option
from gitcp.cli.output import YELLOW, Styled
from gitcp.state import tag as op


@click.command(cls=Command)
@click.argument("name", required=False, type=WORDS, metavar="[NAME")
@click.argument("revision", required=False, type=REVISION, metavar="[REV]]")
@click.option(
    "--message",
    "-m",
    metavar="TEXT",
    type=WORDS,
    help="what the tag says (the label, unless it is said)",
)
@click.option("--force", "-f", is_flag=True, help="move a tag that is on another checkpoint")
@click.option("--delete", "-d", is_flag=True, help="take the tag away; its checkpoint stays")
@click.option("--list", "-l", "listing", is_flag=True, help="list the tags")
@session_option
@json_option
@pass_context
def command(context: Context, /, **given: Any) -> None:
    """Name a checkpoint, or list the names

    A tagged checkpoint is kept when others are pruned. The name is a revision by itself.

      gitcp tag before-migration
      gitcp tag works 12 -m "all tests pass"
      gitcp tag -d works
    """
    if given["name"] is None or given["listing"]:
        if given["name"] is not None or given["delete"] or given["force"]:
            raise click.UsageError("to list the tags, give nothing else; to set one, a name")
        _print_all(context, as_json=given["as_json"])
    elif given["delete"]:
        if given["revision"] is not None:
            raise click.UsageError("a tag is deleted by its name alone")
        op.delete(context.store, given["name"])
        _print_deleted(context, given)
    else:
        _create(context, given)


def _create(context: Context, given: dict[str, Any]) -> None:
    found = context.checkpoint(given["revision"] or "@", given["session"])
    op.create(
        context.store,
        given["name"],
        found,
        text=given["message"],
        force=given["force"],
        now=context.host.now(),
    )
    if given["as_json"]:
        _print_json(context, given["name"], objects.summary(context.store.summary(found.commit)))
    else:
        context.output.line("tagged ", Styled(str(found.id), YELLOW), f" {given['name']}")


def _print_deleted(context: Context, given: dict[str, Any]) -> None:
    if given["as_json"]:
        _print_json(context, given["name"], None)
    else:
        context.output.line(f"deleted tag {given['name']}")


def _print_json(context: Context, name: str, checkpoint: Any) -> None:
    context.output.document(objects.document("tag", {"name": name, "checkpoint": checkpoint}))


def _print_all(context: Context, *, as_json: bool) -> None:
    found = op.listing(context.store)
    if as_json:
        for name, summary in found:
            _print_json(context, name, objects.summary(summary))
        return
    from gitcp.cli.table import Column, show  # rich: only for a table

    now = context.host.now()
    columns = (
        Column("tag", "yellow"),
        Column("checkpoint"),
        Column("when"),
        Column("subject", cut=True),
    )
    rows = (
        (name, str(summary.id), humanize.ago(summary.created, now), summary.subject)
        for name, summary in found
    )
    show(context.output, columns, rows)
