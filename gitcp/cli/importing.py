"""`gitcp import`. The module cannot have the command's name: `import` is a keyword of Python."""

from __future__ import annotations

from typing import Any

import click

from gitcp import documents, humanize
from gitcp.cli import adopt
from gitcp.cli.agent_names import RECORDED_NAME
from gitcp.cli.context import Context
from gitcp.cli.failure import IN_PART, end
from gitcp.cli.options import PATH, WORDS, Command, dry_run_option, json_option, yes_option
from gitcp.cli.output import GREEN, RED, Styled
from gitcp.errors import BadValue
from gitcp.sharing import importing as op
from gitcp.sharing.importing import Imported

WITHOUT_FILE = {
    "everywhere": "--all",
    "since": "--since",
    "former": "--from",
    "dry_run": "--dry-run",
    "yes": "--yes",
}
"""Options about the conversations that agents keep."""


@click.command(cls=Command)
@click.argument("file", required=False, metavar="[FILE]")
@click.option("--agent", type=RECORDED_NAME, metavar="NAME", help="only this agent's conversations")
@click.option("--all", "everywhere", is_flag=True, help="for every repository on this machine")
@click.option(
    "--since", type=WORDS, metavar="TIME", help="only conversations written since then (7 days ago)"
)
@click.option(
    "--from",
    "former",
    type=PATH,
    metavar="DIR",
    multiple=True,
    help="a former directory of this repository (repeatable)",
)
@dry_run_option
@yes_option
@json_option
@click.pass_obj
def command(context: Context, /, *, file: str | None, **values: Any) -> None:
    """Import agents' conversations, or a file

    Without FILE, imports what agents keep about this repository on this machine, without files:
    agents delete it after 30 days, with an update, when a directory moves. FILE is a bundle, JSON
    messages or a transcript (--agent names its format). Its sessions are verified and named
    imported/SESSION; restoring one needs --trust.

      gitcp import --dry-run
      gitcp import --all --yes
      gitcp import session.bundle
    """
    given = adopt.Options(**values)
    if file is None:
        adopt.adopt(context, given)
        return
    other = next((name for target, name in WITHOUT_FILE.items() if getattr(given, target)), None)
    if other:
        raise BadValue(
            f"FILE and {other} cannot be used together: nothing was imported",
            hint="gitcp import -h",
        )
    _import(context, file, given.agent, as_json=given.as_json)


def _import(context: Context, file: str, agent: str | None, *, as_json: bool) -> None:
    request = op.ImportRequest(context.cwd / file, agent, context.limits())
    imports = op.import_file(context.store, request)
    for one in imports:
        if as_json:
            context.output.document(documents.document("imported", one.to_json()))
        else:
            _print(context, one)
    op.require_accepted(imports)
    end(IN_PART if any(one.refused for one in imports) else 0)


def _print(context: Context, one: Imported) -> None:
    name = one.revision
    if one.refused:
        context.output.line(Styled("refused", RED), f" {name}: {one.refused}")
        return
    new = humanize.count(one.checkpoints, "new checkpoint")
    context.output.line(Styled("imported", GREEN), f" {name}  ({new})")
    context.output.line(f"show: gitcp show {name}, continue: gitcp restore {name} --trust")
