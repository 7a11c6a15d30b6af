"""The journal of open transactions (gitcp.running.transaction): what was begun, and which sessions
a rollback has to put back.

A small file each in `<git dir>/gitcp/runs/`. It is locked as long as the program, or any process it
started, is alive; an unlocked one was interrupted. It is also recorded outside of the repository:
to finish one is to run commands, and an archive may have brought the file.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from gitcp import wire
from gitcp.codec import Codec
from gitcp.errors import StoreDamaged
from gitcp.git import records
from gitcp.git.fsync import (
    append_line,
    is_running,
    make_own_directory,
    read_own,
    replacing,
    sync_directory,
    write_all,
)
from gitcp.git.repo import Repository
from gitcp.git.shared import quoted
from gitcp.model import CheckpointId
from gitcp.value import Value

NAME = "runs"
ENLISTED = ".sessions"
"""The suffix of the file that lists the sessions a transaction has to put back."""


class Transaction(Value):
    """An open transaction: its label, the checkpoint before it, and whether a failure rolls back.

    `order` is one more than that of the transactions that were open at its start. `failed` is the
    checkpoint that records the failure.
    """

    name: str
    label: str
    before: CheckpointId
    rollback: bool
    command: tuple[str, ...] = ()
    order: int = 0
    failed: CheckpointId | None = None

    @property
    def session(self) -> str:
        """The session that the transaction began in."""
        return self.before.session


CODEC = Codec(wire.FORMS, in_full=True)


def files(repo: Repository) -> list[Path]:
    """Return the files of the open transactions of a working tree, whoever owns them."""
    try:
        names = (repo.git_dir / "gitcp" / NAME).iterdir()
        return sorted(path for path in names if path.suffix == ".json")
    except FileNotFoundError:
        return []


def transactions(repo: Repository) -> Iterator[Transaction]:
    """Yield every open transaction of a working tree, abandoned or not. Raises StoreDamaged."""
    for path in files(repo):
        try:
            fields = CODEC.decode_fields(Transaction, wire.loads(read_own(path)))
            # The file's name: the recorded one is not trusted as a path.
            yield Transaction(**{**fields, "name": path.stem})
        except FileNotFoundError:
            continue
        except (OSError, ValueError) as error:
            raise _damaged(path, repr(error)) from None


def write(repo: Repository, transaction: Transaction) -> int:
    """Write a transaction's file and return its descriptor. It is locked before it becomes
    visible. Raises OSError.
    """
    make_own_directory(repo.state_dir / NAME)
    with suppress(OSError):  # if it is interrupted, nobody finishes it then
        records.write(repo.git_dir, repo.host, f"{NAME}/{transaction.name}", b"")
    with replacing(_path(repo, transaction.name), keep_open=True) as descriptor:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        fields = {"schema": "gitcp.run-journal/1", **CODEC.encode(transaction)}
        write_all(descriptor, wire.dumps(fields))
    return descriptor


def lock_abandoned(repo: Repository, transaction: Transaction) -> int | None:
    """Lock a transaction's file and return its descriptor; None if it is locked by another process,
    or closed. Raises OSError.
    """
    path = _path(repo, transaction.name)
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.path.samestat(os.fstat(descriptor), os.stat(path)):
            return descriptor
    except (BlockingIOError, FileNotFoundError):
        pass
    os.close(descriptor)
    return None


def is_recorded(repo: Repository, transaction: Transaction) -> bool:
    """Return whether this user began a transaction here."""
    return records.has(repo.git_dir, repo.host, f"{NAME}/{transaction.name}")


def file_of(repo: Repository, transaction: Transaction) -> Path:
    return _path(repo, transaction.name)


def close(repo: Repository, transaction: Transaction) -> None:
    """Remove the files of a transaction. Without the first one, it is over. Raises OSError."""
    path = _path(repo, transaction.name)
    path.unlink(missing_ok=True)
    _enlisted_path(path).unlink(missing_ok=True)
    records.remove(repo.git_dir, repo.host, f"{NAME}/{transaction.name}")
    sync_directory(repo.state_dir / NAME)


def sweep(repo: Repository) -> None:
    """Remove what a transaction left that was killed while its files were removed, or the first one
    was written.
    """
    with suppress(FileNotFoundError):
        for path in (repo.git_dir / "gitcp" / NAME).iterdir():
            is_closed = path.suffix == ENLISTED and not path.with_suffix(".json").exists()
            is_unfinished = path.stem.endswith(".json") and not is_running(path.suffix[1:])
            if is_closed or is_unfinished:
                path.unlink(missing_ok=True)


def enlist(repo: Repository, session: str, before: CheckpointId | None) -> None:
    """Record in every open transaction that step results or the position of a session change, and
    the session's last checkpoint before that, None for a new session.
    """
    for path in files(repo):
        if session not in _enlisted(path):
            line = wire.dumps([session, str(before) if before else None], small=True)
            append_line(_enlisted_path(path), line)


def enlisted(repo: Repository, transaction: Transaction) -> dict[str, CheckpointId | None]:
    """Return the sessions that `enlist` recorded for a transaction. Raises StoreDamaged."""
    return _enlisted(_path(repo, transaction.name))


def _enlisted(run: Path) -> dict[str, CheckpointId | None]:
    path, sessions = _enlisted_path(run), dict[str, CheckpointId | None]()
    try:
        for line in read_own(path).splitlines(keepends=True):
            if line.endswith(b"\n"):  # else its writer was killed before it changed the session
                session, before = wire.loads(line)
                sessions.setdefault(session, wire.parse_id(before))
    except FileNotFoundError:
        pass
    except (OSError, TypeError, ValueError) as error:
        raise _damaged(
            path, f"{error!r}; it lists the sessions whose results and position are put back"
        ) from None
    return sessions


def _path(repo: Repository, name: str) -> Path:
    return repo.git_dir / "gitcp" / NAME / f"{name}.json"


def _enlisted_path(run: Path) -> Path:
    return run.with_suffix(ENLISTED)


def _damaged(path: Path, how: str) -> StoreDamaged:
    return StoreDamaged(f"{path} is damaged: {how}", hint=f"rm {quoted(str(path))}")
