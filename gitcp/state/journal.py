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
from pathlib import Path
from typing import Any

from gitcp import wire
from gitcp.errors import DiskFull, GitcpError, StoreBusy, StoreDamaged
from gitcp.git import shared
from gitcp.git.fsync import FULL, read_own, replace_file, sync_directory
from gitcp.git.repo import Repository
from gitcp.git.shared import quoted
from gitcp.model import CheckpointId, Oid, Snapshot
from gitcp.state import oplog
from gitcp.state.extent import (
    Extent,
    decode_extent,
    encode_extent,
    parsed_id,
)
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
    write_fields(
        repo.state_dir / RESTORE,
        {
            "schema": "gitcp.journal/1",
            "target": str(unfinished.target),
            "safety": str(unfinished.safety),
            "paths": [wire.encode_path(path) for path in unfinished.paths],
            **encode_extent(unfinished.extent),
            "message": unfinished.message,
            "session_id": unfinished.session_id,
            "reverted": str(unfinished.reverted) if unfinished.reverted else None,
            "markers": unfinished.markers,
            "merged": _encode_merged(unfinished.merged),
            "step": unfinished.step.value,
            "key": unfinished.key,
        },
    )


def unfinished(repo: Repository) -> Unfinished | None:
    """Return the restore that was started and is not in the operation log yet, if any. Raises
    StoreDamaged if the journal is unreadable.
    """
    path = repo.git_dir / "gitcp" / RESTORE
    fields = read_fields(path)
    if fields is None:
        return None
    try:
        restore = Unfinished(
            target=parsed_id(fields["target"]),
            safety=parsed_id(fields["safety"]),
            paths=tuple(wire.decode_path(path) for path in fields["paths"]),
            extent=decode_extent(fields),
            message=fields.get("message"),
            session_id=fields.get("session_id"),
            reverted=wire.parse_id(fields.get("reverted")),
            markers=bool(fields.get("markers")),
            merged=_decode_merged(fields.get("merged")),
            step=RestoreKind(fields.get("step", "restore")),
            key=str(fields["key"]),
        )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise damaged(path, repr(error)) from None
    return None if _is_logged(repo, restore.key) else restore


def _encode_merged(snapshot: Snapshot | None) -> object:
    return snapshot and {"tree": snapshot.tree, **wire.encode(snapshot)}


def _decode_merged(fields: Any) -> Snapshot | None:
    return None if fields is None else wire.decode_snapshot(fields, Oid(str(fields["tree"])))


def _is_logged(repo: Repository, key: str) -> bool:
    """Return whether a restore completed and only its journal was not removed."""
    return bool(key) and any(
        operation.key == key for operation in oplog.entries(repo, automatic=False)
    )


def finish(repo: Repository) -> None:
    """Remove the journal of a completed restore."""
    (repo.state_dir / RESTORE).unlink(missing_ok=True)
    sync_directory(repo.state_dir)


def read_fields(path: Path) -> dict[str, Any] | None:
    """Return the JSON object in a file, None if the file is missing. Raises StoreDamaged."""
    try:
        fields = wire.loads(read_own(path))
    except FileNotFoundError:
        return None
    except OSError as error:
        raise StoreDamaged(f"{path} cannot be read: {error.strerror}", hint=_fix(path)) from None
    except ValueError:
        raise damaged(path, "not JSON") from None
    if not isinstance(fields, dict):
        raise damaged(path, "not a JSON object")
    return fields


def _fix(path: Path) -> str:
    """Return the command that lets other members read a file of gitcp's: git makes the directory of
    a linked working tree for its owner alone. In an unshared repository, one that shows why.
    """
    directory = path.parent
    if directory.parent.parent.name == "worktrees":
        directory = directory.parent
    return shared.fix(directory) or f"ls -ld {quoted(str(directory))}"


def damaged(path: Path, how: str) -> StoreDamaged:
    """Return the error for one of gitcp's files with invalid content."""
    return StoreDamaged(
        f"{path} is damaged: {how}", hint=f"inspect it, then remove it: rm {quoted(str(path))}"
    )


def write_fields(path: Path, fields: dict[str, object], *, private: bool = False) -> None:
    """Replace a file atomically with a JSON object and fsync it; `private` is for this user only.
    Raises DiskFull, GitcpError; the old file is then intact.
    """
    try:
        replace_file(path, wire.dumps(fields, small=True), private=private)
    except OSError as error:
        if error.errno in FULL:
            raise DiskFull(
                f"the disk is full: {path.name} was not written", hint="free some space"
            ) from None
        raise GitcpError(f"{path} cannot be written: {error.strerror}") from None


def sweep(repo: Repository, restore: Unfinished) -> None:
    """Remove the temporary files that an interrupted restore left."""
    # needed only after a crash, while every command checks for a journal
    from gitcp.worktree.writer import Writer

    with Writer(repo.root) as tree:
        for directory in sorted(restore.directories):
            tree.sweep(directory)
