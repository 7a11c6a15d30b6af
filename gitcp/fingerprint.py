"""The stat fingerprint: the stat fields of a file that would reveal any change.

Used for every file that is remembered or compared. There are two exceptions: entries of git's index
have git's fields (gitcp.git.index), and the state file stores four fields for a captured path
(gitcp.worktree.records.Stamp).
"""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

Fingerprint = tuple[int, ...]
"""A plain tuple, which marshal accepts: device, inode, mode, size in bytes, mtime and ctime in
nanoseconds.
"""

SIZE, MTIME, CTIME = 3, -2, -1
"""Where in a fingerprint these are. What an earlier version wrote had fewer fields, and is equal to
none of now; the times were at its end too.
"""


def of(status: os.stat_result) -> Fingerprint:
    """Return the fingerprint in a stat result."""
    return (
        status.st_dev,
        status.st_ino,
        status.st_mode,
        status.st_size,
        status.st_mtime_ns,
        status.st_ctime_ns,
    )


def at(path: str) -> Fingerprint | None:
    """Return the fingerprint of the file at `path`, following links; None if it is missing or
    inaccessible.
    """
    try:
        return of(os.stat(path))
    except (OSError, ValueError):
        return None


def each(paths: Iterable[str]) -> list[tuple[str, Fingerprint | None]]:
    """Return these paths, each with the fingerprint of its file."""
    return [(path, at(path)) for path in paths]


def are_unchanged(files: Iterable[tuple[str, Fingerprint | None]]) -> bool:
    """Return whether each file has this fingerprint still."""
    return all(at(path) == before for path, before in files)
