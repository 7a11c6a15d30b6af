"""Publish: a session as an ordinary branch, from which a pull request can be opened. A plan, then
an apply.

On top of a base there is one commit for each checkpoint that changed files, and a last one with
what was said, as Markdown below `.gitcp/`, which forges fold. HEAD, the index and the working tree
stay as they are.

Where the base is another commit than the session stood on, each changed path is carried over as it
is; a path that the base changed otherwise is not merged, and stops the whole.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

from gitcp.errors import BadValue, Refused
from gitcp.git import trees, worktrees
from gitcp.history import show
from gitcp.model import (
    FILE,
    GITLINK,
    RESERVED,
    Checkpoint,
    CheckpointId,
    Entry,
    FileChange,
    Oid,
    SkipReason,
)
from gitcp.restoring import trust
from gitcp.review import links
from gitcp.secrets import checkpoint_scan
from gitcp.secrets.checkpoint_scan import Finding, Sieve
from gitcp.sharing import markdown
from gitcp.state import oplog
from gitcp.store import Store, subject
from gitcp.value import Value
from gitcp.worktree.paths import display

FOLDED = b"* linguist-generated gitlab-generated\n"
"""Says to forges that nobody wrote this by hand."""

NOTHING = "no branch was made"

Files = dict[bytes, Entry]


class Request(Value):
    """What to publish: the session up to a checkpoint, as which branch, on top of which commit
    (None: where it began).

    `redact` replaces secrets in files, but for those in `allowed`; in what was said they are always
    replaced.
    """

    checkpoint: Checkpoint
    branch: str
    base: str | None = None
    force: bool = False
    trust: bool = False
    allowed: frozenset[str] = frozenset()
    redact: bool = False


class Commit(Value):
    """One commit of the branch: of which checkpoint (None: of the conversation), what it says, how
    many files it changes, and what it is.
    """

    checkpoint: CheckpointId | None
    subject: str
    files: int
    commit: Oid


class Plan(Value):
    """The branch as it would be. `old` is where it is now; `masked` counts the secrets replaced in
    what was said.
    """

    request: Request
    base: Oid
    commits: tuple[Commit, ...]
    old: Oid | None
    masked: int

    @property
    def tip(self) -> Oid:
        """Where the branch would be."""
        return self.commits[-1].commit if self.commits else self.base


def plan(store: Store, request: Request) -> Plan:
    """Make the commits, which nothing names yet.

    Writes objects; `publish` makes them visible. Raises Refused for a branch that exists or is
    checked out, and for paths that the base changed too; SecretsFound for files that may not leave;
    NotTrusted for what came from others.
    """
    trust.require(store, request.checkpoint, trusted=request.trust)
    old = worktrees.check_movable(store.repo, request.branch, force=request.force)
    chain = [store.read(summary.commit) for summary in store.history(request.checkpoint.commit)][
        ::-1
    ]
    base = _base(store, request, chain)
    try:
        branch = _Branch(store, request, base, _stood_on(store, chain, base))
        branch.carried(request.checkpoint)  # what stands in the way is said at once
        branch.know(chain)
        for checkpoint in chain:
            branch.add(checkpoint)
        masked = branch.tell(request.checkpoint)
    except BaseException:
        store.objects.discard()
        raise
    if branch.found and not request.redact:
        store.objects.discard()
        raise checkpoint_scan.refused(branch.found, NOTHING)
    return Plan(request, base, tuple(branch.commits), old, masked)


def publish(store: Store, agreed: Plan) -> None:
    """Make the branch, or move it from where the plan saw it. Writes one ref outside of gitcp's,
    and the oplog.

    Raises Refused if the branch moved meanwhile.
    """
    name = agreed.request.branch
    try:
        store.objects.flush(held=True)
        if not worktrees.set_branch(store.repo, name, agreed.tip, agreed.old):
            raise Refused(
                f"branch {name} moved meanwhile: it was left as it is",
                hint="look at it, and try again",
            )
    finally:
        store.objects.let_go()
    oplog.record(
        store.repo,
        "publish",
        f"{agreed.request.checkpoint.id} as {name}",
        checkpoints=(agreed.request.checkpoint.id,),
    )


def _base(store: Store, request: Request, chain: list[Checkpoint]) -> Oid:
    if request.base is not None:
        named = links.commit(store.repo, request.base)
        if named is None:
            raise BadValue(
                f"{request.base} names no commit here: no branch was made", hint="git log"
            )
        return named
    began = chain[0].snapshot.base.commit
    if began is None or not store.objects.exists(began):
        raise Refused(
            f"the commit that session {request.checkpoint.id.session} began on is not here: no "
            "branch was made",
            hint="--base REV",
        )
    return began


def _stood_on(store: Store, chain: list[Checkpoint], base: Oid) -> Oid:
    """The commit from which what the session did is counted: the last one that it has in common
    with the base.
    """
    last = chain[-1].snapshot.base.commit
    if last is None or not store.objects.exists(last):
        return base
    return links.merge_base(store.repo, base, last) or base


def _files_of(store: Store, commit: Oid) -> Files:
    tree = Oid(store.objects.read_commit(commit)[5:45].decode("ascii"))
    return dict(trees.walk(store.objects, tree))


class _Branch:
    """The branch as it grows: the files at its end, and its commits."""

    def __init__(self, store: Store, request: Request, base: Oid, stood_on: Oid) -> None:
        self.store = store
        self.request = request
        self.sieve = Sieve(request.allowed)
        self.clean: Callable[[str], str] = str
        self.base = _files_of(store, base)
        self.origin = self.base if stood_on == base else _files_of(store, stood_on)
        self.files = self.base
        self.tip = base
        self.commits: list[Commit] = []
        self.found: list[Finding] = []
        self.known: dict[Oid, Oid] = {entry.oid: entry.oid for entry in self.base.values()}

    def know(self, chain: Sequence[Checkpoint]) -> None:
        """Find out what may not leave. Raises SecretsFound for what no copy can be without."""
        self.sieve = checkpoint_scan.sieve(
            self.store, (), self.request.allowed, self.leaving(chain)
        )
        checkpoint_scan.require_placed(self.sieve)
        self._check_called(chain[-1].id.session)
        self.clean = checkpoint_scan.Cleaner(self.sieve, [_said(self.store, chain[-1])])

    def leaving(self, chain: Sequence[Checkpoint]) -> Iterator[bytes]:
        """What will be in the branch and is not in its base, as far as it is known by its bytes."""
        files = (
            entry
            for each in chain
            for entry in self.carried(each).values()
            if entry.mode != GITLINK
        )
        yield from map(
            self.store.objects.read_blob, {entry.oid for entry in files} - self.known.keys()
        )
        yield from map(_subject, chain)
        yield _said(self.store, chain[-1])

    def add(self, checkpoint: Checkpoint) -> None:
        """One commit more, if the checkpoint's files are others than those before it."""
        files = self._clean(self.carried(checkpoint), checkpoint.id)
        changed = _different(self.files, files)
        if changed:
            self.found += checkpoint_scan.in_text(
                _subject(checkpoint), "message", str(checkpoint.id).encode(), self.sieve
            )
            text = markdown.called(checkpoint, self.clean)
            self._commit(
                checkpoint, f"{text}\n\n{links.TRAILER}: {checkpoint.id}\n", files, len(changed)
            )

    def tell(self, checkpoint: Checkpoint) -> int:
        """The last commit: what was said, without secrets; how many there were."""
        if checkpoint.conversation is None:
            return 0
        session = checkpoint.id.session
        masked = checkpoint_scan.in_text(
            _said(self.store, checkpoint), "conversation", sieve=self.sieve
        )
        page = markdown.render(
            checkpoint, show.messages(self.store, checkpoint.conversation), self.clean
        )
        data = page.encode("utf-8", "backslashreplace")
        below = {
            b".gitattributes": FOLDED,
            session.encode("ascii") + b"/conversation.md": checkpoint_scan.redacted(
                data, self.sieve
            ),
        }
        written = {RESERVED + b"/" + name: self._blob(text) for name, text in below.items()}
        files = {**self.files, **written}
        text = f"Conversation of {session}\n\n{links.TRAILER}: {checkpoint.id}\n"
        self._commit(None, text, files, len(_different(self.files, files)), of=checkpoint)
        return len({finding.id for finding in masked})

    def carried(self, checkpoint: Checkpoint) -> Files:
        """The base's files with what the checkpoint has otherwise than the commit it stood on.
        Raises Refused.
        """
        snapshot = checkpoint.snapshot
        unseen = tuple(s.path for s in snapshot.skipped if s.reason is not SkipReason.RESERVED)
        there = dict(trees.walk(self.store.objects, snapshot.tree))
        files, stuck = dict(self.base), []
        for change in _different(self.origin, there):
            if _covers((RESERVED, *unseen), change.path):
                continue
            if files.get(change.path) not in (change.old, change.new):
                stuck.append(change.path)
            elif change.new is None:
                files.pop(change.path, None)
            else:
                files[change.path] = change.new
        stuck += [path for path in files if any(above in files for above in _above(path))]
        if stuck:
            raise _stuck(self.request.checkpoint, stuck)
        return files

    def _clean(self, files: Files, id: CheckpointId) -> Files:
        """The files, with what is new of them scanned, and redacted where that is wanted."""
        for path, entry in files.items():
            if entry.oid not in self.known and entry.mode != GITLINK:
                data = self.store.objects.read_blob(entry.oid)
                self.found += (f for f in checkpoint_scan.in_text(data, "file", path, self.sieve))
                clean = checkpoint_scan.redacted(data, self.sieve) if self.request.redact else data
                self.known[entry.oid] = (
                    entry.oid if clean == data else self.store.objects.write_blob(clean)
                )
        self._check_names(files, id)
        return {
            path: Entry(entry.mode, self.known.get(entry.oid, entry.oid))
            for path, entry in files.items()
        }

    def _check_called(self, session: str) -> None:
        branch = checkpoint_scan.in_names("branch", [self.request.branch], self.sieve)
        found = (*branch, *checkpoint_scan.in_names("session", [session], self.sieve))
        if found:
            raise checkpoint_scan.refused(
                found, NOTHING, left="names of branches and sessions are not rewritten"
            )

    def _check_names(self, files: Files, id: CheckpointId) -> None:
        new = b"\0".join(sorted(files.keys() - self.base.keys() - self.files.keys()))
        found = checkpoint_scan.in_text(new, "path", str(id).encode(), self.sieve)
        if found:
            raise checkpoint_scan.refused(found, NOTHING, left="names of paths are not rewritten")

    def _blob(self, data: bytes) -> Entry:
        return Entry(FILE, self.store.objects.write_blob(data))

    def _commit(
        self,
        checkpoint: Checkpoint | None,
        text: str,
        files: Files,
        changed: int,
        of: Checkpoint | None = None,
    ) -> None:
        source = of or checkpoint
        assert source is not None
        tree = trees.build(self.store.objects, trees.nest(files))
        head = self.store.objects.read_commit(source.commit).partition(b"\n\n")[0]
        who = [line for line in head.split(b"\n") if line.startswith((b"author ", b"committer "))]
        lines = [
            b"tree " + tree.encode(),
            b"parent " + self.tip.encode(),
            *who,
            b"",
            text.encode("utf-8", "replace"),
        ]
        self.tip = self.store.objects.write("commit", b"\n".join(lines))
        self.files = files
        self.commits.append(
            Commit(
                checkpoint.id if checkpoint else None, text.partition("\n")[0], changed, self.tip
            )
        )


def _said(store: Store, checkpoint: Checkpoint) -> bytes:
    """What was said, as it was; nothing where there is no conversation."""
    found = checkpoint.conversation
    return markdown.texts(checkpoint, show.messages(store, found)) if found else b""


def _subject(checkpoint: Checkpoint) -> bytes:
    return subject(checkpoint).encode("utf-8", "replace")


def _different(old: Mapping[bytes, Entry], new: Mapping[bytes, Entry]) -> list[FileChange]:
    return [
        FileChange(path, old.get(path), new.get(path))
        for path in sorted(old.keys() | new.keys())
        if old.get(path) != new.get(path)
    ]


def _covers(places: Iterable[bytes], path: bytes) -> bool:
    return any(path == place or path.startswith(place.rstrip(b"/") + b"/") for place in places)


def _above(path: bytes) -> Iterable[bytes]:
    return (path[:place] for place, byte in enumerate(path) if byte == 47)


def _stuck(checkpoint: Checkpoint, paths: Collection[bytes]) -> Refused:
    return Refused(
        f"the base changed what session {checkpoint.id.session} changed, and nothing is merged: no "
        "branch was made",
        tuple(display(path) for path in sorted(paths)[:20]),
        hint="without --base it goes on top of where the session began; merge that branch with git",
    )
