"""A store to prune: sessions that fork from each other, tags, what restores left, and all of it to
compare with.
"""

from __future__ import annotations

from datetime import timedelta
from functools import partial
from typing import Any

import pytest

from gitcp.errors import StoreDamaged
from gitcp.git import refs
from gitcp.lifecycle import prune
from gitcp.lifecycle.prune import PruneRequest
from gitcp.model import Checkpoint, CheckpointId, Oid, Trigger
from gitcp.retention import Policy
from gitcp.state import oplog, rewrite, tag, trash
from gitcp.store import Store

from driver import Project
from samples import START, open_store, plain, save

Refs = dict[str, Oid]

ONE = PruneRequest(Policy(last=1))


def fork(store: Store, session: str, point: Checkpoint, **fields: object) -> Checkpoint:
    """The first checkpoint of a session that begins at another one's."""
    draft = plain(
        session,
        point.id.number + 1,
        snapshot=point.snapshot,
        parent=point.commit,
        forked_from=point.id,
    )
    made = store.commit(draft, f"a fork of {point.id}\n")
    assert store.move_ref(refs.SESSIONS + session, None, made.commit)
    return made


def grow(store: Store, session: str, count: int, **fields: object) -> list[Checkpoint]:
    """So many checkpoints more, each with files and a conversation of its own."""
    made = []
    for _ in range(count):
        tip = store.tip(session)
        number = store.read(tip).id.number + 1 if tip else 1
        files = {b"a.txt": b"%d of %s\n" % (number, session.encode()), b"same/b.txt": b"the same\n"}
        talk = (
            {"main": b"".join(b'{"n":%d}\n' % n for n in range(number))}
            if session == "alpha"
            else None
        )
        made.append(save(store, session, files, talk, **fields))
    return made


def story(project: Project, count: int = 12) -> Store:
    """Sessions alpha, beta (a fork of it), gamma (a fork of beta) and delta, with tags on some of
    their checkpoints.
    """
    store = open_store(project)
    alpha = grow(store, "alpha", count)
    fork(store, "beta", alpha[count // 2])
    beta = grow(store, "beta", count // 2)
    fork(store, "gamma", beta[count // 4])
    grow(store, "gamma", count // 4)
    grow(store, "delta", 2)
    grow(store, "alpha", 2, trigger=Trigger.BEFORE_RESTORE, created=START - timedelta(days=8))
    grow(store, "alpha", 1, trigger=Trigger.BEFORE_RESTORE, created=START)
    grow(store, "alpha", 2)
    for name, checkpoint in (("works", alpha[2]), ("also", alpha[2]), ("forked", beta[1])):
        tag.create(store, name, checkpoint, text="fine", force=False, now=START)
    return open_store(project)


def own_refs(project: Project) -> Refs:
    """Every session and tag, as the refs have them."""
    return {name: oid for name, oid in all_refs(project).items() if not name.startswith(refs.TRASH)}


def all_refs(project: Project) -> Refs:
    """The same, and the trash."""
    return open_store(project).repo.refs.list(refs.PREFIX)


def holdings(project: Project) -> dict[CheckpointId, Oid]:
    """Every checkpoint that a session reaches, and the tree it has."""
    store = open_store(project)
    return {node.id: node.root for tip in store.sessions().values() for node in store.history(tip)}


def in_trash(project: Project) -> dict[CheckpointId, Oid]:
    """Every checkpoint that the trash reaches, and the tree it has."""
    store = open_store(project)
    tips = [tip for entry in trash.entries(store) for tip in entry.sessions.values()]
    return {node.id: node.root for tip in tips for node in store.history(tip)}


def tagged(project: Project) -> dict[str, CheckpointId]:
    """Where each tag is."""
    store = open_store(project)
    return {name: store.summary(commit).id for name, commit in store.tags().items()}


def is_sound(store: Store, commit: Oid) -> bool:
    """Whether a commit can be read as a checkpoint."""
    try:
        store.read(commit)
    except StoreDamaged:
        return False
    return True


def interrupt(store: Store, moved: int) -> None:
    """Prune, and be killed after this many refs, or before the log has it."""

    def move(number: list[int], *given: Any) -> bool:
        if not number:
            raise KeyboardInterrupt
        number.pop()
        return bool(Store.move_ref(store, *given))

    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(store, "move_ref", partial(move, [0] * moved), raising=False)
        patch.setattr(oplog, "append", stop)
        with pytest.raises(KeyboardInterrupt):
            prune.prune(store, ONE)
    assert rewrite.is_unfinished(store)
