"""Compare SQLite databases: git says only that binary files differ.

Each one is copied with its log and journal to a temporary directory, and opened there. What cannot
be opened, is large or takes long is no database here.
"""

from __future__ import annotations

import re
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
        yield from _table_lines(one_line(table.name, 100), table.old, table.new)


def _table_lines(name: str, old: Table | None, new: Table | None) -> Iterator[str]:
    """Yield what differs of a table: its rows, and its columns one by one, since whoever reads it
    looks for the one that changed.
    """
    if old and new and old.rows == new.rows:
        yield f" {name}: {_number(old)}"
    else:
        yield from (f"-{name}: {_number(old)}",) if old else ()
        yield from (f"+{name}: {_number(new)}",) if new else ()
    before, after = (_parts(table.schema if table else ()) for table in (old, new))
    if before == after and old and new and old.schema != new.schema:  # in blanks, or the like
        before, after = [*old.schema], [*new.schema]
    yield from (f"-  {one_line(part, 300)}" for part in before if part not in after)
    yield from (f"+  {one_line(part, 300)}" for part in after if part not in before)


def _number(table: Table) -> str:
    return "a virtual table" if table.rows is None else f"{table.rows:,} rows"


def _parts(schema: Sequence[str]) -> list[str]:
    """Return the columns and constraints of tables, and all other statements as they are."""
    tables_first = sorted(schema, key=lambda sql: TABLE.match(sql) is None)
    return [part for sql in tables_first for part in (_columns(sql) if TABLE.match(sql) else [sql])]


LONGEST_TABLE = 20_000
"""Characters of a table's SQL that is looked through: what is not closed in it takes their square.
"""


def _columns(sql: str) -> list[str]:
    """Return what is between the outer parentheses of a table's SQL, at its commas, and what comes
    after them; all of it if it has none.
    """
    if len(sql) > LONGEST_TABLE:
        return [sql]
    depth, start, parts = 0, 0, list[str]()
    for token in TOKEN.finditer(sql):
        mark = token[0]
        is_end = depth == 1 and mark in (",", ")")
        if is_end:
            parts.append(sql[start : token.start()])
        if is_end or (depth == 0 and mark == "("):
            start = token.end()
        depth += (mark == "(") - (mark == ")")
    parts.append(sql[start:] if parts else "")
    return [" ".join(part.split()) for part in parts if part.strip()] or [sql]


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


TABLE = re.compile(r"\s*create\s+table\b", re.IGNORECASE)
TOKEN = re.compile(r"'[^']*'|\"[^\"]*\"|`[^`]*`|\[[^]]*\]|--[^\n]*|/\*.*?\*/|[(),]", re.DOTALL)
"""What may contain a parenthesis or a comma that is none, and those that are."""

HEAD = "@@ tables @@"
"""The line before those of a database."""

BINARY = b"\nBinary files "
"""Begins what git says of a file that is no text."""
