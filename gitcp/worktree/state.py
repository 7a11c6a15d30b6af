"""The state file of a working tree: the result of the last scan, so that the next one only looks
for changes.

One file, `<git dir>/gitcp/worktree-state`. A save appends the changes, so that its cost does not
depend on the size of the tree. When the appended part exceeds a quarter of the rest, the file is
rewritten, because every scan reads all of it. It is only a cache: unexpected content (another
Python version, another root, a wrong checksum, a truncated end) counts as no file.
"""

from __future__ import annotations

import fcntl
import os
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple

from gitcp.fastpath import fingerprint, trusted_cache
from gitcp.fastpath.stat_check import Look
from gitcp.git.fsync import replacing, write_all
from gitcp.worktree.records import lines_of
from gitcp.worktree.summary import Totals

if TYPE_CHECKING:
    from pathlib import Path

    from gitcp.fastpath.fingerprint import Fingerprint
    from gitcp.git.repo import Repository
    from gitcp.worktree.basis import Basis
    from gitcp.worktree.records import Line, Record

NAME = "worktree-state"

SPARE = 1 << 16
"""Bytes that may always be appended."""


class File:
    """The state file of a memory. `fingerprint` identifies the file and its length."""

    __slots__ = ("fingerprint",)

    def __init__(self, fingerprint: Fingerprint | None = None) -> None:
        self.fingerprint = fingerprint


class Memory(NamedTuple):
    """The remembered result of a scan.

    `tree` is the captured tree, `index_file` the index it was compared with. `words` are all
    attributes named anywhere. `notes` has an entry for each directory with notes; `totals` applies
    to the whole tree. `file` is the file it is stored in, and `changed` names the directories that
    differ there (None for all). `records` are the lines decoded by this process.
    """

    tree: bytes
    index_file: Fingerprint | None
    words: frozenset[str]
    lines: dict[bytes, Line]
    notes: dict[bytes, dict[str, Any]]
    totals: Totals
    decisions: tuple[str, ...]
    contents: tuple[str, ...]
    file: File
    changed: frozenset[bytes] | None = frozenset()
    records: dict[bytes, Record] | None = None


def load(repo: Repository, basis: Basis, look: Look | None) -> Memory | None:
    """Return the remembered scan of this working tree, None if there is none; a look may have read
    it already. Never raises, never writes.
    """
    path = str(repo.git_dir / "gitcp" / NAME)
    if look is None or look.state != path:
        look = Look(os.fsencode(repo.root), path)
    try:
        seen, (head, plain, notes) = look.load()
        place, tree, index, words, totals, decisions, contents = head
        lines, decoded_totals = lines_of(plain), Totals(**totals)
    except (OSError, ValueError, TypeError):
        return None
    if place != tuple(basis.place):
        return None
    return Memory(
        tree, index, frozenset(words), lines, notes, decoded_totals, decisions, contents, File(seen)
    )


def save(repo: Repository, basis: Basis, memory: Memory) -> None:
    """Replace the remembered scan, with a file readable only by its owner. Ignores a full disk."""
    head = (
        tuple(basis.place),
        memory.tree,
        memory.index_file,
        sorted(memory.words),
        memory.totals._asdict(),
        memory.decisions,
        memory.contents,
    )
    path = repo.state_dir / NAME
    with suppress(OSError):
        if not _append(path, memory, head):
            _write(path, memory, head)


def _append(path: Path, memory: Memory, head: tuple[Any, ...]) -> bool:
    """Append the changes and return whether that was possible: only if the file is the one `memory`
    was loaded from, and not too large.
    """
    if memory.changed is None or memory.file.fingerprint is None:
        return False
    lines = {
        directory: line.plain() if (line := memory.lines.get(directory)) else None
        for directory in memory.changed
    }
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
            fingerprint.of(status) != memory.file.fingerprint
            or status.st_size + len(part) > first + first // 4 + SPARE
        ):
            return False
        file.write(part)
        memory.file.fingerprint = fingerprint.of(os.fstat(file.fileno()))
    return True


def _write(path: Path, memory: Memory, head: tuple[Any, ...]) -> None:
    lines = {directory: line.plain() for directory, line in memory.lines.items()}
    data = trusted_cache.dump((head, lines, memory.notes))
    with replacing(path, durable=False, private=True, keep_open=True) as descriptor:
        write_all(descriptor, data)
    status = os.fstat(descriptor)  # after the rename, which changes the ctime
    os.close(descriptor)
    # another process may already have appended to it
    memory.file.fingerprint = fingerprint.of(status) if status.st_size == len(data) else None
