"""Convert stored records to LangGraph's checkpoint tuples, with writes in the order they apply.

First `stored_of` collects the bytes of a checkpoint, from memory if it can; `tuple_of` deserializes
them, which needs neither the store nor the thread's index.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from langgraph.checkpoint.base import CheckpointTuple, writes_sort_key

from gitcp.errors import BadValue, StoreDamaged
from gitcp.git import trees
from gitcp.langgraph import pieces, record
from gitcp.langgraph.keys import config_of
from gitcp.langgraph.record import Loaded, StoredValue, TypedBytes
from gitcp.langgraph.threads import CheckpointRef, RecordedWrites, Thread
from gitcp.model import RESERVED, Oid
from gitcp.store import STATE, Store

if TYPE_CHECKING:
    from langgraph.checkpoint.serde.base import SerializerProtocol

CHECKPOINT, METADATA, CHANNEL = "checkpoint", "metadata", "channel/"
RECORDS = 32
"""Maximum records of a thread in memory."""

Task = tuple[str, int]


class NotInMemory(Exception):
    """A read without the store needs something of it."""


class ThreadView(NamedTuple):
    """A thread as one call sees it, with the writes to it that no commit has. Without a `store`,
    only what is in memory is read.
    """

    thread: Thread
    recorded: RecordedWrites
    store: Store | None

    def on_disk(self) -> Store:
        """Return the store. Raises NotInMemory."""
        if self.store is None:
            raise NotInMemory
        return self.store


class StoredState(NamedTuple):
    """A checkpoint as it is stored: its values by name, and the task, the channel and the value of
    each write.
    """

    ref: CheckpointRef
    thread: str
    parent: str
    values: dict[str, TypedBytes]
    writes: list[tuple[str, str, TypedBytes]]


def tuple_of(serde: SerializerProtocol, stored: StoredState) -> CheckpointTuple:
    """Return a checkpoint with its channels and writes. Raises BadValue if the serializer fails."""
    (ns, id), name, parent = stored.ref, stored.thread, stored.parent
    read = partial(_deserialized, serde, id)
    checkpoint = read(CHECKPOINT, stored.values[CHECKPOINT])
    channels = {
        n.removeprefix(CHANNEL): read(n, value)
        for n, value in stored.values.items()
        if n.startswith(CHANNEL)
    }
    return CheckpointTuple(
        config=config_of(name, ns, id),  # type: ignore[arg-type]
        checkpoint=checkpoint | {"channel_values": channels},
        metadata=read(METADATA, stored.values[METADATA]),
        parent_config=config_of(name, ns, parent) if parent else None,  # type: ignore[arg-type]
        pending_writes=[
            (task, channel, read("a write", value)) for task, channel, value in stored.writes
        ],
    )


def _deserialized(serde: SerializerProtocol, id: str, name: str, value: TypedBytes) -> Any:
    try:
        return serde.loads_typed(value)
    except MemoryError:
        raise
    except Exception as error:
        message = f"cannot read {name} of checkpoint {id}, stored as {value.type!r}: {error}"
        raise BadValue(message, hint="use the serde it was saved with") from error


def stored_of(view: ThreadView, ref: CheckpointRef) -> StoredState:
    """Return a checkpoint that the thread has, with its writes, as bytes. Raises StoreDamaged and
    NotInMemory.
    """
    loaded = _record_at(view, ref)
    values = {name: _typed(view, ref, name, value) for name, value in loaded.values.items()}
    parent = view.thread.puts[ref][1].parent
    return StoredState(ref, view.thread.name or "", parent, values, list(_writes(view, ref)))


def metadata_of(view: ThreadView, serde: SerializerProtocol, ref: CheckpointRef) -> dict[str, Any]:
    """Return the metadata of a checkpoint. Raises as `stored_of` and `tuple_of` do."""
    value = _typed(view, ref, METADATA, _record_at(view, ref).values[METADATA])
    metadata: dict[str, Any] = _deserialized(serde, ref[1], METADATA, value)
    return metadata


def record_of(view: ThreadView, ref: CheckpointRef) -> Loaded | None:
    """Return the record of a checkpoint, None if the thread does not have it. Raises StoreDamaged
    and NotInMemory.
    """
    return _record_at(view, ref) if ref in view.thread.puts else None


def _record_at(view: ThreadView, ref: CheckpointRef) -> Loaded:
    return _record(view, view.thread.puts[ref][0])


def _record(view: ThreadView, commit: Oid) -> Loaded:
    cached = view.thread.records.get(commit)
    if cached is not None:
        return cached
    store = view.on_disk()
    entry = trees.lookup(store.reader, store.summary(commit).root, RESERVED + b"/" + STATE)
    if entry is None:
        raise StoreDamaged(f"commit {commit[:10]} has no graph state", hint="gitcp doctor --store")
    return remember(view.thread, commit, record.read(store.objects, entry.oid))


def remember(thread: Thread, commit: Oid, loaded: Loaded) -> Loaded:
    """Cache a record, evicting the oldest."""
    thread.records[commit] = loaded
    while len(thread.records) > RECORDS:
        del thread.records[next(iter(thread.records))]
    return loaded


def _writes(view: ThreadView, ref: CheckpointRef) -> Iterator[tuple[str, str, TypedBytes]]:
    """Yield the writes to a checkpoint. For the same task and index the first one
    wins; for special indexes the last.
    """
    writes: dict[Task, tuple[str, str, StoredValue]] = {}
    committed = (_record(view, commit) for commit in [*view.thread.writes.get(ref, ())])
    recorded = (loaded for key, loaded in view.recorded.values() if (key.ns, key.id) == ref)
    for loaded in (*committed, *recorded):
        task, path, listed = (loaded.fields[name] for name in ("task", "path", "writes"))
        replaces = all(idx < 0 for idx, _ in listed)
        for n, (idx, channel) in enumerate(listed):
            if replaces or (task, idx) not in writes:
                writes[task, idx] = (path, channel, loaded.values[str(n)])
    for (task, _), (_, channel, stored) in sorted(
        writes.items(), key=lambda item: writes_sort_key(item[1][0], *item[0])
    ):
        yield task, channel, _typed(view, ref, None, stored)


def _typed(
    view: ThreadView, ref: CheckpointRef, name: str | None, stored: StoredValue
) -> TypedBytes:
    """Return all of a value. `name` is its cache key, None if it is not cached: the next put shares
    the pieces of the last version that was read.
    """
    if not stored.directory:
        return TypedBytes(stored.type, stored.data)
    known = view.thread.known.get(ref[0], {})
    cached = known.get(name) if name else None
    if cached is None or cached.pieces != stored.pieces:
        cached = pieces.StoredValue(stored.pieces, record.body(partial(_blob, view), stored))
        if name and view.store and view.thread.latest(ref[0]) == ref:
            view.thread.known.setdefault(ref[0], {})[name] = cached
    return TypedBytes(stored.type, stored.data + cached.body)


def _blob(view: ThreadView, oid: Oid) -> bytes:
    content = view.thread.recent.get(oid)
    if content is None:
        content = view.on_disk().objects.reader.read_blob(oid)
        view.thread.recent.add(oid, content)
    return content


def needed(
    view: ThreadView, serde: SerializerProtocol, ref: CheckpointRef
) -> Iterator[CheckpointRef]:
    """Yield a checkpoint, and the earlier ones whose writes its delta channels need."""
    yield ref
    counters = metadata_of(view, serde, ref).get("counters_since_delta_snapshot") or {}
    lacking = _missing_channels(view, ref, set(counters))
    for ancestor in view.thread.ancestors(ref):
        if not lacking:
            return
        yield ancestor
        lacking = _missing_channels(view, ancestor, lacking)


def _missing_channels(view: ThreadView, ref: CheckpointRef, channels: set[str]) -> set[str]:
    loaded = record_of(view, ref)
    return {
        channel for channel in channels if loaded is None or CHANNEL + channel not in loaded.values
    }
