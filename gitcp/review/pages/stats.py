"""Render the disk usage of checkpoints (gitcp.lifecycle.stats) as one self-contained HTML file.

The output is deterministic. The page's policy allows nothing but its own style.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date, timedelta

from gitcp.lifecycle.stats import SizeShare, Stats
from gitcp.review.pages.templating import source, templates
from gitcp.value import Value
from gitcp.worktree.paths import display

WIDTH, HEIGHT = 900, 180
WIDEST = 40
MOST_DAYS = 366


class Column(Value):
    """A day in the plot: what was added (`height`), and the total so far (`total` bytes at `y`)."""

    share: SizeShare
    x: float
    width: float
    height: float
    y: float
    total: int


def render(statistics: Stats) -> str:
    """Return the page as HTML that loads nothing else: its style is in it."""
    return (
        templates()
        .get_template("stats.html")
        .render(
            statistics=statistics,
            columns=columns(statistics.days, statistics.steps),
            style=source("base.css", "stats.css"),
            display=display,
            plot=(WIDTH, HEIGHT),
        )
    )


def columns(days: Sequence[SizeShare], steps: Sequence[SizeShare] = ()) -> list[Column]:
    """Return the plot of the last year of days, those without checkpoints included. Of one day, it
    is that of its checkpoints, `steps`.
    """
    if not days:
        return []
    every = steps[-MOST_DAYS:] or _every_day(days)
    before = sum(share.bytes for share in days) - sum(share.bytes for share in every)
    width = WIDTH / len(every)
    highest = max(share.bytes for share in every) or 1
    whole = before + sum(share.bytes for share in every) or 1
    made, total = [], before
    for number, share in enumerate(every):
        total += share.bytes
        room = min(width * 0.8, WIDEST)
        x = number * width + (width - room) / 2
        height = share.bytes / highest * HEIGHT
        y = HEIGHT - total / whole * HEIGHT
        at = (round(x, 2), round(room, 2), round(height, 2), round(y, 2))
        made.append(Column(share, *at, total))
    return made


def _every_day(days: Sequence[SizeShare]) -> list[SizeShare]:
    known = {share.name: share for share in days}
    last = date.fromisoformat(days[-1].name)
    first = max(date.fromisoformat(days[0].name), last - timedelta(days=MOST_DAYS - 1))
    names = (str(first + timedelta(days=n)) for n in range((last - first).days + 1))
    return [known.get(name, SizeShare(name, 0, 0)) for name in names]
