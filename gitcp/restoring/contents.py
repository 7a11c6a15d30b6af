"""The bytes that a plan brings back, each known to be readable before the first is written.

A blob that is missing must stop a restore before it begins, not in its middle. So every one is read
once ahead; small ones are kept, and large ones are read again, in chunks, when their file is
written.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator

from gitcp.errors import GitcpError, StoreDamaged
from gitcp.git.index import git_mode
from gitcp.model import SYMLINK, Conversion, Entry, Oid
from gitcp.restoring.plan import Step
from gitcp.store import Store
from gitcp.worktree import convert
from gitcp.worktree.paths import display
from gitcp.worktree.writer import Writer

KEPT_BLOB = 1 << 20
KEPT_IN_ALL = 32 << 20
CHUNK = 1 << 20
NAMED = 3


class Contents:
    """What the files and links of checkpoints hold, from the objects of one store."""

    def __init__(self, store: Store) -> None:
        self._objects = store.objects
        self._lfs = store.repo.common_dir / "lfs"
        self._known: dict[Oid, bytes] = {}
        self._room = KEPT_IN_ALL

    def require(self, steps: Iterable[Step], what: str) -> None:
        """Read everything that `steps` bring back. Raises StoreDamaged if one of the blobs of
        `what` cannot be had.
        """
        sound: set[Oid] = set()
        lost: dict[bytes, StoreDamaged] = {}
        for step in steps:
            if step.new is None or step.new.oid in sound:
                continue
            try:
                self._read_ahead(step.new.oid)
                sound.add(step.new.oid)
            except StoreDamaged as error:
                lost[step.path] = error
        if lost:
            self._objects.distrust([oid for error in lost.values() for oid in error.objects])
            named = ", ".join(display(path) for path in sorted(lost)[:NAMED]) + (
                ", …" if len(lost) > NAMED else ""
            )
            raise StoreDamaged(
                f"{named} of {what} cannot be brought back: {next(iter(lost.values()))}. No file "
                "was changed",
                hint="gitcp check, or restore other paths alone: gitcp restore REV -- PATH",
            )

    def of(self, entry: Entry, conversion: Conversion | None) -> Iterator[bytes]:
        """The bytes of a file, or where a link points. Raises GitcpError, perhaps after the last
        chunk.
        """
        if conversion is None:
            return self._blob(entry.oid)
        if conversion.lfs:
            return self._lfs_object(b"".join(self._blob(entry.oid)), entry.oid)
        return iter(
            [convert.checkout(b"".join(self._blob(entry.oid)), entry.oid, conversion, self._lfs)]
        )

    def lacks_lfs(self, entry: Entry) -> str:
        """The LFS object that a file needs and that is not in this repository; "" if it is
        there.
        """
        pointer = convert.pointer_of(b"".join(self._blob(entry.oid)))
        if pointer is None:
            return ""  # said when it is read
        try:
            size = os.stat(convert.lfs_object(self._lfs, pointer[0])).st_size
        except OSError:
            size = -1
        return "" if size == pointer[1] else pointer[0]

    def stands(
        self, tree: Writer, path: bytes, entry: Entry, conversion: Conversion | None
    ) -> bool:
        """Whether a file with these bytes lies at `path`, or such a link; whatever its permissions.
        Writes nothing.
        """
        try:
            found = tree.lstat(path)
            if found is None or git_mode(found.st_mode) >> 12 != entry.mode >> 12:
                return False
            if entry.mode == SYMLINK:
                return tree.readlink(path) == b"".join(self.of(entry, None))
            return _same(tree.read(path), self.of(entry, conversion))
        except GitcpError:
            return False

    def _read_ahead(self, oid: Oid) -> None:
        if oid in self._known:
            return
        kept: list[bytes] | None = []
        size = 0
        for chunk in self._objects.stream_blob(oid):
            size += len(chunk)
            if kept is not None:
                kept = [*kept, chunk] if size <= min(KEPT_BLOB, self._room) else None
        if kept is not None:
            self._known[oid] = b"".join(kept)
            self._room -= size

    def _blob(self, oid: Oid) -> Iterator[bytes]:
        return iter([self._known[oid]]) if oid in self._known else self._objects.stream_blob(oid)

    def _lfs_object(self, blob: bytes, oid: Oid) -> Iterator[bytes]:
        pointer = convert.pointer_of(blob)
        if pointer is None:
            raise StoreDamaged(
                f"blob {oid} should be an LFS pointer and is none", hint="gitcp check"
            )
        import hashlib  # not for blobs

        name, size = pointer
        digest, seen = hashlib.sha256(), 0
        try:
            with open(convert.lfs_object(self._lfs, name), "rb") as file:
                while chunk := file.read(CHUNK):
                    digest.update(chunk)
                    seen += len(chunk)
                    yield chunk
        except OSError:
            raise GitcpError(
                f"the LFS object {name} is not in this repository", hint="git lfs fetch --all"
            ) from None
        if (digest.hexdigest(), seen) != (name, size):
            raise StoreDamaged(
                f"the LFS object {name} does not hold what its name says", hint="git lfs fsck"
            )


def _same(ours: Iterable[bytes], theirs: Iterable[bytes]) -> bool:
    """Whether two streams are the same bytes, however they are cut."""
    rest, others = b"", iter(theirs)
    for chunk in ours:
        while len(rest) < len(chunk):
            more = next(others, None)
            if more is None:
                return False
            rest += more
        if not rest.startswith(chunk):
            return False
        rest = rest[len(chunk) :]
    return not rest and not any(len(more) for more in others)
