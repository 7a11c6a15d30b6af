"""Read objects with `git cat-file`: those that gitcp.git.unpack cannot read or that are too large
for memory.

A separate process costs a few milliseconds, and a damaged pack or index that crashes it affects
only that process. In a partial clone git would fetch missing objects: callers only request objects
that an index or a loose file names.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from gitcp.errors import GitFailed, StoreDamaged
from gitcp.git.packs import oid_of
from gitcp.model import Oid

if TYPE_CHECKING:
    from typing import IO

    from gitcp.git.repo import Repository

CHUNK = 1 << 20
KINDS = frozenset(("blob", "commit", "tag", "tree"))


def read(repo: Repository, oid: Oid) -> tuple[str, bytes]:
    """Return an object's kind and content. Raises StoreDamaged if it is missing or does not hash to
    `oid`.
    """
    with _open_object(repo, oid) as (kind, size, output):
        data = output.read(size)
        if len(data) != size or oid_of(kind, data) != oid:
            raise _damaged(oid)
        return kind, data


def stream_blob(repo: Repository, oid: Oid) -> Iterator[bytes]:
    """Yield a blob in chunks. Raises StoreDamaged as `read` does, possibly after the last chunk."""
    with _open_object(repo, oid) as (kind, size, output):
        if kind != "blob":
            raise StoreDamaged(f"object {oid} is a {kind}, not a blob", hint="gitcp check")
        digest, left = hashlib.sha1(b"blob %d\0" % size, usedforsecurity=False), size
        while left and (chunk := output.read(min(CHUNK, left))):
            left -= len(chunk)
            digest.update(chunk)
            yield chunk
        if left or digest.hexdigest() != oid:
            raise _damaged(oid)


@contextmanager
def _open_object(repo: Repository, oid: Oid) -> Iterator[tuple[str, int, IO[bytes]]]:
    """Yield the kind and size in bytes of an object, and git's output positioned at its content."""
    try:
        with repo.git_reading("cat-file", "--batch", input=f"{oid}\n".encode("ascii")) as output:
            header = output.readline().split()
            if header[1:] == [b"missing"]:
                raise StoreDamaged(f"object {oid} is missing", hint="gitcp check")
            if (
                len(header) != 3
                or header[1].decode("ascii", "replace") not in KINDS
                or not header[2].isdigit()
            ):
                raise _damaged(oid)  # git exited at this object
            yield header[1].decode("ascii"), int(header[2]), output
    except GitFailed as error:
        if error.hint:  # git is not installed
            raise
        raise _damaged(oid) from None


def _damaged(oid: Oid) -> StoreDamaged:
    return StoreDamaged(
        f"object {oid} is damaged: its content does not match its name", hint="gitcp check"
    )
