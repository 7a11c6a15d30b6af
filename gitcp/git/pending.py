"""Objects that were written and wait for `flush`, which makes them visible to others."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from gitcp.git.object_format import ObjectFormat
from gitcp.git.packs import LEVEL, PackWriter
from gitcp.model import Oid


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
