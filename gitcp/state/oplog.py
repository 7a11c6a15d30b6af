"""The operation log: all changes to checkpoints except saves, in order. `undo` and `redo` follow it
(gitcp.state.undo_stack).

One file for all working trees, `<git dir>/gitcp/oplog`, with one JSON object a line. It is
append-only, so that a crash costs its last line at most; unreadable lines are skipped. Only `undo`
and `redo` need it: removed refs are in `refs/gitcp/trash`, and replaced files are in safety
checkpoints. A restore is complete once it is in the log.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from gitcp import wire
from gitcp.codec import ALWAYS, Codec, FieldRule, Form
from gitcp.errors import DiskFull, GitcpError, StoreDamaged
from gitcp.git.fsync import FULL, append_line, open_own, read_own
from gitcp.git.repo import Repository
from gitcp.model import CheckpointId
from gitcp.state import extent
from gitcp.state.extent import Extent
from gitcp.value import EMPTY, Value, replace

NAME = "oplog"
TAIL = 1 << 16
"""Bytes read from the end of the file to find the number of its last operation."""

AUTOMATIC = b'"automatic":true'
REVERT = "revert"
RESTORING = frozenset({"restore", REVERT})
"""The operations that change files and conversation, each with a safety checkpoint before it."""

QUARANTINE = "quarantine"
"""A damaged session was moved to the trash so that saving could continue; `dropped` lists its
numbers.
"""

RENAME = "rename"
AMEND = "amend"
UNDO, REDO = "undo", "redo"
TAKING = frozenset({"prune", "delete"})
"""The operations that move refs to the trash, from which `undo` restores them."""

Ranges = Mapping[str, tuple[tuple[int, int], ...]]
"""Checkpoints by session, as inclusive ranges of numbers."""


class Operation(Value):
    """One operation. `what` is its command, `summary` a one-line description, `worktree` where it
    was run.

    `checkpoints` are those it concerns. `trash` names the trash entry of a prune or delete,
    `dropped` the dropped checkpoints. `of` is the number of the operation that an undo or redo
    refers to. `automatic` means that gitcp ran it by itself. `names` are the old and new name of a
    rename.

    For a restore, and for its undo or redo, `safety` is the checkpoint of the state before,
    `extent` what it changed, `key` that of its journal. `aborted` means that it reverted an
    interrupted restore. `place` distinguishes the working tree from an earlier one of the same
    name.
    """

    number: int
    time: datetime
    what: str
    summary: str
    worktree: str | None = None
    checkpoints: tuple[CheckpointId, ...] = ()
    trash: str | None = None
    dropped: Ranges = EMPTY
    of: int | None = None
    automatic: bool = False
    names: tuple[str, ...] = ()
    safety: CheckpointId | None = None
    extent: Extent | None = None
    key: str = ""
    aborted: bool = False
    place: str = ""


def record(repo: Repository, what: str, summary: str, **fields: Any) -> Operation:
    """Append an operation that has just completed; `fields` are those of Operation. Safe for
    concurrent processes.

    Writes one line and fsyncs it. Raises DiskFull or GitcpError; the operation itself is not
    reverted.
    """
    return append(repo, Operation(0, repo.host.now(), what, summary, repo.worktree_name, **fields))


def append(repo: Repository, operation: Operation) -> Operation:
    """Append an operation with its own time, under the next number. Raises as `record`."""
    path, numbered = repo.store_dir / NAME, operation

    def line(tail: bytes, size: int) -> bytes:
        nonlocal numbered
        numbered = replace(operation, number=_last_number(repo, tail, size) + 1)
        return wire.dumps(encode(numbered), small=True)

    try:
        append_line(path, line, TAIL)
    except OSError as error:
        if error.errno in FULL:
            raise DiskFull(
                f"the disk is full: {what_failed(operation)}", hint="free some space"
            ) from None
        raise GitcpError(
            f"{path} cannot be written ({error.strerror}): {what_failed(operation)}"
        ) from None
    return numbered


def what_failed(operation: Operation) -> str:
    """Return the message for an operation that was done but could not be logged."""
    return f"the {operation.what} was done, but is not in the operation log"


def entries(repo: Repository, *, automatic: bool = True) -> tuple[Operation, ...]:
    """Return every operation, oldest first, with current session names. Reads only.

    Unreadable lines are skipped. Without `automatic`, so are gitcp's own operations, of which there
    may be tens of thousands. Raises StoreDamaged if the file cannot be read.
    """
    try:
        data = read_own(Path(repo.common_dir, "gitcp", NAME))
    except (FileNotFoundError, NotADirectoryError):
        return ()
    except OSError as error:
        path = Path(repo.common_dir, "gitcp", NAME)
        raise StoreDamaged(
            f"{path} cannot be read: {error.strerror}", hint=f"ls -ld {path.parent}"
        ) from None
    lines = data.split(b"\n")
    return _with_current_names(
        _decode_all(lines if automatic else (line for line in lines if AUTOMATIC not in line))
    )


def former(repo: Repository) -> dict[str, str]:
    """Return the current names of renamed sessions by their former names."""
    current_names: dict[str, str] = {}
    for operation in reversed(entries(repo)):
        if operation.what == RENAME and len(operation.names) == 2:
            old, new = operation.names
            current_names.setdefault(old, current_names.get(new, new))
    return current_names


def _with_current_names(operations: tuple[Operation, ...]) -> tuple[Operation, ...]:
    names: dict[str, str] = {}
    renamed = []
    for operation in reversed(operations):
        renamed.append(_with_names(operation, names) if names else operation)
        if operation.what == RENAME and len(operation.names) == 2:
            old, new = operation.names
            names = {**names, old: names.get(new, new)}
    return tuple(reversed(renamed))


def _with_names(operation: Operation, names: Mapping[str, str]) -> Operation:
    def named(id: CheckpointId) -> CheckpointId:
        return id._replace(session=names.get(id.session, id.session))

    dropped = {names.get(session, session): ranges for session, ranges in operation.dropped.items()}
    return replace(
        operation,
        checkpoints=tuple(map(named, operation.checkpoints)),
        dropped=dropped,
        safety=named(operation.safety) if operation.safety else None,
    )


def last_number(repo: Repository) -> int:
    """Return the number of the last operation, 0 if there is none. Reads the end of the log."""
    return _last_number(repo, *_end(repo))


def since(repo: Repository, number: int) -> tuple[Operation, ...]:
    """Return the operations from `number` on, with their recorded names. Reads only the end of the
    log if possible: a store that prunes itself for years has tens of thousands of operations.
    """
    tail, size = _end(repo)
    operations = _decode_all(tail.split(b"\n"))
    if size > TAIL and (not operations or operations[0].number > number):
        operations = entries(repo)
    return tuple(operation for operation in operations if operation.number >= number)


def _end(repo: Repository) -> tuple[bytes, int]:
    """Return the last bytes of the log, and its size in bytes."""
    try:
        with open(open_own(Path(repo.common_dir, "gitcp", NAME)), "rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - TAIL))
            return file.read(), size
    except (FileNotFoundError, NotADirectoryError):
        return b"", 0


def _last_number(repo: Repository, tail: bytes, size: int) -> int:
    operations = _decode_all(tail.split(b"\n"))
    if not operations and size > TAIL:
        operations = entries(repo)
    return operations[-1].number if operations else 0


def _decode_all(lines: Iterable[bytes]) -> tuple[Operation, ...]:
    return tuple(operation for operation in map(_decode, lines) if operation is not None)


def _decode_time(text: str) -> datetime:
    time = datetime.fromisoformat(text)
    if time.tzinfo is None:
        raise ValueError("time without a time zone")
    return time


def _without_surrogates(text: str) -> str:
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


CODEC = Codec(
    {**wire.FORMS, datetime: Form(datetime.isoformat, _decode_time)},
    {
        Operation: {
            "what": ALWAYS,
            "summary": FieldRule("said", Form(_without_surrogates, str), always=True),
            "extent": FieldRule(form=extent.CODEC.form(Extent)),
        }
    },
)


def encode(operation: Operation) -> dict[str, object]:
    """Return an operation as a JSON object for the log."""
    fields: dict[str, object] = CODEC.encode(operation)
    return fields


def _decode(line: bytes) -> Operation | None:
    fields = wire.parse_line(line)
    try:
        return decode(fields) if fields else None
    except ValueError:
        return None


def decode(fields: Mapping[str, Any]) -> Operation:
    """Return the operation in a JSON object of the log. Raises ValueError for invalid data."""
    return CODEC.decode(Operation, fields)
