"""libgit2, for what plain Python does not do: objects inside packs, and abbreviated names. Sole user of pygit2."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pygit2

from gitcp.errors import RepositoryNotFound, RevisionAmbiguous, StoreDamaged
from gitcp.git.packs import oid_of
from gitcp.model import Oid

if TYPE_CHECKING:
    from gitcp.git.repo import Repository

UNREADABLE = (KeyError, pygit2.GitError, ValueError, OSError, MemoryError)
"""How libgit2 says that an object is missing or damaged; a damaged index makes it ask for any amount of memory."""

KINDS = {1: "commit", 2: "tree", 3: "blob", 4: "tag"}


class Library:
    """One repository, opened by libgit2."""

    def __init__(self, repo: Repository) -> None:
        try:
            self._repository = pygit2.Repository(str(repo.git_dir))
        except (pygit2.GitError, OSError) as error:
            raise RepositoryNotFound(f"libgit2 cannot open the repository at {repo.root}: {error}") from None
        self._odb = self._repository.odb

    def read(self, oid: Oid) -> tuple[str, bytes]:
        """An object's kind and content, hashed again. Raises StoreDamaged if it is missing or wrong."""
        try:
            number, data = self._odb.read(oid)
        except UNREADABLE as error:
            raise _unreadable(oid, error) from None
        kind = KINDS.get(int(number), "")
        if not kind or oid_of(kind, data) != oid:
            raise StoreDamaged(f"object {oid} is damaged: it does not hold what its name says", hint="gitcp check")
        return kind, data

    def view_blob(self, oid: Oid) -> memoryview:
        """A blob's bytes as libgit2 holds them, once and not copied. Raises StoreDamaged as `read` does."""
        try:
            found = self._repository[oid]
        except UNREADABLE as error:
            raise _unreadable(oid, error) from None
        if not isinstance(found, pygit2.Blob) or oid_of("blob", memoryview(found)) != oid:
            raise StoreDamaged(f"object {oid} is damaged: it does not hold what its name says", hint="gitcp check")
        return memoryview(found)

    def expand(self, prefix: str) -> Oid | None:
        """The full name of an abbreviated one (at least 4 digits); None if there is none. Raises RevisionAmbiguous."""
        found = [str(oid) for oid in self._odb if str(oid).startswith(prefix)] if len(prefix) >= 4 else []
        if len(found) > 1:
            raise RevisionAmbiguous(f"{prefix} is short for more than one object", tuple(found))
        return Oid(found[0]) if found else None


def _unreadable(oid: Oid, error: Exception) -> StoreDamaged:
    missing = isinstance(error, KeyError)
    return StoreDamaged(f"object {oid} is {'missing' if missing else f'damaged: {error}'}", hint="gitcp check")
