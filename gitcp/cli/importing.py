"""`gitcp import`. The module cannot have the command's name: `import` is a keyword of Python."""

from __future__ import annotations

import click

from gitcp import humanize, wire
from gitcp.cli import objects
from gitcp.cli.agent_names import RECORDED_NAME
from gitcp.cli.context import Context
from gitcp.cli.failure import IN_PART, end
from gitcp.cli.options import Command, json_option
from gitcp.cli.output import GREEN, RED, Styled
from gitcp.errors import StoreDamaged
from gitcp.sharing import importing as op
from gitcp.sharing.importing import Imported


@click.command(cls=Command)
@click.argument("file", metavar="FILE")
@click.option(
    "--agent",
    type=RECORDED_NAME,
    metavar="NAME",
    help="the transcript's agent, if it is not detected",
)
@json_option
@click.pass_obj
def command(context: Context, /, *, file: str, agent: str | None, as_json: bool) -> None:
    """Import a bundle, JSON messages or a transcript

    Imported sessions are verified, then named imported/SESSION; your own sessions are unchanged.
    Restoring one needs --trust, because it comes from another repository.

      gitcp import session.bundle
      gitcp log imported/e7baae82
      gitcp restore imported/e7baae82 --trust
    """
    request = op.ImportRequest(context.cwd / file, agent, context.limits())
    imports = op.import_file(context.store, request)
    for one in imports:
        if as_json:
            context.output.document(objects.document("imported", _fields(one)))
        else:
            _print(context, one)
    refused = [one for one in imports if one.refused]
    if refused and len(refused) == len(imports):
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
    new = humanize.count(one.checkpoints, "new checkpoint")
    context.output.line(Styled("imported", GREEN), f" {name}  ({new})")
    context.output.line(f"show: gitcp show {name}, continue: gitcp restore {name} --trust")
