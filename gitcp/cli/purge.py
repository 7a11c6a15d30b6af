"""`gitcp purge`."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from typing import Any

import click

from gitcp import documents, humanize, wire
from gitcp.cli import confirm
from gitcp.cli.context import Context
from gitcp.cli.options import (
    PATH,
    WORDS,
    Command,
    dry_run_option,
    json_option,
    yes_option,
)
from gitcp.cli.output import GREEN, YELLOW, Styled
from gitcp.errors import BadValue
from gitcp.git import refs
from gitcp.lifecycle import purge as op
from gitcp.lifecycle.purge import PurgePlan, PurgeReport, PurgeRequest
from gitcp.state import trash
from gitcp.value import Value
from gitcp.worktree.paths import display


class Options(Value):
    """What was typed."""

    text: str | None
    secret: str | None
    paths: tuple[bytes, ...]
    dry_run: bool
    yes: bool
    as_json: bool


@click.command(cls=Command)
@click.option(
    "--text", type=WORDS, metavar="TEXT", help="the text to remove (- reads standard input)"
)
@click.option(
    "--secret", type=WORDS, metavar="ID", help="a secret, by its ID in `gitcp push --scan`"
)
@click.option(
    "--path",
    "paths",
    type=PATH,
    metavar="PATH",
    multiple=True,
    help="a file or directory (repeatable)",
)
@dry_run_option
@yes_option
@json_option
@click.pass_obj
def command(context: Context, /, **values: Any) -> None:
    """Remove a text or a path from every checkpoint

    Rewrites all sessions, tags, the trash and gitcp's own files. Ids do not change, and every
    checkpoint can still be restored. This cannot be undone. Your files, the agent's transcripts and
    git's history are not changed. Copies on remotes remain and are listed.

      gitcp purge --secret 3f0c9a1b22d4
      gitcp purge --text - < secret.txt
      gitcp purge --path .env --dry-run
    """
    given = Options(**values)
    request = _request(context, given)
    if given.dry_run:
        _show(context, op.plan(context.store, request), as_json=given.as_json)
        return
    if not given.yes:
        _agree(context, op.plan(context.store, request))
    _report(context, request, op.purge(context.store, request), as_json=given.as_json)


def _request(context: Context, given: Options) -> PurgeRequest:
    if sum(map(bool, (given.text is not None, given.secret, given.paths))) != 1:
        raise BadValue(
            "exactly one of --text, --secret and --path is required: nothing was changed",
            hint="gitcp purge -h",
        )
    if given.paths:
        return op.of_paths(context.inside(given.paths))
    if given.secret:
        return op.of_secret(context.store, given.secret)
    if given.text == "-":
        return op.of_text(sys.stdin.buffer.read().removesuffix(b"\n"))
    return op.of_text(os.fsencode(given.text or ""))


def _agree(context: Context, plan: PurgePlan) -> None:
    if not plan:
        return
    # not the command itself: it may contain the secret
    no, hint = "not purged: nothing was changed", "repeat it with --yes"
    question = "Purge? This cannot be undone."
    confirm.ask(context, question, _lines(plan), nobody="nothing was purged", no=no, hint=hint)


def _show(context: Context, plan: PurgePlan, *, as_json: bool) -> None:
    if as_json:
        context.output.document(documents.document("purge-plan", _fields(plan)))
        return
    for line in (*_lines(plan), *_elsewhere(plan)):
        context.output.line(line)


def _lines(plan: PurgePlan) -> list[str]:
    """What would be changed, a place a line."""
    places = {
        " ".join(filter(None, (kind, display(name)))): ids
        for (kind, name), ids in plan.places.items()
    }
    width = max(map(len, places), default=0)
    lines = [f"{location:{width}}  in {trash.summarize(ids)}" for location, ids in places.items()]
    lines += [f"tag {name}" for name in plan.tags] + [f"the trash of {name}" for name in plan.trash]
    lines += [f"{display(os.fsencode(path.name))}, beside the checkpoints" for path in plan.beside]
    return (
        [*lines, f"would change {humanize.count(len(plan.checkpoints), 'checkpoint')}"]
        if lines
        else [_nothing(plan)]
    )


def _nothing(plan: PurgePlan) -> str:
    return "no match" + (" except on remotes" if plan.elsewhere else "")


def _report(context: Context, request: PurgeRequest, done: PurgeReport, *, as_json: bool) -> None:
    output, plan = context.output, done.plan
    if as_json:
        output.document(documents.document("purge", _fields(plan)))
        return
    if plan:
        output.line(
            Styled("purged", GREEN),
            f" {request.said} from {humanize.count(len(plan.checkpoints), 'checkpoint')}",
        )
        output.line(
            "note: the next save stores it again if your files or transcripts still contain it"
        )
        output.line(
            "git keeps the old objects for a while; to remove unreachable objects now: "
            f"{context.store.repo.git_command_line} gc --prune=now"
        )
    else:
        output.line(f"{_nothing(plan)}: nothing was changed")
    for line in _elsewhere(plan):
        output.line(line)


def _elsewhere(plan: PurgePlan) -> Iterator[str | Styled]:
    """Where it still is, and what can be done about it."""
    for ref in plan.elsewhere:
        remote, _, rest = ref.removeprefix(refs.REMOTES).partition("/")
        kind, _, name = rest.partition("/")
        line = f"still at {remote}: {kind.removesuffix('s')} {name}"
        yield Styled(
            f"{line}. If it is yours: gitcp push {remote} --force; else: git update-ref -d {ref}",
            YELLOW,
        )


def _fields(plan: PurgePlan) -> wire.Json:
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
