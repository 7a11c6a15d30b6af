"""Render a story (gitcp.review.view) as one self-contained HTML file.

Jinja escapes every text; none of it becomes markup, an attribute name, a URL, style or script. In
addition, the page's content security policy allows only its own script, by checksum, and no
requests. The output is deterministic.
"""

from __future__ import annotations

from gitcp.review.pages.templating import source, templates
from gitcp.review.view import ViewStory

ROLES = {"user": "User", "assistant": "Agent", "summary": "Summary", "system": "System"}

HELP = (
    (("j", "k"), "next, previous checkpoint"),
    (("J", "K"), "next, previous prompt"),
    (("g", "G"), "first, last checkpoint"),
    (("/",), "search; Enter for the next match, Escape to close"),
    (("n", "N"), "next, previous match"),
    (("t",), "unfold or fold all thinking"),
    (("o",), "unfold or fold all tool calls and their output"),
    (("d",), "light or dark"),
    (("?",), "every key"),
)

BATCH = 16
"""So many checkpoints of a page are laid out together, when they come near."""

FEW_LINES = 60_000
"""Up to this many changed lines in a story, each file shows up to MOST_LINES; above it,
LEAST_LINES.
"""
MOST_LINES = 1500
LEAST_LINES = 100


def render(story: ViewStory, *, warning: str = "") -> bytes:
    """Return the page as UTF-8, with `warning` at the top."""
    lines = sum(
        run.lines
        for step in story.steps
        for file in step.patches
        for hunk in file.hunks
        for run in hunk.runs
    )
    page = (
        templates()
        .get_template("view.html")
        .render(
            story=story,
            warning=warning,
            style=source("base.css", "view.css"),
            script=source("view.js"),
            roles=ROLES,
            help=HELP,
            together=BATCH,
            most_lines=MOST_LINES if lines <= FEW_LINES else LEAST_LINES,
        )
    )
    return page.encode("utf-8")
