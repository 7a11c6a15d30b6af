"""The last checkpoint made in this working tree, by whichever session, and when its scan began.

All sessions' checkpoints of a working tree form one line by this: each save reads it, and records
in its metadata which checkpoint came before. If the file is lost, a checkpoint follows its parent.

It is written before the session has the checkpoint, with the commit that it will be and the one
that was the last, and once more after. A batch that was killed in between could not resume: its
newest checkpoint was none of this working tree's.
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
    """A checkpoint, and when the scan for it began, in nanoseconds since 1970.

    While its session does not have it yet, `coming` is the commit that it will be, and `before`
    what was the last one, if that was known.
    """

    id: CheckpointId
    scanned: int
    coming: Oid | None = None
    before: tuple[CheckpointId, int] | None = None


class Known(NamedTuple):
    """The last checkpoint made here: its id, when the scan for it began, and its commit."""

    id: CheckpointId
    scanned: int
    commit: Oid


def read(repo: Repository) -> Latest | None:
    """Return what is recorded of the last checkpoint made here, None if nothing is."""
    words = (documents.read_line(repo.git_dir / "gitcp" / LATEST) or "").split(" ")
    try:
        id, scanned = _pair(words[:2])
        if len(words) == 2:
            return Latest(id, scanned)
        before = _pair(words[3:]) if len(words) > 3 else None
        return Latest(id, scanned, Oid(words[2]), before)
    except ValueError:
        return None


def _pair(words: list[str]) -> tuple[CheckpointId, int]:
    text, scanned = words
    id = wire.parse_id(text)
    if id is None:
        raise ValueError(text)
    return id, int(scanned)


def write(repo: Repository, latest: Latest) -> None:
    """Record the last checkpoint made here. Ignores write errors. The caller holds the lock."""
    words: list[object] = [latest.id, latest.scanned]
    words += [latest.coming] if latest.coming else []
    words += latest.before or []
    with suppress(OSError):
        documents.write_line(repo.state_dir / LATEST, " ".join(map(str, words)))


def known(store: Store) -> Known | None:
    """Return the last checkpoint made here, None if it is not known or its session no longer has
    it.
    """
    last = read(store.repo)
    if last is None:
        return None
    commit = _commit_of(store, last.id)
    if last.coming is None or commit == last.coming:
        return Known(last.id, last.scanned, commit) if commit else None
    if last.before is None:
        return None
    id, scanned = last.before
    commit = _commit_of(store, id)
    return Known(id, scanned, commit) if commit else None


def _commit_of(store: Store, id: CheckpointId) -> Oid | None:
    """Return the commit of a checkpoint, None if its session no longer has it. Cheap for a
    session's last one.
    """
    tip = store.tip(id.session)
    for summary in store.readable(tip):
        if summary.id.number <= id.number:
            return summary.commit if summary.id == id else None
    return None
