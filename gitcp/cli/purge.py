"""`gitcp purge`."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from typing import Any

import click

from gitcp import wire
from gitcp.cli import confirm, humanize, objects
from gitcp.cli.context import Context
from gitcp.cli.options import WORDS, Command, json_option, pass_context, session_option, yes_option
from gitcp.cli.output import GREEN, YELLOW, Styled
from gitcp.git import refs
from gitcp.lifecycle import purge as op
from gitcp.lifecycle.purge import Plan, Report, Request
from gitcp.state import trash
from gitcp.worktree.paths import display

PATH = click.Path(path_type=bytes)
FREE = "git gc --prune=now"


@click.command(cls=Command)
@click.option(
    "--text", metavar="TEXT", type=WORDS, help="what is to go; - reads it from standard input"
)
@click.option(
    "--secret", metavar="ID", type=WORDS, help="the secret that `gitcp secrets` lists by this ID"
)
@click.option(
    "--path",
    "paths",
    metavar="PATH",
    multiple=True,
    type=PATH,
    help="a path, with all below it (repeatable)",
)
@click.option("--dry-run", "-n", is_flag=True, help="show what would be changed and change nothing")
@yes_option
@session_option
@json_option
@pass_context
def command(context: Context, /, **given: Any) -> None:
    """Take a text or a path out of every checkpoint

    Out of all sessions, tags and the trash, and out of what gitcp keeps beside them. Ids stay, and
    every checkpoint can be restored as before. There is no undo. Your files, the agent's own
    transcripts and git's history are not touched, and what was pushed is still there: it is said
    where.

      gitcp purge --secret 3f0c9a1b22d4
      gitcp purge --text - < secret.txt
      gitcp purge --path .env --dry-run
    """
    request = _request(context, given)
    if given["dry_run"]:
        _show(context, op.plan(context.store, request), as_json=given["as_json"])
        return
    if not given["yes"]:
        _agree(context, op.plan(context.store, request))
    _report(context, request, op.purge(context.store, request), as_json=given["as_json"])


def _request(context: Context, given: dict[str, Any]) -> Request:
    if sum(map(bool, (given["text"] is not None, given["secret"], given["paths"]))) != 1:
        raise click.UsageError("give one of --text, --secret and --path")
    if given["paths"]:
        return op.of_paths(context.inside(given["paths"]))
    if given["secret"]:
        return op.of_secret(context.store, given["secret"])
    if given["text"] == "-":
        return op.of_text(sys.stdin.buffer.read().removesuffix(b"\n"))
    return op.of_text(os.fsencode(given["text"]))


def _agree(context: Context, plan: Plan) -> None:
    if not plan:
        return
    no, hint = "not purged: nothing was changed", "the same with --yes"
    question = "Purge? This cannot be undone."
    confirm.ask(context, question, _lines(plan), nobody="nothing was purged", no=no, hint=hint)


def _show(context: Context, plan: Plan, *, as_json: bool) -> None:
    if as_json:
        context.output.document(objects.document("purge-plan", _fields(plan)))
        return
    for line in (*_lines(plan), *_elsewhere(plan)):
        context.output.line(line)


def _lines(plan: Plan) -> list[str]:
    """What would be changed, a place a line."""
    places = {
        " ".join(filter(None, (kind, display(name)))): ids
        for (kind, name), ids in plan.places.items()
    }
    width = max(map(len, places), default=0)
    lines = [f"{place:{width}}  in {trash.said(ids)}" for place, ids in places.items()]
    lines += [f"tag {name}" for name in plan.tags] + [f"the trash of {name}" for name in plan.trash]
    lines += [f"{display(os.fsencode(path.name))}, beside the checkpoints" for path in plan.beside]
    return (
        [*lines, f"would change {humanize.count(len(plan.checkpoints), 'checkpoint')}"]
        if lines
        else [_nothing(plan)]
    )


def _nothing(plan: Plan) -> str:
    return "nothing here holds it" + (", but for what came from a remote" if plan.elsewhere else "")


def _report(context: Context, request: Request, done: Report, *, as_json: bool) -> None:
    output, plan = context.output, done.plan
    if as_json:
        output.document(objects.document("purge", _fields(plan)))
        return
    if plan:
        output.line(
            Styled("purged", GREEN),
            f" {request.said} from {humanize.count(len(plan.checkpoints), 'checkpoint')}",
        )
        output.line(
            "what your files and the agent's transcripts still hold, the next save stores again"
        )
        output.line(
            f"git keeps the old objects for a while. To be rid of all that nothing names: {FREE}"
        )
    else:
        output.line(f"{_nothing(plan)}: nothing was changed")
    for line in _elsewhere(plan):
        output.line(line)


def _elsewhere(plan: Plan) -> Iterator[str | Styled]:
    """Where it still is, and what can be done about it."""
    for ref in plan.elsewhere:
        remote, _, rest = ref.removeprefix(refs.REMOTES).partition("/")
        kind, _, name = rest.partition("/")
        line = f"still at {remote}: {kind.removesuffix('s')} {name}"
        yield Styled(
            f"{line}. If it is yours: gitcp push {remote} --force; else: git update-ref -d {ref}",
            YELLOW,
        )


def _fields(plan: Plan) -> wire.Json:
    return {
        "checkpoints": [str(id) for id in plan.checkpoints],
        "places": [
            {
                "place": kind,
                "path": wire.encode_path(name) if name else None,
                "checkpoints": [str(id) for id in ids],
            }
            for (kind, name), ids in plan.places.items()
        ],
        "tags": list(plan.tags),
        "trash": list(plan.trash),
        "elsewhere": list(plan.elsewhere),
        "files": [path.name for path in plan.beside],
    }
