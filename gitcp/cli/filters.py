"""What several listings are narrowed by: times and patterns, as a person types them."""

from __future__ import annotations

import re
from datetime import datetime

from gitcp.cli.context import Context
from gitcp.errors import BadValue


def time(context: Context, text: str | None, *, end: bool) -> datetime | None:
    """The time that was typed, None where none was; of a day alone its start, or its end."""
    if text is None:
        return None
    from gitcp.history import dates

    return dates.parse(text, context.host.now(), end=end)


def pattern(text: str | None, hint: str) -> re.Pattern[str] | None:
    """The regular expression of `--grep`, whatever its case; None where none was typed."""
    try:
        return re.compile(text, re.IGNORECASE) if text is not None else None
    except re.error as error:
        raise BadValue(f"--grep {text!r} is not a regular expression: {error}", hint=hint) from None
