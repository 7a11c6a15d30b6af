"""Read and write objects. Written objects become visible together at `flush`, before any ref can
name them.

Loose objects are read and written here, packed ones are read by gitcp.git.unpack; `git cat-file` is
the last resort. A few new objects become loose, many become one pack. Everything is fsynced at
`flush`, which git does not do for all objects.
"""

from __future__ import annotations

import hashlib
import os
import struct
import zlib
from collections.abc import Iterable, Iterator
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from gitcp.errors import StoreDamaged
from gitcp.git import damage
from gitcp.git.loose import (
    failures_named,
    flush_loose,
    has_stray_bit,
    inflate,
    open_loose,
    read_loose,
    with_alternates,
)
from gitcp.git.packs import (
    LEVEL,
    PackIndex,
    PackWriter,
    deflated,
    indexes,
    let_go,
    oid_of,
    pack_times,
    packed,
)
from gitcp.git.refs import NOTHING
from gitcp.git.repack import note
from gitcp.git.trees import EMPTY_TREE, PartOfTree, TreeEntry, diff, parse, serialise, sort_key
from gitcp.git.unpack import LARGEST, read_packed
from gitcp.model import FileChange, Oid

if TYPE_CHECKING:
    from gitcp.git.repo import Repository

MOST_LOOSE = 12
"""Up to this many new objects become loose: each is a file to sync, in a directory to sync; a pack
is two files.
"""

MOST_BESIDE = 64
"""Up to this many new objects stay loose beside a large file, which is loose always: housekeeping
finds loose objects through loose commits.
"""

MOST_IN_MEMORY = 4 << 20
"""Up to this many bytes, `stream_blob` reads a packed blob here, in one chunk; git reads larger
ones.
"""

MOST_HELD = 1 << 20
"""Up to this many bytes of new objects wait in memory for `flush`; beyond that they are streamed to
a pack.
"""


class Objects:
    """The object store of one repository.

    With `dry`, nothing is written: trees are kept for comparison, blobs are only hashed.
    """

    def __init__(self, repo: Repository, *, dry: bool = False) -> None:
        self._repo = repo
        self._dry = dry
        self._directory = repo.common_dir / "objects"
        self._pending: dict[Oid, tuple[str, bytes]] = {}
        self._held = 0
        self._streamed: dict[Oid, Path] = {}
        self._pack: PackWriter | None = None
        self._trees: dict[Oid, list[TreeEntry]] = {EMPTY_TREE: []}
        self._compared: tuple[Oid | None, Oid | None, tuple[FileChange, ...]] = (None, None, ())
        self._fresh: set[str] = set()
        self._unnamed: list[Path] = []
        self._listed: list[float] = []
        self.new_bytes = 0
        self.new_objects = 0

    # ------------------------------------------------------------ reading

    def read(self, oid: Oid) -> tuple[str, bytes]:
        """Return an object's kind and content. Raises StoreDamaged if it is missing or its hash is
        wrong.
        """
        if oid in self._pending:
            return self._pending[oid]
        if self._pack is not None and bytes.fromhex(oid) in self._pack:
            return self._pack.read(bytes.fromhex(oid))
        try:
            return self._read_loose(oid) or self._read_packed(oid) or self._ask_git(oid)
        except StoreDamaged as error:
            packed = self._read_packed(oid)  # of a damaged loose object there may be a copy
            if packed is None:
                error.objects = (oid,)
                raise
            return packed

    def _read_packed(self, oid: Oid, largest: int = LARGEST) -> tuple[str, bytes] | None:
        try:
            for index in self._near(bytes.fromhex(oid)):
                packed = read_packed(index, oid, self.read, largest=largest)
                if packed is not None:
                    return packed
            return None
        except (StoreDamaged, struct.error):
            return None  # git may know another copy of it

    def _read_loose(self, oid: Oid) -> tuple[str, bytes] | None:
        """Return a loose object of this store or its alternates, None if there is none."""
        found = (read_loose(directory, oid) for directory in self._directories)
        return next((loose for loose in found if loose is not None), None)

    def read_blob(self, oid: Oid) -> bytes:
        """Return the bytes of a blob. Raises StoreDamaged."""
        return self._read_kind(oid, "blob")

    def stream_blob(self, oid: Oid) -> Iterator[bytes]:
        """Yield a blob in chunks; blobs larger than MOST_IN_MEMORY are never held in memory as a
        whole.

        Raises StoreDamaged as `read`, but possibly after the last chunk: the output is then
        invalid.
        """
        if oid in self._pending or (self._pack is not None and bytes.fromhex(oid) in self._pack):
            yield self.read_blob(oid)
            return
        try:
            yield from self._stored(oid)
        except StoreDamaged as error:
            error.objects = (oid,)
            raise

    def _stored(self, oid: Oid) -> Iterator[bytes]:
        """Yield the bytes of a blob that is stored in a file."""
        for directory in self._directories:
            loose = open_loose(directory, oid)
            if loose is not None:
                with loose:
                    yield from inflate(loose, oid)
                return
        packed = self._read_packed(oid, MOST_IN_MEMORY)
        if packed is not None and packed[0] == "blob":
            yield packed[1]
            return
        self._require(oid)
        from gitcp.git import catfile

        yield from catfile.stream_blob(self._repo, oid)

    def read_tree(self, oid: Oid) -> list[TreeEntry]:
        """Return the entries of a tree. Cached, since plans and diffs read the same trees again."""
        entries = self._trees.get(oid)
        if entries is None:
            if isinstance(oid, PartOfTree):
                whole = self.read_tree(oid.whole)
                entries = [entry for entry in whole if entry.name != oid.left_out]
            else:
                entries = parse(self._read_kind(oid, "tree"))
            self._trees[oid] = entries
        return entries

    def has_read(self, oid: Oid) -> bool:
        """Return whether a tree is cached."""
        return oid in self._trees

    def compare(self, old: Oid | None, new: Oid | None) -> tuple[FileChange, ...]:
        """Return the differences between two trees. The last result is cached: a restore asks three
        times, in both directions.
        """
        if self._compared[:2] == (new, old):
            self._compared = (
                old,
                new,
                tuple(FileChange(c.path, c.new, c.old) for c in self._compared[2]),
            )
        elif self._compared[:2] != (old, new):
            self._compared = old, new, tuple(diff(self, old, new))
        return self._compared[2]

    def read_commit(self, oid: Oid) -> bytes:
        """Return the raw bytes of a commit. Raises StoreDamaged."""
        if oid == NOTHING:
            raise StoreDamaged("its ref does not contain an object name", hint="gitcp check")
        return self._read_kind(oid, "commit")

    def exists(self, oid: Oid) -> bool:
        """Return whether the object exists."""
        if self._is_written(oid) or self._stands(oid):
            return True
        if self._listed == pack_times(self._directories):
            return False
        self.__dict__.pop("_indexes", None)  # somebody put packs together
        return self._stands(oid)

    def freshen(self, oid: Oid) -> bool:
        """Return whether an object exists and will stay: its file is touched, so that a prune by
        age keeps it.

        In a cruft pack each object has its own time, which no touch changes: an object that is only
        there must be written again. A recorded damaged object counts only if it is readable now.
        """
        if self._is_written(oid):
            return True
        return any(map(self._refresh, self._places(bytes.fromhex(oid)))) and not self.is_damaged(
            oid
        )

    def is_damaged(self, oid: Oid) -> bool:
        """Return whether an object recorded as damaged is still unreadable."""
        if oid not in self.damaged:
            return False
        try:
            self.read(oid)
        except StoreDamaged:
            return True
        if self.has_stray_bit(oid):
            return True
        self.damaged -= {oid}
        return False

    def has_stray_bit(self, oid: Oid) -> bool:
        """Return whether a bit of a loose object's file was changed although it still reads
        correctly.
        """
        return has_stray_bit(self._directories, oid)

    def distrust(self, oids: Iterable[str]) -> None:
        """Record that these objects are unreadable: each counts as stored only once it can be read
        again.
        """
        damage.record(self._repo, oids)
        self.damaged = self.damaged.union(oids)

    @cached_property
    def damaged(self) -> frozenset[str]:
        """Return the objects recorded as missing or damaged."""
        return damage.known(self._repo.common_dir)

    def _stands(self, oid: Oid) -> bool:
        return any(map(os.path.exists, self._places(bytes.fromhex(oid))))

    def _is_written(self, oid: Oid) -> bool:
        """Return whether the next `flush` makes the object visible."""
        if oid in self._pending or oid in self._streamed or oid == EMPTY_TREE:
            return True
        return self._pack is not None and bytes.fromhex(oid) in self._pack

    def _places(self, oid: bytes) -> Iterable[str]:
        name = oid.hex()
        for directory in self._directories:
            yield f"{directory}/{name[:2]}/{name[2:]}"
        for index in self._near(oid):
            yield str(index.pack)

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

    def _refresh(self, path: str) -> bool:
        if path in self._fresh:
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
            return not path.startswith(f"{self._directory}/") and os.path.exists(path)
        if path.endswith(".pack"):
            if os.path.exists(f"{path.removesuffix('.pack')}.mtimes"):
                return False
            self._fresh.add(path)
        return True

    @cached_property
    def _directories(self) -> list[Path]:
        return with_alternates(self._directory)

    @cached_property
    def _indexes(self) -> list[PackIndex]:
        self._listed = pack_times(self._directories)
        return [index for directory in self._directories for index in indexes(directory)]

    def _ask_git(self, oid: Oid) -> tuple[str, bytes]:
        self._require(oid)
        from gitcp.git import catfile  # rarely: what is damaged, or larger than `LARGEST`

        return catfile.read(self._repo, oid)

    def _require(self, oid: Oid) -> None:
        """Raise StoreDamaged for a missing object: git would start in vain, or fetch it."""
        if not self.exists(oid) and all(index.is_usable for index in self._indexes):
            raise StoreDamaged(f"object {oid} is missing", hint="gitcp check")

    def _read_kind(self, oid: Oid, kind: str) -> bytes:
        found, data = self.read(oid)
        if found != kind:
            raise StoreDamaged(
                f"object {oid} should be a {kind} and is a {found}", hint="gitcp check"
            )
        return data

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
                    self._pending[oid] = self.read(oid)
        with failures_named(self.discard):
            flush_loose(self._directory, self._pending, self._streamed)
        self._forget_pending()

    # ------------------------------------------------------------ writing

    def write(self, kind: str, data: bytes, *, new: bool = False) -> Oid:
        """Store an object unless it exists, and return its id. It is visible after `flush`.

        With `new` it is unlikely to exist (gitcp.git.gathering then skips the lookup).
        """
        oid = oid_of(kind, data)
        if self._is_stored(oid, new=new):
            return oid
        self.new_objects += 1
        self.new_bytes += len(data)
        if self._dry:
            return oid
        if self._pack is not None:
            with failures_named(self.discard):
                self._pack.add(bytes.fromhex(oid), kind, data)
            return oid
        self._pending[oid] = (kind, data)
        self._held += len(data)
        if self._held > MOST_HELD:
            self._start_pack()
        return oid

    def _is_stored(self, oid: Oid, *, new: bool) -> bool:  # noqa: ARG002 -- for gathering
        return self.freshen(oid)

    def write_blob(self, data: bytes, *, new: bool = False) -> Oid:
        """Store a blob and return its id; `new` as for `write`."""
        return self.write("blob", data, new=new)

    def write_tree(self, entries: list[TreeEntry]) -> Oid:
        """Store a tree and return its id; entries may be in any order."""
        ordered = sorted(entries, key=sort_key)
        oid = self.write("tree", serialise(ordered), new=True)
        self._trees[oid] = ordered
        return oid

    def name_tree(self, entries: list[TreeEntry]) -> Oid:
        """Return the id that a tree would have. It can be read from the cache, but is not
        stored.
        """
        ordered = sorted(entries, key=sort_key)
        oid = oid_of("tree", serialise(ordered))
        self._trees[oid] = ordered
        return oid

    def write_stream(self, size: int, chunks: Iterable[bytes]) -> Oid | None:
        """Store a blob of `size` bytes without holding it in memory. Return None if `chunks` do not
        add up to `size`.
        """
        digest = hashlib.sha1(b"blob %d\0" % size, usedforsecurity=False)
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
        if self._dry or seen != size or self.freshen(oid):
            temporary.unlink(missing_ok=True)
            return oid if seen == size else None
        self._streamed[oid] = temporary
        self.new_objects += 1
        self.new_bytes += size
        return oid

    def flush(self, *, held: bool = False) -> None:
        """Make everything written visible and durable. Raises DiskFull; then nothing of it can be
        named by a ref.

        With `held`, a `git repack -ad` that looks before a ref names it leaves it alone, until
        `let_go`.
        """
        with failures_named(self.discard):
            pack, self._pack = (
                self._pack.close(held=held) if self._pack else self._pack_pending(held=held),
                None,
            )
            self._unnamed += [pack] if pack and held else []
            flush_loose(self._directory, self._pending, self._streamed)
        self._settled(pack)

    def let_go(self) -> None:
        """What was held is named by refs now, or by nothing ever."""
        while self._unnamed:
            self._released(self._unnamed.pop())

    def _released(self, pack: Path) -> None:
        let_go(pack)

    def _pack_pending(self, *, held: bool) -> Path | None:
        """What waits becomes a pack, unless it is little."""
        if len(self._pending) <= (MOST_BESIDE if self._streamed else MOST_LOOSE):
            return None
        pack = packed(self._pending, deflated).write(self._directory / "pack", sync=True, held=held)
        self._pending.clear()
        return pack

    def _settled(self, pack: Path | None) -> None:
        """What was written is visible; `pack` is the one it went to."""
        self._forget_pending()
        self.__dict__.pop("_indexes", None)
        if pack:
            note(self._repo, pack)

    def _forget_pending(self) -> None:
        self._pending.clear()
        self._fresh.clear()
        self._held = 0

    def discard(self) -> None:
        """Forget everything written since the last `flush`."""
        if self._pack is not None:
            self._pack.discard()
            self._pack = None
        for temporary in self._streamed.values():
            with suppress(OSError):
                temporary.unlink()
        self._streamed.clear()
        self._forget_pending()
        self.let_go()

    def _start_pack(self) -> None:
        with failures_named(self.discard):
            self._pack = PackWriter(self._directory / "pack")
            for oid, (kind, data) in self._pending.items():
                self._pack.add(bytes.fromhex(oid), kind, data)
        self._forget_pending()
