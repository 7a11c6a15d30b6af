"""The files half of a checkpoint: the working tree as it is now, as a git tree and a Snapshot.

The last scan is remembered in the state file. Where that still holds only what changed is looked
at: directories that are not as they were are listed, files that are not are read, and only their
trees are written. In any doubt the whole tree is scanned. Nothing of git's is ever written, and the
objects of a snapshot are the caller's to flush.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Container
from typing import TYPE_CHECKING, Any, NamedTuple

from gitcp.fastpath import stat_check
from gitcp.git import index as git_index
from gitcp.model import Oid, Snapshot
from gitcp.value import Value
from gitcp.worktree import nested, state
from gitcp.worktree.assembly import write_trees
from gitcp.worktree.basis import Basis, basis_of
from gitcp.worktree.reading import settled, tick
from gitcp.worktree.records import Past, PlainLine, Record, with_tree
from gitcp.worktree.summary import fold, snapshot_of

if TYPE_CHECKING:
    from gitcp.fastpath.stat_check import Touched
    from gitcp.git.index import Index
    from gitcp.git.objects import Objects
    from gitcp.git.repo import Repository
    from gitcp.worktree.attributes import ConversionHints
    from gitcp.worktree.scan import Scan
    from gitcp.worktree.state import Memory

_UNSETTLED_INDEX = (0, 0, 0, 0)

AT_HAND = 1000
"""Directories that changed, up to which what was known of them is kept for the snapshot that
follows.
"""


class Limits(Value):
    """What is left out, and what is taken in though it is ignored.

    `max_untracked_file` is in bytes, `max_dependency_files` is for a directory such as
    node_modules, `include` are patterns as in a `.gitignore`.
    """

    max_untracked_file: int = 10 << 20
    max_dependency_files: int = 1000
    include: tuple[str, ...] = ()


class Stamp(NamedTuple):
    """What lstat says of a path, as far as any change to it would show."""

    ctime_ns: int
    size: int
    inode: int
    mode: int


class Taken(NamedTuple):
    """A snapshot, and what the caller does with it.

    `stamp(path)` is what lstat said of a captured file or symlink when it was read, None for any
    other path. `remember()` writes the state file; to be called when a checkpoint ref holds the
    snapshot's tree, and only then.
    """

    snapshot: Snapshot
    stamp: Callable[[bytes], Stamp | None]
    remember: Callable[[], None]
    memory: Memory | None


class Since(NamedTuple):
    """A snapshot that this process made a moment ago and remembered, and every path that it changed
    since.

    Nothing else is looked at: what others change meanwhile is for the next snapshot.
    """

    taken: Taken
    paths: frozenset[bytes]

    def touched(self) -> dict[bytes, Touched]:
        """Where something changed: above each path, and the path itself if it is a directory."""
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
    since: Since | None = None,
) -> Taken:
    """Capture the working tree of `repo` as it is now.

    `live` are trees of files that a checkpoint ref holds: what is remembered of one of them is
    trusted, anything else is looked up in the object store first. New blobs and trees go to
    `objects`, which is not flushed; if it is dry, nothing is written anywhere. Raises GitcpError if
    the scan fails as a whole; what cannot be captured is listed in the snapshot.
    """
    started = tick()
    settings = (limits.max_untracked_file, limits.max_dependency_files, limits.include)
    basis = basis_of(repo, settings)
    memory = since.taken.memory if since else state.load(repo, basis)
    found = git_index.found(repo)
    is_live = memory is not None and (since is not None or Oid(memory.tree.hex()) in live)
    work = _Work(repo, objects, limits, basis, started, is_live=is_live)
    if (
        memory is not None
        and is_live
        and (memory.decisions, memory.contents) == (basis.decisions, basis.contents)
    ):
        now = work.again(memory, found, since)
    else:
        now = work.anew(memory, found)
    snapshot = snapshot_of(Oid(now.tree.hex()), repo.head(), now.notes, now.folded)

    def remember() -> None:
        if now is not memory:
            state.save(repo, basis, now)

    return Taken(snapshot, _stamps(now), remember, now)


def known(snapshot: Snapshot) -> Taken:
    """A snapshot that was made before: nothing is looked at, and there is nothing to remember."""
    return Taken(snapshot, lambda _: None, lambda: None, None)


def stamp_of(status: os.stat_result) -> Stamp:
    """What `status` says, to be compared with Taken.stamp."""
    return Stamp(status.st_ctime_ns, status.st_size, status.st_ino, status.st_mode)


def _stamps(memory: Memory) -> Callable[[bytes], Stamp | None]:
    past = Past(memory.lines, memory.records)

    def stamp(path: bytes) -> Stamp | None:
        directory, _, name = path.rpartition(b"/")
        record = past.record(directory)
        file = record.files.get(name) if record is not None else None
        return Stamp(file.ctime_ns, file.size, file.inode, file.st_mode) if file else None

    return stamp


def _reindexed(memory: Memory, index: Index) -> list[bytes]:
    """The directories in which the index is not what it was."""
    found = []
    for path, line in memory.lines.items():
        folder = index.folders.get(path)
        if line[3][0] != (folder.digest() if folder else b""):
            found.append(path)
    return found


class _Work:
    """One snapshot in the making."""

    def __init__(
        self,
        repo: Repository,
        objects: Objects,
        limits: Limits,
        basis: Basis,
        started: int,
        *,
        is_live: bool,
    ) -> None:
        self._repo = repo
        self._objects = objects
        self._limits = limits
        self._basis = basis
        self._started = started
        self._is_live = is_live
        self._root = os.fsencode(repo.root)

    def again(self, memory: Memory, found: git_index.Found | None, since: Since | None) -> Memory:
        """What is remembered, brought up to date."""
        index = None if found == memory.index_file else git_index.read(self._repo)
        touched = self._looked(memory) if since is None else since.touched()
        touched |= dict.fromkeys(self._moved(memory), stat_check.ANYTHING)
        if index is not None:
            touched |= dict.fromkeys(_reindexed(memory, index), stat_check.ANYTHING)
        if not touched:
            write_trees(self._objects, {}, Past(memory.lines, None))
            return memory if index is None else memory._replace(index_file=self._kept(found))
        records = dict(memory.records or {}) if len(touched) <= AT_HAND else None
        scan, hints = self._scan(Past(memory.lines, records), index, memory.words, deep=False)
        scan.at(touched)
        gone = {path for path in memory.lines if scan.is_gone(path)} if scan.gone else set()
        lines = {path: line for path, line in memory.lines.items() if path not in gone}
        notes = {path: said for path, said in memory.notes.items() if path not in gone}
        now = self._together(scan, hints, lines, notes, records, found)
        changed = {path for path, line in now.lines.items() if line is not memory.lines.get(path)}
        changed_since = (memory.changed or frozenset()).union(changed, gone)
        at_hand = None if records is None else records | scan.records
        return now._replace(file=memory.file, changed=changed_since, records=at_hand)

    def _looked(self, memory: Memory) -> dict[bytes, Touched]:
        # loads while the children look
        from gitcp.worktree import attributes, blobs, include, scan  # noqa: F401

        changed = stat_check.answer(self._root, memory.file.identity)
        if changed is None:
            changed = stat_check.changed(self._root, list(memory.lines.items()))
        return dict(changed)

    def anew(self, memory: Memory | None, found: git_index.Found | None) -> Memory:
        """A scan of everything. Files that are as remembered are not read again, if their blobs can
        be trusted.
        """
        stat_check.forget()  # what was seen before this scan is nothing for the one after it
        index = git_index.read(self._repo)
        if memory is not None and memory.contents != self._basis.contents:
            memory = None
        scan, hints = self._scan(
            Past(memory.lines if memory else {}, None), index, frozenset(), deep=True
        )
        scan.everywhere()
        return self._together(scan, hints, {}, {}, None, found)

    def _together(
        self,
        scan: Scan,
        hints: ConversionHints,
        lines: dict[bytes, PlainLine],
        notes: dict[bytes, dict[str, Any]],
        taken: dict[bytes, Record] | None,
        found: git_index.Found | None,
    ) -> Memory:
        """What there is to remember: `lines` and `notes` of what did not change, and what was
        scanned.

        Lines that were `taken` out already need not be again.
        """
        basis = self._basis
        trees = write_trees(self._objects, scan.records, Past(lines, taken))
        lines.update(
            (path, with_tree(lines[path], tree)) for path, tree in trees.items() if path in lines
        )
        for path, record in scan.records.items():
            lines[path] = record.line(trees[path])
            notes[path] = record.notes(basis.umask, file_mode=basis.file_mode)
        notes = {path: said for path, said in notes.items() if said}
        words = frozenset(hints.words)
        said = fold(lines, notes)
        index = self._kept(found)
        return state.Memory(
            trees[b""],
            index,
            words,
            lines,
            notes,
            said,
            basis.decisions,
            basis.contents,
            state.File(),
            changed=None,
        )

    def _kept(self, found: git_index.Found | None) -> git_index.Found | None:
        """The index file to compare the next one with; none that could be equal if it was written
        in this very tick.
        """
        return found if found is None or settled(found[3], self._started) else _UNSETTLED_INDEX

    def _moved(self, memory: Memory) -> list[bytes]:
        """The directories with a submodule or another repository in them that is not as it was."""
        found = []
        for directory, said in memory.notes.items():
            seen = [(name, head is not None, head) for name, _, head in said.get("submodules", ())]
            seen += [(name, True, head) for name, head in said.get("nested", ())]
            for name, is_there, head in seen:
                git_dir = nested.git_dir_of(os.path.join(self._root, directory, name))
                if (git_dir is not None, nested.head_of(git_dir) if git_dir else None) != (
                    is_there,
                    head,
                ):
                    found.append(directory)
        return found

    def _scan(
        self,
        past: Past,
        index: Index | None,
        words: frozenset[str],
        *,
        deep: bool,
    ) -> tuple[Scan, ConversionHints]:
        from gitcp.worktree.attributes import ConversionHints
        from gitcp.worktree.blobs import Blobs
        from gitcp.worktree.include import Include
        from gitcp.worktree.scan import Scan, Scope

        repo, basis, objects = self._repo, self._basis, self._objects
        hints = ConversionHints(repo, basis.words | words)
        blobs = Blobs(
            repo, objects, hints, index=index, file_mode=basis.file_mode, started=self._started
        )
        scope = Scope(
            root=self._root,
            own=frozenset(
                os.path.realpath(os.fsencode(path)) for path in (repo.git_dir, repo.common_dir)
            ),
            include=Include(self._limits.include, ignore_case=basis.ignore_case),
            max_untracked_file=self._limits.max_untracked_file,
            max_dependency_files=self._limits.max_dependency_files,
            index=index,
            past=past,
            trusted=(lambda _: True)
            if self._is_live
            else (lambda oid: objects.freshen(Oid(oid.hex()))),
            deep=deep,
            started=self._started,
        )
        return Scan(scope, basis, objects, blobs, hints), hints
