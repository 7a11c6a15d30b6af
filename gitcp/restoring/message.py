"""`restore --message ID`: the state just before a user message. Files from the last checkpoint that
did not have it yet, the conversation cut right before it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from gitcp import adapters
from gitcp.conversation import segments
from gitcp.errors import RevisionNotFound
from gitcp.git import trees
from gitcp.model import TREE, Agent, Checkpoint, Conversation, Digest, Entry
from gitcp.saving.conversation import MAIN, lines, stored
from gitcp.store import Store, Summary
from gitcp.value import replace


class Rewound(NamedTuple):
    """A conversation up to a message, and whose it is."""

    conversation: Conversation
    agent: Agent | None
    message: str


def before_message(store: Store, session: str, message_id: str) -> tuple[Checkpoint, Rewound]:
    """The checkpoint whose files belong to the moment before the message, and the conversation up
    to there.

    Where no checkpoint was taken before the message, the files are those of the first one that has
    it. Writes the shortened conversation's objects; no ref names them yet. Raises RevisionNotFound
    if no checkpoint of the session holds the message.
    """
    tip = store.tip(session)
    history = list(store.history(tip)) if tip else []
    holder, offset = _holder(store, history, message_id)
    earlier = (store.read(s.commit) for s in history if s.id.number < holder.id.number)
    files = next((c for c in earlier if _is_before(store, c, holder, offset)), None)
    rewound = Rewound(_cut(store, holder, offset), holder.agent, message_id)
    return files or store.read(history[-1].commit), rewound


def _holder(store: Store, history: list[Summary], message_id: str) -> tuple[Checkpoint, int]:
    """The newest checkpoint whose conversation has the message, and the byte at which it begins."""
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
        f"no checkpoint of this session holds a user message {message_id}",
        hint="gitcp show --conversation",
    )


def _is_before(store: Store, checkpoint: Checkpoint, holder: Checkpoint, offset: int) -> bool:
    """Whether a checkpoint's conversation is a beginning of what the holder's says before the
    offset.

    Its length alone does not tell: after a restore a session goes on along another line.
    """
    streams = checkpoint.conversation.streams if checkpoint.conversation else ()
    main = next((stream for stream in streams if stream.name == MAIN), None)
    if main is None:
        return True
    if main.bytes > offset:
        return False
    from hashlib import sha256  # three milliseconds

    digest = sha256()
    for chunk in _beginning(store, holder, main.bytes):
        digest.update(chunk)
    return digest.hexdigest() == main.sha256


def _beginning(store: Store, holder: Checkpoint, size: int) -> Iterator[bytes]:
    """The first bytes of a checkpoint's conversation."""
    for chunk in segments.content(store.objects, stored(store, holder.conversation, MAIN)):
        if size <= 0:
            return
        yield chunk[:size]
        size -= len(chunk)


def _cut(store: Store, holder: Checkpoint, offset: int) -> Conversation:
    """The holder's conversation with its main stream up to the offset; the other streams stay as
    they are.
    """
    assert holder.conversation is not None
    whole = holder.conversation
    main = segments.shorten(store.objects, stored(store, whole, MAIN), offset)
    names = [stream.name.encode() for stream in whole.streams]
    entries = {
        name: entry for name in names if (entry := trees.lookup(store.objects, whole.tree, name))
    }
    entries[MAIN.encode()] = Entry(TREE, main.tree)
    digest = adapters.for_format(whole.format).digest(Digest(), lines(store, main.segments))
    tree = trees.build(store.objects, trees.nest(entries))
    store.objects.flush(held=True)
    return Conversation(
        format=whole.format,
        tree=tree,
        streams=tuple(
            replace(s, bytes=main.bytes, sha256=main.sha256, torn=0) if s.name == MAIN else s
            for s in whole.streams
        ),
        digest=replace(digest, title=whole.digest.title),
        directory=whole.directory,
        worktree=whole.worktree,
    )
