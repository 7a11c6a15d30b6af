"""A write-ahead log: one file that is synced for each save, before packs and refs are synced
together.

A process that saves many times a minute writes a small pack each time and moves a ref. Syncing all
of that takes five disk flushes. So the same bytes are first appended to `<git dir>/gitcp/ahead`,
and only that file is synced; then pack and ref are created, visible to everybody. What a power loss
destroys of them can be recreated. While the system runs they cannot be lost, and after enough saves
they are synced together (`settle`). After a power loss `settle` recreates them, which happens first
when the store is opened. Linux only: other systems do not identify a reboot.

Records are at the start of the file, followed by zeros: overwriting syncs in half the time of
growing the file.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from gitcp.errors import DiskFull, FormatTooNew, GitcpError, StoreDamaged
from gitcp.git.fsync import FULL, open_own, open_shared, read_own, sync_directory
from gitcp.git.object_format import FULL_NAME, format_of
from gitcp.git.packs import SmallPack
from gitcp.model import Oid

if TYPE_CHECKING:
    from gitcp.git.repo import Repository

NAME = "ahead"
MOST = 64
"""Records settled together; by then most packs were joined and synced."""
ROOM = 128 << 10
"""The file's size in bytes is a multiple of this, so that it rarely grows."""
START = b"gitcp-ahead "
BOOT = "/proc/sys/kernel/random/boot_id"
HEADER = re.compile(
    rb"gitcp-ahead 1 (\S+) (\S+) (%s|-) (%s) ([0-9+,]*) ([0-9a-f]{40})\n"
    % ((FULL_NAME.encode("ascii"),) * 2)
)
OTHER = re.compile(rb"gitcp-ahead (?!1 )[0-9]+ ")


class Record(NamedTuple):
    """A ref moves from `old` to `new`, and these packs exist. `boot` identifies the running
    system.
    """

    boot: str
    ref: str
    old: Oid | None
    new: Oid
    packs: tuple[SmallPack, ...]


def running() -> str | None:
    """Return the id of this boot of the system, None if it has none."""
    try:
        with open(BOOT, encoding="ascii") as file:
            return file.read().strip() or None
    except OSError:
        return None


class WriteAheadLog:
    """The log of one repository. Writers and `settle` hold the store's lock."""

    def __init__(self, repo: Repository) -> None:
        self._repo = repo
        self._common = repo.common_dir
        self._path = repo.common_dir / "gitcp" / NAME
        self._remember(0, 0, b"")

    @cached_property
    def _boot(self) -> str:
        """Return the boot id, which does not change while a process runs."""
        return running() or "-"

    def has_earlier(self) -> bool:
        """Return whether there are records from an earlier boot."""
        with suppress(OSError), open(open_own(self._path), "rb") as file:
            header = HEADER.match(file.readline(1 << 10))
            return header is not None and header[1].decode("ascii", "replace") != running()
        return False

    def has_records(self) -> bool:
        """Return whether there is something to settle."""
        with suppress(OSError):
            return self._path.stat().st_size > 0
        return False

    def append(self, ref: str, old: Oid | None, new: Oid, packs: Iterable[SmallPack]) -> None:
        """Make the packs and the ref's move to `new` survive a power loss, unless the ref is moved
        again later.

        Raises DiskFull or GitcpError; then nothing is recorded.
        """
        data = encode(Record(self._boot, ref, old, new, tuple(packs)))
        try:
            descriptor = self._open()
            try:
                self._find_end(descriptor)
                _append(descriptor, self._end, data)
            finally:
                os.close(descriptor)
        except OSError as error:
            if error.errno in FULL:
                raise DiskFull(
                    "the disk is full: no checkpoint was made",
                    hint="free some space and save again",
                ) from None
            raise GitcpError(
                f"{self._path} cannot be written: {error.strerror}. No checkpoint was made"
            ) from None
        self._remember(self._end + len(data), self._count + 1, data)

    def is_due(self) -> bool:
        """Return whether it is time to settle."""
        return self._count >= MOST

    def settle(self) -> None:
        """Make everything recorded durable in its own files, then empty the log."""
        try:
            if not self._path.stat().st_size:
                return
        except FileNotFoundError:
            return
        records = list(decode(read_own(self._path)))
        now = running()
        for record in records:
            for pack in record.packs:
                pack.ensure(self._common / "objects" / "pack", again=record.boot != now)
        sync_directory(self._common / "objects" / "pack")
        for ref in {record.ref for record in records}:
            self._settle_ref([record for record in records if record.ref == ref], now)
        descriptor = self._open()
        try:
            os.ftruncate(descriptor, 0)
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        self._remember(0, 0, b"")

    def _settle_ref(self, records: list[Record], now: str | None) -> None:
        last = records[-1]
        if last.boot == now:  # the system has run all the time: it is where it was moved to
            self._repo.refs.sync([last.ref])
            return
        known = {oid for record in records for oid in (record.old, record.new)}
        try:
            current = self._repo.refs.read(last.ref)
        except StoreDamaged:  # its bytes were lost, its name was not: whatever is packed is older
            (self._common / last.ref).unlink()
            current = self._repo.refs.read(last.ref)
            known.add(current)
        if current in known:
            self._repo.refs.update(last.ref, last.new, current)

    def _remember(self, end: int, count: int, last: bytes) -> None:
        """Remember that the file has `count` records up to `end`, and the bytes of the last one."""
        self._end, self._count = end, count
        self._last_start, self._line = end - len(last), last.partition(b"\n")[0]

    def _find_end(self, descriptor: int) -> None:
        """Find the end of the records. One that a crash cut short is truncated."""
        size = os.fstat(descriptor).st_size
        if self._is_unchanged(descriptor, size):
            return
        data = os.pread(descriptor, size, 0)
        encoded = [encode(record) for record in decode(data)]
        self._remember(sum(map(len, encoded)), len(encoded), encoded[-1] if encoded else b"")
        if data[self._end :].strip(b"\0"):
            os.ftruncate(descriptor, self._end)

    def _is_unchanged(self, descriptor: int, size: int) -> bool:
        """Return whether no other process has written since: the last record is there, and none
        after it.
        """
        if not self._count:
            return not size
        after = os.pread(descriptor, len(START), self._end)
        return os.pread(
            descriptor, len(self._line), self._last_start
        ) == self._line and not after.strip(b"\0")

    def _open(self) -> int:
        try:
            return os.open(self._path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
        except FileNotFoundError:
            descriptor = open_shared(self._path, os.O_RDWR)
            sync_directory(self._path.parent)
            sync_directory(self._path.parent.parent)
            return descriptor


def decode(data: bytes) -> Iterator[Record]:
    """Yield the records in a file, up to the first incomplete one. Raises FormatTooNew."""
    offset = 0
    while (header := HEADER.match(data, offset)) is not None:
        sizes = [int(size) for size in re.split(rb"[+,]", header[5]) if size]
        end = header.end() + sum(sizes)
        if (
            len(data) < end
            or _checksum(data[offset : header.start(6)], data[header.end() : end]) != header[6]
        ):
            return
        parts, start = [], header.end()
        for size in sizes:
            parts.append(data[start : start + size])
            start += size
        boot, ref, old, new = (
            header[number].decode("utf-8", "surrogateescape") for number in range(1, 5)
        )
        raw = format_of(new).raw
        pairs = zip(parts[::2], parts[1::2], strict=True)
        packs = tuple(SmallPack(*pair, raw) for pair in pairs)
        yield Record(boot, ref, None if old == "-" else Oid(old), Oid(new), packs)
        offset = end
    if OTHER.match(data, offset):
        raise FormatTooNew(
            "a newer gitcp has written here last", hint="pip install --upgrade gitcp-checkpoints"
        )


def encode(record: Record) -> bytes:
    """Return a record as it is stored: a header line with a checksum, then the packs."""
    sizes = ",".join(f"{len(pack.content)}+{len(pack.listing)}" for pack in record.packs)
    move = f"{record.ref} {record.old or '-'} {record.new}"
    head = f"gitcp-ahead 1 {record.boot} {move} {sizes} ".encode()
    body = b"".join(part for pack in record.packs for part in (pack.content, pack.listing))
    return head + _checksum(head, body) + b"\n" + body


def _append(descriptor: int, offset: int, data: bytes) -> None:
    end = offset + len(data)
    try:
        if end > os.fstat(descriptor).st_size:
            data += bytes(-end % ROOM)
        written = os.pwrite(descriptor, data, offset)
        while written < len(data):
            written += os.pwrite(descriptor, data[written:], offset + written)
        os.fdatasync(descriptor)
    except OSError:
        with suppress(OSError):
            os.ftruncate(descriptor, offset)
        raise


def _checksum(head: bytes, body: bytes) -> bytes:
    digest = hashlib.sha1(head, usedforsecurity=False)
    digest.update(body)  # never joined: a large record would be held twice
    return digest.hexdigest().encode()
