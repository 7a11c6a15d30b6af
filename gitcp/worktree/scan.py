"""Walk the working tree or its changed parts, and decide what is captured or skipped, and why.

The set of untracked files agrees with git: tracked ones are always included, others unless an
ignore rule matches. Directories are listed and files are passed on to be captured; nothing is
hashed or written here.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING

from gitcp import progress
from gitcp.errors import GitcpError, StoreDamaged
from gitcp.fastpath.stat_check import ANYTHING, GONE, UNSETTLED
from gitcp.git.index import Folder, Index, Slot, folder_of, git_mode
from gitcp.model import GITLINK, RESERVED, SYMLINK, Oid, SkipReason, Unlocked
from gitcp.value import Value
from gitcp.worktree import nested, sqlite_files, sqlite_locks
from gitcp.worktree.blobs import Blobs, Job
from gitcp.worktree.dependencies import DEPENDENCIES, is_overfull
from gitcp.worktree.paths import TEMPORARY, is_temporary, name_problem, names_store, problem
from gitcp.worktree.reading import reason, settled_ctime
from gitcp.worktree.records import FileRecord, PreviousScan, ScannedDirectory, stamp_of
from gitcp.worktree.rules import Rules

if TYPE_CHECKING:
    from gitcp.fastpath.stat_check import Touched
    from gitcp.git.objects import Objects
    from gitcp.worktree.attributes import ConversionHints
    from gitcp.worktree.basis import ScanInputs
    from gitcp.worktree.ignore import Include

BATCH = 4096
"""Maximum number of files queued before they are captured, so that memory does not grow with the
tree.
"""

_KINDS = {
    stat.S_IFIFO: "a FIFO",
    stat.S_IFSOCK: "a socket",
    stat.S_IFBLK: "a device",
    stat.S_IFCHR: "a device",
}


class ScanScope(Value):
    """The inputs of a scan.

    `own` are this repository's git directories, `outputs` files that are captured whatever their
    size. `past` is the previous scan, used to find unchanged files; `trusted` returns whether a
    remembered file's objects may be reused. A `deep` scan visits everything and has the index;
    otherwise it visits the given directories, and has the index only if it changed.
    """

    root: bytes
    own: frozenset[bytes]
    include: Include
    outputs: frozenset[bytes]
    max_untracked_file: int
    max_dependency_files: int
    index: Index | None
    past: PreviousScan
    trusted: Callable[[FileRecord], bool]
    deep: bool
    started: int


class Scan:
    """One walk. Afterwards `records` contains the scanned directories, `gone` those no longer
    entered.
    """

    def __init__(
        self,
        scope: ScanScope,
        basis: ScanInputs,
        objects: Objects,
        blobs: Blobs,
        hints: ConversionHints,
    ) -> None:
        self.records: dict[bytes, ScannedDirectory] = {}
        self.gone: list[bytes] = []
        self._scope = scope
        self._objects = objects
        self._repo = objects.repo
        self._rules = Rules(scope.root, basis, objects.reader, hints, scope.past)
        self._blobs = blobs
        self._jobs: list[Job] = []
        self._pending: list[tuple[bytes, bool, bool]] = []
        self._close: Callable[[Mapping[bytes, ScannedDirectory]], None] | None = None
        self._unfinished: dict[bytes, int] = {}
        self._finished: list[bytes] = []
        self._touched: Mapping[bytes, Touched] = {}
        self._expanded: dict[bytes, Folder] = {}
        self._advance: progress.Advance = progress.ignore
        self._changed_rules: list[bytes] = []
        self._changed_attributes: list[bytes] = []

    def scan_all(self, close: Callable[[Mapping[bytes, ScannedDirectory]], None]) -> None:
        """Scan the whole working tree. Raises GitcpError if its root cannot be listed.

        Directories are passed to `close` once everything below them is scanned, and then forgotten:
        `records` ends empty, and memory does not grow with the tree.
        """
        self._close = close
        with progress.task("scanning", "files") as self._advance:
            self._walk(b"", ignored=False, included=False)
        self._close_finished()

    def scan_changed(self, touched: Mapping[bytes, Touched]) -> None:
        """Scan these directories again, including new ones below them; if rules changed, everything
        below.
        """
        self._touched = {**touched, **dict.fromkeys(self._parents_to_rescan(touched), ANYTHING)}
        for path in sorted(self._touched):
            line = self._scope.past.line(path)
            if line is None or path in self.records or self.is_gone(path):
                continue
            if line.stamp == GONE:
                self._add_indexed(path, blocked=line.blocked)
            elif not self._rescan_files(path):
                self._walk(path, ignored=line.ignored, included=line.included)
            self._capture(BATCH)
        self._capture()

    @property
    def unlocked(self) -> tuple[Unlocked, ...]:
        """Return the databases that were captured without their locks."""
        return tuple(sorted(self._blobs.unlocked, key=lambda each: each.path))

    @property
    def has_new_links(self) -> bool:
        """Return whether a file was captured that has more names than one, and had not before."""
        return self._blobs.has_new_links

    def is_gone(self, path: bytes) -> bool:
        """Return whether a known directory is no longer entered."""
        return _is_below(path, self.gone)

    # ------------------------------------------------------------ directories

    def _parents_to_rescan(self, paths: Iterable[bytes]) -> set[bytes]:
        """Return the directories that decide whether these are entered at all."""
        parents: set[bytes] = set()
        for path in paths:
            parts = path.split(b"/")
            parents.update(
                b"/".join(parts[:scan_changed])
                for scan_changed, part in enumerate(parts)
                if part in DEPENDENCIES
            )
            if path and os.path.lexists(self._full(path) + b"/.git"):
                parents.add(path.rpartition(b"/")[0])
        return parents

    def _rescan_files(self, path: bytes) -> bool:
        """Check only the changed files of a directory; return False, having done nothing, if that
        is not enough.
        """
        same, names = self._touched[path]
        old, full = self._scope.past.record(path), self._full(path)
        if not same or names is None or old is None or _is_below(path, self._changed_rules):
            return False
        if any(
            name not in old.files or name in old.watched for name in names
        ) or not _is_same_directory(full, old):
            return False
        record = self.records[path] = old.copy()
        record.folder = self._folder(path)[0]
        for name in names:
            del record.files[name]
            self._file(record, name, full + b"/" + name, old)
        return True

    def _walk(self, path: bytes, *, ignored: bool, included: bool) -> None:
        self._pending.append((path, ignored, included))
        while self._pending:
            path, ignored, included = self._pending.pop()
            folder, digest = self._folder(path)
            record = ScannedDirectory(path, folder, digest, ignored=ignored, included=included)
            try:
                self._visit(record)
            except OSError as error:
                self._mark_unreadable(record, error)
            self._capture(BATCH)
            if self._close is not None:
                self._finish(path)

    def _finish(self, path: bytes) -> None:
        """Note that a directory was scanned; it is finished once those in it are, too."""
        while not self._unfinished.get(path):
            self._unfinished.pop(path, None)
            self._finished.append(path)
            if not path:
                return
            path = path.rpartition(b"/")[0]
            self._unfinished[path] -= 1
        if len(self._finished) > BATCH // 8:
            self._close_finished()

    def _close_finished(self) -> None:
        assert self._close is not None
        self._capture()
        finished, self._finished = self._finished, []
        each = ((path, self.records.pop(path, None)) for path in finished)
        self._close({path: record for path, record in each if record is not None})
        self._rules.forget(finished)
        if self._scope.index is not None:
            for path in finished:  # what was decoded of it would add up to several times its size
                self._scope.index.folders.pop(path, None)

    def _visit(self, record: ScannedDirectory) -> None:
        path, old = record.path, self._scope.past.record(record.path)
        full = self._full(path)
        status = os.lstat(full)
        if not stat.S_ISDIR(status.st_mode):
            raise NotADirectoryError
        with os.scandir(full) as listing:
            entries = list(listing)
        record.stamp, record.inode = self._stamp(status), status.st_ino
        record.mode = status.st_mode
        names, prefix = {entry.name for entry in entries}, full + b"/"
        known = self._apply_rules(record, names, old)
        record.files = self._unchanged_files(record, entries, known)
        for entry in entries:
            name = entry.name
            if name in record.files:
                continue
            if name == b".git":
                # it may become a repository any time
                record.stamp = UNSETTLED if path else record.stamp
            elif name == RESERVED and not path:
                if not nested.holds_own_store(full + b"/" + name):
                    reason_text = "gitcp keeps its own things under this name"
                    record.skip(name, SkipReason.RESERVED, reason_text)
            elif entry.is_dir(follow_symlinks=False):
                self._directory(record, name)
            elif (
                name.startswith(TEMPORARY)
                and is_temporary(name)
                and name not in record.folder.files
            ):
                continue  # a restore is writing it, or was interrupted
            else:
                self._file(record, name, prefix + name, known)
        self.records[path] = record
        self._advance(len(entries))
        self._add_missing(record, names)
        if old is not None:
            gone = old.folders - record.folders | old.folder.folders - record.subdirectories()
            self.gone += [record.below(name) for name in gone]

    def _apply_rules(
        self, record: ScannedDirectory, names: set[bytes], old: ScannedDirectory | None
    ) -> ScannedDirectory | None:
        """Read the rules of a directory. Return its previous record, None if its blobs cannot be
        reused.
        """
        rules, attributes = self._rules.read(record, names, old, self._scope.started)
        if rules or attributes:
            self._changed_rules.append(record.path)
        if attributes:
            self._changed_attributes.append(record.path)
        return None if _is_below(record.path, self._changed_attributes) else old

    def _mark_unreadable(self, record: ScannedDirectory, error: OSError) -> None:
        """Handle a directory that cannot be listed: skip it if it exists, forget it if it was
        deleted meanwhile.
        """
        why = reason(error, record.path)
        if not record.path:
            raise GitcpError(
                f"{os.fsdecode(self._scope.root)} cannot be listed ({why}); nothing was saved"
            ) from None
        parent_path, _, name = record.path.rpartition(b"/")
        parent = self._editable_record(parent_path)
        parent.folders.discard(name)
        parent.stamp = UNSETTLED
        exists = not isinstance(error, FileNotFoundError | NotADirectoryError)
        if exists:
            parent.skip(name, SkipReason.UNREADABLE, why)
        self.gone.append(record.path)
        self._add_indexed(record.path, blocked=exists)

    def _directory(self, record: ScannedDirectory, name: bytes) -> None:
        path = record.below(name)
        full = self._full(path)
        if names_store(path):  # also if tracked: no restore would write it
            record.skip(name, SkipReason.BAD_NAME, "a store of gitcp")
            self._watch(record, name, full)
            return
        slots = record.folder.files.get(name, ())
        if slots and slots[0][0] == GITLINK:
            self._submodule(record, name, full, slots[0])
            return
        is_sparse = name in record.folder.trees
        if is_sparse and not self._is_readable(path):
            record.keep_absent([name])
            record.skip(name, SkipReason.UNREADABLE, "the tree that git's index names is missing")
            self._watch(record, name, full)
            return
        tracked = is_sparse or name in record.folder.folders
        ignored = not record.included and (
            record.ignored or self._rules.ignores(record, name, is_directory=True)
        )
        included = record.included or (
            ignored and self._scope.include.takes(record.path, name, is_directory=True)
        )
        ignored = ignored and not included
        if not tracked:
            if ignored and path not in self._scope.include.leading:
                return
            if self._is_skipped(record, name, path, full):
                return
        record.folders.add(name)
        is_new = self._scope.deep or not self._is_known(path, ignored, included)
        is_new = is_new or (is_sparse and self._scope.index is not None)
        if is_new or _is_below(path, self._changed_rules):
            self._pending.append((path, ignored, included))
            self._unfinished[record.path] = self._unfinished.get(record.path, 0) + 1

    def _is_skipped(self, record: ScannedDirectory, name: bytes, path: bytes, full: bytes) -> bool:
        """Return whether an untracked directory is not entered, and record the reason."""
        if (reason_text := problem(path)) is not None:
            record.skip(name, SkipReason.BAD_NAME, reason_text)
        elif full in self._scope.own:
            record.skip(name, SkipReason.NESTED_REPOSITORY, "this repository's own git directory")
        elif (
            os.path.lexists(full + b"/.git")
            and (git_dir := nested.git_dir_of(full))
            and os.path.realpath(git_dir) not in self._scope.own
        ):
            record.nested[name] = nested.head_of(git_dir, self._repo)
        elif name in DEPENDENCIES and is_overfull(full, most := self._scope.max_dependency_files):
            record.skip(name, SkipReason.TOO_MANY, f"untracked, and more than {most} files in it")
        else:
            return False
        self._watch(record, name, full)
        return True

    def _submodule(self, record: ScannedDirectory, name: bytes, full: bytes, slot: Slot) -> None:
        git_dir = nested.git_dir_of(full)
        head = nested.head_of(git_dir, self._repo) if git_dir else None
        # a commit of another object format cannot be in this repository's trees
        is_nameable = head is not None and len(head) == self._repo.object_format.digits
        record.links[name] = (bytes.fromhex(head) if head and is_nameable else slot[1], head)
        self._watch(record, name, full)
        if git_dir is None and nested.is_filled(full):
            why = "a submodule without a repository: git does not see what is in it"
            record.skip(name, SkipReason.NESTED_REPOSITORY, why)

    def _watch(self, record: ScannedDirectory, name: bytes, full: bytes) -> None:
        """Watch a directory that was not entered, so that the next scan notices changes."""
        try:
            record.watched[name] = self._stamp(os.lstat(full))
        except OSError:
            record.watched[name] = UNSETTLED

    # ------------------------------------------------------------ files

    def _file(
        self, record: ScannedDirectory, name: bytes, full: bytes, old: ScannedDirectory | None
    ) -> None:
        slots = record.folder.files.get(name, ())
        if name in record.folder.trees:
            slots = ()
        known = old.files.get(name) if old else None
        if not slots and self._is_excluded(record, name):
            return
        try:
            status = os.lstat(full)
        except FileNotFoundError:
            record.stamp = UNSETTLED
            self._look_again(record, sqlite_files.database_of(name))
            return
        except OSError as error:
            record.skip(name, SkipReason.UNREADABLE, reason(error, name))
            record.watched[name] = UNSETTLED
            return
        if stat.S_ISDIR(status.st_mode):
            record.stamp = UNSETTLED  # it was a file a moment ago
        elif self._is_storable(record, name, status, slots):
            mode = self._blobs.mode(status.st_mode, slots)
            if (
                old
                and known
                and self._is_unchanged(known, status)
                and _is_stored_alike(known, old, name, slots, mode)
            ):
                record.files[name] = known if known.mode == mode else known._replace(mode=mode)
            else:
                self._jobs.append(Job(record, name, status, slots, known))

    def _look_again(self, record: ScannedDirectory, database: bytes | None) -> None:
        """Capture a database again whose log has just gone: it went into the database."""
        known = record.files.get(database) if database is not None else None
        if database is None or known is None:
            return
        with suppress(OSError):
            status = os.lstat(self._full(record.below(database)))
            slots = record.folder.files.get(database, ())
            self._jobs.append(Job(record, database, status, slots, known))

    def _unchanged_files(
        self,
        record: ScannedDirectory,
        entries: Iterable[os.DirEntry[bytes]],
        old: ScannedDirectory | None,
    ) -> dict[bytes, FileRecord]:
        """Return the known files that need no check because the rules are unchanged. A name may now
        belong to another file.
        """
        _, touched = self._touched.get(record.path, ANYTHING)
        if touched is None or old is None or _is_below(record.path, self._changed_rules):
            return {}
        inodes = {entry.name: entry.inode() for entry in entries}
        for name in touched:
            inodes.pop(name, None)
        return {name: file for name, file in old.files.items() if inodes.get(name) == file.inode}

    def _is_excluded(self, record: ScannedDirectory, name: bytes) -> bool:
        """Return whether ignore rules exclude an untracked file and no include pattern matches
        it.
        """
        if record.included:
            return False
        if not record.ignored and not self._rules.ignores(record, name, is_directory=False):
            return False
        if self._scope.include.takes(record.path, name, is_directory=False):
            return False
        return not self._is_sidecar(record, name)

    def _is_sidecar(self, record: ScannedDirectory, name: bytes) -> bool:
        """Return whether a file holds a part of an SQLite database that is captured."""
        database = sqlite_files.database_of(name)
        if database is None:
            return False
        slots = record.folder.files.get(database, ())
        if not slots and self._is_excluded(record, database):
            return False
        full = self._full(record.below(database))
        size = sqlite_files.size_of_database(full)
        if size is None:
            return False
        # an old log beside a newer database would be applied to it
        is_small = size <= self._scope.max_untracked_file
        return bool(slots) or is_small or record.below(database) in self._scope.outputs

    def _is_shared_memory(self, record: ScannedDirectory, name: bytes) -> bool:
        database = sqlite_files.database_of(name, (sqlite_locks.MEMORY,))
        if database is None:
            return False
        return sqlite_files.size_of_database(self._full(record.below(database))) is not None

    def _is_storable(
        self, record: ScannedDirectory, name: bytes, status: os.stat_result, slots: tuple[Slot, ...]
    ) -> bool:
        """Return whether a file can be captured and, if untracked, should be; else record the
        reason.
        """
        if not git_mode(status.st_mode):
            record.skip(
                name, SkipReason.SPECIAL, _KINDS.get(stat.S_IFMT(status.st_mode), "no file")
            )
            return False
        if slots:
            return True
        if (reason_text := name_problem(record.below(name), name)) is not None:
            record.skip(name, SkipReason.BAD_NAME, reason_text)
            return False
        if self._is_shared_memory(record, name):
            record.skip(name, SkipReason.SPECIAL, "memory that SQLite's processes share")
            return False
        too_large = status.st_size > self._scope.max_untracked_file
        is_named = record.below(name) in self._scope.outputs
        if too_large and not is_named and not self._is_sidecar(record, name):
            record.skip(name, SkipReason.TOO_LARGE, f"{status.st_size} bytes")
            record.watched[name] = self._stamp(status)
            return False
        return True

    def _is_unchanged(self, known: FileRecord, status: os.stat_result) -> bool:
        return known.settled and known.stamp == stamp_of(status) and self._scope.trusted(known)

    def _capture(self, least: int = 0) -> None:
        if len(self._jobs) >= least:
            jobs, self._jobs = self._jobs, []
            self._blobs.capture(jobs)

    # ------------------------------------------------------------ what only the index has

    def _add_missing(self, record: ScannedDirectory, names: set[bytes]) -> None:
        """Add index entries that are not on disk, as they are, if sparse checkout or a submodule is
        the reason.
        """
        record.keep_absent(name for name in record.folder.files if name not in names)
        for name in record.folder.folders - record.folders:
            is_reserved = name == RESERVED and not record.path
            self._add_indexed(record.below(name), blocked=name in names or is_reserved)
        for name in self._blocked_trees(record, names):
            self._add_indexed(record.below(name), blocked=True)

    def _add_indexed(self, path: bytes, *, blocked: bool) -> None:
        """Add records for a directory that is not entered, and for directories below it with index
        entries.
        """
        pending = [path]
        while pending:
            path = pending.pop()
            folder, digest = self._folder(path)
            old = self._scope.past.record(path)
            record = ScannedDirectory(path, folder, digest)
            record.blocked = blocked
            below = list(folder.folders)
            if blocked:
                below += self._blocked_trees(record, folder.files.keys())
            else:
                record.keep_absent(folder.files)
            if old is not None:
                self.gone += [record.below(name) for name in old.subdirectories() - set(below)]
            if record.tracked:
                self.records[path] = record
                self._finished.append(path)
                pending += [record.below(name) for name in below]
            else:
                self.gone.append(path)

    def _blocked_trees(self, record: ScannedDirectory, names: Collection[bytes]) -> list[bytes]:
        """Return those of these names that a sparse index has as a whole directory, where something
        else is on disk; they become directories of the record.
        """
        blocked = [
            name
            for name in record.folder.trees
            if name in names
            and name not in record.folders
            and name not in record.absent
            and self._is_readable(record.below(name))
        ]
        record.folders.update(blocked)
        return blocked

    # ------------------------------------------------------------ what is known

    def _full(self, path: bytes) -> bytes:
        return self._scope.root + b"/" + path if path else self._scope.root

    def _stamp(self, status: os.stat_result) -> int:
        return settled_ctime(status, self._scope.started)

    def _editable_record(self, path: bytes) -> ScannedDirectory:
        """Return the record of a known directory that was not scanned, to be changed."""
        record = self.records.get(path)
        if record is None:
            old = self._scope.past.record(path)
            assert old is not None
            record = self.records[path] = old.copy()
        return record

    def _folder(self, path: bytes) -> tuple[Folder, bytes]:
        """Return the index entries of a directory, and their digest."""
        index = self._scope.index
        if index is not None:
            folder = index.folders.get(path)
            if folder is not None:
                return folder, folder.digest()
            return (self._sparse_folder(path) if index.is_sparse else None) or Folder(), b""
        old = self._scope.past.record(path)
        return (old.folder, old.digest) if old else (self._sparse_folder(path) or Folder(), b"")

    def _sparse_folder(self, path: bytes) -> Folder | None:
        """Return the entries of a directory that a sparse index has only as a part of another, None
        if it has none. Raises StoreDamaged.
        """
        names: list[bytes] = []
        above: Folder | None = None
        while path and above is None:
            above = self._expanded.get(path) or (self._indexed_folder(path) if names else None)
            if above is None:
                path, _, name = path.rpartition(b"/")
                names.append(name)
        above = above or self._indexed_folder(b"")
        for name in reversed(names):
            slots = above.files.get(name) if above is not None else None
            if above is None or not slots or name not in above.trees:
                return None
            path = path + b"/" + name if path else name
            tree = Oid(slots[0][1].hex())
            above = self._expanded[path] = folder_of(self._objects.reader.read_tree(tree))
        return above if names or path else None

    def _indexed_folder(self, path: bytes) -> Folder | None:
        """Return the index entries of a directory as the index itself has them."""
        index, scanned = self._scope.index, self.records.get(path)
        if scanned is not None:
            return scanned.folder
        if index is not None:
            return index.folders.get(path)
        old = self._scope.past.record(path)
        return old.folder if old else None

    def _is_readable(self, path: bytes) -> bool:
        """Return whether the tree that a sparse index has for a directory is there."""
        try:
            return self._folder(path)[0] is not None
        except StoreDamaged:
            return False

    def _is_known(self, path: bytes, ignored: bool, included: bool) -> bool:
        """Return whether a directory was entered before under the same rules; if it changed, it is
        scanned separately.
        """
        line = self._scope.past.line(path)
        return (
            line is not None
            and line.stamp != GONE
            and (line.ignored, line.included) == (ignored, included)
        )


def _is_same_directory(full: bytes, old: ScannedDirectory) -> bool:
    """Return whether a directory is the same as before, with the same entries."""
    try:
        status = os.lstat(full)
    except OSError:
        return False
    return (status.st_ctime_ns, status.st_ino) == (old.stamp, old.inode)


def _is_below(path: bytes, tops: Iterable[bytes]) -> bool:
    """Return whether a directory is one of `tops` or below one."""
    return any(not top or path == top or path.startswith(top + b"/") for top in tops)


def _is_stored_alike(
    known: FileRecord, old: ScannedDirectory, name: bytes, slots: tuple[Slot, ...], mode: int
) -> bool:
    """Return whether a file is stored as before: git's conversion can depend on its index entry,
    and what stands for a link is not converted.
    """
    if known.mode != mode and SYMLINK in (known.mode, mode):
        return False
    if known.attributes is None:
        return True
    return [slot[:3] for slot in old.folder.files.get(name, ())] == [slot[:3] for slot in slots]
