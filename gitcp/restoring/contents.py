"""Read the content that a plan restores, and verify that all of it is readable before any write.

A missing blob must stop a restore before it begins. So every blob is read once ahead; small ones
stay in memory, and large ones are read again, in chunks, when their file is written.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Iterator

from gitcp import regular
from gitcp.errors import GitcpError, StoreDamaged
from gitcp.git import segmented
from gitcp.git.index import git_mode
from gitcp.model import SYMLINK, Conversion, Entry, Oid
from gitcp.restoring.plan import FileStep
from gitcp.store import Store
from gitcp.worktree import convert
from gitcp.worktree.paths import display
from gitcp.worktree.writer import Writer

KEPT_BLOB = 1 << 20
KEPT_IN_ALL = 32 << 20
CHUNK = 1 << 20
NAMED = 3


class Contents:
    """The content of files and links in checkpoints, from the objects of one store."""

    def __init__(self, store: Store) -> None:
        self._objects = store.objects
        self._lfs = store.repo.common_dir / "lfs"
        self._known: dict[Oid, bytes] = {}
        self._room = KEPT_IN_ALL

    def require(self, steps: Iterable[FileStep], source: str) -> None:
        """Read every blob that `steps` restore. Raises StoreDamaged if one is missing or damaged;
        `source` names their checkpoint in the message.
        """
        needed = [step for step in steps if step.new is not None]
        damaged = self._read_ahead({step.new.oid for step in needed if step.new is not None})
        lost: dict[bytes, StoreDamaged] = {}
        for step in needed:
            assert step.new is not None
            error = damaged.get(step.new.oid)
            if error is None and step.conversion is not None and step.conversion.segments:
                error = self._damage_of_segments(step.new.oid)
            if error is not None:
                lost[step.path] = error
        if lost:
            self._objects.freshener.distrust(
                [oid for error in lost.values() for oid in error.objects]
            )
            names = ", ".join(display(path) for path in sorted(lost)[:NAMED]) + (
                ", …" if len(lost) > NAMED else ""
            )
            raise StoreDamaged(
                f"cannot restore {names} from {source}: {next(iter(lost.values()))}. No file was "
                "changed; other paths: gitcp restore REV -- PATH",
                hint="gitcp doctor --store",
            )

    def of(self, entry: Entry, conversion: Conversion | None) -> Iterator[bytes]:
        """Return the bytes of a file in chunks, or the target of a link. Raises GitcpError,
        possibly after the last chunk.
        """
        if conversion is None:
            return self._blob(entry.oid)
        if conversion.segments:
            return segmented.content(self._objects.reader, entry.oid)
        if conversion.lfs:
            return self._lfs_object(b"".join(self._blob(entry.oid)), entry.oid)
        return iter(
            [convert.checkout(b"".join(self._blob(entry.oid)), entry.oid, conversion, self._lfs)]
        )

    def begins_with(self, entry: Entry, conversion: Conversion | None, start: bytes) -> bool:
        """Return whether a file begins with these bytes. Reads no further than its first chunk."""
        try:
            return next(self.of(entry, conversion), b"").startswith(start)
        except GitcpError:
            return False

    def known(self, oid: Oid) -> bytes | None:
        """Return a blob's content if it is in memory."""
        return self._known.get(oid)

    def lacks_lfs(self, entry: Entry) -> str:
        """Return the id of the LFS object that a file needs if this repository does not have it; ""
        otherwise.
        """
        pointer = convert.pointer_of(b"".join(self._blob(entry.oid)))
        if pointer is None:
            return ""  # reported when the blob is read
        try:
            size = os.stat(convert.lfs_object(self._lfs, pointer[0])).st_size
        except OSError:
            size = -1
        return "" if size == pointer[1] else pointer[0]

    def has(self, tree: Writer, path: bytes, entry: Entry, conversion: Conversion | None) -> bool:
        """Return whether a file with these bytes, or this link, is at `path`, whatever its
        permissions.
        """
        try:
            status = tree.lstat(path)
            if status is None or git_mode(status.st_mode) >> 12 != entry.mode >> 12:
                return False
            if entry.mode == SYMLINK:
                return tree.readlink(path) == b"".join(self.of(entry, None))
            return _same(tree.read(path), self.of(entry, conversion))
        except GitcpError:
            return False

    def _read_ahead(self, oids: Collection[Oid]) -> dict[Oid, StoreDamaged]:
        """Read blobs and keep the small ones. Return the errors of those that cannot be read."""
        wanted = [oid for oid in oids if oid not in self._known]
        damaged = {}
        for oid, content in self._objects.reader.verify_blobs(wanted, KEPT_BLOB):
            if isinstance(content, StoreDamaged):
                damaged[oid] = content
            elif content is not None and len(content) <= self._room:
                self._known[oid] = content
                self._room -= len(content)
        return damaged

    def _damage_of_segments(self, oid: Oid) -> StoreDamaged | None:
        try:
            for _ in segmented.content(self._objects.reader, oid):
                pass
        except StoreDamaged as error:
            return error
        return None

    def _blob(self, oid: Oid) -> Iterator[bytes]:
        return (
            iter([self._known[oid]])
            if oid in self._known
            else self._objects.reader.stream_blob(oid)
        )

    def _lfs_object(self, blob: bytes, oid: Oid) -> Iterator[bytes]:
        pointer = convert.pointer_of(blob)
        if pointer is None:
            raise StoreDamaged(
                f"blob {oid} is not a valid LFS pointer", hint="gitcp doctor --store"
            )
        import hashlib  # not for blobs

        name, size = pointer
        digest, length = hashlib.sha256(), 0
        try:
            with regular.opened(convert.lfs_object(self._lfs, name)) as file:
                while chunk := file.read(CHUNK):
                    digest.update(chunk)
                    length += len(chunk)
                    yield chunk
        except OSError:
            raise GitcpError(
                f"the LFS object {name} is not in this repository", hint="git lfs fetch --all"
            ) from None
        if (digest.hexdigest(), length) != (name, size):
            raise StoreDamaged(
                f"the content of LFS object {name} does not match its id", hint="git lfs fsck"
            )


def _same(left: Iterable[bytes], right: Iterable[bytes]) -> bool:
    """Return whether two streams have the same bytes, however they are chunked."""
    rest, others = b"", iter(right)
    for chunk in left:
        while len(rest) < len(chunk):
            more = next(others, None)
            if more is None:
                return False
            rest += more
        if not rest.startswith(chunk):
            return False
        rest = rest[len(chunk) :]
    return not rest and not any(len(more) for more in others)
