"""Read the content of one checkpoint: a file, a stream, the messages of its conversation."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from gitcp import adapters, regular
from gitcp.adapters import generic
from gitcp.adapters.base import Message
from gitcp.conversation import segments
from gitcp.errors import ConversationUnreadable, RevisionNotFound
from gitcp.git import segmented, trees
from gitcp.model import (
    GITLINK,
    MAIN,
    RESERVED,
    TREE,
    Capture,
    Checkpoint,
    Conversation,
    Entry,
    Source,
    path_text,
)
from gitcp.saving.conversation import lines, stored
from gitcp.store import METADATA, Store
from gitcp.worktree import convert, paths

SPOKEN = {"user": "user", "summary": "user", "assistant": "assistant"}
"""The role that a model knows, by the role of a message."""

TAIL = 1 << 20
"""Bytes at the end of a conversation in which the last messages are searched."""


class Listing(NamedTuple):
    """The names in a directory of a checkpoint; those of directories end with a slash."""

    names: tuple[bytes, ...]

    @property
    def names_text(self) -> tuple[str, ...]:
        return tuple(map(path_text, self.names))


def file(store: Store, checkpoint: Checkpoint, path: bytes) -> bytes | Listing:
    """Return the bytes that a file had in the working tree, the target of a link, or the names in a
    directory.

    `path` may be in `.gitcp`, the checkpoint's own directory. Raises RevisionNotFound if the path
    does not exist.
    """
    entry = (
        trees.lookup(store.reader, checkpoint.root, path) if path else Entry(TREE, checkpoint.root)
    )
    if entry is None:
        raise RevisionNotFound(
            _why_absent(checkpoint, path), hint=f"gitcp show --files {checkpoint.id}"
        )
    if entry.mode == GITLINK:
        raise RevisionNotFound(
            f"{paths.display(path)} is a submodule, at commit {entry.oid}: its files are not stored"
        )
    if entry.mode == TREE:
        entries = store.reader.read_tree(entry.oid)
        return Listing(tuple(e.name + b"/" if e.mode == TREE else e.name for e in entries))
    blob = store.reader.read_blob(entry.oid)
    conversion = next((c for c in checkpoint.snapshot.converted if c.path == path), None)
    if conversion and conversion.segments:
        return b"".join(segmented.content(store.reader, entry.oid))
    return (
        convert.checkout(blob, entry.oid, conversion, store.repo.common_dir / "lfs")
        if conversion
        else blob
    )


def _why_absent(checkpoint: Checkpoint, path: bytes) -> str:
    """Return why a path does not exist; it may have been skipped."""
    for skip in checkpoint.snapshot.skipped:
        if path == skip.path or path.startswith(skip.path.rstrip(b"/") + b"/"):
            return f"{paths.display(path)} was not captured in {checkpoint.id}: {skip.reason.value}"
    return f"checkpoint {checkpoint.id} has no {paths.display(path)}"


def paths_of(store: Store, checkpoint: Checkpoint) -> Iterator[bytes]:
    """Yield every path of the checkpoint's files, in tree order."""
    return (path for path, _ in trees.walk(store.reader, checkpoint.snapshot.tree))


def metadata(store: Store, checkpoint: Checkpoint) -> bytes:
    """Return `checkpoint.json` as stored."""
    data = file(store, checkpoint, RESERVED + b"/" + METADATA)
    assert isinstance(data, bytes)
    return data


def stream(store: Store, checkpoint: Checkpoint, name: str) -> Iterator[bytes]:
    """Yield the bytes of one stream of the conversation. Raises RevisionNotFound if there is none
    of that name.
    """
    conversation = checkpoint.conversation
    names = [s.name for s in conversation.streams] if conversation else []
    if conversation is None or name not in names:
        raise RevisionNotFound(
            f"checkpoint {checkpoint.id} has no stream {name!r}",
            hint=f"it has: {', '.join(names) or 'no conversation'}",
        )
    return segments.content(store.reader, stored(store, conversation, name))


def messages(store: Store, conversation: Conversation, name: str = MAIN) -> Iterator[Message]:
    """Yield the messages of a stream, in order."""
    adapter = adapters.for_format(conversation.format)
    return adapter.messages(lines(store, stored(store, conversation, name)))


def spoken(store: Store, conversation: Conversation) -> Iterator[dict[str, Any]]:
    """Yield what was said, as messages with `role` and `content` that a model takes. Messages that
    a program saved are as it gave them.
    """
    if adapters.for_format(conversation.format).NAME == generic.NAME:
        yield from generic.entries(lines(store, stored(store, conversation, MAIN)))
        return
    for message in messages(store, conversation):
        if message.tool is None and message.role in SPOKEN:
            yield {"role": SPOKEN[message.role], "content": message.text}


def last_messages(store: Store, conversation: Conversation, most: int) -> list[Message]:
    """Return the last messages of a conversation, at most `most`. Only the end of a long one is
    read.
    """
    size = next((s.bytes for s in conversation.streams if s.name == MAIN), 0)
    start = size - TAIL if size > TAIL and conversation.format != "json" else 0
    tail = lines(store, stored(store, conversation, MAIN), start)
    if start:
        next(tail, None)  # the first line is incomplete
    return list(deque(adapters.for_format(conversation.format).messages(tail), most))


def messages_now(capture: Capture) -> Iterator[Message]:
    """Yield the messages of a conversation from the agent's current files. Raises
    ConversationUnreadable.
    """
    main = next(
        (source for source in capture.sources if source.name == MAIN), Source(MAIN, data=b"")
    )
    return adapters.for_format(capture.format).messages(_lines(main))


def _lines(source: Source) -> Iterable[bytes]:
    if source.path is None:
        yield from (source.data or b"").split(b"\n")
        return
    try:
        with regular.opened(source.path) as file:
            for line in file:
                yield line.rstrip(b"\n")
    except OSError as error:
        raise ConversationUnreadable(f"{source.path} cannot be read: {error.strerror}") from None
