"""Apply a plan to the files of the working tree, through the safe writer only.

Before a path is changed, its stat must still be what the snapshot recorded; a path that changed in
the meantime is kept.
"""

from __future__ import annotations

import os
import stat
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TypeVar

from gitcp import progress
from gitcp.errors import DiskFull, GitcpError
from gitcp.model import EXECUTABLE, SYMLINK, TREE, Checkpoint
from gitcp.restoring.contents import Contents
from gitcp.restoring.databases import LiveDatabase
from gitcp.restoring.plan import ORDINARY, FilePlan, FileStep, Kept, Permission, Side
from gitcp.store import Store
from gitcp.value import replace
from gitcp.worktree.blobs import WrittenFile
from gitcp.worktree.directories import identity
from gitcp.worktree.records import Stamp, stamp_of
from gitcp.worktree.writer import SPECIAL, PreparedWrite, Writer

T = TypeVar("T")

BATCH = 64
"""Files prepared at a time, before they are renamed into place; each uses two descriptors."""

EDITED = "edited since the restore was interrupted"
"""Why --continue keeps a path."""

_Pending = tuple[FileStep, PreparedWrite]
"""A file that is written beside its target."""

Seen = Callable[[bytes], Stamp | None]
"""Returns the stat of a path at the time of the snapshot; None if the path did not exist."""


class Applied:
    """The changes made to the files so far."""

    def __init__(self) -> None:
        self.written: dict[bytes, WrittenFile] = {}
        self.removed: list[bytes] = []
        self.databases: list[bytes] = []
        self.failed: list[Kept] = []


def apply_files(contents: Contents, plan: FilePlan, tree: Writer, seen: Seen) -> Applied:
    """Apply `plan` below the root of `tree`, and return what was changed.

    A path that fails is reported and does not stop the others. Directories are not fsynced yet.
    Raises DiskFull, after which the plan can be applied again: each path is then entirely old or
    entirely new.
    """
    changes = len(plan.clear) + len(plan.write) + len(plan.remove)
    with progress.task("restoring", "files", changes) as advance:
        return _apply(_Work(contents, tree, seen), plan, advance)


def _apply(work: _Work, plan: FilePlan, advance: progress.Advance) -> Applied:
    tree = work.tree
    for database in plan.databases:
        work.attempt(database.path, partial(work.restore_database, database))
    for step in plan.clear:
        work.attempt(step.path, partial(work.remove, step))
        advance(1)
    emptied = plan.remove_directories
    # On a case-insensitive disk, the plan may create one of these under another spelling.
    if plan.clear or plan.make_directories:
        emptied = work.remove_directories(emptied)
    for start in range(0, len(plan.write), BATCH):
        batch = plan.write[start : start + BATCH]
        work.write(batch)
        advance(len(batch))
    for step in plan.remove:
        work.attempt(step.path, partial(work.remove, step))
        advance(1)
    for directory in plan.make_directories:
        work.attempt(directory, partial(tree.make_directory, directory))
    work.remove_directories(emptied)
    # from the leaves up: a directory may be shut afterwards
    for each in sorted(plan.permissions, reverse=True):
        work.attempt(each.path, partial(_permit, tree, each))
    return work.done


def still_wrong(
    contents: Contents, plan: FilePlan, done: Applied, tree: Writer, after: Side
) -> list[Kept]:
    """Return the changed paths that are not as planned, by a snapshot taken `after`.

    The content of a path is compared where its entry differs.
    """
    steps = {step.path: step for step in plan.write}
    wrong = [path for path in done.removed if path not in steps and after.has_file(path)]
    for path in done.written:
        step = steps[path]
        # Restored git attributes may convert the same bytes to another blob, and an ignored file
        # is in no snapshot.
        if step.new is not None and after.entry(path) != step.new:
            wrong += [] if contents.has(tree, path, step.new, step.conversion) else [path]
    return [Kept(path, "changed just after it was restored", missing=True) for path in wrong]


def leave_edited(store: Store, contents: Contents, plan: FilePlan, before: Checkpoint) -> FilePlan:
    """Return the plan of an interrupted restore without the paths edited since.

    An edited path has neither its content in `before`, the safety checkpoint, nor that of the
    target.
    """
    safety = Side(store.reader, before.snapshot)
    with Writer(store.repo.root) as tree:

        def is_edited(step: FileStep) -> bool:
            versions = (
                (safety.entry(step.path), safety.conversions.get(step.path)),
                (step.new, step.conversion),
            )
            if step.old is None or any(entry == step.old for entry, _ in versions):
                return False
            files = (
                (entry, how) for entry, how in versions if entry is not None and entry.mode != TREE
            )
            return not any(contents.has(tree, step.path, entry, how) for entry, how in files)

        edited = {step.path for step in (*plan.clear, *plan.write, *plan.remove) if is_edited(step)}
    clear, write, remove = (
        tuple(step for step in steps if step.path not in edited)
        for steps in (plan.clear, plan.write, plan.remove)
    )
    kept = (Kept(path, EDITED, missing=True) for path in sorted(edited))
    return replace(plan, clear=clear, write=write, remove=remove, kept=(*plan.kept, *kept))


class _Work:
    """One plan being applied."""

    def __init__(self, contents: Contents, tree: Writer, seen: Seen) -> None:
        self.done = Applied()
        self.tree = tree
        self._contents = contents
        self._seen = seen
        self._unlinked: dict[tuple[int, int], int] = {}

    def restore_database(self, database: LiveDatabase) -> None:
        """Restore a database that a program has open."""
        from gitcp.restoring import live_database  # 5 ms, and hardly ever

        root = Path(os.fsdecode(self.tree.root))
        live_database.restore(self._contents, database, root, self._seen)
        self.tree.changed.update(database.paths)
        self.done.databases.append(database.path)

    def remove(self, step: FileStep) -> None:
        status = self._require_unchanged(step.path, self.tree.lstat(step.path))
        self.tree.remove(step.path)
        self._remember_links(status)
        self.done.removed.append(step.path)

    def remove_directories(self, paths: Sequence[bytes]) -> tuple[bytes, ...]:
        """Remove the directories that are empty, and return the others."""
        results = [
            (path, self.attempt(path, partial(self.tree.remove_directory, path))) for path in paths
        ]
        return tuple(path for path, is_removed in results if is_removed is False)

    def attempt(self, path: bytes, action: Callable[[], T]) -> T | None:
        """Return what `action` returns, or report its failure and return None. Raises DiskFull."""
        try:
            return action()
        except GitcpError as error:
            self._report(path, error)
            return None

    def _report(self, path: bytes, error: GitcpError) -> None:
        if isinstance(error, DiskFull):
            raise error
        self.done.failed.append(Kept(path, str(error), missing=True))

    def write(self, steps: Sequence[FileStep]) -> None:
        """Write files and links: each beside its target, then fsynced, then renamed into place."""
        pending: deque[_Pending] = deque()
        try:
            with self.tree.holding():
                for step in steps:
                    prepared = self.attempt(step.path, partial(self._prepare, step))
                    if prepared is not None:
                        pending.append((step, prepared))
            self._sync(pending)
            while pending:
                step, prepared = pending.popleft()
                self.attempt(step.path, partial(self._place, step, prepared))
        except BaseException:
            for _, prepared in pending:
                self.tree.drop(prepared)
            raise

    def _sync(self, pending: deque[_Pending]) -> None:
        """Sync the pending files; drop and report those that fail."""
        batch = tuple(pending)
        pending.clear()  # if interrupted, the writer drops them all
        errors = self.tree.sync([prepared for _, prepared in batch])
        results = tuple(zip(batch, errors, strict=True))
        pending.extend(each for each, error in results if error is None)
        for (step, _), error in results:
            if error is not None:
                self._report(step.path, error)

    def _prepare(self, step: FileStep) -> PreparedWrite | None:
        """Return the file written beside its target; None for a link, which is created at once."""
        assert step.new is not None
        status = self.tree.lstat(step.path)
        if status is not None and stat.S_ISDIR(status.st_mode):
            _clear_directories(self.tree, step.path)
            status = self.tree.lstat(step.path)
        replaced = self._require_unchanged(step.path, status)
        if step.new.mode != SYMLINK:
            content = self._contents.of(step.new, step.conversion)
            return self.tree.prepare(step.path, content, permissions(step, replaced), replaced)
        placed = self.tree.symlink(step.path, b"".join(self._contents.of(step.new, None)))
        self._replaced(step, placed, replaced)
        return None

    def _place(self, step: FileStep, prepared: PreparedWrite) -> None:
        """Check once more what the file replaces, and rename it into place."""
        replaced: list[os.stat_result | None] = []
        placed = self.tree.place(
            prepared, lambda status: replaced.append(self._require_unchanged(step.path, status))
        )
        self._replaced(step, placed, *replaced)

    def _replaced(
        self, step: FileStep, placed: os.stat_result, replaced: os.stat_result | None
    ) -> None:
        assert step.new is not None
        self._remember_links(replaced)
        is_blob = step.conversion is None and step.new.mode != SYMLINK
        content = self._contents.known(step.new.oid) if is_blob else None
        self.done.written[step.path] = WrittenFile(placed, step.new.oid, content)

    def _require_unchanged(
        self, path: bytes, status: os.stat_result | None
    ) -> os.stat_result | None:
        """Return the status of a path. Raises GitcpError if it changed since the snapshot."""
        recorded = self._seen(path)
        if status is None and recorded is None:
            return None
        if status is None or recorded is None or not self._is_same(status, recorded):
            raise GitcpError("changed during the restore and was kept")
        return status

    def _is_same(self, status: os.stat_result, recorded: Stamp) -> bool:
        current = stamp_of(status)
        if current == recorded:
            return True
        # Unlinking another hard link of the file changes its ctime, but not its mtime.
        was_unlinked = self._unlinked.get(identity(status)) == status.st_mtime_ns
        return was_unlinked and current._replace(ctime_ns=recorded.ctime_ns) == recorded

    def _remember_links(self, status: os.stat_result | None) -> None:
        if status is not None and status.st_nlink > 1:
            self._unlinked[identity(status)] = status.st_mtime_ns


def permissions(step: FileStep, replaced: os.stat_result | None) -> int:
    """Return the permission bits of a restored file: those recorded, else those of the file it
    replaces with the target's executable bit, else the umask's.
    """
    assert step.new is not None
    if step.permissions is not None and step.permissions != ORDINARY:
        return step.permissions
    executable = step.new.mode == EXECUTABLE
    if replaced is None or not stat.S_ISREG(replaced.st_mode) or step.permissions == ORDINARY:
        return ordinary(executable=executable)
    bits = stat.S_IMODE(replaced.st_mode) & 0o777
    readable = (bits & 0o444) >> 2
    return bits | readable if executable else bits & ~0o111


def ordinary(*, executable: bool) -> int:
    """Return the permission bits that the umask gives a new file."""
    mask = os.umask(0o077)
    os.umask(mask)
    return (0o777 if executable else 0o666) & ~mask


def _permit(tree: Writer, permission: Permission) -> None:
    path, bits, is_directory = permission
    status = tree.lstat(path)
    # What was in the way of a directory is kept, with its bits.
    if status is None or stat.S_ISDIR(status.st_mode) != is_directory:
        return
    if stat.S_ISDIR(status.st_mode) and bits != ORDINARY:
        if stat.S_IMODE(status.st_mode) != bits & (SPECIAL | 0o777):
            tree.chmod(path, bits, special=True)
        return
    if bits == ORDINARY:
        is_executable = stat.S_ISDIR(status.st_mode) or bool(status.st_mode & 0o100)
        bits = ordinary(executable=is_executable)
    # Checkpoints of users with different umasks record different files: the bits may be these.
    if status.st_mode & 0o777 != bits & 0o777:
        tree.chmod(path, bits)


def _clear_directories(tree: Writer, path: bytes) -> None:
    """Remove a directory that contains only empty directories, to make room for a file."""
    ahead, entered = [path], []
    while ahead:
        path = ahead.pop()
        entered.append(path)
        ahead += [path + b"/" + name for name in tree.names(path)]
    for path in reversed(entered):
        tree.remove_directory(path)
