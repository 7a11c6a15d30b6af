"""`gitcp export`."""

from __future__ import annotations

import os
from hashlib import sha256
from pathlib import Path
from typing import Any

import click

from gitcp import wire
from gitcp.cli import humanize, objects, output_file
from gitcp.cli.context import Context
from gitcp.cli.options import REVISION, WORDS, Command, json_option, pass_context, session_option
from gitcp.cli.output import BOLD, GREEN, Styled
from gitcp.errors import BadValue
from gitcp.model import Checkpoint
from gitcp.sharing import export as op
from gitcp.sharing.export import Exported, Format, Request
from gitcp.state import settings

ENDINGS = {
    ".bundle": Format.BUNDLE,
    ".json": Format.JSON,
    ".jsonl": Format.TRANSCRIPT,
    ".md": Format.MARKDOWN,
}
FORMATS = [each.value for each in Format]


@click.command(cls=Command)
@click.argument("revision", default="@", type=REVISION, metavar="[REV]")
@click.option(
    "--format",
    "-f",
    "form",
    type=click.Choice(FORMATS),
    help="what to make; FILE's ending says it too",
)
@click.option(
    "--output", "-o", metavar="FILE", default="-", help="write FILE instead of standard output (-)"
)
@click.option(
    "--stream", metavar="NAME", default="main", type=WORDS, help="of a transcript: this stream"
)
@click.option("--redact", is_flag=True, help="put [REDACTED:…] where a secret is")
@click.option(
    "--allow",
    multiple=True,
    metavar="ID",
    type=WORDS,
    help="let this secret pass, this time (can be repeated)",
)
@click.option("--force", is_flag=True, help="replace FILE if it exists")
@session_option
@json_option
@pass_context
def command(context: Context, /, **given: Any) -> None:
    """Write a session or a conversation to a file

    A bundle holds the session up to REV: files, conversation, tags. The others hold the
    conversation of REV: json and atif for programs, transcript as the agent wrote it, markdown for
    people. What is written is scanned for secrets first; with one in it nothing is written.

      gitcp export -o session.bundle
      gitcp export 12 -o talk.md
      gitcp export --format json | jq '.messages[].content'
    """
    path = None if given["output"] == "-" else context.cwd / given["output"]
    if given["as_json"] and path is None:
        raise click.UsageError("--json says what was written: give -o FILE")
    checkpoint = context.checkpoint(given["revision"], given["session"])
    request = Request(
        checkpoint=checkpoint,
        format=_format(given["form"], path, terminal=context.output.terminal),
        stream=given["stream"],
        allowed=settings.allowed_secrets(context.store.repo) | set(given["allow"]),
        redact=given["redact"],
    )
    if path is not None:
        output_file.require_free(path, force=given["force"])
    fields = objects.document(
        "export", objects.checkpoint(checkpoint, context.tags.get(checkpoint.commit, ()))
    )
    made = op.export(context.store, request, fields)
    if path is None:
        context.output.data(made.data)
        _say_redacted(context, made)
        return
    output_file.write(path, made.data, force=given["force"])
    if given["as_json"]:
        context.output.document(objects.document("exported", _fields(request, path, made)))
    else:
        _print(context, checkpoint, given["output"], made)


def _format(given: str | None, path: Path | None, *, terminal: bool) -> Format:
    form = Format(given) if given else ENDINGS.get(path.suffix.lower()) if path else None
    if form is None:
        raise BadValue(
            f"say which format: {', '.join(FORMATS)}. Nothing was written",
            hint="gitcp export --format json",
        )
    if form is Format.BUNDLE and path is None and terminal:
        raise BadValue(
            "a bundle is not for a terminal: nothing was written",
            hint="gitcp export -o FILE.bundle",
        )
    return form


def _fields(request: Request, path: Path, made: Exported) -> wire.Json:
    return {
        "checkpoint": str(request.checkpoint.id),
        "format": request.format.value,
        "path": wire.encode_path(os.fsencode(path)),
        "bytes": len(made.data),
        "sha256": sha256(made.data).hexdigest(),
        "checkpoints": made.checkpoints,
        "redacted": len({finding.id for finding in made.redacted}),
    }


def _print(context: Context, checkpoint: Checkpoint, name: str, made: Exported) -> None:
    many = f"{humanize.count(made.checkpoints, 'checkpoint')}, " if made.checkpoints > 1 else ""
    what = Styled(str(checkpoint.id), BOLD)
    context.output.line(
        Styled("exported", GREEN), " ", what, f" to {name}  ({many}{len(made.data):,} bytes)"
    )
    _say_redacted(context, made)


def _say_redacted(context: Context, made: Exported) -> None:
    if made.redacted:
        count = humanize.count(len({finding.id for finding in made.redacted}), "secret")
        context.output.say(f"{count} left out; what is stored here is as it was")
