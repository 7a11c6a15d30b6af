"""A copy of checkpoints without their secrets: for what leaves. Ids stay, and the checkpoints here stay as they are.

Files, segments, metadata and messages are written anew where they hold a secret; what holds none is the same object as
before. A graph's state that holds one is left out. A name of a path cannot be written anew: a secret in one stays, and
the scan of the copy finds it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator

from gitcp import readme, wire
from gitcp.conversation import segments
from gitcp.git import trees
from gitcp.git.trees import TreeEntry
from gitcp.model import GITLINK, TREE, Checkpoint, Conversation, Entry, IndexEntry, Oid, Snapshot, Source, State, Stream
from gitcp.ops import secrets
from gitcp.ops.conversation import stored
from gitcp.store import CONVERSATION, STATE, STEPS, Store
from gitcp.value import replace


def copies(store: Store, commits: Iterable[Oid], allowed: Collection[str]) -> dict[Oid, Oid]:
    """Redacted copies of a chain's checkpoints, given oldest first: the commit of each, by its own.

    Those before the first secret are themselves. Writes objects, and no ref. Raises StoreDamaged.
    """
    run = _Copy(store, allowed)
    made: dict[Oid, Oid] = {}
    last: Checkpoint | None = None
    for commit in commits:
        checkpoint = store.read(commit)
        last = run.checkpoint(checkpoint, last)
        made[commit] = last.commit
    return made


class _Copy:
    """One run: each tree and blob is looked at once."""

    def __init__(self, store: Store, allowed: Collection[str]) -> None:
        self.store = store
        self.allowed = allowed
        self.known: dict[Oid, Oid] = {}

    def checkpoint(self, checkpoint: Checkpoint, last: Checkpoint | None) -> Checkpoint:
        """A copy of a checkpoint on top of the copy of the one before it."""
        conversation = checkpoint.conversation and self._conversation(checkpoint.conversation, last)
        draft = replace(
            checkpoint,
            snapshot=self._snapshot(checkpoint.snapshot),
            conversation=conversation,
            steps=checkpoint.steps and self._tree(checkpoint.steps),
            state=checkpoint.state and self._state(checkpoint.state),
        )
        text = wire.encode_checkpoint(draft)
        clean = self._redacted(text)
        message = self.store.objects.read_commit(checkpoint.commit)
        same = draft == checkpoint and clean == text and self._redacted(message) == message
        if same and (last.commit if last else None) == checkpoint.parent:
            return checkpoint
        draft = self._decoded(clean, draft)
        changes = tuple(trees.diff(self.store.objects, last.snapshot.tree if last else None, draft.snapshot.tree))
        return self.store.commit(replace(draft, parent=last.commit if last else None), readme.render(draft, changes))

    def _decoded(self, text: bytes, draft: Checkpoint) -> Checkpoint:
        return wire.decode_checkpoint(
            text,
            commit=draft.commit,
            root=draft.root,
            parent=draft.parent,
            tree=draft.snapshot.tree,
            held={name: oid for name, oid in self._held(draft) if oid is not None},
        )

    def _held(self, draft: Checkpoint) -> Iterator[tuple[bytes, Oid | None]]:
        yield CONVERSATION, draft.conversation.tree if draft.conversation else None
        yield STEPS, draft.steps
        yield STATE, draft.state.tree if draft.state else None

    def _state(self, state: State) -> State | None:
        """The state as it is; with a secret in it it goes, since nothing can go on from half of one."""
        walked = trees.walk(self.store.objects, state.tree)
        data = b"".join(self.store.objects.read_blob(entry.oid) for _, entry in walked)
        return state if self._redacted(data) == data else None

    def _redacted(self, data: bytes) -> bytes:
        return secrets.redacted(data, self.allowed)

    def _snapshot(self, snapshot: Snapshot) -> Snapshot:
        return replace(
            snapshot,
            tree=self._tree(snapshot.tree),
            staged=tuple(map(self._index_entry, snapshot.staged)),
            conflicts=tuple(map(self._index_entry, snapshot.conflicts)),
        )

    def _index_entry(self, entry: IndexEntry) -> IndexEntry:
        held = entry.mode != GITLINK and not entry.intent_to_add
        return replace(entry, oid=self._blob(entry.oid)) if held else entry

    def _tree(self, oid: Oid) -> Oid:
        if oid not in self.known:
            entries = self.store.objects.read_tree(oid)
            redacted = [TreeEntry(e.name, e.mode, self._entry(e)) for e in entries]
            self.known[oid] = oid if redacted == entries else self.store.objects.write_tree(redacted)
        return self.known[oid]

    def _entry(self, entry: TreeEntry) -> Oid:
        if entry.mode == GITLINK:
            return entry.oid
        return self._tree(entry.oid) if entry.mode == TREE else self._blob(entry.oid)

    def _blob(self, oid: Oid) -> Oid:
        if oid not in self.known:
            data = self.store.objects.read_blob(oid)
            clean = self._redacted(data)
            self.known[oid] = oid if clean == data else self.store.objects.write_blob(clean)
        return self.known[oid]

    def _conversation(self, conversation: Conversation, last: Checkpoint | None) -> Conversation:
        before = last.conversation if last else None
        made = [self._stream(conversation, stream, before) for stream in conversation.streams]
        nested = {_path(stream): Entry(TREE, tree) for stream, tree in made}
        tree = trees.build(self.store.objects, trees.nest(nested))
        return replace(conversation, tree=tree, streams=tuple(stream for stream, _ in made))

    def _stream(self, conversation: Conversation, stream: Stream, before: Conversation | None) -> tuple[Stream, Oid]:
        """A stream, redacted as one, since a secret may lie across two segments, and cut again."""
        data = b"".join(segments.content(self.store.objects, stored(self.store, conversation, stream.name)))
        clean = self._redacted(data)
        entry = trees.lookup(self.store.objects, conversation.tree, _path(stream))
        if clean == data and entry is not None:
            return stream, entry.oid
        source = Source(stream.name, data=clean)
        cut = segments.cut(self.store.objects, source, stored(self.store, before, stream.name))
        return replace(stream, bytes=cut.bytes, sha256=cut.sha256), cut.tree


def _path(stream: Stream) -> bytes:
    return stream.name.encode("utf-8", "surrogateescape")
