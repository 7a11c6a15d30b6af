"""`gitcp export`."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import click

from gitcp import documents, humanize
from gitcp.adapters import CONVERTIBLE
from gitcp.cli import allowing, attribution, conversion_view
from gitcp.cli.agent_names import OneRecorded
from gitcp.cli.context import Context
from gitcp.cli.options import (
    REVISION,
    WORDS,
    Command,
    OneOf,
    allow_filtered_option,
    allow_option,
    json_option,
    rare,
    replace_option,
    session_option,
)
from gitcp.cli.output import BOLD, GREEN, Styled
from gitcp.errors import BadValue
from gitcp.model import Checkpoint
from gitcp.sharing import export as op
from gitcp.sharing import output_file
from gitcp.sharing.export import Exported, ExportRequest, Format
from gitcp.sharing.output_file import STDOUT
from gitcp.value import Value

FORMATS = [each.value for each in Format]


class Options(Value):
    """What was typed."""

    revision: str
    form: str | None
    agent: str | None
    output: str
    stream: str
    redact: bool
    allow: tuple[str, ...]
    unfiltered: bool
    force: bool
    dry_run: bool
    session: str | None
    as_json: bool


@click.command(cls=Command)
@click.argument("revision", type=REVISION, metavar="[REV|A..B]", default="@")
@click.option(
    "--format",
    "-f",
    "form",
    type=OneOf(FORMATS),
    metavar="FORMAT",
    help=f"one of {', '.join(FORMATS)} (default: by extension)",
)
@click.option(
    "--as",
    "agent",
    type=OneRecorded((*CONVERTIBLE, *attribution.FORMATS)),
    metavar="NAME",
    help="convert for an agent; or git-ai, agent-trace",
)
@click.option(
    "--output",
    "-o",
    metavar="FILE",
    default="-",
    help="FILE, - (stdout), or a directory (not agent-trace)",
)
@rare(
    click.option(
        "--stream",
        type=WORDS,
        metavar="NAME",
        default="main",
        help="with -f transcript: the stream (main)",
    )
)
@rare(click.option("--redact", is_flag=True, help="replace secrets with [REDACTED:…]"))
@rare(allow_option)
@rare(allow_filtered_option)
@rare(click.option("--dry-run", "-n", is_flag=True, help="with --as git-ai: write nothing"))
@replace_option
@session_option
@json_option
@click.pass_obj
def command(context: Context, /, **values: Any) -> None:
    """Write a session or a conversation to a file

    A bundle contains the session up to REV: files, conversation, tags. Other formats contain the
    conversation; --as converts it, and lists what could not be. If a secret is found, nothing is
    written. --as git-ai adds notes to commits, --as agent-trace writes JSON: who wrote which lines.

      gitcp export -o session.bundle
      gitcp export 12 -o talk.md
      gitcp export --format json | jq '.messages[].content'
      gitcp export --as codex -o rollout.jsonl
    """
    given = Options(**values)
    if given.agent in attribution.FORMATS:
        attribution.export(context, _attribution(given))
        return
    if given.dry_run:
        raise BadValue("--dry-run needs --as git-ai", hint="gitcp export -h")
    path = None if given.output == STDOUT else context.cwd / given.output
    if given.as_json and path is None:
        raise BadValue("--json needs -o FILE: nothing was written", hint="gitcp export -h")
    checkpoint = context.checkpoint(given.revision, given.session)
    request = ExportRequest(
        checkpoint=checkpoint,
        format=_format(given, path, terminal=context.output.terminal),
        stream=given.stream,
        allowed=allowing.answered(context, given.allow),
        redact=given.redact,
        agent=given.agent,
        unfiltered=given.unfiltered,
    )
    name = given.output
    if path is not None and (path.is_dir() or name.endswith("/")):
        file = op.file_name(request)
        path, name = path / file, os.path.join(name, file)
    if path is not None:
        output_file.require_free(path, force=given.force)
    fields = documents.document(
        "export", documents.checkpoint(checkpoint, context.tags.get(checkpoint.commit, ()))
    )
    made = op.export(context.store, request, fields)
    if path is None:
        for chunk in made.chunks():
            context.output.data(chunk)
        _say_changes(context, made)
        return
    written = op.write(request, made, path, force=given.force)
    if given.as_json:
        context.output.document(documents.document("exported", written.to_json()))
    else:
        _print(context, checkpoint, name, made, written.bytes)


def _attribution(given: Options) -> attribution.Options:
    assert given.agent is not None
    return attribution.Options(
        range=None if given.revision == "@" else given.revision,
        format=given.agent,
        output=given.output,
        force=given.force,
        allow=given.allow,
        dry_run=given.dry_run,
        session=given.session,
        unused={
            "-f": given.form,
            "--redact": given.redact,
            "--json": given.as_json,
            "--stream": given.stream != "main",
        },
    )


def _format(given: Options, path: Path | None, *, terminal: bool) -> Format:
    form = Format(given.form) if given.form else None
    if given.agent and (form not in (None, Format.TRANSCRIPT) or given.stream != "main"):
        raise BadValue(
            "--as writes the main stream of a transcript: nothing was written",
            hint=f"gitcp export --as {given.agent}",
        )
    if form is None:
        form = op.format_of(path) if path else None
        form = Format.TRANSCRIPT if given.agent else form
    if form is None:
        raise BadValue(
            f"unknown format: pass --format {'|'.join(FORMATS)}; nothing was written",
            hint="gitcp export --format json",
        )
    if form is Format.BUNDLE and path is None and terminal:
        raise BadValue(
            "a bundle cannot be written to a terminal: nothing was written",
            hint="gitcp export -o session.bundle",
        )
    return form


def _print(context: Context, checkpoint: Checkpoint, name: str, made: Exported, size: int) -> None:
    many = f"{humanize.count(made.checkpoints, 'checkpoint')}, " if made.checkpoints > 1 else ""
    what = Styled(str(checkpoint.id), BOLD)
    context.output.line(Styled("exported", GREEN), " ", what, f" to {name}  ({many}{size:,} bytes)")
    _say_changes(context, made)


def _say_changes(context: Context, made: Exported) -> None:
    """Say what was redacted, and what a conversion left out."""
    if made.converted is not None:
        conversion_view.say_omitted(context, made.converted)
    if made.redacted:
        count = humanize.count(len({finding.id for finding in made.redacted}), "secret")
        context.output.say(f"{count} redacted; the stored checkpoints are unchanged")
