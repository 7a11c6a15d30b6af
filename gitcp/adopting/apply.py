"""Store conversations: one session for each agent's session, in batches with one disk sync each.

A batch is written as one pack, and then its refs move. A crash loses at most the batch, which the
next run stores again; no ref names an object that is not on disk.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple

from gitcp import clock, progress, readme
from gitcp.adapters.base import Origin
from gitcp.adopting import personal
from gitcp.adopting.holdings import Holdings
from gitcp.adopting.memory import AdoptedBefore
from gitcp.adopting.ownership import OwnedDirectories, Tree
from gitcp.adopting.plan import AdoptPlan, FoundTranscript, Share
from gitcp.conversation import segments
from gitcp.errors import ConversationUnreadable, StoreBusy, StoreDamaged
from gitcp.git import refs
from gitcp.git.repo import Repository
from gitcp.model import (
    MAIN,
    Agent,
    Base,
    Checkpoint,
    CheckpointId,
    Conversation,
    Host,
    Note,
    Oid,
    Skip,
    SkipReason,
    Snapshot,
    Trigger,
)
from gitcp.saving import conversation
from gitcp.saving import session as session_op
from gitcp.saving.save import UNKNOWN
from gitcp.state import numbers, oplog
from gitcp.store import Store
from gitcp.value import replace

BATCH = 48 << 20
"""Bytes of new objects after which a batch ends: another save waits for one batch at most."""

ADOPTED = "adopted"


class Adopted(NamedTuple):
    """What became of one conversation: its checkpoint, None if there was nothing new; `failed` is
    why it could not be stored, "" if it was.
    """

    item: FoundTranscript
    store: Path
    checkpoint: Checkpoint | None
    failed: str = ""


class BatchStore(Store):
    """A store whose checkpoints become durable, and its refs move, batch by batch."""

    def _make_durable(self) -> None:
        pass  # `land` does it

    def land(self, checkpoints: list[Checkpoint]) -> dict[CheckpointId, str]:
        """Make checkpoints durable and move their refs. Return why some could not: another process
        moved the session, or the ref cannot be written.
        """
        self.writer.flush(keep=True)
        failures = {each.id: reason for each in checkpoints if (reason := self._move(each))}
        landed = [each.id.session for each in checkpoints if each.id not in failures]
        self.repo.refs.sync([refs.SESSIONS + session for session in landed])
        self.writer.release()
        return failures

    def _move(self, checkpoint: Checkpoint) -> str:
        """Move the ref of a session to its checkpoint. Return why it could not, "" if it did."""
        session = checkpoint.id.session
        update = refs.Update(refs.SESSIONS + session, checkpoint.commit, checkpoint.parent)
        try:
            has_moved = self.repo.refs.update_all([update], lambda: None)  # `land` syncs it
        except StoreBusy as error:
            return str(error)
        return "" if has_moved else f"session {session} moved in the meantime"


def apply(host: Host, plan: AdoptPlan, memory: AdoptedBefore) -> list[Adopted]:
    """Store the conversations of a plan. Return what became of each that was not known to be
    stored.

    Writes objects, refs below `refs/gitcp/sessions/`, the operation log, the memory, and the
    personal store.
    """
    total = sum(item.listed.bytes for item in plan.unsure)
    results: list[Adopted] = []
    with progress.task("storing", progress.BYTES, total) as advance:
        for share in plan.shares:
            items = [item for item in share.items if item.is_unsure]
            if items:
                stored = _Share(host, share, memory).store(items, advance)
                results += stored
                _log(share.store or personal.make(host), stored)
    return results


def _log(store: Store, stored: list[Adopted]) -> None:
    made = [each.checkpoint.id for each in stored if each.checkpoint]
    if made:
        noun = "conversation" if len(made) == 1 else "conversations"
        oplog.record(store.repo, "adopt", f"{len(made):,} {noun}", checkpoints=tuple(made[-1:]))


class _Share:
    """Stores the conversations of one store."""

    def __init__(self, host: Host, share: Share, memory: AdoptedBefore) -> None:
        plain = share.store or personal.make(host)
        self._store = BatchStore(plain.repo)
        self._held = Holdings(self._store)
        self._tags = self._store.tag_names()
        self._memory = memory
        self._path = share.path
        self._numbers: dict[str, int] | None = None
        self._directories = OwnedDirectories(host)
        self._waiting: list[tuple[FoundTranscript, Checkpoint]] = []
        self._results: list[Adopted] = []

    def store(self, items: Iterable[FoundTranscript], advance: progress.Advance) -> list[Adopted]:
        """Store conversations, oldest first, and return what became of each."""
        remaining = iter(items)
        item = next(remaining, None)
        while item is not None:
            with self._store.lock():
                try:
                    item = self._fill(item, remaining, advance)
                    self._land()
                except BaseException:
                    self._store.writer.discard()
                    raise
            self._memory.save()
        return self._results

    def _fill(
        self,
        item: FoundTranscript | None,
        remaining: Iterator[FoundTranscript],
        advance: progress.Advance,
    ) -> FoundTranscript | None:
        """Write conversations until the batch is full. Return the first one that is left."""
        start, names = self._store.writer.new_bytes, set[tuple[str, str]]()
        while item is not None and self._store.writer.new_bytes - start < BATCH:
            name = (item.listed.found.agent, item.listed.found.session_id)
            if name in names:  # another copy of it goes on top
                return item
            names.add(name)
            self._write(item)
            advance(item.listed.bytes)
            item = next(remaining, None)
        return item

    def _write(self, item: FoundTranscript) -> None:
        try:
            checkpoint = self._checkpoint(item)
        except (ConversationUnreadable, StoreDamaged) as error:
            self._results.append(Adopted(item, self._path, None, str(error)))
            return
        if checkpoint is None:
            holding = self._held.of(item.listed.found.agent, item.listed.found.session_id)
            session = holding.session if holding else ""
            self._memory.store(item.listed, self._store.repo.common_dir, session)
            self._results.append(Adopted(item, self._path, None))
        else:
            self._held.sessions[checkpoint.id.session] = checkpoint.commit
            self._waiting.append((item, checkpoint))

    def _land(self) -> None:
        failures = self._store.land([checkpoint for _, checkpoint in self._waiting])
        for item, checkpoint in self._waiting:
            reason = failures.get(checkpoint.id)
            if reason is None:
                self._held.add(checkpoint.id.session, checkpoint.commit)
                session = checkpoint.id.session
                self._memory.store(item.listed, self._store.repo.common_dir, session)
                self._results.append(Adopted(item, self._path, checkpoint))
            else:
                self._results.append(Adopted(item, self._path, None, reason))
        self._waiting.clear()

    # ------------------------------------------------------------ one conversation

    def _checkpoint(self, item: FoundTranscript) -> Checkpoint | None:
        """Write the checkpoint of a conversation; None if it is stored."""
        transcript = item.listed.found
        holding = self._held.of(transcript.agent, transcript.session_id)
        parent = self._store.read(holding.tip) if holding else None
        capture = item.listed.capture()
        stored, agent = conversation.store_capture(self._store, capture, parent)
        if stored is None or self._has(parent, stored):
            return None
        tree = self._directories.of(item.origin)
        if tree is not None and tree.common_dir == str(self._store.repo.common_dir):
            stored = _located(stored, tree, capture.directory)
        draft = self._draft(item, parent, stored, agent, tree)
        return self._store.commit(draft, readme.render(draft, ()), parent)

    def _has(self, parent: Checkpoint | None, stored: Conversation) -> bool:
        """Return whether a session has this conversation: as its last one, or within it, or as an
        earlier one.
        """
        if parent is None or parent.conversation is None:
            return False
        if parent.conversation.tree == stored.tree:
            return True
        main = _main(stored)
        if _is_beginning(self._store, main, parent.conversation):
            return {s.name for s in stored.streams} <= {s.name for s in parent.conversation.streams}
        if parent.conversation.bytes and main and main[0] > (_main(parent.conversation) or (0,))[0]:
            return False
        earlier = (self._store.read(s.commit) for s in self._store.history(parent.commit))
        return any(_main(e.conversation) == main for e in earlier if e.conversation)

    def _draft(
        self,
        item: FoundTranscript,
        parent: Checkpoint | None,
        stored: Conversation,
        agent: Agent | None,
        tree: Tree | None,
    ) -> Checkpoint:
        transcript = item.listed.found
        time = clock.local(transcript.modified)
        if parent:
            name = parent.id.session
            number = numbers.following(self._store, name, parent)
        else:
            name = session_op.name_among({*self._held.sessions, *self._tags}, transcript.session_id)
            number = self._first_number(name)
        own = tree if tree and tree.common_dir == str(self._store.repo.common_dir) else None
        base = base_of(self._store, own, item.origin, transcript.modified)
        return Checkpoint(
            id=CheckpointId(name, number),
            commit=UNKNOWN,
            root=UNKNOWN,
            parent=parent.commit if parent else None,
            created=max(time, parent.created) if parent else time,
            trigger=Trigger.SESSION_END,
            agent=agent,
            note=replace(parent.note, label=None, compensations=()) if parent else Note(),
            snapshot=self._snapshot(parent, base),
            conversation=stored,
            changed=0,
            steps=parent.steps if parent else None,
            compensated=parent.compensated if parent else {},
        )

    def _snapshot(self, parent: Checkpoint | None, base: Base) -> Snapshot:
        """Return a snapshot that claims no files. On top of another checkpoint it has that one's
        tree, so that nothing seems to have changed.
        """
        skip = Skip(b".", SkipReason.NOT_HELD, ADOPTED)
        if parent is None:
            return Snapshot(self._store.repo.object_format.empty_tree, base, 0, (skip,))
        return parent.snapshot.carried(base, skip)

    def _first_number(self, name: str) -> int:
        """Return the number after the highest one that any ref has for this name."""
        if self._numbers is None:
            self._numbers = numbers.highest(self._store)
        return self._numbers.get(name, 0) + 1


def _located(stored: Conversation, tree: Tree, directory: Path | None) -> Conversation:
    """Return the conversation with the directory in the working tree where it ran."""
    relative = conversation.relative_directory(Path(tree.root), directory) if directory else None
    name = None if tree.git_dir == tree.common_dir else Path(tree.git_dir).name
    return replace(stored, directory=relative, worktree=name)


def _main(stored: Conversation) -> tuple[int, str] | None:
    """Return size and checksum of the main stream."""
    return next(((s.bytes, s.sha256) for s in stored.streams if s.name == MAIN), None)


def _is_beginning(store: Store, main: tuple[int, str] | None, whole: Conversation) -> bool:
    """Return whether a main stream of this size and checksum is how that of `whole` begins."""
    longer = _main(whole)
    if main is None or longer is None or longer[0] < main[0]:
        return False
    digest, left = sha256(), main[0]
    for chunk in segments.content(store.reader, conversation.stored(store, whole, MAIN)):
        digest.update(chunk[:left])
        left -= len(chunk[:left])
        if not left:
            break
    return digest.hexdigest() == main[1]


def base_of(store: Store, tree: Tree | None, origin: Origin, time: float) -> Base:
    """Return the commit and branch of a conversation that ended at `time`, in seconds since 1970.

    `tree` is the working tree where it ran, None if it was removed: then the log of the branch is
    asked. The commit that the transcript names is older, and only counts where no log tells. The
    commit is None if none of them is in the store. Reads files and objects only.
    """
    branch = origin.branches[-1] if origin.branches else None
    logs = []
    if tree:
        there = Repository.at(Path(tree.root), Path(tree.git_dir), store.repo.host)
        logs.append(there.refs.log("HEAD"))
    if branch and ".." not in branch:
        logs.append(store.repo.refs.log(f"refs/heads/{branch}"))
    logged = filter(None, (_commit_at(log, time) for log in logs))
    named = (Oid(oid) for oid in reversed(origin.commits) if refs.HEX.match(oid))
    commit = next((oid for oid in (*logged, *named) if store.reader.exists(oid)), None)
    return Base(commit, branch)


def _commit_at(log: Iterable[tuple[Oid, int]], time: float) -> Oid | None:
    """Return the last value in a reflog up to a time, None if it begins later."""
    last = None
    for oid, moved in log:
        if moved <= time:
            last = oid
    return last
