"""Join small packs of one process before they become many.

A process that saves many times a minute writes a pack each time: two files to sync instead of one
for each object. Sixteen packs are joined here, which takes a few milliseconds; sixteen joined ones
are joined by housekeeping (gitcp.git.repack).
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from gitcp.errors import StoreDamaged
from gitcp.git import multipack
from gitcp.git.loose import failures_named
from gitcp.git.objects import Objects
from gitcp.git.packs import PackIndex, PackWriter, SmallPack, packed
from gitcp.git.repack import note
from gitcp.git.unpack import read_packed
from gitcp.model import Oid

if TYPE_CHECKING:
    from gitcp.git.repo import Repository

MANY = 16


class Gathering:
    """The packs that this process wrote and has not joined yet."""

    def __init__(self) -> None:
        self._packs: list[Path] = []

    def add(self, pack: Path) -> list[Path] | None:
        """Add a pack that is on disk. Return None, or the joined pack, if any, when there were
        enough to join.

        Joined packs are joined further by housekeeping in the background.
        """
        self._packs.append(pack)
        if len(self._packs) < MANY:
            return None
        packs, self._packs = self._packs, []
        joined = _join(packs)
        return [joined] if joined else []


class GatheringObjects(Objects):
    """An object store that writes a pack on each flush and joins it with earlier ones.

    New objects are not looked up first: joining packs removes duplicates.
    """

    def __init__(self, repo: Repository, gathering: Gathering) -> None:
        super().__init__(repo)
        self._gathering = gathering

    def flush(self, *, held: bool = False) -> None:
        """Make everything written visible and durable, in a pack. As Objects.flush."""
        if self._pending:
            with failures_named(self.discard):
                self._start_pack()
        super().flush(held=held)

    def sealed(self) -> tuple[SmallPack, ...]:
        """Return everything written as an invisible pack, for `place`; larger content is made
        durable instead.

        After a power loss a visible pack that was not synced may be truncated, which makes git
        fail. So it is placed only once something durable contains its bytes.
        """
        if self._pack is not None or self._streamed:
            self.flush()
        return (packed(self._pending),) if self._pending else ()

    def place(self, packs: Iterable[SmallPack]) -> None:
        """Make sealed packs visible, without syncing them."""
        for small in packs:
            with failures_named(self.discard):
                pack = small.write(self._directory / "pack")
            self._add(PackIndex(pack, small.listing), pack)
            self._forget_pending()

    def _is_stored(self, oid: Oid, *, new: bool) -> bool:
        return self._is_written(oid) if new else self.freshen(oid)

    def _settled(self, pack: Path | None) -> None:
        self._forget_pending()
        if pack:
            self._add(PackIndex(pack.with_suffix(".idx")), pack)

    def _add(self, index: PackIndex, pack: Path) -> None:
        """Remember a pack until it is released."""
        if pack not in self._unnamed:
            self._unnamed.append(pack)
        self._indexes = [*self.__dict__.get("_indexes", ()), index]

    def _released(self, pack: Path) -> None:
        super()._released(pack)
        joined = self._gathering.add(pack)
        if joined is not None:
            self.__dict__.pop("_indexes", None)
            for each in joined:
                note(self._repo, each)


def _join(packs: list[Path]) -> Path | None:
    """Join packs into one and delete them. Return None, and keep them all, if one is missing or
    changed, or if a multi-pack index of git uses one.
    """
    if multipack.listed(packs[0].parent) & {pack.name for pack in packs}:
        return None
    writer = PackWriter(packs[0].parent)
    try:
        for index in [PackIndex(pack.with_suffix(".idx")) for pack in packs]:
            for name in index.names():
                object_data = read_packed(index, Oid(name.hex()), _no_base)
                if object_data is None:
                    raise StoreDamaged(f"object {name.hex()} cannot be read")
                if name not in writer:
                    writer.add(name, *object_data)
        joined = writer.close()
    # git joined them already, or the disk is full: leave them
    except (OSError, ValueError, StoreDamaged):
        writer.discard()
        return None
    except BaseException:
        writer.discard()
        raise
    for pack in packs:
        # delete the index first: readers then do not look for the pack
        for path in (pack.with_suffix(".idx"), pack):
            with suppress(FileNotFoundError):
                path.unlink()
    return joined


def _no_base(oid: Oid) -> tuple[str, bytes]:
    raise StoreDamaged(f"object {oid} is a delta, which gitcp does not write")
