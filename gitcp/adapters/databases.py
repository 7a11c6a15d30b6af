"""Read the SQLite databases of agents; never write them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

from gitcp import regular

if TYPE_CHECKING:
    import sqlite3


class Unreadable(Exception):
    """The database, or the file in its place, cannot be read."""


@contextmanager
def opened(path: Path) -> Iterator[sqlite3.Connection]:
    """Open a database read-only. If no other program has it open, no file is created next to it
    either. Raises Unreadable, also for what is done with it.
    """
    import sqlite3  # 5 ms: only where there is a database

    log = path.with_name(f"{path.name}-wal")
    # SQLite would wait for a named pipe, also for one in the place of a file beside the database
    for each in (path, log, *(path.with_name(path.name + end) for end in ("-shm", "-journal"))):
        if not regular.is_regular(each):
            raise Unreadable(f"{each.name} is not a regular file")
    alone = "" if os.path.exists(log) else "&immutable=1"
    uri = f"file:{quote(str(path))}?mode=ro{alone}"
    try:
        with closing(sqlite3.connect(uri, uri=True, isolation_level=None)) as database:
            database.row_factory = sqlite3.Row
            yield database
    except sqlite3.Error as error:
        raise Unreadable(str(error)) from None
