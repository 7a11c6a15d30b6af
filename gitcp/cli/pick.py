"""The checkpoint to restore, picked from a list by a person at a terminal who named none."""

from __future__ import annotations

import re
from itertools import islice

from gitcp import humanize
from gitcp.cli import rendering
from gitcp.cli.context import Context
from gitcp.cli.output import DIM, YELLOW, Styled
from gitcp.errors import RevisionNotFound
from gitcp.history.folding import RESTORES
from gitcp.history.rows import changed_files, title
from gitcp.model import Checkpoint
from gitcp.store import Summary

MOST = 10
DIFF = re.compile(r"d(?: +(.+)|([0-9]+))?")


def pick(context: Context, session: str | None) -> Checkpoint | None:
    """Show the last checkpoints and return the one that is chosen; None where nobody chooses one.

    Any revision can be typed. `d REV` shows what differs between it and the files as they are.
    """
    _print(context, _offered(context, session))
    while answer := context.output.prompt("Restore which? (number; d NUMBER: diff; Enter: none) "):
        diff = DIFF.fullmatch(answer)
        revision = (diff[1] or diff[2]) if diff else answer
        if answer in ("q", "n", "no", "quit"):
            return None
        if not revision:
            context.output.say("d NUMBER shows what a restore would change, e.g. d 3")
            continue
        try:
            checkpoint = context.checkpoint(revision, session)
        except RevisionNotFound as error:
            context.output.say("error: ", str(error))
            continue
        if not diff:
            return checkpoint
        _show_diff(context, checkpoint)
    return None


def _offered(context: Context, session: str | None) -> list[Summary]:
    """Return the newest checkpoints, oldest first, without those that restores made."""
    chain = context.store.readable(context.viewed_tip(session))
    own = (s for s in chain if s.trailers.get("Gitcp-Trigger") not in RESTORES)
    return list(islice(own, MOST))[::-1]


def _print(context: Context, offered: list[Summary]) -> None:
    now = context.host.now()
    rows = [
        (
            str(summary.id.number),
            title(summary),
            humanize.ago(summary.created, now),
            humanize.count(changed_files(summary), "file"),
        )
        for summary in offered
    ]
    widths = [max((len(row[column]) for row in rows), default=0) for column in range(4)]
    room = max((context.output.width or 80) - widths[0] - widths[2] - widths[3] - 8, 12)
    for number, about, ago, files in rows:
        context.output.say(
            "  ",
            Styled(number.rjust(widths[0]), YELLOW),
            f"  {humanize.cut(about, room).ljust(min(room, widths[1]))}",
            Styled(f"  {ago.ljust(widths[2])}  {files}", DIM),
        )


def _show_diff(context: Context, checkpoint: Checkpoint) -> None:
    from gitcp.history import diff_now  # only where it is asked for

    with (
        context.output.paged(context.core_pager),
        diff_now.compare(context.store, checkpoint, context.limits(), text=True) as changes,
    ):
        rendering.patch(context.output, changes.text())
