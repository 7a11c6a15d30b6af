"""Convert stored records to LangGraph's checkpoint tuples, with writes in the order they apply."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from langgraph.checkpoint.base import CheckpointTuple, writes_sort_key

from gitcp.errors import BadValue, StoreDamaged
from gitcp.git import trees
from gitcp.git.objects import Objects
from gitcp.langgraph import pieces, record
from gitcp.langgraph.keys import config_of
from gitcp.langgraph.record import Loaded, StoredValue
from gitcp.langgraph.threads import CheckpointRef, Thread
from gitcp.model import RESERVED, Oid
from gitcp.store import STATE, Store

if TYPE_CHECKING:
    from langgraph.checkpoint.serde.base import SerializerProtocol

CHECKPOINT, METADATA, CHANNEL = "checkpoint", "metadata", "channel/"
RECORDS = 32
"""Maximum records of a thread in memory."""

Task = tuple[str, int]


def tuple_of(
    store: Store, serde: SerializerProtocol, thread: Thread, ref: CheckpointRef
) -> CheckpointTuple:
    """Return a checkpoint with its channels and writes. Raises StoreDamaged, and
    BadValue if the serializer fails.
    """
    loaded = record_of(store, thread, ref)
    assert loaded is not None
    read = _Reader(store.objects, serde, thread, ref)
    checkpoint = read.value(CHECKPOINT, loaded.values[CHECKPOINT])
    channels = {
        n.removeprefix(CHANNEL): read.value(n, h)
        for n, h in loaded.values.items()
        if n.startswith(CHANNEL)
    }
    name, parent = thread.name or "", thread.puts[ref][1].parent
    return CheckpointTuple(
        config=config_of(name, *ref),  # type: ignore[arg-type]
        checkpoint=checkpoint | {"channel_values": channels},
        metadata=read.value(METADATA, loaded.values[METADATA]),
        parent_config=config_of(name, ref[0], parent) if parent else None,  # type: ignore[arg-type]
        pending_writes=list(_writes(store, serde, thread, ref)),
    )


def metadata_of(
    store: Store, serde: SerializerProtocol, thread: Thread, ref: CheckpointRef
) -> dict[str, Any]:
    """Return the metadata of a checkpoint."""
    loaded = record_of(store, thread, ref)
    assert loaded is not None
    metadata: dict[str, Any] = _Reader(store.objects, serde, thread, ref).value(
        METADATA, loaded.values[METADATA]
    )
    return metadata


def record_of(store: Store, thread: Thread, ref: CheckpointRef) -> Loaded | None:
    """Return the record of a checkpoint, None if the thread does not have it."""
    entry = thread.puts.get(ref)
    return _record(store, thread, entry[0]) if entry else None


def _record(store: Store, thread: Thread, commit: Oid) -> Loaded:
    cached = thread.records.get(commit)
    if cached is not None:
        return cached
    entry = trees.lookup(store.reader, store.summary(commit).root, RESERVED + b"/" + STATE)
    if entry is None:
        raise StoreDamaged(f"commit {commit[:10]} has no graph state", hint="gitcp check")
    return remember(thread, commit, record.read(store.objects, entry.oid))


def remember(thread: Thread, commit: Oid, loaded: Loaded) -> Loaded:
    """Cache a record, evicting the oldest."""
    thread.records[commit] = loaded
    while len(thread.records) > RECORDS:
        del thread.records[next(iter(thread.records))]
    return loaded


def _writes(
    store: Store, serde: SerializerProtocol, thread: Thread, ref: CheckpointRef
) -> Iterator[tuple[str, str, Any]]:
    """Yield the writes to a checkpoint. For the same task and index the first one
    wins; for special indexes the last.
    """
    writes: dict[Task, tuple[str, str, StoredValue]] = {}
    committed = (_record(store, thread, commit) for commit in thread.writes.get(ref, ()))
    for loaded in (*committed, *thread.recorded_writes(ref)):
        task, path, listed = (loaded.fields[name] for name in ("task", "path", "writes"))
        replaces = all(idx < 0 for idx, _ in listed)
        for n, (idx, channel) in enumerate(listed):
            if replaces or (task, idx) not in writes:
                writes[task, idx] = (path, channel, loaded.values[str(n)])
    read = _Reader(store.objects, serde, thread, ref)
    for (task, _), (_, channel, stored) in sorted(
        writes.items(), key=lambda item: writes_sort_key(item[1][0], *item[0])
    ):
        yield task, channel, read.value(None, stored)


class _Reader:
    """Deserializes values of one checkpoint, and caches the latest one's bytes for the next put."""

    def __init__(
        self, objects: Objects, serde: SerializerProtocol, thread: Thread, ref: CheckpointRef
    ) -> None:
        self._objects = objects
        self._serde = serde
        self._ref = ref
        self._known = thread.known.setdefault(ref[0], {})
        self._is_latest = thread.latest(ref[0]) == ref

    def value(self, name: str | None, stored: StoredValue) -> Any:
        """Return a value; `name` is its cache key, None if it is not cached."""
        try:
            return self._serde.loads_typed((stored.type, self._bytes(name, stored)))
        except (StoreDamaged, MemoryError):
            raise
        except Exception as error:
            message = (
                f"cannot read {name or 'a write'} of checkpoint {self._ref[1]}, stored as "
                f"{stored.type!r}: {error}"
            )
            raise BadValue(message, hint="use the serde it was saved with") from error

    def _bytes(self, name: str | None, stored: StoredValue) -> bytes:
        if not stored.directory:
            return stored.data
        cached = self._known.get(name) if name else None
        if cached is None or cached.pieces != stored.pieces:
            cached = pieces.Value(stored.pieces, record.body(self._objects, stored))
            if name and self._is_latest:
                self._known[name] = cached
        return stored.data + cached.body


def needed(
    store: Store, serde: SerializerProtocol, thread: Thread, ref: CheckpointRef
) -> Iterator[CheckpointRef]:
    """Yield a checkpoint, and the earlier ones whose writes its delta channels need."""
    yield ref
    counters = metadata_of(store, serde, thread, ref).get("counters_since_delta_snapshot") or {}
    lacking = _missing_channels(store, thread, ref, set(counters))
    for ancestor in thread.ancestors(ref):
        if not lacking:
            return
        yield ancestor
        lacking = _missing_channels(store, thread, ancestor, lacking)


def _missing_channels(
    store: Store, thread: Thread, ref: CheckpointRef, channels: set[str]
) -> set[str]:
    loaded = record_of(store, thread, ref)
    return {
        channel for channel in channels if loaded is None or CHANNEL + channel not in loaded.values
    }
