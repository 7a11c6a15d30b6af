"""SQLite databases among the files: which files belong to one, and copies of them.

In WAL mode the latest committed rows are in `<name>-wal` until a checkpoint moves them into the
database. In rollback mode `<name>-journal` has what a transaction overwrote: without it, a database
captured in the middle of one is corrupt. `<name>-shm` is memory that processes share; SQLite
builds it anew.
"""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import BinaryIO, NamedTuple

from gitcp.worktree import sqlite_locks
from gitcp.worktree.interpreter import interpreter
from gitcp.worktree.sqlite_locks import JOURNAL, LOG, MEMBERS, MEMORY

HEADER = b"SQLite format 3\0"
PAGE = 512
"""The size of a database is a multiple of this many bytes."""

SECONDS = 1.0
"""How long a scan waits for locks in all."""

NAMES_ANOTHER = bytes.fromhex("d9d505f920a163d7")
"""Ends the journal of a transaction over several databases, after the path of the file that lists
them (sqlite.org/fileformat2.html, section 3.1).
"""

_parked: dict[tuple[int, int], int] = {}
"""Descriptors of databases, by device and inode, that are closed once nothing else here has the
file open.
"""


class NamesAnotherFile(Exception):
    """A journal names another file, which SQLite would delete."""


class Copied(NamedTuple):
    """A file of a database as it was: its status, and its content, None if it is what is stored."""

    status: os.stat_result
    content: BinaryIO | None


class Waiting:
    """What is left of the time that a scan may wait for locks."""

    def __init__(self) -> None:
        self.left = SECONDS

    @contextmanager
    def until(self) -> Iterator[float]:
        """Yield the time of `time.monotonic` until which to wait; what passes is used up."""
        began = time.monotonic()
        try:
            yield began + self.left
        finally:
            self.left = max(0.0, self.left - (time.monotonic() - began))


def database_of(name: bytes, suffixes: tuple[bytes, ...] = (LOG, JOURNAL)) -> bytes | None:
    """Return the name of the database that a file of this name would belong to, None if its name is
    no such name.
    """
    for ending in suffixes:
        if name.endswith(ending) and name != ending:
            return name.removesuffix(ending)
    return None


def size_of_database(path: bytes) -> int | None:
    """Return the size of a database in bytes; None if the file is not one or cannot be read. An
    empty file is one: SQLite has written nothing to it yet.
    """
    try:
        file = _opened(path)
    except OSError:
        return None
    try:
        status = os.fstat(file)
        if not stat.S_ISREG(status.st_mode):
            return None
        is_database = not status.st_size or os.pread(file, len(HEADER), 0) == HEADER
        return status.st_size if is_database else None
    except OSError:
        return None
    finally:
        close(file)


def _opened(path: bytes) -> int:
    """Open a file for reading, by the descriptor that is kept of it if there is one."""
    status = os.lstat(path)
    kept = _parked.get((status.st_dev, status.st_ino))
    return os.open(path, sqlite_locks.FLAGS) if kept is None else kept


def close(file: int) -> None:
    """Close a file that was read. If it is a database that this process has open by itself, too,
    the descriptor is kept until it has not: closing it would drop the locks of that connection.
    """
    if file in _parked.values():
        return
    with suppress(OSError):
        if os.pread(file, len(HEADER), 0) == HEADER and is_open_here(file):
            _park(file)
            return
    os.close(file)


def is_open_here(file: int) -> bool:
    """Return whether this process has the file of a descriptor open by another one, too."""
    status = os.fstat(file)
    ours = {file, *_parked.values()}
    return any(os.path.samestat(each, status) for fd, each in _open_files() if fd not in ours)


def _open_files() -> Iterator[tuple[int, os.stat_result]]:
    for name in os.listdir("/dev/fd"):
        with suppress(OSError, ValueError):
            yield int(name), os.fstat(int(name))


def _park(file: int) -> None:
    for key, parked in list(_parked.items()):
        if not is_open_here(parked):
            del _parked[key]
            os.close(parked)
    status = os.fstat(file)
    key = status.st_dev, status.st_ino
    # One is enough to read by, but closing another drops the locks as well.
    _parked[key if key not in _parked else (status.st_dev, -file)] = file


@contextmanager
def copied(
    database: bytes, known: Mapping[bytes, sqlite_locks.Stamp], waiting: Waiting
) -> Iterator[tuple[dict[bytes, Copied], str]]:
    """Yield the files of a database as they are at one moment, by what is added to its name; and
    who kept that from being known, "" for nobody. The contents are closed afterwards.

    Files with the stamp `known` are not read. Raises OSError; FileNotFoundError if there is no
    database.
    """
    import tempfile  # only where a database changed

    with ExitStack() as stack:
        files = {each: stack.enter_context(tempfile.TemporaryFile()) for each in MEMBERS}
        receivers = {each: file.fileno() for each, file in files.items()}
        with waiting.until() as until:
            copy = _copy_elsewhere if is_ours(database) else sqlite_locks.copy
            members, holder = copy(database, known, receivers, until)
        yield (
            {
                each: Copied(status, files[each] if is_copied else None)
                for each, (status, is_copied) in members.items()
            },
            holder,
        )


def is_ours(database: bytes) -> bool:
    """Return whether this process has one of these files open."""
    statuses = []
    for each in (*MEMBERS, MEMORY):
        with suppress(OSError):
            statuses.append(os.lstat(database + each))
    parked = set(_parked.values())
    ours = [status for file, status in _open_files() if file not in parked]
    return any(os.path.samestat(one, each) for one in statuses for each in ours)


def _copy_elsewhere(
    database: bytes,
    known: Mapping[bytes, sqlite_locks.Stamp],
    receivers: Mapping[bytes, int],
    until: float,
) -> sqlite_locks.Copies:
    """Copy in a process of its own. Raises OSError."""
    import pickle
    import subprocess

    python = interpreter()
    if python is None:
        raise OSError("this program has the database open, and no Python could be started")
    seconds = max(0.0, until - time.monotonic())
    task = database, {key: tuple(stamp) for key, stamp in known.items()}, receivers, seconds
    script = os.path.abspath(sqlite_locks.__file__)
    try:
        done = subprocess.run(
            [python, "-I", "-S", script, ascii(task)],
            pass_fds=tuple(receivers.values()),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={},
            check=True,
        )
        answer = pickle.loads(done.stdout)  # noqa: S301  (our own process)
    except (subprocess.SubprocessError, pickle.PickleError, EOFError) as error:
        raise OSError(f"no copy could be made: {error}") from None
    if isinstance(answer, OSError):
        raise answer
    copies: sqlite_locks.Copies = answer
    return copies


def write_copy(path: Path, members: Iterable[tuple[bytes, Iterable[bytes]]]) -> None:
    """Write a database with its log and journal at `path`, for SQLite to open there. `members` are
    what is added to its name, and the content.

    Raises OSError, and NamesAnotherFile: a stranger's checkpoint deleted a file of the user's when
    it was only compared, since SQLite deletes what lists the databases of a transaction that is
    rolled back, wherever it is.
    """
    for suffix, content in members:
        with open(os.fsencode(path) + suffix, "wb") as file:
            end = b""
            for chunk in content:
                file.write(chunk)
                end = (end + chunk)[-len(NAMES_ANOTHER) :]
        if suffix == JOURNAL and end == NAMES_ANOTHER:
            raise NamesAnotherFile
