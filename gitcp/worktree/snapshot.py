"""Snapshots: the current working tree as a git tree and a Snapshot.

The state file remembers the last scan. While it is valid, only changes are scanned: changed
directories are listed, changed files are read, and only their trees are written. In any doubt the
whole tree is scanned. Never writes git's own files; the caller flushes the objects of a snapshot.
"""

from __future__ import annotations

import marshal
import os
from collections.abc import Callable, Collection, Container, Iterable, Iterator, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

from gitcp import fingerprint
from gitcp.errors import IndexUnreadable
from gitcp.fastpath import nodes, stat_check
from gitcp.fastpath import watched as watching
from gitcp.fastpath.nodes import below
from gitcp.fastpath.stat_check import Look
from gitcp.fingerprint import CTIME
from gitcp.git import index as git_index
from gitcp.git.index import entry_of
from gitcp.git.trees import TreeEntry
from gitcp.model import (
    TREE,
    Base,
    Conversion,
    NestedRepository,
    Oid,
    Skip,
    SkipReason,
    Snapshot,
    Submodule,
    Unlocked,
)
from gitcp.value import EMPTY, Value, replace
from gitcp.worktree import nested, outputs, records, state
from gitcp.worktree.basis import ScanInputs, basis_of
from gitcp.worktree.reading import settled, tick
from gitcp.worktree.records import (
    ABSENT,
    ABSENT_BELOW,
    EMPTY_BELOW,
    NOTED,
    REPOSITORIES,
    SEGMENTS,
    TRACKED,
    UNTRACKED_BELOW,
    FileRecord,
    PreviousScan,
    Ref,
    ScannedDirectory,
    Stamp,
    StoredDirectory,
)

if TYPE_CHECKING:
    from gitcp.fastpath.nodes import ScanFile
    from gitcp.fastpath.stat_check import Change, Touched
    from gitcp.fastpath.watched import Watch
    from gitcp.fingerprint import Fingerprint
    from gitcp.git.index import Index
    from gitcp.git.objects import Objects
    from gitcp.git.repo import Repository
    from gitcp.worktree.attributes import ConversionHints
    from gitcp.worktree.blobs import Blobs, WrittenFile
    from gitcp.worktree.scan import Scan
    from gitcp.worktree.state import Nodes, ScanMemory

_UNSETTLED_INDEX = (0,)

FORK_ABOVE = 5_000
"""Names to compare from which on a second process pays."""

STAMPS = 16_384
"""Stamps of a snapshot that are held: a restore asks several times for those of each path."""


class Limits(Value):
    """What is skipped, and which ignored files are included.

    `max_untracked_file` is in bytes, `max_dependency_files` applies to a directory such as
    node_modules, `include` are patterns as in a `.gitignore`. `outputs` are captured although they
    are ignored or too large, beside those of the working tree (gitcp.worktree.outputs). Those
    `promised` were only appended to since the last snapshot, says the caller of this one: it is no
    setting, and no other snapshot relies on it.
    """

    max_untracked_file: int = 10 << 20
    max_dependency_files: int = 1000
    include: tuple[str, ...] = ()
    outputs: tuple[bytes, ...] = ()
    promised: tuple[bytes, ...] = ()


class Taken(NamedTuple):
    """A snapshot with its stat data.

    `stamp(path)` returns the stamp of a captured file or symlink when it was read, None for other
    paths. `remember()` writes the state file; call it only once a checkpoint ref contains the
    snapshot's tree. `started` is when the scan began, and `began` when the look for it did, which
    may be earlier, in nanoseconds of the file system's clock. `watch` is what a watcher answered
    before the scan, None if none did.
    """

    snapshot: Snapshot
    stamp: Callable[[bytes], Stamp | None]
    remember: Callable[[], None]
    memory: ScanMemory | None
    started: int = 0
    watch: Watch | None = None
    began: int = 0

    def __reduce__(self) -> tuple[Any, ...]:
        # Elsewhere there is nothing to remember: what a scan knows is in a file that is open here.
        return known, (self.snapshot,)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Taken) and self.snapshot == other.snapshot

    def __hash__(self) -> int:
        return hash(self.snapshot)


class PartialScan(NamedTuple):
    """A snapshot that this process has just taken, every path that it changed since, and the files
    that it wrote among them.

    Nothing else is scanned: changes by others are left for the next snapshot.
    """

    taken: Taken
    paths: frozenset[bytes]
    written: Mapping[bytes, WrittenFile] = EMPTY

    def touched(self) -> dict[bytes, Touched]:
        """Return the changed entries by directory: the parent of each path, and the path itself if
        it is a directory.
        """
        names: dict[bytes, set[bytes]] = {path: set() for path in self.paths}
        for path in self.paths:
            directory, _, name = path.rpartition(b"/")
            names.setdefault(directory, set()).add(name)
        return {directory: (False, there) for directory, there in names.items()}


def take(
    repo: Repository,
    objects: Objects,
    limits: Limits,
    live: Container[Oid],
    since: PartialScan | None = None,
    *,
    watched: bool = False,
) -> Taken:
    """Capture the current working tree of `repo`.

    Every file is compared with the stat cache. Only if `watched`, those that a watcher of the
    working tree reports: faster, and as true as the watcher is. Never use that for a snapshot by
    which anything is overwritten or removed.

    `live` contains file trees that a checkpoint ref references: what is remembered of these is
    trusted, other objects are first looked up in the store. New blobs and trees go to `objects`,
    which is not flushed; if it is dry, nothing is written. Raises GitcpError if the scan fails as a
    whole; what cannot be captured is listed in the snapshot.
    """
    repo.require_files()
    started = tick()
    look, repo.look = repo.look, None  # stale for any later scan
    if since is None:
        look = _look(repo, look, whole=not watched)
    watch = since.taken.watch if since is not None else look.watch if look else None
    named = {*limits.outputs, *outputs.read(repo)}
    limits = replace(limits, outputs=tuple(sorted(named))) if named else limits
    settings = (limits.max_untracked_file, limits.max_dependency_files, limits.include)
    basis = basis_of(repo, settings)
    memory = since.taken.memory if since else state.load(repo, basis, look)
    index_file = git_index.current_fingerprint(repo)
    is_live = memory is not None and (since is not None or Oid(memory.tree.hex()) in live)
    snapshotter = _Snapshotter(repo, objects, limits, basis, started, look, is_live=is_live)
    try:
        current = snapshotter.take(memory, index_file, since)
        snapshot = _snapshot_of(current, repo.head())
    except nodes.Damaged:
        current = snapshotter.rescan(None, index_file)
        snapshot = _snapshot_of(current, repo.head())
    if snapshotter.lost is not None:
        snapshot = replace(snapshot, skipped=(*snapshot.skipped, snapshotter.lost))
    stamps = _stamps(current)
    unlocked = snapshotter.unlocked
    snapshot = replace(snapshot, unlocked=unlocked) if unlocked else snapshot
    captured = tuple(path for path in limits.outputs if stamps(path) is not None)
    snapshot = replace(snapshot, outputs=captured) if captured else snapshot

    remember = _remember(repo, basis, memory, current, watch)
    began = started if look is None else min(started, look.started)
    return Taken(snapshot, stamps, remember, current, started, watch, began)


def _look(repo: Repository, look: Look | None, *, whole: bool) -> Look:
    """Return the look of a scan that begins now: `look`, if there is one, else one by the answer of
    what watches, which is not begun. If it is to be `whole`, everything is looked at, whatever the
    answer.
    """
    if look is not None and whole and look.only is not None:
        look.answer(None)  # which ends its processes
        look = None
    if look is None:
        look = Look(os.fsencode(repo.root), str(repo.git_dir / "gitcp" / state.NAME))
        watching.narrow(look, whole=whole)
    return look


def _remember(
    repo: Repository,
    basis: ScanInputs,
    memory: ScanMemory | None,
    current: ScanMemory,
    watch: Watch | None,
) -> Callable[[], None]:
    """Return the function that stores a scan, and the token that a watcher gave before it."""
    before = memory.file.fingerprint if memory is not None else None

    def remember() -> None:
        if current is not memory:
            state.save(repo, basis, current)
        scan = current.file.fingerprint
        # a token must never be stored with a scan that is older than it
        is_stored = scan is not None and (current is memory or scan != before)
        if watch is not None and scan is not None and is_stored:
            watching.store(str(repo.git_dir), watch.after(scan))

    return remember


def known(snapshot: Snapshot) -> Taken:
    """Return a snapshot taken before: nothing is scanned, and there is nothing to remember."""
    return Taken(snapshot, lambda _: None, lambda: None, None)


def _stamps(memory: ScanMemory) -> Callable[[bytes], Stamp | None]:
    past = memory.past()

    @lru_cache(maxsize=STAMPS)
    def stamp(path: bytes) -> Stamp | None:
        directory, _, name = path.rpartition(b"/")
        try:
            record = past.record(directory)
        except nodes.Damaged:
            return None
        file = record.files.get(name) if record is not None else None
        return file.stamp if file else None

    return stamp


def _reindexed(memory: ScanMemory, index: Index) -> list[bytes]:
    """Return the directories whose index entries changed."""
    directories = []
    for path, line in memory.walk():
        folder = index.folders.get(path)
        if line.digest != (folder.digest() if folder else b""):
            directories.append(path)
    return directories


def _skipped(past: PreviousScan) -> Callable[[bytes], Collection[bytes]]:
    """Return the function that returns the names in a directory that a scan does not enter."""

    def names(path: bytes) -> Collection[bytes]:
        record = past.record(path)
        return {*record.skipped, *record.nested, *record.links} if record is not None else ()

    return names


class _Snapshotter:
    """Takes one snapshot."""

    def __init__(
        self,
        repo: Repository,
        objects: Objects,
        limits: Limits,
        basis: ScanInputs,
        started: int,
        look: Look | None,
        *,
        is_live: bool,
    ) -> None:
        self._repo = repo
        self._objects = objects
        self._limits = limits
        self._basis = basis
        self._started = started
        self._look = look
        self._is_live = is_live
        self._written: Mapping[bytes, WrittenFile] = EMPTY
        self._root = os.fsencode(repo.root)
        self.lost: Skip | None = None
        self.unlocked: tuple[Unlocked, ...] = ()

    def take(
        self, memory: ScanMemory | None, index_file: Fingerprint | None, since: PartialScan | None
    ) -> ScanMemory:
        """Return the scan of now, by the remembered one as far as it holds. Raises Damaged."""
        basis = self._basis
        if memory is None or not self._is_live:
            return self.rescan(memory, index_file)
        if (memory.decisions, memory.contents) != (basis.decisions, basis.contents):
            return self.rescan(memory, index_file)
        return self._update(memory, index_file, since)

    def _update(
        self, memory: ScanMemory, index_file: Fingerprint | None, since: PartialScan | None
    ) -> ScanMemory:
        is_same_index = index_file == memory.index_file
        index = None if is_same_index else self._changed_index(memory, index_file)
        self._written = since.written if since is not None else EMPTY
        past = memory.past()
        touched = self._changed_directories(memory) if since is None else since.touched()
        touched |= dict.fromkeys(self._moved_repositories(memory), stat_check.ANYTHING)
        touched |= dict.fromkeys(self._with_new_outputs(past), stat_check.ANYTHING)
        if index is not None:
            touched |= dict.fromkeys(_reindexed(memory, index), stat_check.ANYTHING)
        digest = memory.index_digest if index is None else index.digest
        assembly = _Assembly(self._objects, memory.file, past, self._basis)
        if not touched:
            assembly.register()
            index_file = self._comparable_index(index_file)
            seen = memory._replace(index_file=index_file, index_digest=digest)
            return memory if is_same_index else seen
        scan, hints = self._scan(past, index, memory.words, deep=False)
        scan.scan_changed(touched)
        if scan.has_new_links and self._is_narrow():
            # a write through one name of a file is not reported where it has the other
            scan.scan_changed(dict(self._compare(memory, None)))
        self.unlocked = scan.unlocked
        assembly.update(scan.records)
        updated = self._memory(hints, assembly.root(), memory.file, (index_file, digest))
        return updated._replace(scanned=None if scan.gone else scan.records)

    def _changed_index(self, memory: ScanMemory, index_file: Fingerprint | None) -> Index | None:
        """Return git's index, None if it has the digest of the remembered one: `git status`
        rewrites it with nothing new but stat data. None also if it cannot be read.
        """
        try:
            index = self._read_index(memory, index_file)
        except IndexUnreadable as error:
            self._lose_index(error, state.SCAN)
            return None
        return None if memory.index_digest and index.digest == memory.index_digest else index

    def _read_index(self, memory: ScanMemory | None, index_file: Fingerprint | None) -> Index:
        """Return git's index. Raises IndexUnreadable, also for one that was there and is gone."""
        if index_file is None and memory is not None and memory.index_file is not None:
            raise git_index.unreadable(self._repo, "it is missing")
        return git_index.read(self._repo)

    def _lose_index(self, error: IndexUnreadable, instead: str) -> None:
        from gitcp.git import faults  # hardly ever

        self.lost = state.skip(error.what, instead)
        self._repo.lose_index(faults.of_index(self._repo, error.what, instead))

    def _changed_directories(self, memory: ScanMemory) -> dict[bytes, Touched]:
        # import these while the child processes scan
        from gitcp.worktree import attributes, blobs, ignore, scan  # noqa: F401

        look = self._look
        changed = look.answer(memory.file.fingerprint) if look else None
        if changed is None:
            changed = self._compare(memory, look.only if look else None)
        watch = look.watch if look else None
        if watch is not None and watch.is_narrow:
            holds = _holds(self._repo, watch, changed, _skipped(memory.past()))
            if not holds and self._is_narrow():
                changed = self._compare(memory, None)
        return dict(changed)

    def _is_narrow(self) -> bool:
        """Return whether only some directories were looked at."""
        return self._look is not None and self._look.only is not None

    def _compare(self, memory: ScanMemory, only: frozenset[bytes] | None) -> list[Change]:
        return compare(self._root, memory.file.stored(), only)

    def rescan(self, memory: ScanMemory | None, index_file: Fingerprint | None) -> ScanMemory:
        """Scan everything. Files that are as remembered are not read again if their blobs can be
        trusted. Raises Damaged.
        """
        try:
            index = self._read_index(memory, index_file)
            if index_file is None:  # as after `git clone --no-checkout`
                index, _ = state.instead(self._repo, self._objects.reader, None)
        except IndexUnreadable as error:
            index, instead = state.instead(self._repo, self._objects.reader, memory)
            self._lose_index(error, instead)
        if memory is not None and memory.contents != self._basis.contents:
            memory = None
        past = memory.past() if memory is not None else PreviousScan()
        scan, hints = self._scan(past, index, frozenset(), deep=True)
        file = state.Nodes(None)
        assembly = _Assembly(self._objects, file, PreviousScan(), self._basis)
        scan.scan_all(assembly.add)
        self.unlocked = scan.unlocked
        return self._memory(hints, assembly.root(), file, (index_file, index.digest))

    def _memory(
        self,
        hints: ConversionHints,
        root: Ref,
        file: Nodes,
        index: tuple[Fingerprint | None, bytes],
    ) -> ScanMemory:
        basis, words = self._basis, frozenset(hints.words)
        index_file, digest = self._comparable_index(index[0]), index[1]
        decisions, contents = basis.decisions, basis.contents
        return state.ScanMemory(
            root.tree, index_file, digest, words, decisions, contents, root, file
        )

    def _comparable_index(self, index_file: Fingerprint | None) -> Fingerprint | None:
        """Return the index file to compare the next one with; one that never matches if it was
        written within this clock tick, or could not be read.
        """
        if self.lost is not None:
            return _UNSETTLED_INDEX
        return (
            index_file
            if index_file is None or settled(index_file[CTIME], self._started)
            else _UNSETTLED_INDEX
        )

    def _moved_repositories(self, memory: ScanMemory) -> list[bytes]:
        """Return the directories that contain a submodule or nested repository whose HEAD
        changed.
        """
        directories = []
        for directory, note in _notes_of(memory, REPOSITORIES):
            seen = [(name, head is not None, head) for name, _, head in note.get("submodules", ())]
            seen += [(name, True, head) for name, head in note.get("nested", ())]
            for name, exists, head in seen:
                git_dir = nested.git_dir_of(os.path.join(self._root, directory, name))
                now = nested.head_of(git_dir, self._repo) if git_dir else None
                if (git_dir is not None, now) != (exists, head):
                    directories.append(directory)
        return directories

    def _with_new_outputs(self, past: PreviousScan) -> set[bytes]:
        """Return the directories to scan for outputs that exist and were not captured: those that
        contain them, or the nearest above that were scanned.
        """
        directories = set[bytes]()
        for path in self._limits.outputs:
            directory, _, name = path.rpartition(b"/")
            record = past.record(directory)
            if (record and name in record.files) or not os.path.lexists(
                os.path.join(self._root, path)
            ):
                continue
            while directory and past.line(directory) is None:
                directory = directory.rpartition(b"/")[0]
            directories.add(directory)
        return directories

    def _is_trusted(self, file: FileRecord) -> bool:
        """Return whether a remembered file's objects are stored, and will stay."""
        if self._is_live:
            return True
        oid = Oid(file.oid.hex())
        if file.how != SEGMENTS:
            return self._objects.freshener.freshen(oid)
        from gitcp.git import segmented

        return segmented.is_stored(self._objects, oid)

    def _scan(
        self,
        past: PreviousScan,
        index: Index | None,
        words: frozenset[str],
        *,
        deep: bool,
    ) -> tuple[Scan, ConversionHints]:
        from gitcp.worktree.attributes import ConversionHints
        from gitcp.worktree.ignore import Include
        from gitcp.worktree.scan import Scan, ScanScope

        repo, basis, objects = self._repo, self._basis, self._objects
        hints = ConversionHints(repo, basis.words | words)
        scope = ScanScope(
            root=self._root,
            own=frozenset(
                os.path.realpath(os.fsencode(path)) for path in (repo.git_dir, repo.common_dir)
            ),
            include=Include(
                (*self._limits.include, *outputs.patterns(self._limits.outputs)),
                ignore_case=basis.ignore_case,
            ),
            outputs=frozenset(self._limits.outputs),
            max_untracked_file=self._limits.max_untracked_file,
            max_dependency_files=self._limits.max_dependency_files,
            index=index,
            past=past,
            trusted=self._is_trusted,
            deep=deep,
            started=self._started,
        )
        return Scan(scope, basis, objects, self._blobs(hints, index), hints), hints

    def _blobs(self, hints: ConversionHints, index: Index | None) -> Blobs:
        from gitcp.worktree.blobs import Blobs

        return Blobs(
            self._repo,
            self._objects,
            hints,
            index=index,
            file_mode=self._basis.file_mode,
            symlinks=self._basis.symlinks,
            started=self._started,
            segmented=frozenset(outputs.read(self._repo, outputs.GROWING)),
            promised=frozenset(self._limits.promised),
            trusted=self._is_trusted,
            written=self._written,
        )


def compare(root: bytes, stored: ScanFile, only: frozenset[bytes] | None) -> list[Change]:
    """Return the directories in which something is not as it was, of all or of `only` (see
    stat_check.places). Raises Damaged.
    """
    if only is not None or stored.root[3] < FORK_ABOVE or not stat_check.may_fork():
        return stat_check.compared(root, stat_check.places(stored, only))
    try:
        child = stat_check.child(stored, root, None, 1, 2)
    except OSError:
        return stat_check.compared(root, stat_check.places(stored, None))
    try:
        ours = stat_check.compared(root, stat_check.places(stored, None, 0, 2))
    finally:
        theirs = stat_check.ended(*child)
    if theirs is None:
        return ours + stat_check.compared(root, stat_check.places(stored, None, 1, 2))
    return ours + theirs[1]


def _holds(
    repo: Repository,
    watch: Watch,
    changes: Iterable[Change],
    skipped: Callable[[bytes], Collection[bytes]],
) -> bool:
    """Return whether each of these changes was reported, at least if the watcher is asked again. If
    not, everything has to be looked at, and the watcher is not trusted any more (`watch.missed`),
    unless it has begun anew meanwhile.

    `skipped` returns the names in a directory that a scan does not enter, nor a watcher has to.
    """
    root = os.fsencode(repo.root)
    suspects = [
        path
        for path, (_, names) in changes
        if not _is_reported(root, watch, path)
        and _is_newer(root, watch, path, _without(root, path, names or (), skipped))
    ]
    if not suspects:
        return True
    answer = watching.ask(str(repo.git_dir), watch.known.token)
    if answer is None or answer.paths is None:
        return False
    shallow, deep = watching.directories(answer.paths)
    watch.shallow, watch.deep = watch.shallow | shallow, (*watch.deep, *deep)
    watch.missed = next((path for path in suspects if not _is_reported(root, watch, path)), None)
    return watch.missed is None


def _is_reported(root: bytes, watch: Watch, path: bytes) -> bool:
    """Return whether a change in a directory was reported. If it is gone, that is a change in the
    one above it.
    """
    below = path + b"/"
    if path in watch.shallow or any(below.startswith(top + b"/") for top in watch.deep):
        return True
    is_gone = bool(path) and not _is_there(root, path)
    return is_gone and _is_reported(root, watch, path.rpartition(b"/")[0])


def _without(
    root: bytes,
    path: bytes,
    names: Iterable[bytes],
    skipped: Callable[[bytes], Collection[bytes]],
) -> list[bytes]:
    """Return these entries of a directory without the directories that a scan does not enter."""
    left_out = skipped(path)
    full = os.path.join(root, path)
    return [n for n in names if n not in left_out or not _is_directory(os.path.join(full, n))]


def _is_newer(root: bytes, watch: Watch, path: bytes, names: Iterable[bytes]) -> bool:
    """Return whether a directory, or one of these entries, changed after the watcher was last
    asked, or is gone. What changed in the moment before is only not known to be the same.
    """
    full = os.path.join(root, path)
    if not _is_there(root, path):
        return True
    files = [full, *(os.path.join(full, name) for name in names)]
    for file in files:
        try:
            if fingerprint.of(os.lstat(file))[CTIME] > watch.known.asked:
                return True
        except OSError:
            continue
    return False


def _is_there(root: bytes, path: bytes) -> bool:
    """Return whether this is a directory, and not behind a link: the changes there are reported
    with the path that the link leads to.
    """
    parts = path.split(b"/")
    return all(
        _is_directory(os.path.join(root, *parts[:count])) for count in range(1, len(parts) + 1)
    )


def _is_directory(full: bytes) -> bool:
    """Return whether this is a directory, and no link to one."""
    return os.path.isdir(full) and not os.path.islink(full)


def _notes_of(
    memory: ScanMemory, flag: int = NOTED
) -> Iterator[tuple[bytes, dict[str, list[Any]]]]:
    """Yield the notes of the directories with this flag. Raises Damaged."""
    for path, line in memory.flagged(flag):
        if line.notes:
            yield path, marshal.loads(line.notes)  # noqa: S302  (our own, and whole)


PYTHON_CACHE = b"__pycache__"


def _empty(memory: ScanMemory) -> list[bytes]:
    """Return the directories on disk of which nothing is captured, or only such directories; the
    deepest of each branch. What only Python's cache is in is as if it were not there.
    """
    empty = []
    for path, line in memory.flagged(EMPTY_BELOW):
        empty += [
            below(path, name) for name, ref in line.children.items() if ref.flags & records.EMPTY
        ]
    deepest = set(empty) - {path.rpartition(b"/")[0] for path in empty}
    return sorted(path for path in deepest if path.rpartition(b"/")[2] != PYTHON_CACHE)


def _absent(memory: ScanMemory) -> list[bytes]:
    """Return the topmost directories that sparse checkout keeps from the disk as a whole."""
    return [
        below(path, name)
        for path, line in memory.flagged(ABSENT_BELOW)
        for name, ref in line.children.items()
        if ref.flags & ABSENT
    ]


def _untracked(memory: ScanMemory) -> list[bytes]:
    """Return the topmost directories with captured paths but no index entries."""
    untracked = []
    for path, line in memory.flagged(UNTRACKED_BELOW):
        if path and not line.flags & TRACKED:
            continue
        untracked += [
            below(path, name)
            for name, ref in line.children.items()
            if ref.tree and not ref.flags & TRACKED
        ]
    return untracked


def _snapshot_of(memory: ScanMemory, base: Base) -> Snapshot:
    """Raises Damaged."""
    notes = dict(_notes_of(memory))

    def each(field: str) -> Iterator[tuple[bytes, Any]]:
        for directory, note in notes.items():
            for value in note.get(field, ()):
                name = value if isinstance(value, bytes) else value[0]
                yield below(directory, name), value

    def values(field: str) -> Iterable[tuple[bytes, Any]]:
        return sorted(each(field), key=lambda pair: pair[0])

    untracked = [path for path, _ in each("untracked")]
    untracked += [path + b"/" for path in _untracked(memory)]
    absent = [path for path, _ in each("absent")]
    absent += [path + b"/" for path in _absent(memory)]
    return Snapshot(
        tree=Oid(memory.tree.hex()),
        base=base,
        total=memory.root.captured,
        skipped=tuple(
            Skip(path, SkipReason(why), detail) for path, (_, why, detail) in values("skipped")
        ),
        raw=tuple(path for path, _ in values("raw")),
        converted=tuple(Conversion(path, *how) for path, (_, *how) in values("converted")),
        empty_directories=tuple(_empty(memory)),
        modes={path.rstrip(b"/"): bits for path, (_, bits) in values("modes")},
        submodules=tuple(
            Submodule(path, Oid(commit.hex())) for path, (_, commit, _) in values("submodules")
        ),
        nested=tuple(NestedRepository(path, head) for path, (_, head) in values("nested")),
        absent=tuple(sorted(absent)),
        staged=tuple(entry_of(path, slot) for path, (_, *slot) in values("staged")),
        untracked=tuple(sorted(untracked)),
        conflicts=tuple(entry_of(path, slot) for path, (_, *slot) in values("conflicts")),
    )


class _Assembly:
    """Writes the git trees and the nodes of changed directories; `past` are the directories as they
    were.

    The root's tree, and the previous trees of changed directories, are only registered with
    `objects`, which can then read them: they are compared next.
    """

    def __init__(
        self, objects: Objects, nodes: Nodes, past: PreviousScan, basis: ScanInputs
    ) -> None:
        self._objects = objects
        self._nodes = nodes
        self._past = past
        self._basis = basis
        self._refs: dict[bytes, Ref] = {}

    def add(self, records: Mapping[bytes, ScannedDirectory]) -> None:
        """Add directories of a scan that knows no past, below which nothing is missing."""
        for path in sorted(records, key=_depth, reverse=True):
            self._put(path, self._line(records[path]))

    def update(self, records: Mapping[bytes, ScannedDirectory]) -> None:
        """Add changed directories, and change those above them."""
        paths_by_depth: dict[int, set[bytes]] = {0: {b""}}
        for path in records:
            paths_by_depth.setdefault(_depth(path), set()).add(path)
        for depth in range(max(paths_by_depth), -1, -1):
            for path in paths_by_depth.get(depth, ()):
                record = records.get(path)
                line = self._line(record) if record else self._above(path)
                self._put(path, line)
                self._register(path, line.tree)
                if path:
                    paths_by_depth.setdefault(depth - 1, set()).add(path.rpartition(b"/")[0])

    def register(self) -> None:
        """Let the tree of the root be read, where nothing changed."""
        line, record = self._past.line(b""), self._past.record(b"")
        if line is not None and record is not None:
            _write_tree(self._objects, record, line.children)

    def root(self) -> Ref:
        """Return the reference to the root, which must have been added."""
        return self._refs[b""]

    def _put(self, path: bytes, line: StoredDirectory) -> None:
        self._refs[path] = self._nodes.put(path, line)

    def _line(self, record: ScannedDirectory) -> StoredDirectory:
        old, prefix = self._past.line(record.path), record.below(b"")
        children = {}
        for name in sorted(record.subdirectories()):
            ref = self._refs.pop(prefix + name, None)
            if ref is None and old is not None:
                ref = old.children.get(name)
            if ref is not None:
                children[name] = ref
        notes = record.notes(self._basis.umask, file_mode=self._basis.file_mode)
        return record.line(_write_tree(self._objects, record, children), children, notes)

    def _above(self, path: bytes) -> StoredDirectory:
        """Return a directory in which only others changed."""
        line, record = self._past.line(path), self._past.record(path)
        assert line is not None
        assert record is not None
        prefix = record.below(b"")
        children = {name: self._refs.pop(prefix + name, ref) for name, ref in line.children.items()}
        is_same = path and all(
            children[name].tree == ref.tree for name, ref in line.children.items()
        )
        tree = line.tree if is_same else _write_tree(self._objects, record, children)
        return line._replace(children=children, tree=tree)

    def _register(self, path: bytes, tree: bytes) -> None:
        """Let the previous tree of a directory be read, if it was another."""
        old = self._past.line(path)
        if old is None or old.tree == tree or self._objects.reader.has_cached(Oid(old.tree.hex())):
            return
        record = self._past.record(path)
        assert record is not None
        self._objects.reader.name_tree(_entries(record, old.children))


def _write_tree(objects: Objects, record: ScannedDirectory, children: Mapping[bytes, Ref]) -> bytes:
    """Write the tree of a directory and return its raw id, b"" if nothing is captured in it."""
    entries = _entries(record, children)
    if not entries and record.path:
        return b""
    # The root's tree is not written: a checkpoint's tree is this one plus `.gitcp`.
    write = objects.writer.write_tree if record.path else objects.reader.name_tree
    return bytes.fromhex(write(entries))


def _entries(record: ScannedDirectory, children: Mapping[bytes, Ref]) -> list[TreeEntry]:
    return record.entries() + [
        TreeEntry(name, TREE, Oid(ref.tree.hex())) for name, ref in children.items() if ref.tree
    ]


def _depth(path: bytes) -> int:
    return path.count(b"/") + 1 if path else 0
