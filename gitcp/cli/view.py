"""`gitcp view`."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import click

from gitcp import documents, humanize, wire
from gitcp.cli import allowing
from gitcp.cli.context import Context
from gitcp.cli.options import (
    LOOKED,
    WORDS,
    Command,
    allow_filtered_option,
    allow_option,
    json_option,
    rare,
    replace_option,
    session_option,
)
from gitcp.cli.output import YELLOW, Styled
from gitcp.errors import BadValue
from gitcp.review import view as op
from gitcp.review.pages.view import render
from gitcp.review.view import ViewStory
from gitcp.secrets import checkpoint_scan
from gitcp.secrets.checkpoint_scan import Finding, Sieve
from gitcp.sharing import output_file
from gitcp.sharing.output_file import STDOUT
from gitcp.value import Value


class Options(Value):
    """What was typed."""

    file: str | None
    redact: bool
    force: bool
    allow: tuple[str, ...]
    unfiltered: bool
    no_open: bool
    as_json: bool


@click.command(cls=Command)
@click.argument("revision", type=LOOKED, metavar="[REV|SESSION|A..B]", default="@")
@click.option(
    "-o",
    "--output",
    "file",
    type=WORDS,
    metavar="FILE",
    help="write the page to FILE (- is stdout)",
)
@replace_option
@click.option("--redact", is_flag=True, help="replace secrets with [REDACTED:rule]")
@allow_option
@rare(allow_filtered_option)
@click.option("--no-open", is_flag=True, help="do not open the browser")
@session_option
@json_option
@click.pass_obj
def command(context: Context, /, revision: str, session: str | None, **values: Any) -> None:
    """Show a session in the browser

    Writes the session up to REV, or after A up to B, as one HTML file. Without -o that is
    .git/gitcp/view.html, readable only by you. -o FILE is not written if it contains a secret, and
    files that git filters in commits are only named.

      gitcp view
      gitcp view 12 --no-open
      gitcp view before-migration..@ -o story.html --redact
    """
    given = Options(**values)
    if given.as_json and given.file == STDOUT:
        raise BadValue("--json and -o - cannot be used together", hint="gitcp view -h")
    file = context.store.repo.store_dir / "view.html"
    if given.file not in (None, STDOUT):
        file = output_file.chosen(context.cwd, given.file, force=given.force)
    after, last = context.ends(revision, session)
    allowed = allowing.answered(context, given.allow)
    leaves = given.redact or given.file is not None
    story = op.story(context.store, after, last, leaves=leaves and not given.unfiltered)
    sieve = (
        checkpoint_scan.sieve(context.store, (), allowed, map(op.texts, [story]))
        if leaves
        else Sieve(allowed)
    )
    secrets = op.findings(story, sieve)
    if secrets and given.file is not None and not given.redact:
        raise checkpoint_scan.refused(secrets)
    checkpoint_scan.require_redactable(sieve)
    story = op.redacted(story, sieve) if secrets and given.redact else story
    page = render(story, warning="" if given.redact else _warning(secrets))
    if given.file == STDOUT:
        context.output.data(page)
        _say_withheld(context, story)
        return
    output_file.write(file, [page], force=given.force or given.file is None)
    opened = (
        _open(file) if context.output.terminal and not (given.no_open or given.as_json) else False
    )
    _tell(context, story, file, secrets, given, len(page), opened=opened)


def _warning(secrets: tuple[Finding, ...]) -> str:
    if not secrets:
        return ""
    count = humanize.count(len({finding.id for finding in secrets}), "secret")
    return (
        f"This page seems to contain {count}: do not share it. To share it: gitcp view --redact "
        "-o FILE"
    )


def _open(file: Path) -> bool:
    """Open the page in the browser if there is a display; return whether it was opened."""
    screens = ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER")
    if sys.platform != "darwin" and not any(map(os.environ.get, screens)):
        return False
    import webbrowser  # only for a person who looks on

    return webbrowser.open(file.as_uri())


def _tell(
    context: Context,
    story: ViewStory,
    file: Path,
    secrets: tuple[Finding, ...],
    given: Options,
    size: int,
    *,
    opened: bool,
) -> None:
    messages = sum(len(step.turn.messages) for step in story.steps)
    if given.as_json:
        fields: wire.Json = {
            "file": wire.encode_path(os.fsencode(file)),
            "bytes": size,
            "session": story.session,
            "checkpoints": [str(step.checkpoint.id) for step in story.steps],
            "messages": messages,
            "redacted": given.redact,
            "findings": [finding.to_json() for finding in secrets],
            "withheld": list(story.withheld),
        }
        context.output.document(documents.document("view", fields))
        return
    counted = (
        f"{humanize.count(len(story.steps), 'checkpoint')}, {humanize.count(messages, 'message')}"
    )
    context.output.line(f"{'opened' if opened else 'wrote'} {given.file or file}  ({counted})")
    _say_withheld(context, story)
    count = humanize.count(len({finding.id for finding in secrets}), "secret")
    if secrets and given.redact:
        context.output.say(f"{count} redacted")
    elif secrets:
        context.output.say(
            Styled("note: ", YELLOW), f"it seems to contain {count}: gitcp push --scan"
        )


def _say_withheld(context: Context, story: ViewStory) -> None:
    if story.withheld:
        context.output.say("only named, since git filters them in commits (--allow-filtered):")
        for line in story.withheld:
            context.output.say(f"  {line}")
