"""The values that all layers share: immutable, compared by content, independent of storage.

Paths in a working tree are `bytes`, relative to its root, separated by "/", as git stores them.
Oids are 40 hex digits, or 64 in a SHA-256 repository. Times are aware `datetime`s. Sizes are bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from enum import StrEnum
from pathlib import Path
from typing import Any, NamedTuple, NewType

from gitcp.value import EMPTY, Value, replace

Oid = NewType("Oid", str)

FILE = 0o100644
EXECUTABLE = 0o100755
SYMLINK = 0o120000
GITLINK = 0o160000
TREE = 0o040000

RESERVED = b".gitcp"
"""gitcp's own name at the root of a working tree: never captured or restored."""


class CheckpointId(NamedTuple):
    """A checkpoint's stable name. Unlike the commit, it survives pruning and redaction."""

    session: str
    number: int

    def __str__(self) -> str:
        return f"{self.session}@{self.number}"


class StepName(NamedTuple):
    """The name and the key of a step: together they identify it in a session."""

    name: str = ""
    key: str = ""

    def __str__(self) -> str:
        return f"{self.name} ({self.key})" if self.key else self.name


class Span(NamedTuple):
    """The checkpoints after one, up to another: `A..B`."""

    after: CheckpointId
    last: CheckpointId

    def __str__(self) -> str:
        return f"{self.after}..{self.last}"

    @classmethod
    def parse(cls, text: str | None) -> Span | None:
        """Parse `str(span)`; None for None. Raises ValueError."""
        if text is None:
            return None
        ids = (end.rpartition("@") for end in text.split("..", 1))
        return cls(*(CheckpointId(session, int(number)) for session, _, number in ids))


class Host(Value):
    """The environment, home directory and clock. The library does not read them itself."""

    env: Mapping[str, str]
    home: Path
    now: Callable[[], datetime]


class Trigger(StrEnum):
    """Why a checkpoint was made."""

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
    """An entry of a git tree."""

    mode: int
    oid: Oid


# ---------------------------------------------------------------- files


def path_text(path: bytes) -> str:
    """Return a path as Python's own functions take it: bytes that are not UTF-8 are escaped."""
    return path.decode("utf-8", "surrogateescape")


class AtPath(Value):
    """A value about one path of the working tree."""

    path: bytes

    @property
    def path_text(self) -> str:
        return path_text(self.path)


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


class Skip(AtPath):
    """A path that is not in a snapshot, including everything below it."""

    reason: SkipReason
    detail: str = ""


class Unlocked(AtPath):
    """An SQLite database that was captured without its locks, so perhaps in the middle of a
    transaction: `holder` is the process that kept them.
    """

    holder: str = ""


class Conversion(AtPath):
    """How a file's bytes are derived from its blob, as git's checkout would do it.

    `eol` is "crlf" or "". `ident`: `$Id$` is expanded. `encoding` is the working-tree encoding or
    "". `lfs`: the blob is an LFS pointer to the bytes in the repository's LFS store. `segments`: it
    is a pointer to their segments (gitcp.git.segmented).
    """

    eol: str = ""
    ident: bool = False
    encoding: str = ""
    lfs: bool = False
    segments: bool = False


class Submodule(AtPath):
    """A gitlink: the commit that the submodule has checked out."""

    commit: Oid


class NestedRepository(AtPath):
    """A repository inside the working tree that is not a submodule. Recorded, never entered."""

    head: Oid | None


class IndexEntry(AtPath):
    """An entry of git's index. `stage` is 0, or 1 to 3 in a conflict."""

    mode: int
    oid: Oid
    stage: int = 0
    intent_to_add: bool = False
    skip_worktree: bool = False
    assume_unchanged: bool = False


class Fault(NamedTuple):
    """Something of git's that is broken, and a command to run next. `is_loss`: something of the
    repository's state is unknown for it, and not in checkpoints made meanwhile.
    """

    what: str
    hint: str = ""
    is_loss: bool = False

    def __str__(self) -> str:
        return f"{self.what}; {self.hint}" if self.hint else self.what


class Base(Value):
    """The state of HEAD: its commit (None if unborn), its branch (None if
    detached), and an operation in progress. `unknown` is why the commit could not be read.
    """

    commit: Oid | None
    branch: str | None
    operation: str | None = None
    unknown: str | None = None


class Snapshot(Value):
    """The files of a checkpoint: a tree, and what a tree cannot represent.

    `tree` has every captured path. `raw` are paths stored verbatim because git's checkout would not
    reproduce their bytes. `converted` are paths whose bytes differ from their blob in a recorded
    way. `modes` are permission bits that git does not store. `absent` are tracked paths excluded by
    sparse checkout, with their index blobs in the tree (a directory ends in "/"). `staged` are
    index entries that differ from the files (or whose file is missing), `untracked` the captured
    paths that are not in the index (a directory ends in "/" and includes all below it), `conflicts`
    the unmerged entries. `outputs` are paths that are captured, ignored or too large as they may
    be, since a program named them. `unlocked` are databases that were captured without their locks.
    """

    tree: Oid
    base: Base
    total: int = 0
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
    outputs: tuple[bytes, ...] = ()
    unlocked: tuple[Unlocked, ...] = ()

    @property
    def has_files(self) -> bool:
        """Whether the files were captured at all: not if only a conversation or a state was."""
        return not any(skip.reason is SkipReason.NOT_HELD for skip in self.skipped)

    def carried(self, base: Base, skip: Skip) -> Snapshot:
        """Return the snapshot of a later checkpoint that claims no files, as `skip` says. It has
        this one's tree, so that nothing seems to have changed.
        """
        others = (each for each in self.skipped if each.reason is not SkipReason.NOT_HELD)
        return replace(self, base=base, skipped=(skip, *others))


# ---------------------------------------------------------------- conversation


class Agent(Value):
    """The agent, as named in its conversation."""

    name: str
    session_id: str | None = None
    version: str | None = None
    model: str | None = None


class Source(Value):
    """A stream of a conversation to be read: a file, or bytes.

    `name` is the stream ("main", "agents/<id>"). `live` means that the agent may be writing: an
    incomplete last line is left out. `place` is the agent's path for it, relative to the main
    stream's directory. `end` limits the stream to this size in bytes. With neither file nor bytes,
    the stream is unchanged since the previous checkpoint.
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
    """The conversation as an adapter found it: the agent, the format, and the streams.

    `directory` is the working directory of the agent's session, None if unknown.
    """

    agent: Agent | None
    format: str
    sources: tuple[Source, ...]
    directory: Path | None = None


class LastMessage(Value):
    """The last message of a conversation; `text` is truncated."""

    role: str = ""
    text: str = ""
    id: str | None = None


class Digest(Value):
    """What listings show of a conversation, so that it need not be read again. `unknown` are the
    kinds of its records that the adapter does not know, in order of their first, a few of many.
    """

    messages: int = 0
    last_message: LastMessage | None = None
    last_prompt: str | None = None
    title: str | None = None
    version: str | None = None
    model: str | None = None
    unknown: tuple[str, ...] = ()


MAIN = "main"
"""The name of the stream with a conversation's own messages."""


class Stream(Value):
    """A stored stream. `torn` is the length of an incomplete last line that was left out."""

    name: str
    bytes: int
    sha256: str
    place: str = ""
    torn: int = 0


class Conversation(Value):
    """A stored conversation. `tree` is the git tree of its streams.

    `directory` is the agent's directory in the working tree (b"": the root), None if unknown;
    `worktree` is then git's name of the working tree, None for the main one.
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


# ---------------------------------------------------------------- checkpoint


class Handoff(Value):
    """Information for the next reader: the task, decisions, failed attempts, next steps, active
    files.
    """

    task: str | None = None
    decisions: tuple[str, ...] = ()
    failed: tuple[str, ...] = ()
    next: tuple[str, ...] = ()
    active: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.task or self.decisions or self.failed or self.next or self.active)


class Note(Value):
    """What a person or an agent wrote about a checkpoint.

    The values of `position` are JSON. `position_from` is the checkpoint whose files belong to an
    inherited position; None where it was set.
    """

    label: str | None = None
    phase: str | None = None
    objective: str | None = None
    facts: Mapping[str, str] = EMPTY
    handoff: Handoff = Handoff()
    position: Mapping[str, Any] = EMPTY
    compensations: tuple[str, ...] = ()
    position_from: CheckpointId | None = None


class State(Value):
    """A framework's own data in a checkpoint: its tree, and its key."""

    tree: Oid
    key: str


class Memory(Value):
    """The memory that agents keep of a project: what they read again in each of its sessions.

    `agents` are those whose memory was captured. `tree` has a directory with the files of each one
    that has any; None if none has. `skipped` are files that could not be read, or
    are too large, each after its agent's name and a slash; an empty name stands for all that is not
    in the tree.
    """

    agents: tuple[str, ...]
    tree: Oid | None = None
    skipped: tuple[bytes, ...] = ()


class CommandState(Value):
    """What the user's command wrote of a state outside the files, a database for example: its size
    in bytes and its checksum.

    `code` is the command's exit code, None if it did not end by itself, or was not run. `missing`
    is why the content is not stored, "" if it is.
    """

    name: str
    bytes: int = 0
    sha256: str = ""
    milliseconds: int = 0
    code: int | None = None
    missing: str = ""


class States(Value):
    """The states outside the files, by name. `tree` has a directory with the segments of each one
    that is stored; None if none is.
    """

    each: tuple[CommandState, ...]
    tree: Oid | None = None

    @property
    def stored(self) -> tuple[CommandState, ...]:
        """Those with their content."""
        return tuple(state for state in self.each if not state.missing)

    def of(self, name: str) -> CommandState | None:
        """Return the one of this name if it is stored."""
        return next((state for state in self.stored if state.name == name), None)


class Run(Value):
    """What ran between a checkpoint and the previous one. The exit code is None if the exit was not
    observed.

    `command` is empty for a program's transaction; `output` is the end of the output.
    """

    command: tuple[str, ...]
    code: int | None
    milliseconds: int
    output: str = ""


NOBODY = ""
"""In the place of a session's name: a person, or a program that no agent started."""


UNCLAIMED = "unclaimed"


class Claim(NamedTuple):
    """Who changed a path: each of `sessions`, and perhaps those in `possible`: if `sessions` is
    empty, at least one of them.
    """

    sessions: frozenset[str] = frozenset()
    possible: frozenset[str] = frozenset()

    def joined(self, other: Claim) -> Claim:
        """Return who changed a path that was changed twice."""
        sessions = self.sessions | other.sessions
        return Claim(sessions, (self.possible | other.possible) - sessions)

    def __str__(self) -> str:
        """Return it in words: `by 91c0de55`, `by 91c0de55 or 7a20b1c4`, `unclaimed`."""
        if self == (frozenset((NOBODY,)), frozenset()):
            return UNCLAIMED
        sessions, possible = (
            [name or "someone else" for name in sorted(names, key=lambda name: (not name, name))]
            for names in self
        )
        either = " or ".join(possible)
        perhaps = f", perhaps {either}" if sessions and possible else ""
        return f"by {' and '.join(sessions) or either}{perhaps}"


class Authors(Value):
    """Who changed the files since the last checkpoint of the working tree, of any session.

    `previous` is that checkpoint if it is not the parent. `own` is the number of paths that only
    the checkpoint's session changed; `claims` has the others. A path that ends in "/" stands for
    every changed path below it.
    """

    own: int = 0
    claims: Mapping[bytes, Claim] = EMPTY
    previous: CheckpointId | None = None


class Checkpoint(Value):
    """A checkpoint. `commit`, `root` and `parent` are its storage, the rest its content.

    `root` is the commit's tree: the files plus `.gitcp`. `step` is the step that this checkpoint
    records, `steps` the tree of all recorded step results, `state` a framework's data.
    `memory` is None if no agent's was captured, `states` if no command saved one.
    `compensated` has the outcomes of this session's compensations, by key
    (gitcp.running.compensate). `authors` is None if it is not recorded who changed the files.
    `extra` are metadata fields that this version does not know. `tags` are those that it had when
    a program asked for it.
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
    step: StepName | None = None
    steps: Oid | None = None
    state: State | None = None
    memory: Memory | None = None
    states: States | None = None
    compensated: Mapping[str, str] = EMPTY
    reverted: Span | None = None
    authors: Authors | None = None
    extra: Mapping[str, Any] = EMPTY
    tags: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Return the fields that `gitcp show --json` prints, but for `changes` and `memory`."""
        from gitcp import documents  # above this module: pyproject.toml has the exception

        return documents.checkpoint(self, self.tags)


class Kind(StrEnum):
    """How a path differs between two trees."""

    ADDED = "added"
    MODIFIED = "modified"
    DELETED = "deleted"
    MODE = "mode"
    TYPE = "type"


class FileChange(AtPath):
    """A path that differs: its old and new entry, None if it does not exist."""

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

    def to_json(self) -> dict[str, Any]:
        """Return the fields that `gitcp diff --json` prints; `by` is null."""
        from gitcp import documents  # above this module: pyproject.toml has the exception

        return documents.change(self)
