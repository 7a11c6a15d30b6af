"""What is inside one checkpoint: a file, a stream, the messages of its conversation. Reads only."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from gitcp import adapters
from gitcp.adapters.base import Message
from gitcp.conversation import segments
from gitcp.errors import ConversationUnreadable, RevisionNotFound
from gitcp.git import trees
from gitcp.model import GITLINK, RESERVED, TREE, Capture, Checkpoint, Conversation, Entry, Source
from gitcp.saving.conversation import MAIN, lines, stored
from gitcp.store import METADATA, Store
from gitcp.worktree import convert, paths

TAIL = 1 << 20
"""Bytes at the end of a conversation in which its last messages are looked for."""


class Listing(NamedTuple):
    """A directory of a checkpoint: its names, those of directories with a slash."""

    names: tuple[bytes, ...]


def file(store: Store, checkpoint: Checkpoint, path: bytes) -> bytes | Listing:
    """The bytes a file had in the working tree, the target of a link, or the names in a directory.

    `path` may lie in `.gitcp`, the checkpoint's own directory. Raises RevisionNotFound if there is
    no such path.
    """
    entry = (
        trees.lookup(store.objects, checkpoint.root, path) if path else Entry(TREE, checkpoint.root)
    )
    if entry is None:
        raise RevisionNotFound(
            _absent(checkpoint, path), hint=f"gitcp show --files {checkpoint.id}"
        )
    if entry.mode == GITLINK:
        raise RevisionNotFound(
            f"{paths.display(path)} is a submodule, at commit {entry.oid}: its files are not stored"
        )
    if entry.mode == TREE:
        found = store.objects.read_tree(entry.oid)
        return Listing(tuple(e.name + b"/" if e.mode == TREE else e.name for e in found))
    blob = store.objects.read_blob(entry.oid)
    conversion = next((c for c in checkpoint.snapshot.converted if c.path == path), None)
    return (
        convert.checkout(blob, entry.oid, conversion, store.repo.common_dir / "lfs")
        if conversion
        else blob
    )


def _absent(checkpoint: Checkpoint, path: bytes) -> str:
    """Why a path is not there: it may have been left out, which is worth saying."""
    for skip in checkpoint.snapshot.skipped:
        if path == skip.path or path.startswith(skip.path.rstrip(b"/") + b"/"):
            return f"{paths.display(path)} was not captured in {checkpoint.id}: {skip.reason.value}"
    return f"checkpoint {checkpoint.id} has no {paths.display(path)}"


def paths_of(store: Store, checkpoint: Checkpoint) -> Iterator[bytes]:
    """Every path of the files half, in tree order."""
    return (path for path, _ in trees.walk(store.objects, checkpoint.snapshot.tree))


def metadata(store: Store, checkpoint: Checkpoint) -> bytes:
    """`checkpoint.json` as it is stored."""
    found = file(store, checkpoint, RESERVED + b"/" + METADATA)
    assert isinstance(found, bytes)
    return found


def stream(store: Store, checkpoint: Checkpoint, name: str) -> Iterator[bytes]:
    """The bytes of one stream of the conversation. Raises RevisionNotFound if there is none of that
    name.
    """
    conversation = checkpoint.conversation
    names = [s.name for s in conversation.streams] if conversation else []
    if conversation is None or name not in names:
        raise RevisionNotFound(
            f"checkpoint {checkpoint.id} has no stream {name!r}",
            hint=f"it has: {', '.join(names) or 'no conversation'}",
        )
    return segments.content(store.objects, stored(store, conversation, name))


def messages(store: Store, conversation: Conversation, name: str = MAIN) -> Iterator[Message]:
    """Every message of a stream that is shown, in order."""
    adapter = adapters.for_format(conversation.format)
    return adapter.messages(lines(store, stored(store, conversation, name)))


def last_messages(store: Store, conversation: Conversation, most: int) -> list[Message]:
    """The last messages of a conversation. Of a long one only the end is read."""
    size = next((s.bytes for s in conversation.streams if s.name == MAIN), 0)
    start = size - TAIL if size > TAIL and conversation.format != "json" else 0
    found = lines(store, stored(store, conversation, MAIN), start)
    if start:
        next(found, None)  # begins somewhere inside
    return list(deque(adapters.for_format(conversation.format).messages(found), most))


def messages_now(capture: Capture) -> Iterator[Message]:
    """The messages of a conversation as its agent has it now. Raises ConversationUnreadable."""
    main = next(
        (source for source in capture.sources if source.name == MAIN), Source(MAIN, data=b"")
    )
    return adapters.for_format(capture.format).messages(_lines(main))


def _lines(source: Source) -> Iterable[bytes]:
    if source.path is None:
        yield from (source.data or b"").split(b"\n")
        return
    try:
        with open(source.path, "rb") as file:
            for line in file:
                yield line.rstrip(b"\n")
    except OSError as error:
        raise ConversationUnreadable(f"{source.path} cannot be read: {error.strerror}") from None
