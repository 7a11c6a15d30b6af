"""Store a captured conversation: cut its streams on top of the parent's and update the digest."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from gitcp import adapters, wire
from gitcp.adapters import base, generic, long_lines
from gitcp.conversation import segments
from gitcp.conversation.segments import Cut, Segment
from gitcp.errors import ConversationUnreadable, StoreDamaged
from gitcp.git import damage, trees
from gitcp.git.trees import TreeEntry
from gitcp.model import (
    MAIN,
    TREE,
    Agent,
    Capture,
    Checkpoint,
    Conversation,
    Digest,
    Entry,
    Oid,
    Source,
    Stream,
)
from gitcp.store import Store
from gitcp.value import replace


def store_capture(
    store: Store, capture: Capture | None, parent: Checkpoint | None, *, as_given: bool = False
) -> tuple[Conversation | None, Agent | None]:
    """Store the captured streams, sharing segments with the parent's, and return the conversation
    and its agent. Without a capture, or if that is a beginning of the parent's, return the
    parent's; `as_given` stores a beginning too.

    Writes objects only. Raises ConversationUnreadable if the agent's files cannot be read,
    StoreDamaged if the parent's conversation is needed and damaged.
    """
    previous = parent.conversation if parent else None
    if previous is not None and (
        capture is None or any(source.is_standing for source in capture.sources)
    ):
        _require_intact(store, previous)
    if capture is None:
        return previous, parent.agent if parent else None
    cuts = list(_cuts(store, capture, previous))
    stored_streams = {
        stream.name: (stream, entry) for stream, entry in _carried_over(store, capture, previous)
    }
    stored_streams |= {
        source.name: (_stream(source, cut), Entry(TREE, cut.tree)) for source, cut in cuts
    }
    nested = trees.nest({name.encode(): entry for name, (_, entry) in stored_streams.items()})
    main = next((cut for source, cut in cuts if source.name == MAIN), None)
    digest = _digest(store, capture, previous, main)
    is_behind = not as_given and _is_behind(store, capture, main, digest, parent)
    if is_behind and parent and previous:
        return _kept(store, capture, parent, previous)
    streams = tuple(
        stored_streams[source.name][0]
        for source in capture.sources
        if source.name in stored_streams
    )
    directory = (
        relative_directory(store.repo.root, capture.directory) if capture.directory else None
    )
    worktree = store.repo.worktree_name
    if directory is None and previous is not None and previous.format == capture.format:
        directory, worktree = previous.directory, previous.worktree
    tree = trees.build(store.writer, nested)
    return (
        Conversation(capture.format, tree, streams, digest, directory, worktree),
        capture.agent and replace(capture.agent, version=digest.version, model=digest.model),
    )


def _kept(
    store: Store, capture: Capture, parent: Checkpoint, previous: Conversation
) -> tuple[Conversation | None, Agent | None]:
    """Return the parent's conversation, with the streams of the captured one that it has not."""
    names = [stream.name for stream in previous.streams]
    new = [source for source in capture.sources if source.name not in names]
    if not new:
        return previous, parent.agent
    return store_capture(store, replace(capture, sources=(*map(Source, names), *new)), parent)


def _is_behind(
    store: Store, capture: Capture, main: Cut | None, digest: Digest, parent: Checkpoint | None
) -> bool:
    """Return whether a captured conversation is a beginning of the one that the parent has of the
    same session.

    The agent's file can be: with a session store, Claude Code leaves it as it was when the session
    was resumed. A save of that made the agent forget all later turns.
    """
    if parent is None or main is None:
        return False
    previous, whose = parent.conversation, (parent.agent, capture.agent)
    ids = {(each.name, each.session_id) for each in whose if each and each.session_id}
    if previous is None or None in whose or len(ids) != 1 or previous.format != capture.format:
        return False
    if capture.format in adapters.PLAIN_FORMATS:  # a program says what its conversation is
        return False
    size = next((stream.bytes for stream in previous.streams if stream.name == MAIN), 0)
    if main.kept or (main.bytes >= size and digest.messages >= previous.digest.messages):
        return False
    adapter = adapters.for_format(capture.format)
    stored_lines = lines(store, stored(store, previous, MAIN))
    before = map(_content, adapter.messages(stored_lines))
    now = map(_content, adapter.messages(lines(store, _segments(store, main, 0))))
    return all(next(before, None) == each for each in now) and next(before, None) is not None


def _content(message: base.Message) -> tuple[str | None, ...]:
    return message.role, message.text, message.id, message.tool, message.call


class Readable(NamedTuple):
    """What could be stored of a conversation, with the streams that were read, and the first error
    where something could not be.
    """

    conversation: Conversation | None
    agent: Agent | None
    sources: tuple[Source, ...] = ()
    error: ConversationUnreadable | None = None


def store_readable(store: Store, capture: Capture | None, parent: Checkpoint | None) -> Readable:
    """Store a conversation as `store_capture` does. What cannot be read is taken from the parent:
    the stream of a sub-agent, or the whole conversation.
    """
    error = None
    while True:
        try:
            sources = capture.sources if capture else ()
            return Readable(*store_capture(store, capture, parent), sources, error)
        except ConversationUnreadable as caught:
            error = error or caught
            capture = _without(capture, caught.stream)


def _without(capture: Capture | None, name: str) -> Capture | None:
    """Return a capture in which this stream is that of the parent; None without the main stream."""
    if capture is None or name == MAIN:
        return None
    sources = (Source(name) if each.name == name else each for each in capture.sources)
    return replace(capture, sources=tuple(sources))


def relative_directory(root: Path, directory: Path) -> bytes | None:
    """Return a directory's path relative to the working tree `root`, b"" for the root itself; None
    if it is outside, or in another repository.
    """
    root_path, path = os.path.realpath(root), os.path.realpath(directory)
    if root_path not in base.roots(directory):
        return None
    return os.fsencode(os.path.relpath(path, root_path)) if path != root_path else b""


def _carried_over(
    store: Store, capture: Capture, previous: Conversation | None
) -> Iterator[tuple[Stream, Entry]]:
    """Yield the parent's streams that got no new data, with their tree entries."""
    names = {source.name for source in capture.sources if source.is_standing}
    for stream in previous.streams if previous else ():
        entry = (
            trees.lookup(store.reader, previous.tree, stream.name.encode()) if previous else None
        )
        if stream.name in names and entry is not None:
            yield stream, entry


def _require_intact(store: Store, conversation: Conversation) -> None:
    """Raise StoreDamaged if `conversation`, which a new checkpoint is to reuse, is known to be
    damaged.
    """
    error = (
        damage.lacking(store.reader, store.freshener, conversation.tree)
        if store.freshener.damaged
        else None
    )
    if error is not None:
        raise error
    if not store.reader.exists(conversation.tree):
        raise StoreDamaged(f"object {conversation.tree} is missing", hint="gitcp doctor --store")


class GrowingConversation:
    """A conversation of one stream that grows line by line. Only added lines are read.

    Writes objects only. After an error it must not be used again.
    """

    def __init__(
        self, store: Store, format: str, data: bytes, previous: Conversation | None
    ) -> None:
        from hashlib import sha256  # loads OpenSSL, which most saves do not need

        cut = segments.cut(store.objects, Source(MAIN, data=data), stored(store, previous, MAIN))
        self._format, self._adapter = format, adapters.for_format(format)
        self._tree, self._segments = cut.tree, cut.segments
        self._last = data[cut.segments[-1].start :]
        self._hash = sha256(data)
        self._digest = self._adapter.digest(Digest(), data.splitlines())

    def add(self, store: Store, data: bytes) -> None:
        """Append `data`, which consists of whole lines."""
        self._tree, self._segments, self._last = segments.append(
            store.objects, self._tree, self._segments, self._last, data
        )
        self._hash.update(data)
        self._digest = self._adapter.digest(self._digest, data.splitlines())

    def conversation(self, store: Store) -> Conversation:
        """Return the whole conversation, ready to be saved."""
        tree = store.writer.write_tree([TreeEntry(MAIN.encode(), TREE, self._tree)])
        last = self._segments[-1]
        return Conversation(
            self._format,
            tree,
            (Stream(MAIN, last.start + last.size, self._hash.hexdigest()),),
            self._digest,
        )


def _cuts(
    store: Store, capture: Capture, previous: Conversation | None
) -> Iterator[tuple[Source, Cut]]:
    """Yield each new stream with its cut. Skip a secondary stream whose file vanished meanwhile:
    agents clean up.
    """
    for source in capture.sources:
        if source.is_standing:
            continue
        try:
            yield source, _cut(store, source, previous)
        except ConversationUnreadable:
            if source.name == MAIN or source.path is None or source.path.exists():
                raise


def _cut(store: Store, source: Source, previous: Conversation | None) -> Cut:
    """Store a stream on top of the parent's."""
    if not store.freshener.damaged:  # else each segment is looked up, and written again if it is
        stream, tree = _located(store, previous, source.name)
        grown = (
            segments.grow(store.objects, source, tree, stream.bytes, stream.sha256)
            if stream and tree
            else None
        )
        if grown is not None:
            return grown
    return segments.cut(store.objects, source, stored(store, previous, source.name))


def _located(
    store: Store, conversation: Conversation | None, name: str
) -> tuple[Stream | None, Oid | None]:
    """Return one stream of a stored conversation and the tree of its segments, None for each that
    is missing.
    """
    streams = conversation.streams if conversation else ()
    stream = next((each for each in streams if each.name == name), None)
    if conversation is None or stream is None:
        return stream, None
    entry = trees.lookup(store.reader, conversation.tree, name.encode())
    return stream, entry.oid if entry else None


def stored(store: Store, conversation: Conversation | None, name: str) -> tuple[Segment, ...]:
    """Return the segments of one stream of a stored conversation, none if there is no such
    stream.
    """
    stream, tree = _located(store, conversation, name)
    return segments.read_segments(store.reader, tree, stream.bytes) if stream and tree else ()


def lines(store: Store, stream_segments: Sequence[Segment], start: int = 0) -> Iterator[bytes]:
    """Yield the lines of a stored stream from byte `start` on, without line ends."""
    parts = (
        store.reader.read_blob(segment.oid)[max(0, start - segment.start) :]
        for segment in stream_segments
        if segment.start + segment.size > start
    )
    for line in base.lines(parts):
        yield line.removesuffix(b"\n")


def _countable(store: Store, cut: Cut, start: int) -> Iterator[bytes]:
    """Yield the lines of a stream from byte `start` on for a digest, the long ones shortened."""
    parts = segments.content(store.reader, _segments(store, cut, start), start)
    for line in long_lines.lines(parts):
        yield line.removesuffix(b"\n")


def _stream(source: Source, cut: Cut) -> Stream:
    return Stream(source.name, cut.bytes, cut.sha256, source.place, cut.torn)


def _digest(
    store: Store, capture: Capture, previous: Conversation | None, cut: Cut | None
) -> Digest:
    """Return the digest of the main stream. Extend the parent's if whole lines were appended, else
    compute it from the beginning.
    """
    if cut is None:
        return previous.digest if previous else Digest()
    adapter = adapters.for_format(capture.format)
    if previous is not None and previous.format == capture.format and cut.kept:
        start = _resume_offset(store, adapter, capture.format, cut)
        if start is not None:
            return adapter.digest(previous.digest, _countable(store, cut, start))
    return adapter.digest(Digest(), _countable(store, cut, 0))


def _resume_offset(store: Store, adapter: base.Adapter, format: str, cut: Cut) -> int | None:
    """Return the byte offset from which the parent's digest can be extended, None if the whole
    stream must be read again.

    The parent may have ended within a line: a partial line of a file given by hand is stored and
    was digested. It still counts if the line ended there. If the line continues, the digest can be
    extended only if it ignored the partial line.
    """
    if cut.kept == cut.bytes:
        return cut.kept
    if format == generic.DOCUMENT:  # not made of lines
        return None
    partial = _partial_line(store, cut, cut.kept)
    if not partial:
        return cut.kept
    if next(segments.content(store.reader, cut.segments, cut.kept))[:1] == b"\n":
        return cut.kept + 1
    is_ignored = (
        wire.parse_line(partial) is None and adapter.digest(Digest(), [partial]) == Digest()
    )
    return cut.kept - len(partial) if is_ignored else None


def _segments(store: Store, cut: Cut, start: int) -> tuple[Segment, ...]:
    """Return the segments of a stored stream, from byte `start` on at least."""
    if cut.segments[0].start <= start:
        return cut.segments
    return segments.read_segments(store.reader, cut.tree, cut.bytes)


def _partial_line(store: Store, cut: Cut, end: int) -> bytes:
    """Return the bytes before offset `end` of the line that contains it, b"" at a line boundary."""
    line, parts = b"", list(cut.segments)
    while parts or end:
        if not parts:  # the line is long: it began before what grew
            parts = [each for each in _segments(store, cut, 0) if each.start < end]
        segment = parts.pop()
        if segment.start >= end:
            continue
        data = store.reader.read_blob(segment.oid)[: end - segment.start]
        line = data[data.rfind(b"\n") + 1 :] + line
        end = segment.start
        if b"\n" in data:
            break
    return line
