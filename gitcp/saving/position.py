"""A position is saved only together with the files it depends on.

A program that resumes at a position finds the files of the checkpoint. If one that it was writing
had been left out, it would do part of its work twice, or not at all.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Collection

from gitcp.errors import BadValue, GitcpError, Refused
from gitcp.git.repo import Repository
from gitcp.model import Checkpoint, Skip, SkipReason, Snapshot
from gitcp.store import Store
from gitcp.worktree import outputs
from gitcp.worktree.paths import display
from gitcp.worktree.snapshot import Taken

LEFT_OUT = (SkipReason.TOO_LARGE, SkipReason.UNREADABLE, SkipReason.UNSTABLE)
SLACK = 1.0
"""Seconds. A checkpoint's time has whole seconds: what changed in the same one may be in it."""


def name_outputs(
    repo: Repository, named: Collection[bytes], appends: Collection[bytes] = ()
) -> None:
    """Add files that a program writes to the list of this working tree: every snapshot captures
    them from now on, and stores those that it only `appends` to as segments. Raises BadValue for
    one that is there and is not a file.
    """
    root, written = os.fsencode(repo.root), {*named, *appends}
    for path in sorted(written):
        _check_kind(root, path)
    try:
        outputs.add(repo, written)
        outputs.add(repo, appends, outputs.GROWING)
    except OSError as error:
        raise GitcpError(
            f"cannot write the list of outputs: {error.strerror}; nothing was changed"
        ) from None


def check_outputs(store: Store, named: Collection[bytes], taken: Taken) -> None:
    """Raise BadValue for an output that exists and is not in the snapshot."""
    root = os.fsencode(store.repo.root)
    for path in named:
        if taken.stamp(path) is None and os.path.lexists(root + b"/" + path):
            reasons = [s.reason.value for s in taken.snapshot.skipped if s.path == path]
            raise BadValue(
                f"output {display(path)} cannot be saved"
                f"{f' ({reasons[0]})' if reasons else ''}: nothing was saved",
                hint=f"ls -l {display(path)}",
            )


def _check_kind(root: bytes, path: bytes) -> None:
    try:
        mode = os.lstat(root + b"/" + path).st_mode
    except OSError:
        return  # not written yet
    if not stat.S_ISREG(mode):
        raise BadValue(
            f"output {display(path)} is not a file, but a "
            f"{'directory' if stat.S_ISDIR(mode) else 'link or device'}: nothing was saved",
            hint="name the files that the program writes, inside the working tree",
        )


def check(store: Store, draft: Checkpoint, parent: Checkpoint | None) -> None:
    """Raise Refused if a file that changed since the parent is not in the checkpoint that records a
    position. Files that were left out before and have not changed since are not its own.
    """
    result = "would not be in the checkpoint", "the position was not saved"
    _refuse(store, draft.snapshot, parent, *result)


def check_resume(store: Store, snapshot: Snapshot, target: Checkpoint) -> None:
    """Raise Refused if a file of the current snapshot changed since the target, but is in neither:
    the restore would leave it as it is.
    """
    _refuse(store, snapshot, target, f"{target.id} does not have it", "no file was restored")


def _refuse(
    store: Store, snapshot: Snapshot, before: Checkpoint | None, why: str, undone: str
) -> None:
    for skip in snapshot.skipped:
        if skip.reason in LEFT_OUT and _changed(store, skip, before):
            import shlex  # a save should not wait for it

            shown = display(skip.path)
            exclude = shlex.quote(str(store.repo.common_dir / "info/exclude"))
            raise Refused(
                f"{shown} changed, but {why} ({skip.reason.value}"
                f"{f', {skip.detail}' if skip.detail else ''}): {undone}, and nothing changed",
                hint=f"name it as an output: --produces {shown}, in Python outputs=[{shown!r}]; if "
                "the position does not depend on it, ignore it: "
                f"echo '/{shown}' >>{exclude}",
            )


def _changed(store: Store, skip: Skip, parent: Checkpoint | None) -> bool:
    if parent is None or skip not in parent.snapshot.skipped:
        return True
    try:
        changed = os.lstat(os.fsencode(store.repo.root) + b"/" + skip.path).st_mtime
    except OSError:
        return True
    return changed > parent.created.timestamp() + SLACK
