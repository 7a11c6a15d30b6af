"""Does to the files what a plan says, and nothing else. Only the safe writer touches the working
tree.

Before a path is changed, the disk must still say of it what the snapshot saw: what changed
meanwhile is kept.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeVar

from gitcp.errors import DiskFull, GitcpError
from gitcp.model import EXECUTABLE, SYMLINK, TREE, Checkpoint
from gitcp.restoring.contents import Contents
from gitcp.restoring.plan import ORDINARY, FilePlan, Kept, Side, Step
from gitcp.restoring.request import know_files
from gitcp.store import Store
from gitcp.value import replace
from gitcp.worktree.snapshot import Stamp, stamp_of
from gitcp.worktree.writer import Prepared, Writer

T = TypeVar("T")

BATCH = 64
"""Files that wait to be placed at a time; each holds two descriptors."""

Seen = Callable[[bytes], Stamp | None]
"""What lstat said of a path when it was captured; None if nothing was."""


class Done:
    """What was done to the files so far."""

    def __init__(self) -> None:
        self.written: list[bytes] = []
        self.removed: list[bytes] = []
        self.failed: list[Kept] = []


def apply_files(contents: Contents, plan: FilePlan, tree: Writer, seen: Seen) -> Done:
    """Carry out `plan` below the root of `tree`. A path that fails is reported and does not stop
    the others.

    The names are still to be flushed. Raises DiskFull, after which the plan can be carried out
    again: each path is then entirely old or entirely new.
    """
    work = _Work(contents, tree, seen)
    for step in plan.clear:
        work.attempt(step.path, partial(work.remove, step))
    emptied = plan.remove_directories
    # one of them may come back under another spelling of its name
    if plan.clear or plan.make_directories:
        emptied = work.remove_directories(emptied)
    for start in range(0, len(plan.write), BATCH):
        work.write(plan.write[start : start + BATCH])
    for step in plan.remove:
        work.attempt(step.path, partial(work.remove, step))
    for directory in plan.make_directories:
        work.attempt(directory, partial(tree.make_directory, directory))
    work.remove_directories(emptied)
    for path, bits in plan.permissions:
        work.attempt(path, partial(_permit, tree, path, bits))
    return work.done


def still_wrong(
    contents: Contents, plan: FilePlan, done: Done, tree: Writer, after: Side
) -> list[Kept]:
    """Which of the changed paths are not as they should be, by a snapshot taken `after`. Doubtful
    ones are read.
    """
    steps = {step.path: step for step in plan.write}
    wrong = [path for path in done.removed if path not in steps and after.has_file(path)]
    for path in done.written:
        step = steps[path]
        # git's attributes may give the same bytes another blob now, and an ignored file has none.
        if step.new is not None and after.entry(path) != step.new:
            wrong += [] if contents.stands(tree, path, step.new, step.conversion) else [path]
    return [Kept(path, "changed again just after it was restored", missing=True) for path in wrong]


def leave_edited(store: Store, contents: Contents, plan: FilePlan, before: Checkpoint) -> FilePlan:
    """The plan to go on with an interrupted restore by, without the paths that were edited since.

    They hold neither what was there when it began, in the checkpoint `before`, nor what it brings.
    """
    know_files(store, before)
    then = Side(store.objects, before.snapshot)
    with Writer(store.repo.root) as tree:

        def is_edited(step: Step) -> bool:
            known = (
                (then.entry(step.path), then.conversions.get(step.path)),
                (step.new, step.conversion),
            )
            if step.old is None or any(entry == step.old for entry, _ in known):
                return False
            files = (
                (entry, how) for entry, how in known if entry is not None and entry.mode != TREE
            )
            return not any(contents.stands(tree, step.path, entry, how) for entry, how in files)

        edited = {step.path for step in (*plan.clear, *plan.write, *plan.remove) if is_edited(step)}
    clear, write, remove = (
        tuple(step for step in steps if step.path not in edited)
        for steps in (plan.clear, plan.write, plan.remove)
    )
    kept = (
        Kept(path, "edited since the restore was interrupted", missing=True)
        for path in sorted(edited)
    )
    return replace(plan, clear=clear, write=write, remove=remove, kept=(*plan.kept, *kept))


class _Work:
    """One plan being carried out."""

    def __init__(self, contents: Contents, tree: Writer, seen: Seen) -> None:
        self.done = Done()
        self.tree = tree
        self._contents = contents
        self._seen = seen
        self._unlinked: dict[tuple[int, int], int] = {}

    def remove(self, step: Step) -> None:
        found = self._require_unchanged(step.path, self.tree.lstat(step.path))
        self.tree.remove(step.path)
        self._remember_links(found)
        self.done.removed.append(step.path)

    def remove_directories(self, paths: Sequence[bytes]) -> tuple[bytes, ...]:
        """Remove those of these directories that are empty; the others."""
        said = [
            (path, self.attempt(path, partial(self.tree.remove_directory, path))) for path in paths
        ]
        return tuple(path for path, is_removed in said if is_removed is False)

    def attempt(self, path: bytes, action: Callable[[], T]) -> T | None:
        """What `action` returns; None if it failed, which is then reported. Raises DiskFull."""
        try:
            return action()
        except GitcpError as error:
            self._report(path, error)
            return None

    def _report(self, path: bytes, error: GitcpError) -> None:
        if isinstance(error, DiskFull):
            raise error
        self.done.failed.append(Kept(path, str(error), missing=True))

    def write(self, steps: Sequence[Step]) -> None:
        """Bring back files and links: all are written beside their places, then synced, then given
        their names.
        """
        waiting: dict[Step, Prepared] = {}
        try:
            for step in steps:
                prepared = self.attempt(step.path, partial(self._prepare, step))
                if prepared is not None:
                    waiting[step] = prepared
            self._sync(waiting)
            for step in tuple(waiting):
                self.attempt(step.path, partial(self._place, step, waiting.pop(step)))
        except BaseException:
            for prepared in waiting.values():
                self.tree.drop(prepared)
            raise

    def _sync(self, waiting: dict[Step, Prepared]) -> None:
        """What cannot be synced waits no longer, and is reported."""
        batch = dict(waiting)
        waiting.clear()  # should it be interrupted, the writer drops them all
        failed = dict(zip(batch, self.tree.sync(tuple(batch.values())), strict=True))
        waiting.update((step, prepared) for step, prepared in batch.items() if failed[step] is None)
        for step, error in failed.items():
            if error is not None:
                self._report(step.path, error)

    def _prepare(self, step: Step) -> Prepared | None:
        """A file beside its place. A link is put in its place at once: there is nothing to sync."""
        assert step.new is not None
        found = self.tree.lstat(step.path)
        if found is not None and stat.S_ISDIR(found.st_mode):
            _clear_directories(self.tree, step.path)
            found = self.tree.lstat(step.path)
        before = self._require_unchanged(step.path, found)
        if step.new.mode != SYMLINK:
            content = self._contents.of(step.new, step.conversion)
            return self.tree.prepare(step.path, content, permissions(step, before), before)
        self.tree.symlink(step.path, b"".join(self._contents.of(step.new, None)))
        self._replaced(step, before)
        return None

    def _place(self, step: Step, prepared: Prepared) -> None:
        """A last look at what it replaces, just before it takes its place."""
        try:
            before = self._require_unchanged(step.path, self.tree.lstat(step.path))
        except BaseException:
            self.tree.drop(prepared)
            raise
        self.tree.place(prepared)
        self._replaced(step, before)

    def _replaced(self, step: Step, before: os.stat_result | None) -> None:
        self._remember_links(before)
        self.done.written.append(step.path)

    def _require_unchanged(
        self, path: bytes, found: os.stat_result | None
    ) -> os.stat_result | None:
        """What was found at a path. Raises GitcpError if it is not what was captured."""
        seen = self._seen(path)
        if found is None and seen is None:
            return None
        if found is None or seen is None or not self._is_same(found, seen):
            raise GitcpError("changed while it was being restored; it was left as it is")
        return found

    def _is_same(self, found: os.stat_result, seen: Stamp) -> bool:
        now = stamp_of(found)
        if now == seen:
            return True
        # Taking away another name of the same file changes this one's ctime too, and not its mtime.
        mtime = self._unlinked.get((found.st_dev, found.st_ino))
        return mtime == found.st_mtime_ns and now._replace(ctime_ns=seen.ctime_ns) == seen

    def _remember_links(self, gone: os.stat_result | None) -> None:
        if gone is not None and gone.st_nlink > 1:
            self._unlinked[gone.st_dev, gone.st_ino] = gone.st_mtime_ns


def permissions(step: Step, before: os.stat_result | None) -> int:
    """The recorded bits, else those of the file that is replaced, else the umask's; the x bit is
    the tree's.
    """
    assert step.new is not None
    if step.permissions is not None and step.permissions != ORDINARY:
        return step.permissions
    executable = step.new.mode == EXECUTABLE
    if before is None or not stat.S_ISREG(before.st_mode) or step.permissions == ORDINARY:
        return ordinary(executable=executable)
    bits = stat.S_IMODE(before.st_mode) & 0o777
    readable = (bits & 0o444) >> 2
    return bits | readable if executable else bits & ~0o111


def ordinary(*, executable: bool) -> int:
    """The permission bits the umask gives a new file."""
    mask = os.umask(0o077)
    os.umask(mask)
    return (0o777 if executable else 0o666) & ~mask


def _permit(tree: Writer, path: bytes, bits: int) -> None:
    status = tree.lstat(path)
    if status is None:
        return
    if bits == ORDINARY:
        bits = ordinary(executable=bool(status.st_mode & 0o100))
    tree.chmod(path, bits)


def _clear_directories(tree: Writer, path: bytes) -> None:
    """Remove a directory of empty directories, so that a file can take its place. Anything else in
    it stays.
    """
    for name in tree.names(path):
        _clear_directories(tree, path + b"/" + name)
    tree.remove_directory(path)
