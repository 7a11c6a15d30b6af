"""Verify files on disk: refs, packs and their indexes, loose objects. Reads only.

Reading an object verifies its hash. This module detects what reading does not: invalid refs,
changed bytes in unused parts of a pack, changed padding bits. It does not replace `git fsck`, which
checks the meaning of objects; it checks whether any byte differs from what was written.
"""

from __future__ import annotations

import os
import re
import struct
import zlib
from collections.abc import Collection, Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from gitcp import clock
from gitcp.errors import GitFailed
from gitcp.git import shared
from gitcp.git.object_format import FULL_NAME, ObjectFormat
from gitcp.git.packs import PackIndex
from gitcp.git.refs import STALE
from gitcp.git.repo import REFTABLE, Repository
from gitcp.model import Oid

_NAME = FULL_NAME.encode("ascii")
VALUE = re.compile(rb"(%s)\n?" % _NAME)
PEELED = re.compile(rb"\^(%s)" % _NAME)
HEADER = re.compile(rb"# pack-refs with:[ a-z-]*")
PACKED = re.compile(rb"(%s) ([^\x00-\x20\x7f~^:?*\[\\]+)" % _NAME)

LEFT_LOCK = "locks every ref: delete it if no git command is running"
LEFT_TABLE_LOCK = "stops git's gc: delete it if no git command is running"

BLOCK = 1 << 20
NAMES = 8 + 4 * 256
"""Where the names begin in the index of a pack."""


class ObjectFault(NamedTuple):
    """A file, relative to the git directory, and its problem."""

    path: str
    what: str


class RefChecks(NamedTuple):
    """The refs below a prefix.

    `peeled` are the targets of tags according to packed-refs. `near` are packed refs whose prefix
    differs in one byte.
    """

    refs: dict[str, Oid]
    peeled: dict[str, Oid]
    near: dict[str, Oid]
    faults: list[ObjectFault]


# ---------------------------------------------------------------- refs


def read_refs(repo: Repository, prefix: str) -> RefChecks:
    """Return every ref below `prefix`. One that is invalid is a fault and does not hide others."""
    if repo.ref_format == REFTABLE:
        return _read_tables(repo, prefix)
    return _read_files(repo.common_dir, prefix)


def _read_tables(repo: Repository, prefix: str) -> RefChecks:
    """Return the refs as git reads them, and as a fault each lock that a crash left."""
    result = RefChecks({}, {}, {}, [])
    try:
        result.refs.update(repo.refs.list(prefix))
    except GitFailed as error:
        result.faults.append(ObjectFault(REFTABLE, f"cannot be read: {error}"))
    for path in dict.fromkeys(repo.refs.files()):  # a linked working tree has one of its own
        for lock in sorted(Path(path).parent.glob("*.lock")):
            with suppress(FileNotFoundError):
                if clock.seconds() - lock.stat().st_mtime > STALE:
                    name = os.path.relpath(lock, repo.common_dir)
                    effect = LEFT_LOCK if lock.stem == Path(path).name else LEFT_TABLE_LOCK
                    result.faults.append(ObjectFault(name, effect))
    return result


def _read_files(common_dir: Path, prefix: str) -> RefChecks:
    result = RefChecks({}, {}, {}, [])
    hidden = set()
    for path in _files(common_dir / prefix, result.faults):
        data = _read(path)
        if data is None:
            continue  # packed just now
        name = os.path.relpath(path, common_dir)
        hidden.add(name)
        if match := VALUE.fullmatch(data):
            result.refs[name] = _oid(match[1])
        else:
            result.faults.append(ObjectFault(name, "does not hold an object's name"))
    _read_packed(common_dir, prefix, hidden, result)
    return result


def unshared(repo: Repository) -> ObjectFault | None:
    """Return the first of gitcp's paths that other members of a shared repository cannot use, with
    the number of others; None if there is none.
    """
    directories = (
        repo.common_dir / "refs" / "gitcp",
        repo.common_dir / "gitcp",
        repo.git_dir / "gitcp",
    )
    paths = list(dict.fromkeys(path for each in directories for path in shared.unshared(each)))
    if not paths:
        return None
    what = (
        f"has permissions (with {len(paths) - 1} other paths) that shut out members of this shared "
        "repository: their "
        "`git gc` may delete checkpoints, and their saves fail. The owner's next save repairs it"
    )
    return ObjectFault(os.path.relpath(paths[0], repo.common_dir), what)


def _files(directory: Path, faults: list[ObjectFault]) -> Iterator[Path]:
    def unreadable(error: OSError) -> None:
        if not isinstance(error, FileNotFoundError):
            faults.append(ObjectFault(str(error.filename), f"cannot be read: {error.strerror}"))

    for parent, _, names in os.walk(directory, onerror=unreadable):
        yield from (Path(parent, name) for name in sorted(names) if not name.endswith(".lock"))


def _read(path: Path) -> bytes | None:
    """Return the bytes of a file, b"" if it is unreadable, None if it is missing."""
    try:
        return path.read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError:
        return b""


def _read_packed(common_dir: Path, prefix: str, hidden: Collection[str], result: RefChecks) -> None:
    """Add the packed refs that no ref file overrides."""
    name = ""
    data = _read(common_dir / "packed-refs") or b"\n"
    if not data.endswith(b"\n"):
        result.faults.append(ObjectFault("packed-refs", "is cut off in its last line"))
    for number, line in enumerate(data.removesuffix(b"\n").split(b"\n"), 1):
        if match := PACKED.fullmatch(line):
            name = os.fsdecode(match[2])
            if name.startswith(prefix) and name not in hidden:
                result.refs[name] = _oid(match[1])
            elif (
                len(name) > len(prefix)
                and sum(a != b for a, b in zip(name, prefix, strict=False)) == 1
            ):
                result.near[name] = _oid(match[1])
        elif match := PEELED.fullmatch(line):
            if result.refs.get(name) and name not in hidden:
                result.peeled[name] = _oid(match[1])
        elif line and not HEADER.fullmatch(line):
            result.faults.append(
                ObjectFault("packed-refs", f"line {number} is not one that git writes")
            )


def _oid(digits: bytes) -> Oid:
    return Oid(digits.decode("ascii"))


# ---------------------------------------------------------------- packs


def unsound_files(
    directories: Iterable[Path],
    object_format: ObjectFormat,
    sound: Collection[Path] = (),
) -> list[Path]:
    """Return the packs, indexes and other lookup files of git in these objects directories that do
    not match their checksums. Those that are known to be `sound` are not read.
    """
    patterns = (
        "pack/*.idx",
        "pack/*.pack",
        "pack/multi-pack-index",
        "info/commit-graph",
        "info/commit-graphs/*.graph",
    )
    return [
        path
        for directory in directories
        for pattern in patterns
        for path in sorted(directory.glob(pattern))
        if path not in sound and not is_sound(path, object_format)
    ]


def concerns(path: Path, used: Collection[bytes], object_format: ObjectFormat) -> bool:
    """Return whether an unsound file may affect one of the objects `used` (raw ids).

    A pack does if it contains one. Any other file may hide one.
    """
    index = path.with_suffix(".idx")
    if path.suffix != ".pack" or not is_sound(index, object_format):
        return True
    try:
        names = PackIndex(index, object_format)
    except FileNotFoundError:
        return False
    return not names.is_usable or any(oid in names for oid in used)


def is_sound(path: Path, object_format: ObjectFormat) -> bool:
    """Return whether a file ends in the hash of all its other bytes. A missing file was repacked
    meanwhile.
    """
    digest = object_format.hasher()
    try:
        with path.open("rb") as file:
            left = os.fstat(file.fileno()).st_size - digest.digest_size
            while left > 0 and (block := file.read(min(BLOCK, left))):
                digest.update(block)
                left -= len(block)
            return left == 0 and file.read() == digest.digest()
    except FileNotFoundError:
        return True
    except OSError:
        return False


def changed_in(unsound: Iterable[Path], object_format: ObjectFormat) -> frozenset[bytes]:
    """Return the objects (raw ids) of unsound packs whose bytes do not match their CRC in a
    sound index.

    Some of them still read correctly: not every packed bit is significant.
    """
    packs = (
        path
        for path in unsound
        if path.suffix == ".pack" and is_sound(path.with_suffix(".idx"), object_format)
    )
    return frozenset(name for path in packs for name in _changed_in(path, object_format.raw))


def _changed_in(pack: Path, raw: int) -> Iterator[bytes]:
    try:
        index = pack.with_suffix(".idx").read_bytes()
        file = pack.open("rb")
    except OSError:
        return
    with file:
        if not index.startswith(b"\xfftOc\0\0\0\2"):
            return
        entries = list(_entries(index, raw))
        ends = [offset for offset, _, _ in entries[1:]] + [os.fstat(file.fileno()).st_size - raw]
        for (offset, name, expected), end in zip(entries, ends, strict=True):
            actual, left = 0, end - offset
            file.seek(offset)
            while left > 0 and (block := file.read(min(BLOCK, left))):
                actual, left = zlib.crc32(block, actual), left - len(block)
            if actual != expected:
                yield name


def _entries(index: bytes, raw: int) -> list[tuple[int, bytes, int]]:
    """Return the offset, id and CRC of each object in a version 2 index, in pack order."""
    [count] = struct.unpack_from(">I", index, NAMES - 4)
    checks, offsets, large = (NAMES + count * width for width in (raw, raw + 4, raw + 8))

    def offset(number: int) -> int:
        [value] = struct.unpack_from(">I", index, offsets + 4 * number)
        if value >> 31:
            [value] = struct.unpack_from(">Q", index, large + 8 * (value & 0x7FFFFFFF))
        return int(value)

    names = (index[start : start + raw] for start in range(NAMES, checks, raw))
    crcs = struct.unpack_from(f">{count}I", index, checks)
    return sorted(
        (offset(number), name, crc)
        for number, (name, crc) in enumerate(zip(names, crcs, strict=True))
    )
