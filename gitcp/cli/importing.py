"""`gitcp import`. The module cannot have the command's name: Python keeps that for itself."""

from __future__ import annotations

import click

from gitcp import wire
from gitcp.cli import humanize, objects
from gitcp.cli.context import Context
from gitcp.cli.failure import IN_PART, end
from gitcp.cli.options import WORDS, Command, json_option, pass_context
from gitcp.cli.output import GREEN, RED, Styled
from gitcp.errors import StoreDamaged
from gitcp.sharing import importing as op
from gitcp.sharing.importing import Imported


@click.command("import", cls=Command)
@click.argument("file", metavar="FILE")
@click.option(
    "--agent",
    metavar="NAME",
    type=WORDS,
    help="say whose transcript it is, where that is not found out",
)
@json_option
@pass_context
def command(context: Context, /, *, file: str, agent: str | None, as_json: bool) -> None:
    """Take in what somebody exported: a bundle, JSON, or an agent's transcript

    What is in FILE is checked whole before it gets a name, and your own sessions stay as they are.
    It is then called imported/SESSION. Restoring it needs --trust: it comes from somebody else.

      gitcp import session.bundle
      gitcp log imported/e7baae82
      gitcp restore imported/e7baae82 --trust
    """
    request = op.Request(context.cwd / file, agent, context.limits())
    found = op.take(context.store, request)
    for one in found:
        if as_json:
            context.output.document(objects.document("imported", _fields(one)))
        else:
            _print(context, one)
    refused = [one for one in found if one.refused]
    if refused and len(refused) == len(found):
        raise StoreDamaged(f"nothing was imported. {refused[0].session}: {refused[0].refused}")
    end(IN_PART if refused else 0)


def _fields(one: Imported) -> wire.Json:
    return {
        "revision": one.revision,
        "session": one.session,
        "commit": one.tip,
        "checkpoints": one.checkpoints,
        "refused": one.refused or None,
    }


def _print(context: Context, one: Imported) -> None:
    name = one.revision
    if one.refused:
        context.output.line(Styled("refused", RED), f" {name}: {one.refused}")
        return
    new = humanize.count(one.checkpoints, "checkpoint") + " new"
    context.output.line(Styled("imported", GREEN), f" {name}  ({new})")
    context.output.line(f"look: gitcp show {name}, continue: gitcp restore {name} --trust")
