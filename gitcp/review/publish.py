"""Publish a session as an ordinary branch, ready for a pull request: a plan, then an apply.

The branch has one commit on top of the base for each checkpoint that changed files, and a last one
that adds the conversation as Markdown below `.gitcp/`, which forges collapse in diffs. HEAD, the
index and the working tree are not touched.

A session may go on after its branch was merged, and be published again. So the page is named after
the checkpoint: under one name, two branches would both add it and conflict. Once the session works
on a commit that has a page of it, the next branch begins there, with what came since.

On another base than the session's own, changed paths are carried over whole. A path that the base
changed too is never merged: publish refuses.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

from gitcp.errors import BadValue, Refused
from gitcp.git import segmented, trees, worktrees
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
    Snapshot,
)
from gitcp.restoring import trust
from gitcp.review import links
from gitcp.review.cleaned import Cleaning
from gitcp.secrets import checkpoint_scan, known_secrets
from gitcp.secrets.checkpoint_scan import Finding, Search, Sieve
from gitcp.secrets.known_secrets import Haves
from gitcp.sharing import markdown
from gitcp.state import oplog
from gitcp.store import Store, subject
from gitcp.value import EMPTY, Value
from gitcp.worktree.paths import display

FOLDED = b"* linguist-generated gitlab-generated\n"
"""Makes forges collapse generated files in diffs."""

NOTHING = "no branch was created"

Files = dict[bytes, Entry]


class PublishRequest(Value):
    """What to publish: the session up to `checkpoint`, as `branch`, on top of `base` (None: the
    commit the session began on).

    `redact` replaces secrets in files, except those in `allowed`; in the conversation they are
    always replaced.
    """

    checkpoint: Checkpoint
    branch: str
    base: str | None = None
    force: bool = False
    trust: bool = False
    allowed: frozenset[str] = frozenset()
    redact: bool = False


class BranchCommit(Value):
    """One commit of the branch, its checkpoint (None for the conversation's), and the number of
    files it changes.
    """

    checkpoint: CheckpointId | None
    subject: str
    files: int
    commit: Oid


class PublishPlan(Value):
    """The branch to make. `old` is where it points now, None if it is new; `masked` counts the
    secrets replaced in the conversation; `filtered` are the files that git's filters changed, with
    their filters; `known` are secrets in files that the branch has anyway, in its base.
    """

    request: PublishRequest
    base: Oid
    commits: tuple[BranchCommit, ...]
    old: Oid | None
    masked: int
    filtered: Mapping[bytes, str] = EMPTY
    known: tuple[Finding, ...] = ()

    @property
    def tip(self) -> Oid:
        """The last commit of the branch."""
        return self.commits[-1].commit if self.commits else self.base


def plan(store: Store, request: PublishRequest) -> PublishPlan:
    """Write the commits of the branch, unreferenced.

    Writes objects; `publish` makes the ref. Files are as git would commit them: git runs the
    filters of the user's configuration. Raises Refused if the branch exists or is checked out, if
    the base changed the same paths, or if a filter fails; SecretsFound for secrets in files;
    NotTrusted for a checkpoint from another repository.
    """
    trust.require(store, request.checkpoint, trusted=request.trust)
    old = worktrees.check_movable(store.repo, request.branch, force=request.force)
    chain = [store.read(summary.commit) for summary in store.history(request.checkpoint.commit)][
        ::-1
    ]
    if request.base is None:
        chain = _since_merged(store, chain)
    base = _base(store, request, chain)
    try:
        branch = _Branch(store, request, base, _fork_point(store, chain, base))
        branch.files_with(request.checkpoint)  # report conflicts before the slow scan
        branch.scan(chain)
        for checkpoint in chain:
            branch.add(checkpoint)
        masked = branch.add_conversation(request.checkpoint)
    except BaseException:
        store.writer.discard()
        raise
    leaking, known = branch.split_findings(chain)
    if leaking and not request.redact:
        store.writer.discard()
        raise checkpoint_scan.refused(leaking, NOTHING)
    return PublishPlan(
        request, base, tuple(branch.commits), old, masked, branch.cleaning.drivers, known
    )


def publish(store: Store, agreed: PublishPlan) -> None:
    """Create or move the branch as planned. Writes one ref outside `refs/gitcp` and the operation
    log.

    Raises Refused if the branch moved since the plan.
    """
    name = agreed.request.branch
    try:
        store.writer.flush(keep=True)
        if not worktrees.set_branch(store.repo, name, agreed.tip, agreed.old):
            raise Refused(
                f"branch {name} moved in the meantime; it was not changed",
                hint=f"git log --oneline {name}",
            )
    finally:
        store.writer.release()
    oplog.record(
        store.repo,
        "publish",
        f"{agreed.request.checkpoint.id} as {name}",
        checkpoints=(agreed.request.checkpoint.id,),
    )


def _base(store: Store, request: PublishRequest, chain: list[Checkpoint]) -> Oid:
    if request.base is not None:
        base = links.commit(store.repo, request.base)
        if base is None:
            raise BadValue(
                f"{request.base} names no commit; no branch was created", hint="git log --oneline"
            )
        return base
    first_base = chain[0].snapshot.base.commit
    if first_base is None or not store.reader.exists(first_base):
        raise Refused(
            f"the commit that session {request.checkpoint.id.session} started from is not in this "
            "repository; no branch was created",
            hint=f"gitcp publish {request.checkpoint.id} --branch {request.branch} --base HEAD",
        )
    return first_base


def _since_merged(store: Store, chain: list[Checkpoint]) -> list[Checkpoint]:
    """Return the last checkpoints that are based on a commit with a page of their session: what
    came before was published and merged. All of them if the last one is not.
    """
    page = RESERVED + b"/" + chain[-1].id.session.encode("ascii")
    has_page: dict[Oid | None, bool] = {None: False}
    since = len(chain)
    for checkpoint in reversed(chain):
        commit = checkpoint.snapshot.base.commit
        if commit not in has_page:
            tree = store.base_tree(commit)
            has_page[commit] = tree is not None and bool(trees.lookup(store.reader, tree, page))
        if not has_page[commit]:
            break
        since -= 1
    return chain[since:] or chain


def _fork_point(store: Store, chain: list[Checkpoint], base: Oid) -> Oid:
    """Return the commit to compare the session's files with: its merge base with `base`."""
    last = chain[-1].snapshot.base.commit
    if last is None or not store.reader.exists(last):
        return base
    return links.merge_base(store.repo, base, last) or base


def _files_of(store: Store, commit: Oid) -> Files:
    tree = store.reader.tree_of(commit)
    return dict(trees.walk(store.reader, tree))


class _Branch:
    """The branch under construction: its files and commits so far."""

    def __init__(self, store: Store, request: PublishRequest, base: Oid, fork_point: Oid) -> None:
        self.store = store
        self.request = request
        self.sieve = Sieve(request.allowed)
        self.clean: Callable[[str], str] = str
        self.base = _files_of(store, base)
        self.cleaning = Cleaning(store, store.reader.tree_of(base))
        self.origin = self.base if fork_point == base else _files_of(store, fork_point)
        self.files = self.base
        self.tip = self.base_commit = base
        self.commits: list[BranchCommit] = []
        self.findings: list[Finding] = []
        self.scanned: dict[Oid, Oid] = {entry.oid: entry.oid for entry in self.base.values()}

    def scan(self, chain: Sequence[Checkpoint]) -> None:
        """Prepare redaction. Raises SecretsFound for secrets that cannot be redacted."""
        self.sieve = checkpoint_scan.sieve(
            self.store, (), self.request.allowed, self._new_content(chain)
        )
        checkpoint_scan.require_redactable(self.sieve)
        self._check_ref_names(chain[-1].id.session)
        self.clean = checkpoint_scan.Cleaner(self.sieve, [_conversation(self.store, chain[-1])])

    def _new_content(self, chain: Sequence[Checkpoint]) -> Iterator[bytes]:
        """Yield all content the branch adds to its base."""
        files = (
            entry
            for each in chain
            for entry in self.files_with(each).values()
            if entry.mode != GITLINK
        )
        yield from map(
            self.store.reader.read_blob,
            {entry.oid for entry in files} - self.scanned.keys(),
        )
        yield from map(_subject, chain)
        yield from (self.store.reader.read_commit(each.commit) for each in chain)  # its author
        yield _conversation(self.store, chain[-1])

    def add(self, checkpoint: Checkpoint) -> None:
        """Add a commit if the checkpoint's files differ from the ones before it."""
        files = self._scan_files(self.files_with(checkpoint), checkpoint.id)
        changed = _changes(self.files, files)
        if changed:
            self.findings += checkpoint_scan.in_text(
                _subject(checkpoint), "message", str(checkpoint.id).encode(), self.sieve
            )
            text = markdown.title(checkpoint, self.clean)
            self._commit(
                checkpoint, f"{text}\n\n{links.TRAILER}: {checkpoint.id}\n", files, len(changed)
            )

    def split_findings(
        self, chain: Sequence[Checkpoint]
    ) -> tuple[tuple[Finding, ...], tuple[Finding, ...]]:
        """Return the findings that would leak, and those that the base of the branch already has.
        If secrets are replaced, there are none.
        """
        search = Search(self.sieve, () if self.request.redact else tuple(self.findings), EMPTY)
        has = Haves((self.base_commit,))
        known = known_secrets.ids(self.store, search, [each.commit for each in chain], has)
        return known_secrets.split(search.findings, known)

    def add_conversation(self, checkpoint: Checkpoint) -> int:
        """Add the commit with the redacted conversation; return the number of secrets replaced."""
        if checkpoint.conversation is None:
            return 0
        session = checkpoint.id.session
        masked = checkpoint_scan.in_text(
            _conversation(self.store, checkpoint), "conversation", sieve=self.sieve
        )
        page = markdown.render(
            checkpoint, show.messages(self.store, checkpoint.conversation), self.clean
        )
        data = b"".join(page)
        pages = {
            b".gitattributes": FOLDED,
            f"{session}/conversation-{checkpoint.id.number}.md".encode("ascii"): (
                checkpoint_scan.redacted(data, self.sieve)
            ),
        }
        blobs = {
            RESERVED + b"/" + name: Entry(FILE, self.store.writer.write_blob(text))
            for name, text in pages.items()
        }
        files = {**self.files, **blobs}
        text = f"Conversation of {session}\n\n{links.TRAILER}: {checkpoint.id}\n"
        self._commit(None, text, files, len(_changes(self.files, files)), of=checkpoint)
        return len({finding.id for finding in masked})

    def files_with(self, checkpoint: Checkpoint) -> Files:
        """Return the base's files with the checkpoint's changes applied. Raises Refused on a
        conflict.
        """
        snapshot = checkpoint.snapshot
        if not snapshot.has_files:  # those before it stay
            return self.files
        uncaptured = tuple(s.path for s in snapshot.skipped if s.reason is not SkipReason.RESERVED)
        saved = {**dict(trees.walk(self.store.reader, snapshot.tree)), **self._joined(snapshot)}
        changes = [
            change
            for change in _changes(self.origin, saved)
            if not _covers((RESERVED, *uncaptured), change.path)
        ]
        changed = {change.path: change.new for change in changes if change.new is not None}
        cleaned = self.cleaning.files(snapshot.tree, changed, self.origin)
        files, conflicts = dict(self.base), []
        for path, old, new in ((c.path, c.old, cleaned.get(c.path)) for c in changes):
            if new == old:  # only a filter's doing
                continue
            if files.get(path) not in (old, new):
                conflicts.append(path)
            elif new is None:
                files.pop(path, None)
            else:
                files[path] = new
        conflicts += [path for path in files if any(above in files for above in _parents(path))]
        if conflicts:
            raise _conflict(self.request.checkpoint, conflicts)
        return files

    def _joined(self, snapshot: Snapshot) -> Files:
        """Return the files that are stored as segments, each as one blob."""
        reader, entries = self.store.reader, {}
        for path, entry in segmented.files(reader, snapshot):
            data = b"".join(segmented.content(reader, entry.oid))
            entries[path] = Entry(entry.mode, self.store.writer.write_blob(data))
        return entries

    def _scan_files(self, files: Files, id: CheckpointId) -> Files:
        """Scan new files, and redact them if requested."""
        for path, entry in files.items():
            if entry.oid not in self.scanned and entry.mode != GITLINK:
                data = self.store.reader.read_blob(entry.oid)
                self.findings += (
                    f for f in checkpoint_scan.in_text(data, "file", path, self.sieve)
                )
                clean = checkpoint_scan.redacted(data, self.sieve) if self.request.redact else data
                self.scanned[entry.oid] = (
                    entry.oid if clean == data else self.store.writer.write_blob(clean)
                )
        self._check_names(files, id)
        return {
            path: Entry(entry.mode, self.scanned.get(entry.oid, entry.oid))
            for path, entry in files.items()
        }

    def _check_ref_names(self, session: str) -> None:
        in_branch = checkpoint_scan.in_names("branch", [self.request.branch], self.sieve)
        findings = (*in_branch, *checkpoint_scan.in_names("session", [session], self.sieve))
        if findings:
            raise checkpoint_scan.refused(
                findings, NOTHING, left="branch and session names are not rewritten"
            )

    def _check_names(self, files: Files, id: CheckpointId) -> None:
        new = b"\0".join(sorted(files.keys() - self.base.keys() - self.files.keys()))
        findings = checkpoint_scan.in_text(new, "path", str(id).encode(), self.sieve)
        if findings:
            raise checkpoint_scan.refused(findings, NOTHING, left="path names are not rewritten")

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
        tree = trees.build(self.store.writer, trees.nest(files))
        head = self.store.reader.read_commit(source.commit).partition(b"\n\n")[0]
        identity = [
            checkpoint_scan.redacted(line, self.sieve) if self.request.redact else line
            for line in head.split(b"\n")
            if line.startswith((b"author ", b"committer "))
        ]
        lines = [
            b"tree " + tree.encode(),
            b"parent " + self.tip.encode(),
            *identity,
            b"",
            text.encode("utf-8", "replace"),
        ]
        data = b"\n".join(lines)
        self.findings += checkpoint_scan.in_commit(data, source.id, self.sieve)
        self.tip = self.store.writer.write("commit", data)
        self.files = files
        self.commits.append(
            BranchCommit(
                checkpoint.id if checkpoint else None, text.partition("\n")[0], changed, self.tip
            )
        )


def _conversation(store: Store, checkpoint: Checkpoint) -> bytes:
    """Return the text of the conversation, unredacted; empty if there is none."""
    conversation = checkpoint.conversation
    if conversation is None:
        return b""
    return b"".join(markdown.texts(checkpoint, show.messages(store, conversation)))


def _subject(checkpoint: Checkpoint) -> bytes:
    return subject(checkpoint).encode("utf-8", "replace")


def _changes(old: Mapping[bytes, Entry], new: Mapping[bytes, Entry]) -> list[FileChange]:
    return [
        FileChange(path, old.get(path), new.get(path))
        for path in sorted(old.keys() | new.keys())
        if old.get(path) != new.get(path)
    ]


def _covers(folders: Iterable[bytes], path: bytes) -> bool:
    return any(path == folder or path.startswith(folder.rstrip(b"/") + b"/") for folder in folders)


def _parents(path: bytes) -> Iterable[bytes]:
    return (path[:at] for at, byte in enumerate(path) if byte == 47)


def _conflict(checkpoint: Checkpoint, paths: Collection[bytes]) -> Refused:
    return Refused(
        f"the base and session {checkpoint.id.session} both changed these paths; no branch was "
        "created",
        tuple(display(path) for path in sorted(paths)[:20]),
        hint="publish without --base, then merge or rebase the branch with git",
    )
