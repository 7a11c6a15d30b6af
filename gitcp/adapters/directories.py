"""Transcripts of JSON lines in one directory for each working directory, whose name is derived from
its path by a lossy mapping: the `cwd` in the lines tells apart what shares a name.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from gitcp import regular, wire
from gitcp.adapters import base

HEAD = 64 << 10
TAIL = 64 << 10
"""Bytes at the start and the end of a transcript in which its directory is looked for."""

CWD = re.compile(rb'"cwd":\s*("(?:[^"\\]|\\.)*")')

Named = Callable[[str], str]
"""Returns the agent's directory name for an absolute path."""


def dashed(path: str) -> str:
    """Return a path with a dash for each unit that is no letter or digit of ASCII."""
    if not path.isascii():
        from unicodedata import normalize  # rarely needed

        path = normalize("NFC", path)
    # The agents count UTF-16 units (JavaScript).
    return "".join(c if c.isascii() and c.isalnum() else "-" * (1 + (c > "\uffff")) for c in path)


def stems(directory: Path) -> list[str]:
    """Return the names, without their ending, of a directory's files that are named after a
    session, sorted.
    """
    try:
        names = os.listdir(directory)
    except OSError:
        return []
    found = (name.removesuffix(".jsonl") for name in names if name.endswith(".jsonl"))
    return sorted(filter(base.SESSION_ID.fullmatch, found))


def belongs(path: Path, name: str, paths: set[str], named: Named) -> bool:
    """Return whether a transcript in the directory `name` belongs to one of these paths, not to
    another with the same directory name.
    """
    cwd = cwd_of(path)
    if cwd is None or cwd in paths:
        return True
    # A transcript restored from another path or machine still names the old one.
    return named(cwd) != name and any(named(cwd_here) == name for cwd_here in paths)


def cwd_of(path: Path) -> str | None:
    """Return the working directory named in the first lines of a transcript."""
    cwds = (base.string(fields, "cwd") for fields in head(path))
    return next((real(cwd) for cwd in cwds if cwd is not None), None)


def real(path: str) -> str | None:
    """Return the real path of what a transcript names, None if nothing can have this path."""
    try:
        return os.path.realpath(path)
    except ValueError:  # a zero byte, or half a surrogate pair
        return None


def head(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the records at the beginning of a transcript, none if it cannot be read."""
    remaining = HEAD
    try:
        with regular.opened(path) as file:
            while remaining > 0 and (line := file.readline(remaining)):
                remaining -= len(line)
                yield wire.parse_line(line) or {}
    except (OSError, ValueError):
        return


def of(path: Path, name: str, named: Named) -> Path | None:
    """Return the working directory of a transcript in the directory `name`: the `cwd` in its lines
    that maps to it.

    A session that changes directory stays where it started; one restored elsewhere has its
    old directory until it continues.
    """
    first = cwd_of(path)
    if first is not None and named(first) == name:
        return Path(first)
    candidates = set(filter(None, map(real, _last_cwds(path))))
    return next((Path(cwd) for cwd in sorted(candidates) if named(cwd) == name), None)


def _last_cwds(path: Path) -> Iterator[str]:
    try:
        with regular.opened(path) as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - TAIL))
            for quoted in set(CWD.findall(file.read(TAIL))):
                yield wire.loads(quoted)
    except (OSError, ValueError):
        return
