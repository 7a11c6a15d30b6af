"""Which objects a repository has, and which were written and wait for `flush`.

Loose files and the indexes of packs, alternates included, are read here and not asked of git: a
save looks up thousands of objects and touches the files that have them, and in a partial clone git
would fetch what is only promised.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import suppress
from functools import cached_property
from pathlib import Path

from gitcp import clock
from gitcp.git.loose import with_alternates
from gitcp.git.object_format import ObjectFormat
from gitcp.git.packs import LEVEL, PackIndex, PackWriter, indexes, pack_times
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


class Pending:
    """`objects` wait in memory, `streamed` in files with temporary names, all others in `pack`.
    `levels` says of some in memory how hard to compress them.
    """

    def __init__(self, object_format: ObjectFormat) -> None:
        self._empty_tree = object_format.empty_tree
        self.objects: dict[Oid, tuple[str, bytes]] = {}
        self.levels: dict[Oid, int] = {}
        self.streamed: dict[Oid, Path] = {}
        self.pack: PackWriter | None = None
        self.size = 0

    def __contains__(self, oid: Oid) -> bool:
        """Whether the next `flush` makes the object visible. Of the empty tree git has its own."""
        if oid in self.objects or oid in self.streamed or oid == self._empty_tree:
            return True
        return self.pack is not None and bytes.fromhex(oid) in self.pack

    def read(self, oid: Oid) -> tuple[str, bytes] | None:
        """Return an object's kind and content, None if it does not wait in memory or in the
        pack.
        """
        if oid in self.objects:
            return self.objects[oid]
        if self.pack is not None and bytes.fromhex(oid) in self.pack:
            return self.pack.read(bytes.fromhex(oid))
        return None

    def add(self, oid: Oid, kind: str, data: bytes, level: int = LEVEL) -> None:
        """Let an object wait in memory."""
        self.objects[oid] = (kind, data)
        if level != LEVEL:
            self.levels[oid] = level
        self.size += len(data)

    def clear(self) -> None:
        """Forget what waits in memory."""
        self.objects.clear()
        self.levels.clear()
        self.size = 0

    def discard(self) -> None:
        """Remove the pack and the temporary files."""
        if self.pack is not None:
            self.pack.discard()
            self.pack = None
        for temporary in self.streamed.values():
            with suppress(OSError):
                temporary.unlink()
        self.streamed.clear()
