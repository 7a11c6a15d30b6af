"""Compare SQLite databases: git says only that binary files differ.

Each one is copied with its log and journal to a temporary directory, and opened there. What cannot
be opened, is large or takes long is no database here.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from gitcp.errors import StoreDamaged
from gitcp.git import trees
from gitcp.git.reader import ObjectReader
from gitcp.model import EXECUTABLE, FILE, FileChange, Oid
from gitcp.store import one_line
from gitcp.worktree.sqlite_files import HEADER, NamesAnotherFile, database_of, write_copy
from gitcp.worktree.sqlite_locks import MAIN, MEMBERS

LARGEST = 256 << 20
"""Bytes of a database with its log and journal that are read."""

SECONDS = 2.0
"""How long the tables of one database are counted."""

STEPS = 10_000
"""Instructions of SQLite between two looks at the clock."""


class _TooLarge(Exception):
    """A database is larger than LARGEST."""


class Table(NamedTuple):
    """A table: its number of rows, None if it is virtual, and the SQL of it, its indexes and
    triggers.
    """

    rows: int | None
    schema: tuple[str, ...]


class TableChange(NamedTuple):
    """A table that differs; `old` and `new` are None if it does not exist."""

    name: str
    old: Table | None
    new: Table | None


class DatabaseChange(NamedTuple):
    """A database that differs, and its tables that differ in their schema or number of rows."""

    path: bytes
    tables: tuple[TableChange, ...]


def compare(
    reader: ObjectReader, old: Oid, new: Oid, changes: Sequence[FileChange]
) -> Iterator[DatabaseChange]:
    """Yield the databases among the changed paths of two trees that `reader` can read."""
    bases = dict.fromkeys(database_of(change.path) or change.path for change in changes)
    for base in bases:
        sides = [_side(reader, tree, base) for tree in (old, new)]
        if None not in sides and any(sides):
            with TemporaryDirectory(prefix="gitcp-") as directory:
                before, after = (
                    _tables(reader, side or {}, Path(directory, name))
                    for side, name in zip(sides, ("old", "new"), strict=True)
                )
            if before is not None and after is not None:
                names = sorted(before | after)
                differing = (TableChange(n, before.get(n), after.get(n)) for n in names)
                yield DatabaseChange(base, tuple(e for e in differing if e.old != e.new))


def _side(reader: ObjectReader, tree: Oid, base: bytes) -> dict[bytes, Oid] | None:
    """Return the files of a database in a tree by what is added to its name, none if it does not
    exist; None if the file is no database.
    """
    entries = {suffix: trees.lookup(reader, tree, base + suffix) for suffix in MEMBERS}
    main = entries[MAIN]
    if main is None:
        return {}
    if main.mode not in (FILE, EXECUTABLE):
        return None
    try:
        is_database = next(iter(reader.stream_blob(main.oid)), b"").startswith(HEADER)
    except StoreDamaged:
        return None
    return {suffix: e.oid for suffix, e in entries.items() if e} if is_database else None


def _tables(reader: ObjectReader, side: dict[bytes, Oid], path: Path) -> dict[str, Table] | None:
    """Return the tables of a copy of a database; None if they cannot be read."""
    if not side:
        return {}
    left = LARGEST

    def content(oid: Oid) -> Iterator[bytes]:
        nonlocal left
        for chunk in reader.stream_blob(oid):
            left -= len(chunk)
            if left < 0:
                raise _TooLarge
            yield chunk

    try:
        write_copy(path, ((suffix, content(oid)) for suffix, oid in side.items()))
        with closing(sqlite3.connect(f"{path.as_uri()}?mode=rw", uri=True)) as database:
            return _counted(database)
    except (StoreDamaged, NamesAnotherFile, _TooLarge, OSError, sqlite3.Error, UnicodeError):
        return None


def _counted(database: sqlite3.Connection) -> dict[str, Table]:
    until = time.monotonic() + SECONDS
    database.set_progress_handler(lambda: time.monotonic() > until, STEPS)
    database.execute("pragma trusted_schema = off")  # it may be a stranger's
    schema: dict[str, list[str]] = {}
    listed = "select tbl_name, sql from sqlite_master where sql is not null order by type, name"
    for name, sql in database.execute(listed):
        schema.setdefault(name, []).append(sql)
    listed = "select name, sql from sqlite_master where type = 'table' and name not like 'sqlite_%'"
    return {
        name: Table(_rows(database, name, sql), tuple(schema.get(name, ())))
        for name, sql in database.execute(listed).fetchall()
    }


def _rows(database: sqlite3.Connection, name: str, sql: str) -> int | None:
    if sql.upper().startswith("CREATE VIRTUAL"):
        return None  # its module may be missing
    quoted = name.replace('"', '""')
    number: int = database.execute(f'select count(*) from "{quoted}"').fetchone()[0]  # noqa: S608
    return number


def lines(change: DatabaseChange) -> Iterator[str]:
    """Yield what differs between two databases as the lines of a patch."""
    yield HEAD
    if not change.tables:
        yield " the same tables and numbers of rows"
    for table in change.tables:
        yield from _side_lines("-", table.name, table.old, table.new)
        yield from _side_lines("+", table.name, table.new, table.old)


def _side_lines(sign: str, name: str, table: Table | None, other: Table | None) -> Iterator[str]:
    if table is None:
        return
    if other is None or table.rows != other.rows:
        rows = "a virtual table" if table.rows is None else f"{table.rows:,} rows"
        yield f"{sign}{one_line(name, 100)}: {rows}"
    for sql in table.schema:
        if other is None or sql not in other.schema:
            yield f"{sign}{one_line(sql, 300)}"


def added_to(patch: bytes, compared: Sequence[DatabaseChange]) -> bytes:
    """Return a patch of git's with the lines of databases after those that say that they differ."""
    parts = patch.split(b"diff --git ")
    for change in compared:
        names = [change.path + suffix for suffix in MEMBERS]
        for number, part in enumerate(parts):
            if any(part.startswith(b"a/%s b/%s\n" % (n, n)) for n in names) and BINARY in part:
                text = "".join(f"{line}\n" for line in lines(change))
                parts[number] = part + text.encode("utf-8", "replace")
                break
    return b"diff --git ".join(parts)


HEAD = "@@ tables @@"
"""The line before those of a database."""

BINARY = b"\nBinary files "
"""Begins what git says of a file that is no text."""
