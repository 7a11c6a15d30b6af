"""The number of a checkpoint that begins a session: one that no checkpoint of that name has, as far as any ref knows.

A session that was deleted and is saved into again goes on with the numbers: a fork may still have the old ones, a tag,
the trash, or what was fetched, and an id means one checkpoint for good.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress

from gitcp.errors import GitFailed, StoreDamaged
from gitcp.git import refs
from gitcp.model import Oid
from gitcp.store import Store


def first(store: Store, session: str) -> int:
    """The number after the highest one of this session. Reads commits, of every ref of gitcp's.

    What cannot be read is left out: a damaged chain is in nobody's way.
    """
    tips = sorted(set(refs.list_refs(store.repo.common_dir, refs.PREFIX, refs.NOTHING).values()))
    if not tips:
        return 1
    try:
        return _highest(store, session, tips) + 1
    except (GitFailed, StoreDamaged):
        return max(_readable(store, session, tips)) + 1


def _highest(store: Store, session: str, tips: Iterable[Oid]) -> int:
    said = ("--fixed-strings", f"--grep=Gitcp-Session: {session}")
    return max((s.id.number for s in store.forest(tips, *said) if s.id.session == session), default=0)


def _readable(store: Store, session: str, tips: Iterable[Oid]) -> Iterable[int]:
    yield 0
    for tip in tips:
        with suppress(GitFailed, StoreDamaged):
            yield _highest(store, session, (tip,))
