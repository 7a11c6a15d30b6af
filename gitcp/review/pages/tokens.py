"""Render the tokens that conversations used (gitcp.history.tokens) as one self-contained HTML file.

The output is deterministic. The page's policy allows nothing but its own style.
"""

from __future__ import annotations

from collections.abc import Collection

from gitcp.history.prices import Prices, costs
from gitcp.history.tokens import UNKNOWN as UNRECORDED
from gitcp.history.tokens import Request, Tokens, counted
from gitcp.review.pages.templating import source, templates
from gitcp.value import Value

TITLES = {
    "day": "Days",
    "session": "Sessions",
    "model": "Models",
    "agent": "Agents",
    "phase": "Phases",
}
MOST = 50
"""Rows of a section; of days, the last ones."""

UNKNOWN = "—"


class Bar(Value):
    """A row: its sums, its cost in words, and the parts of its bar in percent of the longest."""

    name: str
    tokens: Tokens
    cost: str
    kept: float
    abandoned: float


class Section(Value):
    """Rows under a heading, and how many more there are."""

    title: str
    bars: tuple[Bar, ...]
    more: int


def render(requests: Collection[Request], prices: Prices) -> str:
    """Return the page as HTML that loads nothing else: its style is in it. Costs are in dollars."""
    total = Tokens()
    for each in requests:
        total = total.plus(each.tokens)
    # one row for all of them: every request is of some agent
    known = [each for each in costs(requests, "agent", prices).values() if each is not None]
    whole = sum(known) if len(known) == len({each.agent for each in requests}) else None
    return (
        templates()
        .get_template("tokens.html")
        .render(
            total=total,
            share=100 * total.abandoned / total.total if total.total else 0.0,
            cost=_dollars(whole) if requests else UNKNOWN,
            sections=[_section(requests, by, prices) for by in TITLES if _tells(requests, by)],
            style=source("base.css", "stats.css"),
        )
    )


def _tells(requests: Collection[Request], by: str) -> bool:
    """Return whether a section has anything to tell: without phases, one of them has not."""
    return by != "phase" or any(each.phase != UNRECORDED for each in requests)


def _section(requests: Collection[Request], by: str, prices: Prices) -> Section:
    sums, spent = counted(requests, by), costs(requests, by, prices)
    names = list(sums)
    shown = names[-MOST:] if by == "day" else names[:MOST]
    most = max((sums[name].total for name in shown), default=0) or 1
    bars = tuple(
        Bar(
            name,
            sums[name],
            _dollars(spent[name]),
            round(100 * (sums[name].total - sums[name].abandoned) / most, 2),
            round(100 * sums[name].abandoned / most, 2),
        )
        for name in shown
    )
    return Section(TITLES[by], bars, len(names) - len(shown))


def _dollars(cost: float | None) -> str:
    return UNKNOWN if cost is None else f"${cost:,.2f}"
