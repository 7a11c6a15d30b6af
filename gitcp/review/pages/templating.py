"""The templates of the pages: jinja2, which escapes every text, and our own style and script."""

from __future__ import annotations

from functools import cache, lru_cache
from importlib.resources import files

import jinja2

from gitcp.review.pages import text


@cache
def source(*names: str) -> str:
    """Return templates, styles or scripts of this package, one after another."""
    templates = files("gitcp.review.pages").joinpath("templates")
    return "".join(templates.joinpath(name).read_text("utf-8") for name in names)


@lru_cache
def templates() -> jinja2.Environment:
    """Return the environment in which every page is made."""
    environment = jinja2.Environment(
        loader=jinja2.FunctionLoader(source),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        finalize=text.shown,
        keep_trailing_newline=True,
    )
    environment.filters.update(text.FILTERS)
    return environment
