"""Small packs of one process, put together before they become many.

Who saves many times a minute writes a pack each time: two files to make durable instead of one for
each object. Sixteen packs become one here, which takes a few milliseconds; sixteen of those are
joined by housekeeping (gitcp.git.repack).
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
    """The packs that this process wrote and has not joined yet."""

    def __init__(self) -> None:
        self._packs: list[Path] = []

    def add(self, pack: Path) -> list[Path] | None:
        """Add a pack, which is on disk. None, or where it was one of many: what they were joined
        to, if that succeeded.

        Joining the joined ones is left to housekeeping, which runs in the background.
        """
        self._packs.append(pack)
        if len(self._packs) < MANY:
            return None
        packs, self._packs = self._packs, []
        joined = _join(packs)
        return [joined] if joined else []


def _join(packs: list[Path]) -> Path | None:
    """One pack with all that these hold, which then go. None, and all stay, if one is not there as
    it was written, or git goes by it in an index of many.
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
    # git put them together already, or the disk is full: as they are
    except (OSError, ValueError, StoreDamaged):
        writer.discard()
        return None
    except BaseException:
        writer.discard()
        raise
    for pack in packs:
        # the index first: nobody then looks for the pack
        for path in (pack.with_suffix(".idx"), pack):
            with suppress(FileNotFoundError):
                path.unlink()
    return joined


def _no_base(oid: Oid) -> tuple[str, bytes]:
    raise StoreDamaged(f"object {oid} is a delta, which gitcp does not write")
