"""Loose objects: one deflated file each. Truncated ones count as damaged."""

from __future__ import annotations

import errno
import os
import re
import stat
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

from gitcp import regular
from gitcp.errors import DiskFull, GitcpError, StoreDamaged
from gitcp.git import quoted, shared
from gitcp.git.fsync import FULL, sync_paths
from gitcp.git.object_format import format_of, is_name_of
from gitcp.git.packs import LEVEL, deflated
from gitcp.model import Oid

CHUNK = 1 << 20
REST = re.compile(r"[0-9a-f]{38}(?:[0-9a-f]{24})?")
"""The name of a loose object's file: that of the object without its first two digits."""

NO_LIST = (errno.ENOENT, errno.ENOTDIR, errno.EINVAL, errno.EACCES)
"""The errors of a list of alternates that git passes over, EINVAL that of a directory."""

TRIES = 100
"""Number of attempts to recreate a directory that git removes as empty while it packs."""


def with_alternates(directory: Path) -> list[Path]:
    """Return an objects directory and its alternates."""
    directories, queue = [], [directory]
    while queue:
        directory = queue.pop(0)
        if directory in directories:
            continue
        directories.append(directory)
        try:
            content = regular.content(directory / "info" / "alternates")
        except OSError as error:
            if error.errno not in NO_LIST:
                raise
            continue
        # git reads up to a NUL: nothing could be saved where a crash had left only these
        lines = content.partition(b"\0")[0].split(b"\n")
        queue += [
            directory / os.fsdecode(quoted.unquote(line))
            for line in lines
            if line and not line.startswith(b"#")
        ]
    return directories


def alternate_line(path: bytes) -> bytes:
    """Return the line of `objects/info/alternates` for an objects directory. git reads a quoted
    path as one of C, so that it may contain a line feed.
    """
    # In a repository whose path has a line feed, diff, revert and --mine failed.
    if b"\n" not in path and not path.startswith(b'"'):
        return path + b"\n"
    return quoted.quote(path) + b"\n"


def read_loose(directory: Path, oid: Oid) -> tuple[str, bytes] | None:
    """Return a loose object's kind and content, None if there is none. Raises StoreDamaged if its
    hash is wrong.
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
        is_intact = (
            stream.eof
            and not stream.unused_data
            and int(size) == len(data)
            and is_name_of(oid, kind, data)
        )
    except (zlib.error, ValueError):
        is_intact = False
    if not is_intact:
        raise _damaged(oid)
    return kind, data


def open_loose(directory: Path, oid: Oid) -> BinaryIO | None:
    """Return the open file of a loose object, None if there is none. Raises StoreDamaged if it
    cannot be opened.
    """
    with _unreadable(oid):
        try:
            return open(f"{directory}/{oid[:2]}/{oid[2:]}", "rb")
        except (FileNotFoundError, NotADirectoryError):
            return None


def inflate(file: BinaryIO, oid: Oid) -> Iterator[bytes]:
    """Yield the content of a loose blob. Raises StoreDamaged, possibly after the last chunk, if its
    hash is wrong.
    """
    stream, digest, size = zlib.decompressobj(), format_of(oid).hasher(), -1
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


def listed(directory: Path) -> Iterator[Oid]:
    """Yield the names of all loose objects in an objects directory."""
    for fan_out in (f"{byte:02x}" for byte in range(256)):
        with suppress(FileNotFoundError, NotADirectoryError):
            for rest in os.listdir(directory / fan_out):
                if REST.fullmatch(rest):  # else a temporary file
                    yield Oid(fan_out + rest)


def has_stray_bit(directories: Iterable[Path], oid: Oid) -> bool:
    """Return whether a loose object that reads correctly has a bit set that every program writes as
    zero.

    These are the padding bits in the last byte of the compressed data, and the header byte of an
    uncompressed block. Other undetected changes are equivalent encodings and do not affect the
    content.
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
    return stream.eof  # same result without the highest bit: it was padding


def _damaged(oid: Oid) -> StoreDamaged:
    return StoreDamaged(
        f"object {oid} is damaged: its content does not match its name", hint="gitcp doctor --store"
    )


class _unreadable:  # noqa: N801 -- reads as a statement
    """Convert OSError into StoreDamaged for this object."""

    def __init__(self, oid: Oid) -> None:
        self._oid = oid

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, OSError):
            raise StoreDamaged(
                f"object {self._oid} cannot be read: {error.strerror}", hint="gitcp doctor --store"
            ) from None


def make_fan_out(directory: Path) -> None:
    """Create the directory of a loose object, with its parent's group permissions."""
    try:
        directory.mkdir()
    except FileExistsError:
        return
    shared.give_directory(directory)
    mode = os.stat(directory.parent).st_mode
    if mode & stat.S_IWGRP:
        os.chmod(directory, stat.S_IMODE(mode))
    shared.adjust(directory)


def write_loose(path: Path, kind: str, data: bytes, level: int = LEVEL) -> None:
    """Write one loose object to the temporary name `path`. The caller syncs and renames it."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o444)
    with open(descriptor, "wb") as file:
        shared.give(descriptor, os.path.dirname(path))
        file.write(deflated(b"%s %d\0" % (kind.encode(), len(data)) + data, level))


def place_loose(temporary: Path, objects_dir: Path, oid: Oid) -> Path:
    """Rename a loose object, which has its final permissions, to its final name. Return its
    directory, which the caller syncs.
    """
    directory = objects_dir / oid[:2]
    for _ in range(TRIES):
        make_fan_out(directory)
        with suppress(FileNotFoundError):
            os.rename(temporary, directory / oid[2:])
            return directory
    raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))


def flush_loose(
    objects_dir: Path,
    objects: Mapping[Oid, tuple[str, bytes]],
    written: dict[Oid, Path],
    levels: Mapping[Oid, int],
) -> None:
    """Write these objects as loose ones, and place those already `written` under temporary names,
    which are then removed from `written`. `levels` says of some how hard to compress them.

    All are written before the first is synced: the disk then makes one round instead of one for
    each file.
    """
    for oid, (kind, data) in objects.items():
        if oid not in written:
            written[oid] = objects_dir / f"tmp_obj_gitcp_{os.urandom(6).hex()}"
            write_loose(written[oid], kind, data, levels.get(oid, LEVEL))
    _set_permissions(written.values(), objects_dir)
    sync_paths(written.values())
    existing = set(os.listdir(objects_dir))
    touched = {place_loose(temporary, objects_dir, oid) for oid, temporary in written.items()}
    if any(directory.name not in existing for directory in touched):
        # In a replayed power cut, the name of a new directory was lost, and with it synced objects.
        touched.add(objects_dir)
    sync_paths(touched)  # a directory may be gone if git has just packed its objects
    written.clear()


def _set_permissions(temporaries: Iterable[Path], objects_dir: Path) -> None:
    """Give new files of one umask, if there are any, the permissions of objects."""
    mode = None
    for path in temporaries:
        if mode is None:
            mode = shared.object_mode(os.stat(path).st_mode, objects_dir)
        os.chmod(path, mode)


class failures_named:  # noqa: N801 -- reads as a statement
    """Convert OSError of a failed write into gitcp's errors, after calling `undo`."""

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
