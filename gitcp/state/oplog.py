"""The operation log: what was done to checkpoints besides saving them, in order. `undo` and `redo`
walk it.

One file for all working trees, `<git dir>/gitcp/oplog`, one JSON object a line. It is only ever
appended to, so that a crash costs its last line at most; a line that cannot be read is passed over.
Nothing but the order of `undo` needs it: what an operation took away is under `refs/gitcp/trash`,
what a restore replaced is in its safety checkpoint.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterable, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from gitcp import wire
from gitcp.errors import DiskFull, GitcpError
from gitcp.git.fsync import FULL, open_own, open_shared, read_own
from gitcp.git.repo import Repository
from gitcp.model import CheckpointId
from gitcp.value import EMPTY, Value, replace

NAME = "oplog"
TAIL = 1 << 16
"""So much of the file's end is read for the number of its last operation."""

REVERT = "revert"
RESTORING = frozenset({"restore", REVERT})
"""The operations that change files and conversation, each with a safety checkpoint before it."""

QUARANTINE = "quarantine"
"""A damaged session was put into the trash, so that saving could go on; `dropped` has the numbers
it had used.
"""

RENAME = "rename"
TAKING = frozenset({"prune", "delete"})
"""The operations that put refs into the trash, and that `undo` brings back from there."""

Ranges = Mapping[str, tuple[tuple[int, int], ...]]
"""Checkpoints by session, as first and last numbers."""


class Operation(Value):
    """One operation. `what` is its command's name, `said` one line for people, `worktree` where it
    was typed.

    `checkpoints` are those it is about. `trash` names what a prune or delete put away, `dropped`
    the checkpoints that were. An undo or redo says in `of` which operation it is of. `automatic`:
    nobody typed it. `names` are those that a rename took and gave.
    """

    number: int
    time: datetime
    what: str
    said: str
    worktree: str | None = None
    checkpoints: tuple[CheckpointId, ...] = ()
    trash: str | None = None
    dropped: Ranges = EMPTY
    of: int | None = None
    automatic: bool = False
    names: tuple[str, ...] = ()


class Standing(Value):
    """What can be undone and redone here, the next one last."""

    undo: tuple[Operation, ...] = ()
    redo: tuple[Operation, ...] = ()


def record(repo: Repository, what: str, said: str, **fields: Any) -> Operation:
    """Append an operation that was done just now; `fields` are those of Operation. Safe beside
    other processes.

    Writes one line and fsyncs it. Raises DiskFull or GitcpError; what the operation did stands all
    the same.
    """
    return append(repo, Operation(0, repo.host.now(), what, said, repo.worktree_name, **fields))


def append(repo: Repository, operation: Operation) -> Operation:
    """The same for an operation with a time of its own; it is given the next number."""
    path = repo.store_dir / NAME
    try:
        descriptor = open_shared(path, os.O_RDWR | os.O_APPEND)
        with open(descriptor, "r+b", buffering=0) as file:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            size = os.fstat(descriptor).st_size
            tail = os.pread(descriptor, TAIL, max(0, size - TAIL))
            numbered = replace(operation, number=_last_number(repo, tail, size) + 1)
            # A line that a crash cut off is ended first, or it would take this one along.
            file.write(
                (b"\n" if tail and not tail.endswith(b"\n") else b"")
                + wire.dumps(encode(numbered), small=True)
                + b"\n"
            )
            os.fsync(descriptor)
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
    """What to say where an operation was done and could not be written down."""
    return f"the {operation.what} was done, and is not in the operation log"


def entries(repo: Repository) -> tuple[Operation, ...]:
    """Every operation, the first one first, with sessions as they are called now. Reads only.

    Lines that cannot be read are left out.
    """
    try:
        data = read_own(Path(repo.common_dir, "gitcp", NAME))
    except (FileNotFoundError, NotADirectoryError):
        return ()
    return _called_now(_decoded(data.split(b"\n")))


def former(repo: Repository) -> dict[str, str]:
    """What sessions were called before they were renamed, and what they are called now."""
    found: dict[str, str] = {}
    for operation in reversed(entries(repo)):
        if operation.what == RENAME and len(operation.names) == 2:
            old, new = operation.names
            found.setdefault(old, found.get(new, new))
    return found


def _called_now(operations: tuple[Operation, ...]) -> tuple[Operation, ...]:
    names: dict[str, str] = {}
    found = []
    for operation in reversed(operations):
        found.append(_with_names(operation, names) if names else operation)
        if operation.what == RENAME and len(operation.names) == 2:
            old, new = operation.names
            names = {**names, old: names.get(new, new)}
    return tuple(reversed(found))


def _with_names(operation: Operation, names: Mapping[str, str]) -> Operation:
    ids = (id._replace(session=names.get(id.session, id.session)) for id in operation.checkpoints)
    dropped = {names.get(session, session): ranges for session, ranges in operation.dropped.items()}
    return replace(operation, checkpoints=tuple(ids), dropped=dropped)


def last_number(repo: Repository) -> int:
    """The number of the last operation, 0 where there is none. Reads the end of the log."""
    return _last_number(repo, *_end(repo))


def since(repo: Repository, number: int) -> tuple[Operation, ...]:
    """The operations of this number and higher ones, as they were written. Reads the end of the
    log, if they are there.

    A store that prunes itself for years has a log of tens of thousands.
    """
    end, size = _end(repo)
    found = _decoded(end.split(b"\n"))
    if size > TAIL and (not found or found[0].number > number):
        found = entries(repo)
    return tuple(operation for operation in found if operation.number >= number)


def _end(repo: Repository) -> tuple[bytes, int]:
    """The last bytes of the log, and how many there are in all."""
    try:
        with open(open_own(Path(repo.common_dir, "gitcp", NAME)), "rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - TAIL))
            return file.read(), size
    except (FileNotFoundError, NotADirectoryError):
        return b"", 0


def standing(operations: Iterable[Operation], worktree: str | None) -> Standing:
    """What can be undone and redone in a working tree, by this log alone.

    An operation takes the place of what could be redone of its kind. What gitcp did by itself is
    nobody's last step: it is undone by its number.
    """
    done: list[Operation] = []
    undone: list[Operation] = []
    for operation in operations:
        if operation.what in ("undo", "redo"):
            source, goal = (done, undone) if operation.what == "undo" else (undone, done)
            meant = next((each for each in source if each.number == operation.of), None)
            if meant is not None:
                source.remove(meant)
                goal.append(replace(meant, trash=operation.trash or meant.trash))
        elif _walked(operation) and operation.worktree == worktree and not operation.automatic:
            undone = [each for each in undone if _kind(each) != _kind(operation)]
            done.append(operation)
    return Standing(tuple(done), tuple(undone))


def _walked(operation: Operation) -> bool:
    return operation.what in RESTORING or operation.what in TAKING


def _kind(operation: Operation) -> bool:
    return operation.what in RESTORING


def _last_number(repo: Repository, tail: bytes, size: int) -> int:
    found = _decoded(tail.split(b"\n"))
    if not found and size > TAIL:
        found = entries(repo)
    return found[-1].number if found else 0


def _decoded(lines: Iterable[bytes]) -> tuple[Operation, ...]:
    return tuple(found for found in map(_decode, lines) if found is not None)


def encode(operation: Operation) -> dict[str, object]:
    """An operation as it is written down."""
    fields = {
        "number": operation.number,
        "time": operation.time.isoformat(),
        "what": operation.what,
        "said": operation.said.encode("utf-8", "backslashreplace").decode("utf-8"),
        "worktree": operation.worktree,
        "checkpoints": [str(id) for id in operation.checkpoints],
        "trash": operation.trash,
        "dropped": {
            session: list(map(list, ranges)) for session, ranges in operation.dropped.items()
        },
        "of": operation.of,
        "automatic": operation.automatic,
        "names": list(operation.names),
    }
    return {
        key: value
        for key, value in fields.items()
        if value not in (None, [], {}) and value is not False
    }


def _decode(line: bytes) -> Operation | None:
    fields = wire.parse_line(line)
    try:
        return decode(fields) if fields else None
    except (KeyError, TypeError, ValueError, AttributeError):
        return None


def decode(fields: Mapping[str, Any]) -> Operation:
    """An operation as it was written down. Raises KeyError, TypeError, ValueError, AttributeError
    for anything else.
    """
    time = datetime.fromisoformat(fields["time"])
    if time.tzinfo is None:
        raise ValueError("a time without a zone")
    return Operation(
        number=int(fields["number"]),
        time=time,
        what=str(fields["what"]),
        said=str(fields["said"]),
        worktree=fields.get("worktree"),
        checkpoints=tuple(
            id for id in map(wire.parse_id, fields.get("checkpoints", ())) if id is not None
        ),
        trash=fields.get("trash"),
        dropped={
            name: tuple((int(a), int(b)) for a, b in ranges)
            for name, ranges in fields.get("dropped", {}).items()
        },
        of=fields.get("of"),
        automatic=bool(fields.get("automatic", False)),
        names=tuple(map(str, fields.get("names", ()))),
    )
