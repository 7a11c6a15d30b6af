"""Which objects a repository has: loose files and the indexes of packs, alternates included.

Read here and not asked of git: a save looks up thousands of objects and touches the files that have
them, and in a partial clone git would fetch what is only promised.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path

from gitcp import clock
from gitcp.git.loose import with_alternates
from gitcp.git.object_format import ObjectFormat
from gitcp.git.packs import PackIndex, indexes, pack_times
from gitcp.model import Oid

TICK = 0.02
"""Seconds within which two changes to a directory may get the same time."""

PAUSE = 0.02
TRIES = 50
"""Seconds between listings of packs that change all the time, and how many are made before an
object counts as missing or damaged.
"""


class StoredObjects:
    """The objects in the files of one repository. `directory` is its objects directory."""

    def __init__(self, directory: Path, object_format: ObjectFormat) -> None:
        self.directory = directory
        self._format = object_format
        self._listed: list[float] = []
        self._listed_at = 0.0

    @cached_property
    def directories(self) -> list[Path]:
        """Return the objects directory and its alternates."""
        return with_alternates(self.directory)

    @property
    def has_unreadable_index(self) -> bool:
        """Return whether some pack may contain objects that are not known here."""
        return not all(index.is_usable for index in self._indexes)

    def exists(self, oid: Oid) -> bool:
        """Return whether an object is in a file."""
        if self._is_listed(oid):
            return True
        if self._listed == pack_times(self.directories):
            return False
        self.forget_packs()  # somebody put packs together
        return self._is_listed(oid)

    def is_missing(self, oid: Oid) -> bool:
        """Return whether an object is in no file, whatever others do to packs meanwhile.

        `exists` may overlook one whose pack was written, or joined with others, while packs were
        listed. A writer writes it once more then; for a reader it would be lost.
        """
        for _ in range(TRIES):
            if self.exists(oid):
                return False
            if self.is_complete():
                return True
            time.sleep(PAUSE)
            self.forget_packs()
        return True

    def is_complete(self) -> bool:
        """Return whether no pack was written or deleted since shortly before they were listed."""
        now = self._listed_at
        if any(now - TICK <= changed <= now for changed in self._listed):
            return False  # another change may have got the same time
        return self._listed == pack_times(self.directories)

    def is_packed(self, oid: Oid) -> bool:
        """Return whether a pack has this object."""
        return next(self._near(bytes.fromhex(oid)), None) is not None

    def paths(self, oid: Oid) -> Iterator[str]:
        """Yield the path of each pack that has the object, then the path that a loose copy would
        have in each directory.
        """
        for index in self._near(bytes.fromhex(oid)):
            yield index.pack_name
        for directory in self.directories:
            yield f"{directory}/{oid[:2]}/{oid[2:]}"

    def add_pack(self, index: PackIndex) -> None:
        """Remember a pack that was written just now."""
        self._indexes = [*self.__dict__.get("_indexes", ()), index]

    def forget_packs(self) -> None:
        """List the packs again when they are asked for."""
        self.__dict__.pop("_indexes", None)
        self._listed = []

    @cached_property
    def _indexes(self) -> list[PackIndex]:
        self._listed_at = clock.seconds()
        self._listed = pack_times(self.directories)
        return [
            index for directory in self.directories for index in indexes(directory, self._format)
        ]

    def _is_listed(self, oid: Oid) -> bool:
        return any(map(os.path.exists, self.paths(oid)))

    def _near(self, oid: bytes) -> Iterator[PackIndex]:
        """Yield the packs that contain an object, the most recently used first: related objects are
        in one pack.
        """
        for index in tuple(self._indexes):
            if oid in index:
                if index is not self._indexes[0]:
                    self._indexes.remove(index)
                    self._indexes.insert(0, index)
                yield index
