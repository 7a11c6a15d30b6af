"""The files of a published branch as git would commit them: git runs the filters that the
attributes name, such as one that encrypts, or one that removes a notebook's output.

The filters are the user's, or the repository's where git has run them before, and only a `publish`
that the user typed runs them. One that is missing or fails stops it, also where git itself would
commit the plain text.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from contextlib import suppress

from gitcp import humanize
from gitcp.errors import GitFailed, Refused
from gitcp.git import filters
from gitcp.model import GITLINK, SYMLINK, Entry, Oid
from gitcp.sharing import filtered
from gitcp.store import Store
from gitcp.worktree import convert
from gitcp.worktree.paths import display

MOST = 20
"""Maximum paths in a message."""

Files = Mapping[bytes, Entry]


class Cleaning:
    """Replaces files by what git would commit. `base` is the tree that the branch is made on: its
    attributes count too, for git reads those of the index where the working tree has none.
    """

    def __init__(self, store: Store, base: Oid) -> None:
        self._store = store
        self._base = base
        self._blobs: dict[tuple[bytes, Oid, Oid | None, str], Oid] = {}
        self._drivers: dict[Oid, dict[bytes, str]] = {}
        self._failures: dict[bytes, str] = {}
        self.drivers: dict[bytes, str] = {}

    def files(self, tree: Oid, files: Files, committed: Files) -> dict[bytes, Entry]:
        """Return `files`, of which `tree` has the attributes, as git would commit them. Those that
        git sees unchanged are as in `committed`.

        Runs filters and writes blobs. Raises Refused with the paths of which one failed, and for a
        filter that may be a stranger's (gitcp.git.filters.require_users_own).
        """
        changed = {
            path: entry
            for path, entry in files.items()
            if entry.mode not in (SYMLINK, GITLINK) and not _is_same(entry, committed.get(path))
        }
        result = dict(files)
        named = self._named(tree, changed)
        filters.require_users_own(self._store.repo, sorted(set(named.values())))
        for path, driver in sorted(named.items()):
            oid = self._blob(path, changed[path].oid, committed.get(path), driver)
            result[path] = Entry(changed[path].mode, oid)
        if self._failures:
            raise _failed(self._failures)
        return result

    def _named(self, tree: Oid, paths: Collection[bytes]) -> dict[bytes, str]:
        if tree not in self._drivers:
            self._drivers[tree] = filtered.of_paths(self._store, (tree, self._base), paths)
        return self._drivers[tree]

    def _blob(self, path: bytes, oid: Oid, committed: Entry | None, driver: str) -> Oid:
        known = committed.oid if committed is not None else None
        key = (path, oid, known, driver)
        if key not in self._blobs:
            try:
                self._blobs[key] = self._clean(path, oid, known, driver)
            except GitFailed as error:
                self._failures[path] = f"filter {driver}: {_reason(error)}"
                return oid
        return self._blobs[key]

    def _clean(self, path: bytes, oid: Oid, committed: Oid | None, driver: str) -> Oid:
        data = self._store.reader.read_blob(oid)
        if driver == filtered.LFS and (not data or convert.pointer_of(data) is not None):
            return oid
        # Files that git-crypt encrypts were in a published branch as plain text.
        clean = filters.clean(self._store.repo, path, data, driver)
        self.drivers[path] = driver
        if committed is not None and clean != committed:
            # some encrypt the same bytes to others each time; git goes by the index then
            with suppress(GitFailed):
                if filters.smudged(self._store.repo, path, committed, driver) == data:
                    return committed
        return clean


def _is_same(entry: Entry, committed: Entry | None) -> bool:
    return committed is not None and entry.oid == committed.oid


def _reason(error: GitFailed) -> str:
    """Return the last line of git's message, which says which filter failed."""
    return str(error).strip().splitlines()[-1].removeprefix("fatal: ")


def _failed(failures: Mapping[bytes, str]) -> Refused:
    count = humanize.count(len(failures), "file")
    return Refused(
        f"git's filter failed for {count}, which would be published in plain text; no branch was "
        "created",
        tuple(humanize.listed([f"{display(path)}  ({failures[path]})" for path in failures], MOST)),
        hint="git config --get-regexp '^filter[.]'",
    )
