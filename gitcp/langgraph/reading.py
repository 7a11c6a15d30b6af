"""Stored records → what LangGraph wants: checkpoint tuples, with their writes in the order in which
they apply.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from langgraph.checkpoint.base import CheckpointTuple, writes_sort_key

from gitcp.errors import BadValue, StoreDamaged
from gitcp.git import trees
from gitcp.git.objects import Objects
from gitcp.langgraph import pieces, record
from gitcp.langgraph.keys import config_of
from gitcp.langgraph.record import Held, Loaded
from gitcp.langgraph.threads import Place, Thread
from gitcp.model import RESERVED, Oid
from gitcp.store import STATE, Store

if TYPE_CHECKING:
    from langgraph.checkpoint.serde.base import SerializerProtocol

CHECKPOINT, METADATA, CHANNEL = "checkpoint", "metadata", "channel/"
RECORDS = 32
"""So many records a thread keeps in memory."""

Task = tuple[str, int]


def tuple_of(
    store: Store, serde: SerializerProtocol, thread: Thread, place: Place
) -> CheckpointTuple:
    """A checkpoint with its channels and writes. Raises StoreDamaged, BadValue for what the
    serialiser cannot read.
    """
    loaded = record_of(store, thread, place)
    assert loaded is not None
    read = _Reader(store.objects, serde, thread, place)
    checkpoint = read.value(CHECKPOINT, loaded.values[CHECKPOINT])
    channels = {
        n.removeprefix(CHANNEL): read.value(n, h)
        for n, h in loaded.values.items()
        if n.startswith(CHANNEL)
    }
    name, parent = thread.name or "", thread.puts[place][1].parent
    return CheckpointTuple(
        config=config_of(name, *place),  # type: ignore[arg-type]
        checkpoint=checkpoint | {"channel_values": channels},
        metadata=read.value(METADATA, loaded.values[METADATA]),
        parent_config=config_of(name, place[0], parent) if parent else None,  # type: ignore[arg-type]
        pending_writes=list(_writes(store, serde, thread, place)),
    )


def metadata_of(
    store: Store, serde: SerializerProtocol, thread: Thread, place: Place
) -> dict[str, Any]:
    """What a checkpoint says about itself."""
    loaded = record_of(store, thread, place)
    assert loaded is not None
    found: dict[str, Any] = _Reader(store.objects, serde, thread, place).value(
        METADATA, loaded.values[METADATA]
    )
    return found


def record_of(store: Store, thread: Thread, place: Place) -> Loaded | None:
    """The record of a checkpoint; None where the thread has none there."""
    found = thread.puts.get(place)
    return _record(store, thread, found[0]) if found else None


def _record(store: Store, thread: Thread, commit: Oid) -> Loaded:
    known = thread.records.get(commit)
    if known is not None:
        return known
    entry = trees.lookup(store.objects, store.summary(commit).root, RESERVED + b"/" + STATE)
    if entry is None:
        raise StoreDamaged(f"commit {commit[:10]} holds no state of a graph", hint="gitcp check")
    return remember(thread, commit, record.read(store.objects, entry.oid))


def remember(thread: Thread, commit: Oid, loaded: Loaded) -> Loaded:
    """Keep a record in memory, and not too many."""
    thread.records[commit] = loaded
    while len(thread.records) > RECORDS:
        del thread.records[next(iter(thread.records))]
    return loaded


def _writes(
    store: Store, serde: SerializerProtocol, thread: Thread, place: Place
) -> Iterator[tuple[str, str, Any]]:
    """The writes to a checkpoint. Of two for one task and place the first stands; of special ones
    the last.
    """
    found: dict[Task, tuple[str, str, Held]] = {}
    for commit in thread.writes.get(place, ()):
        loaded = _record(store, thread, commit)
        task, path, listed = (loaded.fields[name] for name in ("task", "path", "writes"))
        replaces = all(idx < 0 for idx, _ in listed)
        for n, (idx, channel) in enumerate(listed):
            if replaces or (task, idx) not in found:
                found[task, idx] = (path, channel, loaded.values[str(n)])
    read = _Reader(store.objects, serde, thread, place)
    for (task, _), (_, channel, held) in sorted(
        found.items(), key=lambda one: writes_sort_key(one[1][0], *one[0])
    ):
        yield task, channel, read.value(None, held)


class _Reader:
    """Reads values of one checkpoint, and remembers the bytes of the latest for the next put."""

    def __init__(
        self, objects: Objects, serde: SerializerProtocol, thread: Thread, place: Place
    ) -> None:
        self._objects = objects
        self._serde = serde
        self._place = place
        self._known = thread.known.setdefault(place[0], {})
        self._is_latest = thread.latest(place[0]) == place

    def value(self, name: str | None, held: Held) -> Any:
        """A value; `name` is what it is known by, None where it is known by none."""
        try:
            return self._serde.loads_typed((held.type, self._bytes(name, held)))
        except (StoreDamaged, MemoryError):
            raise
        except Exception as error:
            what = f"{name or 'a write'} of checkpoint {self._place[1]} was stored as {held.type!r}"
            raise BadValue(
                f"{what}, which cannot be read: {error}", hint="give the serde it was put with"
            ) from error

    def _bytes(self, name: str | None, held: Held) -> bytes:
        if not held.place:
            return held.data
        known = self._known.get(name) if name else None
        if known is None or known.pieces != held.pieces:
            known = pieces.Value(held.pieces, record.body(self._objects, held))
            if name and self._is_latest:
                self._known[name] = known
        return held.data + known.body


def needed(
    store: Store, serde: SerializerProtocol, thread: Thread, place: Place
) -> Iterator[Place]:
    """A checkpoint, and those before it from whose writes its delta channels are made up."""
    yield place
    counters = metadata_of(store, serde, thread, place).get("counters_since_delta_snapshot") or {}
    lacking = _lacking(store, thread, place, set(counters))
    for ancestor in thread.ancestors(place):
        if not lacking:
            return
        yield ancestor
        lacking = _lacking(store, thread, ancestor, lacking)


def _lacking(store: Store, thread: Thread, place: Place, channels: set[str]) -> set[str]:
    loaded = record_of(store, thread, place)
    return {
        channel for channel in channels if loaded is None or CHANNEL + channel not in loaded.values
    }
