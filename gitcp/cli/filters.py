"""Filters shared by several listings: times and patterns as typed."""

from __future__ import annotations

import re
from datetime import datetime

from gitcp.cli.context import Context
from gitcp.errors import BadValue


def time(context: Context, text: str | None, *, end: bool) -> datetime | None:
    """Parse a time; None stays None. A day without a time means its start, or its end if `end`."""
    if text is None:
        return None
    from gitcp.history import dates

    return dates.parse(text, context.host.now(), end=end)


def pattern(text: str | None, hint: str) -> re.Pattern[str] | None:
    """Compile the expression of `--grep`, ignoring case; None stays None. Raises BadValue."""
    try:
        return re.compile(text, re.IGNORECASE) if text is not None else None
    except re.error as error:
        raise BadValue(f"--grep {text!r} is not a regular expression: {error}", hint=hint) from None
