"""A directory of gitcp's own that gets the files of one checkpoint after the other, for commands
that try them. Only what differs is written.
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, NamedTuple

from gitcp.errors import BadValue, GitcpError
from gitcp.model import Checkpoint
from gitcp.restoring.apply import Applied, apply_files
from gitcp.restoring.contents import Contents
from gitcp.restoring.materialise import whole
from gitcp.restoring.plan import FilePlan, FileStep, Kept, parents, within
from gitcp.store import Store, require_files
from gitcp.value import replace
from gitcp.worktree.paths import display
from gitcp.worktree.records import Stamp, stamp_of
from gitcp.worktree.writer import Writer

if TYPE_CHECKING:
    from typing import Self


TICK = 0.02
"""Seconds that the clock of a file system may be behind."""


class _Written(NamedTuple):
    """A file as it was written, and its status just after that."""

    step: FileStep
    stamp: Stamp


class ScratchTree:
    """The directory. `shared` are paths of the working tree that are links in it, at the same
    place: what is written through them is written there. What a command leaves in it stays until it
    is closed, but for files of checkpoints, which are restored.
    """

    def __init__(self, store: Store, shared: Sequence[bytes] = ()) -> None:
        self._store, self._shared = store, tuple(shared)
        self._contents = Contents(store)
        self._second = 0
        self._begin()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Remove the directory; of the links, only themselves."""
        self._directory.cleanup()

    def _begin(self) -> None:
        self._directory = TemporaryDirectory(prefix="gitcp-", ignore_cleanup_errors=True)
        self._written: dict[bytes, _Written] = {}
        self._empty: tuple[bytes, ...] = ()

    @property
    def root(self) -> Path:
        """The directory; it may be another one after `write`."""
        return Path(self._directory.name).resolve()

    def write(self, checkpoint: Checkpoint) -> int:
        """Give the directory the files of a checkpoint, and return how many were written or
        removed. Where that fails, because a command left something in the way, all are written to
        another directory.

        Raises BadValue if the checkpoint has a shared path, GitcpError if a file cannot be written.
        """
        require_files(checkpoint)
        plan = whole(self._store, checkpoint.snapshot, ())
        self._check(checkpoint, plan)
        applied = self._apply(checkpoint, plan)
        if applied.failed:
            self._directory.cleanup()
            self._begin()
            applied = self._apply(checkpoint, plan)
        if applied.failed:
            first = applied.failed[0]
            raise GitcpError(f"{checkpoint.id} cannot be tried: {_said(first)}")
        return len(applied.written) + len(applied.removed)

    def _check(self, checkpoint: Checkpoint, plan: FilePlan) -> None:
        for step in plan.write:
            if self._shared and within(step.path, self._shared):
                raise BadValue(
                    f"{display(step.path)} is in {checkpoint.id}: only paths that are not saved "
                    "can be shared; nothing was run",
                    hint=f"gitcp show --files {checkpoint.id}",
                )
        missing = next((kept for kept in plan.kept if kept.missing), None)
        if missing is not None:
            raise GitcpError(f"{checkpoint.id} cannot be tried: {_said(missing)}")

    def _apply(self, checkpoint: Checkpoint, whole: FilePlan) -> Applied:
        with Writer(self.root) as tree:
            plan = self._differing(tree, whole)
            self._contents.require(plan.write, str(checkpoint.id))
            if plan.write:
                self._wait()

            def seen(path: bytes) -> Stamp | None:  # whatever is in the way goes
                status = tree.lstat(path)
                return stamp_of(status) if status else None

            applied = apply_files(self._contents, plan, tree, seen)
            self._record(whole, plan, applied)
            for path in self._shared:
                if tree.lstat(path) is None:
                    tree.symlink(path, os.path.join(os.fsencode(self._store.repo.root), path))
        return applied

    def _differing(self, tree: Writer, whole: FilePlan) -> FilePlan:
        """Return what of a plan for an empty directory is to be done in this one."""
        wanted = {step.path for step in whole.write}
        gone = [path for path in self._written if path not in wanted]
        kept_directories = {above for path in wanted for above in parents(path)}
        kept_directories.update(whole.make_directories)
        emptied = {above for path in (*gone, *self._empty) for above in parents(path)}
        emptied.update(self._empty)
        return replace(
            whole,
            clear=tuple(FileStep(path, self._written[path].step.new, None) for path in gone),
            write=tuple(step for step in whole.write if not self._has(tree, step)),
            remove_directories=tuple(sorted(emptied - kept_directories, reverse=True)),
        )

    def _has(self, tree: Writer, step: FileStep) -> bool:
        known = self._written.get(step.path)
        if known is None or known.step != step:
            return False
        status = tree.lstat(step.path)
        return status is not None and stamp_of(status) == known.stamp

    def _wait(self) -> None:
        """Wait until the second is over in which files were written last. Python takes a compiled
        module for current if its source has the same size and the same mtime in seconds.
        """
        early = self._second + 1 + TICK - time.time()
        if early > 0:
            time.sleep(early)

    def _record(self, whole: FilePlan, plan: FilePlan, applied: Applied) -> None:
        steps = {step.path: step for step in plan.write}
        for step in plan.clear:
            self._written.pop(step.path, None)
        for path, written in applied.written.items():
            self._written[path] = _Written(steps[path], stamp_of(written.status))
        if applied.written:
            self._second = int(time.time())
        self._empty = whole.make_directories


def _said(kept: Kept) -> str:
    return f"{display(kept.path)}: {kept.reason}"
