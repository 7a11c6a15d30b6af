"""Records of one directory: its captured files, its skipped entries, and its index entries.

A Record is the mutable form used by a scan; a Line is the stored form, a node of the state file.
Of most directories only the first half of the node is ever read, and compared with the disk;
`detail` is decoded only if something changed.
"""

from __future__ import annotations

import marshal
import os
import stat
import struct
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from gitcp.fastpath import nodes
from gitcp.fastpath.stat_check import GONE, UNSETTLED
from gitcp.git.index import INTENT_TO_ADD, SKIP_WORKTREE, STAGE, Folder, Slot
from gitcp.git.object_format import FORMATS
from gitcp.git.trees import TreeEntry
from gitcp.model import GITLINK, RESERVED, SYMLINK, TREE, Oid, SkipReason

if TYPE_CHECKING:
    from gitcp.fastpath.nodes import Node

_T = TypeVar("_T")
GITIGNORE = b".gitignore"
CACHED = 4096
"""Up to this number of directories are kept decoded."""

USUAL_BITS = frozenset((0o644, 0o755, 0o664, 0o775))
RAW = "raw"
SEGMENTS = ("", False, "", False, True)
"""How a file that is stored as segments is read: the fields of its Conversion after the path."""


class Stamp(NamedTuple):
    """The lstat fields of a captured path that would reveal any change.

    Fewer than in gitcp.fingerprint, because the state file stores one for each path: every
    change updates the ctime, and the device is the root's.
    """

    ctime_ns: int
    size: int
    inode: int
    mode: int


def stamp_of(status: os.stat_result) -> Stamp:
    """Return the stamp of an lstat result."""
    return Stamp(status.st_ctime_ns, status.st_size, status.st_ino, status.st_mode)


class FileRecord(NamedTuple):
    """One captured file or symlink: its tree entry, and its lstat fields when it was read.

    `how` is None if the blob is the file's bytes and git agrees, RAW if git would not restore them,
    else the fields of a Conversion after its path. `attributes` are those that were looked up, None
    if none were. `linked` is whether the file had other names: who writes through one of them is
    seen by nobody that watches this one. `settled` is whether any later change shows in the other
    fields, and all of the file was read.
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
    linked: bool = False

    @property
    def stamp(self) -> Stamp:
        """Return the stamp at the time the file was read."""
        return Stamp(self.ctime_ns, self.size, self.inode, self.st_mode)


_ROWS = {each.raw: struct.Struct(f"=I{each.raw}sIQQ") for each in FORMATS.values()}
"""The first five fields of a File, by the bytes of an object's name. Marshaled one by one they
would be half of the state file.
"""

ALWAYS, TRACKED, IGNORED, INCLUDED, BLOCKED = nodes.ALWAYS, 1 << 1, 1 << 2, 1 << 3, 1 << 4
NOTED, OBSTRUCTED, REPOSITORIES, LOOSE_RULES = 1 << 5, 1 << 6, 1 << 7, 1 << 8
EMPTY, EMPTY_BELOW, UNTRACKED_BELOW = 1 << 9, 1 << 10, 1 << 11
ABSENT, ABSENT_BELOW = 1 << 12, 1 << 13
"""The flags of a directory.

TRACKED: the index has entries here or below. IGNORED, INCLUDED, BLOCKED: as in Record. NOTED: there
are notes; OBSTRUCTED: some are on skipped entries or nested repositories; REPOSITORIES: some are on
submodules or nested repositories. LOOSE_RULES: there is a `.gitignore` that is not captured. EMPTY:
nothing is in it but such directories. EMPTY_BELOW, UNTRACKED_BELOW: an empty directory is here or
below, or the topmost untracked one of a branch. ABSENT: not on disk, and sparse checkout is the
reason for all that the index has here and below; its reference says nothing else. ABSENT_BELOW: the
topmost such directory of a branch is below.
"""

INHERITED = ALWAYS | NOTED | OBSTRUCTED | REPOSITORIES | LOOSE_RULES
INHERITED |= EMPTY_BELOW | UNTRACKED_BELOW | ABSENT_BELOW
"""The flags that a reference has for everything below as well."""


class Ref(NamedTuple):
    """Names a node, with what is known of the directory and all below it.

    `weight` counts the names that a look compares, and the directories on disk; `captured` the
    captured paths, of which a directory that is ABSENT is one; `tree` is the raw id of its tree,
    b"" if nothing is captured.
    """

    offset: int
    size: int
    crc: int
    weight: int
    captured: int
    flags: int
    tree: bytes


class ScanDetail(NamedTuple):
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
    mode: int


class StoredDirectory(NamedTuple):
    """A directory as stored.

    `names` are the entries to compare, and `stamps` their ctimes. `children` are the directories in
    it. `tree` is the raw id of its tree, b"" if nothing is captured here or below; `digest` that of
    the index entries here, b"" for none. `captured` is the number of paths captured directly here.
    `notes` are as in Record.notes, `detail` is the rest of the record (a Detail); both marshaled.
    """

    stamp: int
    inode: int
    names: list[bytes]
    stamps: list[int]
    children: dict[bytes, Ref]
    tree: bytes
    digest: bytes
    captured: int
    flags: int
    notes: bytes
    detail: bytes

    @property
    def ignored(self) -> bool:
        """Return whether only tracked paths are captured here."""
        return bool(self.flags & IGNORED)

    @property
    def included(self) -> bool:
        """Return whether an include pattern matched."""
        return bool(self.flags & INCLUDED)

    @property
    def blocked(self) -> bool:
        """Return whether the contents are unknown."""
        return bool(self.flags & BLOCKED)

    def node(self) -> tuple[Any, ...]:
        """Return the node: marshal accepts only plain tuples."""
        children = {name: tuple(ref) for name, ref in self.children.items()}
        return (*self[:4], children, self[5:])

    @classmethod
    def of(cls, node: Node) -> StoredDirectory:
        """Return what a node says."""
        stamp, inode, names, stamps, children, rest = node
        refs = {name: Ref(*ref) for name, ref in children.items()}
        return cls(stamp, inode, names, stamps, refs, *rest)

    def ref(self, path: bytes, offset: int, size: int, crc: int) -> Ref:
        """Return the reference to this node, which is there in the file."""
        weight = 0 if self.stamp == GONE else 1 + len(self.names)
        captured = self.captured
        for child in self.children.values():
            weight += child.weight
            captured += child.captured
        flags = self._flags_below(path)
        captured = 1 if flags & ABSENT else captured  # as a sparse index has it
        return Ref(offset, size, crc, weight, captured, flags, self.tree)

    def _flags_below(self, path: bytes) -> int:
        """Return the flags of the directory with all below it."""
        children = self.children.values()
        if self.flags & ABSENT and all(child.flags & ABSENT for child in children):
            return ABSENT | TRACKED
        flags = self.flags & (INHERITED | TRACKED)
        for child in children:
            flags |= child.flags & INHERITED
            if child.flags & ABSENT:
                flags |= ABSENT_BELOW
            if child.tree and not child.flags & TRACKED and (not path or flags & TRACKED):
                flags |= UNTRACKED_BELOW
        is_empty = path and not self.tree and not self.ignored and self.stamp != GONE
        if is_empty and not flags & OBSTRUCTED:
            flags |= EMPTY | EMPTY_BELOW
        return flags


class ScannedDirectory:
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
        "mode",
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
        self.mode = 0
        self.files: dict[bytes, FileRecord] = {}
        self.folders: set[bytes] = set()
        self.links: dict[bytes, tuple[bytes, str | None]] = {}
        self.absent: list[bytes] = []
        self.skipped: dict[bytes, tuple[str, str]] = {}
        self.nested: dict[bytes, str | None] = {}
        self.watched: dict[bytes, int] = {}
        self.rules: bytes | None = None
        self.attributes: bytes | None = None

    def copy(self) -> ScannedDirectory:
        """Return an independent copy."""
        other = ScannedDirectory(
            self.path, self.folder, self.digest, ignored=self.ignored, included=self.included
        )
        other.blocked, other.stamp, other.inode = self.blocked, self.stamp, self.inode
        other.mode = self.mode
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
        """Keep index entries that sparse checkout removed from disk: files, submodules, directories
        of a sparse index. A submodule whose directory is gone otherwise is deleted, as git has it.
        """
        for name in names:
            slots = self.folder.files[name]
            if name == RESERVED and not self.path:
                continue
            # A submodule whose directory had been removed counted as unchanged.
            if not is_absent(slots):
                continue
            if slots[0][0] == GITLINK:
                self.links[name] = (slots[0][1], None)
            else:
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

    def line(
        self, tree: bytes, children: dict[bytes, Ref], notes: Mapping[str, list[Any]]
    ) -> StoredDirectory:
        """Return the stored form of the record; `tree` is the raw id of its tree."""
        watched = {
            name: file.ctime_ns if file.settled else UNSETTLED for name, file in self.files.items()
        }
        watched.update(self.watched)
        return StoredDirectory(
            self.stamp,
            self.inode,
            list(watched),
            list(watched.values()),
            children,
            tree,
            self.digest,
            len(self.files) + len(self.links) + len(self.absent),
            self._flags(notes),
            marshal.dumps(dict(notes)) if notes else b"",
            marshal.dumps(tuple(self._detail())),
        )

    def _flags(self, notes: Mapping[str, list[Any]]) -> int:
        has_loose_rules = GITIGNORE in self.watched and GITIGNORE not in self.files
        each = (
            (ALWAYS, self._is_always_compared()),
            (TRACKED, self.tracked),
            (IGNORED, self.ignored),
            (INCLUDED, self.included),
            (BLOCKED, self.blocked),
            (NOTED, notes),
            (OBSTRUCTED, "skipped" in notes or "nested" in notes),
            (REPOSITORIES, "submodules" in notes or "nested" in notes),
            (LOOSE_RULES, has_loose_rules),
            (ABSENT, self._is_absent(notes)),
        )
        return sum(flag for flag, is_set in each if is_set)

    def _is_absent(self, notes: Mapping[str, list[Any]]) -> bool:
        """Return whether sparse checkout keeps all that is directly here from the disk."""
        is_gone = self.stamp == GONE and not self.blocked and self.tracked
        return is_gone and len(self.absent) == len(self.folder.files) and {*notes} <= {"absent"}

    def _is_always_compared(self) -> bool:
        """Return whether files here may differ from what was captured although no watcher reports
        it: their rules may change elsewhere, one has other names, or was not read as a whole.
        """
        return (
            self.ignored
            or self.included
            or any(file[9] or (file[7] == SEGMENTS and not file[6]) for file in self.files.values())
        )

    def _detail(self) -> ScanDetail:
        tracked = self.folder.files
        apart = {
            name: file[5:]
            for name, file in self.files.items()
            if not file.settled
            or file.how is not None
            or file.attributes is not None
            or file.linked
            or name in self.watched
        }
        return ScanDetail(
            b"".join(_ROWS[len(file.oid)].pack(*file[:5]) for file in self.files.values()),
            apart,
            list(self.folders),
            list(self.folder.folders),
            self._odd_slots(),
            [name for name in self.files if name not in tracked],
            self.links,
            self.absent,
            self.skipped,
            self.nested,
            self.watched,
            self.rules,
            self.attributes,
            self.mode,
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
    def of(cls, path: bytes, line: StoredDirectory) -> ScannedDirectory:
        """Return the record that a line stores."""
        detail = ScanDetail(*marshal.loads(line.detail))  # noqa: S302  (our own, and whole)
        folder = Folder()
        folder.folders = set(detail.tracked)
        self = cls(path, folder, line.digest, ignored=line.ignored, included=line.included)
        self.blocked, self.stamp, self.inode = line.blocked, line.stamp, line.inode
        rows = _ROWS[len(line.tree)].iter_unpack(detail.rows) if line.tree else iter(())
        make, apart = tuple.__new__, detail.apart  # a tenth of a large scan is spent here
        self.files = {
            name: make(
                FileRecord,
                (*row, *apart[name]) if name in apart else (*row, stamp, True, None, None, False),
            )
            for name, stamp, row in zip(line.names, line.stamps, rows, strict=False)
        }
        self.folders, self.links, self.absent = set(detail.folders), detail.links, detail.absent
        self.skipped, self.nested, self.watched = detail.skipped, detail.nested, detail.watched
        self.rules, self.attributes, self.mode = detail.rules, detail.attributes, detail.mode
        untracked, slots_of = set(detail.untracked), folder.files
        for name, file in self.files.items():
            if name not in untracked and name not in detail.odd:
                slots_of[name] = ((file.mode, file.oid, 0, b""),)
        slots_of.update(
            (name, tuple((*slot, b"") for slot in slots)) for name, slots in detail.odd.items()
        )
        folder.trees = frozenset(n for n, slots in detail.odd.items() if slots[0][0] == TREE)
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
            "absent": [name + b"/" if name in self.folder.trees else name for name in self.absent],
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
        """Return the permissions of the files that git does not store, and, with the name b"",
        those of the directory. A set-gid bit alone is what a new directory has from the one above.
        """
        usual = USUAL_BITS | {0o666 & ~umask, 0o777 & ~umask}
        bits = (
            (name, file.st_mode)
            for name, file in self.files.items()
            if stat.S_ISREG(file.st_mode) and file.mode != SYMLINK
        )
        modes = [
            (name, stat.S_IMODE(mode)) for name, mode in bits if stat.S_IMODE(mode) not in usual
        ]
        own = stat.S_IMODE(self.mode)
        if self.path and self.mode and own & ~stat.S_ISGID not in usual:
            modes.append((b"", own))
        return modes

    def _staged(self) -> list[tuple[bytes, int, bytes, int]]:
        """Return the index entries that differ from the tree."""
        staged = []
        for name, slots in self.folder.files.items():
            mode, oid, flags = slots[0][:3]
            if flags & STAGE or mode == TREE or name in self.absent:
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
        slots, trees = self.folder.files, self.folder.trees
        return [name for name in self.files if name not in slots or name in trees]


class PreviousScan:
    """The remembered directories, decoded one by one; `read` returns a node, `root` names that of
    the root (None: nothing is remembered). Some are kept, so that memory does not grow with the
    tree. `scanned` are those of which the records are still in memory; they are not changed.
    """

    def __init__(
        self,
        read: Callable[[Ref], StoredDirectory] | None = None,
        root: Ref | None = None,
        scanned: Mapping[bytes, ScannedDirectory] | None = None,
    ) -> None:
        self._read = read
        self._root = root
        self._scanned = scanned or {}
        self._lines: dict[bytes, StoredDirectory] = {}
        self._records: dict[bytes, ScannedDirectory] = {}
        self._unknown = b""  # a directory that is not remembered: nothing below it is

    def line(self, path: bytes) -> StoredDirectory | None:
        """Return the stored line of a directory, None if unknown. Raises Damaged."""
        line = self._lines.get(path)
        return self._found(path) if line is None else line

    def record(self, path: bytes) -> ScannedDirectory | None:
        """Return the previous record of a directory, None if unknown. Raises Damaged."""
        record = self._scanned.get(path) or self._records.get(path)
        line = self.line(path) if record is None else None
        return (
            record if line is None else _add(self._records, path, ScannedDirectory.of(path, line))
        )

    def _found(self, path: bytes) -> StoredDirectory | None:
        """Read the nodes from the nearest known directory above `path` down to it. A loop, because
        a tree may be nested deeper than Python may call itself.
        """
        unknown = self._unknown
        if self._read is None or self._root is None:
            return None
        if unknown and path.startswith(unknown) and path[len(unknown) :][:1] in (b"", b"/"):
            return None
        names: list[bytes] = []
        above, line = path, None
        while above and line is None:
            above, _, name = above.rpartition(b"/")
            names.append(name)
            line = self._lines.get(above)
        if line is None:
            line = _add(self._lines, b"", self._read(self._root))
        for name in reversed(names):
            ref = line.children.get(name)
            above = nodes.below(above, name)
            if ref is None:
                self._unknown = above
                return None
            line = _add(self._lines, above, self._read(ref))
        return line


def _add(cache: dict[bytes, _T], path: bytes, value: _T) -> _T:
    if len(cache) >= CACHED:
        cache.clear()
    cache[path] = value
    return value


def is_absent(slots: tuple[Slot, ...]) -> bool:
    """Return whether a tracked path is missing because of sparse checkout."""
    return len(slots) == 1 and bool(slots[0][2] & SKIP_WORKTREE)
