"""What came from somebody else is looked at whole before a ref names it.

Nothing is taken on its word: commits, trailers, metadata, names and modes of every tree entry,
sizes, and how segments add up. What is refused is refused whole.
"""

from __future__ import annotations

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
    Conversation,
    Oid,
    Stream,
)
from gitcp.store import Store, Summary
from gitcp.worktree import paths

MODES = (FILE, EXECUTABLE, SYMLINK, GITLINK)
LARGEST = 1 << 30
"""No object may be larger: a small pack can hold terabytes of zeros."""

MOST = 2_000_000
"""No tree may name more paths, however often it repeats itself."""


def validate(store: Store, name: str, tip: Oid, known: frozenset[Oid]) -> list[Summary]:
    """Check the chain behind `tip`, fetched as session `name`, up to what is `known`; what is new,
    newest first.

    Raises StoreDamaged for the first thing that is not as it must be. Reads only. A missing blob is
    not missed in a partial clone, and there alone.
    """
    run = _Validation(store)
    fresh: list[Summary] = []
    oid: Oid | None = tip
    while oid is not None and oid not in known:
        summary = store.summary(oid)
        _check_place(name, summary, fresh)
        run.checkpoint(summary)
        fresh.append(summary)
        oid = summary.parent
    run.check_sizes()
    run.check_sums()
    return fresh


def _check_place(name: str, summary: Summary, fresh: list[Summary]) -> None:
    if not fresh and summary.id.session != name:
        raise StoreDamaged(f"session {name} of the remote holds {summary.id}: it was not taken")
    if fresh:
        after = fresh[-1]
        forked = (
            after.id.session != summary.id.session and "Gitcp-Forked-From" not in after.trailers
        )
        if summary.id.number >= after.id.number or forked:
            raise StoreDamaged(
                f"{after.id} of the remote comes after {summary.id}: the session was not taken"
            )


class _Validation:
    """One run: trees are looked at once, wherever they stand."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.counts: dict[Oid, int] = {trees.EMPTY_TREE: 0}
        self.blobs: set[Oid] = set()
        self.streams: list[tuple[Stream, tuple[Segment, ...]]] = []

    def checkpoint(self, summary: Summary) -> None:
        checkpoint = self.store.read(summary.commit)
        if checkpoint.id != summary.id:
            raise StoreDamaged(
                f"{summary.id} of the remote says that it is {checkpoint.id}: it was not taken"
            )
        for entry in self.store.objects.read_tree(summary.root):
            if entry.name == RESERVED:
                self._count(entry.oid, 1)
            else:
                self._entry(entry, 0)
        if self._count(summary.root, 0, top=True) > MOST:
            raise StoreDamaged(
                f"{summary.id} of the remote names more than {MOST:,} paths: it was not taken"
            )
        if checkpoint.conversation is not None:
            self._conversation(checkpoint.conversation)

    def _conversation(self, conversation: Conversation) -> None:
        for stream in conversation.streams:
            entry = trees.lookup(
                self.store.objects,
                conversation.tree,
                stream.name.encode("utf-8", "surrogateescape"),
            )
            if entry is None or entry.mode != TREE:
                raise StoreDamaged(
                    f"a conversation of the remote lacks its stream {stream.name!r}: it was not "
                    "taken"
                )
            found = segments.read_segments(self.store.objects, entry.oid, stream.bytes)
            self.streams.append((stream, found))

    def _count(self, oid: Oid, depth: int, *, top: bool = False) -> int:
        """How many paths a tree names; each of its names is looked at."""
        if oid not in self.counts:
            if depth > paths.DEEPEST:
                raise StoreDamaged(
                    f"a tree of the remote is more than {paths.DEEPEST} deep: it was not taken"
                )
            entries = self.store.objects.read_tree(oid)
            if len({entry.name for entry in entries}) != len(entries):
                raise StoreDamaged("a tree of the remote names a path twice: it was not taken")
            self.counts[oid] = sum(
                self._entry(e, depth) for e in entries if not (top and e.name == RESERVED)
            )
        return self.counts[oid]

    def _entry(self, entry: trees.TreeEntry, depth: int) -> int:
        wrong = paths.problem(entry.name) or ("holds a slash" if b"/" in entry.name else None)
        if wrong:
            raise StoreDamaged(
                f"{paths.display(entry.name)} of the remote {wrong}: it was not taken"
            )
        if entry.mode == TREE:
            return self._count(entry.oid, depth + 1)
        if entry.mode not in MODES:
            raise StoreDamaged(
                f"{paths.display(entry.name)} of the remote has mode {entry.mode:o}: it was not "
                "taken"
            )
        if entry.mode != GITLINK:
            self.blobs.add(entry.oid)
        return 1

    def check_sizes(self) -> None:
        """No blob that is here may be larger than can be meant; none may be missing that no remote
        has promised.
        """
        here = [oid for oid in self.blobs if self.store.objects.exists(oid)]
        if len(here) < len(self.blobs) and not promised.is_partial(self.store.repo):
            oid = min(self.blobs.difference(here))
            raise StoreDamaged(
                f"blob {oid[:10]} of the remote did not come along: it was not taken",
                hint="try again",
            )
        sizes = remote.sizes(self.store.repo, here) if here else {}
        largest = max(sizes, key=lambda oid: sizes[oid], default=None)
        if largest is not None and sizes[largest] > LARGEST:
            raise StoreDamaged(
                f"blob {largest[:10]} of the remote has {sizes[largest]:,} bytes: it was not taken"
            )

    def check_sums(self) -> None:
        """Every stream must be what its checksum says; one that is not here whole, in a partial
        clone, is not read.
        """
        sums, here = Sums(), {oid for oid in self.blobs if self.store.objects.exists(oid)}
        for stream, found in reversed(self.streams):
            if not {segment.oid for segment in found} <= here:
                continue
            if sums.of(self.store.objects, stream.name, found) != (stream.bytes, stream.sha256):
                what = (
                    f"stream {stream.name!r} of a conversation of the remote does not match its "
                    "checksum"
                )
                raise StoreDamaged(f"{what}: it was not taken")


def is_session(name: str) -> bool:
    """Whether a remote's name for a session can be one here."""
    return (
        refs.NAME.match(name) is not None and ".." not in name and not name.endswith((".lock", "."))
    )
