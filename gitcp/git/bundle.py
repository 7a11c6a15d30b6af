"""Bundles: refs and everything that they reach, as one file that git reads (`git bundle verify`,
`git fetch FILE`).

Ours are written from a pack and a head, so that a bundle can name refs that are not in the
repository. One from somebody else is looked at before git opens it: a few kilobytes can claim to be
terabytes.
"""

from __future__ import annotations

import mmap
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import BinaryIO

from gitcp.errors import BadValue, GitFailed, StoreDamaged
from gitcp.git.repo import Repository
from gitcp.model import Oid

SIGNATURE = b"# v2 git bundle\n"
SIGNATURES = (SIGNATURE, b"# v3 git bundle\n")
LONGEST_HEAD = 1 << 20
CHUNK = 1 << 16

DELTA_BY_PLACE, DELTA_BY_NAME = 6, 7
LONGEST_SIZES = 20
"""Bytes at the beginning of a delta that say how large its base and its result are, at most."""


def write(repo: Repository, names: Mapping[str, Oid]) -> bytes:
    """A bundle of these refs. Reads only. Raises GitFailed if an object is missing."""
    tips = "".join(f"{oid}\n" for oid in names.values()).encode("ascii")
    pack = repo.git("pack-objects", "--revs", "--stdout", "--delta-base-offset", "-q", input=tips)
    head = "".join(f"{oid} {name}\n" for name, oid in names.items()).encode("utf-8")
    return SIGNATURE + head + b"\n" + pack


def take_in(repo: Repository, path: Path) -> None:
    """Store the objects of a bundle, each checked by git; no ref names them. `git fetch FILE`
    checks none before 2.46.

    Raises StoreDamaged if git refuses one: then none is stored.
    """
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
        _skip_head(file)
        with memoryview(content) as whole, whole[file.tell() :] as pack:
            try:
                repo.git("index-pack", "--strict", "--fix-thin", "--stdin", input=pack)
            except GitFailed as error:
                raise StoreDamaged(
                    f"git refuses the bundle: nothing was imported ({error})"
                ) from None


def check_sizes(path: Path, *, largest: int, most: int) -> None:
    """Raise StoreDamaged if an object of a bundle is, or claims to be, larger than `largest`, or
    all are than `most`.

    Reads the file once, in bounded memory; what is in it is judged by others. Raises BadValue if it
    is no bundle.
    """
    with path.open("rb") as file:
        _skip_head(file)
        pack = _Pack(file, largest)
        total = 0
        for _ in range(pack.count()):
            total += pack.next_size()
            if total > most:
                raise StoreDamaged(f"the bundle holds more than {most:,} bytes: it was not taken")


def _skip_head(file: BinaryIO) -> None:
    if file.readline(64) not in SIGNATURES:
        raise BadValue("it is no bundle: nothing was imported")
    while file.tell() < LONGEST_HEAD:
        if file.readline(LONGEST_HEAD) in {b"\n", b""}:
            return
    raise StoreDamaged("the bundle names too many refs: it was not taken")


class _Pack:
    """A pack, read from its beginning to its end, an object at a time."""

    def __init__(self, file: BinaryIO, largest: int) -> None:
        self.file = file
        self.largest = largest
        self.rest = b""

    def count(self) -> int:
        """How many objects it says that it has."""
        head = self._take(12)
        if head[:4] != b"PACK" or len(head) < 12:
            raise StoreDamaged("the bundle is cut off or damaged: it was not taken")
        return int.from_bytes(head[8:], "big")

    def next_size(self) -> int:
        """How large the next object is, which is passed over."""
        byte = self._byte()
        kind, size, shift = byte >> 4 & 7, byte & 15, 4
        while byte & 128:
            byte = self._byte()
            size |= (byte & 127) << shift
            shift += 7
        if kind == DELTA_BY_PLACE:
            while self._byte() & 128:
                pass
        elif kind == DELTA_BY_NAME:
            self._take(20)
        self._refuse(size)
        begin = self._inflated(size)
        if kind not in (DELTA_BY_PLACE, DELTA_BY_NAME):
            return size
        result = _second_number(begin)
        self._refuse(result)
        return result

    def _refuse(self, size: int) -> None:
        if size > self.largest:
            raise StoreDamaged(f"the bundle holds an object of {size:,} bytes: it was not taken")

    def _inflated(self, size: int) -> bytes:
        """Pass over compressed data that must come to `size` bytes; how it begins."""
        stream, seen, begin = zlib.decompressobj(), 0, b""
        data = self.rest or self.file.read(CHUNK)
        while not stream.eof:
            try:
                piece = stream.decompress(data, CHUNK)
            except zlib.error:
                raise StoreDamaged("the bundle is damaged: it was not taken") from None
            seen += len(piece)
            begin = begin or piece[:LONGEST_SIZES]
            data = stream.unconsumed_tail or (b"" if stream.eof else self.file.read(CHUNK))
            if seen > size or not (stream.eof or data or piece):
                raise StoreDamaged(
                    "the bundle is cut off, or holds more than it says: it was not taken"
                )
        self.rest = stream.unused_data
        return begin

    def _byte(self) -> int:
        return self._take(1)[0]

    def _take(self, size: int) -> bytes:
        while len(self.rest) < size:
            more = self.file.read(CHUNK)
            if not more:
                raise StoreDamaged("the bundle is cut off: it was not taken")
            self.rest += more
        taken, self.rest = self.rest[:size], self.rest[size:]
        return taken


def _second_number(data: bytes) -> int:
    """The second of the two numbers that a delta begins with: how large its result is."""
    numbers, value, shift = [], 0, 0
    for byte in data:
        value |= (byte & 127) << shift
        shift += 7
        if not byte & 128:
            numbers.append(value)
            value, shift = 0, 0
    return numbers[1] if len(numbers) > 1 else 0
