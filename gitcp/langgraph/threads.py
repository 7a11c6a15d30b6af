"""The index of a thread: which commit of its session holds which checkpoint, and which hold writes
to it.

It is made from the trailers of the commits alone, and taken further when the session went on.
Nothing of it is stored.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice

from gitcp.langgraph import pieces
from gitcp.langgraph.keys import COPY, PREFIX, PUT, WRITES, Key, parse_key
from gitcp.langgraph.record import Loaded
from gitcp.langgraph.talk import Talk
from gitcp.model import Checkpoint, Oid
from gitcp.store import Store, Summary

STATE = "Gitcp-State"
NEAR = 32
"""So many commits are looked for one by one before git lists them all."""

Place = tuple[str, str]
"""A checkpoint within its thread: its namespace and its id."""


class Thread:
    """What one session holds of a thread. `name` is the thread's id, None where nothing was put
    yet.
    """

    def __init__(self, session: str) -> None:
        self.session = session
        self.clear()

    def clear(self) -> None:
        """Know nothing of it any more."""
        self.tip: Oid | None = None
        self.name: str | None = None
        self.puts: dict[Place, tuple[Oid, Key]] = {}
        self.writes: dict[Place, list[Oid]] = {}
        self.forget()

    def forget(self) -> None:
        """Trust nothing that is remembered besides the index: the bytes of last values, records,
        lines of messages.
        """
        self.known: dict[str, dict[str, pieces.Value]] = {}
        self.records: dict[Oid, Loaded] = {}
        self.last: Checkpoint | None = None
        self.talk = Talk()

    def follow(self, store: Store) -> None:
        """Take the index to the session's last checkpoint. Reads only."""
        tip = store.tip(self.session)
        if tip == self.tip:
            return
        fresh = None if tip is None or self.tip is None else _since(store, tip, self.tip)
        if fresh is None:
            self.clear()
            fresh = list(store.history(tip)) if tip else []
        for summary in reversed(fresh):
            text = summary.trailers.get(STATE)
            if text is not None:  # else it is no state of a graph: a restore, a save by hand
                self.add(summary.commit, parse_key(text))
        self.tip = tip

    def add(self, commit: Oid, key: Key) -> None:
        """One checkpoint more, the newest."""
        place = (key.ns, key.id)
        self.name = key.thread
        if key.kind == PUT:
            self.puts[place] = (commit, key)
        elif key.kind == WRITES:
            self.writes.setdefault(place, []).append(commit)

    def latest(self, ns: str) -> Place | None:
        """The checkpoint with the greatest id in a namespace, whenever it was put."""
        return max(
            (place for place in self.puts if place[0] == ns),
            default=None,
            key=lambda place: place[1],
        )

    def newest_commit(self, place: Place) -> Oid | None:
        """The last commit about a checkpoint: its own, or that of writes to it."""
        if place not in self.puts:
            return None
        return self.writes[place][-1] if self.writes.get(place) else self.puts[place][0]

    def ancestors(self, place: Place) -> Iterator[Place]:
        """The checkpoints before one, by what each says of its parent; the nearest first."""
        seen = {place}
        while place in self.puts:
            place = (place[0], self.puts[place][1].parent)
            if place in seen:
                return
            seen.add(place)
            if place in self.puts:
                yield place


def sessions(store: Store) -> list[str]:
    """The sessions that hold threads."""
    return [name for name in store.sessions() if name.startswith(PREFIX)]


def _since(store: Store, tip: Oid, known: Oid) -> list[Summary] | None:
    """The checkpoints after `known`, newest first; None if it is not among the nearest."""
    found: list[Summary] = []
    for summary in islice(_behind(store, tip), NEAR):
        if summary.commit == known:
            return found
        found.append(summary)
    return None


def _behind(store: Store, tip: Oid | None) -> Iterator[Summary]:
    while tip is not None:
        summary = store.summary(tip)
        yield summary
        tip = summary.parent


def unwanted(history: Iterable[Summary], dropped: set[Place]) -> set[Oid]:
    """The commits that hold these checkpoints, or writes to them."""
    found = set()
    for summary in history:
        text = summary.trailers.get(STATE)
        key = parse_key(text) if text else None
        if key is not None and key.kind != COPY and (key.ns, key.id) in dropped:
            found.add(summary.commit)
    return found
