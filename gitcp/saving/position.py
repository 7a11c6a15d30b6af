"""A position is saved only together with the files it depends on.

A program that resumes at a position finds the files of the checkpoint. If one that it was writing
had been left out, it would do part of its work twice, or not at all.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable

from gitcp.errors import BadValue, GitcpError, Refused
from gitcp.model import Checkpoint, Skip, SkipReason
from gitcp.store import Store
from gitcp.worktree import outputs
from gitcp.worktree.paths import display
from gitcp.worktree.snapshot import Taken

LEFT_OUT = (SkipReason.TOO_LARGE, SkipReason.UNREADABLE, SkipReason.UNSTABLE)
SLACK = 1.0
"""Seconds. A checkpoint's time has whole seconds: what changed in the same one may be in it."""


def capture(
    store: Store, named: tuple[bytes, ...], take: Callable[[tuple[bytes, ...]], Taken]
) -> Taken:
    """Return a snapshot with the files that a program named as its outputs. `take` makes one, with
    paths to be captured although they are ignored or too large.

    Remembers those in the working tree's list. Raises BadValue for one that is not a file of this
    working tree, or is not in the snapshot although it exists.
    """
    root = os.fsencode(store.repo.root)
    for path in named:
        _check_kind(root, path)
    taken = take(())
    missing = tuple(path for path in named if _is_missing(root, path, taken))
    if missing:
        taken = take(missing)
    for path in missing:
        if _is_missing(root, path, taken):
            reasons = [s.reason.value for s in taken.snapshot.skipped if s.path == path]
            raise BadValue(
                f"output {display(path)} cannot be saved"
                f"{f' ({reasons[0]})' if reasons else ''}: nothing was saved",
                hint=f"ls -l {display(path)}",
            )
    try:
        outputs.add(store.repo, taken.snapshot.outputs)
    except OSError as error:
        raise GitcpError(
            f"cannot write the list of outputs: {error.strerror}; nothing was saved"
        ) from None
    return taken


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


def _is_missing(root: bytes, path: bytes, taken: Taken) -> bool:
    return taken.stamp(path) is None and os.path.lexists(root + b"/" + path)


def check(store: Store, draft: Checkpoint, parent: Checkpoint | None) -> None:
    """Raise Refused if a file that changed since the parent is not in the checkpoint that records a
    position. Files that were left out before and have not changed since are not its own.
    """
    for skip in draft.snapshot.skipped:
        if skip.reason in LEFT_OUT and _changed(store, skip, parent):
            shown = display(skip.path)
            raise Refused(
                f"{shown} changed, but would not be in the checkpoint ({skip.reason.value}"
                f"{f', {skip.detail}' if skip.detail else ''}): the position was not saved, and "
                "nothing changed",
                hint=f"name it as an output: --produces {shown}, in Python outputs=[{shown!r}]; if "
                "the position does not depend on it, ignore it: "
                f"echo '/{shown}' >>.git/info/exclude",
            )


def _changed(store: Store, skip: Skip, parent: Checkpoint | None) -> bool:
    if parent is None or skip not in parent.snapshot.skipped:
        return True
    try:
        changed = os.lstat(os.fsencode(store.repo.root) + b"/" + skip.path).st_mtime
    except OSError:
        return True
    return changed > parent.created.timestamp() + SLACK
