"""The objects of a repository that are known to be missing or damaged, in `<git
dir>/gitcp/damaged`, a name a line.

Whoever finds that an object cannot be read records it. From then on no cache vouches for the files'
blobs: the next snapshot reads every file again (the list is part of its basis), and an object on
the list counts as stored only after it was read and its hash is right. So what is still on disk is
written anew, which makes older checkpoints whole too.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import suppress
from typing import TYPE_CHECKING, Protocol

from gitcp.errors import StoreDamaged
from gitcp.git.fsync import open_own, replace_file
from gitcp.git.refs import HEX
from gitcp.git.trees import TreeReader, is_content
from gitcp.model import TREE

if TYPE_CHECKING:
    from pathlib import Path

    from gitcp.git.repo import Repository
    from gitcp.model import Oid

NAME = "damaged"
MOST = 100_000
"""So many names at most are recorded."""


def content(common_dir: Path) -> bytes:
    """Return the list as it is in its file, b"" where there is none. Reads one file, raises
    nothing.
    """
    try:
        with open(open_own(f"{common_dir}/gitcp/{NAME}"), "rb") as file:
            return file.read(41 * MOST)
    except OSError:
        return b""


def known(common_dir: Path) -> frozenset[str]:
    """Return the names of the objects that are known to be damaged."""
    return frozenset(filter(HEX.match, content(common_dir).decode("ascii", "replace").split("\n")))


def recorded(common_dir: Path) -> float:
    """Return when the list was last changed, in seconds since the epoch; 0.0 where there is
    none.
    """
    try:
        return os.stat(f"{common_dir}/gitcp/{NAME}").st_mtime
    except OSError:
        return 0.0


def record(repo: Repository, objects: Iterable[str]) -> None:
    """Add objects to the list. Where it cannot be written, nothing is recorded, nor in a partial
    clone: there a remote may have promised what is missing, which only `check` tells apart.
    """
    from gitcp.git.promised import is_partial

    before = known(repo.common_dir)
    if not is_partial(repo):
        _write(repo, before, before.union(objects))


def replace(repo: Repository, objects: Iterable[str]) -> None:
    """Make the list that of these objects: all that a check found."""
    _write(repo, known(repo.common_dir), frozenset(objects))


class Reader(TreeReader, Protocol):
    """Where trees are read from, and what says whether an object is there."""

    def freshen(self, oid: Oid) -> bool: ...


def lacking(objects: Reader, tree: Oid) -> StoreDamaged | None:
    """Return what of a tree cannot be read, None if nothing. Reads its trees; of blobs only whether
    they are there.
    """
    queue, seen = [tree], set()
    while queue:
        oid = queue.pop()
        if oid in seen:
            continue
        seen.add(oid)
        try:
            entries = objects.read_tree(oid)
        except StoreDamaged as error:
            return error
        for entry in entries:
            if entry.mode == TREE:
                queue.append(entry.oid)
            elif is_content(entry.mode) and not objects.freshen(entry.oid):
                found = StoreDamaged(
                    f"object {entry.oid} is missing or damaged", hint="gitcp check"
                )
                found.objects = (entry.oid,)
                return found
    return None


def _write(repo: Repository, before: frozenset[str], now: frozenset[str]) -> None:
    if now == before:
        return
    with suppress(OSError):
        path = repo.store_dir / NAME
        if not now:
            path.unlink(missing_ok=True)
            return
        replace_file(
            path, "".join(f"{name}\n" for name in sorted(now)[:MOST]).encode("ascii"), sync=False
        )
