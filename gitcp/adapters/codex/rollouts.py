"""Codex's rollout files: listing them, and parsing names and first lines."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from gitcp.adapters import base
from gitcp.adapters.codex.transcript import payload_of
from gitcp.model import Host

ROLLOUT = re.compile(
    r"rollout-(\d{4})-(\d\d)-(\d\d)T\d\d-\d\d-\d\d-([A-Za-z0-9][A-Za-z0-9_-]{0,63})\.jsonl"
)
PACKED = ".zst"
"""Suffix of a rollout that Codex has compressed."""


class Rollout(NamedTuple):
    """A thread's file: path, thread id, and stat."""

    path: Path
    thread: str
    status: os.stat_result


def sessions(host: Host) -> Path:
    """Return the directory of all rollouts."""
    return Path(host.env.get("CODEX_HOME") or host.home / ".codex") / "sessions"


def days(sessions: Path) -> list[Path]:
    """Return the directories of years, months and days, in order."""
    directories, level = [], [sessions]
    for _ in range(3):
        level = [
            directory / name
            for directory in level
            for name in _names(directory)
            if name.isdecimal()
        ]
        directories += level
    return directories


def _names(directory: Path) -> list[str]:
    try:
        return sorted(os.listdir(directory))
    except OSError:
        return []


def rollouts(sessions: Path, since: Path | None = None) -> Iterator[Rollout]:
    """Yield every rollout that is a regular file; with `since`, only of that day's directory or
    later.
    """
    for day in days(sessions):
        if since is not None and day < since:
            continue
        for name in _names(day):
            match = ROLLOUT.fullmatch(name)
            path = day / name
            if match and (status := _status(path)):
                yield Rollout(path, match[4], status)


def archived(sessions: Path) -> Iterator[Rollout]:
    """Yield every rollout that Codex has archived."""
    for path in sorted((sessions.parent / "archived_sessions").glob("**/rollout-*.jsonl")):
        match = ROLLOUT.fullmatch(path.name)
        if match and (status := _status(path)):
            yield Rollout(path, match[4], status)


def packed(sessions: Path) -> Iterator[Path]:
    """Yield every rollout that Codex has compressed."""
    for directory in (sessions, sessions.parent / "archived_sessions"):
        for path in sorted(directory.glob(f"**/rollout-*.jsonl{PACKED}")):
            if ROLLOUT.fullmatch(path.name.removesuffix(PACKED)) and _status(path):
                yield path


def _status(path: Path) -> os.stat_result | None:
    try:
        status = os.lstat(path)
    except OSError:
        return None
    return status if stat.S_ISREG(status.st_mode) else None


def part(path: Path, start: int, size: int) -> bytes:
    """Return up to `size` bytes from offset `start`; empty if the file cannot be read."""
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
    """Return the thread's description from the first line of a rollout."""
    return payload_of(base.first_line(path))


def files_of(sessions: Path, thread: str) -> list[Path]:
    """Return every file of a thread: active ones first, then compressed and archived ones."""
    pattern = f"rollout-*-{thread}.jsonl"
    active = sorted(sessions.glob(f"*/*/*/{pattern}"))
    packed = sorted(sessions.glob(f"*/*/*/{pattern}{PACKED}"))
    return active + packed + sorted((sessions.parent / "archived_sessions").glob(f"**/{pattern}*"))


def named(name: str) -> re.Match[str]:
    """Match a rollout's name: year, month, day, thread. Raises StoreDamaged for any other name."""
    match = ROLLOUT.fullmatch(name.removesuffix(PACKED))
    if match is None:
        raise base.bad_target(name)
    return match


def by_name(sessions: Path, name: str) -> Path:
    """Return the path of a rollout, in the directory of its date. Raises
    StoreDamaged for an invalid name.
    """
    year, month, day, _ = named(name).groups()
    return sessions / year / month / day / name
