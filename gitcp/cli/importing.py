"""`gitcp import`. The module cannot have the command's name: `import` is a keyword of Python."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
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
from gitcp.sharing import entire
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

MOST = 5
"""Reasons that are listed."""


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
    metavar="DIR|entire",
    multiple=True,
    help="a former directory of this repository, or what Entire recorded",
)
@dry_run_option
@yes_option
@json_option
@click.pass_obj
def command(context: Context, /, *, file: str | None, **values: Any) -> None:
    """Import agents' conversations, or a file

    Without FILE, imports what agents keep about this repository on this machine, without files,
    before they delete it. FILE is a bundle, JSON messages or a transcript (--agent names its
    format); with --from entire a remote or a path, if not this repository. Its sessions are
    verified and named imported/SESSION; restoring one needs --trust.

      gitcp import --dry-run
      gitcp import --all --yes
      gitcp import session.bundle
    """
    given = adopt.Options(**values)
    if given.former == (entire.NAME.encode(),):
        _from_entire(context, file, given)
        return
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


# ---------------------------------------------------------------- from Entire


def _from_entire(context: Context, source: str | None, given: adopt.Options) -> None:
    if given.agent or given.since or given.everywhere:
        raise BadValue(
            "--from entire imports all that Entire recorded: nothing was imported",
            hint="gitcp import --from entire --dry-run",
        )
    if source is not None and (context.cwd / source).is_dir():
        source = str(context.cwd / source)
    planned = entire.plan(context.store, source)
    if given.dry_run:
        _show_plan(context, planned, as_json=given.as_json)
        return
    imports, unread = entire.apply(context.store, planned)
    refused = {**planned.refused, **unread, **{o.revision: o.refused for o in imports if o.refused}}
    if given.as_json:
        for one in imports:
            context.output.document(documents.document("imported", one.to_json()))
    else:
        _print_imports(context, planned, [one for one in imports if not one.refused])
    _say_refused(context, refused)
    end(IN_PART if refused else 0)


def _show_plan(context: Context, planned: entire.EntirePlan, *, as_json: bool) -> None:
    if as_json:
        context.output.document(documents.document("import-plan", planned.to_json()))
        return
    sessions = len({one.session for one in planned.new})
    context.output.line(
        f"to import: {humanize.count(len(planned.new), 'conversation')} of "
        f"{humanize.count(sessions, 'session')}"
    )
    _print_links(context, planned)
    _say_refused(context, planned.refused)


def _print_imports(
    context: Context, planned: entire.EntirePlan, imports: Sequence[Imported]
) -> None:
    """Print what was imported, the last sessions by name."""
    output = context.output
    if not imports:
        output.line(f"nothing new: {humanize.count(planned.again, 'conversation')} stored already")
        return
    checkpoints = humanize.count(sum(one.checkpoints for one in imports), "checkpoint")
    sessions = humanize.count(len(imports), "session")
    output.line(Styled("imported", GREEN), f" {checkpoints} in {sessions} from Entire")
    _print_links(context, planned)
    newest = imports[-1].revision
    output.line(f"show: gitcp log {newest}, continue: gitcp restore {newest} --trust")


def _print_links(context: Context, planned: entire.EntirePlan) -> None:
    line, what = context.output.line, planned.checkpoints
    line(f"  {humanize.count(what, 'checkpoint')} of Entire")
    if planned.again:
        line(f"  {humanize.count(planned.again, 'conversation')} imported before")
    if planned.lost:
        line(f"  {planned.lost:,} of a commit that is not here: conversation only")
    if planned.squashed:
        line(f"  {planned.squashed:,} in one commit with others: all with the files of that commit")


def _say_refused(context: Context, refused: Mapping[str, str]) -> None:
    reasons = Counter(refused.values())
    lines = [
        f"not imported: {humanize.count(number, 'conversation')}: {reason}"
        for reason, number in reasons.most_common()
    ]
    for line in humanize.listed(lines, MOST):
        context.output.say(line)
