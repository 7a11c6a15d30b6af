"""Records of one directory: its captured files, its skipped entries, and its index entries.

A Record is the mutable form used by a scan; a Line is the stored form in the state file. Most
directories are only ever a line: the first half is compared with the disk, the second half
(`detail`) is decoded only if something changed.
"""

from __future__ import annotations

import marshal
import os
import stat
import struct
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from gitcp.fastpath.stat_check import GONE, UNSETTLED
from gitcp.git.index import INTENT_TO_ADD, SKIP_WORKTREE, STAGE, Folder, Slot
from gitcp.git.object_format import FORMATS
from gitcp.git.trees import TreeEntry
from gitcp.model import GITLINK, RESERVED, Oid, SkipReason

USUAL_BITS = frozenset((0o644, 0o755, 0o664, 0o775))
RAW = "raw"
SEGMENTS = ("", False, "", False, True)
"""How a file that is stored as segments is read: the fields of its Conversion after the path."""


class Stamp(NamedTuple):
    """The lstat fields of a captured path that would reveal any change.

    Fewer than in gitcp.fastpath.fingerprint, because the state file stores one for each path: every
    change updates the ctime, and the device is the root's.
    """

    ctime_ns: int
    size: int
    inode: int
    mode: int


def stamp_of(status: os.stat_result) -> Stamp:
    """Return the stamp of an lstat result."""
    return Stamp(status.st_ctime_ns, status.st_size, status.st_ino, status.st_mode)


class File(NamedTuple):
    """One captured file or symlink: its tree entry, and its lstat fields when it was read.

    `how` is None if the blob is the file's bytes and git agrees, RAW if git would not restore them,
    else the fields of a Conversion after its path. `attributes` are those that were looked up, None
    if none were.
    """

    mode: int
    oid: bytes
    st_mode: int
    size: int
    inode: int
    ctime_ns: int
    settled: bool
    how: Any = None
    attributes: Any = None

    @property
    def stamp(self) -> Stamp:
        """Return the stamp at the time the file was read."""
        return Stamp(self.ctime_ns, self.size, self.inode, self.st_mode)


_ROWS = {each.raw: struct.Struct(f"=I{each.raw}sIQQ") for each in FORMATS.values()}
"""The first five fields of a File, by the bytes of an object's name. Marshaled one by one they
would be half of the state file.
"""

PlainLine = tuple[int, int, bytes, tuple[Any, ...]]
"""A Line as stored: marshal accepts only plain tuples. Its first three fields come first for
gitcp.fastpath.stat_check.
"""


class Detail(NamedTuple):
    """The rarely needed data of a directory as stored: the first row of each file, deviating fields
    by name, and the names of all other entries.
    """

    rows: bytes
    apart: dict[bytes, tuple[Any, ...]]
    folders: list[bytes]
    tracked: list[bytes]
    odd: dict[bytes, list[tuple[int, bytes, int]]]
    untracked: list[bytes]
    links: Any
    absent: Any
    skipped: Any
    nested: Any
    watched: Any
    rules: Any
    attributes: Any


class Line(NamedTuple):
    """A directory as stored in the state file.

    `seen` are the entries to check and their ctimes: two lists, marshaled, and rarely decoded.
    `digest` is that of the index entries here, b"" for none. `tree` is the raw id of the tree,
    b"" if nothing is captured here or below. `captured` is the number of paths captured directly
    here. `ignored`, `included` and `blocked` are as in Record; `tracked` means that the index has
    entries here or below. `detail` is the rest of the record (a Detail), marshaled.
    """

    stamp: int
    inode: int
    seen: bytes
    digest: bytes
    tree: bytes
    captured: int
    ignored: bool
    included: bool
    blocked: bool
    tracked: bool
    detail: bytes

    def plain(self) -> PlainLine:
        """Return the line as a plain tuple for marshal."""
        flags = (self.ignored, self.included, self.blocked, self.tracked)
        details = (self.digest, self.tree, self.captured, flags, self.detail)
        return self.stamp, self.inode, self.seen, details


def lines_of(plain: Mapping[bytes, PlainLine]) -> dict[bytes, Line]:
    """Decode the lines of a state file. Raises ValueError or TypeError for invalid data."""
    make = tuple.__new__  # twice as fast as Line(...); a tree has thousands
    return {
        path: make(Line, (stamp, inode, seen, digest, tree, count, *flags, detail))
        for path, (stamp, inode, seen, (digest, tree, count, flags, detail)) in plain.items()
    }


class Record:
    """One directory during a scan.

    `ignored`: only tracked paths are captured here. `included`: an include pattern matched, so
    ignore rules do not apply. `blocked`: not a directory on disk, or one that cannot be entered, so
    its contents are unknown.
    """

    __slots__ = (
        "absent",
        "attributes",
        "blocked",
        "digest",
        "files",
        "folder",
        "folders",
        "ignored",
        "included",
        "inode",
        "links",
        "nested",
        "path",
        "rules",
        "skipped",
        "stamp",
        "watched",
    )

    def __init__(
        self,
        path: bytes,
        folder: Folder,
        digest: bytes,
        *,
        ignored: bool = False,
        included: bool = False,
    ) -> None:
        self.path = path
        self.folder = folder
        self.digest = digest
        self.ignored = ignored
        self.included = included
        self.blocked = False
        self.stamp = GONE
        self.inode = 0
        self.files: dict[bytes, File] = {}
        self.folders: set[bytes] = set()
        self.links: dict[bytes, tuple[bytes, str | None]] = {}
        self.absent: list[bytes] = []
        self.skipped: dict[bytes, tuple[str, str]] = {}
        self.nested: dict[bytes, str | None] = {}
        self.watched: dict[bytes, int] = {}
        self.rules: bytes | None = None
        self.attributes: bytes | None = None

    def copy(self) -> Record:
        """Return an independent copy."""
        other = Record(
            self.path, self.folder, self.digest, ignored=self.ignored, included=self.included
        )
        other.blocked, other.stamp, other.inode = self.blocked, self.stamp, self.inode
        other.files, other.folders, other.links = (
            dict(self.files),
            set(self.folders),
            dict(self.links),
        )
        other.absent, other.skipped, other.nested = (
            list(self.absent),
            dict(self.skipped),
            dict(self.nested),
        )
        other.watched, other.rules, other.attributes = (
            dict(self.watched),
            self.rules,
            self.attributes,
        )
        return other

    def below(self, name: bytes) -> bytes:
        """Return the path of an entry of this directory."""
        return self.path + b"/" + name if self.path else name

    def skip(self, name: bytes, reason: SkipReason, detail: str = "") -> None:
        """Record that an entry is skipped, and why."""
        self.skipped[name] = (reason.value, detail)

    def keep_absent(self, names: Iterable[bytes]) -> None:
        """Keep index entries that sparse checkout removed from disk, and submodules."""
        for name in names:
            slots = self.folder.files[name]
            if name == RESERVED and not self.path:
                continue
            if slots[0][0] == GITLINK:
                self.links[name] = (slots[0][1], None)
            elif is_absent(slots):
                self.absent.append(name)

    @property
    def tracked(self) -> bool:
        """Return whether the index has any entry here or below."""
        return bool(self.folder.files or self.folder.folders)

    def entries(self) -> list[TreeEntry]:
        """Return the tree entries directly in this directory, without subdirectories."""
        make = tuple.__new__  # the innermost loop of writing trees
        entries = [
            make(TreeEntry, (name, file[0], file[1].hex())) for name, file in self.files.items()
        ]
        entries += [
            TreeEntry(name, GITLINK, Oid(commit.hex())) for name, (commit, _) in self.links.items()
        ]
        for name in self.absent:
            mode, oid = self.folder.files[name][0][:2]
            entries.append(TreeEntry(name, mode, Oid(oid.hex())))
        return entries

    def subdirectories(self) -> set[bytes]:
        """Return the names that may have a tree: entered directories, and those that only the index
        has.
        """
        return self.folders | self.folder.folders

    def line(self, tree: bytes) -> Line:
        """Return the stored form of the record; `tree` is the raw id of its tree."""
        watched = {
            name: file.ctime_ns if file.settled else UNSETTLED for name, file in self.files.items()
        }
        watched.update(self.watched)
        return Line(
            self.stamp,
            self.inode,
            marshal.dumps((list(watched), list(watched.values()))),
            self.digest,
            tree,
            len(self.files) + len(self.links) + len(self.absent),
            self.ignored,
            self.included,
            self.blocked,
            self.tracked,
            marshal.dumps(tuple(self._detail())),
        )

    def _detail(self) -> Detail:
        apart = {
            name: file[5:]
            for name, file in self.files.items()
            if not file.settled
            or file.how is not None
            or file.attributes is not None
            or name in self.watched
        }
        return Detail(
            b"".join(_ROWS[len(file.oid)].pack(*file[:5]) for file in self.files.values()),
            apart,
            list(self.folders),
            list(self.folder.folders),
            self._odd_slots(),
            [name for name in self.files if name not in self.folder.files],
            self.links,
            self.absent,
            self.skipped,
            self.nested,
            self.watched,
            self.rules,
            self.attributes,
        )

    def _odd_slots(self) -> dict[bytes, list[tuple[int, bytes, int]]]:
        """Return the index entries that cannot be derived from the files: all but plain entries
        equal to them.
        """
        odd = {}
        for name, slots in self.folder.files.items():
            file = self.files.get(name)
            if file is None or len(slots) > 1 or slots[0][:3] != (file.mode, file.oid, 0):
                odd[name] = [slot[:3] for slot in slots]
        return odd

    @classmethod
    def of(cls, path: bytes, line: Line) -> Record:
        """Return the record that a line stores."""
        detail = Detail(*marshal.loads(line.detail))  # noqa: S302  (our own, checked as a whole)
        folder = Folder()
        folder.folders = set(detail.tracked)
        self = cls(path, folder, line.digest, ignored=line.ignored, included=line.included)
        self.blocked, self.stamp, self.inode = line.blocked, line.stamp, line.inode
        # our own state file, checked as a whole
        names, stamps = marshal.loads(line.seen)  # noqa: S302
        rows = _ROWS[len(line.tree)].iter_unpack(detail.rows) if line.tree else iter(())
        make, apart = tuple.__new__, detail.apart  # a tenth of a large scan is spent here
        self.files = {
            name: make(
                File, (*row, *apart[name]) if name in apart else (*row, stamp, True, None, None)
            )
            for name, stamp, row in zip(names, stamps, rows, strict=False)
        }
        self.folders, self.links, self.absent = set(detail.folders), detail.links, detail.absent
        self.skipped, self.nested, self.watched = detail.skipped, detail.nested, detail.watched
        self.rules, self.attributes = detail.rules, detail.attributes
        untracked = set(detail.untracked)
        for name, file in self.files.items():
            if name not in untracked and name not in detail.odd:
                folder.files[name] = ((file.mode, file.oid, 0, b""),)
        folder.files.update(
            (name, tuple((*slot, b"") for slot in slots)) for name, slots in detail.odd.items()
        )
        return self

    # ------------------------------------------------------------ what a tree cannot say

    def notes(self, umask: int, *, file_mode: bool) -> dict[str, Any]:
        """Return everything here that a Snapshot lists beside its tree, by field name; empty fields
        are omitted.
        """
        every = {
            "skipped": [(name, *why) for name, why in self.skipped.items()],
            "raw": [name for name, file in self.files.items() if file.how == RAW],
            "converted": [
                (name, *file.how)
                for name, file in self.files.items()
                if file.how not in (None, RAW)
            ],
            "modes": self._modes(umask) if file_mode else [],
            "submodules": [(name, commit, head) for name, (commit, head) in self.links.items()],
            "nested": list(self.nested.items()),
            "absent": self.absent,
            "staged": self._staged(),
            "conflicts": [
                (n, *slot[:3])
                for n, slots in self.folder.files.items()
                for slot in slots
                if slot[2] & STAGE
            ],
            "untracked": self._untracked() if self.tracked or not self.path else [],
        }
        return {field: values for field, values in every.items() if values}

    def _modes(self, umask: int) -> list[tuple[bytes, int]]:
        usual = USUAL_BITS | {0o666 & ~umask, 0o777 & ~umask}
        bits = (
            (name, file.st_mode) for name, file in self.files.items() if stat.S_ISREG(file.st_mode)
        )
        return [
            (name, stat.S_IMODE(mode)) for name, mode in bits if stat.S_IMODE(mode) not in usual
        ]

    def _staged(self) -> list[tuple[bytes, int, bytes, int]]:
        """Return the index entries that differ from the tree."""
        staged = []
        for name, slots in self.folder.files.items():
            mode, oid, flags = slots[0][:3]
            if flags & STAGE or name in self.absent:
                continue
            file = self.files.get(name)
            captured = (
                (file.mode, file.oid)
                if file
                else (GITLINK, self.links[name][0])
                if name in self.links
                else None
            )
            if captured != (mode, oid) or flags & INTENT_TO_ADD:
                staged.append((name, mode, oid, flags))
        return staged

    def _untracked(self) -> list[bytes]:
        return [name for name in self.files if name not in self.folder.files]


class Past:
    """The remembered directories, decoded one by one.

    `records` caches decoded ones. If it is None only the last one is cached, so that memory does
    not grow with the tree.
    """

    def __init__(self, lines: Mapping[bytes, Line], records: dict[bytes, Record] | None) -> None:
        self._lines = lines
        self._records = records
        self._last: Record | None = None

    def line(self, path: bytes) -> Line | None:
        """Return the stored line of a directory, None if unknown."""
        return self._lines.get(path)

    def record(self, path: bytes) -> Record | None:
        """Return the previous record of a directory, None if unknown."""
        if path not in self._lines:
            return None
        if self._records is not None:
            if path not in self._records:
                self._records[path] = Record.of(path, self._lines[path])
            return self._records[path]
        if self._last is None or self._last.path != path:
            self._last = Record.of(path, self._lines[path])
        return self._last


def is_absent(slots: tuple[Slot, ...]) -> bool:
    """Return whether a tracked path is missing because of sparse checkout."""
    return len(slots) == 1 and bool(slots[0][2] & SKIP_WORKTREE)
