"""From files to blobs: which blob a file has, written where it is new.

The blob is the one git itself would store wherever that can be turned back into the very same
bytes, else the bytes themselves. A file need not be read at all where git's index proves which blob
it has.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterable, Iterator
from functools import cached_property
from typing import TYPE_CHECKING

from gitcp.errors import StoreDamaged
from gitcp.fastpath.stat_check import UNSETTLED
from gitcp.git.index import STAGE, Index, Slot, git_mode
from gitcp.git.trees import lookup
from gitcp.model import SYMLINK, Oid, SkipReason
from gitcp.worktree.attributes import Attributes, ConversionHints
from gitcp.worktree.reading import Unstable, blocks, consume, read, reason, settled
from gitcp.worktree.records import RAW, File, Record

if TYPE_CHECKING:
    from gitcp.git.objects import Objects
    from gitcp.git.repo import Repository

STREAM_ABOVE = 8 << 20
"""Bytes from which on a file is not held in memory."""

CONVERT_UP_TO = 64 << 20
"""Bytes up to which a file is held in memory nevertheless, because git would convert it."""

SEED_FROM = 200
"""Files from which on asking git about the blobs of its index is cheaper than reading the files."""

LFS = ("", False, "", True)


class Job:
    """A file to be captured: where it is, and what lstat said. `slots` is what the index has for
    it, () for nothing.
    """

    __slots__ = ("attributes", "name", "record", "slots", "status")

    def __init__(
        self,
        record: Record,
        name: bytes,
        status: os.stat_result,
        slots: tuple[Slot, ...],
        attributes: tuple[str, ...] | None,
    ) -> None:
        self.record = record
        self.name = name
        self.status = status
        self.slots = slots
        self.attributes = attributes

    @property
    def path(self) -> bytes:
        """The path in the working tree."""
        return self.record.below(self.name)

    @property
    def indexed(self) -> bytes | None:
        """The 20 bytes of the name of its blob in the index, None if there is none or a
        conflict.
        """
        return self.slots[0][1] if self.slots and not self.slots[0][2] & STAGE else None


class Blobs:
    """Captures files into the object store. `index` is given where it was read, with its stat data,
    in this scan.
    """

    def __init__(
        self,
        repo: Repository,
        objects: Objects,
        hints: ConversionHints,
        *,
        index: Index | None,
        file_mode: bool,
        started: int,
    ) -> None:
        self._repo = repo
        self._objects = objects
        self._hints = hints
        self._index = index
        self._file_mode = file_mode
        self._started = started
        self._root = os.fsencode(repo.root) + b"/"

    def mode(self, st_mode: int, slots: tuple[Slot, ...]) -> int:
        """The mode a tree gives this file. Where the file system keeps no x bit, the index has
        it.
        """
        mode = git_mode(st_mode)
        if self._file_mode or not stat.S_ISREG(st_mode):
            return mode
        indexed = slots[0][0] if slots else 0
        return indexed if stat.S_ISREG(indexed) else git_mode(stat.S_IFREG)

    def capture(self, jobs: Iterable[Job]) -> None:
        """Capture every file: its record then holds it, or says why it was left out. Raises
        DiskFull, GitFailed.
        """
        left = list(self._unproven(list(jobs)))
        suspects = [job for job in left if not self._attempt(job, self._plainly)]
        for job in self._asked(suspects):
            self._attempt(job, self._by_attributes)

    # ------------------------------------------------------------ known from the index

    def _unproven(self, jobs: list[Job]) -> Iterator[Job]:
        """The files whose blob the index does not prove. The others are captured."""
        proven = [job for job in jobs if self._proves(job)]
        if len(proven) < SEED_FROM or not self._may_seed():
            yield from jobs
            return
        sizes = self._blob_sizes({job.slots[0][1].hex() for job in proven})
        # Its size must be that of the file, for attributes may have been others when git made the
        # blob.
        seeds = [job for job in proven if sizes.get(job.slots[0][1].hex()) == job.status.st_size]
        if self._hints.of_any():
            seeds = [job for job in self._asked(seeds) if self._stays(job)]
        for job in seeds:
            self._captured(job, job.status, job.slots[0][1])
        done = set(map(id, seeds))
        yield from (job for job in jobs if id(job) not in done)

    def _proves(self, job: Job) -> bool:
        if (
            self._index is None
            or len(job.slots) != 1
            or not self._index.proves(job.slots[0], job.status)
        ):
            return False
        return not self._objects.is_damaged(Oid(job.slots[0][1].hex()))

    def _blob_sizes(self, names: set[str]) -> dict[str, int]:
        """The sizes of those of these objects that are here. git is asked for no other: it would
        fetch it.
        """
        from gitcp.git.promised import is_partial  # only where many files are new

        if is_partial(self._repo):
            names = {name for name in names if self._objects.exists(Oid(name))}
        said = self._repo.git(
            "cat-file", "--batch-check", "--buffer", input="\n".join(sorted(names)).encode() + b"\n"
        )
        words = (line.split(" ") for line in said.decode("ascii").splitlines())
        return {word[0]: int(word[2]) for word in words if len(word) == 3}

    def _stays(self, job: Job) -> bool:
        """Whether a file of its blob's size is what git would store now, and check out."""
        from gitcp.worktree.convert import rule_of

        if job.attributes is None:
            return True  # a symbolic link
        attributes = Attributes._make(job.attributes)
        rule = rule_of(attributes, self._repo.config)
        # its blob in the index may be older than that attribute
        is_text = rule.text and not rule.auto
        return not (is_text or rule.crlf or rule.ident or rule.encoding or attributes.driver)

    def _may_seed(self) -> bool:
        """Whether no filter is about that could have made a blob of equal size."""
        keys = self._repo.config
        return not any(
            key.startswith("filter.") and not key.startswith("filter.lfs.") for key in keys
        )

    # ------------------------------------------------------------ read

    def _attempt(self, job: Job, capture: Callable[[Job], bool]) -> bool:
        """Whether the file was dealt with: captured, or left out with a reason."""
        record, name = job.record, job.name
        try:
            return capture(job)
        except FileNotFoundError:
            record.stamp = UNSETTLED
        except OSError as error:
            record.skip(name, SkipReason.UNREADABLE, reason(error, job.path))
            record.watched[name] = UNSETTLED
        except Unstable:
            record.skip(name, SkipReason.UNSTABLE, "it kept changing while it was read")
            record.watched[name] = UNSETTLED
        return True

    def _plainly(self, job: Job) -> bool:
        """Capture the file if nothing could convert it."""
        path = self._root + job.path
        if stat.S_ISLNK(job.status.st_mode):
            return self._link(job, path)
        if job.status.st_size > STREAM_ABOVE:
            return not self._hints.of_any() and self._in_blocks(job)
        data, status = read(path, job.status)
        if self._hints.of(data):
            return False
        self._captured(job, status, bytes.fromhex(self._objects.write_blob(data)))
        return True

    def _link(self, job: Job, path: bytes) -> bool:
        target = os.readlink(path)
        status = os.lstat(path)
        if not stat.S_ISLNK(status.st_mode) or status.st_ino != job.status.st_ino:
            raise Unstable
        self._captured(job, status, bytes.fromhex(self._objects.write_blob(target)))
        return True

    def _in_blocks(self, job: Job, how: str | None = None) -> bool:
        objects = self._objects
        oid, status = consume(
            self._root + job.path,
            job.status,
            lambda file, found: objects.write_stream(found.st_size, blocks(file)),
        )
        self._captured(
            job, status, bytes.fromhex(oid), None if bytes.fromhex(oid) == job.indexed else how
        )
        return True

    def _captured(self, job: Job, status: os.stat_result, oid: bytes, how: object = None) -> None:
        job.record.files[job.name] = File(
            self.mode(status.st_mode, job.slots),
            oid,
            status.st_mode,
            status.st_size,
            status.st_ino,
            status.st_ctime_ns,
            settled(status.st_ctime_ns, self._started),
            how,
            job.attributes,
        )

    # ------------------------------------------------------------ converted

    def _asked(self, jobs: list[Job]) -> list[Job]:
        """The same files, with their attributes."""
        unknown = [
            job for job in jobs if job.attributes is None and not stat.S_ISLNK(job.status.st_mode)
        ]
        if unknown:
            for job, attributes in zip(
                unknown, self._hints.ask([job.path for job in unknown]), strict=True
            ):
                job.attributes = tuple(attributes)
        return jobs

    def _by_attributes(self, job: Job) -> bool:
        from gitcp.worktree.convert import Rule, rule_of, store  # most scans convert nothing

        attributes = Attributes._make(job.attributes or ())
        rule = rule_of(attributes, self._repo.config)
        if attributes.driver == "lfs" and not job.status.st_size:
            rule = Rule()  # LFS leaves an empty file as it is
        elif self._is_filtered(attributes.driver):
            return (attributes.driver == "lfs" and self._lfs_pointer(job)) or self._whole(job)
        if rule == Rule() and job.status.st_size > STREAM_ABOVE:
            return self._in_blocks(job)
        if job.status.st_size > CONVERT_UP_TO:
            return self._in_blocks(job, RAW)
        data, status = read(self._root + job.path, job.status)
        stored = store(job.path, data, rule, lambda: self._is_indexed_crlf(job))
        blob, conversion = stored or (data, None)
        how = (
            None
            if conversion is None
            else (conversion.eol, conversion.ident, conversion.encoding, False)
        )
        oid = bytes.fromhex(self._objects.write_blob(blob))
        self._captured(job, status, oid, how if stored else RAW)
        return True

    def _is_filtered(self, driver: str) -> bool:
        """Whether git would run this filter: one that is not configured is none. LFS may be
        configured elsewhere.
        """
        names = (f"filter.{driver}.{key}" for key in ("clean", "smudge", "process"))
        return bool(driver) and (
            driver == "lfs" or any(name in self._repo.config for name in names)
        )

    def _whole(self, job: Job) -> bool:
        if job.status.st_size > STREAM_ABOVE:
            return self._in_blocks(job, RAW)
        data, status = read(self._root + job.path, job.status)
        oid = bytes.fromhex(self._objects.write_blob(data))
        self._captured(job, status, oid, None if oid == job.indexed else RAW)
        return True

    def _is_indexed_crlf(self, job: Job) -> bool:
        from gitcp.worktree.convert import has_crlf

        blob = self._blob(job.indexed)
        return blob is not None and has_crlf(blob)

    def _lfs_pointer(self, job: Job) -> bool:
        """Capture an LFS file as its pointer: only one that is known for this path, and whose bytes
        LFS holds here.
        """
        from gitcp.worktree.convert import lfs_object, pointer_of

        known = {}
        for oid in filter(None, (job.indexed, self._in_head(job.path))):
            pointer = pointer_of(self._blob(oid) or b"")
            if pointer and pointer[1] == job.status.st_size:
                known[pointer[0]] = oid
        lfs_dir = self._repo.common_dir / "lfs"
        if not any(
            _is_file_of(lfs_object(lfs_dir, digest), job.status.st_size) for digest in known
        ):
            return False
        digest, status = consume(self._root + job.path, job.status, _sha256)
        if digest not in known or not _is_file_of(lfs_object(lfs_dir, digest), status.st_size):
            return False
        self._captured(job, status, known[digest], LFS)
        return True

    def _in_head(self, path: bytes) -> bytes | None:
        tree = self._head_tree
        entry = lookup(self._objects, tree, path) if tree else None
        return bytes.fromhex(entry.oid) if entry and entry.mode != SYMLINK else None

    @cached_property
    def _head_tree(self) -> Oid | None:
        commit = self._repo.head().commit
        try:
            return Oid(self._objects.read_commit(commit)[5:45].decode("ascii")) if commit else None
        except StoreDamaged:
            return None

    def _blob(self, oid: bytes | None) -> bytes | None:
        try:
            return self._objects.read_blob(Oid(oid.hex())) if oid else None
        except StoreDamaged:
            return None  # not there, or a submodule's


def _is_file_of(path: os.PathLike[str], size: int) -> bool:
    try:
        status = os.stat(path)
    except OSError:
        return False
    return stat.S_ISREG(status.st_mode) and status.st_size == size


def _sha256(descriptor: int, _: os.stat_result) -> str:
    import hashlib  # for files of LFS alone

    digest = hashlib.sha256()
    for block in blocks(descriptor):
        digest.update(block)
    return digest.hexdigest()
