"""The files that Codex keeps its threads in: which there are, and what their names and first lines
say.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from gitcp.adapters import base
from gitcp.adapters.codex.transcript import payload_of
from gitcp.errors import StoreDamaged
from gitcp.model import Host

ROLLOUT = re.compile(
    r"rollout-(\d{4})-(\d\d)-(\d\d)T\d\d-\d\d-\d\d-([A-Za-z0-9][A-Za-z0-9_-]{0,63})\.jsonl"
)
PACKED = ".zst"
"""What Codex adds to the name of a rollout that it has compressed."""


class Rollout(NamedTuple):
    """A thread's file: its path, its thread, and what stat says of it."""

    path: Path
    thread: str
    status: os.stat_result


def sessions(host: Host) -> Path:
    """The directory that the rollouts of all days lie in."""
    return Path(host.env.get("CODEX_HOME") or host.home / ".codex") / "sessions"


def days(sessions: Path) -> list[Path]:
    """The directories of years, months and days, in order."""
    found, level = [], [sessions]
    for _ in range(3):
        level = [
            directory / name
            for directory in level
            for name in _names(directory)
            if name.isdecimal()
        ]
        found += level
    return found


def _names(directory: Path) -> list[str]:
    try:
        return sorted(os.listdir(directory))
    except OSError:
        return []


def rollouts(sessions: Path, since: Path | None = None) -> Iterator[Rollout]:
    """Every rollout that is a regular file; with `since`, only those of that day and later."""
    for day in days(sessions):
        if since is not None and day < since:
            continue
        for name in _names(day):
            named = ROLLOUT.fullmatch(name)
            path = day / name
            if named and (status := _status(path)):
                yield Rollout(path, named[4], status)


def _status(path: Path) -> os.stat_result | None:
    try:
        status = os.lstat(path)
    except OSError:
        return None
    return status if stat.S_ISREG(status.st_mode) else None


def part(path: Path, start: int, size: int) -> bytes:
    """So much of a file from there on, empty where it cannot be read."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return b""
    try:
        return os.pread(descriptor, size, start)
    except OSError:
        return b""
    finally:
        os.close(descriptor)


def meta(path: Path) -> dict[str, Any]:
    """What the first line of a rollout says of its thread."""
    return payload_of(base.first_line(path))


def files_of(sessions: Path, thread: str) -> list[Path]:
    """Every file of a thread, those in use first, then what was compressed or put away."""
    pattern = f"rollout-*-{thread}.jsonl"
    used = sorted(sessions.glob(f"*/*/*/{pattern}"))
    packed = sorted(sessions.glob(f"*/*/*/{pattern}{PACKED}"))
    return used + packed + sorted((sessions.parent / "archived_sessions").glob(f"**/{pattern}*"))


def named(name: str) -> re.Match[str]:
    """The parts of a rollout's name: year, month, day, thread. Raises StoreDamaged for any other
    name.
    """
    found = ROLLOUT.fullmatch(name.removesuffix(PACKED))
    if found is None:
        raise StoreDamaged(
            f"a stream would be written to {name[:200]!r}: {base.NOTHING}", hint=base.CHECK
        )
    return found


def by_name(sessions: Path, name: str) -> Path:
    """The path of a rollout: it lies in the directory of the day in its name. Raises StoreDamaged
    for an odd name.
    """
    year, month, day, _ = named(name).groups()
    return sessions / year / month / day / name
