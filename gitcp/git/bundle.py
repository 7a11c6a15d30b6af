"""Bundles: refs and all objects they reach, as one file that git reads (`git bundle verify`, `git
fetch FILE`).

gitcp writes them from a pack and a header, so that a bundle can name refs that do not exist in the
repository. Foreign bundles are checked before git opens them: a few kilobytes can claim to be
terabytes.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import BinaryIO

from gitcp import progress
from gitcp.errors import BadValue, GitFailed, Refused, StoreDamaged
from gitcp.git.object_format import FORMATS, SHA1, SHA256, ObjectFormat
from gitcp.git.repo import Repository
from gitcp.model import Oid

SIGNATURES = (b"# v2 git bundle\n", b"# v3 git bundle\n")
HEADS = {SHA1: SIGNATURES[0], SHA256: SIGNATURES[1] + b"@object-format=sha256\n"}
"""How a bundle begins, by the format of its objects. Every git reads the first."""

FORMAT = b"@object-format="
LONGEST_HEAD = 1 << 20
CHUNK = 1 << 16

OFS_DELTA, REF_DELTA = 6, 7
LONGEST_SIZES = 20
"""Maximum bytes at the start of a delta that encode the sizes of its base and result."""


def write(repo: Repository, names: Mapping[str, Oid]) -> bytes:
    """Return a bundle of these refs. Reads only. Raises GitFailed if an object is missing."""
    tips = "".join(f"{oid}\n" for oid in names.values()).encode("ascii")
    shown = "--progress" if progress.is_shown() else "-q"
    options = ("--revs", "--stdout", "--delta-base-offset", shown)
    pack = repo.git_shown("pack-objects", *options, input=tips)
    head = "".join(f"{oid} {name}\n" for name, oid in names.items()).encode("utf-8")
    return HEADS[repo.object_format] + head + b"\n" + pack


def import_objects(repo: Repository, path: Path) -> None:
    """Store the objects of a bundle, each checked by git, without refs. `git fetch FILE` does not
    check them before git 2.46.

    Raises StoreDamaged if git rejects one: then none is stored.
    """
    with path.open("rb") as file:
        _skip_header(file)
        os.lseek(file.fileno(), file.tell(), os.SEEK_SET)  # git reads on from there
        try:
            repo.git_shown("index-pack", "-v", "--strict", "--fix-thin", "--stdin", input=file)
        except GitFailed as error:
            raise StoreDamaged(f"git rejects the bundle: nothing was imported ({error})") from None


def check_format(path: Path, expected: ObjectFormat) -> None:
    """Raise Refused if the objects of a bundle cannot be in a repository of the `expected` format,
    and BadValue if it is not a bundle. git only says that such a pack is damaged.
    """
    with path.open("rb") as file:
        actual = _skip_header(file)
    if actual != expected:
        raise Refused(
            f"the bundle names its objects by {actual.title}, and this repository by "
            f"{expected.title}: nothing was imported",
            hint=f"git init --object-format={actual.name} ../{actual.name}",
        )


def check_sizes(path: Path, *, largest: int, most: int) -> None:
    """Raise StoreDamaged if an object of a bundle is, or claims to be, larger than `largest` bytes,
    or all together larger than `most`.

    Reads the file once, in bounded memory; contents are checked elsewhere. Raises BadValue if it is
    not a bundle.
    """
    with path.open("rb") as file:
        pack = _Pack(file, _skip_header(file).raw, largest)
        total = 0
        for _ in range(pack.count()):
            total += pack.next_size()
            if total > most:
                raise StoreDamaged(
                    f"the bundle contains more than {most:,} bytes: nothing was imported"
                )


def _skip_header(file: BinaryIO) -> ObjectFormat:
    if file.readline(64) not in SIGNATURES:
        raise BadValue("not a bundle: nothing was imported")
    object_format = SHA1
    while file.tell() < LONGEST_HEAD:
        line = file.readline(LONGEST_HEAD)
        if line in {b"\n", b""}:
            return object_format
        if line.startswith(FORMAT):
            name = line.removeprefix(FORMAT).strip().decode("ascii", "replace")
            if name not in FORMATS:
                raise BadValue(
                    f"the bundle's object format {name!r} is unknown: nothing was imported"
                )
            object_format = FORMATS[name]
    raise StoreDamaged("the bundle contains too many refs: nothing was imported")


class _Pack:
    """A pack, read sequentially, one object at a time."""

    def __init__(self, file: BinaryIO, raw: int, largest: int) -> None:
        self.file = file
        self.raw = raw
        self.largest = largest
        self.rest = b""

    def count(self) -> int:
        """Return the number of objects in the pack's header."""
        head = self._read_bytes(12)
        if head[:4] != b"PACK" or len(head) < 12:
            raise StoreDamaged("the bundle is truncated or damaged: nothing was imported")
        return int.from_bytes(head[8:], "big")

    def next_size(self) -> int:
        """Skip the next object and return its size in bytes."""
        byte = self._byte()
        kind, size, shift = byte >> 4 & 7, byte & 15, 4
        while byte & 128:
            byte = self._byte()
            size |= (byte & 127) << shift
            shift += 7
        if kind == OFS_DELTA:
            while self._byte() & 128:
                pass
        elif kind == REF_DELTA:
            self._read_bytes(self.raw)
        self._check_size(size)
        begin = self._skip_compressed(size)
        if kind not in (OFS_DELTA, REF_DELTA):
            return size
        result = _delta_result_size(begin)
        self._check_size(result)
        return result

    def _check_size(self, size: int) -> None:
        if size > self.largest:
            raise StoreDamaged(
                f"the bundle contains an object of {size:,} bytes: nothing was imported"
            )

    def _skip_compressed(self, size: int) -> bytes:
        """Skip compressed data that must inflate to `size` bytes; return its first bytes."""
        stream, seen, begin = zlib.decompressobj(), 0, b""
        data = self.rest or self.file.read(CHUNK)
        while not stream.eof:
            try:
                piece = stream.decompress(data, CHUNK)
            except zlib.error:
                raise StoreDamaged("the bundle is damaged: nothing was imported") from None
            seen += len(piece)
            begin = begin or piece[:LONGEST_SIZES]
            data = stream.unconsumed_tail or (b"" if stream.eof else self.file.read(CHUNK))
            if seen > size or not (stream.eof or data or piece):
                raise StoreDamaged(
                    "the bundle is truncated, or larger than it declares: nothing was imported"
                )
        self.rest = stream.unused_data
        return begin

    def _byte(self) -> int:
        return self._read_bytes(1)[0]

    def _read_bytes(self, size: int) -> bytes:
        while len(self.rest) < size:
            more = self.file.read(CHUNK)
            if not more:
                raise StoreDamaged("the bundle is truncated: nothing was imported")
            self.rest += more
        taken, self.rest = self.rest[:size], self.rest[size:]
        return taken


def _delta_result_size(data: bytes) -> int:
    """Return the second of the two sizes at the start of a delta: that of its result."""
    numbers, value, shift = [], 0, 0
    for byte in data:
        value |= (byte & 127) << shift
        shift += 7
        if not byte & 128:
            numbers.append(value)
            value, shift = 0, 0
    return numbers[1] if len(numbers) > 1 else 0
