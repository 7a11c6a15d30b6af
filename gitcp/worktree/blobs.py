"""Capture files as blobs, and write the new ones.

The blob is the one that git would store if it converts back to the same bytes, else the bytes
themselves. A file is not read at all if git's index proves its blob.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, BinaryIO, NamedTuple, TypeVar

from gitcp import progress
from gitcp.errors import StoreDamaged
from gitcp.fastpath.stat_check import UNSETTLED
from gitcp.git.index import STAGE, Index, Slot, git_mode
from gitcp.git.trees import lookup
from gitcp.model import SYMLINK, Oid, SkipReason, Unlocked
from gitcp.value import EMPTY
from gitcp.worktree import sqlite_files, sqlite_locks
from gitcp.worktree.attributes import Attributes, ConversionHints
from gitcp.worktree.reading import Unstable, blocks, consume, read, reason, settled
from gitcp.worktree.records import RAW, SEGMENTS, FileRecord, ScannedDirectory, stamp_of

if TYPE_CHECKING:
    from gitcp.git.objects import Objects
    from gitcp.git.repo import Repository

STREAM_ABOVE = 8 << 20
"""Files larger than this many bytes are streamed instead of read into memory."""

CONVERT_UP_TO = 64 << 20
"""Files up to this many bytes are read into memory if git would convert them."""

SEED_FROM = 200
"""From this number of files on, reading blob sizes from git is cheaper than reading the files."""

SEGMENT_ABOVE = 1 << 20
"""Files larger than this many bytes that are only appended to are stored as segments."""

LFS = ("", False, "", True)

T = TypeVar("T")


class _Shorter(Exception):
    """A file has fewer bytes than it had."""


class WrittenFile(NamedTuple):
    """A file that this process wrote: its status just after it got its name, the blob that it was
    written from, and the bytes of both if they are the same and in memory.
    """

    status: os.stat_result
    oid: Oid
    content: bytes | None

    def is_still(self, status: os.stat_result) -> bool:
        """Return whether a file with this status has the bytes that were written.

        The rename gave it its ctime. A write in that same clock tick shows only in the mtime, so
        the file must have been written in an earlier one.
        """
        own = self.status
        return own.st_mtime_ns == status.st_mtime_ns < own.st_ctime_ns and (
            stamp_of(own) == stamp_of(status)
        )


class Job:
    """A file to capture: its location and lstat result. `slots` are its index entries, () if
    untracked; `known` is what was captured of it last. `copy` is its content, if it was copied.
    """

    __slots__ = ("attributes", "copy", "known", "name", "record", "slots", "status")

    def __init__(
        self,
        record: ScannedDirectory,
        name: bytes,
        status: os.stat_result,
        slots: tuple[Slot, ...],
        known: FileRecord | None,
    ) -> None:
        self.record = record
        self.name = name
        self.status = status
        self.slots = slots
        self.known = known
        self.copy: BinaryIO | None = None
        self.attributes: tuple[str, ...] | None = known.attributes if known else None

    @property
    def path(self) -> bytes:
        """Return the path relative to the working tree."""
        return self.record.below(self.name)

    @property
    def indexed(self) -> bytes | None:
        """Return the blob id in the index, raw; None if untracked or in conflict."""
        return self.slots[0][1] if self.slots and not self.slots[0][2] & STAGE else None


class Blobs:
    """Captures files into the object store. `index` is passed if this scan read it with its stat
    data. `segmented` are files to store as segments if they are large, and of those
    `promised` the caller says that they were only appended to. `trusted` returns whether all that a
    remembered file needs is stored. `has_new_links` tells whether a file got a name more; `written`
    are files that this process has just written. `unlocked` are databases whose locks another
    program kept.
    """

    def __init__(
        self,
        repo: Repository,
        objects: Objects,
        hints: ConversionHints,
        *,
        index: Index | None,
        file_mode: bool,
        symlinks: bool,
        started: int,
        segmented: frozenset[bytes],
        promised: frozenset[bytes],
        trusted: Callable[[FileRecord], bool],
        written: Mapping[bytes, WrittenFile] = EMPTY,
    ) -> None:
        self._repo = repo
        self._written = written
        self._objects = objects
        self._hints = hints
        self._index = index
        self._file_mode = file_mode
        self._symlinks = symlinks
        self._started = started
        self._segmented = segmented
        self._promised = promised
        self._trusted = trusted
        self._root = os.fsencode(repo.root) + b"/"
        self._advance: progress.Advance = progress.ignore
        self.has_new_links = False
        self.unlocked: list[Unlocked] = []
        self._waiting = sqlite_files.Waiting()

    def mode(self, st_mode: int, slots: tuple[Slot, ...]) -> int:
        """Return the file's mode in a tree. Without executable bits or symbolic links in the file
        system, the index decides: a text file with its target stands for a link.
        """
        mode = git_mode(st_mode)
        if not stat.S_ISREG(st_mode):
            return mode
        indexed = slots[0][0] if slots else 0
        # Checkpoints and published branches turned such a link into a text file.
        if indexed == SYMLINK and not self._symlinks:
            return SYMLINK
        if self._file_mode:
            return mode
        return indexed if stat.S_ISREG(indexed) else git_mode(stat.S_IFREG)

    def capture(self, jobs: Iterable[Job]) -> None:
        """Capture every file: add it to its record, or the reason why it was skipped. Raises
        DiskFull, GitFailed.
        """
        jobs = [job for job in jobs if not self._capture_written(job)]
        databases, jobs = self._split(jobs)
        self._capture_all(list(self._unproven(jobs)))
        for (_, name), members in databases.items():
            self._capture_database(name, members)

    def _capture_all(self, unproven: Sequence[Job]) -> None:
        total = sum(job.status.st_size for job in unproven)
        with progress.task("storing files", progress.BYTES, total) as self._advance:
            suspects = [
                job for job in unproven if not self._try_capture(job, self._capture_unconverted)
            ]
            for job in self._with_attributes(suspects):
                self._try_capture(job, self._capture_converted)

    def _capture_written(self, job: Job) -> bool:
        """Capture a file by what was written, if nobody changed it since and git would store these
        bytes; return whether it was captured.
        """
        written = self._written.get(job.path) if self._written else None
        if written is None or written.content is None or not written.is_still(job.status):
            return False
        if self._hints.may_convert(written.content):
            return False
        if not self._objects.freshener.freshen(written.oid):
            return False
        self._record(job, job.status, bytes.fromhex(written.oid))
        return True

    # ------------------------------------------------------------ databases

    def _split(self, jobs: list[Job]) -> tuple[dict[tuple[bytes, bytes], list[Job]], list[Job]]:
        """Return the files of SQLite databases, by the path of the directory and the name of the
        database, and the other files.
        """
        databases: dict[tuple[bytes, bytes], list[Job]] = {}
        others = []
        named = {(job.record.path, job.name) for job in jobs}
        for job in jobs:
            name = self._database(job, named)
            if name is None:
                others.append(job)
            else:
                databases.setdefault((job.record.path, name), []).append(job)
        return databases, others

    def _database(self, job: Job, named: Container[tuple[bytes, bytes]]) -> bytes | None:
        """Return the name of the captured database that a file belongs to, or is."""
        if not stat.S_ISREG(job.status.st_mode):
            return None
        record, name = job.record, sqlite_files.database_of(job.name)
        if name is not None and (name in record.files or (record.path, name) in named):
            path = self._root + record.below(name)
            return None if sqlite_files.size_of_database(path) is None else name
        size = job.status.st_size
        if not size or size % sqlite_files.PAGE:
            return None
        is_database = sqlite_files.size_of_database(self._root + job.path) is not None
        return job.name if is_database else None

    def _capture_database(self, name: bytes, jobs: list[Job]) -> None:
        """Capture the files of a database as they are at one moment: those to capture, and others
        that changed, came or went since they were looked at.
        """
        record, wanted = jobs[0].record, {job.name: job for job in jobs}
        files = {each: name + each for each in sqlite_locks.MEMBERS}
        known = {
            each: record.files[file].stamp
            for each, file in files.items()
            if file in record.files and file not in wanted and record.files[file].settled
        }
        path = self._root + record.below(name)
        try:
            with sqlite_files.copied(path, known, self._waiting) as (copies, holder):
                for each, file in files.items():
                    self._capture_member(record, file, wanted.get(file), copies.get(each))
        except FileNotFoundError:
            record.stamp = UNSETTLED
            for job in jobs:
                record.files.pop(job.name, None)
            return
        except OSError as error:
            why = reason(error, record.below(name)) if error.errno else str(error)
            for job in jobs:
                record.skip(job.name, SkipReason.UNREADABLE, why)
                record.watched[job.name] = UNSETTLED
            return
        if holder:
            for file in files.values():
                if file in record.files:  # to be captured again
                    record.files[file] = record.files[file]._replace(settled=False)
            self.unlocked.append(Unlocked(record.below(name), holder))

    def _capture_member(
        self,
        record: ScannedDirectory,
        name: bytes,
        job: Job | None,
        copy: sqlite_files.Copied | None,
    ) -> None:
        if copy is None:
            if record.files.pop(name, None) is not None or job is not None:
                record.stamp = UNSETTLED
            return
        if copy.content is None:
            return
        if job is None:
            slots = record.folder.files.get(name, ())
            job = Job(record, name, copy.status, slots, record.files.get(name))
        job.status, job.copy = copy.status, copy.content
        self._capture_all([job])
        job.copy = None

    # ------------------------------------------------------------ known from the index

    def _unproven(self, jobs: list[Job]) -> Iterator[Job]:
        """Capture the files whose blob the index proves, and yield the others."""
        proven = [job for job in jobs if self._proves(job)]
        if len(proven) < SEED_FROM or not self._may_seed():
            yield from jobs
            return
        sizes = self._blob_sizes({job.slots[0][1].hex() for job in proven})
        # Its size must be that of the file, for attributes may have been others when git made the
        # blob.
        seeds = [job for job in proven if sizes.get(job.slots[0][1].hex()) == job.status.st_size]
        if self._hints.may_convert_any():
            seeds = [job for job in self._with_attributes(seeds) if self._is_unconverted(job)]
        for job in seeds:
            self._record(job, job.status, job.slots[0][1])
        done = set(map(id, seeds))
        yield from (job for job in jobs if id(job) not in done)

    def _proves(self, job: Job) -> bool:
        if (
            self._index is None
            or len(job.slots) != 1
            or not self._index.proves(job.slots[0], job.status)
        ):
            return False
        return not self._objects.freshener.is_damaged(Oid(job.slots[0][1].hex()))

    def _blob_sizes(self, names: set[str]) -> dict[str, int]:
        """Return the sizes of those of these objects that are local. Others are not requested: git
        would fetch them.
        """
        from gitcp.git.promised import is_partial  # only where many files are new

        if is_partial(self._repo):
            names = {name for name in names if self._objects.reader.exists(Oid(name))}
        output = self._repo.git(
            "cat-file", "--batch-check", "--buffer", input="\n".join(sorted(names)).encode() + b"\n"
        )
        words = (line.split(" ") for line in output.decode("ascii").splitlines())
        return {word[0]: int(word[2]) for word in words if len(word) == 3}

    def _is_unconverted(self, job: Job) -> bool:
        """Return whether git would store and check out this file unchanged, given a blob of its
        size.
        """
        from gitcp.worktree.convert import rule_of

        if job.attributes is None:
            return True  # a symbolic link
        attributes = Attributes._make(job.attributes)
        rule = rule_of(attributes, self._repo.config)
        # the indexed blob may be older than the attribute
        is_text = rule.text and not rule.auto
        return not (is_text or rule.crlf or rule.ident or rule.encoding or attributes.driver)

    def _may_seed(self) -> bool:
        """Return whether no filter but LFS is configured: one could produce a blob of equal
        size.
        """
        keys = self._repo.config
        return not any(
            key.startswith("filter.") and not key.startswith("filter.lfs.") for key in keys
        )

    # ------------------------------------------------------------ read

    def _read(self, job: Job) -> tuple[bytes, os.stat_result]:
        if job.copy is None:
            return read(self._root + job.path, job.status)
        job.copy.seek(0)
        return job.copy.read(), job.status

    def _consume(
        self, job: Job, take: Callable[[int, os.stat_result], T | None]
    ) -> tuple[T, os.stat_result]:
        if job.copy is None:
            return consume(self._root + job.path, job.status, take)
        os.lseek(job.copy.fileno(), 0, os.SEEK_SET)
        result = take(job.copy.fileno(), job.status)
        if result is None:
            raise Unstable
        return result, job.status

    def _try_capture(self, job: Job, capture: Callable[[Job], bool]) -> bool:
        """Return whether the file was handled: captured, or skipped with a reason."""
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

    def _capture_unconverted(self, job: Job) -> bool:
        """Capture the file if nothing could convert it; return whether it was."""
        path = self._root + job.path
        if stat.S_ISLNK(job.status.st_mode):
            return self._capture_link(job, path)
        is_large = job.status.st_size > SEGMENT_ABOVE and job.copy is None
        if is_large and not job.slots and job.path in self._segmented:
            return self._capture_segments(job, path)
        is_link = self._stands_for_link(job)
        if job.status.st_size > STREAM_ABOVE:
            return (is_link or not self._hints.may_convert_any()) and self._stream(job)
        data, status = self._read(job)
        if not is_link and self._hints.may_convert(data):
            return False
        self._record(job, status, bytes.fromhex(self._objects.writer.write_blob(data)))
        self._advance(len(data))
        return True

    def _stands_for_link(self, job: Job) -> bool:
        is_file = stat.S_ISREG(job.status.st_mode)
        return is_file and self.mode(job.status.st_mode, job.slots) == SYMLINK

    def _capture_link(self, job: Job, path: bytes) -> bool:
        target = os.readlink(path)
        status = os.lstat(path)
        if not stat.S_ISLNK(status.st_mode) or status.st_ino != job.status.st_ino:
            raise Unstable
        self._record(job, status, bytes.fromhex(self._objects.writer.write_blob(target)))
        return True

    def _capture_segments(self, job: Job, path: bytes) -> bool:
        """Capture a file as segments. All of it is read, unless the caller promises that it was
        only appended to and it can be what it was and more: then only the end is.
        """
        known = job.known if job.path in self._promised else None
        (oid, was_read), status = consume(
            path, job.status, lambda file, now: self._store(file, now, known)
        )
        self._record(job, status, bytes.fromhex(oid), SEGMENTS)
        if not was_read:
            # The promise is this save's. Any other one reads what nobody has looked at: an edit in
            # place was in no checkpoint otherwise, and a restore destroyed it.
            record = job.record
            record.files[job.name] = record.files[job.name]._replace(settled=False)
        self._advance(status.st_size)
        return True

    def _store(
        self, file: int, status: os.stat_result, known: FileRecord | None
    ) -> tuple[Oid, bool] | None:
        """Store the segments of an open file, and return whether all of it was read; None if it was
        cut short meanwhile. `known` is what was captured of it, if it was only appended to since.
        """
        from gitcp.git import segmented  # few programs name such files

        earlier = None
        if known and known.how == SEGMENTS and known.inode == status.st_ino:
            earlier = Oid(known.oid.hex()) if self._trusted(known) else None

        def read(start: int, size: int) -> bytes:
            data = os.pread(file, size, start)
            if len(data) != size:
                raise _Shorter
            return data

        try:
            return segmented.store(self._objects, read, status.st_size, earlier)
        except _Shorter:
            return None

    def _stream(self, job: Job, how: str | None = None) -> bool:
        objects = self._objects
        oid, status = self._consume(
            job,
            lambda file, stat_result: objects.writer.write_stream(
                stat_result.st_size, self._with_progress(blocks(file))
            ),
        )
        self._record(
            job, status, bytes.fromhex(oid), None if bytes.fromhex(oid) == job.indexed else how
        )
        return True

    def _with_progress(self, content: Iterable[bytes]) -> Iterator[bytes]:
        for block in content:
            yield block
            self._advance(len(block))

    def _record(self, job: Job, status: os.stat_result, oid: bytes, how: object = None) -> None:
        is_linked = status.st_nlink > 1 and stat.S_ISREG(status.st_mode)
        if is_linked and not (job.known and job.known.linked):
            self.has_new_links = True
        if self._stands_for_link(job):
            how = RAW
        job.record.files[job.name] = FileRecord(
            self.mode(status.st_mode, job.slots),
            oid,
            status.st_mode,
            status.st_size,
            status.st_ino,
            status.st_ctime_ns,
            settled(status.st_ctime_ns, self._started),
            how,
            job.attributes,
            is_linked,
        )

    # ------------------------------------------------------------ converted

    def _with_attributes(self, jobs: list[Job]) -> list[Job]:
        unknown = [
            job for job in jobs if job.attributes is None and not stat.S_ISLNK(job.status.st_mode)
        ]
        if unknown:
            for job, attributes in zip(
                unknown, self._hints.ask([job.path for job in unknown]), strict=True
            ):
                job.attributes = tuple(attributes)
        return jobs

    def _capture_converted(self, job: Job) -> bool:
        from gitcp.worktree.convert import (  # most scans convert nothing
            ConversionRule,
            rule_of,
            store,
        )

        attributes = Attributes._make(job.attributes or ())
        rule = rule_of(attributes, self._repo.config)
        if attributes.driver == "lfs" and not job.status.st_size:
            rule = ConversionRule()  # LFS does not convert empty files
        elif self._is_filtered(attributes.driver):
            return (attributes.driver == "lfs" and self._lfs_pointer(job)) or self._capture_raw(job)
        if rule == ConversionRule() and job.status.st_size > STREAM_ABOVE:
            return self._stream(job)
        if job.status.st_size > CONVERT_UP_TO:
            return self._stream(job, RAW)
        data, status = self._read(job)
        crlf, object_format = lambda: self._is_indexed_crlf(job), self._repo.object_format
        stored = store(job.path, data, rule, crlf, object_format)
        blob, conversion = stored or (data, None)
        how = (
            None
            if conversion is None
            else (conversion.eol, conversion.ident, conversion.encoding, False)
        )
        oid = bytes.fromhex(self._objects.writer.write_blob(blob))
        self._record(job, status, oid, how if stored else RAW)
        return True

    def _is_filtered(self, driver: str) -> bool:
        """Return whether git would run this filter. An unconfigured filter does nothing; LFS may be
        configured elsewhere.
        """
        names = (f"filter.{driver}.{key}" for key in ("clean", "smudge", "process"))
        return bool(driver) and (
            driver == "lfs" or any(name in self._repo.config for name in names)
        )

    def _capture_raw(self, job: Job) -> bool:
        if job.status.st_size > STREAM_ABOVE:
            return self._stream(job, RAW)
        data, status = self._read(job)
        oid = bytes.fromhex(self._objects.writer.write_blob(data))
        self._record(job, status, oid, None if oid == job.indexed else RAW)
        return True

    def _is_indexed_crlf(self, job: Job) -> bool:
        from gitcp.worktree.convert import has_crlf

        blob = self._blob(job.indexed)
        return blob is not None and has_crlf(blob)

    def _lfs_pointer(self, job: Job) -> bool:
        """Capture an LFS file as its pointer, if the pointer is known for this path and the local
        LFS store has the content. Return whether it was captured.
        """
        from gitcp.worktree.convert import lfs_object, pointer_of

        pointers = {}
        for oid in filter(None, (job.indexed, self._in_head(job.path))):
            pointer = pointer_of(self._blob(oid) or b"")
            if pointer and pointer[1] == job.status.st_size:
                pointers[pointer[0]] = oid
        lfs_dir = self._repo.common_dir / "lfs"
        if not any(
            _is_file_of(lfs_object(lfs_dir, digest), job.status.st_size) for digest in pointers
        ):
            return False
        digest, status = self._consume(job, _sha256)
        if digest not in pointers or not _is_file_of(lfs_object(lfs_dir, digest), status.st_size):
            return False
        self._record(job, status, pointers[digest], LFS)
        return True

    def _in_head(self, path: bytes) -> bytes | None:
        tree = self._head_tree
        entry = lookup(self._objects.reader, tree, path) if tree else None
        return bytes.fromhex(entry.oid) if entry and entry.mode != SYMLINK else None

    @cached_property
    def _head_tree(self) -> Oid | None:
        commit = self._repo.head().commit
        try:
            return self._objects.reader.tree_of(commit) if commit else None
        except StoreDamaged:
            return None

    def _blob(self, oid: bytes | None) -> bytes | None:
        try:
            return self._objects.reader.read_blob(Oid(oid.hex())) if oid else None
        except StoreDamaged:
            return None  # missing, or a submodule's commit


def _is_file_of(path: os.PathLike[str], size: int) -> bool:
    try:
        status = os.stat(path)
    except OSError:
        return False
    return stat.S_ISREG(status.st_mode) and status.st_size == size


def _sha256(descriptor: int, _: os.stat_result) -> str:
    import hashlib  # only for LFS files

    digest = hashlib.sha256()
    for block in blocks(descriptor):
        digest.update(block)
    return digest.hexdigest()
