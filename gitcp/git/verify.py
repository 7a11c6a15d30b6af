"""What lies on disk, held against itself: ref files, packs and their indexes, loose objects. Reads only.

Whether objects hold what their names say is seen by reading them. Here is what reading does not see: a ref that is
garbage, a byte in a part of a pack that no object of ours uses, a bit that compression leaves unused. It is no
replacement for `git fsck`, which judges what objects say; this asks whether any byte is another one than was written.
"""

from __future__ import annotations

import hashlib
import os
import re
import struct
import subprocess
import zlib
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from gitcp import shared
from gitcp.errors import StoreDamaged
from gitcp.git import process
from gitcp.git.objects import Objects
from gitcp.git.packs import PackIndex, oid_of
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

    `peeled` is what packed-refs says that tags are on. `near` are packed refs whose names begin with something that is
    one byte away from the prefix.
    """

    refs: dict[str, Oid]
    peeled: dict[str, Oid]
    near: dict[str, Oid]
    faults: list[Fault]


# ---------------------------------------------------------------- refs


def read_refs(common_dir: Path, prefix: str) -> Refs:
    """Every ref below `prefix`, each read by itself: one that is garbage is a fault and hides no other."""
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
    """What of gitcp's the other members of a shared repository cannot use: the first path, and how many there are."""
    places = (repo.common_dir / "refs" / "gitcp", repo.common_dir / "gitcp", repo.git_dir / "gitcp")
    found = list(dict.fromkeys(path for place in places for path in shared.unshared(place)))
    if not found:
        return None
    what = (
        f"has permissions (with {len(found) - 1} other paths) that shut out members of this shared repository: their "
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
            elif len(name) > len(prefix) and sum(a != b for a, b in zip(name, prefix, strict=False)) == 1:
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
    """The packs, their indexes, and the other files that git finds objects by, that do not match their checksums."""
    patterns = ("pack/*.idx", "pack/*.pack", "pack/multi-pack-index", "info/commit-graph", "info/commit-graphs/*.graph")
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
    return not names._usable or any(oid in names for oid in used)


def _is_sound(path: Path) -> bool:
    """Whether a file ends in the SHA-1 of all that comes before. One that is gone was repacked just now."""
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
    """The objects (20-byte names) of unsound packs whose bytes there are not those that a sound index has the CRC of.

    Some of them read well: not every bit of what is packed says something.
    """
    packs = (path for path in unsound if path.suffix == ".pack" and _is_sound(path.with_suffix(".idx")))
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
    """Where each object of an index of version 2 stands, its name and its CRC, in the order of the pack."""
    [count] = struct.unpack_from(">I", index, NAMES - 4)
    checks, offsets, large = (NAMES + count * width for width in (20, 24, 28))

    def place(number: int) -> int:
        [found] = struct.unpack_from(">I", index, offsets + 4 * number)
        if found >> 31:
            [found] = struct.unpack_from(">Q", index, large + 8 * (found & 0x7FFFFFFF))
        return int(found)

    names = (index[start : start + 20] for start in range(NAMES, checks, 20))
    crcs = struct.unpack_from(f">{count}I", index, checks)
    return sorted((place(number), name, crc) for number, (name, crc) in enumerate(zip(names, crcs, strict=True)))


class Careful(Objects):
    """Objects of which what lies in packs is read by `git`: a damaged index has made libgit2 crash."""

    def __init__(self, repo: Repository, git: GitReader) -> None:
        super().__init__(repo)
        self._git = git

    def read(self, oid: Oid) -> tuple[str, bytes]:
        return self._read_loose(oid) or self._git.read(oid)


class GitReader:
    """A `git cat-file` that reads objects on demand. If it dies of one, it is started again for the next."""

    def __init__(self, repo: Repository) -> None:
        self._repo = repo
        self._git: subprocess.Popen[bytes] | None = None

    def read(self, oid: Oid) -> tuple[str, bytes]:
        """An object's kind and content, hashed again. Raises StoreDamaged."""
        try:
            return self._ask(oid)
        except (OSError, ValueError, MemoryError, OverflowError):
            self.close()
            raise StoreDamaged(f"object {oid} is damaged: git cannot read it", hint="gitcp check") from None

    def close(self) -> None:
        """End the git process."""
        if self._git is not None:
            self._git.kill()
            self._git.communicate()
            self._git = None

    def _start(self) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            ["git", *process.SAFE, *self._repo.told, "cat-file", "--batch"],
            cwd=self._repo.root,
            env=process.scrubbed(self._repo.host.env),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )

    def _ask(self, oid: Oid) -> tuple[str, bytes]:
        git = self._git = self._git or self._start()
        assert git.stdin is not None
        assert git.stdout is not None
        git.stdin.write(f"{oid}\n".encode())
        git.stdin.flush()
        header = git.stdout.readline().decode("ascii").split()
        if header[1:] == ["missing"]:
            raise StoreDamaged(f"object {oid} is missing", hint="gitcp check")
        _, kind, size = header
        data = git.stdout.read(int(size) + 1)[:-1]
        if len(data) != int(size) or oid_of(kind, data) != oid:
            raise ValueError
        return kind, data


# ---------------------------------------------------------------- loose objects


def has_stray_bit(objects: Objects, oid: Oid) -> bool:
    """Whether in the file of a loose object that reads well a bit is set that every program leaves at zero.

    These are the bits that fill the last byte of the compressed data, and the byte that heads an uncompressed block
    at its start. What else could change unseen (one of two ways to say the same) changes nothing that is read.
    """
    for directory in objects._directories:
        packed = _read(directory / oid[:2] / oid[2:])
        if packed:
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
