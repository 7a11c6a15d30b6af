"""SQLite databases among the files: which files belong to one, by name and content.

In WAL mode the latest committed rows are in `<name>-wal` until a checkpoint moves them into the
database. In rollback mode `<name>-journal` has what a transaction overwrote: without it, a database
captured in the middle of one is corrupt.
"""

from __future__ import annotations

import os
import stat

_HEADER = b"SQLite format 3\0"
_SIDECARS = (b"-wal", b"-journal")


def database_of(name: bytes) -> bytes | None:
    """Return the name of the database that a file of this name would belong to, None if its name is
    no such name.
    """
    for ending in _SIDECARS:
        if name.endswith(ending) and name != ending:
            return name.removesuffix(ending)
    return None


def size_of_database(path: bytes) -> int | None:
    """Return the size of a database in bytes; None if the file is not one or cannot be read. An
    empty file is one: SQLite has written nothing to it yet.
    """
    try:
        file = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        status = os.fstat(file)
        if not stat.S_ISREG(status.st_mode):
            return None
        is_database = not status.st_size or os.pread(file, len(_HEADER), 0) == _HEADER
        return status.st_size if is_database else None
    except OSError:
        return None
    finally:
        os.close(file)
