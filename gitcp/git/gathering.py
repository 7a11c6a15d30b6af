"""Small packs of one process, put together before they become many.

Who saves many times a minute writes a pack each time: two files to make durable instead of one for each object. Sixteen
packs become one, and sixteen of those become one again.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from gitcp.errors import StoreDamaged
from gitcp.git import multipack
from gitcp.git.packs import PackIndex, PackWriter
from gitcp.git.unpack import read_packed
from gitcp.model import Oid

MANY = 16


class Gathering:
    """The packs that this process wrote, by how often they were put together."""

    def __init__(self) -> None:
        self._levels: list[list[Path]] = []

    def add(self, pack: Path) -> bool:
        """One pack more, which is on disk. Whether packs were put together, and removed, because of it."""
        level = 0
        while True:
            if level == len(self._levels):
                self._levels.append([])
            self._levels[level].append(pack)
            if len(self._levels[level]) < MANY:
                return level > 0
            joined = _join(self._levels[level])
            self._levels[level] = []
            if joined is None:
                return True
            pack, level = joined, level + 1


def _join(packs: list[Path]) -> Path | None:
    """One pack with all that these hold, which then go. None, and all stay, if one is not there as it was written, or
    git goes by it in an index of many.
    """
    if multipack.listed(packs[0].parent) & {pack.name for pack in packs}:
        return None
    writer = PackWriter(packs[0].parent)
    try:
        for index in [PackIndex(pack.with_suffix(".idx")) for pack in packs]:
            for name in index.names():
                found = read_packed(index, Oid(name.hex()), _no_base)
                if found is None:
                    raise StoreDamaged(f"object {name.hex()} cannot be read")
                if name not in writer:
                    writer.add(name, *found)
        joined = writer.close()
    except (OSError, ValueError, StoreDamaged):  # git put them together already, or the disk is full: as they are
        writer.discard()
        return None
    except BaseException:
        writer.discard()
        raise
    for pack in packs:
        for path in (pack.with_suffix(".idx"), pack):  # the index first: nobody then looks for the pack
            with suppress(FileNotFoundError):
                path.unlink()
    return joined


def _no_base(oid: Oid) -> tuple[str, bytes]:
    raise StoreDamaged(f"object {oid} is a delta, which gitcp does not write")
