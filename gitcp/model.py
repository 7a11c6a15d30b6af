"""The values that travel on the road: frozen, equal by content, ignorant of storage.

Paths inside a working tree are `bytes`, relative to its root, joined by "/", as git stores them.
Oids are 40 hex digits. Times are aware `datetime`s. Sizes are bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from enum import StrEnum
from pathlib import Path
from typing import Any, NamedTuple, NewType

from gitcp.value import EMPTY, Value

Oid = NewType("Oid", str)

FILE = 0o100644
EXECUTABLE = 0o100755
SYMLINK = 0o120000
GITLINK = 0o160000
TREE = 0o040000

RESERVED = b".gitcp"
"""The one name at the root of a working tree that is gitcp's own: never captured, never restored.
"""


class CheckpointId(NamedTuple):
    """A checkpoint's stable name: it survives pruning and redaction, which change commit oids."""

    session: str
    number: int

    def __str__(self) -> str:
        return f"{self.session}@{self.number}"


class Span(NamedTuple):
    """The checkpoints after one, up to another, as `A..B` says it."""

    after: CheckpointId
    last: CheckpointId

    def __str__(self) -> str:
        return f"{self.after}..{self.last}"

    @classmethod
    def parse(cls, text: str | None) -> Span | None:
        """The inverse of `str`, None for None. Raises ValueError."""
        if text is None:
            return None
        ids = (end.rpartition("@") for end in text.split("..", 1))
        return cls(*(CheckpointId(session, int(number)) for session, _, number in ids))


class Host(Value):
    """What surrounds a command: its environment, its home and its clock. The library reads none of
    them itself.
    """

    env: Mapping[str, str]
    home: Path
    now: Callable[[], datetime]


class Trigger(StrEnum):
    """Why a checkpoint was taken."""

    MANUAL = "manual"
    PROMPT = "prompt"
    TOOLS = "tools"
    TURN = "turn"
    INTERVAL = "interval"
    COMPACTION = "compaction"
    SESSION_END = "session-end"
    BEFORE_RISKY_CHANGE = "before-risky-change"
    BEFORE_REFACTOR = "before-refactor"
    AFTER_BUG_FOUND = "after-bug-found"
    ON_TEST_FAILURE = "on-test-failure"
    BEFORE_RESTORE = "before-restore"
    RESTORE = "restore"


class Entry(NamedTuple):
    """One entry of a tree: what git stores for a path."""

    mode: int
    oid: Oid


# ---------------------------------------------------------------- the files half


class SkipReason(StrEnum):
    """Why a path is not in the snapshot."""

    TOO_LARGE = "too-large"
    TOO_MANY = "too-many"
    UNREADABLE = "unreadable"
    UNSTABLE = "unstable"
    SPECIAL = "special"
    NESTED_REPOSITORY = "nested-repository"
    RESERVED = "reserved"
    BAD_NAME = "bad-name"
    NOT_HELD = "not-held"
    PURGED = "purged"


class Skip(Value):
    """A path left out of a snapshot. For a directory, everything below it was left out."""

    path: bytes
    reason: SkipReason
    detail: str = ""


class Conversion(Value):
    """How the bytes of a file follow from its blob: what git's checkout would do, made explicit.

    `eol` is "crlf" or "". `ident` says that `$Id$` is expanded. `encoding` is the working-tree
    encoding or "". `lfs` says that the blob is an LFS pointer and the bytes lie in the repository's
    LFS store.
    """

    path: bytes
    eol: str = ""
    ident: bool = False
    encoding: str = ""
    lfs: bool = False


class Submodule(Value):
    """A gitlink: the commit the working tree of the submodule is at, and whether it had changes of
    its own.
    """

    path: bytes
    commit: Oid


class NestedRepository(Value):
    """A repository inside the working tree that is not a submodule. Recorded, never entered."""

    path: bytes
    head: Oid | None


class IndexEntry(Value):
    """One entry of git's index. `stage` is 0, or 1 to 3 in a conflict."""

    path: bytes
    mode: int
    oid: Oid
    stage: int = 0
    intent_to_add: bool = False
    skip_worktree: bool = False
    assume_unchanged: bool = False


class Base(Value):
    """Where HEAD stood: its commit (None when unborn), its branch (None when detached), an
    operation in progress.
    """

    commit: Oid | None
    branch: str | None
    operation: str | None = None


class Snapshot(Value):
    """The files half: a tree, and what a tree cannot say.

    `tree` holds every captured path. `raw` are paths stored as they lie on disk because git's own
    checkout would not give the same bytes back. `converted` are paths whose bytes differ from their
    blob in a way that is written down. `modes` are permission bits that git does not keep. `absent`
    are tracked paths that sparse checkout left out of the working tree; the tree holds their index
    blob. `staged` are index entries that differ from the files (or whose file is gone), `untracked`
    the captured paths that the index does not have (a directory ends in "/" and stands for all
    below it), `conflicts` the unmerged entries.
    """

    tree: Oid
    base: Base
    total: int
    skipped: tuple[Skip, ...] = ()
    raw: tuple[bytes, ...] = ()
    converted: tuple[Conversion, ...] = ()
    empty_directories: tuple[bytes, ...] = ()
    modes: Mapping[bytes, int] = EMPTY
    submodules: tuple[Submodule, ...] = ()
    nested: tuple[NestedRepository, ...] = ()
    absent: tuple[bytes, ...] = ()
    staged: tuple[IndexEntry, ...] = ()
    untracked: tuple[bytes, ...] = ()
    conflicts: tuple[IndexEntry, ...] = ()


# ---------------------------------------------------------------- the conversation half


class Agent(Value):
    """Which agent, as far as its conversation says."""

    name: str
    session_id: str | None = None
    version: str | None = None
    model: str | None = None


class Source(Value):
    """One stream of a conversation to be read: a file, or bytes that were given.

    `name` is the stream ("main", "agents/<id>"). `live` says that the agent may be writing: a torn
    last line is then left out. `place` is where the agent keeps it, relative to the directory of
    the main stream, for putting it back. `end` is the size that the stream has, however long the
    file is when it is read. With neither file nor bytes it stands as the checkpoint before has it.
    """

    name: str
    path: Path | None = None
    data: bytes | None = None
    live: bool = False
    place: str = ""
    end: int | None = None

    @property
    def is_standing(self) -> bool:
        return self.path is None and self.data is None


class Capture(Value):
    """The conversation half as an adapter found it: whose it is, in which format, and its streams.

    `directory` is the working directory that the agent keeps the session under, None where that is
    not known.
    """

    agent: Agent | None
    format: str
    sources: tuple[Source, ...]
    directory: Path | None = None


class LastMessage(Value):
    """The last message of a conversation; `text` is cut to what a listing shows."""

    role: str
    text: str
    id: str | None = None


class Digest(Value):
    """What a listing says about a conversation without reading it again."""

    messages: int = 0
    last_message: LastMessage | None = None
    last_prompt: str | None = None
    title: str | None = None
    version: str | None = None
    model: str | None = None


class Stream(Value):
    """One stored stream. `torn` are the bytes of an unfinished last line that were left out."""

    name: str
    bytes: int
    sha256: str
    place: str = ""
    torn: int = 0


class Conversation(Value):
    """The conversation half as stored. `tree` is the git tree of all its streams.

    `directory` is where in the working tree the agent ran (b"": at its root), None where that is
    not known; `worktree` then is git's name for that working tree, None for the main one.
    """

    format: str
    tree: Oid
    streams: tuple[Stream, ...]
    digest: Digest
    directory: bytes | None = None
    worktree: str | None = None

    @property
    def bytes(self) -> int:
        return sum(stream.bytes for stream in self.streams)


# ---------------------------------------------------------------- both halves, stored


class Handoff(Value):
    """What the next reader needs: the task, what was decided, what was tried and failed, what comes
    next.
    """

    task: str | None = None
    decisions: tuple[str, ...] = ()
    failed: tuple[str, ...] = ()
    next: tuple[str, ...] = ()
    active: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.task or self.decisions or self.failed or self.next or self.active)


class Note(Value):
    """What a person or an agent says about a checkpoint."""

    label: str | None = None
    phase: str | None = None
    objective: str | None = None
    facts: Mapping[str, str] = EMPTY
    handoff: Handoff = Handoff()
    position: Mapping[str, str] = EMPTY
    compensations: tuple[str, ...] = ()


class State(Value):
    """What a framework keeps with a checkpoint: a tree of its own, and the words by which it finds
    it again.
    """

    tree: Oid
    key: str


class Run(Value):
    """What was run between a checkpoint and the one before it. `code` is None where its end was not
    seen.

    `command` is empty for a part of a program (a transaction); `output` is the end of what was
    said.
    """

    command: tuple[str, ...]
    code: int | None
    milliseconds: int
    output: str = ""


class Checkpoint(Value):
    """One recovery point. `commit`, `root` and `parent` say where it is stored; the rest is what it
    says.

    `root` is the commit's tree: the files plus `.gitcp`. `steps` is the tree of recorded results of
    steps, `state` what a framework keeps. `compensated` says how the compensations of this session
    that were run ended, by their key (gitcp.running.compensate). `extra` are metadata fields this
    version does not know.
    """

    id: CheckpointId
    commit: Oid
    root: Oid
    parent: Oid | None
    created: datetime
    trigger: Trigger
    agent: Agent | None
    note: Note
    snapshot: Snapshot
    conversation: Conversation | None
    changed: int
    restored_from: CheckpointId | None = None
    forked_from: CheckpointId | None = None
    run: Run | None = None
    steps: Oid | None = None
    state: State | None = None
    compensated: Mapping[str, str] = EMPTY
    reverted: Span | None = None
    extra: Mapping[str, Any] = EMPTY


class Kind(StrEnum):
    """What happened to a path between two trees."""

    ADDED = "added"
    MODIFIED = "modified"
    DELETED = "deleted"
    MODE = "mode"
    TYPE = "type"


class FileChange(Value):
    """One path that differs: what it was and what it is, None where it is not there."""

    path: bytes
    old: Entry | None
    new: Entry | None

    @property
    def kind(self) -> Kind:
        if self.old is None:
            return Kind.ADDED
        if self.new is None:
            return Kind.DELETED
        if self.old.mode >> 12 != self.new.mode >> 12:
            return Kind.TYPE
        return Kind.MODE if self.old.oid == self.new.oid else Kind.MODIFIED
