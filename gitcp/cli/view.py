"""`gitcp view`."""

from __future__ import annotations

import os
import stat
import sys
import tempfile
from pathlib import Path
from typing import Any

import click

from gitcp import wire
from gitcp.cli import humanize, objects
from gitcp.cli.context import Context
from gitcp.cli.options import REVISION, WORDS, Command, json_option, pass_context, session_option
from gitcp.cli.output import YELLOW, Styled
from gitcp.cli.secrets import fields as finding_fields
from gitcp.errors import BadValue
from gitcp.history import revisions
from gitcp.review import view as op
from gitcp.review.pages.view import render
from gitcp.review.view import Story
from gitcp.secrets import checkpoint_scan
from gitcp.secrets.checkpoint_scan import Finding, Sieve
from gitcp.state import settings

STDOUT = "-"


@click.command(cls=Command)
@click.argument("revision", default="@", type=REVISION, metavar="[REV|SESSION|A..B]")
@click.option(
    "-o",
    "--output",
    "file",
    metavar="FILE",
    type=WORDS,
    help="write the page to FILE (- is stdout)",
)
@click.option("--redact", is_flag=True, help="replace secrets by [REDACTED:rule]")
@click.option(
    "--allow",
    multiple=True,
    metavar="ID",
    type=WORDS,
    help="leave this secret in (can be repeated)",
)
@click.option("--no-open", is_flag=True, help="do not open the browser")
@session_option
@json_option
@pass_context
def command(context: Context, /, revision: str, session: str | None, **given: Any) -> None:
    """Show a session in the browser: timeline, conversation, changes

    All of it up to REV, or what came after A up to B, as one HTML file that needs no network.
    Without -o it is .git/gitcp/view.html, for you alone. A FILE can be handed on, so it is not
    written with a secret in it.

      gitcp view
      gitcp view 12 --no-open
      gitcp view before-migration..@ -o story.html --redact
    """
    if given["as_json"] and given["file"] == STDOUT:
        raise click.UsageError("--json and -o - both want stdout: give one")
    after, last = revisions.resolve_range(context.store, revision, context.session(session))
    story = op.story(context.store, after, last)
    allowed = settings.allowed_secrets(context.store.repo) | set(given["allow"])
    leaves = given["redact"] or given["file"] is not None
    sieve = (
        checkpoint_scan.sieve(context.store, (), allowed, [op.texts(story)])
        if leaves
        else Sieve(allowed)
    )
    found = op.findings(story, sieve)
    if found and given["file"] is not None and not given["redact"]:
        raise checkpoint_scan.refused(found)
    checkpoint_scan.require_placed(sieve)
    story = op.redacted(story, sieve) if found and given["redact"] else story
    page = render(story, warning="" if given["redact"] else _warning(found))
    if given["file"] == STDOUT:
        context.output.data(page)
        return
    file = (
        Path(context.cwd, given["file"])
        if given["file"]
        else context.store.repo.store_dir / "view.html"
    )
    write(file, page)
    opened = (
        _open(file)
        if context.output.terminal and not (given["no_open"] or given["as_json"])
        else False
    )
    _tell(context, story, file, found, {**given, "bytes": len(page), "opened": opened})


def _warning(found: tuple[Finding, ...]) -> str:
    if not found:
        return ""
    count = humanize.count(len({finding.id for finding in found}), "secret")
    return (
        f"There is what looks like {count} in this page: do not hand it on. One to hand on: gitcp "
        "view --redact -o FILE"
    )


def write(file: Path, page: bytes) -> None:
    """Put the page where it was asked for, whole or not at all, readable for its owner. Raises
    BadValue, OSError.
    """
    if file.exists() and not stat.S_ISREG(file.stat().st_mode):
        raise BadValue(
            f"{file} is no ordinary file: nothing was written",
            hint="give another FILE, or - for stdout",
        )
    if not file.parent.is_dir():
        raise BadValue(
            f"{file.parent} is no directory: nothing was written", hint=f"mkdir -p {file.parent}"
        )
    descriptor, temporary = tempfile.mkstemp(prefix=f".{file.name}.", dir=file.parent)
    try:
        with open(descriptor, "wb") as made:
            made.write(page)
        os.replace(temporary, file)
    except BaseException:
        os.unlink(temporary)
        raise


def _open(file: Path) -> bool:
    """Show it in the user's browser, where there is a screen for one."""
    screens = ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER")
    if sys.platform != "darwin" and not any(map(os.environ.get, screens)):
        return False
    import webbrowser  # only for a person who looks on

    return webbrowser.open(file.as_uri())


def _tell(
    context: Context, story: Story, file: Path, found: tuple[Finding, ...], given: dict[str, Any]
) -> None:
    messages = sum(len(step.turn.messages) for step in story.steps)
    if given["as_json"]:
        fields: wire.Json = {
            "file": wire.encode_path(os.fsencode(file)),
            "bytes": given["bytes"],
            "session": story.session,
            "checkpoints": [str(step.checkpoint.id) for step in story.steps],
            "messages": messages,
            "redacted": given["redact"],
            "findings": [finding_fields(finding) for finding in found],
        }
        context.output.document(objects.document("view", fields))
        return
    counted = (
        f"{humanize.count(len(story.steps), 'checkpoint')}, {humanize.count(messages, 'message')}"
    )
    context.output.line(f"{'opened' if given['opened'] else 'wrote'} {file}  ({counted})")
    count = humanize.count(len({finding.id for finding in found}), "secret")
    if found and given["redact"]:
        context.output.say(f"{count} redacted")
    elif found:
        context.output.say(
            Styled("note: ", YELLOW), f"it holds what looks like {count}: gitcp secrets"
        )
