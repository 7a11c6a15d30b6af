"""Checkpoints ⇄ git objects. The only module that knows the layout of a checkpoint's tree.

    <the files>
    .gitcp/checkpoint.json
    .gitcp/README.md
    .gitcp/conversation/<stream>/…
    .gitcp/steps/…                    results of steps (gitcp.state.steps)
    .gitcp/state/…                    a framework's data (gitcp.langgraph)
    .gitcp/memory/<agent>/<path>      the memory that an agent keeps of the project
    .gitcp/states/<name>/…            what the user's command wrote of a state outside the files
    .gitcp/staged/<path>              index entries that differ from the files
    .gitcp/conflicts/<stage>/<path>   unmerged index entries
    .gitcp/outputs/<path>/…           segments of a file that only grows (gitcp.git.segmented)

A session is a ref; each commit of its chain has at most one parent. Objects are written first, the
ref moves last.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from datetime import datetime, timedelta, timezone
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from gitcp import wire
from gitcp.errors import AlreadyExists, DiskFull, GitFailed, Refused, StoreBusy, StoreDamaged
from gitcp.git import locks, refs, segmented, shared, trees
from gitcp.git.fsync import FULL, make_own_directory, open_shared
from gitcp.git.object_format import FULL_NAME
from gitcp.git.objects import Objects
from gitcp.git.repo import Repository
from gitcp.git.trees import PartOfTree, TreeEntry
from gitcp.model import (
    FILE,
    RESERVED,
    TREE,
    Base,
    Checkpoint,
    CheckpointId,
    Entry,
    Note,
    Oid,
    Snapshot,
    Trigger,
)
from gitcp.value import Value, replace

if TYPE_CHECKING:
    from gitcp.git.freshening import Freshener
    from gitcp.git.reader import ObjectReader
    from gitcp.git.write_ahead_log import WriteAheadLog
    from gitcp.git.writer import ObjectWriter

FALLBACK_NAME = "gitcp"
FALLBACK_EMAIL = "gitcp@localhost"
METADATA = b"checkpoint.json"
README = b"README.md"
CONVERSATION = b"conversation"
STEPS = b"steps"
STATE = b"state"
MEMORY = b"memory"
STATES = b"states"
STAGED = b"staged"
CONFLICTS = b"conflicts"
OUTPUTS = b"outputs"
PARTS = (CONVERSATION, STEPS, STATE, MEMORY, STATES)
"""The directories that a checkpoint's values name by their trees."""

_OID = FULL_NAME.encode("ascii")
SEGMENT_PATH = re.compile(rb"(.+)/%s" % segmented.PATH, re.DOTALL)
"""The path of a segment in the tree of all segments: that of its file is group 1."""

SEGMENT = re.compile(
    re.escape(b"/".join((RESERVED, OUTPUTS, b""))) + SEGMENT_PATH.pattern, re.DOTALL
)
"""The same in a checkpoint's tree."""

HEAD = re.compile(rb"tree (%s)\n(?:parent (%s)\n)?author ([^\n]*)" % (_OID, _OID))
OBJECT = re.compile(rb"object (%s)\n" % _OID)
NUMBER = re.compile(r"[1-9][0-9]{0,17}")
TRAILER = re.compile(r"^(Gitcp-[A-Za-z-]+): (.*)$", re.MULTILINE)
NO_LABEL = "(no label)"
BEFORE_PROMPTS = "(before the first prompt)"
"""Subjects of checkpoints that have neither a label nor a prompt."""
GENERATED = (
    ("restored ", "Gitcp-Restored-From"),
    ("forked from ", "Gitcp-Forked-From"),
    ("reverted ", "Gitcp-Reverted"),
    ("step ", "Gitcp-Step"),
    ("position ", "Gitcp-Position"),
)
"""How a generated subject begins that ends with the value of this trailer."""

LISTED = (
    "rev-list",
    "--first-parent",
    "--encoding=UTF-8",
    "--stdin",
    "--format=%H%x00%T%x00%P%x00%aI%x00%B%x01",
)

LOCK = "lock"
QUEUE = "queue"
LOCKS = "locks"
TREE_LOCK = "tree-lock"

READ_DIRECTLY = 64
"""Number of checkpoints that can be read in the time git takes to start. Damage
beyond these does not affect them.
"""

MOST_KEPT = 20_000
"""Summaries that are kept, 20 MB."""


class Summary(Value):
    """A checkpoint as described by its commit alone: enough for listings, without reading blobs."""

    commit: Oid
    root: Oid
    parent: Oid | None
    created: datetime
    subject: str
    trailers: dict[str, str]
    id: CheckpointId

    @property
    def has_segments(self) -> bool:
        """Whether it has files stored as segments: nothing else needs a later format than 1."""
        return self.trailers.get("Gitcp-Format") != "1"

    def to_json(self) -> wire.Json:
        """Return the fields of a row, as commands that list checkpoints print them."""
        from gitcp import documents  # only for programs

        trigger = self.trailers.get("Gitcp-Trigger")
        return documents.encode(documents.Row(self.id, self.created, self.subject, trigger))


class Store:
    """The checkpoints of one repository. `first_numbers` are those of new sessions, as far as they
    were read while the store was locked (gitcp.state.numbers). `summaries` are those that were read
    before, by commit: a program that opens the store again keeps them, and finds a number without
    reading the chain again.
    """

    first_numbers: Mapping[str, int] = {}

    def __init__(self, repo: Repository, summaries: dict[Oid, Summary] | None = None) -> None:
        self.repo = repo
        self.refs = repo.refs
        self.objects = Objects(repo)
        self._summaries = {} if summaries is None else summaries
        self._files_trees: dict[Oid, Oid] = {}
        if (log := self.pending_log()) is not None and log.has_earlier():
            with suppress(Refused), self.lock():  # a read-only user continues without
                pass

    def base(self) -> Base:
        """Return HEAD's commit and branch, and the operation in progress."""
        return self.repo.head()

    def pending_log(self) -> WriteAheadLog | None:
        """Return the write-ahead log of a framework, None if there is none."""
        if os.path.exists(f"{self.repo.common_dir}/gitcp/ahead"):
            from gitcp.git.write_ahead_log import WriteAheadLog  # rarely needed

            return WriteAheadLog(self.repo)
        return None

    @property
    def reader(self) -> ObjectReader:
        """Return what reads objects."""
        return self.objects.reader

    @property
    def freshener(self) -> Freshener:
        """Return what tells which objects can be relied on."""
        return self.objects.freshener

    @property
    def writer(self) -> ObjectWriter:
        """Return what writes objects."""
        return self.objects.writer

    # ------------------------------------------------------------ refs

    def sessions(self) -> dict[str, Oid]:
        """Return every session with its last commit; refs.UNREADABLE_REF for an unreadable ref."""
        return self._list_refs(refs.SESSIONS, refs.UNREADABLE_REF)

    def tags(self) -> dict[str, Oid]:
        """Return every tag with its commit."""
        return {name: self.peel(oid) for name, oid in self._list_refs(refs.TAGS).items()}

    def tag_names(self) -> set[str]:
        """Return the name of every tag, also of damaged ones."""
        return set(self._list_refs(refs.TAGS))

    def fetched(self, kind: str = "sessions") -> dict[str, Oid]:
        """Return every fetched or imported session, as `REMOTE/SESSION`, with its last commit; with
        `kind` "tags", every such tag and its object.
        """
        listed = self.refs.list(refs.REMOTES, refs.UNREADABLE_REF)
        parts = ((ref.removeprefix(refs.REMOTES).split("/"), tip) for ref, tip in listed.items())
        return {
            f"{part[0]}/{part[2]}": tip for part, tip in parts if len(part) == 3 and part[1] == kind
        }

    def tip(self, session: str) -> Oid | None:
        """Return a session's last commit, None if there is no such session,
        refs.UNREADABLE_REF if the ref is unreadable.
        """
        try:
            return self.refs.read(refs.SESSIONS + session)
        except StoreDamaged:
            return refs.UNREADABLE_REF

    def _list_refs(self, prefix: str, garbage: Oid | None = None) -> dict[str, Oid]:
        listed = self.refs.list(prefix, garbage)
        return {name.removeprefix(prefix): oid for name, oid in listed.items()}

    def peel(self, oid: Oid) -> Oid:
        """Return the commit of an annotated tag; a commit is returned
        unchanged. Raises StoreDamaged.
        """
        kind, data = self.reader.read(oid)
        if kind != "tag":
            return oid
        target = OBJECT.match(data)
        if target is None:
            raise StoreDamaged(f"tag object {oid} has no object", hint="gitcp doctor --store")
        return Oid(target[1].decode("ascii"))

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Hold the store's lock against all other gitcp processes. Raises StoreBusy after a
        minute.
        """
        with self._locked(None):
            self._settle()
            yield

    @contextmanager
    def lock_session(self, session: str) -> Iterator[None]:
        """Hold the lock that a save of `session` needs: others can be saved in other working trees
        meanwhile, and nothing else can change the store. Raises StoreBusy after a minute.
        """
        if (log := self.pending_log()) is not None and log.has_records():
            with self.lock():  # who settles it must be alone
                yield
            return
        with self._locked(session):
            yield

    @contextmanager
    def _locked(self, session: str | None) -> Iterator[None]:
        """Lock the store, alone (None) or together with saves of other sessions than this one.

        Who must be alone closes the queue until it is, or saves side by side could keep it out for
        ever. These pass the queue together: none waits for another to be scheduled. Those of one
        working tree run one after another, since each checkpoint names the one before. Two at once
        named the same one: the first was unreachable from the last, and its batch could not resume.
        """
        until, alone = time.monotonic() + locks.LOCK_WAIT, session is None
        directory = self.repo.store_dir
        with ExitStack() as stack:
            stack.callback(self.writer.release)
            if session is not None:
                path = directory / LOCKS / session
                stack.enter_context(self._lock_file(path, until, lasting=False))
            with self._lock_file(directory / QUEUE, until, alone=alone):
                stack.enter_context(self._lock_file(directory / LOCK, until, alone=alone))
            if session is not None:
                stack.enter_context(self._lock_file(self.repo.state_dir / TREE_LOCK, until))
            shared.repair(self.repo.common_dir / "refs" / "gitcp")
            yield

    @contextmanager
    def _lock_file(
        self, path: Path, until: float, *, alone: bool = True, lasting: bool = True
    ) -> Iterator[None]:
        """Hold a lock on one file, which is removed afterwards unless it is `lasting`."""
        while True:
            descriptor = self._open_lock(path)
            try:
                if not locks.take(descriptor, until, alone=alone):
                    raise StoreBusy(
                        "another gitcp process has locked the store for a minute; nothing was "
                        "changed",
                        hint="try again when it has finished",
                    )
                if lasting or _is_at(descriptor, path):
                    yield
                    if not lasting:
                        path.unlink(missing_ok=True)
                    return
            finally:
                os.close(descriptor)

    def _open_lock(self, path: Path) -> int:
        try:
            with suppress(FileNotFoundError):
                return open_shared(path, os.O_RDWR)
            for directory in (self.repo.common_dir / "gitcp", path.parent):
                make_own_directory(directory)  # raises with the reason if it cannot be created
            return open_shared(path, os.O_RDWR)
        except OSError as error:
            directory = self.repo.store_dir
            problem = f"cannot write to {directory}: {error.strerror}; nothing was changed"
            if error.errno in FULL:
                raise DiskFull(problem, hint="free some space") from None
            raise Refused(problem, hint=shared.fix(directory)) from None

    def advance(self, checkpoint: Checkpoint) -> None:
        """Move the session's ref to `checkpoint`: the commit point. Raises
        StoreBusy if the session has moved.
        """
        if not self._move_session(refs.SESSIONS + checkpoint.id.session, checkpoint):
            raise StoreBusy(
                f"session {checkpoint.id.session} moved in the meantime; {checkpoint.id} was not "
                "saved"
            )

    def _move_session(self, name: str, checkpoint: Checkpoint) -> bool:
        return self.refs.update(name, checkpoint.commit, checkpoint.parent)

    def _settle(self) -> None:
        """Make pending writes of a framework durable (gitcp.git.write_ahead_log)."""
        if (log := self.pending_log()) is not None:
            log.settle()

    def begin(self, checkpoint: Checkpoint) -> None:
        """Create a session whose first checkpoint has a parent in another one. Raises Refused if it
        exists.
        """
        name = checkpoint.id.session
        self.writer.flush(keep=True)
        if not self.refs.update(refs.SESSIONS + name, checkpoint.commit, None):
            raise AlreadyExists(
                f"session {name} already exists; nothing was changed",
                hint="choose another name with --name",
            )

    def move_ref(self, name: str, old: Oid | None, new: Oid | None) -> bool:
        """Update, create (`old` None) or delete (`new` None) one of gitcp's refs.
        Return False if it is not at `old`.
        """
        if new is not None:
            return self.refs.update(name, new, old)
        return old is None or self.refs.delete(name, old)

    # ------------------------------------------------------------ writing

    def commit(
        self, checkpoint: Checkpoint, readme: str, before: Checkpoint | None = None
    ) -> Checkpoint:
        """Write a checkpoint's metadata, tree and commit. Return it with
        `commit` and `root` filled in.

        The trees of files and conversation exist already. Everything is on disk on return,
        unreferenced. Index entries equal to those of the checkpoint `before` are reused.
        """
        root = self.write_root(checkpoint, readme, before)
        commit = self.writer.write("commit", self._commit_object(checkpoint, root), new=True)
        self._make_durable()
        snapshot = replace(checkpoint.snapshot, tree=self.files_tree(root))
        return replace(checkpoint, commit=commit, root=root, snapshot=snapshot)

    def _make_durable(self) -> None:
        """Sync the objects that a ref is about to name."""
        self.writer.flush(keep=True)

    def write_root(
        self, checkpoint: Checkpoint, readme: str, before: Checkpoint | None = None
    ) -> Oid:
        """Write the metadata, the README and the tree of a checkpoint. Visible after
        `objects.writer.flush`.
        """
        reserved = {
            METADATA: Entry(
                FILE, self.writer.write_blob(wire.encode_checkpoint(checkpoint), new=True)
            ),
            README: Entry(FILE, self.writer.write_blob(readme.encode("utf-8"), new=True)),
            **self._index_trees(checkpoint, before),
        }
        if checkpoint.conversation is not None:
            reserved[CONVERSATION] = Entry(TREE, checkpoint.conversation.tree)
        if checkpoint.steps is not None:
            reserved[STEPS] = Entry(TREE, checkpoint.steps)
        if checkpoint.state is not None:
            reserved[STATE] = Entry(TREE, checkpoint.state.tree)
        if checkpoint.memory is not None and checkpoint.memory.tree is not None:
            reserved[MEMORY] = Entry(TREE, checkpoint.memory.tree)
        if checkpoint.states is not None and checkpoint.states.tree is not None:
            reserved[STATES] = Entry(TREE, checkpoint.states.tree)
        if segments := self.segments(checkpoint.snapshot):
            reserved[OUTPUTS] = Entry(TREE, trees.build(self.writer, trees.nest(segments)))
        holder = self.writer.write_tree(
            [TreeEntry(name, *entry) for name, entry in reserved.items()]
        )
        files = self.reader.read_tree(checkpoint.snapshot.tree)
        return self.writer.write_tree([*files, TreeEntry(RESERVED, TREE, holder)])

    def segments(self, snapshot: Snapshot) -> dict[bytes, Entry]:
        """Return the tree of segments of each file that is stored so, by path. Raises
        StoreDamaged.
        """
        return {
            path: Entry(TREE, segmented.pointer(self.reader, entry.oid).tree)
            for path, entry in segmented.files(self.reader, snapshot)
        }

    def outputs(self, root: Oid) -> Oid | None:
        """Return the tree of all segments in the tree of a checkpoint, None if it has none, as that
        of a user's commit. Raises StoreDamaged.
        """
        return next((e.oid for e in self._reserved(root) if e.name == OUTPUTS), None)

    def lost_segments(self, checkpoint: Checkpoint) -> Iterator[bytes]:
        """Yield the files whose segments are not in the checkpoint's tree. Raises StoreDamaged."""
        for path, entry in self.segments(checkpoint.snapshot).items():
            stored = b"/".join((RESERVED, OUTPUTS, path))
            if trees.lookup(self.reader, checkpoint.root, stored) != entry:
                yield path

    def _index_trees(self, checkpoint: Checkpoint, before: Checkpoint | None) -> dict[bytes, Entry]:
        listed = _index_entries(checkpoint.snapshot)
        reserved = self._reserved(before.root) if before and not self.freshener.damaged else []
        existing = {
            e.name: e.oid for e in reserved if e.name in listed and self.freshener.freshen(e.oid)
        }
        previous = _index_entries(before.snapshot) if before else {}
        index_trees = {
            name: trees.changed(self.objects, existing.get(name), previous.get(name, {}), entries)
            for name, entries in listed.items()
        }
        return {name: Entry(TREE, tree) for name, tree in index_trees.items() if tree}

    def _reserved(self, root: Oid) -> list[TreeEntry]:
        """Return the entries of `.gitcp` in a checkpoint's tree."""
        for entry in self.reader.read_tree(root):
            if entry.name == RESERVED and entry.mode == TREE:
                return self.reader.read_tree(entry.oid)
        return []

    def _commit_object(self, checkpoint: Checkpoint, root: Oid) -> bytes:
        identity = signature(self.repo, checkpoint.created)
        parents = [f"parent {checkpoint.parent}"] if checkpoint.parent else []
        lines = [
            f"tree {root}",
            *parents,
            f"author {identity}",
            f"committer {identity}",
            "",
            message(checkpoint),
        ]
        return "\n".join(lines).encode("utf-8", "replace")

    def write_tag(self, name: str, checkpoint: Checkpoint, text: str, now: datetime) -> Oid:
        """Write an annotated tag object, unreferenced."""
        identity = signature(self.repo, now)
        body = f"object {checkpoint.commit}\ntype commit\ntag {name}\ntagger {identity}\n\n{text}\n"
        oid = self.writer.write("tag", body.encode("utf-8", "replace"))
        self.writer.flush()
        return oid

    def reparent(self, commit: Oid, parent: Oid | None) -> Oid:
        """Write a copy of a checkpoint's commit with another parent. Visible after
        `objects.writer.flush`.
        """
        head, blank, body = self.reader.read_commit(commit).partition(b"\n\n")
        tree, *rest = (line for line in head.split(b"\n") if not line.startswith(b"parent "))
        before = [b"parent " + parent.encode("ascii")] if parent else []
        return self.writer.write("commit", b"\n".join([tree, *before, *rest]) + blank + body)

    def retag(self, tag: Oid, commit: Oid) -> Oid:
        """Write a copy of a tag object for another commit; for a lightweight tag, return the
        commit.
        """
        kind, data = self.reader.read(tag)
        if kind != "tag":
            return commit
        return self.writer.write(
            "tag", OBJECT.sub(b"object %s\n" % commit.encode("ascii"), data, count=1)
        )

    # ------------------------------------------------------------ reading

    def read(self, commit: Oid) -> Checkpoint:
        """Return the checkpoint of a commit. Raises StoreDamaged and FormatTooNew."""
        return self._checkpoint(self.summary(commit))

    def read_all(self, summaries: Iterable[Summary]) -> Iterator[Checkpoint]:
        """Yield the checkpoint of each summary. Raises as `read` does."""
        return map(self._checkpoint, summaries)

    def _checkpoint(self, summary: Summary) -> Checkpoint:
        commit, root = summary.commit, summary.root
        return self._decode(
            commit, root, summary.parent, self._reserved(root), lambda: self.files_tree(root)
        )

    def decode(self, commit: Oid, root: Oid, parent: Oid | None, reserved: Oid) -> Checkpoint:
        """Return the checkpoint of a commit that has this tree and parent, and whose `.gitcp` is
        the tree `reserved`; `snapshot.tree` is the whole tree, which is not read. Raises
        StoreDamaged and FormatTooNew.
        """
        return self._decode(commit, root, parent, self.reader.read_tree(reserved), lambda: root)

    def _decode(
        self,
        commit: Oid,
        root: Oid,
        parent: Oid | None,
        reserved: Iterable[TreeEntry],
        tree: Callable[[], Oid],
    ) -> Checkpoint:
        entries = {e.name: e for e in reserved}
        if METADATA not in entries:
            raise StoreDamaged(
                f"commit {commit[:10]} has no {METADATA.decode()}", hint="gitcp doctor --store"
            )
        return wire.decode_checkpoint(
            self.reader.read_blob(entries[METADATA].oid),
            commit=commit,
            root=root,
            parent=parent,
            tree=tree(),
            reserved={name: entries[name].oid for name in PARTS if name in entries},
        )

    def files_tree(self, root: Oid) -> Oid:
        """Return the tree of the files in a checkpoint's tree: all but `.gitcp`. It is not stored;
        every store of the repository can read it.
        """
        tree = self._files_trees.get(root)
        if tree is None:
            files = [e for e in self.reader.read_tree(root) if e.name != RESERVED]
            tree = PartOfTree.named(self.reader.name_tree(files), root, RESERVED)
            self._files_trees[root] = tree
        return tree

    def base_tree(self, commit: Oid | None) -> Oid | None:
        """Return the tree of a user's commit; None if there is no commit, or it was collected after
        a rebase: checkpoints do not need it.
        """
        try:
            return self.reader.tree_of(commit) if commit else None
        except StoreDamaged:
            return None

    def summary(self, commit: Oid) -> Summary:
        """Return the summary of a commit. Raises StoreDamaged if it is not a checkpoint."""
        summary = self._summaries.get(commit)
        if summary is None:
            summary = parse_summary(commit, self.reader.read_commit(commit))
            self._keep(summary)
        return summary

    def _keep(self, summary: Summary) -> None:
        if len(self._summaries) == MOST_KEPT:
            self._summaries.clear()
        self._summaries[summary.commit] = summary

    def readable(self, tip: Oid | None) -> Iterator[Summary]:
        """Yield the checkpoints of a chain, newest first, up to the first unreadable one."""
        with suppress(StoreDamaged):
            try:
                for summary in self.history(tip) if tip else ():
                    tip = summary.parent
                    yield summary
                return
            except GitFailed:  # git lists all of a chain or nothing
                pass
            while tip is not None:
                summary = self.summary(tip)
                tip = summary.parent
                yield summary

    def has_summary(self, commit: Oid) -> bool:
        """Return whether a commit is readable and a checkpoint."""
        try:
            self.summary(commit)
        except StoreDamaged:
            return False
        return True

    def history(self, tip: Oid, limit: int | None = None) -> Iterator[Summary]:
        """Yield the checkpoints of a chain, newest first.

        The nearest are read one by one, since most callers need no others; git lists the rest.
        """
        before: Oid | None = tip
        left, read = limit, 0
        while before is not None and left != 0:
            if before not in self._summaries:
                if read == READ_DIRECTLY:
                    yield from self._rest(before, left)
                    return
                read += 1
            summary = self.summary(before)
            yield summary
            before, left = summary.parent, None if left is None else left - 1

    def _rest(self, tip: Oid, limit: int | None) -> Iterator[Summary]:
        """Yield a chain as git lists it; where that fails, one by one up to what is damaged."""
        count = () if limit is None else (f"--max-count={limit}",)
        try:
            for summary in self._listed((tip,), *count):
                self._keep(summary)
                yield summary
            return
        except GitFailed:  # git lists nothing then
            pass
        before: Oid | None = tip
        while before is not None and limit != 0:
            summary = self.summary(before)
            yield summary
            before, limit = summary.parent, None if limit is None else limit - 1

    def forest(self, tips: Iterable[str], *limits: str) -> Iterator[Summary]:
        """Yield every checkpoint that these commits reach, once, parents first. `limits` are
        options of git rev-list; commits can include `^COMMIT`.
        """
        return self._listed(tips, "--topo-order", "--reverse", *limits)

    def commits(self, tips: Iterable[str]) -> list[Oid]:
        """Return every commit that these commits reach, parents first. Raises GitFailed if one of
        them cannot be read.
        """
        names = "".join(f"{tip}\n" for tip in tips).encode("ascii")
        listed = self.repo.git("rev-list", "--topo-order", "--reverse", "--stdin", input=names)
        return [Oid(line) for line in listed.decode("ascii").splitlines()]

    def _listed(self, tips: Iterable[str], *options: str) -> Iterator[Summary]:
        listed = self.repo.git(
            *LISTED, *options, input="".join(f"{tip}\n" for tip in tips).encode("ascii")
        )
        for record in listed.decode("utf-8", "replace").split("\x01\n"):
            if not record:
                continue
            try:
                commit, tree, parents, time, body = record.partition("\n")[2].split("\0", 4)
                created = datetime.fromisoformat(time)
            except ValueError:  # a foreign message that contains the separators
                commit = record.partition("\n")[0].removeprefix("commit ")
                raise _not_a_checkpoint(Oid(commit)) from None
            yield _summary(Oid(commit), tree, parents, created, body)

    def find(self, id: CheckpointId) -> Oid | None:
        """Return the commit of a checkpoint, None if it does not exist (any more).

        Checkpoints that a deleted session shared with forks are found in the forks.
        """
        tip = self.tip(id.session)
        in_session = (s.commit for s in self.readable(tip) if s.id.number == id.number)
        return next(in_session, None) or next(
            (s.commit for s in self._all_checkpoints() if s.id == id), None
        )

    def holds(self, commit: Oid) -> bool:
        """Return whether a session of this repository has this commit."""
        return self._is_reached(commit) or any(
            summary.commit == commit for summary in self._all_checkpoints()
        )

    def _is_reached(self, commit: Oid) -> bool:
        """Return whether git says at once that a session has this commit: reading a chain of 10,000
        checkpoints for it takes half a second. Where False, the chains decide: they may be damaged,
        or the dates of their commits wrong.
        """
        excluded = "".join(f"^{tip}\n" for tip in sorted(set(self.sessions().values())))
        names = f"{commit}^{{commit}}\n{excluded}".encode()
        try:
            unreached = self.repo.git("rev-list", "--max-count=1", "--stdin", input=names)
        except GitFailed:
            return False
        return not unreached

    def _all_checkpoints(self) -> Iterator[Summary]:
        """Yield every checkpoint of every session, as far as chains are readable."""
        tips = sorted(set(self.sessions().values()))
        try:
            yield from list(self.forest(tips)) if tips else ()
        except (StoreDamaged, GitFailed):
            for tip in tips:
                yield from self.readable(tip)


def require_files(checkpoint: Checkpoint) -> None:
    """Raise Refused if a checkpoint was made without the files."""
    if not checkpoint.snapshot.has_files:
        raise Refused(
            f"{checkpoint.id} has no files, only the conversation was stored; nothing was changed",
            hint=f"gitcp restore {checkpoint.id} --conversation",
        )


def _is_at(descriptor: int, path: Path) -> bool:
    """Return whether an open file is still the one at `path`: its last holder removed it."""
    try:
        return os.path.samestat(os.fstat(descriptor), os.stat(path))
    except FileNotFoundError:
        return False


def message(checkpoint: Checkpoint) -> str:
    """Return the commit message: a subject, and trailers for listings."""
    snapshot, conversation = checkpoint.snapshot, checkpoint.conversation
    trailers = {
        "Gitcp-Format": str(wire.format_of(checkpoint)),
        "Gitcp-Session": checkpoint.id.session,
        "Gitcp-Number": str(checkpoint.id.number),
        "Gitcp-Trigger": checkpoint.trigger.value,
        "Gitcp-Agent": checkpoint.agent.name if checkpoint.agent else "",
        "Gitcp-Agent-Session": (checkpoint.agent.session_id or "") if checkpoint.agent else "",
        "Gitcp-Phase": one_line(checkpoint.note.phase or "", 100),
        # what files are compared with
        "Gitcp-Base": (snapshot.base.commit or "") if snapshot.has_files else "",
        "Gitcp-Messages": str(conversation.digest.messages) if conversation else "",
        "Gitcp-Files": f"{snapshot.total} ({checkpoint.changed} changed)",
        "Gitcp-Effects": str(len(checkpoint.note.compensations) or ""),
        "Gitcp-Skipped": str(len(snapshot.skipped)) if snapshot.skipped else "",
        "Gitcp-Restored-From": str(checkpoint.restored_from or ""),
        "Gitcp-Forked-From": str(checkpoint.forked_from or ""),
        "Gitcp-Reverted": str(checkpoint.reverted or ""),
        "Gitcp-Step": str(checkpoint.step or ""),
        "Gitcp-Position": _position(checkpoint.note),
        "Gitcp-States": " ".join(
            state.name for state in (checkpoint.states.stored if checkpoint.states else ())
        ),
    }
    # One line each: a line feed in a value would add a trailer.
    lines = [f"{name}: {one_line(value, 200)}" for name, value in trailers.items() if value]
    if checkpoint.state is not None:
        lines.append(f"Gitcp-State: {checkpoint.state.key}")
    return "\n".join([subject(checkpoint), "", *lines, ""])


def subject(checkpoint: Checkpoint) -> str:
    """Return one line: the label, or a description made from the step, from the trigger and the
    last prompt, or from the position.
    """
    if label := one_line(checkpoint.note.label or "", 200):
        return label
    if checkpoint.step is not None:
        return f"step {one_line(str(checkpoint.step), 200)}"
    if checkpoint.restored_from is not None:
        return f"restored {checkpoint.restored_from}"
    if checkpoint.forked_from is not None:
        return f"forked from {checkpoint.forked_from}"
    if checkpoint.reverted is not None:
        return f"reverted {checkpoint.reverted}"
    prompt = checkpoint.conversation.digest.last_prompt if checkpoint.conversation else None
    if text := one_line(prompt or "", 60):
        return f"{checkpoint.trigger.value}: {text}"
    if position := _position(checkpoint.note):
        return f"position {position}"
    is_first = checkpoint.trigger is Trigger.PROMPT and checkpoint.conversation is None
    return BEFORE_PROMPTS if is_first else NO_LABEL


def _position(note: Note) -> str:
    """Return the position that a checkpoint sets, on one line; "" if it has none of its own."""
    texts = {} if note.position_from else wire.position_texts(note.position)
    return one_line(", ".join(f"{key}={value}" for key, value in sorted(texts.items())), 60)


def is_generated(summary: Summary) -> bool:
    """Return whether gitcp generated a checkpoint's subject, as opposed to a label."""
    subject, trailers = summary.subject, summary.trailers
    trigger = trailers.get("Gitcp-Trigger", "")
    # Checkpoints of earlier versions have the trigger and the id instead of NO_LABEL.
    if subject in (BEFORE_PROMPTS, NO_LABEL, f"{trigger} {summary.id}"):
        return True
    if subject.startswith(f"{trigger}: "):
        return True
    return any(
        subject.startswith(words) and subject.removeprefix(words) == trailers.get(name)
        for words, name in GENERATED
    )


def _index_entries(files: Snapshot) -> dict[bytes, dict[bytes, Entry]]:
    """Return the index entries that differ from the files."""
    staged = {e.path: Entry(e.mode, e.oid) for e in files.staged if not e.intent_to_add}
    return {
        STAGED: staged,
        CONFLICTS: {b"%d/%s" % (e.stage, e.path): Entry(e.mode, e.oid) for e in files.conflicts},
    }


def one_line(text: str, most: int) -> str:
    """Return `text` on one line of at most `most` characters, with control
    characters and blanks collapsed.
    """
    if not text.isprintable() or "  " in text:
        text = re.sub(r"[\s\x00-\x1f\x7f-\x9f]+", " ", text)
    flat = text.strip()
    return flat if len(flat) <= most else flat[: most - 1].rstrip() + "…"


def parse_summary(commit: Oid, data: bytes) -> Summary:
    """Return the summary of a commit whose content is `data`. Raises StoreDamaged if it is not a
    checkpoint.
    """
    head, _, body = data.partition(b"\n\n")
    match = HEAD.match(head)
    if match is None:
        raise _not_a_checkpoint(commit)
    tree, parent = match[1].decode("ascii"), (match[2] or b"").decode("ascii")
    return _summary(commit, tree, parent, time_of(match[3]), body.decode("utf-8", "replace"))


def _summary(commit: Oid, tree: str, parents: str, created: datetime, body: str) -> Summary:
    trailers = dict(TRAILER.findall(body.rstrip().rpartition("\n\n")[2]))
    session, number = trailers.get("Gitcp-Session", ""), trailers.get("Gitcp-Number", "")
    if not refs.NAME.match(session) or not NUMBER.fullmatch(number) or " " in parents:
        raise _not_a_checkpoint(commit)
    first, id = body.partition("\n")[0], CheckpointId(session, int(number))
    parent = Oid(parents) if parents else None
    return Summary(commit, Oid(tree), parent, created, first, trailers, id)


def _not_a_checkpoint(commit: Oid) -> StoreDamaged:
    return StoreDamaged(f"commit {commit[:10]} is not a checkpoint", hint="gitcp doctor --store")


def signature(repo: Repository, time: datetime) -> str:
    """Return `Name <email> seconds zone`: git's identity if configured, else a
    fixed one. Never asks or fails.
    """
    env, config = repo.host.env, repo.config
    name = env.get("GIT_AUTHOR_NAME") or config.get("author.name") or config.get("user.name")
    email = env.get("GIT_AUTHOR_EMAIL") or config.get("author.email") or config.get("user.email")
    clean = (re.sub(r"[\x00-\x1f<>\x7f]", "", text or "").strip() for text in (name, email))
    first, second = clean
    offset = int((time.utcoffset() or timedelta()).total_seconds()) // 60
    zone = f"{'-' if offset < 0 else '+'}{abs(offset) // 60:02d}{abs(offset) % 60:02d}"
    seconds = max(int(time.timestamp()), 0)  # git has no time before 1970
    return f"{first or FALLBACK_NAME} <{second or FALLBACK_EMAIL}> {seconds} {zone}"


def time_of(author: bytes) -> datetime:
    """Return the time in a commit's author line. Raises StoreDamaged if it cannot be parsed."""
    try:
        seconds, zone = author.rpartition(b"> ")[2].split(b" ")
        return datetime.fromtimestamp(int(seconds), _zone(zone))
    except (ValueError, OverflowError, OSError):
        raise StoreDamaged("a checkpoint's commit has an invalid time") from None


@lru_cache(100)
def _zone(text: bytes) -> timezone:
    minutes = int(text[1:3]) * 60 + int(text[3:5])
    return timezone(timedelta(minutes=-minutes if text[:1] == b"-" else minutes))
