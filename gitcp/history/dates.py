"""Parse times as people write them: "yesterday 17:00", "2 hours ago", ISO 8601.

Strict and pure. git's own parser accepts any text, mostly as the current time; here, other text is
an error, and callers show what was understood. Only English and the Gregorian calendar; nothing is
guessed.
"""

from __future__ import annotations

import re
from calendar import monthrange
from datetime import UTC, date, datetime, time, timedelta, timezone, tzinfo

from gitcp.errors import BadValue

WEEKDAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
EXAMPLES = (
    '"2026-11-20", "2026-11-20 17:00", "yesterday 17:00", "last monday", "09:30", "5pm", '
    '"2 hours ago"'
)

AGO = re.compile(r"([0-9]{1,9}|an?|one) ?([a-z]+) ago")
WHOLE = ("second", "minute", "hour", "day", "week", "month", "year")
SHORT = {"s": "second", "sec": "second", "m": "minute", "min": "minute", "h": "hour", "hr": "hour"}
UNITS = {**{unit: unit for unit in WHOLE}, **SHORT, "d": "day", "w": "week", "y": "year"}
LENGTH = re.compile(r"([0-9]{1,5}) ?([mhdw])")
LENGTHS = {"m": "minutes", "h": "hours", "d": "days", "w": "weeks"}
DATE = re.compile(r"([0-9]{4})-([0-9]{2})-([0-9]{2})")
BEFORE_CLOCK = re.compile(rf"({DATE.pattern})t(?=[0-9])")
CLOCK = re.compile(
    r"(?:(?P<word>noon|midnight)|(?P<on12>[0-9]{1,2})(?::(?P<past>[0-9]{2}))? ?(?P<half>am|pm)"
    r"|(?P<hour>[0-9]{1,2}):(?P<minute>[0-9]{2})"
    r"(?::(?P<second>[0-9]{2})(?:\.(?P<fraction>[0-9]{1,6})[0-9]*)?)?"
    r"(?: ?(?P<zone>z|(?P<sign>[+-])(?P<hours>[0-9]{2})(?::?(?P<minutes>[0-5][0-9]))?))?)"
)


DOTTED = re.compile(r"[0-9]+\.[a-z]+\.ago")
"""git's `2.days.ago`."""


def parse(text: str, now: datetime, *, end: bool) -> datetime:
    """Return the time that `text` names, with a zone: its own, else that of `now`, which must have
    one.

    Accepted are ISO 8601 dates and times, `today`, `yesterday`, `monday` to `sunday` or `last
    monday` (the last one before today), a time of day (`17:00`, `5pm`) alone (of today) or after a
    day, `noon`, `midnight`, `N seconds|minutes|hours|days|weeks|months|years ago` (also `an hour
    ago`, `5 min ago`) and `now`. A day without a time is its last moment if `end`, else its first.
    Raises BadValue for anything else.
    """
    words = " ".join(text.lower().split()).replace(" at ", " ")
    if DOTTED.fullmatch(words):
        words = words.replace(".", " ")
    try:
        moment = _read(words, now, end=end)
        if moment is not None:
            moment.astimezone(UTC)  # raises if UTC cannot represent it
            return moment
    except (ValueError, OverflowError):
        pass  # a 13th month, a 25th hour, a year before the first
    shown = text if len(text) <= 60 else text[:59] + "…"
    raise BadValue(f"{shown!r} is not a time that gitcp can read", hint=f"write it like {EXAMPLES}")


def parse_length(text: str) -> timedelta:
    """Return the duration that `text` names: a number and m, h, d or w (`90m`, `24h`, `14d`).
    Raises BadValue.
    """
    match = LENGTH.fullmatch(text.strip().lower())
    if match is None:
        raise BadValue(f"{text[:60]!r} is not a duration", hint="write it like 90m, 24h, 14d or 2w")
    return timedelta(**{LENGTHS[match[2]]: int(match[1])})


def _read(words: str, now: datetime, *, end: bool) -> datetime | None:
    if words == "now":
        return now
    if match := AGO.fullmatch(words):
        unit = UNITS.get(match[2]) or UNITS.get(match[2].removesuffix("s"))
        return _ago(now, int(match[1]) if match[1].isdigit() else 1, unit) if unit else None
    if words.startswith(tuple(f"last {day}" for day in WEEKDAYS)):
        words = words.removeprefix("last ")
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
    if clock["half"]:  # 12am is midnight, 12pm noon; 0am and 13pm are errors
        hour = int(clock["on12"])
        if not 1 <= hour <= 12:
            raise ValueError(hour)
        return time(hour % 12 + (12 if clock["half"] == "pm" else 0), int(clock["past"] or 0))
    fraction = (clock["fraction"] or "").ljust(6, "0")
    return time(int(clock["hour"]), int(clock["minute"]), int(clock["second"] or 0), int(fraction))


def _zone(clock: re.Match[str]) -> tzinfo | None:
    if clock["sign"] is None:
        return UTC if clock["zone"] else None
    offset = timedelta(hours=int(clock["hours"]), minutes=int(clock["minutes"] or 0))
    return timezone(-offset if clock["sign"] == "-" else offset)


def _ago(now: datetime, count: int, unit: str) -> datetime:
    """Return the time `count` units ago: seconds, minutes and hours are exact; days and longer
    units keep the time of day.
    """
    if unit in ("second", "minute", "hour"):
        past = now.astimezone(UTC) - timedelta(**{f"{unit}s": count})
        return past.astimezone(now.tzinfo)
    if unit in ("day", "week"):
        return now - timedelta(**{f"{unit}s": count})
    count *= 12 if unit == "year" else 1
    year, month = divmod(now.year * 12 + now.month - 1 - count, 12)
    return now.replace(year=year, month=month + 1, day=min(now.day, monthrange(year, month + 1)[1]))
