"""Dates: what is read, what it means, and that everything else is refused."""

# ruff: noqa: DTZ001  (hypothesis takes its bounds without a zone)

from __future__ import annotations

from datetime import UTC, date, datetime, time, timedelta, timezone, tzinfo

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from gitcp.errors import BadValue
from gitcp.history.dates import WEEKDAYS, parse

BERLIN = timezone(timedelta(hours=1))
NOW = datetime(2026, 11, 20, 15, 30, 45, tzinfo=BERLIN)  # a Friday
LAST = time.max


def local(*fields: int) -> datetime:
    return datetime(*fields, tzinfo=BERLIN)  # type: ignore[misc,arg-type]


MOMENTS = {
    "now": NOW,
    "2026-11-20 17:00": local(2026, 11, 20, 17),
    "2026-11-20T17:00": local(2026, 11, 20, 17),
    "2026-11-20t17:00:30": local(2026, 11, 20, 17, 0, 30),
    "2026-11-20 17:00:30.25": local(2026, 11, 20, 17, 0, 30, 250_000),
    "2026-11-20T17:00:30.123456789": local(2026, 11, 20, 17, 0, 30, 123_456),
    "2026-11-20T17:00Z": datetime(2026, 11, 20, 17, tzinfo=UTC),
    "2026-11-20 17:00 z": datetime(2026, 11, 20, 17, tzinfo=UTC),
    "2026-11-20T17:00+02:00": datetime(2026, 11, 20, 15, tzinfo=UTC),
    "2026-11-20T17:00:00-0530": datetime(2026, 11, 20, 22, 30, tzinfo=UTC),
    "2026-11-20 17:00 +02": datetime(2026, 11, 20, 15, tzinfo=UTC),
    "2026-11-20 noon": local(2026, 11, 20, 12),
    "2024-02-29 00:00": local(2024, 2, 29),
    "09:15": local(2026, 11, 20, 9, 15),
    "9:15": local(2026, 11, 20, 9, 15),
    "23:59:59": local(2026, 11, 20, 23, 59, 59),
    "noon": local(2026, 11, 20, 12),
    "midnight": local(2026, 11, 20),
    "today 08:00": local(2026, 11, 20, 8),
    "today noon": local(2026, 11, 20, 12),
    "yesterday 17:00": local(2026, 11, 19, 17),
    "yesterday midnight": local(2026, 11, 19),
    "monday 07:30": local(2026, 11, 16, 7, 30),
    "  Yesterday \t 17:00 ": local(2026, 11, 19, 17),
    "0 minutes ago": NOW,
    "1 minute ago": local(2026, 11, 20, 15, 29, 45),
    "90 minutes ago": local(2026, 11, 20, 14, 0, 45),
    "1 hour ago": local(2026, 11, 20, 14, 30, 45),
    "2 days ago": local(2026, 11, 18, 15, 30, 45),
    "3 weeks ago": local(2026, 10, 30, 15, 30, 45),
    "1 month ago": local(2026, 10, 20, 15, 30, 45),
    "11 months ago": local(2025, 12, 20, 15, 30, 45),
    "12 months ago": local(2025, 11, 20, 15, 30, 45),
    "2 years ago": local(2024, 11, 20, 15, 30, 45),
    "30 seconds ago": local(2026, 11, 20, 15, 30, 15),
    "an hour ago": local(2026, 11, 20, 14, 30, 45),
    "one day ago": local(2026, 11, 19, 15, 30, 45),
    "a week ago": local(2026, 11, 13, 15, 30, 45),
    "5 min ago": local(2026, 11, 20, 15, 25, 45),
    "2h ago": local(2026, 11, 20, 13, 30, 45),
    "10 mins ago": local(2026, 11, 20, 15, 20, 45),
    "last monday 07:30": local(2026, 11, 16, 7, 30),
    "yesterday at 17:00": local(2026, 11, 19, 17),
    "5pm": local(2026, 11, 20, 17),
    "yesterday at 5:30 PM": local(2026, 11, 19, 17, 30),
    "12am": local(2026, 11, 20),
    "12pm": local(2026, 11, 20, 12),
}

DAYS = {
    "2026-11-20": date(2026, 11, 20),
    "2024-02-29": date(2024, 2, 29),
    "today": date(2026, 11, 20),
    "yesterday": date(2026, 11, 19),
    "thursday": date(2026, 11, 19),
    "last thursday": date(2026, 11, 19),
    "last friday": date(2026, 11, 13),
    "wednesday": date(2026, 11, 18),
    "saturday": date(2026, 11, 14),
    "FRIDAY": date(2026, 11, 13),
}

REFUSED = (
    *(
        "",
        " ",
        "garbage-xyz",
        "tomorrow",
        "next monday",
        "last",
        "last week",
        "last monday ago",
        "mon",
        "monday tuesday",
        "now 17:00",
    ),
    *(
        "12",
        "20261120",
        "2026-11",
        "2026-11-2",
        "26-11-20",
        "2026/11/20",
        "20.11.2026",
        "11/20/2026",
        "2026-W47-5",
    ),
    *(
        "2026-02-29",
        "2026-13-01",
        "2026-00-10",
        "2026-11-31",
        "0000-01-01",
        "2026-11-20T",
        "2026-11-20Tnoon",
    ),
    *(
        "24:00",
        "12:60",
        "12:00:60",
        "12:0",
        "0am",
        "13pm",
        "5:60pm",
        "5p",
        "17h",
        "17.00",
        "-1:00",
        "12:00:00,5",
        "noon noon",
    ),
    *(
        "2026-11-20 17:00 CET",
        "2026-11-20 17:00+2",
        "2026-11-20 17:00+24:00",
        "2026-11-20 17:00+02:60",
        "17:00Z",
    ),
    *(
        "yesterday 17:00 +02:00",
        "2026-11-20Z",
        "2026-11-20 noon Z",
        "17:00 yesterday",
        "2026-11-20 2026-11-21",
    ),
    *(
        "ago",
        "2 ago",
        "two days ago",
        "-2 days ago",
        "2.5 hours ago",
        "2 fortnights ago",
        "2 days",
        "in 2 days",
    ),
    *(
        "999999999 days ago",
        "999999999 weeks ago",
        "999999999 months ago",
        "30000 months ago",
        "9999999999 hours ago",
    ),
    *(
        "0001-01-01T00:00+14:00",
        "9999-12-31T23:59-14:00",
        "١٢:٠٠",
        "２ days ago",
        "today\0",
        "\udcff",
        "@",
        "12:00\n13:00",
    ),
)


@pytest.mark.parametrize("text", MOMENTS)
@pytest.mark.parametrize("end", [False, True])
def test_moments(text: str, end: bool) -> None:
    """A text with a time of day means one moment, whichever end of an interval it is for."""
    assert parse(text, NOW, end=end) == MOMENTS[text]


@pytest.mark.parametrize("text", DAYS)
def test_days(text: str) -> None:
    """A day by itself is its first moment as a start and its last as an end."""
    assert parse(text, NOW, end=False) == datetime.combine(DAYS[text], time.min, BERLIN)
    assert parse(text, NOW, end=True) == datetime.combine(DAYS[text], LAST, BERLIN)


@pytest.mark.parametrize("text", REFUSED)
def test_refused(text: str) -> None:
    """What is not clearly a time is refused, with examples of what is."""
    with pytest.raises(BadValue) as caught:
        parse(text, NOW, end=True)

    assert "2 hours ago" in caught.value.hint
    assert "yesterday 17:00" in caught.value.hint


def test_a_long_text_is_not_repeated_whole() -> None:
    """The message stays short whatever was given."""
    with pytest.raises(BadValue) as caught:
        parse("x" * 100_000, NOW, end=True)

    assert len(str(caught.value)) < 200


@pytest.mark.parametrize("day", range(7))
def test_weekdays_are_never_today(day: int) -> None:
    """A weekday is the last one before today: one to seven days ago."""
    now = NOW + timedelta(days=day)
    found = [parse(name, now, end=False) for name in WEEKDAYS]

    assert [when.weekday() for when in found] == list(range(7))
    assert sorted((now.date() - when.date()).days for when in found) == [1, 2, 3, 4, 5, 6, 7]


def test_the_end_of_a_shorter_month() -> None:
    """A month ago keeps the day where the month has it, and else takes its last."""
    assert parse("1 month ago", local(2026, 3, 31, 8), end=True) == local(2026, 2, 28, 8)
    assert parse("1 month ago", local(2024, 3, 31, 8), end=True) == local(2024, 2, 29, 8)
    assert parse("2 months ago", local(2026, 1, 15, 8), end=True) == local(2025, 11, 15, 8)


class Summer(tzinfo):
    """A zone whose clocks go from 02:00 to 03:00 on 29 March 2026."""

    def utcoffset(self, when: datetime | None) -> timedelta:
        return timedelta(
            hours=2 if when and when.replace(tzinfo=None) >= datetime(2026, 3, 29, 3) else 1
        )

    def dst(self, when: datetime | None) -> timedelta:
        return self.utcoffset(when) - timedelta(hours=1)

    def tzname(self, when: datetime | None) -> str:
        return "summer"


def test_hours_are_lengths_and_days_are_dates() -> None:
    """When the clocks change, "24 hours ago" is another moment than "1 day ago"."""
    zone = Summer()
    now = datetime(2026, 3, 29, 12, 0, tzinfo=zone)

    assert parse("1 day ago", now, end=True) == datetime(2026, 3, 28, 12, 0, tzinfo=zone)
    assert parse("24 hours ago", now, end=True) == datetime(2026, 3, 28, 11, 0, tzinfo=zone)
    assert parse("yesterday 12:00", now, end=True).utcoffset() == timedelta(hours=1)


PIECES = st.sampled_from(
    "now today yesterday monday sunday noon midnight ago 2 days hours months minute week 12:00 "
    "23:59:59 2026-11-20 "
    "2026-02-30 t z + - +02:00 : . 0 9999 0001-01-01 9999-12-31 999999999 -14:00 00:00 :00".split(
        " "
    )
)
NOWS = st.datetimes(
    min_value=datetime(1, 1, 2),
    max_value=datetime(9999, 12, 30),
    timezones=st.sampled_from((UTC, BERLIN)),
)


@given(
    st.text()
    | st.lists(PIECES, max_size=6).flatmap(lambda p: st.sampled_from((" ".join(p), "".join(p)))),
    NOWS,
)
@example("yesterday", datetime(1, 1, 1, tzinfo=UTC))
@example("monday", datetime(1, 1, 1, tzinfo=UTC))
def test_any_text_is_a_time_or_a_bad_value(text: str, now: datetime) -> None:
    """Whatever is given, the answer is an aware time that UTC can hold, or BadValue; nothing else
    is raised.
    """
    for end in (False, True):
        try:
            found = parse(text, now, end=end)
        except BadValue:
            continue

        assert found.astimezone(UTC).tzinfo is UTC


@given(st.datetimes(min_value=datetime(1970, 1, 2), timezones=st.sampled_from((UTC, BERLIN))))
def test_what_python_writes_is_read_back(when: datetime) -> None:
    """ISO 8601 as written by `isoformat` means the same time again."""
    for separator in ("T", " "):
        assert parse(when.isoformat(sep=separator), NOW, end=True) == when


@given(st.dates(min_value=date(1970, 1, 2), max_value=date(9999, 12, 30)))
def test_a_day_holds_what_lies_between_its_ends(day: date) -> None:
    """The start of a day is after the end of the day before it, and both are that day's."""
    start, end = (parse(day.isoformat(), NOW, end=edge) for edge in (False, True))
    before = parse((day - timedelta(days=1)).isoformat(), NOW, end=True)

    assert before < start < end
    assert start.date() == end.date() == day
