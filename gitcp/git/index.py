"""Read git's index: the tracked paths, their blobs, and the stat data by which git detects
unchanged files.

Never writes it and takes no lock. Versions 2 to 4 are parsed here, because starting a command costs
as much as a whole save; rare variants (a split index, future formats) are read with `git
ls-files`.
"""

from __future__ import annotations

import hashlib
import os
import stat
import struct
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple, Protocol

from gitcp import fingerprint, regular
from gitcp.errors import GitFailed, IndexUnreadable
from gitcp.fingerprint import Fingerprint
from gitcp.git.object_format import FORMATS, SHA1
from gitcp.model import EXECUTABLE, FILE, GITLINK, SYMLINK, TREE, IndexEntry, Oid

if TYPE_CHECKING:
    from pathlib import Path

    from gitcp.git.object_format import ObjectFormat
    from gitcp.git.refs import Refs
    from gitcp.git.trees import TreeEntry
    from gitcp.model import Entry

STAGE = 3
INTENT_TO_ADD = 4
SKIP_WORKTREE = 8
ASSUME_UNCHANGED = 16

SIGNATURE = b"DIRC"
"""The first bytes of an index."""

SPARSE = b"sdir"
"""The extension of an index that has directories as entries."""

EMPTY_BLOBS = frozenset(bytes.fromhex(each.empty_blob) for each in FORMATS.values())

_HEADS = {each.raw: struct.Struct(f">40s{each.raw}sH") for each in FORMATS.values()}
"""Of each format: the stat data, the object's name and the flags."""

_STAT = struct.Struct(">10I")
_LOW = 0xFFFFFFFF

_MODES = {struct.pack(">I", mode): mode for mode in (FILE, EXECUTABLE, SYMLINK, GITLINK, TREE)}
_LISTED = (
    rb"(\d{6}) ([0-9a-f]+) (\d)\t([^\0]*)\0  ctime: (\d+):(\d+)\n  mtime: (\d+):(\d+)\n"
    rb"  dev: (\d+)\tino: (\d+)\n  uid: (\d+)\tgid: (\d+)\n  size: (\d+)\tflags: ([0-9a-f]+)\n"
)


class OpenRepository(Protocol):
    """What the modules below gitcp.git.repo need of a repository."""

    root: Path
    git_dir: Path
    common_dir: Path
    index: Path

    @property
    def object_format(self) -> ObjectFormat: ...

    @property
    def ref_format(self) -> str: ...

    @property
    def refs(self) -> Refs: ...

    @property
    def state_dir(self) -> Path: ...

    def git_once(self, *args: str | bytes) -> bytes: ...


Slot = tuple[int, bytes, int, bytes]
"""One entry: its mode, its raw object id, its flags, and its 40 bytes of stat data (b"" if
unknown).
"""


Found = tuple[bytes, int, bytes, int, int]
"""The name of an entry, its flags, the data that it is in, and where it starts and ends there."""

IN_MEMORY = 16 << 20
"""Bytes of an index that is read at once; of a larger one, what is asked for."""

WINDOW = 1 << 20
"""Bytes of an index that are parsed at a time."""


class _Content:
    """The bytes of an index file with object ids of `raw` bytes. A large one stays open: git
    replaces the file, and writes nothing into it.
    """

    __slots__ = ("_data", "_descriptor", "raw", "version")

    def __init__(self, raw: int, data: bytes = b"", descriptor: int = -1) -> None:
        self.raw = raw
        self._data = data
        self._descriptor = descriptor
        self.version = int.from_bytes(self.read(4, 8), "big")

    def __del__(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)

    def read(self, start: int, end: int) -> bytes:
        """Return these bytes, as many of them as there are."""
        if self._descriptor < 0:
            return self._data[start:end]
        return os.pread(self._descriptor, end - start, start)


class Folder:
    """The index entries directly in one directory. A name has one slot, or several in a conflict;
    one of the mode TREE stands for all that a sparse index has below that name.

    Entries are decoded from `content` on demand: of a large index only `runs` are in memory, where
    entries of this directory follow each other: the offset of the first, their bytes, their number,
    and the path before it, from which version 4 abbreviates. `entries` are those that are in no
    index file. `trees` are the names with the mode TREE; use them after `files`.
    """

    __slots__ = ("_content", "_files", "entries", "folders", "runs", "trees")

    def __init__(self, content: _Content | None = None) -> None:
        self.folders: frozenset[bytes] | set[bytes] = frozenset()
        self.entries: list[Found] | None = None
        self.runs: tuple[tuple[int, int, int, bytes], ...] = ()
        self.trees: frozenset[bytes] = frozenset()
        self._content = content
        self._files: dict[bytes, tuple[Slot, ...]] | None = None

    def _listed(self) -> Iterator[Found]:
        yield from self.entries or ()
        if self._content is None:
            return
        for offset, size, count, before in self.runs:
            data = self._content.read(offset, offset + size)
            for path, flags, start, end, _ in _decoded(self._content, data, count, before):
                yield path.rstrip(b"/").rpartition(b"/")[2], flags, data, start, end

    @property
    def files(self) -> dict[bytes, tuple[Slot, ...]]:
        """Return the slots by name."""
        if self._files is None:
            self._files = {}
            head = _HEADS[self._content.raw if self._content else SHA1.raw]
            for name, flags, data, start, _ in self._listed():
                stats, oid, _ = head.unpack_from(data, start)
                kind = stats[24:28]
                slot = (_MODES.get(kind) or int.from_bytes(kind, "big"), oid, flags, stats)
                self._files[name] = (*self._files.get(name, ()), slot)
                if slot[0] == TREE:
                    self.trees |= {name}
        return self._files

    def digest(self) -> bytes:
        """Return a digest that differs if folders differ in more than stat data."""
        # Include the name: version 4 stores only a part of it. Without, an ignored tracked file was
        # missing from a checkpoint after one with a similar name had left the index.
        seen = [
            data[start + 24 : start + 28] + data[start + 40 : end] + name
            for name, _, data, start, end in self._listed()
        ]
        everything = b"\0".join((*seen, b"", b"/".join(sorted(self.folders))))
        return hashlib.sha1(everything, usedforsecurity=False).digest()

    def add(self, name: bytes, mode: int, oid: bytes, flags: int, stats: bytes = bytes(40)) -> None:
        """Add an entry that is in no index file."""
        data = stats[:24] + mode.to_bytes(4, "big") + stats[28:] + oid + flags.to_bytes(2, "big")
        self.entries = self.entries or []
        self.entries.append((name, flags, data, 0, len(data)))
        self._content = self._content or _Content(len(oid))


class Index(NamedTuple):
    """The whole index: every directory with tracked entries in or below it, the root as b"". It is
    sparse if some directories are an entry each instead. Two with the same `digest` differ in stat
    data at most; b"" is unknown.
    """

    folders: dict[bytes, Folder]
    mtime_ns: int
    is_sparse: bool = False
    digest: bytes = b""

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


def current_fingerprint(repo: OpenRepository) -> Fingerprint | None:
    """Return the fingerprint of the index file, None if there is none. Raises OSError."""
    try:
        status = os.stat(repo.index)
    except FileNotFoundError:
        return None
    return fingerprint.of(status)


def read(repo: OpenRepository) -> Index:
    """Return the index of this working tree, an empty one if there is none.

    Raises IndexUnreadable if it cannot be read, or if git cannot parse it either.
    """
    try:
        with regular.opened(repo.index) as file:
            status = os.fstat(file.fileno())
            raw = repo.object_format.raw
            if status.st_size > IN_MEMORY:
                content = _Content(raw, descriptor=os.dup(file.fileno()))
            else:
                content = _Content(raw, file.read())
    except FileNotFoundError:
        return Index({b"": Folder()}, 0)
    except OSError as error:
        raise unreadable(repo, error.strerror or str(error)) from None
    if not _is_whole(content, status.st_size, repo.object_format):
        raise unreadable(repo, "it is damaged")
    try:
        parsed = _parse(content, status)
    except (struct.error, ValueError, IndexError):
        parsed = None
    if parsed is not None:
        return parsed
    try:
        # what git alone can parse has no digest: the file may not have all that there is
        return Index(_ask(repo), status.st_mtime_ns)
    except GitFailed as error:
        raise unreadable(repo, str(error).rpartition("fatal: ")[2].strip()) from None


class Noted(NamedTuple):
    """What git noted of a file when it last looked at it: the blob that it would commit, the bytes
    of the file, and whether the file is the same still. That takes its inode and the time of its
    last change, which nothing that unpacks or copies files can set; gitcp writes neither into an
    index.
    """

    blob: Oid
    size: int
    is_current: bool


def noted(repo: OpenRepository) -> dict[bytes, Noted]:
    """Return what the index of this working tree says of each file that exists. Raises
    IndexUnreadable.
    """
    by_path = {}
    for directory, folder in read(repo).folders.items():
        for name, slots in folder.files.items():
            path = directory + b"/" + name if directory else name
            with suppress(OSError):
                status = os.lstat(os.path.join(os.fsencode(repo.root), path))
                _, oid, flags, data = slots[0]
                if data and not flags & (STAGE | INTENT_TO_ADD):
                    by_path[path] = _noted(oid, data, status)
    return by_path


def _noted(oid: bytes, data: bytes, status: os.stat_result) -> Noted:
    ctime, ctime_ns, _, _, _, inode, _, _, _, size = _STAT.unpack(data)
    is_same = ctime * 10**9 + ctime_ns == status.st_ctime_ns and inode == status.st_ino & _LOW
    return Noted(Oid(oid.hex()), size, is_same)


def unreadable(repo: OpenRepository, why: str) -> IndexUnreadable:
    """Return the error for an index that cannot be read."""
    error = IndexUnreadable(f"git's index {repo.index} cannot be read: {why}; nothing was changed")
    error.what = why
    return error


def _is_whole(content: _Content, size: int, object_format: ObjectFormat) -> bool:
    """Return whether an index ends with its checksum, or with none (index.skipHash)."""
    end = size - content.raw
    checksum = content.read(end, size)
    if end < 12 or not any(checksum):
        return content.read(0, 4) == SIGNATURE and end >= 12
    digest = object_format.hasher(b"")
    for start in range(0, end, WINDOW):
        digest.update(content.read(start, min(start + WINDOW, end)))
    return digest.digest() == checksum


def of_tree(
    entries: Iterable[tuple[bytes, Entry]], object_format: ObjectFormat, *, absent: bool
) -> Index:
    """Return an index with the entries of a tree, where git's own cannot be read. With `absent`,
    files that are not in the working tree count as left out by sparse checkout.
    """
    folders = _FolderBuilder(_Content(object_format.raw))
    for path, entry in entries:
        parent, _, name = path.rpartition(b"/")
        flags = SKIP_WORKTREE if absent else 0
        folders.at(parent).add(name, entry.mode, bytes.fromhex(entry.oid), flags)
    return Index(folders.found, 0)


def read_index(repo: OpenRepository) -> list[IndexEntry]:
    """Return every entry of the index as a value, unordered, those of a sparse index too."""
    index = read(repo)
    folders = _ask(repo) if index.is_sparse else index.folders
    return [
        entry_of(path + b"/" + name if path else name, slot)
        for path, folder in folders.items()
        for name, slots in folder.files.items()
        for slot in slots
    ]


def folder_of(entries: Iterable[TreeEntry]) -> Folder:
    """Return what a sparse index says of a directory that it names as a whole: these are the
    entries of its tree, and none is in the working tree.
    """
    folder = Folder()
    for name, mode, oid in entries:
        folder.add(name, mode, bytes.fromhex(oid), SKIP_WORKTREE)
    return folder


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

    def __init__(self, content: _Content) -> None:
        self._content = content
        self.found = {b"": Folder(content)}

    def at(self, path: bytes) -> Folder:
        """Return the folder of a directory, adding it and those above to their parents if new."""
        folder = self.found.get(path)
        is_new = folder is None
        folder = self.found[path] = folder or Folder(self._content)
        while is_new:
            path, _, name = path.rpartition(b"/")
            is_new = path not in self.found
            above = self.found[path] = Folder(self._content) if is_new else self.found[path]
            if not above.folders:
                above.folders = set()  # most directories have none
            above.folders.add(name)  # type: ignore[union-attr]
        return folder


def _parse(content: _Content, status: os.stat_result) -> Index | None:
    """Return the index in a file with this status; None if `git` must read it. Raises struct.error,
    ValueError or IndexError for invalid data.
    """
    folders, digest = _FolderBuilder(content), hashlib.sha1(usedforsecurity=False)
    position, last, previous = 12, None, b""
    begun, length, before = 12, 0, b""
    for path, data, at, after, start in _entries(content):
        parent = path.rstrip(b"/").rpartition(b"/")[0]
        if parent != last:  # they come in path order
            if last is not None:
                folders.at(last).runs += ((begun, start - begun, length, before),)
            begun, length, last = start, 0, parent
            before = previous if content.version == 4 else b""
        digest.update(data[at + 24 : at + 28] + data[at + 40 : after])
        length, previous, position = length + 1, path, start + after - at
    if last is not None:
        folders.at(last).runs += ((begun, position - begun, length, before),)
    required = set(_required(content, position, status.st_size))
    if not required <= {SPARSE}:
        return None
    return Index(folders.found, status.st_mtime_ns, bool(required), digest.digest())


def _entries(content: _Content) -> Iterator[tuple[bytes, bytes, int, int, int]]:
    """Yield all entries: path, the data it is in, where it starts and the next one starts there,
    and where it starts in the file. Raises ValueError if some are missing, or if the version is
    none of those that are parsed here.
    """
    signature, version, count = struct.unpack(">4sII", content.read(0, 12))
    if signature != SIGNATURE or version not in (2, 3, 4):
        raise ValueError(version)
    position, path = 12, b""
    while count:
        data = content.read(position, position + WINDOW)
        following, before = 0, count
        try:
            for each, _, start, _, after in _decoded(content, data, count, path):
                if after > len(data):
                    break
                path, count, following = each, count - 1, after
                yield path, data, start, after, position + start
        except (IndexError, ValueError):
            pass  # the last one ends behind the window
        if count == before:
            raise ValueError(position)
        position += following


def _decoded(
    content: _Content, data: bytes, count: int, path: bytes
) -> Iterator[tuple[bytes, int, int, int, int]]:
    """Yield the first `count` entries of `data`, a part of `content`: path, flags, start, end, and
    where the next one starts. `path` is that of the entry before.
    """
    version, bits_at, position = content.version, 40 + content.raw, 0
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


def _required(content: _Content, position: int, size: int) -> Iterator[bytes]:
    """Yield the names of the extensions after the entries that change their meaning: those in lower
    case.
    """
    while position + 8 <= size - content.raw:
        name, length = struct.unpack(">4sI", content.read(position, position + 8))
        if not name[:1].isupper():
            yield name
        position += 8 + length


def _ask(repo: OpenRepository) -> dict[bytes, Folder]:
    """Return the folders as `git ls-files` lists them, which joins a split index and expands a
    sparse one.
    """
    import re  # not needed for an ordinary index

    # Without this setting git drops the skip-worktree flag if the file exists.
    as_stored = b"sparse.expectFilesOutsideOfPatterns=true"
    output = repo.git_once("-c", as_stored, "ls-files", "--stage", "--debug", "-z")
    folders, position = _FolderBuilder(_Content(repo.object_format.raw)), 0
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
        stats = _STAT.pack(*times, dev, ino, int(mode, 8), *owner)
        parent, _, name = path.rpartition(b"/")
        folders.at(parent).add(name, int(mode, 8), bytes.fromhex(oid.decode()), flags, stats)
    if position != len(output):
        raise GitFailed(
            f"`git ls-files --debug` printed the index of {repo.root} in an unknown format"
        )
    return folders.found
