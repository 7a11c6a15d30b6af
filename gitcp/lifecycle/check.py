"""Check: every checkpoint of every gitcp ref is read whole, and what cannot be read is named, with
whom it affects.

Each commit, tree and blob is read and hashed again, once; the streams of a conversation are joined
and compared with their checksums; numbers, parents and names must agree; refs, packs and indexes
must be what was written. Everything that is wrong is collected: the first damage stops nothing.
Nothing is repaired, but what is found is written down (gitcp.git.damage), so that the next save
trusts none of it.

Memory: 20 bytes an object, a blob at a time, and what a listing says of each checkpoint.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import NamedTuple

from gitcp.conversation import segments
from gitcp.conversation.sums import Sums
from gitcp.errors import StoreDamaged
from gitcp.git import damage, promised, refs, trees, verify
from gitcp.git.repo import Repository
from gitcp.git.trees import EMPTY_TREE
from gitcp.model import TREE, Checkpoint, CheckpointId, Conversation, Oid, Stream
from gitcp.store import Store
from gitcp.value import Value

Progress = Callable[[int, int], None]

RENEWED = 128
"""So many checkpoints are read with one reader, since a reader remembers every tree it read."""

FOLDERS = tuple(refs.PREFIX + folder for folder in ("sessions/", "tags/", "remotes/", "trash/"))
MOST_LOST = 1000
UNKNOWN = 0
"""The number of a checkpoint whose commit cannot be read: only the commit says it."""


class Problem(Value):
    """One thing that is wrong: an object, a ref or a file of the git directory, what is wrong, and
    whom it affects.

    `checkpoints` are ids. `SESSION@` is the last one of a session whose commit cannot be read, so
    that its number is not known. A commit that cannot be read takes those before it along, unless
    another ref reaches them.
    """

    object: str
    what: str
    checkpoints: tuple[str, ...] = ()


class CheckReport(Value):
    """How many checkpoints and objects there were to read, and everything that was wrong.

    `promised` are those of the objects that in a partial clone only a remote has.
    """

    checkpoints: int
    objects: int
    problems: tuple[Problem, ...]
    promised: int = 0

    @property
    def ok(self) -> bool:
        return not self.problems


def check(store: Store, progress: Progress | None = None) -> CheckReport:
    """Read everything that the checkpoints of this repository depend on; `progress` gets (done,
    all) of them.

    Damage raises nothing, whatever is damaged. Writes one file, the list of the objects that are
    damaged: the next save stores those anew whose content it finds.
    """
    repo = store.repo
    unsound = verify.unsound_files(store.objects)
    run = _Check(repo, verify.changed_in(unsound))
    run.walk_refs()
    run.read_checkpoints(progress)
    elsewhere = run.let_go_of_promised()
    problems = [*run.problems, *run.damage()]
    damage.replace(repo, run.damaged)
    hidden = verify.unshared(repo)
    if hidden is not None:
        problems.append(Problem(*hidden))
    for path in unsound:
        if verify.concerns(path, run.seen):
            problems.append(
                Problem(os.path.relpath(path, repo.common_dir), "does not match its checksum")
            )
    return CheckReport(len(run.links), len(run.seen) - 1, tuple(problems), elsewhere)


class _Link(NamedTuple):
    """What is kept of each checkpoint."""

    id: CheckpointId
    root: Oid
    parent: Oid | None
    forked: bool


class _Check:
    """One run: what was read, and what was wrong with it.

    `links` are all checkpoints, each chain from its end. `damaged` says of an object what is wrong
    with it. `lost` are commits that cannot be read, with the checkpoint behind which they lie.
    `doubts` are problems that count only where no damaged object explains them. `changed` are
    objects (20-byte names) that a pack has other bytes of.
    """

    def __init__(self, repo: Repository, changed: frozenset[bytes]) -> None:
        self.repo = repo
        self.changed = changed
        self.reader = self._new_reader()
        self.links: dict[Oid, _Link] = {}
        self.seen: set[bytes] = {bytes.fromhex(EMPTY_TREE)}  # git knows it without having it
        self.problems: list[Problem] = []
        self.damaged: dict[Oid, str] = {}
        self.lost: list[tuple[Oid, CheckpointId]] = []
        self.doubts: list[tuple[_Link, Oid, str]] = []
        self.sums = Sums()
        self.reaching: dict[Oid, frozenset[Oid]] = {}

    def _new_reader(self) -> Store:
        """A store that remembers nothing yet."""
        return Store(self.repo)

    # ------------------------------------------------------------ refs and chains

    def walk_refs(self) -> None:
        """Read every ref and every commit that refs reach."""
        found = verify.read_refs(self.repo.common_dir, refs.PREFIX)
        for place, what in found.faults:
            self.problems.append(Problem(place, what, tuple(map(_shown, _last_of(place)))))
        for name, oid in found.refs.items():
            if not name.startswith(FOLDERS):
                self._wrong(name, "is no ref that gitcp makes")
            tip = self._peel(name, oid)
            if tip is None:
                continue
            if found.peeled.get(name, tip) != tip:
                self._wrong(
                    "packed-refs", f"says that {name} is on {found.peeled[name]} and not on {tip}"
                )
            self._walk_chain(name, tip)
            session = _session_of(name)
            if tip in self.links and session is not None and self.links[tip].id.session != session:
                self._wrong(
                    name,
                    f"is on {self.links[tip].id}, a checkpoint of another session",
                    self.links[tip],
                )
        for name, oid in found.near.items():
            if _is_checkpoint(self.reader, oid):
                self._wrong(
                    "packed-refs",
                    f"{name} is on a checkpoint, and one letter away from {refs.PREFIX}",
                )

    def _peel(self, name: str, oid: Oid) -> Oid | None:
        """The commit that a ref is on, None where that cannot be read. A tag object must be the
        ref's own.
        """
        folder, _, last = name.rpartition("/")
        if not folder.endswith("/tags"):
            return oid
        try:
            if self.reader.objects.read(oid)[0] == "commit":
                return oid
        except StoreDamaged:
            pass  # said by the next line
        data = self._read(oid, "tag")
        if data is None:
            return None
        fields = dict(line.partition(b" ")[::2] for line in data.partition(b"\n\n")[0].split(b"\n"))
        if fields.get(b"tag") != last.encode("utf-8", "surrogateescape"):
            self._wrong(name, "holds a tag that was made under another name")
        target = fields.get(b"object", b"").decode("ascii", "replace")
        if refs.HEX.match(target):
            return Oid(target)
        self.damaged[oid] = "the tag names no object"
        return None

    def _walk_chain(self, name: str, tip: Oid) -> None:
        after: _Link | None = None
        oid: Oid | None = tip
        while oid is not None:
            link = self.links.get(oid)
            known = link is not None
            link = link or self._link(oid)
            if link is None:
                self.lost += (
                    [(oid, after.id)] if after else [(oid, last) for last in _last_of(name)]
                )
                return
            if after is not None:
                self._compare(after, link)
            if known:
                return
            self.links[oid] = after = link
            oid = link.parent

    def _link(self, oid: Oid) -> _Link | None:
        if self._read(oid, "commit") is None:
            return None
        try:
            summary = self.reader.summary(oid)
        except StoreDamaged as error:
            self.damaged[oid] = str(error)
            return None
        return _Link(
            summary.id, summary.root, summary.parent, "Gitcp-Forked-From" in summary.trailers
        )

    def _compare(self, link: _Link, parent: _Link) -> None:
        if parent.id.number >= link.id.number:
            self._wrong(str(link.id), f"comes after {parent.id}: numbers must rise", link)
        if parent.id.session != link.id.session and not link.forked:
            self._wrong(
                str(link.id),
                f"comes after {parent.id}, of another session, and is no fork of it",
                link,
            )

    # ------------------------------------------------------------ what checkpoints hold

    def read_checkpoints(self, progress: Progress | None) -> None:
        """Read what every checkpoint holds, the older ones first, since the later ones go on from
        them.
        """
        session = None
        for number, (oid, link) in enumerate(reversed(self.links.items())):
            if number % RENEWED == 0:
                self.reader = self._new_reader()
            if link.id.session != session:
                session = link.id.session
                self.sums = Sums()
            self._read_below(link.root)
            checkpoint = self._checkpoint(oid, link)
            if checkpoint is not None and checkpoint.conversation is not None:
                self._conversation(link, checkpoint.conversation)
            if progress is not None:
                progress(number + 1, len(self.links))

    def _read_below(self, root: Oid) -> None:
        """Read every object of a tree that was not read yet."""
        queue = [(root, "tree")]
        while queue:
            oid, kind = queue.pop()
            if bytes.fromhex(oid) in self.seen:
                continue
            data = self._read(oid, kind)
            if data is not None and kind == "tree":
                queue += [
                    (e.oid, "tree" if e.mode == TREE else "blob") for e in self._entries(oid, data)
                ]

    def _entries(self, oid: Oid, data: bytes) -> Iterator[trees.TreeEntry]:
        try:
            yield from (entry for entry in trees.parse(data) if trees.is_content(entry.mode))
        except StoreDamaged as error:
            self.damaged[oid] = str(error)

    def _read(self, oid: Oid, kind: str) -> bytes | None:
        """An object's content; None, and what is wrong is noted, where it is not what its name and
        its place say.
        """
        self.seen.add(bytes.fromhex(oid))
        try:
            found, data = self.reader.objects.read(oid)
        except StoreDamaged as error:
            self.damaged[oid] = f"the {kind} {str(error).removeprefix(f'object {oid} ')}"
            return None
        if found != kind:
            self.damaged[oid] = f"is a {found} where a {kind} should be"
            return None
        if bytes.fromhex(oid) in self.changed or self.reader.objects.has_stray_bit(oid):
            self.damaged[oid] = (
                f"a bit of the {kind}'s file was changed; what it holds can still be read"
            )
        return data

    def _checkpoint(self, oid: Oid, link: _Link) -> Checkpoint | None:
        try:
            checkpoint = self.reader.read(oid)
        except StoreDamaged as error:
            self.doubts.append((link, oid, str(error)))
            return None
        if checkpoint.id != link.id:
            self._wrong(
                oid, f"its metadata is that of {checkpoint.id}, its commit that of {link.id}", link
            )
        return checkpoint

    def _conversation(self, link: _Link, conversation: Conversation) -> None:
        for stream in conversation.streams:
            try:
                whole = self._join(conversation.tree, stream)
            except StoreDamaged as error:
                self.doubts.append((link, conversation.tree, str(error)))
                continue
            if whole != (stream.bytes, stream.sha256):
                what = f"stream {stream.name} has {whole[0]} bytes that do not match its checksum"
                self._wrong(conversation.tree, what, link)

    def _join(self, tree: Oid, stream: Stream) -> tuple[int, str]:
        """The size and checksum of a stream that is read whole."""
        place = trees.lookup(
            self.reader.objects, tree, stream.name.encode("utf-8", "surrogateescape")
        )
        if place is None or place.mode != TREE:
            raise StoreDamaged(f"stream {stream.name} is missing")
        found = segments.read_segments(self.reader.objects, place.oid, stream.bytes)
        return self.sums.of(self.reader.objects, stream.name, found)

    # ------------------------------------------------------------ what is wrong

    def let_go_of_promised(self) -> int:
        """What is missing is no damage in a partial clone, if a remote has promised all of it. How
        many objects.
        """
        missing = [oid for oid, what in self.damaged.items() if what.endswith(" is missing")]
        if not missing or not promised.is_all_that_is_missing(self.repo, self.links):
            return 0
        for oid in missing:
            del self.damaged[oid]
        return len(missing)

    def _wrong(self, place: str, what: str, link: _Link | None = None) -> None:
        self.problems.append(Problem(place, what, (str(link.id),) if link else ()))

    def damage(self) -> Iterator[Problem]:
        """The damaged objects, each with the checkpoints that need it; then what no damaged object
        explains.
        """
        affected: dict[Oid, set[CheckpointId]] = {oid: set() for oid in self.damaged}
        for oid, link in self.links.items():
            for damaged in self._damaged_below(oid, link):
                affected[damaged].add(link.id)
        for oid, after in self.lost:
            affected[oid] |= self._lost_before(after)
        for damaged, what in self.damaged.items():
            yield Problem(damaged, what, tuple(map(_shown, sorted(affected[damaged]))))
        for link, place, what in self.doubts:
            if not self._damaged_below(place, link):
                yield Problem(place, what, (str(link.id),))

    def _damaged_below(self, commit: Oid, link: _Link) -> frozenset[Oid]:
        """What is damaged of all that a checkpoint needs."""
        if not self.damaged:
            return frozenset()
        return self._reached(link.root) | (self.damaged.keys() & {commit})

    def _reached(self, root: Oid) -> frozenset[Oid]:
        """The damaged objects below a tree. Trees are few levels deep or hostile, so that this does
        not recurse.
        """
        stack = [root]
        while stack:
            oid = stack[-1]
            entries = [] if oid in self.reaching else list(self._below(oid))
            below = [entry.oid for entry in entries if entry.mode == TREE]
            waiting = [tree for tree in below if tree not in self.reaching]
            if waiting:
                stack += waiting
                continue
            stack.pop()
            if oid not in self.reaching:
                here = self.damaged.keys() & {oid, *(entry.oid for entry in entries)}
                self.reaching[oid] = frozenset(here).union(*(self.reaching[tree] for tree in below))
        return self.reaching[root]

    def _below(self, oid: Oid) -> Iterator[trees.TreeEntry]:
        try:
            yield from self._entries(oid, self.reader.objects.read(oid)[1])
        except StoreDamaged:
            return

    def _lost_before(self, after: CheckpointId) -> set[CheckpointId]:
        """The checkpoints of a session that only a commit that cannot be read could lead to."""
        if after.number == UNKNOWN:
            return {after}
        numbers = range(max(1, after.number - MOST_LOST), after.number)
        return {CheckpointId(after.session, n) for n in numbers} - {
            link.id for link in self.links.values()
        }


def _session_of(ref: str) -> str | None:
    """The session that a ref must be on; None where its name says nothing about that."""
    folder, _, name = ref.rpartition("/")
    return name if folder.endswith("/sessions") else None


def _last_of(ref: str) -> list[CheckpointId]:
    session = _session_of(ref)
    return [CheckpointId(session, UNKNOWN)] if session else []


def _shown(id: CheckpointId) -> str:
    return f"{id.session}@{id.number or ''}"


def _is_checkpoint(store: Store, oid: Oid) -> bool:
    try:
        store.summary(store.peel(oid))
    except StoreDamaged:
        return False
    return True
