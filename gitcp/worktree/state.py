"""The state file of a working tree: what the last scan saw, so that the next one need only look for changes.

One file, `<git dir>/gitcp/worktree-state`, written as a whole and then renamed. It is a cache and nothing else:
anything unexpected in it (another Python, another root, a checksum that is off) means that there is none.
"""

from __future__ import annotations

import marshal
import os
import zlib
from typing import TYPE_CHECKING, Any, NamedTuple

from gitcp.worktree import look

if TYPE_CHECKING:
    from gitcp.git.index import Found
    from gitcp.git.repo import Repository
    from gitcp.worktree.basis import Basis
    from gitcp.worktree.records import PlainLine

NAME = "worktree-state"


class Memory(NamedTuple):
    """What is remembered of a scan.

    `tree` is what was captured, `index_file` the index it was compared with. `words` are the attributes that were
    named anywhere. `notes` has an entry for each directory that has something to say, `folded` what is said of the
    whole (see gitcp.worktree.summary). `file` tells the state file it was read from.
    """

    tree: bytes
    index_file: Found | None
    words: frozenset[str]
    lines: dict[bytes, PlainLine]
    notes: dict[bytes, dict[str, Any]]
    folded: dict[str, Any]
    decisions: tuple[str, ...]
    contents: tuple[str, ...]
    file: tuple[int, ...] | None = None


def load(repo: Repository, basis: Basis) -> Memory | None:
    """What is remembered of this working tree, None if nothing. Never raises, never writes."""
    try:
        read, unpacked = look.load(str(repo.git_dir / "gitcp" / NAME))
        place, tree, index, words, lines, notes, folded, decisions, contents = unpacked
    except (OSError, ValueError, TypeError):
        return None
    if place != tuple(basis.place):
        return None
    return Memory(tree, index, frozenset(words), lines, notes, folded, decisions, contents, read)


def save(repo: Repository, basis: Basis, memory: Memory) -> None:
    """Put it in place of what was remembered before, readable by nobody else. A full disk is no error here."""
    body = marshal.dumps(
        (
            tuple(basis.place),
            memory.tree,
            memory.index_file,
            sorted(memory.words),
            memory.lines,
            memory.notes,
            memory.folded,
            memory.decisions,
            memory.contents,
        )
    )
    path = repo.state_dir / NAME
    temporary = repo.state_dir / f"{NAME}.{os.getpid()}"
    try:
        with open(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
            file.write(look.MAGIC + zlib.crc32(body).to_bytes(4, "big"))
            file.write(body)
        os.rename(temporary, path)
    except OSError:
        temporary.unlink(missing_ok=True)
