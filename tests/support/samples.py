"""Checkpoints made by hand, through the store alone: no scan, no adapter, no command line."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from kinds import FORMAT

from gitcp import readme
from gitcp.conversation import segments
from gitcp.git import trees
from gitcp.git.repo import Repository
from gitcp.model import (
    FILE,
    TREE,
    Agent,
    Base,
    Checkpoint,
    CheckpointId,
    Conversation,
    Digest,
    Entry,
    Host,
    LastMessage,
    Note,
    Oid,
    Snapshot,
    Source,
    Stream,
    Trigger,
)
from gitcp.store import Store
from gitcp.value import replace

from driver import Project

START = datetime(2026, 11, 2, 9, 0, tzinfo=UTC)
UNKNOWN = Oid("0" * FORMAT.digits)


def open_store(project: Project) -> Store:
    """The store of a project, as a process of its own would open it."""
    host = Host(env=dict(os.environ), home=Path(os.environ["HOME"]), now=lambda: START)
    return Store(Repository.open(project.root, host))


def answers(*ids: str, cache_read: int = 7) -> dict[str, bytes]:
    """A conversation's streams, with these answers of 3 tokens each beside the cached ones."""
    usage = {"input_tokens": 1, "output_tokens": 2, "cache_read_input_tokens": cache_read}
    messages = ({"id": id, "model": "opus", "usage": usage} for id in ids)
    lines = (json.dumps({"type": "assistant", "message": message}) for message in messages)
    return {"main": "".join(f"{line}\n" for line in lines).encode()}


def plain(session: str = "alpha", number: int = 1, **fields: Any) -> Checkpoint:
    """A checkpoint of nothing, made `number` minutes after START."""
    made = Checkpoint(
        id=CheckpointId(session, number),
        commit=UNKNOWN,
        root=UNKNOWN,
        parent=None,
        created=START + timedelta(minutes=number),
        trigger=Trigger.MANUAL,
        agent=None,
        note=Note(),
        snapshot=Snapshot(tree=FORMAT.empty_tree, base=Base(None, "main"), total=0),
        conversation=None,
        changed=0,
    )
    return replace(made, **fields)


def save(
    store: Store,
    session: str,
    files: Mapping[bytes, bytes] | None = None,
    streams: Mapping[str, bytes] | None = None,
    **fields: Any,
) -> Checkpoint:
    """Save the next checkpoint of a session: these files and these streams. `fields` are those of
    Checkpoint, or `label` and `phase` of its note, or `number`.
    """
    tip = store.tip(session)
    parent = store.read(tip) if tip else None
    number = fields.pop("number", parent.id.number + 1 if parent else 1)
    note = Note(label=fields.pop("label", None), phase=fields.pop("phase", None))
    files = {b"a.txt": b"%d\n" % number} if files is None else files
    entries = {path: Entry(FILE, store.writer.write_blob(data)) for path, data in files.items()}
    tree = trees.build(store.writer, trees.nest(entries))
    draft = plain(
        session,
        number,
        parent=tip,
        note=note,
        agent=Agent("claude-code", "5e55", "2.1", "model") if streams else None,
        snapshot=Snapshot(tree=tree, base=Base(None, "main"), total=len(files)),
        conversation=talk(store, streams, parent) if streams else None,
    )
    draft = replace(draft, **fields)
    changes = tuple(trees.diff(store.reader, parent.snapshot.tree if parent else None, tree))
    made = store.commit(draft, readme.render(draft, changes))
    with store.lock():
        store.advance(made)
    return made


def talk(
    store: Store, streams: Mapping[str, bytes], parent: Checkpoint | None = None
) -> Conversation:
    """A stored conversation of these streams, on top of the parent's."""
    stored, nested = [], {}
    for name, data in streams.items():
        cut = segments.cut(store.objects, Source(name, data=data), _known(store, parent, name))
        stored.append(Stream(name, cut.bytes, cut.sha256, f"{name}.jsonl", cut.torn))
        nested[name.encode()] = Entry(TREE, cut.tree)
    last = LastMessage("assistant", "done", "m1")
    digest = Digest(len(stored), last, "make it work", "a title", "2.1", "model")
    return Conversation(
        "claude-code",
        trees.build(store.writer, trees.nest(nested)),
        tuple(stored),
        digest,
        b"web",
        "topic",
    )


def _known(store: Store, parent: Checkpoint | None, name: str) -> tuple[segments.Segment, ...]:
    before = parent.conversation if parent else None
    stream = next((s for s in before.streams if s.name == name), None) if before else None
    if before is None or stream is None:
        return ()
    place = trees.lookup(store.reader, before.tree, name.encode())
    return segments.read_segments(store.reader, place.oid, stream.bytes) if place else ()
