"""Walks the working tree, or those parts of it that are not as they were: what is captured, what is
left out, and why.

Which untracked files there are agrees with git: tracked ones always, the others unless an ignore
rule says otherwise. Directories are listed and files handed on to be captured; nothing is hashed
here, and nothing is ever written.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING

from gitcp.errors import GitcpError
from gitcp.fastpath.stat_check import ANYTHING, GONE, UNSETTLED
from gitcp.git.index import Folder, Index, Slot, git_mode
from gitcp.model import GITLINK, RESERVED, SkipReason
from gitcp.value import Value
from gitcp.worktree import nested
from gitcp.worktree.blobs import Blobs, Job
from gitcp.worktree.dependencies import DEPENDENCIES, is_overfull
from gitcp.worktree.paths import TEMPORARY, is_temporary, name_problem, problem
from gitcp.worktree.reading import reason, settled
from gitcp.worktree.records import File, Past, Record
from gitcp.worktree.rules import Rules

if TYPE_CHECKING:
    from gitcp.fastpath.stat_check import Touched
    from gitcp.git.objects import Objects
    from gitcp.worktree.attributes import ConversionHints
    from gitcp.worktree.basis import Basis
    from gitcp.worktree.include import Include

BATCH = 4096
"""Files that are held at most before they are captured, so that memory does not grow with the tree.
"""

_KINDS = {
    stat.S_IFIFO: "a FIFO",
    stat.S_IFSOCK: "a socket",
    stat.S_IFBLK: "a device",
    stat.S_IFCHR: "a device",
}


class Scope(Value):
    """What a scan goes by.

    `own` are this repository's git directories. `past` is what is remembered, to find unchanged
    files in, and `trusted` says of a remembered blob whether it may be used. A `deep` scan goes
    everywhere and has the index; another goes where it is sent and has the index only if that
    changed.
    """

    root: bytes
    own: frozenset[bytes]
    include: Include
    max_untracked_file: int
    max_dependency_files: int
    index: Index | None
    past: Past
    trusted: Callable[[bytes], bool]
    deep: bool
    started: int


class Scan:
    """One walk. Afterwards `records` holds the directories that were looked at, `gone` those not
    entered any more.
    """

    def __init__(
        self, scope: Scope, basis: Basis, objects: Objects, blobs: Blobs, hints: ConversionHints
    ) -> None:
        self.records: dict[bytes, Record] = {}
        self.gone: list[bytes] = []
        self._scope = scope
        self._rules = Rules(scope.root, basis, objects, hints, scope.past)
        self._blobs = blobs
        self._jobs: list[Job] = []
        self._ahead: list[tuple[bytes, bool, bool]] = []
        self._touched: Mapping[bytes, Touched] = {}
        self._judged_anew: list[bytes] = []
        self._converted_anew: list[bytes] = []

    def everywhere(self) -> None:
        """Scan the whole working tree. Raises GitcpError if its root cannot be listed."""
        self._walk(b"", ignored=False, included=False)
        self._capture()

    def at(self, touched: Mapping[bytes, Touched]) -> None:
        """Scan these directories again, and what is new below them, or all that is where the rules
        changed.
        """
        self._touched = {**touched, **dict.fromkeys(self._above(touched), ANYTHING)}
        for path in sorted(self._touched):
            line = self._scope.past.line(path)
            if line is None or path in self.records or self.is_gone(path):
                continue
            ignored, included, blocked, _ = line.flags
            if line.stamp == GONE:
                self._only_indexed(path, blocked=blocked)
            elif not self._only_files(path):
                self._walk(path, ignored=ignored, included=included)
            self._capture(BATCH)
        self._capture()

    def is_gone(self, path: bytes) -> bool:
        """Whether a directory that was known is not entered any more."""
        return _is_below(path, self.gone)

    # ------------------------------------------------------------ directories

    def _above(self, paths: Iterable[bytes]) -> set[bytes]:
        """The directories that decide whether these are entered at all."""
        found: set[bytes] = set()
        for path in paths:
            parts = path.split(b"/")
            found.update(
                b"/".join(parts[:at]) for at, part in enumerate(parts) if part in DEPENDENCIES
            )
            if path and os.path.lexists(self._full(path) + b"/.git"):
                found.add(path.rpartition(b"/")[0])
        return found

    def _only_files(self, path: bytes) -> bool:
        """Whether it was enough to look at some files of a directory again; nothing was done if
        not.
        """
        same, names = self._touched[path]
        old, full = self._scope.past.record(path), self._full(path)
        if not same or names is None or old is None or _is_below(path, self._judged_anew):
            return False
        if any(name not in old.files or name in old.watched for name in names) or not _is_still(
            full, old
        ):
            return False
        record = self.records[path] = old.copy()
        record.folder = self._folder(path)[0]
        for name in names:
            del record.files[name]
            self._file(record, name, full + b"/" + name, old)
        return True

    def _walk(self, path: bytes, *, ignored: bool, included: bool) -> None:
        self._ahead.append((path, ignored, included))
        while self._ahead:
            path, ignored, included = self._ahead.pop()
            folder, digest = self._folder(path)
            record = Record(path, folder, digest, ignored=ignored, included=included)
            try:
                self._visit(record)
            except OSError as error:
                self._shut(record, error)
            self._capture(BATCH)

    def _visit(self, record: Record) -> None:
        path, old = record.path, self._scope.past.record(record.path)
        full = self._full(path)
        status = os.lstat(full)
        if not stat.S_ISDIR(status.st_mode):
            raise NotADirectoryError
        with os.scandir(full) as listing:
            entries = list(listing)
        record.stamp, record.inode = self._stamp(status), status.st_ino
        names, prefix = {entry.name for entry in entries}, full + b"/"
        known = self._under_rules(record, names, old)
        record.files = self._left_alone(record, entries, known)
        for entry in entries:
            name = entry.name
            if name in record.files:
                continue
            if name == b".git":
                # it may become a repository any time
                record.stamp = UNSETTLED if path else record.stamp
            elif name == RESERVED and not path:
                record.skip(name, SkipReason.RESERVED, "gitcp keeps its own things under this name")
            elif entry.is_dir(follow_symlinks=False):
                self._directory(record, name)
            elif (
                name.startswith(TEMPORARY)
                and is_temporary(name)
                and name not in record.folder.files
            ):
                continue  # a restore is writing it, or was cut off
            else:
                self._file(record, name, prefix + name, known)
        self.records[path] = record
        self._not_on_disk(record, names)
        self.gone += [record.below(name) for name in old.folders - record.folders] if old else []

    def _under_rules(self, record: Record, names: set[bytes], old: Record | None) -> Record | None:
        """Take up the rules of a directory; what was known of its files, None if their blobs cannot
        be trusted.
        """
        rules, attributes = self._rules.read(record, names, old, self._scope.started)
        if rules or attributes:
            self._judged_anew.append(record.path)
        if attributes:
            self._converted_anew.append(record.path)
        return None if _is_below(record.path, self._converted_anew) else old

    def _shut(self, record: Record, error: OSError) -> None:
        """A directory that cannot be listed: left out if it is there, forgotten if it went away
        meanwhile.
        """
        why = reason(error, record.path)
        if not record.path:
            raise GitcpError(
                f"{os.fsdecode(self._scope.root)} cannot be listed ({why}). Nothing was saved"
            ) from None
        parent_path, _, name = record.path.rpartition(b"/")
        parent = self._adopted(parent_path)
        parent.folders.discard(name)
        parent.stamp = UNSETTLED
        is_there = not isinstance(error, FileNotFoundError | NotADirectoryError)
        if is_there:
            parent.skip(name, SkipReason.UNREADABLE, why)
        self.gone.append(record.path)
        self._only_indexed(record.path, blocked=is_there)

    def _directory(self, record: Record, name: bytes) -> None:
        path = record.below(name)
        full = self._full(path)
        slots = record.folder.files.get(name)
        if slots and slots[0][0] == GITLINK:
            self._submodule(record, name, full, slots[0])
            return
        tracked = name in record.folder.folders
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
            if self._stays_out(record, name, path, full):
                return
        record.folders.add(name)
        is_new = self._scope.deep or not self._is_known(path, ignored, included)
        if is_new or _is_below(path, self._judged_anew):
            self._ahead.append((path, ignored, included))

    def _stays_out(self, record: Record, name: bytes, path: bytes, full: bytes) -> bool:
        """Whether an untracked directory is not entered, for a reason that is then written down."""
        if (trouble := problem(path)) is not None:
            record.skip(name, SkipReason.BAD_NAME, trouble)
        elif full in self._scope.own:
            record.skip(name, SkipReason.NESTED_REPOSITORY, "this repository's own git directory")
        elif (
            os.path.lexists(full + b"/.git")
            and (git_dir := nested.git_dir_of(full))
            and not self._is_own(git_dir)
        ):
            record.nested[name] = nested.head_of(git_dir)
        elif name in DEPENDENCIES and is_overfull(full, most := self._scope.max_dependency_files):
            record.skip(name, SkipReason.TOO_MANY, f"untracked, and more than {most} files in it")
        else:
            return False
        self._watch(record, name, full)
        return True

    def _submodule(self, record: Record, name: bytes, full: bytes, slot: Slot) -> None:
        git_dir = nested.git_dir_of(full)
        head = nested.head_of(git_dir) if git_dir else None
        record.links[name] = (bytes.fromhex(head) if head else slot[1], head)
        self._watch(record, name, full)
        if git_dir is None and nested.is_filled(full):
            why = "a submodule without a repository: git does not see what is in it"
            record.skip(name, SkipReason.NESTED_REPOSITORY, why)

    def _watch(self, record: Record, name: bytes, full: bytes) -> None:
        """Have the next scan see that a directory which was not entered has changed."""
        try:
            record.watched[name] = self._stamp(os.lstat(full))
        except OSError:
            record.watched[name] = UNSETTLED

    def _is_own(self, git_dir: bytes) -> bool:
        return os.path.realpath(git_dir) in self._scope.own

    # ------------------------------------------------------------ files

    def _file(self, record: Record, name: bytes, full: bytes, old: Record | None) -> None:
        slots = record.folder.files.get(name, ())
        known = old.files.get(name) if old else None
        if not slots and self._is_left_out(record, name):
            return
        try:
            status = os.lstat(full)
        except FileNotFoundError:
            record.stamp = UNSETTLED
            return
        except OSError as error:
            record.skip(name, SkipReason.UNREADABLE, reason(error, name))
            record.watched[name] = UNSETTLED
            return
        if stat.S_ISDIR(status.st_mode):
            record.stamp = UNSETTLED  # it was a file a moment ago
        elif self._is_storable(record, name, status, slots):
            if (
                old
                and known
                and self._is_unchanged(known, status)
                and _is_judged_alike(known, old, name, slots)
            ):
                mode = self._blobs.mode(status.st_mode, slots)
                record.files[name] = known if known.mode == mode else known._replace(mode=mode)
            else:
                self._jobs.append(
                    Job(record, name, status, slots, known.attributes if known else None)
                )

    def _left_alone(
        self, record: Record, entries: Iterable[os.DirEntry[bytes]], old: Record | None
    ) -> dict[bytes, File]:
        """The known files that need not be looked at, where rules are as they were; a name may be
        another file's.
        """
        _, touched = self._touched.get(record.path, ANYTHING)
        if touched is None or old is None or _is_below(record.path, self._judged_anew):
            return {}
        here = {entry.name: entry.inode() for entry in entries}
        for name in touched:
            here.pop(name, None)
        return {name: file for name, file in old.files.items() if here.get(name) == file.inode}

    def _is_left_out(self, record: Record, name: bytes) -> bool:
        """Whether ignore rules keep an untracked file out, and no include pattern takes it in."""
        if record.included:
            return False
        if not record.ignored and not self._rules.ignores(record, name, is_directory=False):
            return False
        return not self._scope.include.takes(record.path, name, is_directory=False)

    def _is_storable(
        self, record: Record, name: bytes, status: os.stat_result, slots: tuple[Slot, ...]
    ) -> bool:
        """Whether this can be captured, and if untracked also should be; else it is written down
        why not.
        """
        if not git_mode(status.st_mode):
            record.skip(
                name, SkipReason.SPECIAL, _KINDS.get(stat.S_IFMT(status.st_mode), "no file")
            )
            return False
        if slots:
            return True
        if (trouble := name_problem(record.below(name), name)) is not None:
            record.skip(name, SkipReason.BAD_NAME, trouble)
            return False
        if status.st_size > self._scope.max_untracked_file:
            record.skip(name, SkipReason.TOO_LARGE, f"{status.st_size} bytes")
            record.watched[name] = self._stamp(status)
            return False
        return True

    def _is_unchanged(self, known: File, status: os.stat_result) -> bool:
        return (
            known.settled
            and known.ctime_ns == status.st_ctime_ns
            and known.size == status.st_size
            and known.inode == status.st_ino
            and known.st_mode == status.st_mode
            and self._scope.trusted(known.oid)
        )

    def _capture(self, least: int = 0) -> None:
        if len(self._jobs) >= least:
            jobs, self._jobs = self._jobs, []
            self._blobs.capture(jobs)

    # ------------------------------------------------------------ what only the index has

    def _not_on_disk(self, record: Record, names: set[bytes]) -> None:
        """What the index has here and the disk does not: kept as it is where sparse checkout or a
        submodule is why.
        """
        record.keep_absent(name for name in record.folder.files if name not in names)
        for name in record.folder.folders - record.folders:
            is_ours = name == RESERVED and not record.path
            self._only_indexed(record.below(name), blocked=name in names or is_ours)

    def _only_indexed(self, path: bytes, *, blocked: bool) -> None:
        """Records for a directory that is not entered, and for those below it that the index has
        something in.
        """
        ahead = [path]
        while ahead:
            path = ahead.pop()
            folder, digest = self._folder(path)
            old = self._scope.past.record(path)
            record = Record(path, folder, digest)
            record.blocked = blocked
            if not blocked:
                record.keep_absent(folder.files)
            if old is not None:
                self.gone += [record.below(name) for name in old.subdirectories() - folder.folders]
            if record.tracked:
                self.records[path] = record
                ahead += [record.below(name) for name in folder.folders]
            else:
                self.gone.append(path)

    # ------------------------------------------------------------ what is known

    def _full(self, path: bytes) -> bytes:
        return self._scope.root + b"/" + path if path else self._scope.root

    def _stamp(self, status: os.stat_result) -> int:
        return status.st_ctime_ns if settled(status.st_ctime_ns, self._scope.started) else UNSETTLED

    def _adopted(self, path: bytes) -> Record:
        """The record of a directory that is known and was not looked at, to be changed."""
        record = self.records.get(path)
        if record is None:
            old = self._scope.past.record(path)
            assert old is not None
            record = self.records[path] = old.copy()
        return record

    def _folder(self, path: bytes) -> tuple[Folder, bytes]:
        """What the index has in a directory, and its digest."""
        if self._scope.index is not None:
            folder = self._scope.index.folders.get(path)
            return (folder, folder.digest()) if folder else (Folder(), b"")
        old = self._scope.past.record(path)
        return (old.folder, old.digest) if old else (Folder(), b"")

    def _is_known(self, path: bytes, ignored: bool, included: bool) -> bool:
        """Whether a directory was entered before under the same rules; if it changed, the scan was
        sent there too.
        """
        line = self._scope.past.line(path)
        return line is not None and line.stamp != GONE and line.flags[:2] == (ignored, included)


def _is_still(full: bytes, old: Record) -> bool:
    """Whether this is the directory that it was, with the entries that it had."""
    try:
        status = os.lstat(full)
    except OSError:
        return False
    return (status.st_ctime_ns, status.st_ino) == (old.stamp, old.inode)


def _is_below(path: bytes, tops: Iterable[bytes]) -> bool:
    """Whether a directory is one of these or lies below one."""
    return any(not top or path == top or path.startswith(top + b"/") for top in tops)


def _is_judged_alike(known: File, old: Record, name: bytes, slots: tuple[Slot, ...]) -> bool:
    """Whether a file is stored as before: what git would store can depend on what it has in the
    index.
    """
    if known.attributes is None:
        return True
    return [slot[:3] for slot in old.folder.files.get(name, ())] == [slot[:3] for slot in slots]
