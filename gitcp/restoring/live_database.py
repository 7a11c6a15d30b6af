"""Restore a database that a program has open: through SQLite, all or nothing.

The rows go into the live database in one transaction, by SQLite's online backup, so the program
goes on with them. Nothing of this happens where the database is not the saved one any more, which
is looked at while the transaction keeps writers out.
"""

from __future__ import annotations

import os
import sqlite3
import tempfile
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

from gitcp import fingerprint
from gitcp.errors import GitcpError
from gitcp.fingerprint import CTIME
from gitcp.restoring.contents import Contents
from gitcp.restoring.databases import LiveDatabase
from gitcp.worktree.records import Stamp, stamp_of
from gitcp.worktree.sqlite_files import NamesAnotherFile, write_copy
from gitcp.worktree.sqlite_locks import LOG, MAIN

SECONDS = 1.0
"""How long the locks of other programs are waited for."""

Seen = Callable[[bytes], Stamp | None]
_Files = dict[bytes, tuple[int, ...]]


class _Edited(Exception):
    """The database is not the saved one any more."""


class _Busy(Exception):
    """A program keeps its locks."""


def restore(contents: Contents, database: LiveDatabase, root: Path, seen: Seen) -> None:
    """Write a database's rows into the live one. Raises GitcpError, with nothing changed."""
    path = root / os.fsdecode(database.path)
    users = ", ".join(database.users)
    kept = f"it was not changed: {users} has it open"
    try:
        with tempfile.TemporaryDirectory(prefix="gitcp-") as directory:
            source = Path(directory, "database")
            parts = (
                (each.suffix, contents.of(each.entry, each.conversion)) for each in database.members
            )
            write_copy(source, parts)
            with closing(sqlite3.connect(source)) as copy:  # which applies its log or its journal
                copy.execute("pragma journal_mode = delete").fetchall()
            _copy(source, path, _saved(database, path, seen))
    except _Edited:
        raise GitcpError(f"changed during the restore and was kept: {users} has it open") from None
    except _Busy:
        raise GitcpError(f"the database is locked, {kept}") from None
    except NamesAnotherFile:
        raise GitcpError(f"its journal names another file, {kept}") from None
    except (sqlite3.Error, OSError) as error:
        raise GitcpError(f"SQLite: {error}; {kept}") from None


def _saved(database: LiveDatabase, path: Path, seen: Seen) -> _Files:
    """Return the files of the database. Raises _Edited if they are not the saved ones."""
    files = {}
    for suffix in (MAIN, LOG):
        status = _status(os.fsencode(path) + suffix)
        if (status and stamp_of(status)) != seen(database.path + suffix):
            raise _Edited
        files[os.fsencode(path) + suffix] = _written(status)
    return files


def _copy(source: Path, path: Path, saved: _Files) -> None:
    """Copy a database into another one, if its files are still those that were `saved` when nobody
    else may write any more. Raises _Edited, _Busy.
    """
    until = time.monotonic() + SECONDS
    is_checked = False

    def after_step(status: int, *_: int) -> None:
        nonlocal is_checked
        if status in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
            if time.monotonic() > until:
                raise _Busy
        elif not is_checked:
            if any(_written(_status(file)) != before for file, before in saved.items()):
                raise _Edited
            is_checked = True

    uri = f"{path.absolute().as_uri()}?mode=rw"
    with closing(sqlite3.connect(source)) as copy, closing(sqlite3.connect(uri, uri=True)) as live:
        copy.backup(live, pages=1, progress=after_step, sleep=0.01)


def _status(path: bytes) -> os.stat_result | None:
    try:
        return os.lstat(path)
    except FileNotFoundError:
        return None


def _written(status: os.stat_result | None) -> tuple[int, ...]:
    """Return what a write changes. Not the ctime: run by root, SQLite sets the owner of the files
    that it opens.
    """
    return fingerprint.of(status)[:CTIME] if status else ()
