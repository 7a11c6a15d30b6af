"""The index of a thread: which commits of its session contain which checkpoint, and writes to it.

Built from commit trailers only, and extended as the session grows. Not stored.

One thread of the program at a time extends it. Others may read it meanwhile: nothing is removed,
and each attribute is complete whenever it is there.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import islice

from gitcp.git.write_ahead_log import LoggedWrite
from gitcp.langgraph import pieces, record
from gitcp.langgraph.keys import COPY, PREFIX, PUT, WRITES, CommitKey, parse_key
from gitcp.langgraph.record import Loaded
from gitcp.langgraph.talk import Talk
from gitcp.model import Checkpoint, Oid
from gitcp.saving import recorded
from gitcp.store import Store, Summary

STATE = "Gitcp-State"
NEAR = 32
"""Maximum commits to walk one by one before git lists them all."""

CheckpointRef = tuple[str, str]
"""A checkpoint within its thread: namespace and id."""

RecordedWrites = Mapping[LoggedWrite, tuple[CommitKey, Loaded]]
"""Writes that no commit has yet, in order."""


class Thread:
    """The index of one session. `name` is the thread's id, None if nothing has been put yet."""

    def __init__(self, session: str) -> None:
        self.session = session
        self.tip: Oid | None = None
        self.name: str | None = None
        self.puts: dict[CheckpointRef, tuple[Oid, CommitKey]] = {}
        self.writes: dict[CheckpointRef, list[Oid]] = {}
        self._parsed: RecordedWrites = {}
        self._latest: dict[str, CheckpointRef] = {}
        self.forget()

    def forget(self) -> None:
        """Clear the caches: last values' bytes, pieces, records, and messages."""
        self.known: dict[str, dict[str, pieces.StoredValue]] = {}
        self.recent = pieces.RecentPieces()
        self.records: dict[Oid, Loaded] = {}
        self.last: Checkpoint | None = None
        self.talk = Talk()

    def follow(self, store: Store) -> Thread:
        """Return the index at the session's last checkpoint: this one, extended, or a new one if
        that does not follow on what this one has. Reads only.
        """
        tip = store.tip(self.session)
        if tip == self.tip:
            return self
        fresh = None if tip is None or self.tip is None else _since(store, tip, self.tip)
        if fresh is not None:
            return self._extended(fresh, tip)
        return Thread(self.session)._extended(list(store.history(tip)) if tip else [], tip)

    def _extended(self, fresh: list[Summary], tip: Oid | None) -> Thread:
        for summary in reversed(fresh):
            text = summary.trailers.get(STATE)
            if text is not None:  # others are not the graph's: restores, manual saves
                self.add(summary.commit, parse_key(text))
        self.tip = tip
        return self

    def parse(self, writes: Iterable[LoggedWrite]) -> RecordedWrites:
        """Parse writes to this thread; those of the last call are not parsed again."""
        known = self._parsed
        parsed = self._parsed = {write: known.get(write) or _parsed(write) for write in writes}
        return parsed

    def add(self, commit: Oid, key: CommitKey) -> None:
        """Add a checkpoint, the newest."""
        ref = (key.ns, key.id)
        self.name = key.thread
        if key.kind == PUT:
            self.puts[ref] = (commit, key)
            self._latest[key.ns] = max(ref, self._latest.get(key.ns, ref))
        elif key.kind == WRITES:
            self.writes.setdefault(ref, []).append(commit)

    def latest(self, ns: str) -> CheckpointRef | None:
        """Return the checkpoint with the greatest id in a namespace, regardless of order."""
        return self._latest.get(ns)

    def newest_commit(self, ref: CheckpointRef) -> Oid | None:
        """Return the last commit for a checkpoint: its own, or that of writes to it."""
        if ref not in self.puts:
            return None
        return self.writes[ref][-1] if self.writes.get(ref) else self.puts[ref][0]

    def ancestors(self, ref: CheckpointRef) -> Iterator[CheckpointRef]:
        """Yield the ancestors of a checkpoint by their recorded parents, nearest first."""
        seen = {ref}
        while ref in self.puts:
            ref = (ref[0], self.puts[ref][1].parent)
            if ref in seen:
                return
            seen.add(ref)
            if ref in self.puts:
                yield ref


def _parsed(write: LoggedWrite) -> tuple[CommitKey, Loaded]:
    given = recorded.decode(write.content)
    return parse_key(given.key), record.parse_files(given.state)


def sessions(store: Store) -> list[str]:
    """Return the sessions that contain threads."""
    return [name for name in store.sessions() if name.startswith(PREFIX)]


def _since(store: Store, tip: Oid, known: Oid) -> list[Summary] | None:
    """Return the checkpoints after `known`, newest first; None if it is not near."""
    newer: list[Summary] = []
    for summary in islice(_chain(store, tip), NEAR):
        if summary.commit == known:
            return newer
        newer.append(summary)
    return None


def _chain(store: Store, tip: Oid | None) -> Iterator[Summary]:
    while tip is not None:
        summary = store.summary(tip)
        yield summary
        tip = summary.parent


def unwanted(history: Iterable[Summary], dropped: set[CheckpointRef]) -> set[Oid]:
    """Return the commits that contain these checkpoints, or writes to them."""
    commits = set()
    for summary in history:
        text = summary.trailers.get(STATE)
        key = parse_key(text) if text else None
        if key is not None and key.kind != COPY and (key.ns, key.id) in dropped:
            commits.add(summary.commit)
    return commits
