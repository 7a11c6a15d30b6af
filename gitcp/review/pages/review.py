"""Render a story (gitcp.review.review) as one self-contained HTML file without scripts.

Jinja escapes every text, and the page's content security policy allows nothing but its own style,
by checksum. The output is deterministic.
"""

from __future__ import annotations

from base64 import b64encode
from functools import cache
from hashlib import sha256
from importlib.resources import files

import jinja2
from markupsafe import Markup

from gitcp.readme import printable
from gitcp.review.pages import comment
from gitcp.review.review import Story
from gitcp.worktree.paths import display

TEMPLATES = "templates"


def render(story: Story) -> str:
    """Return the page."""
    style = _source("review.css")
    return _template().render(
        story=story,
        totals=comment.totals(story),
        how=comment.HOW,
        results=comment.RESULTS,
        subjects={told.commit: told.subject for told in story.commits},
        style=Markup(style),  # noqa: S704 -- our own, from the package
        checksum=b64encode(sha256(style.encode()).digest()).decode(),
    )


@cache
def _template() -> jinja2.Template:
    environment = jinja2.Environment(
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        loader=jinja2.FunctionLoader(_source),
    )
    environment.filters.update(path=display, lines=_lines, line=_line)
    return environment.get_template("review.html")


@cache
def _source(name: str) -> str:
    return files("gitcp.review.pages").joinpath(TEMPLATES, name).read_text("utf-8")


def _lines(text: str) -> str:
    """Clean up multi-line text; control and bidi characters are made visible."""
    return "\n".join(map(printable, text.strip().expandtabs(4).splitlines()))


def _line(text: str) -> str:
    return printable(" ".join(text.split()))
