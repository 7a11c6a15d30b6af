"""A write-ahead log: one file that is synced for each save, before packs and refs are synced
together.

A process that saves many times a minute writes a small pack each time and moves a ref. Syncing all
of that takes five disk flushes. So the same bytes are first appended to `<git dir>/gitcp/ahead`,
and only that file is synced; then pack and ref are created, visible to everybody. What a power loss
destroys of them can be recreated. While the system runs they cannot be lost, and after enough saves
they are synced together (`settle`). After a power loss `settle` recreates them, which happens first
when the store is opened. Linux only: other systems do not identify a reboot.

A framework also writes things that need no checkpoint of their own at once. A `Write` has what it
is made of. Its `Done` is synced before the ref moves to the checkpoint that has it, and counts from
then on (gitcp.saving.recorded): whenever a process dies, each write is in exactly one place.

Records are at the start of the file, followed by zeros: overwriting syncs in half the time of
growing the file. Whoever appends locks the file for that moment. Threads of one process sync
together: one waits for the disk, and what the others have appended by then is synced with it.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cached_property, partial
from threading import Condition, Lock, Thread
from typing import TYPE_CHECKING, NamedTuple

from gitcp.errors import DiskFull, FormatTooNew, GitcpError, StoreDamaged
from gitcp.git.background import started
from gitcp.git.fsync import (
    FULL,
    make_own_directory,
    open_own,
    open_shared,
    read_own,
    replacing,
    sync_directory,
    write_all,
)
from gitcp.git.object_format import FULL_NAME, format_of
from gitcp.git.packs import SmallPack
from gitcp.model import Oid

if TYPE_CHECKING:
    from gitcp.git.repo import Repository

NAME = "ahead"
SETTLE_AFTER = 256
"""Records that are settled together. Most of their packs are joined and synced by then."""
LARGE_LOG = 4 << 20
SETTLE_LARGE_AFTER = 16
"""Records after which a log of more than LARGE_LOG bytes is settled. Not after each one: most of it
may be unfinished writes, which are kept.
"""
PREALLOCATED = 128 << 10
"""The file's size in bytes is a multiple of this, so that it rarely grows."""
START = b"gitcp-ahead "
BOOT = "/proc/sys/kernel/random/boot_id"
HEADER = re.compile(
    rb"gitcp-ahead 1 (\S+) (\S+) (%s|-) (%s) ([0-9+,]*) ([0-9a-f]{40})\n"
    % ((FULL_NAME.encode("ascii"),) * 2)
)
SECOND = re.compile(rb"gitcp-ahead 2 (\S+) (write|done) (\S+) ([0-9]+) ([0-9a-f]{40})\n")
OTHER = re.compile(rb"gitcp-ahead (?![12] )[0-9]+ ")


class Record(NamedTuple):
    """A ref moves from `old` to `new`, and these packs exist, as do those of earlier records.
    `boot` identifies the running system.
    """

    boot: str
    ref: str
    old: Oid | None
    new: Oid
    packs: tuple[SmallPack, ...]


class LoggedWrite(NamedTuple):
    """Something written to the session of `ref` that is in none of its checkpoints yet."""

    boot: str
    ref: str
    content: bytes

    @property
    def sum(self) -> bytes:
        """Return the SHA-1 of the content, in hex."""
        return hashlib.sha1(self.content, usedforsecurity=False).hexdigest().encode()


class Move(NamedTuple):
    """A ref moves from `old` to `new`; `writes` are in the new checkpoints, as soon as it has."""

    ref: str
    old: Oid | None
    new: Oid
    writes: tuple[LoggedWrite, ...] = ()


class Done(NamedTuple):
    """The writes to `ref` up to the last one with this SHA-1 are in its checkpoints, unless the ref
    is still at `old`: then whoever meant to move it died.
    """

    boot: str
    ref: str
    sum: bytes
    old: Oid | None


Entry = Record | LoggedWrite | Done


class UnfinishedBatch:
    """What is in no checkpoint yet, according to the entries added: `writes` by ref, and by ref the
    `Done` of which only the ref tells whether it counts.
    """

    def __init__(self) -> None:
        self.writes: dict[str, list[LoggedWrite]] = {}
        self.moving: dict[str, Done] = {}

    def add(self, entry: Entry) -> None:
        """Add the next entry. What moves a ref tells where it was before."""
        if isinstance(entry, LoggedWrite):
            self.writes.setdefault(entry.ref, []).append(entry)
            return
        self.moved(entry.ref, entry.old)
        if isinstance(entry, Done):
            self.moving[entry.ref] = entry

    def moved(self, ref: str, current: Oid | None) -> None:
        """Remove the writes that are done if the ref is at `current`, after its last `Done`."""
        done = self.moving.pop(ref, None)
        if done is not None and done.old != current:
            writes = self.writes.get(ref, [])
            ends = [number for number, write in enumerate(writes, 1) if write.sum == done.sum]
            self.writes[ref] = writes[ends[-1] :] if ends else writes

    def resolve(self, repo: Repository, ref: str) -> None:
        """Read the ref: it shows whether its last move happened. An unreadable one did not move."""
        done = self.moving.get(ref)
        if done is not None:
            with suppress(StoreDamaged):
                current = repo.refs.read(ref)
                if current != done.old:
                    self.moved(ref, current)


def running() -> str | None:
    """Return the id of this boot of the system, None if it has none."""
    try:
        with open(BOOT, encoding="ascii") as file:
            return file.read().strip() or None
    except OSError:
        return None


class WriteAheadLog:
    """The log of one repository, for any thread. Who moves a ref holds the store's lock.

    To change the file, lock it first, then `_reading`, which guards what this process has read.
    """

    def __init__(self, repo: Repository) -> None:
        self._repo = repo
        self._common = repo.common_dir
        self._path = repo.common_dir / "gitcp" / NAME
        self._reading = Lock()
        self._syncing = Condition()
        self._is_syncing = False
        self._appended = self._synced = self._failed = 0
        self._thread: Thread | None = None
        self._forget()

    @cached_property
    def _boot(self) -> str:
        """Return the boot id, which does not change while a process runs."""
        return running() or "-"

    def has_earlier(self) -> bool:
        """Return whether there are records from an earlier boot."""
        with suppress(OSError), open(open_own(self._path), "rb") as file:
            line = file.readline(1 << 10)
            header = HEADER.match(line) or SECOND.match(line)
            return header is not None and header[1].decode("ascii", "replace") != running()
        return False

    def has_records(self) -> bool:
        """Return whether there is something to settle."""
        with suppress(OSError):
            return self._path.stat().st_size > 0
        return False

    def append(self, moves: Sequence[Move], packs: Iterable[SmallPack] = ()) -> None:
        """Make the packs and these moves of refs survive a power loss, unless a ref is moved again
        later. The caller has locked the refs, which are where they are moved from.

        Raises DiskFull or GitcpError; then nothing is recorded.
        """
        entries: list[Entry] = []
        for ref, old, new, writes in moves:
            first_packs = tuple(packs) if not entries else ()  # what follows needs them, too
            entries.append(Record(self._boot, ref, old, new, first_packs))
            if writes:
                entries.append(Done(self._boot, ref, writes[-1].sum, old))
        self._add(*entries)

    def write(self, ref: str, content: bytes) -> None:
        """Make something that was written to a session survive a power loss, until a checkpoint has
        it. Needs no lock of the store. Raises DiskFull or GitcpError; then nothing is recorded.
        """
        self._add(LoggedWrite(self._boot, ref, content))

    def writes(self, ref: str, *, again: bool = True) -> tuple[LoggedWrite, ...]:
        """Return what was written to a session and is in no checkpoint yet, in order. Unless it is
        read `again`, what other processes wrote last may be missing.
        """
        with self._reading:
            if again or not self._line:  # somebody in this process may just have settled it
                self._refresh()
            self._unfinished.resolve(self._repo, ref)
            return tuple(self._unfinished.writes.get(ref, ()))

    def all_writes(self) -> dict[str, list[LoggedWrite]]:
        """Return the same of all sessions, by ref."""
        with self._reading:
            self._refresh()
            for ref in [*self._unfinished.moving]:
                self._unfinished.resolve(self._repo, ref)
            return {ref: [*writes] for ref, writes in self._unfinished.writes.items() if writes}

    def _refresh(self) -> None:
        """Read what follows, for a reader."""
        try:
            descriptor = open_own(self._path)
        except FileNotFoundError:
            self._forget()
            return
        except OSError as error:
            raise GitcpError(f"{self._path} cannot be read: {error.strerror}") from None
        try:
            self._catch_up(descriptor)
        finally:
            os.close(descriptor)

    def settle_if_due(self) -> None:
        """Start a thread that settles, if it is time and none does. The caller holds the store's
        lock, so that everything recorded until now is in place. What is recorded while the thread
        works may not be.
        """
        is_due = self._count >= (SETTLE_AFTER if self._end < LARGE_LOG else SETTLE_LARGE_AFTER)
        if is_due and (self._thread is None or not self._thread.is_alive()):
            with suppress(OSError):  # it is tried again
                # Read here, under the lock: a thread that read later took a record whose pack was
                # not there yet, and a power cut lost that checkpoint.
                self._thread = started(partial(self._settle_later, read_own(self._path)))

    def _settle_later(self, data: bytes) -> None:
        with suppress(GitcpError, OSError):  # it is tried again
            self._settle(data)

    def settle(self) -> None:
        """Make everything recorded durable in its own files, then remove it from the log. Writes
        that are in no checkpoint stay.

        What an earlier boot recorded needs the store's lock. Other refs may move meanwhile: what
        is recorded then stays.
        """
        try:
            if not self._path.stat().st_size:
                return
        except FileNotFoundError:
            return
        self._settle(read_own(self._path))

    def _settle(self, data: bytes) -> None:
        parsed = list(_parsed(data))
        entries = [entry for entry, _, _ in parsed]
        records = [entry for entry in entries if isinstance(entry, Record)]
        if records:
            self._make_durable(records, running())
        self._remove(entries, data[: sum(size for _, _, size in parsed)])

    def _make_durable(self, records: Sequence[Record], now: str | None) -> None:
        for record in records:
            for pack in record.packs:
                pack.ensure(self._common / "objects" / "pack", again=record.boot != now)
        sync_directory(self._common / "objects" / "pack")
        for ref in {record.ref for record in records}:
            self._settle_ref([record for record in records if record.ref == ref], now)

    def _settle_ref(self, records: list[Record], now: str | None) -> None:
        last = records[-1]
        if last.boot == now:  # the system has run all the time: it is where it was moved to
            self._repo.refs.sync([last.ref])
            return
        known = {oid for record in records for oid in (record.old, record.new)}
        try:
            current = self._repo.refs.read(last.ref)
        except StoreDamaged:  # its bytes were lost, its name was not: whatever is packed is older
            # A ref that a power cut had emptied was not recreated if its session had been saved for
            # longer: the session was lost.
            (self._common / last.ref).unlink()
            current = self._repo.refs.read(last.ref)
            known.add(current)
        if current in known:
            self._repo.refs.update(last.ref, last.new, current)

    def _remove(self, entries: list[Entry], settled: bytes) -> None:
        """Remove the entries at the start of the file, which are the bytes `settled`, except writes
        that are in no checkpoint. What was appended since stays.
        """
        with self._locked() as descriptor:
            data = os.pread(descriptor, os.fstat(descriptor).st_size, 0)
            if not data.startswith(settled):
                return  # another process has settled it
            later = list(decode(data[len(settled) :]))
            rest = [*self._unfinished_of(entries, later), *later]
            rest = [entry._replace(boot=self._boot) for entry in rest]
            if not rest or rest != [*entries, *later]:
                self._replace(descriptor, rest)

    def _unfinished_of(self, entries: list[Entry], later: list[Entry]) -> list[Entry]:
        """Return what remains of `entries`: writes that are not done, and what may still be."""
        unfinished = UnfinishedBatch()
        for entry in (*entries, *later):
            unfinished.add(entry)
        for ref in {entry.ref for entry in entries}:
            unfinished.resolve(self._repo, ref)
        left = {write for writes in unfinished.writes.values() for write in writes}
        left_or_moving = left | {*unfinished.moving.values()}
        return [entry for entry in entries if entry in left_or_moving]

    def _replace(self, descriptor: int, entries: list[Entry]) -> None:
        if entries:
            with replacing(self._path) as new:
                write_all(new, b"".join(map(encode, entries)))
        else:
            os.ftruncate(descriptor, 0)
            os.fsync(descriptor)
        with self._reading:  # readers do not wait for the disk
            self._forget()

    # ------------------------------------------------------------ the file

    def _add(self, *entries: Entry) -> None:
        data = b"".join(map(encode, entries))
        try:
            with self._locked() as descriptor, self._reading:
                self._catch_up(descriptor, cut=True)
                start = self._end
                _append(descriptor, start, data)
                self._read(data)
                self._appended = number = self._appended + 1
            self._sync(number, start, start + len(data))
        except OSError as error:
            if error.errno in FULL:
                raise DiskFull(
                    "the disk is full: no checkpoint was made",
                    hint="free some space and save again",
                ) from None
            raise GitcpError(
                f"{self._path} cannot be written: {error.strerror}. No checkpoint was made"
            ) from None

    def _sync(self, number: int, start: int, end: int) -> None:
        """Make the append with this number durable, and with it every one of this process before
        and since. Who waited meanwhile finds that done.
        """
        with self._syncing:
            self._syncing.wait_for(lambda: not self._is_syncing or number <= self._synced)
            if self._failed < number <= self._synced:
                return
            self._is_syncing, last = True, self._appended
        try:
            if number <= self._failed:  # the system reports that only once
                raise OSError(errno.EIO, os.strerror(errno.EIO))
            self._sync_file()
        except OSError:
            self._failed = max(self._failed, last)
            self._take_back(start, end)
            raise
        finally:
            with self._syncing:
                self._is_syncing, self._synced = False, last
                self._syncing.notify_all()

    def _sync_file(self) -> None:
        descriptor = os.open(self._path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
        try:
            os.fdatasync(descriptor)
        finally:
            os.close(descriptor)

    def _take_back(self, start: int, end: int) -> None:
        """Remove what was appended last and could not be synced, unless more follows."""
        with suppress(OSError), self._locked() as descriptor, self._reading:
            self._catch_up(descriptor)
            if self._end == end:
                os.ftruncate(descriptor, start)
                self._forget()

    def _forget(self) -> None:
        """Nothing of the file was read."""
        self._end = self._count = self._last_start = 0
        self._line = b""
        self._unfinished = UnfinishedBatch()

    def _catch_up(self, descriptor: int, *, cut: bool = False) -> None:
        """Read what follows. With `cut`, truncate what a crash left incomplete."""
        if os.pread(descriptor, len(self._line), self._last_start) != self._line:
            self._forget()  # somebody has settled it
        if not os.pread(descriptor, len(START), self._end).strip(b"\0"):
            return
        data = os.pread(descriptor, os.fstat(descriptor).st_size - self._end, self._end)
        rest = data[self._read(data) :]
        if cut and rest.strip(b"\0"):
            os.ftruncate(descriptor, self._end)

    def _read(self, data: bytes) -> int:
        """Take note of the entries in the bytes that follow. Return how many bytes they have."""
        first = self._end
        for entry, line, size in _parsed(data):
            self._last_start, self._line = self._end, line
            self._end += size
            self._count += isinstance(entry, Record)
            self._unfinished.add(entry)
        return self._end - first

    @contextmanager
    def _locked(self) -> Iterator[int]:
        """Open the file for writing, and lock it against other processes."""
        while True:
            descriptor = self._open()
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX)
                if os.path.samestat(os.fstat(descriptor), os.stat(self._path)):
                    yield descriptor
                    return
            finally:
                os.close(descriptor)

    def _open(self) -> int:
        try:
            return os.open(self._path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
        except FileNotFoundError:
            make_own_directory(self._path.parent)
            descriptor = open_shared(self._path, os.O_RDWR)
            sync_directory(self._path.parent)
            sync_directory(self._path.parent.parent)
            return descriptor


def decode(data: bytes) -> Iterator[Entry]:
    """Yield the entries in a file, up to the first incomplete one. Raises FormatTooNew."""
    return (entry for entry, _, _ in _parsed(data))


def _parsed(data: bytes) -> Iterator[tuple[Entry, bytes, int]]:
    """Yield each entry with its first line and its size in bytes."""
    offset = 0
    while (parsed := _record(data, offset) or _write(data, offset)) is not None:
        yield parsed
        offset += parsed[2]
    if OTHER.match(data, offset):
        raise FormatTooNew("a newer gitcp has written here last")


def _record(data: bytes, offset: int) -> tuple[Entry, bytes, int] | None:
    header = HEADER.match(data, offset)
    if header is None:
        return None
    sizes = [int(size) for size in re.split(rb"[+,]", header[5]) if size]
    start, end = header.end(), header.end() + sum(sizes)
    if not _is_whole(data, header, header[6], end):
        return None
    parts = []
    for size in sizes:
        parts.append(data[start : start + size])
        start += size
    boot, ref, old, new = (
        header[number].decode("utf-8", "surrogateescape") for number in range(1, 5)
    )
    raw = format_of(new).raw
    pairs = zip(parts[::2], parts[1::2], strict=True)
    packs = tuple(SmallPack(*pair, raw) for pair in pairs)
    record = Record(boot, ref, None if old == "-" else Oid(old), Oid(new), packs)
    return record, header[0], end - offset


def _write(data: bytes, offset: int) -> tuple[Entry, bytes, int] | None:
    header = SECOND.match(data, offset)
    if header is None:
        return None
    end = header.end() + int(header[4])
    if not _is_whole(data, header, header[5], end):
        return None
    boot, ref = (header[number].decode("utf-8", "surrogateescape") for number in (1, 3))
    entry = _entry(boot, ref, header[2], data[header.end() : end])
    return (entry, header[0], end - offset) if entry else None


def _entry(boot: str, ref: str, kind: bytes, body: bytes) -> LoggedWrite | Done | None:
    if kind == b"write":
        return LoggedWrite(boot, ref, body)
    sum, _, old = body.decode("ascii", "replace").partition(" ")
    is_valid = old == "-" or re.fullmatch(FULL_NAME, old)
    return Done(boot, ref, sum.encode(), None if old == "-" else Oid(old)) if is_valid else None


def _is_whole(data: bytes, header: re.Match[bytes], checksum: bytes, end: int) -> bool:
    if len(data) < end:
        return False
    head = header[0][: -len(checksum) - 1]
    return _checksum(head, data[header.end() : end]) == checksum


def encode(entry: Entry) -> bytes:
    """Return an entry as it is stored: a header line with a checksum, then the packs, what was
    written, or the SHA-1.
    """
    if isinstance(entry, Record):
        sizes = ",".join(f"{len(pack.content)}+{len(pack.listing)}" for pack in entry.packs)
        move = f"{entry.ref} {entry.old or '-'} {entry.new}"
        head = f"gitcp-ahead 1 {entry.boot} {move} {sizes} ".encode()
        body = b"".join(part for pack in entry.packs for part in (pack.content, pack.listing))
    else:
        kind, body = (
            ("write", entry.content)
            if isinstance(entry, LoggedWrite)
            else ("done", b"%s %s" % (entry.sum, (entry.old or "-").encode("ascii")))
        )
        head = f"gitcp-ahead 2 {entry.boot} {kind} {entry.ref} {len(body)} ".encode()
    return head + _checksum(head, body) + b"\n" + body


def _append(descriptor: int, offset: int, data: bytes) -> None:
    end = offset + len(data)
    try:
        if end > os.fstat(descriptor).st_size:
            data += bytes(-end % PREALLOCATED)
        written = os.pwrite(descriptor, data, offset)
        while written < len(data):
            written += os.pwrite(descriptor, data[written:], offset + written)
    except OSError:
        with suppress(OSError):
            os.ftruncate(descriptor, offset)
        raise


def _checksum(head: bytes, body: bytes) -> bytes:
    digest = hashlib.sha1(head, usedforsecurity=False)
    digest.update(body)  # never joined: a large record would be held twice
    return digest.hexdigest().encode()
