"""The journal of a restore in progress.

A small JSON file in `<git dir>/gitcp/`, replaced atomically and fsynced. A restore in the operation
log is complete, even if this file was not removed. A lock on that directory, which the system
releases when its holder dies, distinguishes a running restore from an interrupted one.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from typing import Any

from gitcp import wire
from gitcp.codec import INLINE, Codec, FieldRule, Form
from gitcp.errors import StoreBusy
from gitcp.git.fsync import sync_directory
from gitcp.git.repo import Repository
from gitcp.model import CheckpointId, Oid, Snapshot
from gitcp.state import documents, extent, oplog
from gitcp.state.extent import Extent
from gitcp.value import Value

RESTORE = "restore.json"
WRITTEN = "written"


class RestoreKind(StrEnum):
    """Whether a restore is a restore, undo or redo, which decides what can be undone after it."""

    RESTORE = "restore"
    UNDO = "undo"
    REDO = "redo"


class Unfinished(Value):
    """A restore that was started: its target, its safety checkpoint, and the paths it may have
    changed.

    A directory in `paths` followed by gitcp.restoring.plan.ALONE excludes everything below.
    `message` is the user message to restore the conversation to (--message), `session_id` the
    agent's id of the restored conversation. `reverted` is the checkpoint before the step that a
    revert undoes, `markers` whether it writes conflict markers. `merged` is the snapshot that a
    restore of one session's changes (--mine) restores; its objects are stored. `key` identifies
    this restore in the operation log.
    """

    target: CheckpointId
    safety: CheckpointId
    paths: tuple[bytes, ...]
    extent: Extent
    message: str | None = None
    session_id: str | None = None
    reverted: CheckpointId | None = None
    markers: bool = False
    merged: Snapshot | None = None
    step: RestoreKind = RestoreKind.RESTORE
    key: str = ""

    @property
    def directories(self) -> frozenset[bytes]:
        """Return all directories above its paths, including the root: names in them may have
        changed.
        """
        directories = {b""}
        for path in self.paths:
            while path := path.rpartition(b"/")[0]:
                directories.add(path)
        return frozenset(directories)


def _encode_merged(snapshot: Snapshot) -> object:
    return {"tree": snapshot.tree, **wire.encode(snapshot)}


def _decode_merged(fields: Any) -> Snapshot:
    return wire.decode_snapshot(fields, Oid(str(fields["tree"])))


CODEC = Codec(
    wire.FORMS,
    {
        **extent.RULES,
        Unfinished: {
            "extent": INLINE,
            "merged": FieldRule(form=Form(_encode_merged, _decode_merged)),
        },
    },
    in_full=True,
)


@contextmanager
def lock(repo: Repository) -> Iterator[None]:
    """Hold the exclusive lock on restores in this working tree. Raises StoreBusy if another process
    has it.
    """
    descriptor = os.open(repo.state_dir, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    except BlockingIOError:
        raise StoreBusy(
            "another gitcp process is restoring in this working tree; nothing was changed",
            hint="run the command again when it has finished",
        ) from None
    finally:
        os.close(descriptor)


def is_running(repo: Repository) -> bool:
    """Return whether a restore is changing files here right now. An interrupted one is not
    running.
    """
    if not (repo.git_dir / "gitcp" / RESTORE).exists():
        return False
    try:
        with lock(repo):
            return False
    except StoreBusy:
        return True


def begin(repo: Repository, unfinished: Unfinished) -> None:
    """Write the journal of a restore before its first change."""
    documents.write(
        repo.state_dir / RESTORE,
        {"schema": "gitcp.journal/1", **CODEC.encode(unfinished)},
    )


def unfinished(repo: Repository) -> Unfinished | None:
    """Return the restore that was started and is not in the operation log yet, if any. Raises
    StoreDamaged if the journal is unreadable.
    """
    path = repo.git_dir / "gitcp" / RESTORE
    fields = documents.read(path)
    if fields is None:
        return None
    try:
        restore = CODEC.decode(Unfinished, fields)
    except ValueError as error:
        raise documents.damaged(path, repr(error)) from None
    # it completed, and only its journal was not removed
    is_logged = bool(restore.key) and any(
        operation.key == restore.key for operation in oplog.entries(repo, automatic=False)
    )
    return None if is_logged else restore


def interrupted(repo: Repository) -> Unfinished | None:
    """Return the restore that was begun here and is at work no more. Raises as `unfinished`."""
    return None if is_running(repo) else unfinished(repo)


def finish(repo: Repository) -> None:
    """Remove the journal of a completed restore."""
    (repo.state_dir / RESTORE).unlink(missing_ok=True)
    sync_directory(repo.state_dir)


def sweep(repo: Repository, restore: Unfinished) -> None:
    """Remove the temporary files that an interrupted restore left."""
    # needed only after a crash, while every command checks for a journal
    from gitcp.worktree.writer import Writer

    with Writer(repo.root) as tree:
        for directory in sorted(restore.directories):
            tree.sweep(directory)
