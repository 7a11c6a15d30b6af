"""The number of a checkpoint that begins a session: one that no checkpoint of that name has, as far
as any ref knows.

A session that was deleted and is saved into again goes on with the numbers: a fork may still have
the old ones, a tag, the trash, or what was fetched, and an id means one checkpoint for good.
"""

from __future__ import annotations

from collections.abc import Iterable

from gitcp.errors import GitFailed, StoreDamaged
from gitcp.git import refs
from gitcp.model import Oid
from gitcp.state import oplog
from gitcp.store import Store


def first(store: Store, session: str) -> int:
    """The number after the highest one of this session. Reads commits, of every ref of gitcp's.

    What cannot be read is left out: a damaged chain is in nobody's way.
    """
    tips = sorted(set(refs.list_refs(store.repo.common_dir, refs.PREFIX, refs.NOTHING).values()))
    if not tips:
        return _logged(store, session) + 1
    try:
        highest = _highest(store, session, tips)
    except (GitFailed, StoreDamaged):
        highest = max(_readable(store, session, tips))
    return max(highest, _logged(store, session)) + 1


def _highest(store: Store, session: str, tips: Iterable[Oid]) -> int:
    said = ("--fixed-strings", f"--grep=Gitcp-Session: {session}")
    return max(
        (s.id.number for s in store.forest(tips, *said) if s.id.session == session), default=0
    )


def _readable(store: Store, session: str, tips: Iterable[Oid]) -> Iterable[int]:
    yield 0
    for tip in tips:
        # Numbers fall along a chain: the first of this session has its highest one.
        yield next((s.id.number for s in store.readable(tip) if s.id.session == session), 0)


def _logged(store: Store, session: str) -> int:
    """The highest number of this session that was put away because it was damaged."""
    log = (each for each in oplog.entries(store.repo) if each.what == oplog.QUARANTINE)
    return max((last for each in log for _, last in each.dropped.get(session, ())), default=0)
