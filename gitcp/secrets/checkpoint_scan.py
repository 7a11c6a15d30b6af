"""Scan checkpoints for secrets before they leave the machine. Reads only, except for one cache.

Scans everything in a checkpoint: files, conversation, metadata, README, commit messages, and the
names of paths and tags. Commits, trees and blobs without findings are recorded in `<git
dir>/gitcp/scanned`, so that each is scanned once.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import islice, pairwise

from gitcp import progress, wire
from gitcp.errors import SecretsFound, StoreDamaged
from gitcp.git import promised, trees
from gitcp.git.trees import TreeEntry
from gitcp.model import GITLINK, RESERVED, TREE, CheckpointId, Oid
from gitcp.secrets import scan, scan_cache
from gitcp.secrets.external_scanner import ExternalFinding, Pieces, pieces
from gitcp.state import settings
from gitcp.store import CONVERSATION, MEMORY, OUTPUTS, STATES, Store, Summary, parse_summary
from gitcp.value import Value, replace
from gitcp.worktree.paths import display

OVERLAP = 4096
"""Bytes on each side of a segment boundary that are scanned together."""

WINDOW = 1 << 20
"""Bytes of a long text that are scanned at a time."""

BATCH = 1000
"""Number of checkpoints that are read together: their new trees are held in memory meanwhile."""

CUT = "…".encode()
"""Marks a truncated text."""

SCANNING = ("scanning for secrets", "checkpoints")

STREAMS = RESERVED + b"/" + CONVERSATION + b"/"
REMEMBERED = RESERVED + b"/" + MEMORY + b"/"
DUMPED = RESERVED + b"/" + STATES + b"/"
GROWING = RESERVED + b"/" + OUTPUTS + b"/"


class Finding(Value):
    """A secret: its ID (the same for each occurrence), its rule, a masked excerpt, and where it is.

    `place` is "file", "conversation", "memory" (an agent's), "state" (outside
    the files), "metadata" (written by gitcp),
    "message", "author" (of a commit), "path", or "tag", "session" or "branch" for a name; `path` is
    the path in the checkpoint's tree. `checkpoint` is the oldest scanned one that has it there.
    """

    id: str
    rule: str
    excerpt: str
    place: str
    path: bytes
    line: int
    checkpoint: CheckpointId | None

    def to_json(self) -> wire.Json:
        """Return the fields that `gitcp push --scan --json` prints."""
        return {
            "id": self.id,
            "rule": self.rule,
            "excerpt": self.excerpt,
            "place": self.place,
            "path": wire.encode_path(self.path) if self.path else None,
            "line": self.line,
            "checkpoint": str(self.checkpoint) if self.checkpoint else None,
        }


class Sieve(Value):
    """What must not leave: findings of gitcp's rules and of the user's
    scanner, except the IDs in `allowed`.
    """

    allowed: Collection[str] = frozenset()
    known: tuple[ExternalFinding, ...] = ()

    @property
    def searchable(self) -> tuple[tuple[str, bytes], ...]:
        """The scanner's findings whose text is known, as (rule, text)."""
        return tuple((each.rule, each.text) for each in self.known if not each.piece)

    def allows(self, rule: str, text: bytes) -> bool:
        """Return whether a secret may leave."""
        return scan.fingerprint(rule, text) in self.allowed


OURS = Sieve()
"""Gitcp's own rules only."""


class Search(Value):
    """The sieve that was used, the findings that it does not allow, and the plain secrets by ID, in
    each encoding that occurs. Those are never shown to anyone.
    """

    sieve: Sieve
    findings: tuple[Finding, ...]
    texts: Mapping[str, tuple[bytes, ...]]


def sieve(
    store: Store, commits: Iterable[Oid], allowed: Collection[str] = (), texts: Iterable[bytes] = ()
) -> Sieve:
    """Run the user's scanner, if one is set, over these checkpoints and texts, and return the
    sieve.

    Writes only the cache. Raises GitcpError if the scanner fails: nothing leaves unscanned.
    """
    scanner = settings.scanner(store.repo)
    if scanner is None:
        return Sieve(allowed)
    commits = tuple(commits)
    with pieces(store.repo) as collected:
        run = _Run(store, Sieve(), collected)
        run.checkpoints(commits)
        for text in texts:
            collected.add(text)
        external = collected.scan(scanner, store.repo)
    if not external:
        scan_cache.add(store.repo, run.clean)
    return Sieve(allowed, external)


def search(
    store: Store, commits: Iterable[Oid], allowed: Collection[str] = (), texts: Iterable[bytes] = ()
) -> Search:
    """Search checkpoints, given oldest first. `texts` will leave with them.

    Writes only the cache. Raises StoreDamaged for unreadable objects: nothing leaves unscanned.
    """
    commits = tuple(commits)
    sieve_used = sieve(store, commits, allowed, texts)
    run = _scan(store, commits, sieve_used)
    left = tuple(finding for finding in run.findings.values() if finding.id not in allowed)
    return Search(sieve_used, left, _spellings(run))


def findings(
    store: Store, commits: Iterable[Oid], allowed: Collection[str] = ()
) -> tuple[Finding, ...]:
    """Return the secrets in checkpoints, given oldest first, without the IDs in `allowed`. See
    `search`.
    """
    return search(store, commits, allowed).findings


def ids(data: bytes, sieve: Sieve) -> frozenset[str]:
    """Return the IDs of the secrets in bytes, also of those that are allowed."""
    return frozenset(finding.id for finding, _ in _locate(data, "", b"", None, sieve))


def texts(store: Store, commits: Iterable[Oid]) -> dict[str, tuple[bytes, ...]]:
    """Return the plain secrets in checkpoints by ID, in each encoding that
    occurs. Never shown to anyone.

    Raises StoreDamaged.
    """
    commits = tuple(commits)
    return _spellings(_scan(store, commits, sieve(store, commits)))


def _spellings(run: _Run) -> dict[str, tuple[bytes, ...]]:
    return {id: tuple(spellings) for id, spellings in run.texts.items()}


def _scan(store: Store, commits: Iterable[Oid], sieve_used: Sieve) -> _Run:
    run = _Run(store, sieve_used)
    run.checkpoints(tuple(commits))
    scan_cache.add(store.repo, run.clean)
    return run


def fetch_missing(store: Store, commits: Iterable[Oid]) -> None:
    """Fetch what a partial clone lacks of these commits, before they are scanned and pushed. Only a
    push may do so: everything else connects to nothing.
    """
    if promised.bring(store.repo, commits):
        store.writer.flush()  # forget cached lookups: the objects exist now


def in_text(text: bytes, kind: str, path: bytes = b"", sieve: Sieve = OURS) -> tuple[Finding, ...]:
    """Return the secrets in bytes that are about to leave. Reads and writes nothing."""
    return tuple(
        finding
        for finding, _ in _locate(text, kind, path, None, sieve)
        if finding.id not in sieve.allowed
    )


def windows(chunks: Iterable[bytes]) -> Iterator[tuple[int, bytes]]:
    """Yield a long text in parts that are scanned one by one, each with the number of lines before
    it. A part begins with the end of the one before; no chunk is divided.
    """
    window, lines = b"", 0
    pending: list[bytes] = []
    size = 0
    for chunk in chunks:
        pending.append(chunk)
        size += len(chunk)
        if size >= WINDOW:
            window += b"".join(pending)
            yield lines, window
            lines += window.count(b"\n", 0, -OVERLAP)
            window, pending, size = window[-OVERLAP:], [], 0
    if pending:
        yield lines, window + b"".join(pending)


def in_chunks(chunks: Iterable[bytes], kind: str, path: bytes, sieve: Sieve) -> Iterator[Finding]:
    """Yield the secrets in a long text that is about to leave; one in an overlap, twice."""
    for lines, window in windows(chunks):
        for each in in_text(window, kind, path, sieve):
            yield replace(each, line=each.line + lines)


def of_tags(store: Store, tags: Mapping[str, Oid]) -> dict[str, bytes]:
    """Return the text that leaves with each tag: its name (also for a
    lightweight tag) and its object.
    """
    return {
        name: name.encode() + b"\n" + store.reader.read(value)[1] for name, value in tags.items()
    }


def in_tags(store: Store, tags: Mapping[str, Oid], sieve: Sieve) -> tuple[Finding, ...]:
    """Return the secrets in tags, given by name."""
    texts_by_tag = of_tags(store, tags).items()
    return tuple(
        each for name, data in texts_by_tag for each in in_text(data, "tag", name.encode(), sieve)
    )


def in_commit(data: bytes, id: CheckpointId, sieve: Sieve) -> tuple[Finding, ...]:
    """Return the secrets in a commit object that is about to leave, made of checkpoint `id`."""
    head, _, text = data.partition(b"\n\n")
    path = str(id).encode()
    return (*in_text(head, "author", path, sieve), *in_text(text, "message", path, sieve))


def in_names(kind: str, names: Iterable[str], sieve: Sieve) -> tuple[Finding, ...]:
    """Return the secrets in names of sessions or branches, which are never rewritten."""
    return tuple(each for name in names for each in in_text(name.encode(), kind, sieve=sieve))


def redacted(text: bytes, sieve: Sieve = OURS) -> bytes:
    """Return `text` with each secret that is not allowed replaced by `[REDACTED:rule]`."""
    return scan.redact(
        text, lambda secret, text_found: not sieve.allows(secret.rule, text_found), sieve.searchable
    )


class Cleaner:
    """Redacts texts, including the start of a secret at the end of a truncated text.

    `known` contains the complete secrets, for excerpts such as a subject made of a prompt.
    """

    def __init__(self, sieve: Sieve, known: Iterable[bytes]) -> None:
        self.sieve = sieve
        secrets = (s for data in known for s in _texts(data, sieve))
        self.beginnings = {
            text[:size]: rule
            for rule, text in secrets
            for size in range(scan.shown(text) + 1, len(text))
        }
        self.longest = max(map(len, self.beginnings), default=0)

    def __call__(self, text: str) -> str:
        """Return the redacted text."""
        return self.cleaned(text.encode("utf-8", "surrogatepass")).decode("utf-8", "surrogatepass")

    def cleaned(self, text: bytes) -> bytes:
        """Return the redacted bytes."""
        data = redacted(text, self.sieve)
        body = data.removesuffix(CUT)
        for size in range(min(self.longest, len(body)), 0, -1):
            rule = self.beginnings.get(body[-size:])
            if rule is not None:
                return body[:-size] + b"[REDACTED:%s]" % rule.encode() + data[len(body) :]
        return data


def _texts(data: bytes, sieve: Sieve) -> Iterator[tuple[str, bytes]]:
    for rule, start, end, text in scan.scan(data, sieve.searchable):
        if not sieve.allows(rule, text):
            yield rule, data[start:end]


def require_redactable(sieve: Sieve) -> None:
    """Raise SecretsFound for findings of the scanner without a text, which cannot be redacted."""
    findings = (_unlocated(each, "text", b"", None) for each in sieve.known if each.piece)
    blocking = [each for each in findings if each.id not in sieve.allowed]
    if blocking:
        raise refused(blocking, left="the scanner reports no text to redact")


def refused(
    findings: Sequence[Finding],
    outcome: str = "nothing was written",
    left: str = "",
    notes: Iterable[str] = (),
) -> SecretsFound:
    """Return the error that lists the secrets, and notes after them. `left` says why they cannot be
    redacted.
    """
    count = len({finding.id for finding in findings})
    hint = (
        "--allow ID ignores a false positive"
        if left
        else "--redact replaces them; --allow ID ignores a false positive"
    )
    reason = f"{left}; {outcome}" if left else outcome
    return SecretsFound(
        f"{count} {'secret' if count == 1 else 'secrets'} found; {reason}",
        (*dict.fromkeys(map(_line, findings)), *notes),
        hint=hint,
    )


def _line(finding: Finding) -> str:
    checkpoint = f"{finding.checkpoint}, " if finding.checkpoint else ""
    location = f"{checkpoint}{finding.place} {display(finding.path)}".rstrip()
    return f"{finding.id}  {finding.rule}  {finding.excerpt}  in {location}, line {finding.line}"


class _Level:
    """A tree that is being scanned, what is ahead in it, and whether it was clean so far."""

    __slots__ = ("ahead", "clean", "entries", "oid", "path")

    def __init__(self, oid: Oid, entries: list[TreeEntry], path: bytes) -> None:
        self.oid = oid
        self.entries = entries
        self.path = path
        self.ahead = iter(entries)
        self.clean = True


class _Run:
    """One scan: findings by ID and place, and clean objects. `pieces` collects what was scanned.

    A commit is clean if its message and its tree are. `trees` are those of the checkpoints that are
    scanned together.
    """

    def __init__(self, store: Store, sieve: Sieve, given: Pieces | None = None) -> None:
        self.store = store
        self.sieve = sieve
        self.pieces = given
        self.known = scan_cache.load(store.repo)
        self.clean: set[bytes] = set()
        self.dirty: set[tuple[bytes, bytes]] = set()
        self.findings: dict[tuple[str, str, bytes], Finding] = {}
        self.texts: dict[str, dict[bytes, None]] = {}
        self.id: CheckpointId | None = None
        self.trees: dict[Oid, list[TreeEntry]] = {}

    def checkpoints(self, commits: Sequence[Oid]) -> None:
        """Scan checkpoints, given oldest first."""
        each = progress.each(commits, *SCANNING, len(commits))
        while some := list(islice(each, BATCH)):
            new = [commit for commit in dict.fromkeys(some) if not self._is_known(_raw(commit))]
            read = {commit: self.store.reader.read_commit(commit) for commit in new}
            summaries = [parse_summary(commit, data) for commit, data in read.items()]
            self._sift([summary.root for summary in summaries])
            for summary in summaries:
                self._checkpoint(summary, read[summary.commit])

    def _checkpoint(self, summary: Summary, data: bytes) -> None:
        self.id = summary.id
        head, _, text = data.partition(b"\n\n")
        clean = self._scan(head, "author", b"") & self._scan(text, "message", b"")
        clean &= self._tree(summary.root, b"")
        if clean:
            self.clean.add(_raw(summary.commit))

    def _sift(self, roots: Iterable[Oid]) -> None:
        """Read the new trees below these, and scan their blobs. Blobs with findings
        are scanned again where they are, and what is damaged is left to who needs it.
        """
        self.trees, blobs = {}, dict[Oid, None]()
        level = list(roots)
        while level:
            below: list[Oid] = []
            for oid, data in self._read_new(level, "tree"):
                self.trees[oid] = entries = trees.parse(data, self.store.repo.object_format)
                below += [child for _, mode, child in entries if mode == TREE]
                leaves = [child for _, mode, child in entries if mode not in (TREE, GITLINK)]
                blobs.update(dict.fromkeys(leaves))
            level = [oid for oid in below if oid not in self.trees]
        for oid, data in self._read_new(blobs, "blob"):
            if not any(_locate(data, "", b"", None, self.sieve)):
                self._collect(data)
                self.clean.add(_raw(oid))

    def _read_new(self, oids: Iterable[Oid], kind: str) -> Iterator[tuple[Oid, bytes]]:
        """Yield the objects of this kind that are not known, as far as they can be read."""
        new = [oid for oid in dict.fromkeys(oids) if not self._is_known(_raw(oid))]
        for oid, content in self.store.reader.read_each(new):
            if not isinstance(content, StoreDamaged) and content[0] == kind:
                yield oid, content[1]

    def _scan(self, data: bytes, kind: str, path: bytes) -> bool:
        """Record the findings in `data`; return whether there were none."""
        clean = True
        self._collect(data)
        for each, text in _locate(data, kind, path, self.id, self.sieve):
            clean = False
            self.texts.setdefault(each.id, {})[text] = None
            self.findings.setdefault((each.id, each.place, each.path), each)
        return clean

    def _collect(self, data: bytes) -> None:
        if self.pieces is not None:
            self.pieces.add(data)

    def _is_known(self, key: bytes) -> bool:
        return key in self.known or key in self.clean

    def _tree(self, oid: Oid, path: bytes) -> bool:
        """Scan a tree and all below it; return whether it is clean. A loop, because a tree may be
        nested deeper than Python may call itself.
        """
        top = _Level(oid, [TreeEntry(b"", TREE, oid)], path)
        levels = [top]
        while True:
            level = levels[-1]
            entry = next(level.ahead, None)
            if entry is None and level is top:
                return top.clean
            if entry is None:
                levels.pop()
                levels[-1].clean &= self._finish(level)
            elif entry.mode == TREE:
                below = level.path + entry.name + b"/" if level is not top else path
                key = _raw(entry.oid)
                if (key, below) in self.dirty:
                    level.clean = False
                elif not self._is_known(key):
                    levels.append(self._enter(entry.oid, below))
            elif entry.mode != GITLINK:
                level.clean &= self._blob(entry.oid, level.path + entry.name)

    def _enter(self, oid: Oid, path: bytes) -> _Level:
        """Scan the names in a tree."""
        level = _Level(oid, self.trees.get(oid) or self.store.reader.read_tree(oid), path)
        level.clean = self._scan(b"\0".join(each.name for each in level.entries), "path", path)
        return level

    def _finish(self, level: _Level) -> bool:
        """Scan what needs all that is in a tree; return whether it is clean with all below it."""
        path = level.path
        if path.startswith(STREAMS):
            leaves = [each.oid for each in level.entries if each.mode not in (TREE, GITLINK)]
            level.clean &= self._boundaries(leaves, path)
        elif path.startswith((GROWING, DUMPED)):
            leaves = [entry.oid for _, entry in trees.walk(self.store.reader, level.oid)]
            level.clean &= self._boundaries(leaves, path)
        self._remember(_raw(level.oid), path, clean=level.clean)
        return level.clean

    def _remember(self, key: bytes, path: bytes, *, clean: bool) -> None:
        if clean:
            self.clean.add(key)
        else:
            self.dirty.add((key, path))

    def _blob(self, oid: Oid, path: bytes) -> bool:
        key = _raw(oid)
        if self._is_known(key):
            return True
        if (key, path) in self.dirty:
            return False
        clean = self._scan(self.store.reader.read_blob(oid), _kind(path), path)
        self._remember(key, path, clean=clean)
        return clean

    def _boundaries(self, pieces: list[Oid], path: bytes) -> bool:
        """Scan across the boundaries of segments that end inside a line."""
        clean = True
        for before, after in pairwise(pieces):
            key = self.store.repo.object_format.hasher(bytes.fromhex(before + after)).digest()
            if self._is_known(key):
                continue
            first, second = (
                self.store.reader.read_blob(before),
                self.store.reader.read_blob(after),
            )
            whole = first[-OVERLAP:] + second[:OVERLAP] if first[-1:] != b"\n" else b""
            if self._scan(whole, _kind(path), path):
                self.clean.add(key)
            else:
                clean = False
        return clean


def _raw(oid: Oid) -> bytes:
    return bytes.fromhex(oid)


def _locate(
    data: bytes, kind: str, path: bytes, id: CheckpointId | None, sieve: Sieve
) -> Iterator[tuple[Finding, bytes]]:
    for rule, start, end, text in scan.scan(data, sieve.searchable):
        fingerprint, line = scan.fingerprint(rule, text), data.count(b"\n", 0, start) + 1
        finding = Finding(fingerprint, rule, scan.masked(text), kind, path, line, id)
        yield finding, data[start:end]
    strays = [each for each in sieve.known if each.piece]
    digest = hashlib.sha256(data).digest() if strays else b""
    for each in strays:
        if each.piece == digest:
            yield _unlocated(each, kind, path, id), each.mark


def _unlocated(known: ExternalFinding, kind: str, path: bytes, id: CheckpointId | None) -> Finding:
    """Return a finding of which only the line is known, or whose text is encoded in the data."""
    shown = scan.masked(known.text) if known.text else "text not reported"
    return Finding(
        scan.fingerprint(known.rule, known.mark), known.rule, shown, kind, path, known.line, id
    )


def _kind(path: bytes) -> str:
    if not path.startswith(RESERVED + b"/"):
        return "file"
    if path.startswith(GROWING):
        return "file"
    if path.startswith(REMEMBERED):
        return "memory"
    if path.startswith(DUMPED):
        return "state"
    return "conversation" if path.startswith(STREAMS) else "metadata"
