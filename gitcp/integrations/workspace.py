"""Save a workspace other than this working tree, given as an archive, in a session of its own."""

from __future__ import annotations

import io
import shutil
import tempfile
from typing import IO

from gitcp import readme
from gitcp.api.opened import Opened
from gitcp.history import show
from gitcp.integrations import tarball
from gitcp.integrations.thread import encode, parsed
from gitcp.model import (
    MAIN,
    Agent,
    Capture,
    Checkpoint,
    CheckpointId,
    Note,
    Snapshot,
    Source,
    Trigger,
)
from gitcp.saving import conversation, session
from gitcp.saving.save import UNKNOWN, changes_between
from gitcp.state import numbers
from gitcp.store import Store
from gitcp.value import replace

REST = "rest"
SPOOLED = 8 << 20


def save(opened: Opened, name: str, agent: Agent, archive: IO[bytes]) -> Checkpoint:
    """Save an archive as the next checkpoint of session `name`. The working tree is not read or
    changed.

    Raises tarfile.TarError for an invalid archive, and a GitcpError; no checkpoint is made then.
    """
    store = opened.store()
    with tempfile.TemporaryFile() as file:
        shutil.copyfileobj(archive, file)
        file.seek(0)
        unpacked = tarball.unpack(store.writer, file)
    snapshot = Snapshot(tree=unpacked.tree, base=store.repo.head(), total=unpacked.files)
    sources = (Source(MAIN, data=encode(unpacked.lines)), Source(REST, data=unpacked.rest))
    with store.lock():
        return _commit(store, name, snapshot, Capture(agent, "jsonl", sources))


def content(opened: Opened, name: str) -> io.IOBase:
    """Return the archive saved last, positioned at its start. Raises
    RevisionNotFound if there is none.
    """
    store = opened.store()
    tip = store.tip(name)
    if tip is None:
        raise session.unknown(name)
    checkpoint = store.read(tip)
    lines, rest = (b"".join(show.stream(store, checkpoint, stream)) for stream in (MAIN, REST))
    file = tempfile.SpooledTemporaryFile(SPOOLED)
    tarball.pack(store.reader, checkpoint.snapshot.tree, parsed(lines), rest, file)
    file.seek(0)
    return file


def _commit(store: Store, name: str, snapshot: Snapshot, capture: Capture) -> Checkpoint:
    tip = store.tip(name)
    parent = store.read(tip) if tip else None
    stored, agent = conversation.store_capture(store, capture, parent)
    draft = Checkpoint(
        id=CheckpointId(name, numbers.following(store, name, parent)),
        commit=UNKNOWN,
        root=UNKNOWN,
        parent=parent.commit if parent else None,
        created=store.repo.host.now(),
        trigger=Trigger.TURN,
        agent=agent,
        note=Note(),
        snapshot=snapshot,
        conversation=stored,
        changed=0,
    )
    changes = changes_between(store, parent.snapshot.tree if parent else None, snapshot)
    checkpoint = store.commit(replace(draft, changed=len(changes)), readme.render(draft, changes))
    store.advance(checkpoint)
    return checkpoint
