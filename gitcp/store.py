"""Checkpoints ⇄ git objects. The only module that knows the layout of a checkpoint's tree.

    <the files>
    .gitcp/checkpoint.json
    .gitcp/README.md
    .gitcp/conversation/<stream>/…
    .gitcp/steps/…                    results of steps (gitcp.state.steps)
    .gitcp/state/…                    what a framework keeps (gitcp.langgraph)
    .gitcp/staged/<path>              where the index differs from the files
    .gitcp/conflicts/<stage>/<path>   where the index is unmerged

A session is a ref; its chain has exactly one parent a commit. Objects are written first, the ref
moves last.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import TYPE_CHECKING

from gitcp import wire
from gitcp.errors import DiskFull, GitFailed, Refused, StoreBusy, StoreDamaged
from gitcp.git import locks, refs, shared, trees
from gitcp.git.fsync import FULL, make_own_directory, open_shared
from gitcp.git.objects import Objects
from gitcp.git.repo import Repository
from gitcp.git.trees import TreeEntry
from gitcp.model import FILE, RESERVED, TREE, Checkpoint, CheckpointId, Entry, Oid, Snapshot
from gitcp.value import Value, replace

if TYPE_CHECKING:
    from gitcp.git.gathering import Gathering
    from gitcp.git.write_ahead_log import Ahead

FALLBACK_NAME = "gitcp"
FALLBACK_EMAIL = "gitcp@localhost"
METADATA = b"checkpoint.json"
README = b"README.md"
CONVERSATION = b"conversation"
STEPS = b"steps"
STATE = b"state"
STAGED = b"staged"
CONFLICTS = b"conflicts"

HEAD = re.compile(rb"tree ([0-9a-f]{40})\n(?:parent ([0-9a-f]{40})\n)?author ([^\n]*)")
NUMBER = re.compile(r"[1-9][0-9]{0,17}")
LISTED = (
    "rev-list",
    "--first-parent",
    "--encoding=UTF-8",
    "--stdin",
    "--format=%H%x00%T%x00%P%x00%aI%x00%B%x01",
)

NEAR = 64
"""So many checkpoints are read in the time that git takes to start, and damage further back is not
in their way.
"""


class Summary(Value):
    """What a commit alone says about a checkpoint: enough for a listing, no blob is read."""

    commit: Oid
    root: Oid
    parent: Oid | None
    created: datetime
    subject: str
    trailers: dict[str, str]

    @property
    def id(self) -> CheckpointId:
        return CheckpointId(self.trailers["Gitcp-Session"], int(self.trailers["Gitcp-Number"]))


class Store:
    """The checkpoints of one repository."""

    def __init__(self, repo: Repository) -> None:
        self.repo = repo
        self.objects = Objects(repo)
        self._ahead: Ahead | None = None
        if (left := self._left()) is not None and left.is_left():
            with suppress(Refused), self.lock():  # who may only read finds what is there
                pass

    def hurry(self, gathering: Gathering) -> None:
        """Save many times a minute: checkpoints are durable as ever, by gitcp.git.write_ahead_log.
        For nothing but saves.
        """
        from gitcp.git.write_ahead_log import Ahead, running

        self.objects.gathering = gathering
        self._ahead = Ahead(self.repo.common_dir) if running() else None

    def _left(self) -> Ahead | None:
        """What somebody promised, None if nobody ever did."""
        if os.path.exists(f"{self.repo.common_dir}/gitcp/ahead"):
            from gitcp.git.write_ahead_log import Ahead  # hardly any repository has it

            return Ahead(self.repo.common_dir)
        return None

    # ------------------------------------------------------------ refs

    def sessions(self) -> dict[str, Oid]:
        """Every session and the commit of its last checkpoint; of one whose ref is garbage, one
        that is missing.
        """
        return self._named(refs.SESSIONS, refs.NOTHING)

    def tags(self) -> dict[str, Oid]:
        """Every tag and the commit it is on."""
        return {name: self.peel(oid) for name, oid in self._named(refs.TAGS).items()}

    def tip(self, session: str) -> Oid | None:
        """The commit of a session's last checkpoint, None if there is no such session. Garbage is
        taken for NOTHING.
        """
        try:
            return refs.read_ref(self.repo.common_dir, refs.SESSIONS + session)
        except StoreDamaged:
            return refs.NOTHING

    def _named(self, prefix: str, garbage: Oid | None = None) -> dict[str, Oid]:
        found = refs.list_refs(self.repo.common_dir, prefix, garbage)
        return {name.removeprefix(prefix): oid for name, oid in found.items()}

    def peel(self, oid: Oid) -> Oid:
        """The commit that an annotated tag is on; a commit is itself. Raises StoreDamaged."""
        kind, data = self.objects.read(oid)
        if kind != "tag":
            return oid
        target = re.match(rb"object ([0-9a-f]{40})\n", data)
        if target is None:
            raise StoreDamaged(f"tag object {oid} names no object", hint="gitcp check")
        return Oid(target[1].decode("ascii"))

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Hold the store against other gitcp processes. Raises StoreBusy after a minute."""
        try:
            descriptor = _open_lock(self.repo.store_dir)
        except OSError as error:
            what = (
                f"gitcp cannot write in {self.repo.store_dir}: {error.strerror}. Nothing was "
                "changed"
            )
            if error.errno in FULL:
                raise DiskFull(what, hint="free some space") from None
            raise Refused(what, hint=shared.fix(self.repo.store_dir)) from None
        try:
            if not locks.take(descriptor):
                raise StoreBusy(
                    "another gitcp process has held the store for a minute: nothing was changed",
                    hint="try again when it is done",
                )
            shared.repair(self.repo.common_dir / "refs" / "gitcp")
            if self._ahead is None and (left := self._left()) is not None:
                left.settle()
            yield
        finally:
            self.objects.let_go()
            os.close(descriptor)

    def advance(self, checkpoint: Checkpoint) -> None:
        """Move the session's ref to `checkpoint`: the commit point. Raises StoreBusy if the session
        moved meanwhile.
        """
        name, ahead = refs.SESSIONS + checkpoint.id.session, self._ahead
        promise = (lambda: self._promise(ahead, name, checkpoint)) if ahead else None
        if not refs.update_ref(
            self.repo.common_dir, name, checkpoint.commit, checkpoint.parent, promise
        ):
            raise StoreBusy(
                f"session {checkpoint.id.session} moved while {checkpoint.id} was made: it was not "
                "saved"
            )
        if ahead is not None and ahead.is_due():
            ahead.settle()

    def _promise(self, ahead: Ahead, name: str, checkpoint: Checkpoint) -> None:
        """Promise the move of a ref with all that was written, and only then make that visible."""
        packs = self.objects.sealed()
        ahead.promise(name, checkpoint.parent, checkpoint.commit, packs)
        self.objects.place(packs)

    def begin(self, checkpoint: Checkpoint) -> None:
        """Begin a session with `checkpoint`, whose parent is another session's. Raises Refused if
        it exists.
        """
        name = checkpoint.id.session
        self.objects.flush(held=True)
        if not refs.update_ref(self.repo.common_dir, refs.SESSIONS + name, checkpoint.commit, None):
            raise Refused(
                f"there is a session {name} already: nothing was changed",
                hint="give another name: --name",
            )

    def move_ref(self, name: str, old: Oid | None, new: Oid | None) -> bool:
        """Set, make (`old` None) or delete (`new` None) one of our refs. False if it is not at
        `old` any more.
        """
        if new is not None:
            return refs.update_ref(self.repo.common_dir, name, new, old)
        if old is None or refs.delete_ref(self.repo.common_dir, name, old):
            return True
        if old == refs.NOTHING or refs.read_ref(self.repo.common_dir, name) != old:
            return False
        self.repo.git("update-ref", "-d", name, old)  # packed: git alone rewrites packed-refs
        return True

    # ------------------------------------------------------------ writing

    def commit(
        self, checkpoint: Checkpoint, readme: str, before: Checkpoint | None = None
    ) -> Checkpoint:
        """Write a checkpoint's metadata, tree and commit; the checkpoint with `commit` and `root`
        filled in.

        The files' tree and the conversation's tree are stored already. Everything is on disk when
        this returns (with `hurry`, when `advance` or `begin` does), and no ref names it yet. What
        the index has is taken from the checkpoint `before`, where it says the same.
        """
        root = self.write_root(checkpoint, readme, before)
        commit = self.objects.write("commit", self._commit_object(checkpoint, root), new=True)
        if self._ahead is None:
            self.objects.flush(held=True)
        return replace(checkpoint, commit=commit, root=root)

    def write_root(
        self, checkpoint: Checkpoint, readme: str, before: Checkpoint | None = None
    ) -> Oid:
        """Write the metadata, the README and the tree of a checkpoint. Visible after
        `objects.flush`.
        """
        reserved = {
            METADATA: Entry(
                FILE, self.objects.write_blob(wire.encode_checkpoint(checkpoint), new=True)
            ),
            README: Entry(FILE, self.objects.write_blob(readme.encode("utf-8"), new=True)),
            **self._index_trees(checkpoint, before),
        }
        if checkpoint.conversation is not None:
            reserved[CONVERSATION] = Entry(TREE, checkpoint.conversation.tree)
        if checkpoint.steps is not None:
            reserved[STEPS] = Entry(TREE, checkpoint.steps)
        if checkpoint.state is not None:
            reserved[STATE] = Entry(TREE, checkpoint.state.tree)
        holder = self.objects.write_tree(
            [TreeEntry(name, *entry) for name, entry in reserved.items()]
        )
        files = self.objects.read_tree(checkpoint.snapshot.tree)
        return self.objects.write_tree([*files, TreeEntry(RESERVED, TREE, holder)])

    def _index_trees(self, checkpoint: Checkpoint, before: Checkpoint | None) -> dict[bytes, Entry]:
        reserved = self._reserved(before.root) if before and not self.objects.damaged else []
        held = {e.name: e.oid for e in reserved if self.objects.freshen(e.oid)}
        then = _of_index(before.snapshot) if before else {}
        made = {
            name: trees.changed(self.objects, held.get(name), then.get(name, {}), entries)
            for name, entries in _of_index(checkpoint.snapshot).items()
        }
        return {name: Entry(TREE, tree) for name, tree in made.items() if tree}

    def _reserved(self, root: Oid) -> list[TreeEntry]:
        """What lies under `.gitcp` in a checkpoint's tree."""
        holder = next(
            (e for e in self.objects.read_tree(root) if e.name == RESERVED and e.mode == TREE), None
        )
        return self.objects.read_tree(holder.oid) if holder else []

    def _commit_object(self, checkpoint: Checkpoint, root: Oid) -> bytes:
        who = signature(self.repo, checkpoint.created)
        parents = [f"parent {checkpoint.parent}"] if checkpoint.parent else []
        lines = [
            f"tree {root}",
            *parents,
            f"author {who}",
            f"committer {who}",
            "",
            message(checkpoint),
        ]
        return "\n".join(lines).encode("utf-8", "replace")

    def write_tag(self, name: str, checkpoint: Checkpoint, text: str, now: datetime) -> Oid:
        """Write an annotated tag object; no ref names it yet."""
        who = signature(self.repo, now)
        body = f"object {checkpoint.commit}\ntype commit\ntag {name}\ntagger {who}\n\n{text}\n"
        oid = self.objects.write("tag", body.encode("utf-8", "replace"))
        self.objects.flush()
        return oid

    def reparent(self, commit: Oid, parent: Oid | None) -> Oid:
        """Write the same checkpoint with another one before it. Visible after `objects.flush`."""
        head, blank, body = self.objects.read_commit(commit).partition(b"\n\n")
        tree, *rest = (line for line in head.split(b"\n") if not line.startswith(b"parent "))
        before = [b"parent " + parent.encode("ascii")] if parent else []
        return self.objects.write("commit", b"\n".join([tree, *before, *rest]) + blank + body)

    def retag(self, tag: Oid, commit: Oid) -> Oid:
        """Write the same tag for another commit; a ref that names a commit itself names the other
        one.
        """
        kind, data = self.objects.read(tag)
        if kind != "tag":
            return commit
        return self.objects.write(
            "tag", re.sub(rb"\Aobject [0-9a-f]{40}", b"object " + commit.encode("ascii"), data)
        )

    # ------------------------------------------------------------ reading

    def read(self, commit: Oid) -> Checkpoint:
        """The checkpoint a commit holds. Raises StoreDamaged if it is none, FormatTooNew."""
        summary = self.summary(commit)
        inside = {e.name: e for e in self._reserved(summary.root)}
        if METADATA not in inside:
            raise StoreDamaged(
                f"commit {commit[:10]} holds no {METADATA.decode()}", hint="gitcp check"
            )
        return wire.decode_checkpoint(
            self.objects.read_blob(inside[METADATA].oid),
            commit=commit,
            root=summary.root,
            parent=summary.parent,
            tree=self.files_tree(summary.root),
            held={
                name: inside[name].oid for name in (CONVERSATION, STEPS, STATE) if name in inside
            },
        )

    def files_tree(self, root: Oid) -> Oid:
        """The tree of the files in a checkpoint's tree: all but `.gitcp`. It is named, and can then
        be read.
        """
        return self.objects.name_tree(
            [e for e in self.objects.read_tree(root) if e.name != RESERVED]
        )

    def summary(self, commit: Oid) -> Summary:
        """What a commit says by itself. Raises StoreDamaged if it is no checkpoint."""
        head, _, body = self.objects.read_commit(commit).partition(b"\n\n")
        match = HEAD.match(head)
        if match is None:
            raise _no_checkpoint(commit)
        tree, parent = match[1].decode("ascii"), (match[2] or b"").decode("ascii")
        return _summary(commit, tree, parent, time_of(match[3]), body.decode("utf-8", "replace"))

    def readable(self, tip: Oid | None) -> Iterator[Summary]:
        """The checkpoints of a chain, newest first, up to the first one that cannot be read."""
        with suppress(StoreDamaged):
            try:
                for summary in self.history(tip) if tip else ():
                    tip = summary.parent
                    yield summary
                return
            except GitFailed:  # it lists all of a chain or nothing
                pass
            while tip is not None:
                summary = self.summary(tip)
                tip = summary.parent
                yield summary

    def has_summary(self, commit: Oid) -> bool:
        """Whether a commit can be read and is a checkpoint's."""
        try:
            self.summary(commit)
        except StoreDamaged:
            return False
        return True

    def history(self, tip: Oid, limit: int | None = None) -> Iterator[Summary]:
        """The checkpoints of a chain, newest first, as their commits tell it.

        The nearest, which are all that most callers ask for, are read one by one; git lists the
        rest in one go.
        """
        before: Oid | None = tip
        for _ in range(NEAR if limit is None else min(NEAR, limit)):
            if before is None:
                return
            summary = self.summary(before)
            yield summary
            before = summary.parent
        if before is not None and (limit is None or limit > NEAR):
            yield from self._listed(
                (before,), *(() if limit is None else (f"--max-count={limit - NEAR}",))
            )

    def forest(self, tips: Iterable[Oid], *limits: str) -> Iterator[Summary]:
        """Every checkpoint behind these commits, once, each after the one before it; `limits` as
        git rev-list has.
        """
        return self._listed(tips, "--topo-order", "--reverse", *limits)

    def _listed(self, tips: Iterable[Oid], *options: str) -> Iterator[Summary]:
        listed = self.repo.git(
            *LISTED, *options, input="".join(f"{tip}\n" for tip in tips).encode("ascii")
        )
        for record in listed.decode("utf-8", "replace").split("\x01\n"):
            if not record:
                continue
            try:
                commit, tree, parents, time, body = record.partition("\n")[2].split("\0", 4)
                created = datetime.fromisoformat(time)
            except ValueError:  # somebody else's message, with our separators in it
                raise _no_checkpoint(Oid(record[7:47])) from None
            yield _summary(Oid(commit), tree, parents, created, body)

    def find(self, id: CheckpointId) -> Oid | None:
        """The commit of a checkpoint, None if it does not exist (any more).

        What a session shared with its forks is found in them once the session itself is deleted.
        """
        tip = self.tip(id.session)
        own = (s.commit for s in self.readable(tip) if s.id.number == id.number)
        return next(own, None) or next((s.commit for s in self._everywhere() if s.id == id), None)

    def holds(self, commit: Oid) -> bool:
        """Whether a session of this repository has this commit."""
        return any(summary.commit == commit for summary in self._everywhere())

    def _everywhere(self) -> Iterator[Summary]:
        """Every checkpoint of every session, as far as chains can be read."""
        tips = sorted(set(self.sessions().values()))
        try:
            yield from list(self.forest(tips)) if tips else ()
        except (StoreDamaged, GitFailed):
            for tip in tips:
                yield from self.readable(tip)


def _open_lock(directory: Path) -> int:
    try:
        return open_shared(directory / "lock", os.O_RDWR)
    except FileNotFoundError:
        make_own_directory(directory)  # it could not be made: now it is said why
        return open_shared(directory / "lock", os.O_RDWR)


def message(checkpoint: Checkpoint) -> str:
    """The commit message: a subject for people, trailers for listings."""
    snapshot, conversation = checkpoint.snapshot, checkpoint.conversation
    trailers = {
        "Gitcp-Format": str(wire.FORMAT),
        "Gitcp-Session": checkpoint.id.session,
        "Gitcp-Number": str(checkpoint.id.number),
        "Gitcp-Trigger": checkpoint.trigger.value,
        "Gitcp-Agent": checkpoint.agent.name if checkpoint.agent else "",
        "Gitcp-Agent-Session": (checkpoint.agent.session_id or "") if checkpoint.agent else "",
        "Gitcp-Phase": one_line(checkpoint.note.phase or "", 100),
        "Gitcp-Base": snapshot.base.commit or "",
        "Gitcp-Messages": str(conversation.digest.messages) if conversation else "",
        "Gitcp-Files": f"{snapshot.total} ({checkpoint.changed} changed)",
        "Gitcp-Effects": str(len(checkpoint.note.compensations) or ""),
        "Gitcp-Skipped": str(len(snapshot.skipped)) if snapshot.skipped else "",
        "Gitcp-Restored-From": str(checkpoint.restored_from or ""),
        "Gitcp-Forked-From": str(checkpoint.forked_from or ""),
        "Gitcp-Reverted": str(checkpoint.reverted or ""),
    }
    # One line each, whoever wrote them: a line more would be a trailer more.
    lines = [f"{name}: {one_line(value, 200)}" for name, value in trailers.items() if value]
    if checkpoint.state is not None:
        lines.append(f"Gitcp-State: {checkpoint.state.key}")
    return "\n".join([subject(checkpoint), "", *lines, ""])


def subject(checkpoint: Checkpoint) -> str:
    """One line: the label, or one made from the trigger and the last prompt."""
    if label := one_line(checkpoint.note.label or "", 200):
        return label
    if checkpoint.restored_from is not None:
        return f"restored {checkpoint.restored_from}"
    if checkpoint.forked_from is not None:
        return f"forked from {checkpoint.forked_from}"
    if checkpoint.reverted is not None:
        return f"reverted {checkpoint.reverted}"
    prompt = checkpoint.conversation.digest.last_prompt if checkpoint.conversation else None
    text = one_line(prompt or "", 60)
    return (
        f"{checkpoint.trigger.value}: {text}"
        if text
        else f"{checkpoint.trigger.value} {checkpoint.id}"
    )


def _of_index(files: Snapshot) -> dict[bytes, dict[bytes, Entry]]:
    """What the index has otherwise than the files."""
    staged = {e.path: Entry(e.mode, e.oid) for e in files.staged if not e.intent_to_add}
    return {
        STAGED: staged,
        CONFLICTS: {b"%d/%s" % (e.stage, e.path): Entry(e.mode, e.oid) for e in files.conflicts},
    }


def one_line(text: str, most: int) -> str:
    """`text` on one line of at most `most` characters, control characters and runs of blanks as one
    space.
    """
    if not text.isprintable() or "  " in text:
        text = re.sub(r"[\s\x00-\x1f\x7f-\x9f]+", " ", text)
    flat = text.strip()
    return flat if len(flat) <= most else flat[: most - 1].rstrip() + "…"


def _summary(commit: Oid, tree: str, parents: str, created: datetime, body: str) -> Summary:
    trailers = dict(
        re.findall(r"^(Gitcp-[A-Za-z-]+): (.*)$", body.rstrip().rpartition("\n\n")[2], re.MULTILINE)
    )
    session, number = trailers.get("Gitcp-Session", ""), trailers.get("Gitcp-Number", "")
    if not refs.NAME.match(session) or not NUMBER.fullmatch(number) or " " in parents:
        raise _no_checkpoint(commit)
    first = body.partition("\n")[0]
    return Summary(commit, Oid(tree), Oid(parents) if parents else None, created, first, trailers)


def _no_checkpoint(commit: Oid) -> StoreDamaged:
    return StoreDamaged(f"commit {commit[:10]} is no checkpoint", hint="gitcp check")


def signature(repo: Repository, time: datetime) -> str:
    """`Name <email> seconds zone`: the user where git knows one, else a fixed one. Never asks,
    never fails.
    """
    env, config = repo.host.env, repo.config
    name = env.get("GIT_AUTHOR_NAME") or config.get("author.name") or config.get("user.name")
    email = env.get("GIT_AUTHOR_EMAIL") or config.get("author.email") or config.get("user.email")
    clean = (re.sub(r"[\x00-\x1f<>\x7f]", "", text or "").strip() for text in (name, email))
    first, second = clean
    offset = int((time.utcoffset() or timedelta()).total_seconds()) // 60
    zone = f"{'-' if offset < 0 else '+'}{abs(offset) // 60:02d}{abs(offset) % 60:02d}"
    return f"{first or FALLBACK_NAME} <{second or FALLBACK_EMAIL}> {int(time.timestamp())} {zone}"


def time_of(author: bytes) -> datetime:
    """When a commit was made, by its author line. Raises StoreDamaged if that cannot be read."""
    try:
        seconds, zone = author.rpartition(b"> ")[2].split(b" ")
        minutes = int(zone[1:3]) * 60 + int(zone[3:5])
        sign = -1 if zone[:1] == b"-" else 1
        return datetime.fromtimestamp(int(seconds), timezone(timedelta(minutes=sign * minutes)))
    except (ValueError, OverflowError, OSError):
        raise StoreDamaged("a checkpoint's commit has no time that can be read") from None
