"""The time of day, also on a machine whose clock is far off.

`time.time`, `time.time_ns` and `datetime.now` raise OverflowError after April 2262, where 64 bits
of nanoseconds end; `time.clock_gettime` does not.
"""

from __future__ import annotations

import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from datetime import datetime


EARLIEST, LATEST = -30_578_688_000, 253_370_764_800
"""The beginnings of the years 1001 and 9999, in seconds since 1970."""

COARSE = 5 if sys.platform == "linux" else time.CLOCK_REALTIME
"""CLOCK_REALTIME_COARSE of Linux, by which it stamps files. Python has no name for it."""


def seconds() -> float:
    """Return the seconds since 1970."""
    return time.clock_gettime(time.CLOCK_REALTIME)


def nanoseconds(clock: int = time.CLOCK_REALTIME) -> int:
    """Return the nanoseconds since 1970 by this clock; only its seconds where Python fails."""
    try:
        return time.clock_gettime_ns(clock)
    except OverflowError:
        return int(time.clock_gettime(clock)) * 10**9


def of_files() -> int:
    """Return the file system's clock in nanoseconds: later changes get no earlier timestamp. It
    lags behind the exact one by a tick of the kernel, and an earlier change can have a later one.
    """
    # By the exact clock, a file that changed twice within a tick was taken for unchanged.
    return nanoseconds(COARSE)


def now() -> datetime:
    """Return the local time, with its zone."""
    return local(seconds())


def parsed(text: str | None) -> float | None:
    """Return a time in ISO format in seconds since 1970, None if it is none. One without a zone is
    in UTC, whatever the zone of this machine: it comes from an agent's transcript.
    """
    from datetime import UTC, datetime

    try:
        time = datetime.fromisoformat(text or "")
        return (time if time.tzinfo else time.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError):
        return None


def local(seconds: float) -> datetime:
    """Return the local time, with its zone, of these seconds since 1970, or the nearest that has a
    year of four digits: a file can have been given any time.
    """
    from datetime import UTC, datetime

    return datetime.fromtimestamp(min(max(seconds, EARLIEST), LATEST), UTC).astimezone()
