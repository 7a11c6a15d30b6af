"""Codex's rollout files: listing them, and parsing names and first lines."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

from gitcp import regular
from gitcp.adapters import base
from gitcp.adapters.codex.transcript import payload_of, record_of
from gitcp.model import Host

ROLLOUT = re.compile(
    r"rollout-(\d{4})-(\d\d)-(\d\d)T\d\d-\d\d-\d\d-([A-Za-z0-9][A-Za-z0-9_-]{0,63})\.jsonl"
)
BARE_HEAD = re.compile(rb'\s*\{\s*"id":')
PACKED = ".zst"
"""Suffix of a rollout that Codex has compressed."""

CHUNK = 64 << 10


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
    for path in base.glob(sessions.parent / "archived_sessions", "**/rollout-*.jsonl"):
        match = ROLLOUT.fullmatch(path.name)
        if match and (status := _status(path)):
            yield Rollout(path, match[4], status)


def packed(sessions: Path) -> Iterator[Rollout]:
    """Yield every rollout that Codex has compressed."""
    for directory in (sessions, sessions.parent / "archived_sessions"):
        for path in base.glob(directory, f"**/rollout-*.jsonl{PACKED}"):
            match = ROLLOUT.fullmatch(path.name.removesuffix(PACKED))
            if match and (status := _status(path)):
                yield Rollout(path, match[4], status)


def _status(path: Path) -> os.stat_result | None:
    try:
        status = os.lstat(path)
    except OSError:
        return None
    return status if stat.S_ISREG(status.st_mode) else None


def part(path: Path, start: int, size: int) -> bytes:
    """Return up to `size` bytes from offset `start`; empty if the file cannot be read."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError:
        return b""
    try:
        return os.pread(descriptor, size, start)
    except OSError:
        return b""
    finally:
        os.close(descriptor)


def unpacked(path: Path, size: int | None = None) -> bytes | None:
    """Return what Codex compressed, or its first `size` bytes; None if it cannot be read, is not
    whole, or no module can decompress it.
    """
    zstd = _zstd()
    if zstd is None:
        return None
    new_frame = getattr(zstd.ZstdDecompressor(), "decompressobj", zstd.ZstdDecompressor)
    frame, content, length = new_frame(), list[bytes](), 0
    try:
        with regular.opened(path) as file:
            while (size is None or length < size) and (data := file.read(CHUNK)):
                content.append(frame.decompress(data))
                while frame.eof and frame.unused_data:
                    data, frame = frame.unused_data, new_frame()
                    content.append(frame.decompress(data))
                length = sum(map(len, content)) if size is not None else 0
    except (OSError, zstd.ZstdError):
        return None
    return b"".join(content)[:size] if size is not None or frame.eof else None


def can_unpack() -> bool:
    """Return whether a module is there that decompresses rollouts."""
    return _zstd() is not None


def _zstd() -> Any:
    """Return the module that decompresses: Python 3.14's, or that of the extra `zstd`; None if
    neither is there.
    """
    for name in ("compression.zstd", "zstandard"):
        with suppress(ImportError):
            return import_module(name)
    return None


def head(path: Path, size: int) -> bytes:
    """Return the first bytes of a rollout, compressed or not; empty if it cannot be read."""
    return (unpacked(path, size) or b"") if path.suffix == PACKED else part(path, 0, size)


def meta(path: Path) -> dict[str, Any]:
    """Return the thread's description from the first line of a rollout."""
    if path.suffix == PACKED:
        line = head(path, base.LONGEST_LINE).partition(b"\n")[0]
    else:
        line = base.first_line_bytes(path)
    return payload_of(record_of(line))


def is_bare(head: bytes) -> bool:
    """Return whether a rollout that begins like this has the items themselves, without records
    around them, as Codex wrote them until it had records.
    """
    return BARE_HEAD.match(head) is not None


def files_of(sessions: Path, thread: str) -> list[Path]:
    """Return every file of a thread: active ones first, then compressed and archived ones."""
    pattern = f"rollout-*-{thread}.jsonl"
    active = base.glob(sessions, f"*/*/*/{pattern}")
    packed = base.glob(sessions, f"*/*/*/{pattern}{PACKED}")
    return active + packed + base.glob(sessions.parent / "archived_sessions", f"**/{pattern}*")


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
