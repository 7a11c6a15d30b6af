"""gitcp's small files of state: JSON objects that are replaced as a whole, and a line of text.

A replaced file is the old one or the new one, whenever the process ends. Logs, which only grow, are
appended to (gitcp.git.fsync.append_line).
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gitcp import wire
from gitcp.errors import DiskFull, GitcpError, StoreDamaged
from gitcp.git import shared
from gitcp.git.fsync import FULL, read_own, replace_file
from gitcp.git.shared import quoted


def read(path: Path) -> dict[str, Any] | None:
    """Return the JSON object in a file, None if the file is missing. Raises StoreDamaged."""
    try:
        fields = wire.loads(read_own(path))
    except FileNotFoundError:
        return None
    except OSError as error:
        raise StoreDamaged(f"{path} cannot be read: {error.strerror}", hint=_fix(path)) from None
    except ValueError:
        raise damaged(path, "not JSON") from None
    if not isinstance(fields, dict):
        raise damaged(path, "not a JSON object")
    return fields


def peek(path: Path) -> dict[str, Any]:
    """Return the JSON object in a file that may be lost; {} if it is missing or cannot be read."""
    try:
        return read(path) or {}
    except StoreDamaged:
        return {}


def write(
    path: Path, fields: Mapping[str, object], *, durable: bool = True, private: bool = False
) -> None:
    """Replace a file with a JSON object, which survives power loss if `durable`; `private` is for
    this user only. Raises DiskFull, GitcpError; the old file is then intact.
    """
    try:
        replace_file(path, wire.dumps(fields, small=True), durable=durable, private=private)
    except OSError as error:
        if error.errno in FULL:
            raise DiskFull(
                f"the disk is full: {path.name} was not written", hint="free some space"
            ) from None
        raise GitcpError(f"{path} cannot be written: {error.strerror}") from None


def damaged(path: Path, how: str) -> StoreDamaged:
    """Return the error for one of gitcp's files with invalid content."""
    return StoreDamaged(
        f"{path} is damaged: {how}", hint=f"inspect it, then remove it: rm {quoted(str(path))}"
    )


def read_line(path: Path) -> str | None:
    """Return the text in a file of one line, None if it is missing, empty or unreadable."""
    try:
        return read_own(path).decode("utf-8").strip() or None
    except (OSError, UnicodeDecodeError):
        return None


def write_line(path: Path, text: str) -> None:
    """Replace a file of one line. It may be lost in a power failure. Raises OSError."""
    replace_file(path, f"{text}\n".encode(), durable=False)


def _fix(path: Path) -> str:
    """Return the command that lets other members read a file of gitcp's: git makes the directory of
    a linked working tree for its owner alone. In an unshared repository, one that shows why.
    """
    directory = path.parent
    if directory.parent.parent.name == "worktrees":
        directory = directory.parent
    return shared.fix(directory) or f"ls -ld {quoted(str(directory))}"
