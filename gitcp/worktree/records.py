"""What is known of one directory: its captured files, what was left out, and what of it the index
has.

A Record is a directory as a scan sees it, to be changed; a Line is the same put away in the state
file. Most directories are never more than a line: a line's first half is what a later look at the
disk is compared with, its second half (`detail`) is decoded only where something changed.
"""

from __future__ import annotations

import marshal
import stat
import struct
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from gitcp.fastpath.stat_check import GONE, UNSETTLED
from gitcp.git.index import INTENT_TO_ADD, SKIP_WORKTREE, STAGE, Folder, Slot
from gitcp.git.trees import TreeEntry
from gitcp.model import GITLINK, RESERVED, Oid, SkipReason

USUAL_BITS = frozenset((0o644, 0o755, 0o664, 0o775))
RAW = "raw"


class File(NamedTuple):
    """One captured file or symlink: its entry in the tree, and what lstat said when it was read.

    `how` is None where the blob is the file's bytes and git agrees, RAW where git would not give
    them back, else the fields of a Conversion after its path. `attributes` are those that were
    asked for, None if none were.
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


_ROW = struct.Struct("=I20sIQQ")
"""The first five fields of a File: marshalled one by one they would be half of what every look has
to read.
"""

PlainLine = tuple[int, int, bytes, tuple[Any, ...]]
"""A Line as it is kept, for marshal takes only plain tuples: stamp, inode, what was seen in it, the
rest.
"""


class Detail(NamedTuple):
    """What is rarely asked of a directory, as the state file keeps it: the first row of each file,
    the others' differences by name, and the names of everything else that lies here.
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
    """A directory as the state file keeps it.

    `seen` are the entries to look at and their ctimes, two lists, marshalled: most are never taken
    out. `rest` holds what the properties name, and third the number of captured paths that lie
    directly here.
    """

    stamp: int
    inode: int
    seen: bytes
    rest: tuple[Any, ...]

    @property
    def digest(self) -> bytes:
        """Of what the index has here; b"" for nothing."""
        return self.rest[0]  # type: ignore[no-any-return]

    @property
    def tree(self) -> bytes:
        """The 20 bytes of the tree's name; b"" if nothing is captured here or below."""
        return self.rest[1]  # type: ignore[no-any-return]

    @property
    def flags(self) -> tuple[bool, bool, bool, bool]:
        """Ignored, included, blocked (see Record), and whether the index has anything here or
        below.
        """
        return self.rest[3]  # type: ignore[no-any-return]

    @property
    def detail(self) -> bytes:
        """The rest of the record, marshalled."""
        return self.rest[4]  # type: ignore[no-any-return]


def with_tree(line: PlainLine, tree: bytes) -> PlainLine:
    """The same directory, with another tree."""
    stamp, inode, seen, (digest, _, *rest) = line
    return stamp, inode, seen, (digest, tree, *rest)


class Record:
    """One directory in the hands of a scan.

    `ignored`: only what is tracked is captured here. `included`: an include pattern took it, no
    ignore rule counts. `blocked`: not a directory on disk, or not one that is entered, so that
    nothing below it can be told.
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
        """The same, to be changed without this one."""
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
        """The path of an entry of this directory."""
        return self.path + b"/" + name if self.path else name

    def skip(self, name: bytes, reason: SkipReason, detail: str = "") -> None:
        """Leave an entry out, and say why."""
        self.skipped[name] = (reason.value, detail)

    def keep_absent(self, names: Iterable[bytes]) -> None:
        """Of what only the index has: keep what sparse checkout left out, and submodules."""
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
        """Whether the index has anything here or below."""
        return bool(self.folder.files or self.folder.folders)

    def entries(self) -> list[TreeEntry]:
        """The entries of the tree that lie directly here, directories aside."""
        make = tuple.__new__  # the loop that writing trees is made of
        found = [
            make(TreeEntry, (name, file[0], file[1].hex())) for name, file in self.files.items()
        ]
        found += [
            TreeEntry(name, GITLINK, Oid(commit.hex())) for name, (commit, _) in self.links.items()
        ]
        for name in self.absent:
            mode, oid = self.folder.files[name][0][:2]
            found.append(TreeEntry(name, mode, Oid(oid.hex())))
        return found

    def subdirectories(self) -> set[bytes]:
        """The names below which there may be a tree: directories that were entered, and those only
        the index has.
        """
        return self.folders | self.folder.folders

    def line(self, tree: bytes) -> PlainLine:
        """The record, to be put away; `tree` are the 20 bytes of its tree's name."""
        watched = {
            name: file.ctime_ns if file.settled else UNSETTLED for name, file in self.files.items()
        }
        watched.update(self.watched)
        apart = {
            name: file[5:]
            for name, file in self.files.items()
            if not file.settled
            or file.how is not None
            or file.attributes is not None
            or name in self.watched
        }
        detail = Detail(
            b"".join(_ROW.pack(*file[:5]) for file in self.files.values()),
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
        flags = (self.ignored, self.included, self.blocked, self.tracked)
        count = len(self.files) + len(self.links) + len(self.absent)
        rest = (self.digest, tree, count, flags, marshal.dumps(tuple(detail)))
        return self.stamp, self.inode, marshal.dumps((list(watched), list(watched.values()))), rest

    def _odd_slots(self) -> dict[bytes, list[tuple[int, bytes, int]]]:
        """What the index has here and cannot be told from the files: all but plain entries equal to
        them.
        """
        odd = {}
        for name, slots in self.folder.files.items():
            file = self.files.get(name)
            if file is None or len(slots) > 1 or slots[0][:3] != (file.mode, file.oid, 0):
                odd[name] = [slot[:3] for slot in slots]
        return odd

    @classmethod
    def of(cls, path: bytes, plain: PlainLine) -> Record:
        """A line taken out again."""
        line = Line._make(plain)
        detail = Detail(*marshal.loads(line.detail))  # noqa: S302  (our own, checked as a whole)
        folder = Folder()
        folder.folders = set(detail.tracked)
        ignored, included, blocked, _ = line.flags
        self = cls(path, folder, line.digest, ignored=ignored, included=included)
        self.blocked, self.stamp, self.inode = blocked, line.stamp, line.inode
        # our own state file, checked as a whole
        names, stamps = marshal.loads(line.seen)  # noqa: S302
        make, apart = tuple.__new__, detail.apart  # a tenth of a large look goes by here
        self.files = {
            name: make(
                File, (*row, *apart[name]) if name in apart else (*row, stamp, True, None, None)
            )
            for name, stamp, row in zip(names, stamps, _ROW.iter_unpack(detail.rows), strict=False)
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
        """Everything here that belongs in a Snapshot beside its tree, by the field's name; empty
        fields left out.
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
        """Index entries that the tree does not have just so."""
        staged = []
        for name, slots in self.folder.files.items():
            mode, oid, flags = slots[0][:3]
            if flags & STAGE or name in self.absent:
                continue
            file = self.files.get(name)
            here = (
                (file.mode, file.oid)
                if file
                else (GITLINK, self.links[name][0])
                if name in self.links
                else None
            )
            if here != (mode, oid) or flags & INTENT_TO_ADD:
                staged.append((name, mode, oid, flags))
        return staged

    def _untracked(self) -> list[bytes]:
        return [name for name in self.files if name not in self.folder.files]


class Past:
    """What is remembered, taken out directory by directory.

    `records` are those that were taken out already; with None only the last one is held, so that
    memory does not grow with the tree.
    """

    def __init__(
        self, lines: Mapping[bytes, PlainLine], records: dict[bytes, Record] | None
    ) -> None:
        self._lines = lines
        self._records = records
        self._last: Record | None = None

    def line(self, path: bytes) -> Line | None:
        """A directory as it is kept, None if it was not known."""
        plain = self._lines.get(path)
        return Line._make(plain) if plain else None

    def record(self, path: bytes) -> Record | None:
        """A directory as it was, None if it was not known."""
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
    """Whether sparse checkout is why a tracked path is not on disk."""
    return len(slots) == 1 and bool(slots[0][2] & SKIP_WORKTREE)
