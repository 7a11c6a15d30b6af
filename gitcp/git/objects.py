"""Reads and writes objects. What is written becomes visible at `flush`, all of it, before any ref
can name it.

Loose objects are read and written here, packed ones read by gitcp.git.unpack; `git cat-file` is the
last resort. Few new objects go loose, many go into one pack. Everything is fsynced at `flush`,
which git does not do for all.
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
    SmallPack,
    deflated,
    indexes,
    let_go,
    oid_of,
    pack_times,
    packed,
)
from gitcp.git.refs import NOTHING
from gitcp.git.repack import note
from gitcp.git.trees import EMPTY_TREE, TreeEntry, diff, parse, serialise, sort_key
from gitcp.git.unpack import LARGEST, read_packed
from gitcp.model import FileChange, Oid

if TYPE_CHECKING:
    from gitcp.git.gathering import Gathering
    from gitcp.git.repo import Repository

MOST_LOOSE = 12
"""So many new objects at most go loose: each is a file to be synced, and so is its directory; a
pack is two files.
"""

MOST_BESIDE = 64
"""The same beside a large file, which goes loose: housekeeping finds what is loose by commits that
are.
"""

MOST_IN_MEMORY = 4 << 20
"""Bytes of a packed blob up to which `stream_blob` reads it here, in one chunk; git reads what is
larger.
"""

MOST_HELD = 1 << 20
"""So many bytes of new objects wait for `flush`; what is more goes to a pack in a stream."""


class Objects:
    """The object store of one repository.

    With `dry`, nothing is written: trees are kept to be compared, blobs named. `gathering`: each
    flush writes a pack.
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
        self.gathering: Gathering | None = None
        self.new_bytes = 0
        self.new_objects = 0

    # ------------------------------------------------------------ reading

    def read(self, oid: Oid) -> tuple[str, bytes]:
        """An object's kind and content. Raises StoreDamaged if it is missing or not what its name
        says.
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
        """A loose object of this store, or of one that it borrows from."""
        found = (read_loose(directory, oid) for directory in self._directories)
        return next((loose for loose in found if loose is not None), None)

    def read_blob(self, oid: Oid) -> bytes:
        """The bytes of a blob."""
        return self._read_kind(oid, "blob")

    def stream_blob(self, oid: Oid) -> Iterator[bytes]:
        """The bytes of a blob in chunks: one that is larger than MOST_IN_MEMORY is never held as a
        whole.

        Raises StoreDamaged as `read` does, but perhaps after the last chunk: what was made of it is
        then void.
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
        """The bytes of a blob that is in a file."""
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
        """The entries of a tree; remembered, since plans and diffs meet the same trees again."""
        entries = self._trees.get(oid)
        if entries is None:
            entries = self._trees[oid] = parse(self._read_kind(oid, "tree"))
        return entries

    def has_read(self, oid: Oid) -> bool:
        """Whether a tree need not be read again."""
        return oid in self._trees

    def compare(self, old: Oid | None, new: Oid | None) -> tuple[FileChange, ...]:
        """What differs between two trees. The last answer is kept: a restore asks three times, back
        and forth.
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
        """The raw bytes of a commit."""
        if oid == NOTHING:
            raise StoreDamaged("its ref does not hold an object name", hint="gitcp check")
        return self._read_kind(oid, "commit")

    def exists(self, oid: Oid) -> bool:
        """Whether the object is there."""
        if self._is_written(oid) or self._stands(oid):
            return True
        if self._listed == pack_times(self._directories):
            return False
        self.__dict__.pop("_indexes", None)  # somebody put packs together
        return self._stands(oid)

    def freshen(self, oid: Oid) -> bool:
        """Whether it is there and stays: its file is touched, so that a prune by age leaves it
        alone.

        In a cruft pack each object has a time of its own, which no touch changes: what is only
        there must be written. One that is known to be damaged is there only if it can be read by
        now.
        """
        if self._is_written(oid):
            return True
        return any(map(self._refresh, self._places(bytes.fromhex(oid)))) and not self.is_damaged(
            oid
        )

    def is_damaged(self, oid: Oid) -> bool:
        """Whether an object that is known to have been missing or damaged still cannot be read."""
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
        """Whether a bit of a loose object's file was changed, though what it holds can still be
        read.
        """
        return has_stray_bit(self._directories, oid)

    def distrust(self, oids: Iterable[str]) -> None:
        """Record that these objects could not be read: each counts as stored only when it can be
        read again.
        """
        damage.record(self._repo, oids)
        self.damaged = self.damaged.union(oids)

    @cached_property
    def damaged(self) -> frozenset[str]:
        """The objects that somebody found to be missing or damaged."""
        return damage.known(self._repo.common_dir)

    def _stands(self, oid: Oid) -> bool:
        return any(map(os.path.exists, self._places(bytes.fromhex(oid))))

    def _is_written(self, oid: Oid) -> bool:
        """Whether the next `flush` makes it visible."""
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
        """The packs that have an object, that of the last one first: what belongs together lies
        together.
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
        """Raise StoreDamaged for an object that is not here: git would start for nothing, or fetch
        it.
        """
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
        """Give these a loose copy of now. git's gc then keeps each, and all it reaches, even if no
        ref of it was seen.

        The file of a pack will not do: git may have looked at its time already. Raises DiskFull.
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
        """Store an object, or find it stored; its name. Visible after `flush`.

        `new` says that it can hardly be there. Who gathers packs then does not look: a second copy
        goes with the next.
        """
        oid = oid_of(kind, data)
        if self._is_written(oid) if new and self.gathering else self.freshen(oid):
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

    def write_blob(self, data: bytes, *, new: bool = False) -> Oid:
        """Store a blob; `new` as for `write`."""
        return self.write("blob", data, new=new)

    def write_tree(self, entries: list[TreeEntry]) -> Oid:
        """Store a tree; the entries may come in any order."""
        ordered = sorted(entries, key=sort_key)
        oid = self.write("tree", serialise(ordered), new=True)
        self._trees[oid] = ordered
        return oid

    def name_tree(self, entries: list[TreeEntry]) -> Oid:
        """The id a tree would have; it is remembered here and can be read, and is not stored."""
        ordered = sorted(entries, key=sort_key)
        oid = oid_of("tree", serialise(ordered))
        self._trees[oid] = ordered
        return oid

    def write_stream(self, size: int, chunks: Iterable[bytes]) -> Oid | None:
        """Store a blob of `size` bytes without holding it in memory. None if `chunks` do not add up
        to `size`.
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
            if self.gathering and self._pending:
                self._start_pack()
            pack, self._pack = (
                self._pack.close(held=held) if self._pack else self._pack_pending(held=held),
                None,
            )
            self._unnamed += [pack] if pack and (held or self.gathering) else []
            flush_loose(self._directory, self._pending, self._streamed)
        self._settled(pack)

    def let_go(self) -> None:
        """What was held is named by refs now, or by nothing ever."""
        while self._unnamed:
            pack = self._unnamed.pop()
            let_go(pack)
            joined = self.gathering.add(pack) if self.gathering else None
            if joined is not None:
                self.__dict__.pop("_indexes", None)
                for each in joined:
                    note(self._repo, each)

    def sealed(self) -> tuple[SmallPack, ...]:
        """Return everything written as a pack that is not visible yet, for `place`; what is too
        large is made durable.

        After a power cut a visible pack that was not synced may be cut off, and git fails by it. So
        one is placed only when something durable has its bytes.
        """
        if self._pack is not None or self._streamed:
            self.flush()
        return (packed(self._pending),) if self._pending else ()

    def place(self, packs: Iterable[SmallPack]) -> None:
        """Make packs visible that were `sealed`. They are not synced."""
        for small in packs:
            with failures_named(self.discard):
                pack = small.write(self._directory / "pack")
                self._unnamed.append(pack)
            self._settled(pack, small.listing)

    def _pack_pending(self, *, held: bool) -> Path | None:
        """What waits becomes a pack, unless it is little."""
        if len(self._pending) <= (MOST_BESIDE if self._streamed else MOST_LOOSE):
            return None
        pack = packed(self._pending, deflated).write(self._directory / "pack", sync=True, held=held)
        self._pending.clear()
        return pack

    def _settled(self, pack: Path | None, listing: bytes | None = None) -> None:
        self._forget_pending()
        known = self.__dict__.pop("_indexes", [])
        if pack and not self.gathering:
            note(self._repo, pack)
        elif pack:
            self._indexes = [
                *known,
                PackIndex(pack if listing else pack.with_suffix(".idx"), listing),
            ]

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
