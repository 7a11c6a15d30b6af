"""What a framework wrote to a session and recorded in the write-ahead log becomes checkpoints.

A framework that writes something small at every step, without files, would make a checkpoint each
time. It records the content instead, which takes one sync, and goes on. The next checkpoint of the
session, or the next program that opens the store, makes checkpoints of it, in order, and once: the
log says that they are made before the ref moves to them, and that counts when it has moved.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from functools import partial
from typing import Any

from gitcp import readme, wire
from gitcp.errors import GitcpError, StoreDamaged
from gitcp.git import refs, trees
from gitcp.git.write_ahead_log import LoggedWrite, Move
from gitcp.model import (
    FILE,
    Agent,
    Checkpoint,
    CheckpointId,
    Entry,
    Note,
    Oid,
    Skip,
    SkipReason,
    Snapshot,
    State,
    Trigger,
)
from gitcp.saving.conversation import store_capture
from gitcp.state import note, numbers
from gitcp.store import Store
from gitcp.value import Value

UNKNOWN = Oid("unknown")


class Recorded(Value):
    """A checkpoint without files that is to be made: its `state` by path, and the state's `key`.
    `agent` is that of a new session.
    """

    created: datetime
    trigger: Trigger
    agent: Agent
    position: Mapping[str, str]
    key: str
    state: Mapping[bytes, bytes]


def encode(recorded: Recorded) -> bytes:
    """Return it as bytes, which differ from those of any other, even an equal one."""
    fields = {
        "created": recorded.created.isoformat(),
        "trigger": recorded.trigger.value,
        "agent": [recorded.agent.name, recorded.agent.session_id],
        "position": dict(recorded.position),
        "key": recorded.key,
        "state": {
            path.decode("ascii"): data.decode("latin-1") for path, data in recorded.state.items()
        },
        "unique": os.urandom(8).hex(),
    }
    return wire.dumps(fields)


def decode(data: bytes) -> Recorded:
    """Return what was encoded. Raises StoreDamaged."""
    try:
        fields: dict[str, Any] = wire.loads(data)
        state = fields["state"].items()
        return Recorded(
            datetime.fromisoformat(fields["created"]),
            Trigger(fields["trigger"]),
            Agent(*fields["agent"]),
            fields["position"],
            fields["key"],
            {path.encode("ascii"): text.encode("latin-1") for path, text in state},
        )
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise StoreDamaged(f"gitcp/ahead has something that is no write: {error!r}") from None


def commit(store: Store, session: str, writes: Sequence[LoggedWrite]) -> Iterator[Checkpoint]:
    """Yield a checkpoint for each write, on top of the session's last one. The caller holds the
    store's lock, and moves the ref. Writes objects only. Raises StoreDamaged.
    """
    if not writes:
        return
    tip = store.tip(session)
    parent = store.read(tip) if tip else None
    for number, write in enumerate(writes, numbers.following(store, session, parent)):
        draft = _draft(store, CheckpointId(session, number), decode(write.content), parent)
        parent = store.commit(draft, readme.render(draft, ()), parent)
        yield parent


def _draft(
    store: Store, id: CheckpointId, recorded: Recorded, parent: Checkpoint | None
) -> Checkpoint:
    given = Note(position=recorded.position)
    conversation, agent = store_capture(store, None, parent)
    nested = trees.nest(
        {
            path: Entry(FILE, store.writer.write_blob(data, new=True))
            for path, data in recorded.state.items()
        }
    )
    return Checkpoint(
        id=id,
        commit=UNKNOWN,
        root=UNKNOWN,
        parent=parent.commit if parent else None,
        created=recorded.created,
        trigger=recorded.trigger,
        agent=agent or recorded.agent,
        note=note.inherit(note.inherited(parent), given) if parent else given,
        snapshot=no_files(store),
        conversation=conversation,
        changed=0,
        steps=parent.steps if parent else None,
        state=State(trees.build(store.writer, nested), recorded.key),
        compensated=parent.compensated if parent else {},
    )


def no_files(store: Store) -> Snapshot:
    """Return the snapshot of a checkpoint for which no file was read."""
    skip = Skip(b".", SkipReason.NOT_HELD)
    return Snapshot(store.repo.object_format.empty_tree, store.base(), 0, (skip,))


def commit_all(store: Store) -> None:
    """Make checkpoints of everything that is recorded. What cannot become one stays recorded, and
    so does everything if the store cannot be written or another process has it.
    """
    with suppress(GitcpError):
        log = store.pending_log()
        if log is None or not log.all_writes():
            return
        with store.lock():
            for ref, writes in log.all_writes().items():
                with suppress(GitcpError):
                    made = [*commit(store, ref.removeprefix(refs.SESSIONS), writes)]
                    old, new = made[0].parent, made[-1].commit
                    record = partial(log.append, [Move(ref, old, new, tuple(writes))])
                    store.repo.refs.update_all([refs.Update(ref, new, old)], record)
            log.settle()
