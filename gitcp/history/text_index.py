"""An index of the words in stored conversations, so that a search need not read all of them.

It tells which segments cannot contain a word. All others are read, and so are those that it does
not have: without it a search finds the same, but slowly. The words are those of what a search
looks at: the messages, the tools' inputs and results. SQLite's full-text search keeps the distinct
words of each segment. It is built in the background, and deleted by a purge, like every
cache.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from gitcp import regular
from gitcp.git.fsync import make_own_directory, open_shared
from gitcp.model import Oid

if TYPE_CHECKING:
    import sqlite3

    from gitcp.git.repo import Repository

DIRECTORY = "search"
NAME = "words-2.sqlite"
MANY = 128
"""Segments, of up to 256 KiB each, that a search had to read before they are worth indexing."""

BATCH = 256
"""Segments of one transaction."""

WORD = re.compile(rb"[A-Za-z0-9]{2,}")
LONG = re.compile(rb"[A-Za-z0-9]{129}")
"""A run that is no word but data. Segments with one are not indexed, so they are always read."""

SHORTEST = 3
"""Characters of a word that is looked for: shorter ones are in most segments."""

MOST_TEXTS = 1000
"""Of more texts than this, each segment may have one: reading them takes less time than asking."""

MOST_TERMS = 500
"""If a text is part of more words than this, too many segments have it."""

SCHEMA = """
    create table if not exists segment (id integer primary key, oid blob not null unique);
    create virtual table if not exists words using fts5 (
        text, content='', detail='none', columnsize=0, tokenize='ascii'
    );
    create virtual table if not exists terms using fts5vocab (words, 'row');
"""


class TextIndex:
    """The index of one repository, existing or not. `missing` counts the segments that were asked
    for and are not in it.
    """

    def __init__(self, repo: Repository) -> None:
        self.missing = 0
        self._directory = repo.common_dir / "gitcp" / DIRECTORY
        self._store_dir = repo.store_dir

    @property
    def path(self) -> Path:
        """The file."""
        return self._directory / NAME

    def without(self, words: Sequence[bytes], oids: Iterable[Oid]) -> frozenset[Oid]:
        """Return those of these segments that cannot contain all of the words, which are parts of
        words in lower case.
        """
        import sqlite3  # 5 ms

        wanted = {bytes.fromhex(oid) for oid in oids}
        known: dict[bytes, int] = {}
        possible: set[int] | None = None
        # none yet, damaged, or being written to: everything is read
        with suppress(sqlite3.Error), self._open() as database:
            known = dict(database.execute("select oid, id from segment"))
            possible = _with_words(database, words)
        self.missing += len(wanted - known.keys())
        if possible is None:
            return frozenset()
        return frozenset(
            Oid(oid.hex()) for oid, id in known.items() if oid in wanted and id not in possible
        )

    def possible(self, texts: Collection[Sequence[bytes]], oids: Iterable[Oid]) -> frozenset[Oid]:
        """Return those of these segments that may contain all words of one of the texts, which are
        words in lower case.
        """
        import sqlite3

        wanted = {bytes.fromhex(oid): oid for oid in oids}
        if len(texts) > MOST_TEXTS:
            return frozenset(wanted.values())
        unlike = set[bytes]()
        # none yet, or damaged: all of them may
        with suppress(sqlite3.Error), self._open() as database:
            ids: set[int] = set()
            for words in texts:
                match = " AND ".join(f'"{word.decode("ascii")}"' for word in words)
                if not match:
                    return frozenset(wanted.values())
                rows = database.execute("select rowid from words where words match ?", (match,))
                ids.update(id for (id,) in rows)
            known = database.execute("select oid, id from segment")
            unlike = {oid for oid, id in known if id not in ids}
        return frozenset(oid for name, oid in wanted.items() if name not in unlike)

    def lacking(self, oids: Iterable[Oid]) -> list[Oid]:
        """Return the segments that are not indexed. Deletes a damaged index."""
        import sqlite3

        try:
            with self._open() as database:
                known = {oid for (oid,) in database.execute("select oid from segment")}
        except sqlite3.Error:
            self.path.unlink(missing_ok=True)
            known = set()
        return [oid for oid in dict.fromkeys(oids) if bytes.fromhex(oid) not in known]

    def add(self, segments: Iterator[tuple[Oid, bytes]]) -> None:
        """Index segments, each with its text. Commits batch by batch, so an interruption loses
        little.
        """
        self._create()
        with self._open() as database:
            batch: list[tuple[Oid, bytes]] = []
            for each in segments:
                batch.append(each)
                if len(batch) == BATCH:
                    _insert(database, batch)
                    batch.clear()
            _insert(database, batch)

    def _create(self) -> None:
        """Make the file, unless it exists. Only what adds to the index does: a search writes
        nothing, also where nothing can be written.
        """
        if not self.path.exists():  # SQLite would go by the umask
            make_own_directory(self._store_dir / DIRECTORY)
            for former in self._directory.glob("words-*"):
                former.unlink(missing_ok=True)
            os.close(open_shared(self.path, os.O_RDWR))
        with self._open() as database:
            database.executescript(SCHEMA)

    @contextmanager
    def _open(self) -> Iterator[sqlite3.Connection]:
        """Open the file. Raises sqlite3.Error where there is none."""
        import sqlite3

        if not (os.path.exists(self.path) and regular.is_regular(self.path)):
            raise sqlite3.OperationalError("no regular file")
        with closing(sqlite3.connect(self.path, timeout=0.2, isolation_level=None)) as database:
            yield database


def _with_words(database: sqlite3.Connection, words: Sequence[bytes]) -> set[int] | None:
    """Return the ids of the segments that contain all words, None if that cannot be told."""
    possible: set[int] | None = None
    for word in words:
        if len(word) < SHORTEST:
            continue
        query = "select term from terms where instr(term, ?) limit ?"
        terms = [t for (t,) in database.execute(query, (word.decode("ascii"), MOST_TERMS + 1))]
        if len(terms) > MOST_TERMS:
            continue
        ids = set[int]()
        for start in range(0, len(terms), 50):
            match = " OR ".join(f'"{term}"' for term in terms[start : start + 50])
            rows = database.execute("select rowid from words where words match ?", (match,))
            ids.update(id for (id,) in rows)
        possible = ids if possible is None else possible & ids
    return possible


def _insert(database: sqlite3.Connection, batch: Sequence[tuple[Oid, bytes]]) -> None:
    database.execute("begin immediate")
    for oid, text in batch:
        if LONG.search(text):
            continue
        name = bytes.fromhex(oid)
        row = database.execute("insert or ignore into segment (oid) values (?)", (name,))
        if row.rowcount:
            words = b" ".join(set(WORD.findall(text.lower()))).decode("ascii")
            values = (row.lastrowid, words)
            database.execute("insert into words (rowid, text) values (?, ?)", values)
    database.execute("commit")
