"""`restore --message ID`: find the state just before a user message.

The files are those of the last checkpoint without the message, and the conversation ends right
before it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from gitcp import adapters
from gitcp.conversation import segments
from gitcp.errors import RevisionNotFound
from gitcp.git import trees
from gitcp.model import MAIN, TREE, Agent, Checkpoint, Conversation, Digest, Entry
from gitcp.saving.conversation import lines, stored
from gitcp.store import Store, Summary
from gitcp.value import replace


class Rewound(NamedTuple):
    """A conversation cut before a message, and the agent it belongs to."""

    conversation: Conversation
    agent: Agent | None
    message: str


def before_message(store: Store, session: str, message_id: str) -> tuple[Checkpoint, Rewound]:
    """Return the checkpoint whose files precede the message, and the conversation up to the
    message.

    Falls back to the first checkpoint of the session if every one has the message. Writes the
    objects of the shortened conversation; no ref names them yet. Raises RevisionNotFound if no
    checkpoint of the session contains the message.
    """
    tip = store.tip(session)
    history = list(store.history(tip)) if tip else []
    holder, offset = _holder(store, history, message_id)
    earlier = (store.read(s.commit) for s in history if s.id.number < holder.id.number)
    files = next((c for c in earlier if _is_before(store, c, holder, offset)), None)
    rewound = Rewound(_cut(store, holder, offset), holder.agent, message_id)
    return files or store.read(history[-1].commit), rewound


def _holder(store: Store, history: list[Summary], message_id: str) -> tuple[Checkpoint, int]:
    """Return the newest checkpoint whose conversation contains the message, and the byte offset of
    the message.
    """
    searched = set()
    for summary in history:
        checkpoint = store.read(summary.commit)
        if checkpoint.conversation is None or checkpoint.conversation.tree in searched:
            continue
        searched.add(checkpoint.conversation.tree)
        adapter = adapters.for_format(checkpoint.conversation.format)
        offset = adapter.before(
            lines(store, stored(store, checkpoint.conversation, MAIN)), message_id
        )
        if offset is not None:
            return checkpoint, offset
    raise RevisionNotFound(
        f"no checkpoint of this session contains a user message {message_id}",
        hint="gitcp show --conversation",
    )


def _is_before(store: Store, checkpoint: Checkpoint, holder: Checkpoint, offset: int) -> bool:
    """Return whether a checkpoint's conversation is a prefix of the holder's up to the offset.

    Comparing lengths is not enough: after a restore, a session may continue differently.
    """
    streams = checkpoint.conversation.streams if checkpoint.conversation else ()
    main = next((stream for stream in streams if stream.name == MAIN), None)
    if main is None:
        return True
    if main.bytes > offset:
        return False
    from hashlib import sha256  # takes 3 ms, and is needed for this alone

    digest = sha256()
    for chunk in _head(store, holder, main.bytes):
        digest.update(chunk)
    return digest.hexdigest() == main.sha256


def _head(store: Store, holder: Checkpoint, size: int) -> Iterator[bytes]:
    """Yield the first `size` bytes of a checkpoint's conversation."""
    for chunk in segments.content(store.reader, stored(store, holder.conversation, MAIN)):
        if size <= 0:
            return
        yield chunk[:size]
        size -= len(chunk)


def _cut(store: Store, holder: Checkpoint, offset: int) -> Conversation:
    """Return the holder's conversation with the main stream cut at the offset; other streams stay
    whole.
    """
    assert holder.conversation is not None
    conversation = holder.conversation
    main = segments.shorten(store.objects, stored(store, conversation, MAIN), offset)
    names = [stream.name.encode() for stream in conversation.streams]
    entries = {
        name: entry
        for name in names
        if (entry := trees.lookup(store.reader, conversation.tree, name))
    }
    entries[MAIN.encode()] = Entry(TREE, main.tree)
    digest = adapters.for_format(conversation.format).digest(Digest(), lines(store, main.segments))
    tree = trees.build(store.writer, trees.nest(entries))
    store.writer.flush(keep=True)
    return Conversation(
        format=conversation.format,
        tree=tree,
        streams=tuple(
            replace(s, bytes=main.bytes, sha256=main.sha256, torn=0) if s.name == MAIN else s
            for s in conversation.streams
        ),
        digest=replace(digest, title=conversation.digest.title),
        directory=conversation.directory,
        worktree=conversation.worktree,
    )
