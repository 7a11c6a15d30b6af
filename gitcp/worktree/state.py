"""The state file of a working tree: what the last scan saw, so that the next one need only look for
changes.

One file, `<git dir>/gitcp/worktree-state`. A save appends to it what is otherwise than before, so
that its cost does not follow the size of the tree; when that has grown to a quarter of the rest,
the whole is written anew and renamed: every look reads all of it. It is a cache and nothing else:
anything unexpected in it (another Python, another root, a checksum that is off, an end that is
missing) means that there is none.
"""

from __future__ import annotations

import fcntl
import os
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple

from gitcp.fastpath import stat_check, trusted_cache
from gitcp.git.fsync import create

if TYPE_CHECKING:
    from pathlib import Path

    from gitcp.git.index import Found
    from gitcp.git.repo import Repository
    from gitcp.worktree.basis import Basis
    from gitcp.worktree.records import PlainLine, Record

NAME = "worktree-state"

SPARE = 1 << 16
"""Bytes that may always be appended."""


class File:
    """The state file that a memory is kept in; `identity` tells it from any other, and from itself
    when it grows.
    """

    __slots__ = ("identity",)

    def __init__(self, identity: tuple[int, ...] | None = None) -> None:
        self.identity = identity


class Memory(NamedTuple):
    """What is remembered of a scan.

    `tree` is what was captured, `index_file` the index it was compared with. `words` are the
    attributes that were named anywhere. `notes` has an entry for each directory that has something
    to say, `folded` what is said of the whole (see gitcp.worktree.summary). `file` is where it is
    kept, and `changed` names the directories that are otherwise there; None for all of them.
    `records` are lines that were taken out in this process.
    """

    tree: bytes
    index_file: Found | None
    words: frozenset[str]
    lines: dict[bytes, PlainLine]
    notes: dict[bytes, dict[str, Any]]
    folded: dict[str, Any]
    decisions: tuple[str, ...]
    contents: tuple[str, ...]
    file: File
    changed: frozenset[bytes] | None = frozenset()
    records: dict[bytes, Record] | None = None


def load(repo: Repository, basis: Basis) -> Memory | None:
    """What is remembered of this working tree, None if nothing. Never raises, never writes."""
    try:
        identity, (head, lines, notes) = stat_check.load(str(repo.git_dir / "gitcp" / NAME))
        place, tree, index, words, folded, decisions, contents = head
    except (OSError, ValueError, TypeError):
        return None
    if place != tuple(basis.place):
        return None
    return Memory(
        tree, index, frozenset(words), lines, notes, folded, decisions, contents, File(identity)
    )


def save(repo: Repository, basis: Basis, memory: Memory) -> None:
    """Put it in place of what was remembered before, readable by nobody else. A full disk is no
    error here.
    """
    head = (
        tuple(basis.place),
        memory.tree,
        memory.index_file,
        sorted(memory.words),
        memory.folded,
        memory.decisions,
        memory.contents,
    )
    path = repo.state_dir / NAME
    with suppress(OSError):
        if not _append(path, memory, head):
            _write(path, memory, head)


def _append(path: Path, memory: Memory, head: tuple[Any, ...]) -> bool:
    """Whether what is otherwise was added: only to the very file that the memory goes by, while it
    is small enough.
    """
    if memory.changed is None or memory.file.identity is None:
        return False
    lines = {directory: memory.lines.get(directory) for directory in memory.changed}
    notes = {directory: memory.notes.get(directory) for directory in memory.changed}
    part = trusted_cache.part((head, lines, notes))
    try:
        file = open(os.open(path, os.O_RDWR | os.O_APPEND | os.O_NOFOLLOW), "r+b", buffering=0)
    except FileNotFoundError:
        return False
    with file:
        fcntl.flock(file, fcntl.LOCK_EX)
        status = os.fstat(file.fileno())
        file.seek(len(trusted_cache.MAGIC))
        first = int.from_bytes(file.read(4), "big")
        if (
            stat_check.identity(status) != memory.file.identity
            or status.st_size + len(part) > first + first // 4 + SPARE
        ):
            return False
        file.write(part)
        memory.file.identity = stat_check.identity(os.fstat(file.fileno()))
    return True


def _write(path: Path, memory: Memory, head: tuple[Any, ...]) -> None:
    temporary = path.with_name(f"{NAME}.{os.getpid()}")
    try:
        with open(create(temporary), "wb") as file:
            file.write(trusted_cache.MAGIC)
            file.write(trusted_cache.part((head, memory.lines, memory.notes)))
            file.flush()
            identity = stat_check.identity(os.fstat(file.fileno()))
        os.rename(temporary, path)
    except BaseException:
        with suppress(OSError):
            temporary.unlink()
        raise
    memory.file.identity = identity
