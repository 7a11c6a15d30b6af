"""Write objects. They become visible together at `flush`, before any ref can name them.

A few new objects become loose, many become one pack. Everything is fsynced at `flush`, which git
does not do for all objects.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from gitcp.errors import StoreDamaged
from gitcp.git.loose import failures_named, flush_loose
from gitcp.git.packs import LEVEL, PackWriter, packed, release
from gitcp.git.repack import note
from gitcp.git.trees import TreeEntry, serialised
from gitcp.model import Oid

if TYPE_CHECKING:
    from gitcp.git.freshening import Freshener
    from gitcp.git.reader import ObjectReader
    from gitcp.git.repo import Repository
    from gitcp.git.stored import Pending, StoredObjects

MOST_LOOSE = 12
"""Up to this many new objects become loose: each is a file to sync, in a directory to sync; a pack
is two files.
"""

MOST_BESIDE = 64
"""Up to this many new objects stay loose beside a large file, which is loose always: housekeeping
finds loose objects through loose commits.
"""

MOST_IN_MEMORY = 1 << 20
"""Up to this many bytes of new objects wait in memory for `flush`; beyond that they are streamed to
a pack.
"""


class ObjectWriter:
    """Writes the objects of one repository.

    With `dry`, nothing is written: trees are cached for comparison, blobs are only hashed.
    """

    def __init__(
        self,
        repo: Repository,
        stored: StoredObjects,
        pending: Pending,
        reader: ObjectReader,
        freshener: Freshener,
        *,
        dry: bool = False,
    ) -> None:
        self._repo = repo
        self._stored = stored
        self._pending = pending
        self._reader = reader
        self._freshener = freshener
        self._dry = dry
        self._format = self._repo.object_format
        self._directory = self._stored.directory
        self._unnamed: list[Path] = []
        self.new_bytes = 0
        self.new_objects = 0

    def write(self, kind: str, data: bytes, *, new: bool = False, level: int = LEVEL) -> Oid:
        """Store an object unless it exists, and return its id. It is visible after `flush`.

        With `new` it is unlikely to exist (gitcp.git.gathering then skips the lookup). `level` is
        how hard to compress it, as zlib counts.
        """
        oid = self._format.oid_of(kind, data)
        if self._is_stored(oid, new=new):
            return oid
        self.new_objects += 1
        self.new_bytes += len(data)
        if self._dry:
            return oid
        if self._pending.pack is not None:
            with failures_named(self.discard):
                self._pending.pack.add(bytes.fromhex(oid), kind, data, level)
            return oid
        self._pending.add(oid, kind, data, level)
        if self._pending.size > MOST_IN_MEMORY:
            self._start_pack()
        return oid

    def _is_stored(self, oid: Oid, *, new: bool) -> bool:  # noqa: ARG002 -- for gathering
        return self._freshener.freshen(oid)

    def write_blob(self, data: bytes, *, new: bool = False, level: int = LEVEL) -> Oid:
        """Store a blob and return its id; `new` and `level` as for `write`."""
        return self.write("blob", data, new=new, level=level)

    def write_tree(self, entries: list[TreeEntry]) -> Oid:
        """Store a tree and return its id; entries may be in any order."""
        ordered, data = serialised(entries)
        oid = self.write("tree", data, new=True)
        self._reader.cache_tree(oid, ordered, stored=not self._dry)
        return oid

    def write_stream(self, size: int, chunks: Iterable[bytes]) -> Oid | None:
        """Store a blob of `size` bytes without holding it in memory. Return None if `chunks` do not
        add up to `size`.
        """
        digest = self._format.hasher(b"blob %d\0" % size)
        compressor = zlib.compressobj(LEVEL)
        temporary = self._directory / f"tmp_obj_gitcp_{os.urandom(6).hex()}"
        seen = 0
        with (
            failures_named(lambda: temporary.unlink(missing_ok=True)),
            open(os.devnull if self._dry else temporary, "xb" if not self._dry else "wb") as file,
        ):
            file.write(compressor.compress(b"blob %d\0" % size))
            for chunk in chunks:
                seen += len(chunk)
                digest.update(chunk)
                file.write(compressor.compress(chunk))
            file.write(compressor.flush())
        oid = Oid(digest.hexdigest())
        if self._dry or seen != size or self._freshener.freshen(oid):
            temporary.unlink(missing_ok=True)
            return oid if seen == size else None
        self._pending.streamed[oid] = temporary
        self.new_objects += 1
        self.new_bytes += size
        return oid

    def flush(self, *, keep: bool = False) -> None:
        """Make everything written visible and durable. Raises DiskFull; then nothing of it can be
        named by a ref.

        With `keep`, a `git repack -ad` that looks before a ref names it leaves it alone, until
        `release`.
        """
        with failures_named(self.discard):
            if self._pending.pack is not None:
                pack: Path | None = self._pending.pack.close(keep=keep)
                self._pending.pack = None
            else:
                pack = self._pack_pending(keep=keep)
            self._unnamed += [pack] if pack and keep else []
            self._flush_loose()
        self._after_flush(pack)

    def release(self) -> None:
        """Remove the .keep files of packs: refs name what is in them now, or never will."""
        while self._unnamed:
            self._released(self._unnamed.pop())

    def _released(self, pack: Path) -> None:
        release(pack)

    def _pack_pending(self, *, keep: bool) -> Path | None:
        """What waits becomes a pack, unless it is little."""
        if self._is_little():
            return None
        small = packed(self._pending.objects, self._format, self._pending.levels)
        pack = small.write(self._directory / "pack", sync=True, keep=keep)
        self._pending.clear()
        return pack

    def _is_little(self) -> bool:
        most = MOST_BESIDE if self._pending.streamed else MOST_LOOSE
        return len(self._pending.objects) <= most

    def _after_flush(self, pack: Path | None) -> None:
        """Forget what waited: it is visible now, in `pack` or loose."""
        self._forget_pending()
        self._stored.forget_packs()
        if pack:
            note(self._repo, pack)

    def _forget_pending(self) -> None:
        self._pending.clear()
        self._freshener.forget()

    def discard(self) -> None:
        """Forget everything written since the last `flush`."""
        self._pending.discard()
        self._forget_pending()
        self.release()

    def _start_pack(self) -> None:
        with failures_named(self.discard):
            writer = self._pending.pack = PackWriter(self._directory / "pack", self._format)
            for oid, (kind, data) in self._pending.objects.items():
                level = self._pending.levels.get(oid, LEVEL)
                writer.add(bytes.fromhex(oid), kind, data, level)
        self._forget_pending()

    def renew(self, oids: Iterable[Oid]) -> None:
        """Give these objects a new loose copy. git's gc then keeps them and all they reach, even if
        it saw no ref to them.

        Touching a pack is not enough: git may have checked its time already. Raises DiskFull.
        """
        for oid in oids:
            try:
                os.utime(self._directory / oid[:2] / oid[2:])
            except OSError:  # packed, borrowed, or another user's
                with suppress(StoreDamaged):  # of what cannot be read there is no copy
                    self._pending.add(oid, *self._reader.read(oid))
        with failures_named(self.discard):
            self._flush_loose()
        self._forget_pending()

    def _flush_loose(self) -> None:
        waiting = self._pending
        flush_loose(self._directory, waiting.objects, waiting.streamed, waiting.levels)
