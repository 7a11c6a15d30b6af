"""The list of missing or damaged objects of a repository, in `<git dir>/gitcp/damaged`, one name a
line.

Whoever fails to read an object records it. From then on no cache is trusted for file blobs: the
next snapshot reads every file again (the list is part of its basis), and a listed object counts as
stored only after it was read and its hash verified. So content still on disk is stored again, which
repairs older checkpoints too.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import suppress
from typing import TYPE_CHECKING, Protocol

from gitcp.errors import StoreDamaged
from gitcp.git.fsync import open_own, replace_file
from gitcp.git.object_format import SHA256
from gitcp.git.refs import HEX
from gitcp.git.trees import TreeReader, is_content
from gitcp.model import TREE

if TYPE_CHECKING:
    from pathlib import Path

    from gitcp.git.repo import Repository
    from gitcp.model import Oid

NAME = "damaged"
MOST = 100_000
"""Maximum number of recorded names."""


def content(common_dir: Path) -> bytes:
    """Return the raw list, b"" if there is none. Reads one file, never raises."""
    try:
        with open(open_own(f"{common_dir}/gitcp/{NAME}"), "rb") as file:
            return file.read((SHA256.digits + 1) * MOST)
    except OSError:
        return b""


def known(common_dir: Path) -> frozenset[str]:
    """Return the names of the objects recorded as damaged."""
    return frozenset(filter(HEX.match, content(common_dir).decode("ascii", "replace").split("\n")))


def recorded(common_dir: Path) -> float:
    """Return when the list last changed, in seconds since the epoch; 0.0 if there is none."""
    try:
        return os.stat(f"{common_dir}/gitcp/{NAME}").st_mtime
    except OSError:
        return 0.0


def record(repo: Repository, objects: Iterable[str]) -> None:
    """Add objects to the list. Does nothing if it cannot be written, nor in a partial clone: there
    a remote may have promised missing objects, which only `check` can tell.
    """
    from gitcp.git.promised import is_partial

    listed = known(repo.common_dir)
    if not is_partial(repo):
        _write(repo, listed, listed.union(objects))


def replace(repo: Repository, objects: Iterable[str]) -> None:
    """Replace the list with these objects: all that a check found."""
    _write(repo, known(repo.common_dir), frozenset(objects))


class Freshener(Protocol):
    """Tells whether an object exists and stays."""

    def freshen(self, oid: Oid) -> bool: ...


def lacking(reader: TreeReader, freshener: Freshener, tree: Oid) -> StoreDamaged | None:
    """Return the error for the first unreadable object of a tree, None if it is intact. Reads its
    trees; blobs are only checked for existence.
    """
    queue, seen = [tree], set()
    while queue:
        oid = queue.pop()
        if oid in seen:
            continue
        seen.add(oid)
        try:
            entries = reader.read_tree(oid)
        except StoreDamaged as error:
            return error
        for entry in entries:
            if entry.mode == TREE:
                queue.append(entry.oid)
            elif is_content(entry.mode) and not freshener.freshen(entry.oid):
                error_of_blob = StoreDamaged(
                    f"object {entry.oid} is missing or damaged", hint="gitcp doctor --store"
                )
                error_of_blob.objects = (entry.oid,)
                return error_of_blob
    return None


def _write(repo: Repository, old: frozenset[str], new: frozenset[str]) -> None:
    if new == old:
        return
    with suppress(OSError):
        path = repo.store_dir / NAME
        if not new:
            path.unlink(missing_ok=True)
            return
        replace_file(
            path, "".join(f"{name}\n" for name in sorted(new)[:MOST]).encode("ascii"), durable=False
        )
