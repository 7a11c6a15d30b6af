"""Find objects that will stay: those that git's `gc` finds young, and no recorded damage.

Whoever reuses an object instead of writing it touches its file first, as git does: a prune by age
then keeps it.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from functools import cached_property
from typing import TYPE_CHECKING

from gitcp.errors import StoreDamaged
from gitcp.git import damage
from gitcp.git.loose import has_stray_bit
from gitcp.model import Oid

if TYPE_CHECKING:
    from gitcp.git.reader import ObjectReader
    from gitcp.git.repo import Repository
    from gitcp.git.stored import Pending, StoredObjects


class Freshener:
    """Tells which objects of a repository can be relied on."""

    def __init__(
        self, repo: Repository, stored: StoredObjects, pending: Pending, reader: ObjectReader
    ) -> None:
        self._repo = repo
        self._stored = stored
        self._pending = pending
        self._reader = reader
        self._touched: set[str] = set()

    def freshen(self, oid: Oid) -> bool:
        """Return whether an object exists and will stay: its file is touched, so that a prune by
        age keeps it.

        In a cruft pack each object has its own time, which no touch changes: an object that is only
        there must be written again. A recorded damaged object counts only if it is readable now.
        """
        if oid in self._pending:
            return True
        # packs come first: for one that was touched already, nothing is asked of the disk
        return any(map(self._touch, self._stored.paths(oid))) and not self.is_damaged(oid)

    def forget(self) -> None:
        """Touch each pack again from now on."""
        self._touched.clear()

    @cached_property
    def damaged(self) -> frozenset[str]:
        """Return the objects recorded as missing or damaged."""
        return damage.known(self._repo.common_dir)

    def is_damaged(self, oid: Oid) -> bool:
        """Return whether an object recorded as damaged is still unreadable."""
        if oid not in self.damaged:
            return False
        try:
            self._reader.read(oid)
        except StoreDamaged:
            return True
        if has_stray_bit(self._stored.directories, oid):
            return True
        self.damaged -= {oid}
        return False

    def distrust(self, oids: Iterable[str]) -> None:
        """Record that these objects are unreadable: each counts as stored only once it can be read
        again.
        """
        damage.record(self._repo, oids)
        self.damaged = self.damaged.union(oids)

    def _touch(self, path: str) -> bool:
        if path in self._touched:
            return True
        try:
            os.utime(path)
            if not os.stat(path).st_size:
                return False  # a power cut leaves the name without the content
        except (FileNotFoundError, NotADirectoryError):
            return False
        except OSError:  # another user's, or on a disk that is only read
            # Of our own store git may delete it at any time: a copy of our own is written. What is
            # borrowed stays.
            is_own = path.startswith(f"{self._stored.directory}/")
            return not is_own and os.path.exists(path)
        if path.endswith(".pack"):
            # An object that only a cruft pack had counted as stored for good, though git may remove
            # it any day.
            if os.path.exists(f"{path.removesuffix('.pack')}.mtimes"):
                return False
            self._touched.add(path)
        return True
