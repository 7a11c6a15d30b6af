"""What lies on disk, held against itself: ref files, packs and their indexes, loose objects. Reads
only.

Whether objects hold what their names say is seen by reading them. Here is what reading does not
see: a ref that is garbage, a byte in a part of a pack that no object of ours uses, a bit that
compression leaves unused. It is no replacement for `git fsck`, which judges what objects say; this
asks whether any byte is another one than was written.
"""

from __future__ import annotations

import hashlib
import os
import re
import struct
import zlib
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from gitcp.git import shared
from gitcp.git.objects import Objects
from gitcp.git.packs import PackIndex
from gitcp.git.repo import Repository
from gitcp.model import Oid

VALUE = re.compile(rb"([0-9a-f]{40})\n?")
PEELED = re.compile(rb"\^([0-9a-f]{40})")
HEADER = re.compile(rb"# pack-refs with:[ a-z-]*")
PACKED = re.compile(rb"([0-9a-f]{40}) ([^\x00-\x20\x7f~^:?*\[\\]+)")

BLOCK = 1 << 20
NAMES, END = 8 + 4 * 256, 20
"""Where the names begin in the index of a pack; the bytes of the checksum at a pack's end."""


class Fault(NamedTuple):
    """A file, relative to the git directory, and what is wrong with it."""

    place: str
    what: str


class Refs(NamedTuple):
    """The refs below a prefix.

    `peeled` is what packed-refs says that tags are on. `near` are packed refs whose names begin
    with something that is one byte away from the prefix.
    """

    refs: dict[str, Oid]
    peeled: dict[str, Oid]
    near: dict[str, Oid]
    faults: list[Fault]


# ---------------------------------------------------------------- refs


def read_refs(common_dir: Path, prefix: str) -> Refs:
    """Every ref below `prefix`, each read by itself: one that is garbage is a fault and hides no
    other.
    """
    found = Refs({}, {}, {}, [])
    hidden = set()
    for path in _files(common_dir / prefix, found.faults):
        data = _read(path)
        if data is None:
            continue  # packed just now
        name = os.path.relpath(path, common_dir)
        hidden.add(name)
        if match := VALUE.fullmatch(data):
            found.refs[name] = _oid(match[1])
        else:
            found.faults.append(Fault(name, "does not hold an object's name"))
    _read_packed(common_dir, prefix, hidden, found)
    return found


def unshared(repo: Repository) -> Fault | None:
    """What of gitcp's the other members of a shared repository cannot use: the first path, and how
    many there are.
    """
    places = (repo.common_dir / "refs" / "gitcp", repo.common_dir / "gitcp", repo.git_dir / "gitcp")
    found = list(dict.fromkeys(path for place in places for path in shared.unshared(place)))
    if not found:
        return None
    what = (
        f"has permissions (with {len(found) - 1} other paths) that shut out members of this shared "
        "repository: their "
        "`git gc` may delete checkpoints, and their saves fail. The owner's next save repairs it"
    )
    return Fault(os.path.relpath(found[0], repo.common_dir), what)


def _files(directory: Path, faults: list[Fault]) -> Iterator[Path]:
    def unreadable(error: OSError) -> None:
        if not isinstance(error, FileNotFoundError):
            faults.append(Fault(str(error.filename), f"cannot be read: {error.strerror}"))

    for place, _, names in os.walk(directory, onerror=unreadable):
        yield from (Path(place, name) for name in sorted(names) if not name.endswith(".lock"))


def _read(path: Path) -> bytes | None:
    """The bytes of a file, none of one that cannot be read, None where there is none."""
    try:
        return path.read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError:
        return b""


def _read_packed(common_dir: Path, prefix: str, hidden: Collection[str], found: Refs) -> None:
    """A packed ref counts where no file of its own hides it."""
    name = ""
    data = _read(common_dir / "packed-refs") or b"\n"
    if not data.endswith(b"\n"):
        found.faults.append(Fault("packed-refs", "is cut off in its last line"))
    for number, line in enumerate(data.removesuffix(b"\n").split(b"\n"), 1):
        if match := PACKED.fullmatch(line):
            name = os.fsdecode(match[2])
            if name.startswith(prefix) and name not in hidden:
                found.refs[name] = _oid(match[1])
            elif (
                len(name) > len(prefix)
                and sum(a != b for a, b in zip(name, prefix, strict=False)) == 1
            ):
                found.near[name] = _oid(match[1])
        elif match := PEELED.fullmatch(line):
            if found.refs.get(name) and name not in hidden:
                found.peeled[name] = _oid(match[1])
        elif line and not HEADER.fullmatch(line):
            found.faults.append(Fault("packed-refs", f"line {number} is not one that git writes"))


def _oid(digits: bytes) -> Oid:
    return Oid(digits.decode("ascii"))


# ---------------------------------------------------------------- packs


def unsound_files(objects: Objects) -> list[Path]:
    """The packs, their indexes, and the other files that git finds objects by, that do not match
    their checksums.
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
        for directory in objects._directories
        for pattern in patterns
        for path in sorted(directory.glob(pattern))
        if not _is_sound(path)
    ]


def concerns(path: Path, used: Collection[bytes]) -> bool:
    """Whether an unsound file is in the way of one of the objects `used` (20-byte names).

    A pack is if it holds one. Anything else may hide one.
    """
    index = path.with_suffix(".idx")
    if path.suffix != ".pack" or not _is_sound(index):
        return True
    try:
        names = PackIndex(index)
    except FileNotFoundError:
        return False
    return not names.is_usable or any(oid in names for oid in used)


def _is_sound(path: Path) -> bool:
    """Whether a file ends in the SHA-1 of all that comes before. One that is gone was repacked just
    now.
    """
    digest = hashlib.sha1(usedforsecurity=False)
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


def changed_in(unsound: Iterable[Path]) -> frozenset[bytes]:
    """The objects (20-byte names) of unsound packs whose bytes there are not those that a sound
    index has the CRC of.

    Some of them read well: not every bit of what is packed says something.
    """
    packs = (
        path for path in unsound if path.suffix == ".pack" and _is_sound(path.with_suffix(".idx"))
    )
    return frozenset(name for path in packs for name in _changed_in(path))


def _changed_in(pack: Path) -> Iterator[bytes]:
    try:
        index = pack.with_suffix(".idx").read_bytes()
        file = pack.open("rb")
    except OSError:
        return
    with file:
        if not index.startswith(b"\xfftOc\0\0\0\2"):
            return
        places = list(_places(index))
        ends = [place for place, _, _ in places[1:]] + [os.fstat(file.fileno()).st_size - END]
        for (place, name, expected), end in zip(places, ends, strict=True):
            found, left = 0, end - place
            file.seek(place)
            while left > 0 and (block := file.read(min(BLOCK, left))):
                found, left = zlib.crc32(block, found), left - len(block)
            if found != expected:
                yield name


def _places(index: bytes) -> list[tuple[int, bytes, int]]:
    """Where each object of an index of version 2 stands, its name and its CRC, in the order of the
    pack.
    """
    [count] = struct.unpack_from(">I", index, NAMES - 4)
    checks, offsets, large = (NAMES + count * width for width in (20, 24, 28))

    def place(number: int) -> int:
        [found] = struct.unpack_from(">I", index, offsets + 4 * number)
        if found >> 31:
            [found] = struct.unpack_from(">Q", index, large + 8 * (found & 0x7FFFFFFF))
        return int(found)

    names = (index[start : start + 20] for start in range(NAMES, checks, 20))
    crcs = struct.unpack_from(f">{count}I", index, checks)
    return sorted(
        (place(number), name, crc)
        for number, (name, crc) in enumerate(zip(names, crcs, strict=True))
    )
