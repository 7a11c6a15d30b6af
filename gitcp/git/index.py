"""Read git's index: the tracked paths, their blobs, and the stat data by which git detects
unchanged files.

Never writes it and takes no lock. Versions 2 to 4 are parsed here, because starting a command costs
as much as a whole save; rare variants (a split or sparse index, future formats) are read with `git
ls-files`.
"""

from __future__ import annotations

import hashlib
import os
import stat
import struct
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from gitcp.errors import GitcpError, GitFailed
from gitcp.fastpath import fingerprint
from gitcp.fastpath.fingerprint import Fingerprint
from gitcp.git.object_format import FORMATS, SHA1
from gitcp.model import EXECUTABLE, FILE, GITLINK, SYMLINK, IndexEntry, Oid

if TYPE_CHECKING:
    from gitcp.git.repo import Repository

STAGE = 3
INTENT_TO_ADD = 4
SKIP_WORKTREE = 8
ASSUME_UNCHANGED = 16

EMPTY_BLOBS = frozenset(bytes.fromhex(each.empty_blob) for each in FORMATS.values())

_HEADS = {each.raw: struct.Struct(f">40s{each.raw}sH") for each in FORMATS.values()}
"""Of each format: the stat data, the object's name and the flags."""

_STAT = struct.Struct(">10I")
_LOW = 0xFFFFFFFF

_MODES = {struct.pack(">I", mode): mode for mode in (FILE, EXECUTABLE, SYMLINK, GITLINK)}
_LISTED = (
    rb"(\d{6}) ([0-9a-f]+) (\d)\t([^\0]*)\0  ctime: (\d+):(\d+)\n  mtime: (\d+):(\d+)\n"
    rb"  dev: (\d+)\tino: (\d+)\n  uid: (\d+)\tgid: (\d+)\n  size: (\d+)\tflags: ([0-9a-f]+)\n"
)

Slot = tuple[int, bytes, int, bytes]
"""One entry: its mode, its raw object id, its flags, and its 40 bytes of stat data (b"" if
unknown).
"""


Found = tuple[bytes, int, int, int]
"""The name of an entry, its flags, and where in the data it starts and ends."""


class Folder:
    """The index entries directly in one directory. A name has one slot, or several in a conflict.

    Entries are decoded from `data` on demand: of a large index only `runs` are in memory, where in
    the data entries of this directory follow each other: the offset of the first, their number, and
    the path before it, from which version 4 abbreviates. `entries` are those of an index that git
    listed.
    """

    __slots__ = ("_data", "_files", "_raw", "entries", "folders", "runs")

    def __init__(self, data: bytes = b"", raw: int = SHA1.raw) -> None:
        self.folders: frozenset[bytes] | set[bytes] = frozenset()
        self.entries: list[Found] | None = None
        self.runs: tuple[tuple[int, int, bytes], ...] = ()
        self._data = data
        self._raw = raw
        self._files: dict[bytes, tuple[Slot, ...]] | None = None

    def _listed(self) -> list[Found]:
        if self.entries is not None:
            return self.entries
        return [
            (path.rpartition(b"/")[2], flags, start, end)
            for offset, count, before in self.runs
            for path, flags, start, end, _ in _decoded(self._data, self._raw, offset, count, before)
        ]

    @property
    def files(self) -> dict[bytes, tuple[Slot, ...]]:
        """Return the slots by name."""
        if self._files is None:
            self._files = {}
            head = _HEADS[self._raw]
            for name, flags, start, _ in self._listed():
                stats, oid, _ = head.unpack_from(self._data, start)
                kind = stats[24:28]
                slot = (_MODES.get(kind) or int.from_bytes(kind, "big"), oid, flags, stats)
                self._files[name] = (*self._files.get(name, ()), slot)
        return self._files

    def digest(self) -> bytes:
        """Return a digest that differs if folders differ in more than stat data."""
        data = self._data
        # Include the name: version 4 stores only a part of it.
        seen = [
            data[start + 24 : start + 28] + data[start + 40 : end] + name
            for name, _, start, end in self._listed()
        ]
        everything = b"\0".join((*seen, b"", b"/".join(sorted(self.folders))))
        return hashlib.sha1(everything, usedforsecurity=False).digest()


class Index(NamedTuple):
    """The whole index: every directory with tracked entries in or below it, the root as b""."""

    folders: dict[bytes, Folder]
    mtime_ns: int

    def proves(self, slot: Slot, status: os.stat_result) -> bool:
        """Return whether the file with this lstat result has exactly the content of the slot's
        blob.

        Uses git's rule: equal stat data that is older than the index (else the file could have
        changed within the same clock tick). The index's flags are no proof.
        """
        mode, oid, flags, data = slot
        if flags or not data or mode != git_mode(status.st_mode):
            return False
        ctime, ctime_ns, mtime, mtime_ns, _, inode, _, _, _, size = _STAT.unpack(data)
        if not size and oid not in EMPTY_BLOBS:
            return False
        return bool(
            size == status.st_size & _LOW
            and mtime * 10**9 + mtime_ns == status.st_mtime_ns < self.mtime_ns
            and ctime * 10**9 + ctime_ns == status.st_ctime_ns
            and inode == status.st_ino & _LOW
        )


def git_mode(mode: int) -> int:
    """Return the mode that git stores for a file with this `st_mode`, 0 if git cannot store it."""
    if stat.S_ISREG(mode):
        return EXECUTABLE if mode & stat.S_IXUSR else FILE
    return SYMLINK if stat.S_ISLNK(mode) else 0


def current_fingerprint(repo: Repository) -> Fingerprint | None:
    """Return the fingerprint of the index file, None if there is none. Raises OSError."""
    try:
        status = os.stat(repo.index)
    except FileNotFoundError:
        return None
    return fingerprint.of(status)


def read(repo: Repository) -> Index:
    """Return the index of this working tree, an empty one if there is none.

    Raises GitcpError if it is unreadable, GitFailed if git cannot parse it either.
    """
    try:
        with open(repo.index, "rb") as file:
            mtime_ns = os.fstat(file.fileno()).st_mtime_ns
            data = file.read()
    except FileNotFoundError:
        return Index({b"": Folder()}, 0)
    except OSError as error:
        raise GitcpError(
            f"git's index in {repo.git_dir} cannot be read: {error.strerror}; nothing was saved"
        ) from None
    try:
        folders = _parse(data, repo.object_format.raw)
    except (struct.error, ValueError, IndexError):
        folders = None
    return Index(folders if folders is not None else _ask(repo), mtime_ns)


def read_index(repo: Repository) -> list[IndexEntry]:
    """Return every entry of the index as a value, unordered."""
    return [
        entry_of(path + b"/" + name if path else name, slot)
        for path, folder in read(repo).folders.items()
        for name, slots in folder.files.items()
        for slot in slots
    ]


def entry_of(path: bytes, slot: Slot | tuple[int, bytes, int]) -> IndexEntry:
    """Return a slot as a value."""
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


class _FolderBuilder:
    """The folders of an index while it is parsed."""

    def __init__(self, data: bytes, raw: int) -> None:
        self._data = data
        self._raw = raw
        self.found = {b"": Folder(data, raw)}

    def at(self, path: bytes) -> Folder:
        """Return the folder of a directory, adding it to its parents if new."""
        folder = self.found.get(path)
        if folder is None:
            folder = self.found[path] = Folder(self._data, self._raw)
            parent, _, name = path.rpartition(b"/")
            above = self.at(parent)
            if not above.folders:
                above.folders = set()  # most directories have none
            above.folders.add(name)  # type: ignore[union-attr]
        return folder


def _parse(data: bytes, raw: int) -> dict[bytes, Folder] | None:
    """Return the folders of a plain index with object ids of `raw` bytes, None if `git` must read
    it. Raises struct.error, ValueError or IndexError for invalid data.
    """
    signature, version, count = struct.unpack_from(">4sII", data)
    if signature != b"DIRC" or version not in (2, 3, 4):
        return None
    folders = _FolderBuilder(data, raw)
    position, last, previous = 12, None, b""
    begun, length, before = 12, 0, b""
    for path, _, start, _, following in _decoded(data, raw, 12, count, b""):
        parent = path.rpartition(b"/")[0]
        if parent != last:  # they come in path order
            if last is not None:
                folders.at(last).runs += ((begun, length, before),)
            begun, length, before, last = start, 0, previous, parent
        length, previous, position = length + 1, path, following
    if last is not None:
        folders.at(last).runs += ((begun, length, before),)
    return folders.found if _is_plain(data, position, raw) else None


def _decoded(
    data: bytes, raw: int, position: int, count: int, path: bytes
) -> Iterator[tuple[bytes, int, int, int, int]]:
    """Yield `count` entries: path, flags, start, end, and where the next one starts. `path` is that
    of the entry before.
    """
    version, bits_at = data[7], 40 + raw
    for _ in range(count):  # the hot loop
        start, flags = position + bits_at + 2, 0
        bits = data[start - 2] << 8 | data[start - 1]
        if bits & 0xF000:
            flags = bits >> 12 & STAGE | (ASSUME_UNCHANGED if bits & 0x8000 else 0)
            if bits & 0x4000:
                flags |= _extended(data[start] << 8)
                start += 2
        if version == 4:
            dropped, start = _varint(data, start)
            end = data.index(b"\0", start)
            path = path[: len(path) - dropped] + data[start:end]
            following = end + 1
        else:
            length = bits & 0xFFF
            end = start + length if length < 0xFFF else data.index(b"\0", start + length)
            path = data[start:end]
            following = position + (end - position + 8 & ~7)
        yield path, flags, position, end, following
        position = following


def _extended(bits: int) -> int:
    return (SKIP_WORKTREE if bits & 0x4000 else 0) | (INTENT_TO_ADD if bits & 0x2000 else 0)


def _varint(data: bytes, position: int) -> tuple[int, int]:
    """Return the number in git's offset encoding (big-endian groups of seven bits, each
    continuation adding one) and the position after it.
    """
    byte = data[position]
    value = byte & 0x7F
    while byte & 0x80:
        position += 1
        byte = data[position]
        value = (value + 1 << 7) | byte & 0x7F
    return value, position + 1


def _is_plain(data: bytes, position: int, raw: int) -> bool:
    """Return whether no required extension follows the entries; those have lower-case names and
    change the meaning.
    """
    while position + 8 <= len(data) - raw:
        name, size = struct.unpack_from(">4sI", data, position)
        if not name[:1].isupper():
            return False
        position += 8 + size
    return True


def _ask(repo: Repository) -> dict[bytes, Folder]:
    """Return the folders as `git ls-files` lists them, which expands split and sparse indexes."""
    import re  # not needed for an ordinary index

    # Without this setting git drops the skip-worktree flag if the file exists.
    as_stored = b"sparse.expectFilesOutsideOfPatterns=true"
    output = repo.git("-c", as_stored, "ls-files", "--stage", "--debug", "-z")
    raw = repo.object_format.raw
    head = _HEADS[raw]
    data, entries = bytearray(), []
    position = 0
    for match in re.finditer(_LISTED, output):
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
        data += head.pack(
            _STAT.pack(*times, dev, ino, int(mode, 8), *owner), bytes.fromhex(oid.decode()), flags
        )
    if position != len(output):
        raise GitFailed(
            f"`git ls-files --debug` printed the index of {repo.root} in an unknown format"
        )
    folders = _FolderBuilder(bytes(data), raw)
    for path, flags, start in entries:
        parent, _, name = path.rpartition(b"/")
        folder = folders.at(parent)
        folder.entries = folder.entries or []
        folder.entries.append((name, flags, start, start + head.size))
    return folders.found
