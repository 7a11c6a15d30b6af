"""Does to the files what a plan says, and nothing else. Only the safe writer touches the working tree.

Before a path is changed, the disk must still say of it what the snapshot saw: what changed meanwhile is kept.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial

from gitcp.errors import DiskFull, GitcpError
from gitcp.model import EXECUTABLE, SYMLINK
from gitcp.ops.contents import Contents
from gitcp.ops.plan import ORDINARY, FilePlan, Kept, Side, Step
from gitcp.worktree.snapshot import Stamp, stamp_of
from gitcp.worktree.writer import Writer

Seen = Callable[[bytes], Stamp | None]
"""What lstat said of a path when it was captured; None if nothing was."""


@dataclass(slots=True)
class Done:
    """What was done to the files so far."""

    written: list[bytes] = field(default_factory=list)
    removed: list[bytes] = field(default_factory=list)
    failed: list[Kept] = field(default_factory=list)


def apply_files(contents: Contents, plan: FilePlan, tree: Writer, seen: Seen) -> Done:
    """Carry out `plan` below the root of `tree`. A path that fails is reported and does not stop the others.

    Raises DiskFull, after which the plan can be carried out again: each path is then entirely old or entirely new.
    """
    work = _Work(contents, tree, seen)
    for path, action in _actions(work, plan):
        try:
            action()
        except DiskFull:
            raise
        except GitcpError as error:
            work.done.failed.append(Kept(path, str(error), missing=True))
    tree.flush()
    return work.done


def still_wrong(contents: Contents, plan: FilePlan, done: Done, tree: Writer, after: Side) -> list[Kept]:
    """Which of the changed paths are not as they should be, by a snapshot taken `after`. Doubtful ones are read."""
    steps = {step.path: step for step in plan.write}
    wrong = [path for path in done.removed if path not in steps and after.has_file(path)]
    for path in done.written:
        step = steps[path]
        # git's attributes may give the same bytes another blob now, and an ignored file has none.
        if step.new is not None and after.entry(path) != step.new:
            wrong += [] if contents.stands(tree, path, step.new, step.conversion) else [path]
    return [Kept(path, "changed again just after it was restored", missing=True) for path in wrong]


def _actions(work: _Work, plan: FilePlan) -> Iterator[tuple[bytes, Callable[[], object]]]:
    """What is to be done, path by path, in the plan's order."""
    tree = work.tree
    for step in plan.clear:
        yield step.path, partial(work.remove, step)
    for step in plan.write:
        yield step.path, partial(work.write, step)
    for step in plan.remove:
        yield step.path, partial(work.remove, step)
    for directory in plan.make_directories:
        yield directory, partial(tree.make_directory, directory)
    for directory in plan.remove_directories:
        yield directory, partial(tree.remove_directory, directory)
    for path, bits in plan.permissions:
        yield path, partial(_permit, tree, path, bits)


class _Work:
    """One plan being carried out."""

    def __init__(self, contents: Contents, tree: Writer, seen: Seen) -> None:
        self.done = Done()
        self.tree = tree
        self._contents = contents
        self._seen = seen
        self._unlinked: dict[tuple[int, int], int] = {}

    def remove(self, step: Step) -> None:
        found = self._require_unchanged(step.path)
        self.tree.remove(step.path)
        self._remember_links(found)
        self.done.removed.append(step.path)

    def write(self, step: Step) -> None:
        assert step.new is not None
        before = self.tree.lstat(step.path)
        if before is not None and stat.S_ISDIR(before.st_mode):
            _clear_directories(self.tree, step.path)
        before = self._require_unchanged(step.path)
        if step.new.mode == SYMLINK:
            self.tree.symlink(step.path, b"".join(self._contents.of(step.new, None)))
        else:
            self.tree.write(step.path, self._guarded(step), permissions(step, before))
        self._remember_links(before)
        self.done.written.append(step.path)

    def _guarded(self, step: Step) -> Iterator[bytes]:
        """The bytes of a file; then, just before it takes its place, a last look at what it replaces."""
        assert step.new is not None
        yield from self._contents.of(step.new, step.conversion)
        self._require_unchanged(step.path)

    def _require_unchanged(self, path: bytes) -> os.stat_result | None:
        """What lies at a path. Raises GitcpError if it is not what was captured."""
        found, seen = self.tree.lstat(path), self._seen(path)
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
    """The recorded bits, else those of the file that is replaced, else the umask's; the x bit is the tree's."""
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
    """Remove a directory of empty directories, so that a file can take its place. Anything else in it stays."""
    for name in tree.names(path):
        _clear_directories(tree, path + b"/" + name)
    tree.remove_directory(path)
