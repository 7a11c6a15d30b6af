"""`gitcp why`."""

from __future__ import annotations

import os
import re
import shlex

import click

from gitcp import documents, humanize
from gitcp.cli.context import Context
from gitcp.cli.options import LOOKED, Command, json_option, session_option
from gitcp.cli.output import BOLD, YELLOW, Styled
from gitcp.history import why as op
from gitcp.history.authors import WorktreeHistory, foreign
from gitcp.history.why import LineOrigin, PathHistory
from gitcp.model import UNCLAIMED, Claim
from gitcp.worktree.paths import display

PLACE = re.compile(r"(.+):([0-9]{1,9})", re.DOTALL)
MOST = 20
SOMEBODY = "unclaimed: not written by any recorded session, so by you or a script"


@click.command(cls=Command)
@click.argument("target", metavar="PATH[:LINE]")
@click.argument("revision", type=LOOKED, metavar="[REV]", default="@")
@session_option
@json_option
@click.pass_obj
def command(
    context: Context, target: str, revision: str, session: str | None, *, as_json: bool
) -> None:
    """Show which checkpoint and prompt changed a line or path

    With LINE, a line of the current file: the checkpoint that added it and its prompt. Without: the
    checkpoints up to REV that changed the path, or why none has it.

      gitcp why src/app.py:12
      gitcp why src/app.py
      gitcp why build
    """
    last = context.checkpoint(revision, session)
    match = PLACE.fullmatch(target)
    number = (
        int(match[2]) if match is not None and not os.path.lexists(context.cwd / target) else None
    )
    (path,) = context.inside(
        (os.fsencode(match[1] if match is not None and number is not None else target),)
    ) or (b"",)
    if number is not None:
        line = op.line(context.store, last, path, number)
        if as_json:
            context.output.document(documents.document("why", line.to_json()))
        else:
            _print_line(context, path, line)
        return
    known = op.path(context.store, last, path)
    if as_json:
        context.output.document(documents.document("why", known.to_json()))
    else:
        _print_path(context, path, known)


def _print_line(context: Context, path: bytes, line: LineOrigin) -> None:
    output, made = context.output, line.made
    output.line(Styled(f"{display(path)}:{line.number}", BOLD), f"  {line.text}")
    if made is None:
        output.line("not saved yet: gitcp save")
        return
    label = f' "{made.note.label}"' if made.note.label else ""
    verb = "there since the session's first checkpoint," if line.began else "added by"
    when = humanize.ago(made.created, context.host.now())
    output.line(
        f"{verb} ", Styled(str(made.id), YELLOW), f"{label}  ({when}, {made.trigger.value})"
    )
    if line.by is not None and line.by != Claim(frozenset((made.id.session,))):
        output.line(f"written {line.by}" if str(line.by) != UNCLAIMED else SOMEBODY)
    name = shlex.quote(os.fsdecode(path))
    if line.began:
        base = made.snapshot.base.commit
        if line.base is not None:
            output.line(f"before that: git blame {line.base[:10]} -- {name}")
        elif base is not None:
            output.line(f"not in the commit before it, {base[:10]}")
        else:
            output.line("not in any commit")
        return
    if prompt := line.prompt:
        is_known = line.by is not None and made.id.session in line.by.sessions
        output.line(f"{'prompt' if is_known else 'last prompt before that'}: {prompt}")
    output.line(f"see: gitcp diff {made.id}~1 {made.id} -- {name}")


def _print_path(context: Context, path: bytes, known: PathHistory) -> None:
    output, now = context.output, context.host.now()
    output.line(Styled(display(path), BOLD), f"  {known.missing}" if known.missing else "")
    made_by = WorktreeHistory(context.store)
    for summary in known.changed[:MOST]:
        claims = made_by.changed_by(made_by.read(summary.commit))
        by = foreign(claims, summary.id.session).get(path)
        output.line(
            f"  {context.id_of(summary.commit, summary.id)}",
            f"  {summary.subject}  ({humanize.ago(summary.created, now)})",
            f"  {by}" if by else "",
        )
    if len(known.changed) > MOST:
        output.line(f"  … and {len(known.changed) - MOST:,} more: --json lists them")
