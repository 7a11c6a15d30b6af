"""Packs: which objects the existing ones hold, and writing a new one in a stream.

A save of many new objects goes into one pack, since creating files is what costs. git reads objects
out of packs (gitcp.git.catfile). The indexes are read here, for gitcp.git.stored: a save asks for
thousands of objects whether they exist, and touches the packs that have them.
"""

from __future__ import annotations

import mmap
import os
import struct
import time
import zlib
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import cached_property
from itertools import accumulate
from pathlib import Path
from typing import BinaryIO, NamedTuple

from gitcp.errors import StoreDamaged
from gitcp.git import shared
from gitcp.git.fsync import make_directories, sync_directory, sync_file, sync_paths, write_all
from gitcp.git.object_format import ObjectFormat
from gitcp.model import Oid

KINDS = {"commit": 1, "tree": 2, "blob": 3, "tag": 4}
LEVEL = 1
TEXT_LEVEL = 6
"""How hard to compress: most objects, and segments of conversations, which get a sixth smaller."""

TINY = 160
"""Up to this size what git stores hardly shrinks: trees are names of objects, which are random."""

KEEP = b"gitcp: no ref names it yet\n"
"""In the file beside a pack by which git leaves it alone."""

YIELD_EVERY = 32
"""Number of objects after which a background thread lets other threads run."""

NAMES = 8 + 1024
"""Where the object names of an index begin: after its header and its fan-out."""

SEARCHED = 256
"""So many names are searched byte by byte; above that, looking at a few of them is faster."""

LARGE = 8 << 20
"""Bytes from which on no delta of a blob is searched, which takes many times its size in memory,
and from which on a loose file stays loose: it counts as one file either way.
"""

FORM = (
    "-c",
    # With pack.indexVersion=1, housekeeping read a new pack as empty and removed it.
    "pack.indexVersion=2",
    "-c",
    "pack.packSizeLimit=0",
    "-c",
    "pack.threads=1",
    "-c",
    f"core.bigFileThreshold={LARGE}",
)
"""One pack, with an index that is read here, whatever the user has set; made with one processor,
others have work.
"""


class PackIndex:
    """The sorted object ids of one pack (idx version 2), in the format of its repository. `listing`
    is the file's content, if known.
    """

    def __init__(
        self, path: Path, object_format: ObjectFormat, listing: bytes | None = None
    ) -> None:
        self._path = path
        self._raw = object_format.raw
        self._map = listing or _mapped(path)
        smallest = NAMES + 2 * self._raw  # of no objects; one that was cut off is not looked into
        self.is_usable = self._map[:8] == b"\xfftOc\0\0\0\2" and len(self._map) >= smallest

    def __contains__(self, oid: bytes) -> bool:
        return self._number(oid) is not None

    @cached_property
    def pack(self) -> Path:
        return self._path.with_suffix(".pack")

    @cached_property
    def pack_name(self) -> str:
        """Return the path of the pack as a string: it is asked for thousands of times."""
        return str(self.pack)

    def names(self) -> Iterator[bytes]:
        """Return the raw ids of all objects, sorted. Raises StoreDamaged if the index is
        not version 2.
        """
        if not self.is_usable:
            raise StoreDamaged(
                f"{self._path.name} is not an index that gitcp can read",
                hint="gitcp doctor --store",
            )
        size, end = self._raw, NAMES + self._raw * self._counts[255]
        return (self._map[start : start + size] for start in range(NAMES, end, size))

    def _number(self, oid: bytes) -> int | None:
        if not self.is_usable:
            return None
        counts, first = self._counts, oid[0]
        names = range(counts[first - 1] if first else 0, counts[first])
        if len(names) <= SEARCHED:
            return self._found_between(names, oid)
        # Names are as good as random: it is where they would be if they were spread evenly, give or
        # take a little.
        guess = len(names) * int.from_bytes(oid[1:5]) >> 32
        near = names[max(0, guess - SEARCHED // 2) : guess + SEARCHED // 2]
        if not near:
            return None  # the fan-out is damaged
        if self._name(near[0]) <= oid <= self._name(near[-1]):
            return self._found_between(near, oid)
        at = bisect_left(names, oid, key=self._name)
        return names[at] if at < len(names) and self._name(names[at]) == oid else None

    def _found_between(self, names: range, oid: bytes) -> int | None:
        """Return the position of `oid` in the range, as a bisection would, with one search instead
        of a call for each step.
        """
        start, end = NAMES + self._raw * names.start, NAMES + self._raw * names.stop
        at = self._map.find(oid, start, end)
        while at >= 0 and (at - NAMES) % self._raw:  # the end of one name and the next one's start
            at = self._map.find(oid, at + 1, end)
        return (at - NAMES) // self._raw if at >= 0 else None

    @cached_property
    def _counts(self) -> tuple[int, ...]:
        """How many names begin with this byte or a smaller one."""
        return struct.unpack_from(">256I", self._map, 8)

    def _name(self, number: int) -> bytes:
        start = NAMES + self._raw * number
        return self._map[start : start + self._raw]


def _mapped(path: Path) -> mmap.mmap:
    with path.open("rb") as file:
        return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)


class PackWriter:
    """Writes one pack, object by object, and its index. Nothing is visible before `close`."""

    def __init__(self, directory: Path, object_format: ObjectFormat) -> None:
        self._directory = directory
        self._format = object_format
        make_directories(directory)
        # No .idx before it is one: whoever looks for indexes passes over what a crash left. git
        # removes both in time.
        unique = os.urandom(6).hex()
        self._path, self._index_path = (
            directory / f"tmp_pack_gitcp_{unique}",
            directory / f"tmp_idx_gitcp_{unique}",
        )
        self._file: BinaryIO = open(self._path, "w+b")
        self._file.write(b"PACK" + struct.pack(">II", 2, 0))
        self._entries: dict[bytes, tuple[int, int]] = {}

    def __contains__(self, oid: bytes) -> bool:
        return oid in self._entries

    def add(self, oid: bytes, kind: str, data: bytes, level: int = LEVEL) -> None:
        """Append one object; `oid` is its raw id."""
        packed = _entry_header(KINDS[kind], len(data)) + deflated(data, level)
        self._entries[oid] = (self._file.tell(), zlib.crc32(packed))
        self._file.write(packed)

    def read(self, oid: bytes) -> tuple[str, bytes]:
        """Return the kind and content of an object written before."""
        end = self._file.tell()
        self._file.seek(self._entries[oid][0])
        byte = self._file.read(1)[0]
        kind = next(name for name, number in KINDS.items() if number == byte >> 4 & 7)
        while byte & 0x80:
            byte = self._file.read(1)[0]
        stream, parts = zlib.decompressobj(), []
        while not stream.eof:
            parts.append(stream.decompress(self._file.read(65536)))
        self._file.seek(end)
        return kind, b"".join(parts)

    def close(self, *, keep: bool = False) -> Path:
        """Finish pack and index, fsync both, and rename them into place: the pack first, so that no
        index exists without it.

        `keep` means that no ref reaches its objects yet: `git repack -ad` skips it until `release`.
        """
        self._file.seek(8)
        self._file.write(struct.pack(">I", len(self._entries)))
        self._file.flush()
        checksum = _checksum_of(self._file, self._format)
        self._file.seek(0, os.SEEK_END)
        self._file.write(checksum)
        index = index_of(self._entries, checksum, self._format)
        # Named by its bytes: who packs the same objects in another order must not replace it under
        # its index.
        name = f"pack-{checksum.hex()}"
        pack = self._directory / f"{name}.pack"
        with _kept_from_git(pack, keep=keep):
            with open(self._index_path, "w+b") as file:
                file.write(index)
                _settle(file, self._index_path)
            _settle(self._file, self._path)
            self._file.close()
            os.rename(self._path, pack)
            os.rename(self._index_path, pack.with_suffix(".idx"))
            sync_directory(self._directory)
        return pack

    def discard(self) -> None:
        """Remove everything written."""
        # first: on a full disk, what is still to be written fails to be
        # Each save that failed on a full disk left its temporary pack, which made the disk fuller.
        for path in (self._path, self._index_path):
            with suppress(OSError):
                path.unlink()
        with suppress(OSError):
            self._file.close()


@contextmanager
def _kept_from_git(pack: Path, *, keep: bool) -> Iterator[None]:
    """Keep git away from a pack that the block makes, until `release`; release it if the block
    fails.
    """
    path = pack.with_suffix(".keep")
    mine = keep and not path.exists()
    if mine:
        # `git repack -ad`, run between a save's pack and its ref, removed the pack.
        _place([(str(path), KEEP)], sync=False)
    try:
        yield
    except BaseException:
        if mine:
            # A disk that failed while a pack was made left its .keep file for ever.
            release(pack)
        raise


def is_kept(pack: Path) -> bool:
    """Return whether gitcp has told git to leave a pack alone."""
    try:
        return pack.with_suffix(".keep").read_bytes() == KEEP
    except OSError:
        return False


def release(pack: Path) -> None:
    """Release the .keep file that gitcp wrote for a pack."""
    if is_kept(pack):
        with suppress(OSError):  # housekeeping does it later
            pack.with_suffix(".keep").unlink()


class SmallPack(NamedTuple):
    """A pack and its index as file contents. The pack ends in a checksum of `raw` bytes."""

    content: bytes
    listing: bytes
    raw: int

    def write(self, directory: Path, *, sync: bool = False, keep: bool = True) -> Path:
        """Make both files visible, the index last, and with `sync` durable. Return the pack's path;
        `keep` until `release`.
        """
        pack = directory / f"{self._name}.pack"
        if not directory.exists():
            make_directories(directory)
        with _kept_from_git(pack, keep=keep):
            _place(self._files(directory), sync=sync)
            if sync:
                sync_directory(directory)
        return pack

    def ensure(self, directory: Path, *, again: bool) -> None:
        """Sync the files. With `again`, first rewrite missing or different ones.

        The caller syncs the directory.
        """
        for path, content in self._files(directory):
            if again and not _holds(path, content):
                _place([(path, content)], sync=True)
            else:
                # put together with others, which were synced then
                with suppress(FileNotFoundError):
                    sync_file(path)

    @property
    def _name(self) -> str:
        return f"pack-{self.content[-self.raw :].hex()}"

    def _files(self, directory: Path) -> list[tuple[str, bytes]]:
        return [
            (f"{directory}/{self._name}.pack", self.content),
            (f"{directory}/{self._name}.idx", self.listing),
        ]


def packed(
    objects: Mapping[Oid, tuple[str, bytes]],
    object_format: ObjectFormat,
    levels: Mapping[Oid, int] | None = None,
    *,
    in_background: bool = False,
) -> SmallPack:
    """Return a pack of a few objects. `levels` says of some how hard to compress them; without it,
    all are stored uncompressed until packs are joined. With `in_background`, other threads
    may run after every few objects: else one that returns from I/O waits up to 5 ms to run.
    """
    parts = [b"PACK" + struct.pack(">II", 2, len(objects))]
    entries, offset = {}, len(parts[0])
    for number, (oid, (kind, content)) in enumerate(objects.items()):
        if in_background and number % YIELD_EVERY == 0:
            time.sleep(0)
        stored = _stored(content) if levels is None else deflated(content, levels.get(oid, LEVEL))
        entry = _entry_header(KINDS[kind], len(content)) + stored
        entries[bytes.fromhex(oid)] = (offset, zlib.crc32(entry))
        offset += len(entry)
        parts.append(entry)
    data = b"".join(parts)
    checksum = object_format.hasher(data).digest()
    return SmallPack(data + checksum, index_of(entries, checksum, object_format), object_format.raw)


def index_of(
    entries: Mapping[bytes, tuple[int, int]], checksum: bytes, object_format: ObjectFormat
) -> bytes:
    """Return the index of a pack, given the offset and CRC of each object."""
    names = sorted(entries)
    counts = [0] * 256
    for name in names:
        counts[name[0]] += 1
    offsets = [entries[name][0] for name in names]
    large = [offset for offset in offsets if offset >= 1 << 31]
    rank = {offset: number for number, offset in enumerate(large)}
    listed = (1 << 31 | rank[offset] if offset in rank else offset for offset in offsets)
    body = b"".join(
        (
            b"\xfftOc\0\0\0\2",
            struct.pack(">256I", *accumulate(counts)),
            *names,
            struct.pack(f">{len(names)}I", *(entries[name][1] for name in names)),
            struct.pack(f">{len(names)}I", *listed),
            struct.pack(f">{len(large)}Q", *large),
            checksum,
        )
    )
    return body + object_format.hasher(body).digest()


def indexes(objects_dir: Path, object_format: ObjectFormat) -> list[PackIndex]:
    """Return the indexes of all packs in an objects directory."""
    try:
        names = [name for name in os.listdir(objects_dir / "pack") if name.endswith(".idx")]
    except FileNotFoundError:
        return []
    readable = []
    for name in names:
        try:
            readable.append(PackIndex(objects_dir / "pack" / name, object_format))
        except (FileNotFoundError, ValueError):
            continue  # a repack took it away just now, or it is empty
    return readable


def pack_times(directories: Iterable[Path]) -> list[float]:
    """Return the time of the last change to each pack directory."""
    packs = (directory / "pack" for directory in directories)
    return [directory.stat().st_mtime for directory in packs if directory.exists()]


def deflated(data: bytes, level: int = LEVEL) -> bytes:
    """Return `data` deflated as git stores it. Allocating a window costs more than filling it, so
    small data gets a small one, or none.
    """
    if len(data) <= TINY:
        return _stored(data)
    bits = max(10, min(15, len(data).bit_length()))
    stream = zlib.compressobj(level, zlib.DEFLATED, bits, bits - 7)
    return stream.compress(data) + stream.flush()


def _stored(data: bytes) -> bytes:
    """Return `data` in zlib's format, uncompressed."""
    blocks = [data[start : start + 0xFFFF] for start in range(0, len(data), 0xFFFF)] or [b""]
    parts = [b"\x78\x01"]
    for number, block in enumerate(blocks, 1):
        parts += (
            struct.pack("<BHH", number == len(blocks), len(block), len(block) ^ 0xFFFF),
            block,
        )
    return b"".join((*parts, struct.pack(">I", zlib.adler32(data))))


def _entry_header(kind: int, size: int) -> bytes:
    byte, size = kind << 4 | size & 15, size >> 4
    header = bytearray()
    while size:
        header.append(byte | 0x80)
        byte, size = size & 0x7F, size >> 7
    header.append(byte)
    return bytes(header)


def _checksum_of(file: BinaryIO, object_format: ObjectFormat) -> bytes:
    digest = object_format.hasher()
    file.seek(0)
    while block := file.read(1 << 20):
        digest.update(block)
    return digest.digest()


def _settle(file: BinaryIO, path: Path) -> None:
    file.flush()
    _make_readable(file.fileno(), path)
    os.fsync(file.fileno())


def _make_readable(descriptor: int, path: str | Path) -> None:
    shared.give(descriptor, os.path.dirname(path))
    os.fchmod(descriptor, shared.object_mode(os.fstat(descriptor).st_mode, path))


def _place(files: Iterable[tuple[str, bytes]], *, sync: bool) -> None:
    """Give files their contents, each at once and in this order."""
    made: list[tuple[str, str]] = []
    try:
        for path, content in files:
            temporary = os.path.join(os.path.dirname(path), f"tmp_pack_gitcp_{os.urandom(6).hex()}")
            descriptor = os.open(
                temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o444
            )
            made.append((temporary, path))
            try:
                write_all(descriptor, content)
                _make_readable(descriptor, path)
            finally:
                os.close(descriptor)
        if sync:
            sync_paths([temporary for temporary, _ in made])
        for temporary, path in made:
            os.rename(temporary, path)
    except BaseException:
        for temporary, _ in made:
            with suppress(OSError):  # it has its name
                os.unlink(temporary)
        raise


def _holds(path: str, content: bytes) -> bool:
    try:
        with open(path, "rb") as file:
            return file.read() == content
    except OSError:
        return False
