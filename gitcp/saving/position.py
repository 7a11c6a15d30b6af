"""A position is saved only together with the files it depends on.

A program that resumes at a position finds the files of the checkpoint. If one that it was writing
had been left out, it would do part of its work twice, or not at all.
"""

from __future__ import annotations

import os

from gitcp.errors import Refused
from gitcp.model import Checkpoint, Skip, SkipReason, Snapshot
from gitcp.store import Store
from gitcp.worktree.paths import display

LEFT_OUT = (SkipReason.TOO_LARGE, SkipReason.UNREADABLE, SkipReason.UNSTABLE)
SLACK = 1.0
"""Seconds. A checkpoint's time has whole seconds: what changed in the same one may be in it."""


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
