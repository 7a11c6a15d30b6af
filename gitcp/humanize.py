"""Format numbers, times and sizes for people. Pure functions."""

from __future__ import annotations

from datetime import datetime

UNITS = ((60, "second"), (60, "minute"), (24, "hour"), (7, "day"), (4.345, "week"), (12, "month"))


def count(number: int, what: str, plural: str = "") -> str:
    """`1 file`, `3 files`."""
    return f"{number:,} {what if number == 1 else plural or what + 's'}"


def short(number: int) -> str:
    """Return a number in at most four characters: `999`, `12k`, `3M`."""
    for unit in ("", "k", "M"):
        if number < 10_000 if not unit else number < 1000:
            return f"{number}{unit}"
        number //= 1000
    return f"{number}G"


def ago(time: datetime, now: datetime) -> str:
    """Return the time before `now` in the largest unit that fits: `3 hours ago`."""
    seconds = (now - time).total_seconds()
    if seconds < 1:
        return "in the future" if seconds < -60 else "just now"
    return f"{count(*_largest(seconds))} ago"


def age(time: datetime, now: datetime) -> str:
    """Return the time before `now` in at most four characters: `9m`, `3h`, `11mo`."""
    seconds = (now - time).total_seconds()
    if seconds < 1:
        return "now"
    amount, unit = _largest(seconds)
    return f"{amount}{'mo' if unit == 'month' else unit[0]}"


def _largest(seconds: float) -> tuple[int, str]:
    """Return an amount of time in the largest unit that fits, and the unit."""
    amount = seconds
    for size, unit in UNITS:
        if amount < size:
            return int(amount), unit
        amount /= size
    return int(amount), "year"


def moment(time: datetime) -> str:
    """Return the full time in the local zone: `2026-11-20 17:02:11 +0100`."""
    return time.astimezone().strftime("%Y-%m-%d %H:%M:%S %z")


def size(number: int) -> str:
    """Format a number of bytes: `812 bytes`, `1.4 MiB`."""
    if number < 1024:
        return count(number, "byte")
    power = min((number.bit_length() - 1) // 10, 3)
    return f"{number / 1024**power:.1f} {('KiB', 'MiB', 'GiB')[power - 1]}"


def listed(items: list[str], most: int) -> list[str]:
    """Return at most `most` items, then a line with the number of the rest."""
    rest = len(items) - most
    return items if rest <= 0 else [*items[:most], f"… and {rest:,} more"]


def cut(text: str, room: int) -> str:
    """Return the text, shortened to `room` characters with an ellipsis if it is longer."""
    return text[: room - 1] + "…" if len(text) > room > 1 else text


def bar(value: int, most: int, width: int) -> str:
    """Return a bar of up to `width` cells for a value of at most `most`, to an eighth of a cell.
    What is not nothing is at least an eighth.
    """
    eighths = -(-value * width * 8 // most) if most else 0
    text = "█" * (eighths // 8) + " ▏▎▍▌▋▊▉"[eighths % 8].strip()
    return text.ljust(width)
