"""Check: read every checkpoint of every gitcp ref completely, and report what is damaged
and which checkpoints it affects.

Each commit, tree and blob is read and hashed once; the streams of conversations are compared with
their checksums; numbers, parents and names must be consistent; refs, packs and indexes must be
intact. All problems are collected. Nothing is repaired, but damaged objects are recorded
(gitcp.git.damage), so that the next save does not rely on them.

Memory: the name of each object, one blob, and the listing of each checkpoint.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from enum import Enum, auto
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

from gitcp import fingerprint, progress, trusted_cache
from gitcp.conversation.sums import Sums
from gitcp.errors import GitFailed, StoreDamaged
from gitcp.git import damage, loose, promised, refs, trees, verify
from gitcp.git.fsync import replace_cache
from gitcp.git.object_format import FULL_NAME, ObjectFormat
from gitcp.git.packs import indexes
from gitcp.git.repo import Repository
from gitcp.model import RESERVED, TREE, Checkpoint, CheckpointId, Conversation, Oid, Stream
from gitcp.store import CONVERSATION, METADATA, Store, parse_summary
from gitcp.value import Value
from gitcp.worktree.paths import display

NAME = "verified"

BATCH = 1024
"""Number of checkpoints that are read together, with a new reader, which caches trees of theirs."""

HELD = 32 << 20
"""Maximum bytes of metadata and conversations that are held from when they are read until their
checkpoint is compared with them; what is beyond is read again.
"""

PARSED = 8
"""A parsed tree takes about so many times its bytes."""

MOST = 4096
"""Maximum number of objects that are asked for at once."""

FOLDERS = (refs.SESSIONS, refs.TAGS, refs.REMOTES, refs.TRASH, refs.SHARED)
CATALOGUE_TREE = re.compile(rb"tree (%s)\n" % FULL_NAME.encode("ascii"))
CATALOGUE_PARENT = re.compile(rb"^parent (%s)$" % FULL_NAME.encode("ascii"), re.MULTILINE)
MOST_LOST = 1000
UNKNOWN = 0
"""The number of a checkpoint whose commit, which contains it, cannot be read."""


class StoreProblem(Value):
    """One problem: the object, ref or file, what is wrong, and which checkpoints it affects.

    `checkpoints` are ids. `SESSION@` is the last one of a session whose commit cannot be read. An
    unreadable commit also affects all earlier ones, unless another ref reaches them.
    """

    object: str
    what: str
    checkpoints: tuple[str, ...] = ()


class CheckReport(Value):
    """The number of checkpoints and objects, and all problems.

    `promised` is the number of objects that, in a partial clone, only a remote has; `unchanged`
    the number of those that were not read, because the last check did.
    """

    checkpoints: int
    objects: int
    problems: tuple[StoreProblem, ...]
    promised: int = 0
    unchanged: int = 0

    @property
    def ok(self) -> bool:
        return not self.problems

    def to_json(self) -> dict[str, Any]:
        """Return the fields that `gitcp doctor --store --json` prints, but for `conversations`."""
        return {
            "ok": self.ok,
            "checkpoints": self.checkpoints,
            "objects": self.objects,
            "promised": self.promised,
            "unchanged": self.unchanged,
            "problems": [
                {
                    "object": problem.object,
                    "what": problem.what,
                    "checkpoints": list(problem.checkpoints),
                }
                for problem in self.problems
            ],
        }


def check(store: Store, *, everything: bool = False) -> CheckReport:
    """Check everything that the checkpoints of this repository depend on: what the last check found
    intact and has not changed since is not read again, except with `everything`.

    Never raises for damage. Writes the list of damaged objects: the next save stores them
    again if it has their content.
    """
    repo = store.repo
    before = Verified()
    if not everything and not damage.known(repo.common_dir):
        before = _load_verified(repo)
    run_state, report = _checked(store, before)
    if not report.ok and before.commits:
        before = Verified()  # to find all that needs what is damaged
        run_state, report = _checked(store, before)
    damage.replace(repo, run_state.damaged)
    if report.ok and not report.promised:
        commits = {bytes.fromhex(oid) for oid in run_state.links}
        objects = run_state.seen - {bytes.fromhex(repo.object_format.empty_tree)}
        directories = store.objects.stored.directories
        _save_verified(repo, directories, objects, commits | run_state.unchanged_commits)
    return report


def _checked(store: Store, before: Verified) -> tuple[_Check, CheckReport]:
    repo = store.repo
    directories = store.objects.stored.directories
    bad_files = verify.unsound_files(directories, repo.object_format, before.packs)
    run_state = _Check(repo, verify.changed_in(bad_files, repo.object_format), before)
    run_state.read_again()
    run_state.walk_refs()
    run_state.read_checkpoints()
    on_remote = run_state.drop_promised()
    problems = [*run_state.problems, *run_state.damage()]
    unreadable = verify.unshared(repo)
    if unreadable is not None:
        problems.append(StoreProblem(*unreadable))
    for path in bad_files:
        if verify.concerns(path, run_state.seen, repo.object_format):
            problems.append(
                StoreProblem(os.path.relpath(path, repo.common_dir), "does not match its checksum")
            )
    return run_state, CheckReport(
        checkpoints=len(run_state.links) + len(run_state.unchanged_commits),
        objects=len(run_state.seen) - 1,
        problems=tuple(problems),
        promised=on_remote,
        unchanged=len(before.intact),
    )


class _Link(NamedTuple):
    """A checkpoint's position in its chain."""

    id: CheckpointId
    root: Oid
    parent: Oid | None
    forked: bool


class _Part(Enum):
    """The part of a checkpoint that an object belongs to: its tree, the tree of `.gitcp`, its
    metadata, its conversation, anything else.
    """

    ROOT = auto()
    RESERVED = auto()
    METADATA = auto()
    CONVERSATION = auto()
    FILES = auto()


_Wanted = tuple[Oid, str, _Part]
"""An object to read, its kind and its part."""


def _part(above: _Part, name: bytes) -> _Part:
    if above is _Part.ROOT and name == RESERVED:
        return _Part.RESERVED
    if above is _Part.RESERVED and name in {METADATA, CONVERSATION}:
        return _Part.METADATA if name == METADATA else _Part.CONVERSATION
    return above if above is _Part.CONVERSATION else _Part.FILES


class _Check:
    """One run.

    `links` are all checkpoints, each chain from its tip. `damaged` are objects with what is
    wrong. `lost` are unreadable commits with the checkpoint after them. `doubts` are
    problems that count only if no damaged object explains them. `changed` are objects
    (raw names) that differ between packs. `unchanged_commits` are those of checkpoints
    that were intact `before`. `reserved` is the tree of `.gitcp` in each tree that was read.
    `catalogue` is the commit of the catalogue in a repository that others push to, and
    `in_catalogue` are the damaged objects that were found in it.
    """

    def __init__(self, repo: Repository, changed: frozenset[bytes], before: Verified) -> None:
        self.repo = repo
        self.changed = changed
        self.before = before
        self.unchanged_commits: frozenset[bytes] = frozenset()
        self.store = self._new_store()
        self.reserved: dict[Oid, Oid] = {}
        self.commits: dict[Oid, _Link | None] = {}
        self.links: dict[Oid, _Link] = {}
        self.loose = {
            bytes.fromhex(oid)
            for directory in self.store.objects.stored.directories
            for oid in loose.listed(directory)
        }
        # git knows the empty tree without having it
        self.seen = {bytes.fromhex(repo.object_format.empty_tree), *before.intact}
        self.problems: list[StoreProblem] = []
        self.damaged: dict[Oid, str] = {}
        self.lost: list[tuple[Oid, CheckpointId]] = []
        self.doubts: list[tuple[_Link, Oid, str]] = []
        self.sums = Sums()
        self.reaching: dict[Oid, frozenset[Oid]] = {}
        self.catalogue: Oid | None = None
        self.in_catalogue: frozenset[Oid] | set[Oid] = frozenset()

    def _new_store(self) -> Store:
        """Return a store with empty caches."""
        return Store(self.repo)

    # ------------------------------------------------------------ refs and chains

    def read_again(self) -> None:
        """Read the objects that were intact, and have been moved since."""
        wanted = [Oid(name.hex()) for name in self.before.stale]
        for oid, content in self.store.reader.read_each(wanted):
            if isinstance(content, StoreDamaged):
                self.damaged[oid] = str(content)
            elif self._has_changed(name := bytes.fromhex(oid)):
                self.damaged[oid] = "a bit of its file changed"
            else:
                self.seen.add(name)

    def walk_refs(self) -> None:
        """Read every ref and every commit that refs reach."""
        scan = verify.read_refs(self.repo, refs.PREFIX)
        tips = refs.tips(scan.refs)
        self._read_catalogue(scan.refs.get(refs.CATALOGUE))
        self._read_commits(frozenset(tips.values()))
        for ref, problem in scan.faults:
            self.problems.append(StoreProblem(ref, problem, tuple(map(_format_id, _last_id(ref)))))
        for name, oid in tips.items():
            if not name.startswith(FOLDERS):
                self._report(name, "is not a ref of gitcp's")
            tip = self._peel(name, oid)
            if tip is None:
                continue
            if scan.peeled.get(name, tip) != tip:
                self._report("packed-refs", f"has {name} at {scan.peeled[name]} instead of {tip}")
            self._walk_chain(name, tip)
            session = _session_of(name)
            link = self.links.get(tip) or self.commits.get(tip)
            if link is not None and session is not None and link.id.session != session:
                problem = f"points to {link.id}, a checkpoint of another session"
                self._report(name, problem, link)
        for name, oid in scan.near.items():
            if _is_checkpoint(self.store, oid):
                self._report(
                    "packed-refs",
                    f"{name} points to a checkpoint and is one letter away from {refs.PREFIX}",
                )

    def _read_catalogue(self, commit: Oid | None) -> None:
        """Read the catalogue that others' pushes wrote, with its earlier versions, which it has
        where the host lets refs move only forward.
        """
        before = set(self.damaged)
        self.catalogue = commit
        while commit is not None and bytes.fromhex(commit) not in self.seen:
            data = self._read(commit, "commit") or b""
            tree, parent = CATALOGUE_TREE.match(data), CATALOGUE_PARENT.search(data)
            if tree is not None:
                self._read_below([Oid(tree[1].decode())])
            elif data:
                self.damaged[commit] = "the commit has no tree"
            commit = Oid(parent[1].decode()) if parent else None
        self.in_catalogue = self.damaged.keys() - before

    def _peel(self, name: str, oid: Oid) -> Oid | None:
        """Return the commit of a ref, None if it cannot be read. A tag object must have the ref's
        name.
        """
        folder, _, last = name.rpartition("/")
        if not folder.endswith("/tags") and "/fetched-tags/" not in folder:
            return oid
        try:
            if self.store.reader.read(oid)[0] == "commit":
                return oid
        except StoreDamaged:
            pass  # recorded by the next line
        data = self._read(oid, "tag")
        if data is None:
            return None
        fields = dict(line.partition(b" ")[::2] for line in data.partition(b"\n\n")[0].split(b"\n"))
        if fields.get(b"tag") != last.encode("utf-8", "surrogateescape"):
            self._report(name, "points to a tag object with another name")
        target = fields.get(b"object", b"").decode("ascii", "replace")
        if refs.HEX.match(target):
            return Oid(target)
        self.damaged[oid] = "the tag has no object"
        return None

    def _walk_chain(self, name: str, tip: Oid) -> None:
        after: _Link | None = None
        oid: Oid | None = tip
        while oid is not None:
            link = self.links.get(oid)
            visited = link is not None
            link = link or self._link(oid)
            if link is None:
                self.lost += (
                    [(oid, after.id)] if after else [(oid, last) for last in _last_id(name)]
                )
                return
            if after is not None:
                self._compare(after, link)
            if visited or bytes.fromhex(oid) in self.unchanged_commits:
                return
            self.links[oid] = after = link
            oid = link.parent

    def _read_commits(self, tips: frozenset[Oid]) -> None:
        """Read the tips and the new commits that git lists; one that it does not list is read when
        it is reached.
        """
        try:
            listed = self.repo.git("rev-list", "--stdin", input="\n".join(tips).encode())
        except GitFailed:  # git lists all or nothing
            return
        every = [Oid(line.decode()) for line in listed.splitlines()]
        self.unchanged_commits = self.before.commits.intersection(map(bytes.fromhex, every))
        new = [
            oid for oid in every if oid in tips or bytes.fromhex(oid) not in self.unchanged_commits
        ]
        commits = dict.fromkeys(new, "commit")
        for oid, _, data in self._read_each(commits):
            self.commits[oid] = self._parsed(oid, data)

    def _link(self, oid: Oid) -> _Link | None:
        if oid in self.commits:
            return self.commits[oid]
        data = None if oid in self.damaged else self._read(oid, "commit")
        return None if data is None else self._parsed(oid, data)

    def _parsed(self, oid: Oid, data: bytes) -> _Link | None:
        try:
            summary = parse_summary(oid, data)
        except StoreDamaged as error:
            self.damaged[oid] = str(error)
            return None
        return _Link(
            summary.id, summary.root, summary.parent, "Gitcp-Forked-From" in summary.trailers
        )

    def _compare(self, link: _Link, parent: _Link) -> None:
        if parent.id.number >= link.id.number:
            self._report(str(link.id), f"comes after {parent.id}: numbers must increase", link)
        if parent.id.session != link.id.session and not link.forked:
            self._report(
                str(link.id),
                f"comes after {parent.id} of another session without being a fork",
                link,
            )

    # ------------------------------------------------------------ contents of checkpoints

    def read_checkpoints(self) -> None:
        """Read the content of every checkpoint, oldest first, since later ones build on earlier
        ones.
        """
        links = progress.each(
            reversed(self.links.items()), "checking", "checkpoints", len(self.links)
        )
        session = None
        while some := dict(islice(links, BATCH)):
            self.store, self.reserved = self._new_store(), {}
            self._read_below(link.root for link in some.values())
            for oid, link in some.items():
                if link.id.session != session:
                    session, self.sums = link.id.session, Sums()
                checkpoint = self._checkpoint(oid, link)
                if checkpoint is not None and checkpoint.conversation is not None:
                    self._conversation(link, checkpoint.conversation)
                if checkpoint is not None:
                    self._segments(link, checkpoint)
                    self._states(link, checkpoint)

    def _read_below(self, roots: Iterable[Oid]) -> None:
        """Read all objects of trees that have not been read yet. The trees that their checkpoints
        are decoded from can then be read from the store's cache.
        """
        unread = [root for root in roots if bytes.fromhex(root) not in self.seen]
        pending: list[_Wanted] = [(root, "tree", _Part.ROOT) for root in unread]
        left = HELD
        while pending:
            some = pending[-MOST:]
            del pending[-MOST:]
            parts = {oid: part for oid, _, part in some}
            for oid, kind, data in self._read_each({oid: kind for oid, kind, _ in some}):
                part = parts[oid]
                is_held = left > 0 and part is not _Part.ROOT and part is not _Part.FILES
                if kind == "blob":
                    continue
                entries = self._raw_entries(oid, data)
                pending += self._not_seen(oid, entries, part)
                if is_held and entries:
                    self.store.reader.cache_tree(oid, trees.decoded(entries), stored=True)
                    left -= PARSED * len(data)

    def _raw_entries(self, oid: Oid, data: bytes) -> list[tuple[bytes, bytes, bytes]]:
        """Return the entries of a tree; none if it is invalid, which is recorded."""
        try:
            return trees.raw_entries(data, self.repo.object_format)
        except StoreDamaged as error:
            self.damaged[oid] = str(error)
            return []

    def _not_seen(
        self, oid: Oid, entries: list[tuple[bytes, bytes, bytes]], part: _Part
    ) -> Iterator[_Wanted]:
        """Yield what is in a tree and was not seen before, to be read now."""
        if part is _Part.CONVERSATION and len({name for _, name, _ in entries}) < len(entries):
            self.damaged[oid] = "the tree has two entries of one name"
        seen = self.seen
        for mode, name, raw in [entry for entry in entries if entry[2] not in seen]:
            child, number = Oid(raw.hex()), int(mode, 8)
            below = part if part is _Part.FILES else _part(part, name)
            if below is _Part.RESERVED and number == TREE:
                self.reserved[oid] = child
            if trees.is_content(number):
                seen.add(raw)
                yield child, "tree" if number == TREE else "blob", below

    def _entries(self, oid: Oid, data: bytes) -> Iterator[trees.TreeEntry]:
        try:
            yield from (
                entry
                for entry in trees.parse(data, self.repo.object_format)
                if trees.is_content(entry.mode)
            )
        except StoreDamaged as error:
            self.damaged[oid] = str(error)

    def _read(self, oid: Oid, kind: str) -> bytes | None:
        """Return an object's content. Record the damage and return None if it
        does not match its name and kind.
        """
        return next((data for _, _, data in self._read_each({oid: kind})), None)

    def _read_each(self, kinds: Mapping[Oid, str]) -> Iterator[tuple[Oid, str, bytes]]:
        """Yield objects that are to have these kinds, with their content. Record the damage of all
        that do not match their names and kinds.
        """
        for oid, content in self.store.reader.read_each(kinds):
            self.seen.add(name := bytes.fromhex(oid))
            kind = kinds[oid]
            if isinstance(content, StoreDamaged):
                self.damaged[oid] = f"the {kind} {str(content).removeprefix(f'object {oid} ')}"
            elif content[0] != kind:
                self.damaged[oid] = f"is a {content[0]} instead of a {kind}"
            else:
                if self._has_changed(name):
                    self.damaged[oid] = (
                        f"a bit of the {kind}'s file changed; its content is still readable"
                    )
                yield oid, kind, content[1]

    def _has_changed(self, name: bytes) -> bool:
        """Return whether a bit of the file of an object (raw name) changed that does not matter."""
        if name in self.changed:
            return True
        directories = self.store.objects.stored.directories
        return name in self.loose and loose.has_stray_bit(directories, Oid(name.hex()))

    def _checkpoint(self, oid: Oid, link: _Link) -> Checkpoint | None:
        try:
            reserved = self.reserved.get(link.root)
            checkpoint = (
                self.store.decode(oid, link.root, link.parent, reserved)
                if reserved
                else self.store.read(oid)
            )
        except StoreDamaged as error:
            self.doubts.append((link, oid, str(error)))
            return None
        if checkpoint.id != link.id:
            self._report(
                oid, f"has the metadata of {checkpoint.id} and the commit of {link.id}", link
            )
        return checkpoint

    def _conversation(self, link: _Link, conversation: Conversation) -> None:
        for stream in conversation.streams:
            try:
                actual = self._join(conversation.tree, stream)
            except StoreDamaged as error:
                self.doubts.append((link, conversation.tree, str(error)))
                continue
            if actual != (stream.bytes, stream.sha256):
                problem = f"stream {stream.name} ({actual[0]} bytes) does not match its checksum"
                self._report(conversation.tree, problem, link)

    def _states(self, link: _Link, checkpoint: Checkpoint) -> None:
        """Check the states outside the files as streams: their size and checksum."""
        recorded = checkpoint.states
        if recorded is None or recorded.tree is None:
            return
        for state in recorded.stored:
            stream = Stream(state.name, state.bytes, state.sha256)
            try:
                actual = self._join(recorded.tree, stream, "state ")
            except StoreDamaged as error:
                self.doubts.append((link, recorded.tree, str(error)))
                continue
            if actual != (state.bytes, state.sha256):
                problem = f"state {state.name} ({actual[0]} bytes) does not match its checksum"
                self._report(recorded.tree, problem, link)

    def _segments(self, link: _Link, checkpoint: Checkpoint) -> None:
        """Check that segments are where their pointers need them; their blobs are read already."""
        try:
            for path in self.store.lost_segments(checkpoint):
                self._report(checkpoint.root, f"lacks the segments of {display(path)}", link)
        except StoreDamaged as error:
            self.doubts.append((link, checkpoint.root, str(error)))

    def _join(self, tree: Oid, stream: Stream, kind: str = "") -> tuple[int, str]:
        """Return the size and checksum of a stream, read completely. `kind` sets the sums of its
        name apart.
        """
        entry = trees.lookup(
            self.store.reader, tree, stream.name.encode("utf-8", "surrogateescape")
        )
        if entry is None or entry.mode != TREE:
            raise StoreDamaged(f"stream {stream.name} is missing")
        return self.sums.of_tree(self.store.reader, kind + stream.name, entry.oid, stream.bytes)

    # ------------------------------------------------------------ problems

    def drop_promised(self) -> int:
        """Discard missing objects that a partial clone's remote has promised; return their
        number.
        """
        missing = [oid for oid, problem in self.damaged.items() if problem.endswith(" is missing")]
        if not missing or not promised.is_all_that_is_missing(
            self.repo, [*self.links, *filter(None, [self.catalogue])]
        ):
            return 0
        for oid in missing:
            del self.damaged[oid]
        return len(missing)

    def _report(self, object_name: str, problem: str, link: _Link | None = None) -> None:
        self.problems.append(StoreProblem(object_name, problem, (str(link.id),) if link else ()))

    def damage(self) -> Iterator[StoreProblem]:
        """Yield the damaged objects with the checkpoints that need them, then all other
        problems.
        """
        affected: dict[Oid, set[CheckpointId]] = {oid: set() for oid in self.damaged}
        for oid, link in self.links.items():
            for damaged in self._damaged_below(oid, link):
                affected[damaged].add(link.id)
        for oid, after in self.lost:
            affected[oid] |= self._lost_before(after)
        for damaged, problem in self.damaged.items():
            suffix = "; the catalogue of sessions needs it" if damaged in self.in_catalogue else ""
            checkpoints = tuple(map(_format_id, sorted(affected[damaged])))
            yield StoreProblem(damaged, problem + suffix, checkpoints)
        for link, object_id, problem in self.doubts:
            if not self._damaged_below(object_id, link):
                yield StoreProblem(object_id, problem, (str(link.id),))

    def _damaged_below(self, commit: Oid, link: _Link) -> frozenset[Oid]:
        if not self.damaged:
            return frozenset()
        return self._reached(link.root) | (self.damaged.keys() & {commit})

    def _reached(self, root: Oid) -> frozenset[Oid]:
        """Return the damaged objects below a tree. Not recursive: a hostile tree can be deep."""
        stack = [root]
        while stack:
            oid = stack[-1]
            entries = [] if oid in self.reaching else list(self._below(oid))
            subtrees = [entry.oid for entry in entries if entry.mode == TREE]
            waiting = [tree for tree in subtrees if tree not in self.reaching]
            if waiting:
                stack += waiting
                continue
            stack.pop()
            if oid not in self.reaching:
                damaged_here = self.damaged.keys() & {oid, *(entry.oid for entry in entries)}
                self.reaching[oid] = frozenset(damaged_here).union(
                    *(self.reaching[tree] for tree in subtrees)
                )
        return self.reaching[root]

    def _below(self, oid: Oid) -> Iterator[trees.TreeEntry]:
        try:
            yield from self._entries(oid, self.store.reader.read(oid)[1])
        except StoreDamaged:
            return

    def _lost_before(self, after: CheckpointId) -> set[CheckpointId]:
        """Return the checkpoints that only an unreadable commit leads to."""
        if after.number == UNKNOWN:
            return {after}
        numbers = range(max(1, after.number - MOST_LOST), after.number)
        return {CheckpointId(after.session, n) for n in numbers} - {
            link.id for link in self.links.values()
        }


def _session_of(ref: str) -> str | None:
    """Return the session that a ref must point to, None if its name does not tell."""
    folder, _, name = ref.rpartition("/")
    is_session = folder.endswith("/sessions") or folder.startswith(refs.SHARED)
    return name if is_session else None


def _last_id(ref: str) -> list[CheckpointId]:
    session = _session_of(ref)
    return [CheckpointId(session, UNKNOWN)] if session else []


def _format_id(id: CheckpointId) -> str:
    return f"{id.session}@{id.number or ''}"


def _is_checkpoint(store: Store, oid: Oid) -> bool:
    try:
        store.summary(store.peel(oid))
    except StoreDamaged:
        return False
    return True


class Verified(Value):
    """What the last `check` read and found intact, so that the next one reads only the rest: the
    commits (raw names) of checkpoints, whose objects are `intact`, in `packs` that have not changed
    since, or `stale`, to be read again.

    What is below a commit never changes, so a checkpoint is intact as long as its objects are. An
    object is, while its pack has the checksum that it had and the bytes match it. Loose objects are
    few, and are read each time.
    """

    commits: frozenset[bytes] = frozenset()
    intact: frozenset[bytes] = frozenset()
    stale: frozenset[bytes] = frozenset()
    packs: frozenset[Path] = frozenset()


def _load_verified(repo: Repository) -> Verified:
    """Return what was recorded, and is still true. Reads the packs that were touched since."""
    known = trusted_cache.load(str(repo.store_dir / NAME))
    try:
        commits, loose, packs = known
        return _judged(repo.object_format, commits, loose, packs)
    except (TypeError, ValueError):
        return Verified()


def _save_verified(
    repo: Repository,
    directories: Iterable[Path],
    objects: Collection[bytes],
    commits: Iterable[bytes],
) -> None:
    """Record that these objects in the objects directories, and these checkpoints, are intact (raw
    names). A failure is ignored: all of it is read again next time.
    """
    left, packs = set(objects), []
    for directory in directories:
        for index in indexes(directory, repo.object_format):
            with suppress(OSError, StoreDamaged):
                names = left.intersection(index.names())
                left -= names
                path, checksum = index.pack, _checksum(index.pack, repo.object_format)
                packs.append((str(path), fingerprint.at(str(path)), checksum, _joined(names)))
    with suppress(OSError, ValueError):
        value = (_joined(commits), _joined(left), packs)
        replace_cache(repo.store_dir / NAME, value)


def _judged(
    object_format: ObjectFormat,
    commits: bytes,
    loose: bytes,
    packs: list[tuple[str, fingerprint.Fingerprint, bytes, bytes]],
) -> Verified:
    intact, stale, unchanged = set[bytes](), set(_split(loose, object_format)), set[Path]()
    for name, stamp, checksum, names in packs:
        path = Path(name)
        is_untouched = stamp is not None and fingerprint.at(name) == stamp
        is_same = is_untouched or _has_same_bytes(path, checksum, object_format)
        if is_same and path.with_suffix(".idx").exists():
            unchanged.add(path)
            intact.update(_split(names, object_format))
        else:
            stale.update(_split(names, object_format))
    return Verified(
        frozenset(_split(commits, object_format)),
        frozenset(intact),
        frozenset(stale - intact),
        frozenset(unchanged),
    )


def _has_same_bytes(path: Path, checksum: bytes, object_format: ObjectFormat) -> bool:
    """Return whether a pack was only touched, as those are whose objects a save uses again. A
    missing file is no pack.
    """
    try:
        return _checksum(path, object_format) == checksum and verify.is_sound(path, object_format)
    except OSError:
        return False


def _checksum(path: Path, object_format: ObjectFormat) -> bytes:
    with path.open("rb") as file:
        file.seek(-object_format.raw, 2)
        return file.read()


def _joined(names: Iterable[bytes]) -> bytes:
    return b"".join(sorted(names))


def _split(names: bytes, object_format: ObjectFormat) -> Iterator[bytes]:
    size = object_format.raw
    return (names[start : start + size] for start in range(0, len(names), size))
