"""What a person says about a time, made exact: "yesterday 17:00", "2 hours ago", ISO 8601.

Strict and pure. git's own reader takes any text for some time, mostly for now; here a text that is
none is refused, and what was understood is given back, so that it can be shown. No other language
and no other calendar: what would need a guess is not read.
"""

from __future__ import annotations

import re
from calendar import monthrange
from datetime import UTC, date, datetime, time, timedelta, timezone, tzinfo

from gitcp.errors import BadValue

WEEKDAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
EXAMPLES = (
    '"2026-11-20", "2026-11-20 17:00", "yesterday 17:00", "monday", "09:30", "noon", "2 hours ago"'
)

AGO = re.compile(r"([0-9]{1,9}) (minute|hour|day|week|month)s? ago")
LENGTH = re.compile(r"([0-9]{1,5}) ?([mhdw])")
LENGTHS = {"m": "minutes", "h": "hours", "d": "days", "w": "weeks"}
DATE = re.compile(r"([0-9]{4})-([0-9]{2})-([0-9]{2})")
BEFORE_CLOCK = re.compile(rf"({DATE.pattern})t(?=[0-9])")
CLOCK = re.compile(
    r"(?:(?P<word>noon|midnight)|(?P<hour>[0-9]{1,2}):(?P<minute>[0-9]{2})"
    r"(?::(?P<second>[0-9]{2})(?:\.(?P<fraction>[0-9]{1,6})[0-9]*)?)?"
    r"(?: ?(?P<zone>z|(?P<sign>[+-])(?P<hours>[0-9]{2})(?::?(?P<minutes>[0-5][0-9]))?))?)"
)


def parse(text: str, now: datetime, *, end: bool) -> datetime:
    """The time that `text` names, aware; what names no zone is in that of `now`, which must be
    aware.

    Read are ISO 8601 dates and times, `today`, `yesterday`, `monday` to `sunday` (the last one
    before today), a time of day alone (of today) or after a day, `noon`, `midnight`, `N
    minutes|hours|days|weeks|months ago` and `now`. A day without a time is its last moment if
    `end`, else its first. Raises BadValue for anything else.
    """
    words = " ".join(text.lower().split())
    try:
        found = _read(words, now, end=end)
        if found is not None:
            found.astimezone(UTC)  # a moment that UTC cannot hold is none
            return found
    except (ValueError, OverflowError):
        pass  # a 13th month, a 25th hour, a year before the first
    shown = text if len(text) <= 60 else text[:59] + "…"
    raise BadValue(f"{shown!r} is not a time that gitcp can read", hint=f"write it like {EXAMPLES}")


def parse_length(text: str) -> timedelta:
    """The length of time that `text` says: a number and m, h, d or w (`90m`, `24h`, `14d`). Raises
    BadValue.
    """
    found = LENGTH.fullmatch(text.strip().lower())
    if found is None:
        raise BadValue(
            f"{text[:60]!r} is no length of time", hint="write it like 90m, 24h, 14d or 2w"
        )
    return timedelta(**{LENGTHS[found[2]]: int(found[1])})


def _read(words: str, now: datetime, *, end: bool) -> datetime | None:
    if words == "now":
        return now
    if match := AGO.fullmatch(words):
        return _ago(now, int(match[1]), match[2])
    head, _, rest = BEFORE_CLOCK.sub(r"\1 ", words).partition(" ")
    day = _day(head, now)
    if day is not None and not rest:
        return datetime.combine(day, time.max if end else time.min, now.tzinfo)
    clock = CLOCK.fullmatch(words if day is None else rest)
    if clock is None or (clock["zone"] and not DATE.fullmatch(head)):
        return None
    return datetime.combine(day or now.date(), _time(clock), _zone(clock) or now.tzinfo)


def _day(word: str, now: datetime) -> date | None:
    if match := DATE.fullmatch(word):
        return date(int(match[1]), int(match[2]), int(match[3]))
    if word in WEEKDAYS:
        return now.date() - timedelta(days=(now.weekday() - WEEKDAYS.index(word) - 1) % 7 + 1)
    return {"today": now.date(), "yesterday": now.date() - timedelta(days=1)}.get(word)


def _time(clock: re.Match[str]) -> time:
    if clock["word"]:
        return time(12 if clock["word"] == "noon" else 0)
    fraction = (clock["fraction"] or "").ljust(6, "0")
    return time(int(clock["hour"]), int(clock["minute"]), int(clock["second"] or 0), int(fraction))


def _zone(clock: re.Match[str]) -> tzinfo | None:
    if clock["sign"] is None:
        return UTC if clock["zone"] else None
    offset = timedelta(hours=int(clock["hours"]), minutes=int(clock["minutes"] or 0))
    return timezone(-offset if clock["sign"] == "-" else offset)


def _ago(now: datetime, count: int, unit: str) -> datetime:
    """Minutes and hours are lengths of time; days, weeks and months keep the time that the clock on
    the wall shows.
    """
    if unit in ("minute", "hour"):
        past = now.astimezone(UTC) - timedelta(**{f"{unit}s": count})
        return past.astimezone(now.tzinfo)
    if unit != "month":
        return now - timedelta(**{f"{unit}s": count})
    year, month = divmod(now.year * 12 + now.month - 1 - count, 12)
    return now.replace(year=year, month=month + 1, day=min(now.day, monthrange(year, month + 1)[1]))
