"""Reads git's index: which paths are tracked, with what, and the stat data by which git knows a
file is unchanged.

Never writes it and takes no lock. Versions 2 to 4 are parsed here, because starting a command costs
as much as a whole save; whatever is rarer (a split or a sparse index, a format to come) is asked of
`git ls-files`.
"""

from __future__ import annotations

import hashlib
import os
import stat
import struct
from typing import TYPE_CHECKING, NamedTuple

from gitcp.errors import GitcpError, GitFailed
from gitcp.model import EXECUTABLE, FILE, GITLINK, SYMLINK, IndexEntry, Oid

if TYPE_CHECKING:
    from gitcp.git.repo import Repository

STAGE = 3
INTENT_TO_ADD = 4
SKIP_WORKTREE = 8
ASSUME_UNCHANGED = 16

EMPTY_BLOB = bytes.fromhex("e69de29bb2d1d6434b8b29ae775ad8c2e48c5391")

_HEAD = struct.Struct(">40s20sH")
_STAT = struct.Struct(">10I")
_LOW = 0xFFFFFFFF

_MODES = {struct.pack(">I", mode): mode for mode in (FILE, EXECUTABLE, SYMLINK, GITLINK)}
_LISTED = (
    rb"(\d{6}) ([0-9a-f]{40}) (\d)\t([^\0]*)\0  ctime: (\d+):(\d+)\n  mtime: (\d+):(\d+)\n"
    rb"  dev: (\d+)\tino: (\d+)\n  uid: (\d+)\tgid: (\d+)\n  size: (\d+)\tflags: ([0-9a-f]+)\n"
)

Slot = tuple[int, bytes, int, bytes]
"""One entry: its mode, the 20 bytes of its object name, its flags, and its 40 bytes of stat data
(b"" if unknown).
"""

Found = tuple[int, int, int, int]
"""What tells one index file from the next: inode, size, mtime and ctime (nanoseconds)."""


class Folder:
    """What the index has directly in one directory. A name has one slot, or several in a conflict.

    `data` is what the entries are read from, each when it is asked for: of most directories only
    the digest is.
    """

    __slots__ = ("_data", "_files", "entries", "folders")

    def __init__(self, data: bytes = b"") -> None:
        self.folders: set[bytes] = set()
        self.entries: list[tuple[bytes, int, int, int]] = []
        """Name, flags, and where in the data the entry starts and ends."""
        self._data = data
        self._files: dict[bytes, tuple[Slot, ...]] | None = None

    @property
    def files(self) -> dict[bytes, tuple[Slot, ...]]:
        """The slots, by name."""
        if self._files is None:
            self._files = {}
            for name, flags, start, _ in self.entries:
                stats, oid, _ = _HEAD.unpack_from(self._data, start)
                kind = stats[24:28]
                slot = (_MODES.get(kind) or int.from_bytes(kind, "big"), oid, flags, stats)
                self._files[name] = (*self._files.get(name, ()), slot)
        return self._files

    def digest(self) -> bytes:
        """Different for folders that differ in more than stat data."""
        data = self._data
        # The name too: version 4 writes a part of it.
        seen = [
            data[start + 24 : start + 28] + data[start + 40 : end] + name
            for name, _, start, end in self.entries
        ]
        everything = b"\0".join((*seen, b"", b"/".join(sorted(self.folders))))
        return hashlib.sha1(everything, usedforsecurity=False).digest()


class Index(NamedTuple):
    """The whole index: every directory that has something tracked in or below it, the root as
    b"".
    """

    folders: dict[bytes, Folder]
    mtime_ns: int

    def proves(self, slot: Slot, found: os.stat_result) -> bool:
        """Whether the file that `found` describes holds just what the slot's blob was made of.

        By git's own rule: the stat data is the same, and older than the index (else the file could
        have changed in the same tick). The index's flags are no proof.
        """
        mode, oid, flags, data = slot
        if flags or not data or mode != git_mode(found.st_mode):
            return False
        ctime, ctime_ns, mtime, mtime_ns, _, inode, _, _, _, size = _STAT.unpack(data)
        if not size and oid != EMPTY_BLOB:
            return False
        return bool(
            size == found.st_size & _LOW
            and mtime * 10**9 + mtime_ns == found.st_mtime_ns < self.mtime_ns
            and ctime * 10**9 + ctime_ns == found.st_ctime_ns
            and inode == found.st_ino & _LOW
        )


def git_mode(mode: int) -> int:
    """The mode git stores for a file of this `st_mode`; 0 for what git does not store."""
    if stat.S_ISREG(mode):
        return EXECUTABLE if mode & stat.S_IXUSR else FILE
    return SYMLINK if stat.S_ISLNK(mode) else 0


def found(repo: Repository) -> Found | None:
    """Which index file there is now; None if there is none."""
    try:
        status = os.stat(repo.index)
    except FileNotFoundError:
        return None
    return status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns


def read(repo: Repository) -> Index:
    """The index of this working tree; an empty one if there is none.

    Raises GitcpError if it cannot be read, GitFailed if git does not understand it either.
    """
    try:
        with open(repo.index, "rb") as file:
            mtime_ns = os.fstat(file.fileno()).st_mtime_ns
            data = file.read()
    except FileNotFoundError:
        return Index({b"": Folder()}, 0)
    except OSError as error:
        raise GitcpError(
            f"git's index in {repo.git_dir} cannot be read: {error.strerror}. Nothing was saved"
        ) from None
    try:
        folders = _parse(data)
    except (struct.error, ValueError, IndexError):
        folders = None
    return Index(folders if folders is not None else _ask(repo), mtime_ns)


def read_index(repo: Repository) -> list[IndexEntry]:
    """Every entry of the index as a value, in no particular order."""
    return [
        entry_of(path + b"/" + name if path else name, slot)
        for path, folder in read(repo).folders.items()
        for name, slots in folder.files.items()
        for slot in slots
    ]


def entry_of(path: bytes, slot: Slot | tuple[int, bytes, int]) -> IndexEntry:
    """A slot as a value."""
    mode, oid, flags = slot[:3]
    return IndexEntry(
        path,
        mode,
        Oid(oid.hex()),
        stage=flags & STAGE,
        intent_to_add=bool(flags & INTENT_TO_ADD),
        skip_worktree=bool(flags & SKIP_WORKTREE),
        assume_unchanged=bool(flags & ASSUME_UNCHANGED),
    )


class _Folders:
    """Folders as they fill up."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self.found = {b"": Folder(data)}

    def at(self, path: bytes) -> Folder:
        """The folder of a directory, known to the one above it."""
        folder = self.found.get(path)
        if folder is None:
            folder = self.found[path] = Folder(self._data)
            parent, _, name = path.rpartition(b"/")
            self.at(parent).folders.add(name)
        return folder


def _parse(data: bytes) -> dict[bytes, Folder] | None:
    """The folders of a plain index; None where `git` must be asked. Raises for what is no index at
    all.
    """
    signature, version, count = struct.unpack_from(">4sII", data)
    if signature != b"DIRC" or version not in (2, 3, 4):
        return None
    folders = _Folders(data)
    position, path, last = 12, b"", None
    for _ in range(count):  # what a changed index costs
        bits, start, flags = data[position + 60] << 8 | data[position + 61], position + 62, 0
        if bits & 0xF000:
            flags = bits >> 12 & STAGE | (ASSUME_UNCHANGED if bits & 0x8000 else 0)
            if bits & 0x4000:
                start += 2
                flags |= _extended(data[position + 62] << 8)
        if version == 4:
            kept, start = _varint(data, start)
            end = data.index(b"\0", start)
            path = path[: len(path) - kept] + data[start:end]
            following = end + 1
        else:
            length = bits & 0xFFF
            end = start + length if length < 0xFFF else data.index(b"\0", start + length)
            path = data[start:end]
            following = position + (end - position + 8 & ~7)
        parent, _, name = path.rpartition(b"/")
        if parent != last:  # they come in path order
            entries, last = folders.at(parent).entries, parent
        entries.append((name, flags, position, end))
        position = following
    return folders.found if _is_plain(data, position) else None


def _extended(bits: int) -> int:
    return (SKIP_WORKTREE if bits & 0x4000 else 0) | (INTENT_TO_ADD if bits & 0x2000 else 0)


def _varint(data: bytes, position: int) -> tuple[int, int]:
    """git's offset encoding: big-endian groups of seven bits, each continuation counting one
    more.
    """
    byte = data[position]
    value = byte & 0x7F
    while byte & 0x80:
        position += 1
        byte = data[position]
        value = (value + 1 << 7) | byte & 0x7F
    return value, position + 1


def _is_plain(data: bytes, position: int) -> bool:
    """Whether no extension after the entries changes what they mean (those have names in lower
    case).
    """
    while position + 8 <= len(data) - 20:
        name, size = struct.unpack_from(">4sI", data, position)
        if not name[:1].isupper():
            return False
        position += 8 + size
    return True


def _ask(repo: Repository) -> dict[bytes, Folder]:
    """The folders as `git ls-files` lists them, which expands what is split or sparse."""
    import re  # not on the path of an ordinary index

    # Without the setting git drops the flag of what sparse checkout left out, where a file happens
    # to be there now.
    as_stored = b"sparse.expectFilesOutsideOfPatterns=true"
    listed = repo.git("-c", as_stored, "ls-files", "--stage", "--debug", "-z")
    data, entries = bytearray(), []
    position = 0
    for match in re.finditer(_LISTED, listed):
        if match.start() != position:
            break
        position = match.end()
        mode, oid, stage, path, *numbers, bits = match.groups()
        flags = (
            int(stage)
            | (ASSUME_UNCHANGED if int(bits, 16) & 0x8000 else 0)
            | _extended(int(bits, 16) >> 16)
        )
        times, (dev, ino, *owner) = map(int, numbers[:4]), map(int, numbers[4:])
        entries.append((path, flags, len(data)))
        data += _HEAD.pack(
            _STAT.pack(*times, dev, ino, int(mode, 8), *owner), bytes.fromhex(oid.decode()), flags
        )
    if position != len(listed):
        raise GitFailed(
            f"`git ls-files --debug` lists the index of {repo.root} in a way gitcp does not know"
        )
    folders = _Folders(bytes(data))
    for path, flags, start in entries:
        parent, _, name = path.rpartition(b"/")
        folders.at(parent).entries.append((name, flags, start, start + _HEAD.size))
    return folders.found
