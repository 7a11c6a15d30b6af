"""Loose objects: one deflated file each. One that was cut off is damaged."""

from __future__ import annotations

import errno
import hashlib
import os
import stat
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

from gitcp.errors import DiskFull, GitcpError, StoreDamaged
from gitcp.git import shared
from gitcp.git.fsync import FULL, sync_paths
from gitcp.git.packs import deflated, oid_of
from gitcp.model import Oid

CHUNK = 1 << 20
TRIES = 100
"""So often a directory that git removes as empty, while it packs, is made again."""


def with_alternates(directory: Path) -> list[Path]:
    """An objects directory and those it borrows from."""
    found, queue = [], [directory]
    while queue:
        directory = queue.pop(0)
        if directory in found:
            continue
        found.append(directory)
        try:
            lines = (directory / "info" / "alternates").read_bytes().splitlines()
        except (FileNotFoundError, NotADirectoryError):
            continue
        queue += [
            directory / os.fsdecode(line) for line in lines if line and not line.startswith(b"#")
        ]
    return found


def read_loose(directory: Path, oid: Oid) -> tuple[str, bytes] | None:
    """A loose object's kind and content, None if it is not loose. Raises StoreDamaged if it does
    not check out.
    """
    loose = open_loose(directory, oid)
    if loose is None:
        return None
    with loose, _unreadable(oid):
        packed = loose.read()
    stream = zlib.decompressobj()
    try:
        raw = stream.decompress(packed)
        header, _, data = raw.partition(b"\0")
        kind, size = header.decode("ascii").split(" ")
        sound = (
            stream.eof
            and not stream.unused_data
            and int(size) == len(data)
            and oid_of(kind, data) == oid
        )
    except (zlib.error, ValueError):
        sound = False
    if not sound:
        raise _damaged(oid)
    return kind, data


def open_loose(directory: Path, oid: Oid) -> BinaryIO | None:
    """The file of a loose object, None if there is none. Raises StoreDamaged if it cannot be
    opened.
    """
    with _unreadable(oid):
        try:
            return open(f"{directory}/{oid[:2]}/{oid[2:]}", "rb")
        except (FileNotFoundError, NotADirectoryError):
            return None


def inflate(file: BinaryIO, oid: Oid) -> Iterator[bytes]:
    """The content of a loose blob, and at its end the proof that it is the blob of this name."""
    stream, digest, size = zlib.decompressobj(), hashlib.sha1(usedforsecurity=False), -1
    try:
        while not stream.eof:
            with _unreadable(oid):
                packed = stream.unconsumed_tail or file.read(CHUNK)
            data = stream.decompress(packed, CHUNK)
            if not (packed or data):
                break
            digest.update(data)
            if size < 0:
                header, _, data = data.partition(b"\0")
                size = int(header.removeprefix(b"blob "))
            size -= len(data)
            yield data
    except (zlib.error, ValueError):
        raise _damaged(oid) from None
    if not stream.eof or stream.unused_data or file.read(1) or size or digest.hexdigest() != oid:
        raise _damaged(oid)


def has_stray_bit(directories: Iterable[Path], oid: Oid) -> bool:
    """Whether in the file of a loose object that reads well a bit is set that every program leaves
    at zero.

    These are the bits that fill the last byte of the compressed data, and the byte that heads an
    uncompressed block at its start. What else could change unseen (one of two ways to say the same)
    changes nothing that is read.
    """
    for directory in directories:
        with suppress(OSError):
            if packed := (directory / oid[:2] / oid[2:]).read_bytes():
                return _is_filled(packed)
    return False


def _is_filled(packed: bytes) -> bool:
    head, last, checksum = packed[2], packed[-5], packed[-4:]
    if not head & 0b110 and head >> 3:
        return True
    stream = zlib.decompressobj()
    stream.decompress(packed[:-5])
    if not last or stream.eof:
        return False
    try:
        stream.decompress(bytes([last & ~(1 << last.bit_length() - 1)]) + checksum)
    except zlib.error:
        return False
    return stream.eof  # the same without its highest bit: that was no part of the data


def _damaged(oid: Oid) -> StoreDamaged:
    return StoreDamaged(
        f"object {oid} is damaged: it does not hold what its name says", hint="gitcp check"
    )


class _unreadable:  # noqa: N801 -- reads as a statement
    """Says which object the system could not read."""

    def __init__(self, oid: Oid) -> None:
        self._oid = oid

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, OSError):
            raise StoreDamaged(
                f"object {self._oid} cannot be read: {error.strerror}", hint="gitcp check"
            ) from None


def make_fan_out(directory: Path) -> None:
    """Make the directory of a loose object, with the group's rights that the one above has."""
    try:
        directory.mkdir()
    except FileExistsError:
        return
    mode = os.stat(directory.parent).st_mode
    if mode & stat.S_IWGRP:
        os.chmod(directory, stat.S_IMODE(mode))
    shared.adjust(directory)


def write_loose(path: Path, kind: str, data: bytes) -> None:
    """Write one loose object to `path`, a temporary name; it is still to be fsynced and to be given
    its own name.
    """
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o444)
    with open(descriptor, "wb") as file:
        file.write(deflated(b"%s %d\0" % (kind.encode(), len(data)) + data))


def place_loose(temporary: Path, objects_dir: Path, oid: Oid) -> Path:
    """Give a loose object its own name; its directory, which is still to be fsynced."""
    directory = objects_dir / oid[:2]
    os.chmod(temporary, shared.object_mode(os.stat(temporary).st_mode, objects_dir))
    for _ in range(TRIES):
        make_fan_out(directory)
        with suppress(FileNotFoundError):
            os.rename(temporary, directory / oid[2:])
            return directory
    raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))


def flush_loose(
    objects_dir: Path, objects: Mapping[Oid, tuple[str, bytes]], written: dict[Oid, Path]
) -> None:
    """Make these objects loose ones, and those that were `written` under temporary names, which are
    then forgotten.

    All are written before the first is synced: the disk then has one round to make instead of one a
    file.
    """
    for oid, (kind, data) in objects.items():
        if oid not in written:
            written[oid] = objects_dir / f"tmp_obj_gitcp_{os.urandom(6).hex()}"
            write_loose(written[oid], kind, data)
    sync_paths(written.values())
    there = set(os.listdir(objects_dir))
    touched = {place_loose(temporary, objects_dir, oid) for oid, temporary in written.items()}
    if any(directory.name not in there for directory in touched):
        # a name in a new directory is kept no better than that of the directory
        touched.add(objects_dir)
    sync_paths(touched)  # where git packed all that was in it just now, one is gone
    written.clear()


class failures_named:  # noqa: N801 -- reads as a statement
    """Turns what the system says about a failed write into our errors, after `undo` has tidied
    up.
    """

    def __init__(self, undo: Callable[[], None]) -> None:
        self._undo = undo

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if error is not None:
            self._undo()
        if not isinstance(error, OSError):
            return
        if error.errno in FULL:
            raise DiskFull(
                "the disk is full: no checkpoint was made", hint="free some space and save again"
            ) from None
        raise GitcpError(
            f"the object store cannot be written: {error.strerror}. No checkpoint was made"
        ) from None
