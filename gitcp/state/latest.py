"""The last checkpoint made in this working tree, by whichever session, and when its scan began.

All sessions' checkpoints of a working tree form one line by this: each save reads it, and records
in its metadata which checkpoint came before. If the file is lost, a checkpoint follows its parent.
"""

from __future__ import annotations

from contextlib import suppress
from typing import NamedTuple

from gitcp import wire
from gitcp.fastpath.hook_memo import LATEST
from gitcp.git.fsync import read_own, replace_file
from gitcp.git.repo import Repository
from gitcp.model import CheckpointId, Oid
from gitcp.store import Store


class Latest(NamedTuple):
    """A checkpoint, and when the scan for it began, in nanoseconds since 1970."""

    id: CheckpointId
    scanned: int


def read(repo: Repository) -> Latest | None:
    """Return the last checkpoint made here, None if it is not known."""
    try:
        id_text, _, scanned = (
            read_own(repo.git_dir / "gitcp" / LATEST).decode("ascii").partition(" ")
        )
        id = wire.parse_id(id_text)
        return Latest(id, int(scanned)) if id is not None else None
    except (OSError, ValueError):
        return None


def write(repo: Repository, latest: Latest) -> None:
    """Record the last checkpoint made here. Ignores write errors. The caller holds the lock."""
    text = f"{latest.id} {latest.scanned}\n"
    with suppress(OSError):
        replace_file(repo.state_dir / LATEST, text.encode("ascii"), durable=False)


def commit_of(store: Store, id: CheckpointId) -> Oid | None:
    """Return the commit of a checkpoint, None if its session no longer has it. Cheap for a
    session's last one.
    """
    tip = store.tip(id.session)
    for summary in store.readable(tip):
        if summary.id.number <= id.number:
            return summary.commit if summary.id == id else None
    return None
