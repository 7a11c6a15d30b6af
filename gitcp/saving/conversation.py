"""Capture → stored conversation: the streams cut on top of the parent's, and the digest taken
further.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from gitcp import adapters, wire
from gitcp.adapters import base, generic
from gitcp.conversation import segments
from gitcp.conversation.segments import Cut, Segment
from gitcp.errors import ConversationUnreadable, StoreDamaged
from gitcp.git import damage, trees
from gitcp.git.trees import TreeEntry
from gitcp.model import (
    TREE,
    Agent,
    Capture,
    Checkpoint,
    Conversation,
    Digest,
    Entry,
    Source,
    Stream,
)
from gitcp.store import Store
from gitcp.value import replace

MAIN = "main"


def keep(
    store: Store, capture: Capture | None, parent: Checkpoint | None
) -> tuple[Conversation | None, Agent | None]:
    """Store the captured streams, sharing segments with the parent's. Without a capture the
    parent's stand.

    Writes objects only. Raises ConversationUnreadable if the agent's files cannot be read.
    """
    before = parent.conversation if parent else None
    if before is not None and (
        capture is None or any(source.is_standing for source in capture.sources)
    ):
        _require(store, before)
    if capture is None:
        return before, parent.agent if parent else None
    cuts = list(_cuts(store, capture, before))
    kept = {stream.name: (stream, entry) for stream, entry in _standing(store, capture, before)}
    kept |= {source.name: (_stream(source, cut), Entry(TREE, cut.tree)) for source, cut in cuts}
    nested = trees.nest({name.encode(): entry for name, (_, entry) in kept.items()})
    digest = _digest(
        store, capture, before, next((cut for source, cut in cuts if source.name == MAIN), None)
    )
    streams = tuple(kept[source.name][0] for source in capture.sources if source.name in kept)
    directory = below(store.repo.root, capture.directory) if capture.directory else None
    worktree = store.repo.worktree_name
    if directory is None and before is not None and before.format == capture.format:
        directory, worktree = before.directory, before.worktree
    return (
        Conversation(
            capture.format, trees.build(store.objects, nested), streams, digest, directory, worktree
        ),
        capture.agent and replace(capture.agent, version=digest.version, model=digest.model),
    )


def below(root: Path, directory: Path) -> bytes | None:
    """A directory's path in the working tree, b"" for its root; None for one that is not in it, or
    in a repository of its own.
    """
    top, place = os.path.realpath(root), os.path.realpath(directory)
    if top not in base.roots(directory):
        return None
    return os.fsencode(os.path.relpath(place, top)) if place != top else b""


def _standing(
    store: Store, capture: Capture, before: Conversation | None
) -> Iterator[tuple[Stream, Entry]]:
    """The streams of which nothing new was given: as the parent has them."""
    names = {source.name for source in capture.sources if source.is_standing}
    for stream in before.streams if before else ():
        entry = trees.lookup(store.objects, before.tree, stream.name.encode()) if before else None
        if stream.name in names and entry is not None:
            yield stream, entry


def _require(store: Store, stands: Conversation) -> None:
    """Raise StoreDamaged if a conversation that is to stand in another checkpoint is known to be
    damaged.
    """
    error = damage.lacking(store.objects, stands.tree) if store.objects.damaged else None
    if error is not None:
        raise error
    if not store.objects.exists(stands.tree):
        raise StoreDamaged(f"object {stands.tree} is missing", hint="gitcp check")


class Growing:
    """A conversation of one stream that grows by lines: what is added is all that is looked at,
    once it is begun.

    Writes objects only. Where that fails, it is not to be used again.
    """

    def __init__(self, store: Store, format: str, data: bytes, before: Conversation | None) -> None:
        from hashlib import sha256  # OpenSSL is not loaded by a save that has no need of it

        cut = segments.cut(store.objects, Source(MAIN, data=data), stored(store, before, MAIN))
        self._format, self._adapter = format, adapters.for_format(format)
        self._tree, self._segments = cut.tree, cut.segments
        self._last = data[cut.segments[-1].start :]
        self._hash = sha256(data)
        self._digest = self._adapter.digest(Digest(), data.splitlines())

    def add(self, store: Store, data: bytes) -> None:
        """It goes on with these lines."""
        self._tree, self._segments, self._last = segments.append(
            store.objects, self._tree, self._segments, self._last, data
        )
        self._hash.update(data)
        self._digest = self._adapter.digest(self._digest, data.splitlines())

    def conversation(self, store: Store) -> Conversation:
        """All of it, as a save takes it."""
        tree = store.objects.write_tree([TreeEntry(MAIN.encode(), TREE, self._tree)])
        last = self._segments[-1]
        return Conversation(
            self._format,
            tree,
            (Stream(MAIN, last.start + last.size, self._hash.hexdigest()),),
            self._digest,
        )


def _cuts(
    store: Store, capture: Capture, before: Conversation | None
) -> Iterator[tuple[Source, Cut]]:
    """Each stream, cut. One beside the main one that vanished since it was found (an agent cleans
    up) is left out.
    """
    for source in capture.sources:
        if source.is_standing:
            continue
        try:
            yield source, segments.cut(store.objects, source, stored(store, before, source.name))
        except ConversationUnreadable:
            if source.name == MAIN or source.path is None or source.path.exists():
                raise


def stored(store: Store, conversation: Conversation | None, name: str) -> tuple[Segment, ...]:
    """The segments of one stream of a stored conversation; none if it has no such stream."""
    stream = (
        next((s for s in conversation.streams if s.name == name), None) if conversation else None
    )
    if conversation is None or stream is None:
        return ()
    entry = trees.lookup(store.objects, conversation.tree, name.encode())
    return segments.read_segments(store.objects, entry.oid, stream.bytes) if entry else ()


def lines(store: Store, found: Sequence[Segment], start: int = 0) -> Iterator[bytes]:
    """The lines of a stored stream from byte `start` on, without their ends."""
    parts = (
        store.objects.read_blob(segment.oid)[max(0, start - segment.start) :]
        for segment in found
        if segment.start + segment.size > start
    )
    for line in base.lines(parts):
        yield line.removesuffix(b"\n")


def _stream(source: Source, cut: Cut) -> Stream:
    return Stream(source.name, cut.bytes, cut.sha256, source.place, cut.torn)


def _digest(store: Store, capture: Capture, before: Conversation | None, cut: Cut | None) -> Digest:
    """What listings show: taken further where the conversation only grew by whole lines, else made
    anew.
    """
    if cut is None:
        return before.digest if before else Digest()
    adapter = adapters.for_format(capture.format)
    if before is not None and before.format == capture.format and cut.kept:
        start = _continues_at(store, adapter, capture.format, cut)
        if start is not None:
            return adapter.digest(before.digest, lines(store, cut.segments, start))
    return adapter.digest(Digest(), lines(store, cut.segments))


def _continues_at(store: Store, adapter: base.Adapter, format: str, cut: Cut) -> int | None:
    """The offset from which the parent's digest can be taken further, None if the whole stream must
    be read again.

    The parent may have ended within a line: in files given by hand that line is kept and has been
    digested. It still counts for what it is if it was finished there; if it goes on, only where the
    digest made nothing of its beginning.
    """
    if cut.kept == cut.bytes:
        return cut.kept
    if format == generic.DOCUMENT:  # not made of lines
        return None
    begun = _unfinished(store, cut.segments, cut.kept)
    if not begun:
        return cut.kept
    if next(segments.content(store.objects, cut.segments, cut.kept))[:1] == b"\n":
        return cut.kept + 1
    says_nothing = wire.parse_line(begun) is None and adapter.digest(Digest(), [begun]) == Digest()
    return cut.kept - len(begun) if says_nothing else None


def _unfinished(store: Store, found: Sequence[Segment], end: int) -> bytes:
    """The bytes before offset `end` of the line that it is in; none where it is between two
    lines.
    """
    line = b""
    for segment in reversed([each for each in found if each.start < end]):
        data = store.objects.read_blob(segment.oid)[: end - segment.start]
        line = data[data.rfind(b"\n") + 1 :] + line
        if b"\n" in data:
            break
    return line
