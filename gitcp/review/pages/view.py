"""A story (gitcp.review.view) as one HTML file that asks for nothing: no network, no file beside
it, no store.

Whatever somebody wrote is text. Jinja escapes all of it, and nothing of it is markup, an
attribute's name, a URL, style or script. Should something get through all the same, the page's own
policy lets no script run but the one that is here, by its checksum, and no request be made. The
same story gives the same bytes.
"""

from __future__ import annotations

from functools import lru_cache
from importlib.resources import files

import jinja2

from gitcp.review.pages import text
from gitcp.review.view import Story

ROLES = {"user": "User", "assistant": "Agent", "summary": "Summary", "system": "System"}

HELP = (
    (("j", "k"), "next, previous checkpoint"),
    (("J", "K"), "next, previous prompt"),
    (("g", "G"), "first, last checkpoint"),
    (("/",), "search; Enter for the next place, Escape to leave"),
    (("n", "N"), "next, previous place found"),
    (("t",), "unfold or fold all thinking"),
    (("o",), "unfold or fold all tool calls and their output"),
    (("d",), "light or dark"),
    (("?",), "this"),
)

FEW_LINES = 60_000
"""Up to so many changed lines in a story, a file shows MOST_LINES of its own; beyond, LEAST_LINES.
"""
MOST_LINES = 1500
LEAST_LINES = 100


def render(story: Story, *, warning: str = "") -> bytes:
    """The page. `warning` is said at its top. Reads the templates of this package and nothing
    else.
    """
    lines = sum(
        run.lines
        for step in story.steps
        for file in step.patches
        for hunk in file.hunks
        for run in hunk.runs
    )
    page = (
        _templates()
        .get_template("view.html")
        .render(
            story=story,
            warning=warning,
            style=_own("view.css"),
            script=_own("view.js"),
            roles=ROLES,
            help=HELP,
            most_lines=MOST_LINES if lines <= FEW_LINES else LEAST_LINES,
        )
    )
    return page.encode("utf-8")


def _own(name: str) -> str:
    return files("gitcp.review.pages").joinpath("templates", name).read_text("utf-8")


@lru_cache
def _templates() -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=jinja2.FunctionLoader(_own),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        finalize=text.shown,
        keep_trailing_newline=True,
    )
    environment.filters.update(text.FILTERS)
    return environment
