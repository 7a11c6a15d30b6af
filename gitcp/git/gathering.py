"""Join small packs of one process before they become many.

A process that saves many times a minute writes a pack each time: two files to sync instead of one
for each object. Sixteen packs are joined here, from memory, by a thread, as no save should wait for
that; sixteen joined ones are joined by housekeeping (gitcp.git.repack), and so are larger ones.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING

from gitcp.git import multipack
from gitcp.git.background import started
from gitcp.git.loose import failures_named
from gitcp.git.object_format import ObjectFormat
from gitcp.git.objects import Objects
from gitcp.git.packs import PackIndex, SmallPack, packed
from gitcp.git.repack import note
from gitcp.git.writer import ObjectWriter
from gitcp.model import Oid

if TYPE_CHECKING:
    from gitcp.git.repo import Repository

MANY = 16

Contents = Mapping[Oid, tuple[str, bytes]]
"""The kind and content of each object of a pack."""


class Gathering:
    """The packs that this process wrote and has not joined yet, with what they contain."""

    def __init__(self) -> None:
        self._packs: dict[Path, Contents] = {}
        self._joined: list[Path] = []
        self._thread: Thread | None = None

    def add(self, pack: Path, contents: Contents, object_format: ObjectFormat) -> list[Path] | None:
        """Add a pack that is on disk. If there are enough, a thread begins to join them. Return
        None, or the joined pack, if any, when it has ended.

        Joined packs are joined further by housekeeping in the background.
        """
        self._packs[pack] = contents
        if self._thread is not None and self._thread.is_alive():
            return None
        ended = self._thread is not None
        joined, self._joined, self._thread = self._joined, [], None
        if len(self._packs) >= MANY:
            packs, self._packs = self._packs, {}
            self._thread = started(lambda: self._joined.extend(_join(packs, object_format)))
        return joined if ended else None

    def wait(self) -> None:
        """Wait for packs that are being joined."""
        if self._thread is not None:
            self._thread.join()


class GatheringObjects(Objects):
    """An object store whose writer is a GatheringWriter."""

    def __init__(self, repo: Repository, gathering: Gathering) -> None:
        super().__init__(repo)
        self.gathering = gathering

    @cached_property
    def writer(self) -> GatheringWriter:
        """Return what writes objects."""
        return GatheringWriter(self)


class GatheringWriter(ObjectWriter):
    """Writes a pack on each flush and joins it with earlier ones.

    New objects are not looked up first: joining packs removes duplicates.
    """

    def __init__(self, objects: GatheringObjects) -> None:
        super().__init__(
            objects.repo, objects.stored, objects.pending, objects.reader, objects.freshener
        )
        self._gathering = objects.gathering
        self._contents: dict[Path, Contents] = {}

    def sealed(self) -> tuple[SmallPack, ...]:
        """Return everything written as an invisible pack, for `place`; larger content is made
        durable instead.

        After a power loss a visible pack that was not synced may be truncated, which makes git
        fail. So it is placed only once something durable contains its bytes.
        """
        if self._pending.pack is not None or self._pending.streamed:
            self.flush()
        return (packed(self._pending.objects, self._format),) if self._pending.objects else ()

    def place(self, packs: Iterable[SmallPack]) -> None:
        """Make sealed packs visible, without syncing them."""
        for small in packs:
            with failures_named(self.discard):
                pack = small.write(self._directory / "pack")
            self._contents[pack] = dict(self._pending.objects)
            self._add(PackIndex(pack, self._format, small.listing), pack)
            self._forget_pending()

    def _is_stored(self, oid: Oid, *, new: bool) -> bool:
        return oid in self._pending if new else self._freshener.freshen(oid)

    def _pack_pending(self, *, keep: bool) -> Path | None:
        """What waits becomes a pack, however little it is."""
        if not self._pending.objects:
            return None
        contents = dict(self._pending.objects)
        pack = super()._pack_pending(keep=keep)
        if pack is not None:
            self._contents[pack] = contents
        return pack

    def _is_little(self) -> bool:
        return False

    def _after_flush(self, pack: Path | None) -> None:
        self._forget_pending()
        if pack:
            self._add(PackIndex(pack.with_suffix(".idx"), self._format), pack)

    def _add(self, index: PackIndex, pack: Path) -> None:
        """Remember a pack until it is released."""
        if pack not in self._unnamed:
            self._unnamed.append(pack)
        self._stored.add_pack(index)

    def _released(self, pack: Path) -> None:
        super()._released(pack)
        contents = self._contents.pop(pack, None)
        if contents is None:  # larger than what waits in memory
            note(self._repo, pack)
            return
        joined = self._gathering.add(pack, contents, self._format)
        if joined is not None:
            self._stored.forget_packs()
            self._repo.close()  # git would hold the packs that are gone
            for each in joined:
                note(self._repo, each)


def _join(packs: Mapping[Path, Contents], object_format: ObjectFormat) -> list[Path]:
    """Join packs into one, delete them, and return it. Return nothing, and keep them all, if one is
    missing, or if a multi-pack index of git uses one.
    """
    directory = next(iter(packs)).parent
    # Without a pack that its multi-pack index lists, git could neither serve a fetch nor pass fsck.
    if multipack.listed(directory) & {pack.name for pack in packs}:
        return []
    if not all(path.exists() for pack in packs for path in (pack, pack.with_suffix(".idx"))):
        return []  # git joined them already
    everything = {oid: entry for contents in packs.values() for oid, entry in contents.items()}
    try:
        small = packed(everything, object_format, {}, in_background=True)
        joined = small.write(directory, sync=True, keep=False)
    except OSError:  # the disk is full: leave them
        return []
    for pack in packs.keys() - {joined}:
        # delete the index first: readers then do not look for the pack
        for path in (pack.with_suffix(".idx"), pack):
            with suppress(FileNotFoundError):
                path.unlink()
    return [joined]
