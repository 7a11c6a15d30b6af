"""`gitcp status`."""

from __future__ import annotations

from collections import Counter

from gitcp import wire
from gitcp.cli import humanize, objects, rendering
from gitcp.cli.context import Context
from gitcp.cli.options import json_option, session_option, takes
from gitcp.cli.output import BOLD, YELLOW, Output, Styled
from gitcp.history.status import Growth, Status, status
from gitcp.model import Checkpoint

SHORTEST_LABEL = 12
"""Characters of a label that are shown however narrow the terminal is."""

MOST = 20


@takes(
    session_option,
    json_option,
)
def command(context: Context, session: str | None, *, as_json: bool) -> None:
    """Show unsaved changes and what can be undone

    Saves nothing.

      gitcp status
      gitcp status --json
    """
    found = status(context.store, context.cwd, session, context.limits())
    if as_json:
        context.output.document(objects.document("status", _fields(context, found)))
    else:
        _print(context, found)


def _fields(context: Context, found: Status) -> wire.Json:
    last = found.last
    growth = found.conversation
    return {
        "session": found.session,
        "why": found.why,
        "candidates": list(found.candidates),
        "noted": found.noted,
        "last": objects.checkpoint(last, context.tags.get(last.commit, ())) if last else None,
        "base": found.base.commit,
        "branch": found.base.branch,
        "operation": found.base.operation,
        "changes": [objects.change(change) for change in found.changes],
        "skipped": objects.skipped(found.skipped),
        "conversation": {
            "agent": growth.agent,
            "session_id": growth.session_id,
            "stored": growth.stored,
            "now": growth.now,
        }
        if growth
        else None,
        "unfinished": str(found.unfinished.target) if found.unfinished else None,
        "undo": str(found.undo) if found.undo else None,
        "redo": str(found.redo) if found.redo else None,
    }


def _print(context: Context, found: Status) -> None:
    output = context.output
    output.line(
        Styled("Session       ", BOLD), found.session or _unnamed(found), f"  ({found.why})"
    )
    for candidate in found.candidates:
        output.line(f"              {candidate}")
    if found.last is not None:
        _print_last(context, found.last)
    else:
        output.line(Styled("Last saved    ", BOLD), "never")
    if found.conversation is not None:
        output.line(Styled("Conversation  ", BOLD), _growth(found.conversation))
    if found.noted:
        output.line(Styled("Note          ", BOLD), "pending for the next save (gitcp note)")
    if found.base.operation:
        output.line(
            Styled("In progress   ", BOLD), f"a {found.base.operation}: a restore would be refused"
        )
    for line in found.damage:
        output.line(Styled("Damaged       ", BOLD), line)
    _print_files(output, found)
    if found.undo is not None:
        output.line(
            Styled("gitcp undo    ", BOLD), f"restores {found.undo}, from before the last restore"
        )
    if found.redo is not None:
        output.line(
            Styled("gitcp redo    ", BOLD), f"restores {found.redo}, from before the last undo"
        )


def _unnamed(found: Status) -> str:
    return "?" if found.candidates else "new"


def _print_last(context: Context, last: Checkpoint) -> None:
    when = humanize.ago(last.created, context.host.now())
    tags = rendering.decoration(context.tags.get(last.commit, ()))
    title, label = "Last saved    ", last.note.label
    if label and context.output.width:
        used = len(f'{title}{last.id}{tags.text}  {when}  ""')
        label = humanize.cut(label, max(context.output.width - used, SHORTEST_LABEL))
    context.output.line(
        Styled(title, BOLD), Styled(str(last.id), YELLOW), tags, f"  {when}", _quoted(label)
    )


def _print_files(output: Output, found: Status) -> None:
    if not found.changes:
        output.line(
            Styled("Files         ", BOLD),
            "no unsaved changes" if found.last else "no changes since the last commit",
        )
    else:
        kinds = Counter(change.kind.value for change in found.changes)
        since = "changed since then" if found.last else "changed since the last commit"
        numbers = ", ".join(f"{number:,} {kind}" for kind, number in sorted(kinds.items()))
        output.line(
            Styled("Files         ", BOLD),
            f"{humanize.count(len(found.changes), 'file')} {since}: {numbers}",
        )
        rendering.changed(output, found.changes, MOST)
    if found.skipped:
        output.line(Styled("Not captured  ", BOLD), humanize.count(len(found.skipped), "path"))
        for line in humanize.listed([rendering.skipped(skip) for skip in found.skipped], MOST):
            output.line(f"  {line}")


def _growth(found: Growth) -> str:
    who = " ".join(filter(None, (found.agent, found.session_id)))
    if found.now == found.stored:
        return f"{who}: saved".lstrip(": ")
    if found.now < found.stored:
        return (
            f"{who}: {humanize.size(found.stored - found.now)} shorter than what was saved".lstrip(
                ": "
            )
        )
    return f"{who}: {humanize.size(found.now - found.stored)} more than was saved".lstrip(": ")


def _quoted(label: str | None) -> str:
    return f'  "{label}"' if label else ""
