"""Validate sessions from other repositories before a ref names them.

Checks commits, trailers, metadata, names and modes of all tree entries, sizes, and checksums of
conversations. A session is accepted or rejected as a whole.
"""

from __future__ import annotations

from contextlib import nullcontext, suppress

from gitcp import progress
from gitcp.conversation import segments
from gitcp.conversation.segments import Segment
from gitcp.conversation.sums import Sums
from gitcp.errors import StoreDamaged
from gitcp.git import promised, refs, remote, trees
from gitcp.model import (
    EXECUTABLE,
    FILE,
    GITLINK,
    RESERVED,
    SYMLINK,
    TREE,
    Checkpoint,
    Conversation,
    Oid,
    States,
    Stream,
)
from gitcp.saving import states
from gitcp.store import Store, Summary
from gitcp.worktree import paths

MODES = (FILE, EXECUTABLE, SYMLINK, GITLINK)
LARGEST = 1 << 30
"""Maximum bytes of an object: a small pack can expand to terabytes."""

MOST = 2_000_000
"""Maximum paths of a tree: a small tree can repeat its subtrees."""


def validate(store: Store, name: str, tip: Oid, known: frozenset[Oid]) -> list[Summary]:
    """Check the chain that ends at `tip`, fetched as session `name`, down to `known` commits.
    Return the new checkpoints, newest first.

    Reads only. Raises StoreDamaged for the first problem. Missing blobs are
    accepted in a partial clone only.
    """
    run = _Validation(store)
    fresh: list[Summary] = []
    oid: Oid | None = tip
    with progress.task("verifying", "checkpoints") as advance:
        while oid is not None and oid not in known:
            summary = store.summary(oid)
            _check_place(name, summary, fresh)
            run.checkpoint(summary)
            fresh.append(summary)
            advance(1)
            oid = summary.parent
    run.check_sizes()
    run.check_sums()
    return fresh


def _check_place(name: str, summary: Summary, fresh: list[Summary]) -> None:
    if not fresh and summary.id.session != name:
        raise StoreDamaged(f"remote session {name} contains {summary.id}; rejected")
    if fresh:
        after = fresh[-1]
        forked = (
            after.id.session != summary.id.session and "Gitcp-Forked-From" not in after.trailers
        )
        if summary.id.number >= after.id.number or forked:
            raise StoreDamaged(
                f"remote checkpoint {after.id} has {summary.id} as its parent; rejected"
            )


class _Validation:
    """One validation run. Each tree is checked once."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.counts: dict[Oid, int] = {store.repo.object_format.empty_tree: 0}
        self.blobs: set[Oid] = set()
        self.streams: list[tuple[Stream, tuple[Segment, ...]]] = []

    def checkpoint(self, summary: Summary) -> None:
        checkpoint = self.store.read(summary.commit)
        if checkpoint.id != summary.id:
            raise StoreDamaged(
                f"remote checkpoint {summary.id} has the metadata of {checkpoint.id}; rejected"
            )
        for entry in self.store.reader.read_tree(summary.root):
            if entry.mode == TREE or entry.name == RESERVED:
                self._count(entry.oid, 1)
            if entry.name != RESERVED:
                self._entry(entry)
        if self._count(summary.root, 0, top=True) > MOST:
            raise StoreDamaged(
                f"remote checkpoint {summary.id} has more than {MOST:,} paths; rejected"
            )
        if checkpoint.conversation is not None:
            self._conversation(checkpoint.conversation)
        if checkpoint.states is not None:
            self._states(checkpoint.states)
        self._segments(checkpoint)

    def _segments(self, checkpoint: Checkpoint) -> None:
        with suppress(StoreDamaged) if promised.is_partial(self.store.repo) else nullcontext():
            for path in self.store.lost_segments(checkpoint):
                raise StoreDamaged(
                    f"remote checkpoint {checkpoint.id} lacks the segments of "
                    f"{paths.display(path)}; rejected"
                )

    def _conversation(self, conversation: Conversation) -> None:
        for stream in conversation.streams:
            entry = trees.lookup(
                self.store.reader,
                conversation.tree,
                stream.name.encode("utf-8", "surrogateescape"),
            )
            if entry is None or entry.mode != TREE:
                raise StoreDamaged(
                    f"stream {stream.name!r} is missing in a remote conversation; rejected"
                )
            stored = segments.read_segments(self.store.reader, entry.oid, stream.bytes)
            self.streams.append((stream, stored))

    def _states(self, recorded: States) -> None:
        for state in recorded.stored:
            stored = states.stored(self.store.reader, recorded, state)
            self.streams.append((Stream(f"state {state.name}", state.bytes, state.sha256), stored))

    def _count(self, oid: Oid, depth: int, *, top: bool = False) -> int:
        """Return the number of paths in a tree, after checking its entries."""
        ahead = [(oid, depth)]
        while ahead:
            tree, level = ahead[-1]
            entries = self._entries(tree, level) if tree not in self.counts else []
            is_top = top and tree == oid
            kept = [e for e in entries if not (is_top and e.name == RESERVED)]
            below = [(e.oid, level + 1) for e in kept if e.mode == TREE]
            new = [each for each in below if each[0] not in self.counts]
            ahead += new
            if not new:
                ahead.pop()
                if tree not in self.counts:
                    self.counts[tree] = sum(map(self._entry, kept))
        return self.counts[oid]

    def _entries(self, tree: Oid, depth: int) -> list[trees.TreeEntry]:
        if depth > paths.DEEPEST:
            raise StoreDamaged(
                f"a remote tree is nested deeper than {paths.DEEPEST:,} levels; rejected"
            )
        entries = self.store.reader.read_tree(tree)
        if len({entry.name for entry in entries}) != len(entries):
            raise StoreDamaged("a remote tree contains a path twice; rejected")
        return entries

    def _entry(self, entry: trees.TreeEntry) -> int:
        """Return the number of paths of an entry, after checking it; a tree was counted before."""
        problem = paths.problem(entry.name) or ("contains a slash" if b"/" in entry.name else None)
        if problem:
            raise StoreDamaged(f"remote path {paths.display(entry.name)} {problem}; rejected")
        if entry.mode == TREE:
            self._refuse_store(entry)
            return self.counts[entry.oid]
        if entry.mode not in MODES:
            raise StoreDamaged(
                f"remote path {paths.display(entry.name)} has mode {entry.mode:o}; rejected"
            )
        if entry.mode != GITLINK:
            self.blobs.add(entry.oid)
        return 1

    def _refuse_store(self, entry: trees.TreeEntry) -> None:
        if not paths.names_store(entry.name + b"/store.git"):
            return
        for below in self.store.reader.read_tree(entry.oid):
            if paths.names_store(path := entry.name + b"/" + below.name):
                raise StoreDamaged(
                    f"remote path {paths.display(path)} is in a store of gitcp; rejected"
                )

    def check_sizes(self) -> None:
        """Raise StoreDamaged for a blob that is too large, or missing outside a partial clone."""
        local = [oid for oid in self.blobs if self.store.reader.exists(oid)]
        # A session whose files had not all arrived got a ref, and every `git gc` failed from then
        # on.
        if len(local) < len(self.blobs) and not promised.is_partial(self.store.repo):
            oid = min(self.blobs.difference(local))
            raise StoreDamaged(
                f"the remote did not send blob {oid[:10]}; rejected",
                hint="try again",
            )
        sizes = remote.sizes(self.store.repo, local) if local else {}
        largest = max(sizes, key=lambda oid: sizes[oid], default=None)
        if largest is not None and sizes[largest] > LARGEST:
            raise StoreDamaged(f"remote blob {largest[:10]} has {sizes[largest]:,} bytes; rejected")

    def check_sums(self) -> None:
        """Raise StoreDamaged for a stream that does not match its checksum. Streams with missing
        blobs are skipped (partial clone).
        """
        sums, local = Sums(), {oid for oid in self.blobs if self.store.reader.exists(oid)}
        for stream, stored in reversed(self.streams):
            if not {segment.oid for segment in stored} <= local:
                continue
            if sums.of(self.store.reader, stream.name, stored) != (
                stream.bytes,
                stream.sha256,
            ):
                raise StoreDamaged(
                    f"stream {stream.name!r} of a remote checkpoint does not match its checksum; "
                    "rejected"
                )


def is_session(name: str) -> bool:
    """Return whether a name from a remote is valid for a session."""
    return (
        refs.NAME.match(name) is not None and ".." not in name and not name.endswith((".lock", "."))
    )
