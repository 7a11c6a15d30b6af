"""Writes a file that the user asked for: whole or not at all, mode 0600, and over no other file
unless told so.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from gitcp.errors import BadValue, DiskFull, GitcpError, Refused
from gitcp.git.fsync import FULL, is_running, replacing, write_all

A_FILE = "pass a file: -o FILE"
STDOUT = "-"
"""The name that is standard output instead."""


def chosen(directory: Path, name: str, *, force: bool) -> Path:
    """Return the path of a file to write, by its name as typed in a directory. Raises as
    `require_free`, and BadValue if the name is a directory's.
    """
    if name.endswith("/") and not (directory / name).exists():
        raise BadValue(f"{name} names a directory: nothing was written", hint=A_FILE)
    require_free(directory / name, force=force)
    return directory / name


def require_free(path: Path, *, force: bool) -> None:
    """Raise Refused if a file is at `path` that `force` does not replace, BadValue if no file can
    be there.
    """
    if not path.parent.is_dir():
        is_taken = os.path.lexists(path.parent)
        raise BadValue(
            f"{path.parent} is not a directory: nothing was written",
            hint=A_FILE if is_taken else f"mkdir -p {shlex.quote(str(path.parent))}",
        )
    if path.is_dir():
        raise BadValue(f"{path} is a directory: nothing was written", hint=A_FILE)
    if path.exists() and not path.is_file():  # root's `-o /dev/null` replaced the device
        raise BadValue(f"{path} is not a regular file: nothing was written", hint=A_FILE)
    if os.path.lexists(path) and not force:
        raise Refused(f"{path} exists already: nothing was written", hint="--force replaces it")


def write(path: Path, chunks: Iterable[bytes], *, force: bool) -> None:
    """Write `chunks` to a temporary file beside `path`, and give it that name. Raises Refused,
    DiskFull, GitcpError, and what `chunks` raises.
    """
    _tidy(path)
    temporary = path.with_name(f".{path.name[:200]}.{os.getpid()}")
    try:
        with replacing(path, temporary=temporary, private=True, overwrite=force) as descriptor:
            for chunk in chunks:
                write_all(descriptor, chunk)
    except FileExistsError:
        raise Refused(
            f"{path} exists already: nothing was written", hint="--force replaces it"
        ) from None
    except OSError as error:
        if error.errno in FULL:
            raise DiskFull(
                f"the disk is full: {path} was not written", hint="free some space"
            ) from None
        raise GitcpError(f"{path} cannot be written: {error.strerror}") from None


def _tidy(path: Path) -> None:
    """Remove what processes that were killed left of the same file."""
    beginning = f".{path.name[:200]}."
    with suppress(OSError):
        for name in os.listdir(path.parent):
            number = name.removeprefix(beginning)
            if (
                name.startswith(beginning)
                and number.isascii()
                and number.isdigit()
                and not is_running(number)
            ):
                path.with_name(name).unlink(missing_ok=True)
