"""Read objects: those that wait for `flush`, loose ones, and by gitcp.git.catfile all others."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, TypeVar

from gitcp.errors import StoreDamaged
from gitcp.git.loose import inflate, open_loose, read_loose
from gitcp.git.refs import UNREADABLE_REF
from gitcp.git.stored import PAUSE, TRIES, Pending, StoredObjects
from gitcp.git.trees import PartOfTree, TreeEntry, diff, parse, serialised
from gitcp.model import FileChange, Oid

if TYPE_CHECKING:
    from gitcp.git.catfile import CatFile
    from gitcp.git.libgit import LibgitObjects
    from gitcp.git.repo import Repository

T = TypeVar("T")

MOST_BY_GIT = 100
"""Packed objects that are read by git, before libgit2 is loaded for all that follow: that takes as
long as git takes for 300. The first save of a checkout of 13,000 files reads as many trees.
"""

MOST_WRITTEN = 50_000
"""Entries of trees just written that are cached, 10 MB: the others are read where they were
written.
"""


class ObjectReader:
    """Reads the objects of one repository. Trees are cached: plans, diffs and listings
    read the same ones again.
    """

    def __init__(self, repo: Repository, stored: StoredObjects, pending: Pending) -> None:
        self._repo = repo
        self._stored = stored
        self._pending = pending
        self._format = repo.object_format
        self._trees: dict[Oid, list[TreeEntry]] = {self._format.empty_tree: []}
        self._written: dict[Oid, list[TreeEntry]] = {}
        self._written_entries = 0
        self._packed_read = 0
        self._compared: tuple[Oid | None, Oid | None, tuple[FileChange, ...]] = (None, None, ())

    def exists(self, oid: Oid) -> bool:
        """Return whether the object exists, or will after `flush`. Reads no content."""
        return oid in self._pending or self._stored.exists(oid)

    def read(self, oid: Oid) -> tuple[str, bytes]:
        """Return an object's kind and content. Raises StoreDamaged if it is missing or its hash is
        wrong.
        """
        waiting = self._pending.read(oid)
        if waiting is not None:
            return waiting
        try:
            return self._read_loose(oid) or self._read_packed(oid)
        except StoreDamaged as error:
            error.objects = (oid,)
            raise

    def read_each(
        self, oids: Iterable[Oid]
    ) -> Iterator[tuple[Oid, tuple[str, bytes] | StoreDamaged]]:
        """Yield objects with what `read` returns, or with the error that it raises."""
        for oid in dict.fromkeys(oids):
            try:
                yield oid, self.read(oid)
            except StoreDamaged as error:
                yield oid, error

    def read_blob(self, oid: Oid) -> bytes:
        """Return the bytes of a blob. Raises StoreDamaged."""
        return self._read_kind(oid, "blob")

    def read_commit(self, oid: Oid) -> bytes:
        """Return the raw bytes of a commit. Raises StoreDamaged."""
        if oid == UNREADABLE_REF:
            raise StoreDamaged(
                "its ref does not contain an object name", hint="gitcp doctor --store"
            )
        return self._read_kind(oid, "commit")

    def tree_of(self, commit: Oid) -> Oid:
        """Return the tree of a commit. Raises StoreDamaged."""
        line = self.read_commit(commit).partition(b"\n")[0]
        return Oid(line.removeprefix(b"tree ").decode("ascii"))

    def stream_blob(self, oid: Oid) -> Iterator[bytes]:
        """Yield a blob in chunks; a large one is never held in memory as a whole.

        Raises StoreDamaged as `read`, but possibly after the last chunk: the output is then
        invalid.
        """
        if self._pending.read(oid) is not None:
            yield self.read_blob(oid)
            return
        try:
            yield from self._stream_stored(oid)
        except StoreDamaged as error:
            error.objects = (oid,)
            raise

    def verify_blobs(
        self, oids: Iterable[Oid], most: int
    ) -> Iterator[tuple[Oid, bytes | StoreDamaged | None]]:
        """Yield blobs of up to `most` bytes with their content, larger ones, which were read, too,
        with None, and those that cannot be read with the error.
        """
        for oid in dict.fromkeys(oids):
            try:
                yield oid, self._joined(self.stream_blob(oid), most)
            except StoreDamaged as error:
                yield oid, error

    def _joined(self, chunks: Iterator[bytes], most: int) -> bytes | None:
        """Return chunks as one, None if they have more than `most` bytes. All are read."""
        parts: list[bytes] = []
        size = 0
        for chunk in chunks:
            size += len(chunk)
            parts = [*parts, chunk] if size <= most else []
        return b"".join(parts) if size <= most else None

    # ------------------------------------------------------------ trees

    def read_tree(self, oid: Oid) -> list[TreeEntry]:
        """Return the entries of a tree."""
        entries = self._trees.get(oid)
        if entries is None:
            entries = self._written.get(oid)
        if entries is None:
            if isinstance(oid, PartOfTree):
                whole = self.read_tree(oid.whole)
                entries = [entry for entry in whole if entry.name != oid.left_out]
            else:
                entries = parse(self._read_kind(oid, "tree"), self._format)
            self._trees[oid] = entries
        return entries

    def has_cached(self, tree: Oid) -> bool:
        return tree in self._trees or tree in self._written

    def cache_tree(self, oid: Oid, entries: list[TreeEntry], *, stored: bool) -> None:
        """Let this tree, with its entries in git's order, be read from the cache: for ever, or if
        it is `stored` as well, until many others are.
        """
        if not stored:
            self._trees[oid] = entries
            return
        self._written_entries += len(entries)
        if self._written_entries > MOST_WRITTEN:
            self._written.clear()
            self._written_entries = len(entries)
        self._written[oid] = entries

    def name_tree(self, entries: list[TreeEntry]) -> Oid:
        """Return the id that a tree would have. It can be read from the cache, but is not stored.
        Entries may be in any order.
        """
        ordered, data = serialised(entries)
        oid = self._format.oid_of("tree", data)
        self.cache_tree(oid, ordered, stored=False)
        return oid

    def compare(self, old: Oid | None, new: Oid | None) -> tuple[FileChange, ...]:
        """Return the differences between two trees. The last result is cached: a restore asks three
        times, in both directions.
        """
        if self._compared[:2] == (new, old):
            changes = tuple(FileChange(c.path, c.new, c.old) for c in self._compared[2])
            self._compared = (old, new, changes)
        elif self._compared[:2] != (old, new):
            self._compared = old, new, tuple(diff(self, old, new))
        return self._compared[2]

    # ------------------------------------------------------------ where it is stored

    def _read_loose(self, oid: Oid) -> tuple[str, bytes] | None:
        """Return a loose object of this store or its alternates, None if there is none or if it is
        damaged and packed as well.
        """
        try:
            copies = (read_loose(directory, oid) for directory in self._stored.directories)
            return next((copy for copy in copies if copy is not None), None)
        except StoreDamaged:
            if self._stored.is_packed(oid):
                return None
            raise

    def _read_packed(self, oid: Oid) -> tuple[str, bytes]:
        libgit = self._libgit()
        whole = libgit.read(oid) if libgit is not None else None
        return whole or self._by_git(oid, lambda git: git.read(oid))

    def _stream_stored(self, oid: Oid) -> Iterator[bytes]:
        for directory in self._stored.directories:
            loose = open_loose(directory, oid)
            if loose is not None:
                with loose:
                    yield from inflate(loose, oid)
                return
        libgit = self._libgit()
        if libgit is not None and (small := libgit.small_blob(oid)) is not None:
            yield small
            return
        first, rest = self._by_git(oid, lambda git: _started(git.stream(oid)))
        yield first
        yield from rest

    def _libgit(self) -> LibgitObjects | None:
        """Return libgit2's objects, None as long as few were read."""
        self._packed_read += 1
        if self._packed_read == MOST_BY_GIT:
            self._repo.read_by_libgit2()
        return self._repo.libgit

    def _by_git(self, oid: Oid, read: Callable[[CatFile], T]) -> T:
        """Return what `read` reads of an object. git looks for it twice: it misses one whose packs
        were joined, and joined again, meanwhile. So while packs change, git is asked again.
        """
        # A save of a graph's step failed: its object was "missing" while another process joined
        # its pack with others.
        for _ in range(TRIES):
            self._require(oid)
            try:
                return self._repo.read_by_git(read)
            except StoreDamaged:
                if self._stored.is_complete():
                    raise
            time.sleep(PAUSE)
            self._stored.forget_packs()
        return self._repo.read_by_git(read)

    def _require(self, oid: Oid) -> None:
        """Raise StoreDamaged for a missing object: git would start in vain, or fetch it."""
        stored = self._stored
        if stored.is_packed(oid) or stored.has_unreadable_index:
            return
        if stored.is_missing(oid):
            raise StoreDamaged(f"object {oid} is missing", hint="gitcp doctor --store")

    def _read_kind(self, oid: Oid, kind: str) -> bytes:
        actual_kind, data = self.read(oid)
        if actual_kind != kind:
            raise StoreDamaged(
                f"object {oid} should be a {kind} and is a {actual_kind}",
                hint="gitcp doctor --store",
            )
        return data


def _started(chunks: Iterator[bytes]) -> tuple[bytes, Iterator[bytes]]:
    return next(chunks), chunks
