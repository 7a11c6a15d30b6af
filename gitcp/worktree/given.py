"""Paths as people and programs pass them, before anything is looked up."""

from __future__ import annotations

import os

from gitcp.errors import BadValue


def encoded(path: str | bytes | os.PathLike[str], what: str, nothing: str) -> bytes:
    """Return a path as the file system has it. Raises BadValue for one that no file can have. The
    error says `what` it is, and `nothing`, what was not done.
    """
    try:
        raw = os.fsencode(path)
    except UnicodeEncodeError:
        shown, why = os.fspath(path), "cannot be encoded"
    else:
        if b"\0" not in raw:
            return raw
        shown, why = os.fsdecode(raw), "contains a NUL byte"
    raise BadValue(f"{what} {shown!r} {why}: {nothing}")


def encoded_path(path: str | bytes | os.PathLike[str], nothing: str) -> bytes:
    """Return a path of the repository as `encoded` does. Raises BadValue also for an empty one: it
    is what a variable without a value leaves, and would mean everything.
    """
    raw = encoded(path, "the path", nothing)
    if not raw:  # `restore 3 -- "$FILE"` without a FILE restored everything
        raise BadValue(f"the path '' is empty: {nothing}", hint="name a file, or .")
    return raw
