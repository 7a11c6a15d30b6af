"""Packs: which objects the existing ones hold, and writing a new one in a stream.

A save of many new objects goes into one pack, since creating files is what costs. Reading out of one is done in
gitcp.git.unpack.
"""

from __future__ import annotations

import mmap
import os
import struct
import zlib
from bisect import bisect_left
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path

from gitcp.hashes import sha1
from gitcp.model import Oid
from gitcp.typed import BinaryIO

KINDS = {"commit": 1, "tree": 2, "blob": 3, "tag": 4}
LEVEL = 1
NAMES = 8 + 1024
"""Where the object names of an index begin: after its header and its fan-out."""

SMALLEST_INDEX = NAMES + 40
"""An index of no objects: its header, its fan-out and two checksums. One that was cut off is not looked into."""

SEARCHED = 256
"""So many names are searched byte by byte; above that, looking at a few of them is faster."""


class PackIndex:
    """The sorted object names of one pack (idx version 2)."""

    def __init__(self, path: Path) -> None:
        self.pack = path.with_suffix(".pack")
        with path.open("rb") as file:
            self._map = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        self._usable = self._map[:8] == b"\xfftOc\0\0\0\2" and len(self._map) >= SMALLEST_INDEX

    def __contains__(self, oid: bytes) -> bool:
        return self._number(oid) is not None

    @cached_property
    def content(self) -> mmap.mmap:
        """The pack itself. Raises OSError or ValueError if it cannot be mapped."""
        with self.pack.open("rb") as file:
            return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)

    def offset(self, oid: bytes) -> int | None:
        """Where in the pack an object stands, None if it is not in it."""
        number = self._number(oid)
        if number is None:
            return None
        count = self._fan_out(255)
        offsets = NAMES + 24 * count
        offset = int(struct.unpack_from(">I", self._map, offsets + 4 * number)[0])
        if offset & 1 << 31:
            place = offsets + 4 * count + 8 * (offset & (1 << 31) - 1)
            offset = int(struct.unpack_from(">Q", self._map, place)[0])
        return offset

    def names(self) -> Iterator[bytes]:
        """The names of all objects, in order."""
        return (self._name(number) for number in range(self._fan_out(255) if self._usable else 0))

    def _number(self, oid: bytes) -> int | None:
        if not self._usable:
            return None
        low = self._fan_out(oid[0] - 1) if oid[0] else 0
        names = range(low, self._fan_out(oid[0]))
        if len(names) <= SEARCHED:
            return self._found_between(names, oid)
        place = bisect_left(names, oid, key=self._name)
        return names[place] if place < len(names) and self._name(names[place]) == oid else None

    def _found_between(self, names: range, oid: bytes) -> int | None:
        """The same as a bisection, without a call of ours for each step."""
        start, end = NAMES + 20 * names.start, NAMES + 20 * names.stop
        at = self._map.find(oid, start, end)
        while at >= 0 and (at - NAMES) % 20:  # the end of one name and the beginning of the next
            at = self._map.find(oid, at + 1, end)
        return (at - NAMES) // 20 if at >= 0 else None

    def _fan_out(self, byte: int) -> int:
        return self._counts[byte]

    @cached_property
    def _counts(self) -> tuple[int, ...]:
        return struct.unpack_from(">256I", self._map, 8)

    def _name(self, number: int) -> bytes:
        start = NAMES + 20 * number
        return self._map[start : start + 20]


class PackWriter:
    """Writes one pack, object by object, and its index. Nothing is visible before `close`."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        make_directories(directory)
        # No .idx before it is one: whoever looks for indexes passes over what a crash left. git removes both in time.
        unique = os.urandom(6).hex()
        self._path, self._index_path = directory / f"tmp_pack_gitcp_{unique}", directory / f"tmp_idx_gitcp_{unique}"
        self._file: BinaryIO = open(self._path, "w+b")
        self._file.write(b"PACK" + struct.pack(">II", 2, 0))
        self._places: dict[bytes, tuple[int, int]] = {}

    def __contains__(self, oid: bytes) -> bool:
        return oid in self._places

    def add(self, oid: bytes, kind: str, data: bytes) -> None:
        """Append one object; `oid` is its 20-byte name."""
        packed = _entry_header(KINDS[kind], len(data)) + zlib.compress(data, LEVEL)
        self._places[oid] = (self._file.tell(), zlib.crc32(packed))
        self._file.write(packed)

    def read(self, oid: bytes) -> tuple[str, bytes]:
        """The kind and content of an object written before."""
        end = self._file.tell()
        self._file.seek(self._places[oid][0])
        byte = self._file.read(1)[0]
        kind = next(name for name, number in KINDS.items() if number == byte >> 4 & 7)
        while byte & 0x80:
            byte = self._file.read(1)[0]
        stream, parts = zlib.decompressobj(), []
        while not stream.eof:
            parts.append(stream.decompress(self._file.read(65536)))
        self._file.seek(end)
        return kind, b"".join(parts)

    def close(self) -> Path:
        """Finish pack and index, fsync both, and give them their names. The pack is first, so that no index lies."""
        names = sorted(self._places)
        self._file.seek(8)
        self._file.write(struct.pack(">I", len(names)))
        self._file.flush()
        checksum = _sha1_of(self._file)
        self._file.seek(0, os.SEEK_END)
        self._file.write(checksum)
        index = self._index(names, checksum)
        # Named by its bytes: who packs the same objects in another order must not replace it under its index.
        name = f"pack-{checksum.hex()}"
        _settle(self._file, self._path, self._directory / f"{name}.pack")
        with open(self._index_path, "w+b") as file:
            file.write(index)
            _settle(file, self._index_path, self._directory / f"{name}.idx")
        sync_directory(self._directory)
        return self._directory / f"{name}.pack"

    def discard(self) -> None:
        """Forget everything written."""
        self._file.close()
        self._path.unlink(missing_ok=True)
        self._index_path.unlink(missing_ok=True)

    def _index(self, names: list[bytes], checksum: bytes) -> bytes:
        fan_out, count = bytearray(), 0
        firsts = [name[0] for name in names]
        for byte in range(256):
            count = bisect_left(firsts, byte + 1)
            fan_out += struct.pack(">I", count)
        crcs = b"".join(struct.pack(">I", self._places[n][1]) for n in names)
        large = [self._places[n][0] for n in names if self._places[n][0] >= 1 << 31]
        rank = {place: number for number, place in enumerate(large)}
        offsets = b"".join(
            struct.pack(">I", 1 << 31 | rank[place] if place in rank else place)
            for place in (self._places[n][0] for n in names)
        )
        body = b"\xfftOc\0\0\0\2" + bytes(fan_out) + b"".join(names) + crcs + offsets
        body += b"".join(struct.pack(">Q", place) for place in large) + checksum
        return body + sha1(body)


def indexes(objects_dir: Path) -> list[PackIndex]:
    """The indexes of every pack in an objects directory."""
    try:
        names = [name for name in os.listdir(objects_dir / "pack") if name.endswith(".idx")]
    except FileNotFoundError:
        return []
    found = []
    for name in names:
        try:
            found.append(PackIndex(objects_dir / "pack" / name))
        except (FileNotFoundError, ValueError):
            continue  # a repack took it away just now, or it is empty
    return found


def oid_of(kind: str, data: bytes | memoryview) -> Oid:
    """The name git gives an object."""
    return Oid(sha1(b"%s %d\0" % (kind.encode(), len(data)), data).hex())


def sync_directory(path: Path) -> None:
    """fsync a directory, so that the names in it survive power loss."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def make_directories(path: Path) -> None:
    """Make a directory and those above it, as far as they are missing; they survive power loss."""
    try:
        path.mkdir()
    except FileExistsError:
        return
    except FileNotFoundError:
        make_directories(path.parent)
        path.mkdir(exist_ok=True)
    sync_directory(path.parent)


def _entry_header(kind: int, size: int) -> bytes:
    byte, size = kind << 4 | size & 15, size >> 4
    header = bytearray()
    while size:
        header.append(byte | 0x80)
        byte, size = size & 0x7F, size >> 7
    header.append(byte)
    return bytes(header)


def _sha1_of(file: BinaryIO) -> bytes:
    import hashlib  # not for the few objects that a save writes loose

    digest = hashlib.sha1(usedforsecurity=False)
    file.seek(0)
    while block := file.read(1 << 20):
        digest.update(block)
    return digest.digest()


def _settle(file: BinaryIO, path: Path, final: Path) -> None:
    file.flush()
    os.fchmod(file.fileno(), 0o444)
    os.fsync(file.fileno())
    file.close()
    os.rename(path, final)
