"""SQLite databases that differ: their tables, numbers of rows and schemas."""

from __future__ import annotations

import os
import sqlite3
import struct
from contextlib import closing
from pathlib import Path

import pytest
from back import save

from gitcp.history import databases, diff, diff_now
from gitcp.model import Checkpoint
from gitcp.worktree.snapshot import Limits

from driver import Project
from samples import open_store

JOURNAL_MAGIC = bytes.fromhex("d9d505f920a163d7")


def run(path: Path, *statements: str) -> None:
    with closing(sqlite3.connect(path)) as database:
        for statement in statements:
            database.execute(statement)
        database.commit()


@pytest.fixture
def first(project: Project) -> Checkpoint:
    """A database of two tables, and a file that only has the name of one."""
    run(
        project.root / "app.db",
        "create table users(name text)",
        "create table old(n)",
        "insert into users values ('ada'), ('bob'), ('eve')",
    )
    project.write("other.db", b"\0no database")
    return save(project)


def text_of(project: Project, old: Checkpoint, new: Checkpoint) -> str:
    return diff.compare(open_store(project), old.root, new.root).text().decode()


def test_tables(project: Project, first: Checkpoint) -> None:
    """A patch has the tables that differ after git's line, and of no other binary file."""
    run(
        project.root / "app.db",
        "delete from users where name = 'eve'",
        "alter table users add column mail text",
        "drop table old",
        "create table orders(n)",
    )
    project.write("other.db", b"\0neither")
    second = save(project)
    shown = text_of(project, first, second)
    assert shown.partition("Binary files a/app.db and b/app.db differ\n")[2].startswith(
        "@@ tables @@\n-old: 0 rows\n-  n\n+orders: 0 rows\n+  n\n-users: 3 rows\n"
        "+users: 2 rows\n+  mail text\ndiff --git a/other.db"
    )
    with diff_now.compare(open_store(project), first, Limits(), text=True) as now:
        assert now.text().decode() == shown
        (change,) = now.databases()
    assert [(each.name, bool(each.old), bool(each.new)) for each in change.tables] == [
        ("old", True, False),
        ("orders", False, True),
        ("users", True, True),
    ]


@pytest.mark.parametrize(
    ("old", "new", "lines"),
    [
        (
            "create table t(a)",
            "create table t (a )",
            ["-  create table t(a)", "+  create table t (a )"],
        ),
        ("create table t(a)", "create table t(a) strict", ["+  strict"]),
        (
            "create table \"a,b(\" (id int check (id in (1, 2)), c text default ',)')",
            "create table \"a,b(\" (id int check (id in (1, 3)), c text default ',)')",
            ["-  id int check (id in (1, 2))", "+  id int check (id in (1, 3))"],
        ),
        (
            "create table t as select 1",
            "create view t",
            ["-  create table t as select 1", "+  create view t"],
        ),
        ("create table t(a", "create table t(a, b)", ["-  create table t(a", "+  a", "+  b"]),
    ],
)
def test_columns(old: str, new: str, lines: list[str]) -> None:
    """Of two schemas, the columns that differ are listed; parentheses and commas in names, texts
    and checks are none, and what has no columns is listed whole.
    """
    tables = databases.Table(1, (old,)), databases.Table(1, (new,))
    change = databases.DatabaseChange(b"a", (databases.TableChange("t", *tables),))
    assert list(databases.lines(change)) == ["@@ tables @@", " t: 1 rows", *lines]


def test_only_in_the_log(project: Project, first: Checkpoint) -> None:
    """Rows that are only in the log count: it belongs to the database."""
    with closing(sqlite3.connect(project.root / "app.db")) as database:
        database.execute("pragma journal_mode = wal")
        database.execute("pragma wal_autocheckpoint = 0")
        database.execute("insert into users values ('mia')")
        database.commit()
        second = save(project)
        assert "-users: 3 rows\n+users: 4 rows\n" in text_of(project, first, second)
        database.execute("update users set name = 'joe'")
        database.commit()
        third = save(project)
    assert "@@ tables @@\n the same tables and numbers of rows\n" in text_of(project, second, third)


def test_damaged(project: Project, first: Checkpoint, monkeypatch: pytest.MonkeyPatch) -> None:
    """What SQLite cannot read, or is too large, is a binary file as any other."""
    data = bytearray(project.read("app.db"))
    data[100:] = bytes(len(data) - 100)
    project.write("app.db", bytes(data))
    second = save(project)
    assert "Binary files a/app.db" in text_of(project, first, second)
    assert "tables" not in text_of(project, first, second)
    monkeypatch.setattr(databases, "LARGEST", 100)
    run(project.root / "new.db", "create table t(n)")
    assert "tables" not in text_of(project, second, save(project))


def test_in_words(project: Project, first: Checkpoint) -> None:
    """The command prints them, and its JSON has them for the path."""
    run(project.root / "app.db", "delete from users")
    assert "-users: 3 rows\n+users: 0 rows\n" in project.gitcp("diff", "--", "app.db").out
    (change,) = project.json_lines("diff")
    (table,) = change["tables"]
    assert (table["name"], table["old"]["rows"], table["new"]["rows"]) == ("users", 3, 0)


def journal_naming(path: Path) -> bytes:
    """A journal that SQLite rolls back, of a transaction over several databases that this file
    lists.
    """
    header = JOURNAL_MAGIC + struct.pack(">5I", 0, 0, 1, 512, 4096)
    name = os.fsencode(path)
    tail = struct.pack(">I", 1 << 18) + name + struct.pack(">2I", len(name), sum(name))
    return (header + tail.rjust(512 - len(header) - 8, b"\0") + JOURNAL_MAGIC).ljust(512, b"\0")


def test_a_journal_that_names_another_file(project: Project, tmp_path: Path) -> None:
    """SQLite deletes the file that such a journal names: it is not given to SQLite."""
    victim = tmp_path / "victim.txt"
    victim.write_text("mine")
    old = save(project)
    run(project.root / "app.db", "create table users(name text)")
    project.write("app.db-journal", journal_naming(victim))
    new = save(project)
    shown = text_of(project, old, new)

    assert victim.read_text() == "mine"
    assert "Binary files /dev/null and b/app.db differ\n" in shown
    assert databases.HEAD not in shown
