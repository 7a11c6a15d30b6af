"""The last checkpoint made in this working tree, by whichever session, and when its scan began.

All sessions' checkpoints of a working tree form one line by this: each save reads it, and records
in its metadata which checkpoint came before. If the file is lost, a checkpoint follows its parent.
"""

from __future__ import annotations

from contextlib import suppress
from typing import NamedTuple

from gitcp import wire
from gitcp.fastpath.hook_memo import LATEST
from gitcp.git.repo import Repository
from gitcp.model import CheckpointId, Oid
from gitcp.state import documents
from gitcp.store import Store


class Latest(NamedTuple):
    """A checkpoint, and when the scan for it began, in nanoseconds since 1970."""

    id: CheckpointId
    scanned: int


def read(repo: Repository) -> Latest | None:
    """Return the last checkpoint made here, None if it is not known."""
    text, _, scanned = (documents.read_line(repo.git_dir / "gitcp" / LATEST) or "").partition(" ")
    try:
        id = wire.parse_id(text)
        return Latest(id, int(scanned)) if id is not None else None
    except ValueError:
        return None


def write(repo: Repository, latest: Latest) -> None:
    """Record the last checkpoint made here. Ignores write errors. The caller holds the lock."""
    with suppress(OSError):
        documents.write_line(repo.state_dir / LATEST, f"{latest.id} {latest.scanned}")


def commit_of(store: Store, id: CheckpointId) -> Oid | None:
    """Return the commit of a checkpoint, None if its session no longer has it. Cheap for a
    session's last one.
    """
    tip = store.tip(id.session)
    for summary in store.readable(tip):
        if summary.id.number <= id.number:
            return summary.commit if summary.id == id else None
    return None
