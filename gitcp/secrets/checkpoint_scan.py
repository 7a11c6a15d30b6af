"""Secrets in checkpoints: what must be looked at before anything leaves the machine. Reads; writes
one cache.

Scanned is everything that a checkpoint consists of: files, conversation, metadata, the README,
commit messages, names of paths and of tags. A blob or tree in which nothing was found is remembered
by its name in `<git dir>/gitcp/scanned`, so that the next scan reads what is new and nothing else.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import pairwise

from gitcp.errors import SecretsFound
from gitcp.git import promised
from gitcp.model import GITLINK, RESERVED, TREE, CheckpointId, Oid
from gitcp.secrets import scan, scan_cache
from gitcp.secrets.external_scanner import Known, Pieces, pieces
from gitcp.state import settings
from gitcp.store import CONVERSATION, Store
from gitcp.value import Value
from gitcp.worktree.paths import display

OVERLAP = 4096
"""Bytes at the end of a piece of a line that are scanned again together with the next piece."""

CUT = "…".encode()
"""What stands where a text was cut short."""

STREAMS = RESERVED + b"/" + CONVERSATION + b"/"


class Finding(Value):
    """A secret: its ID (the same wherever it stands), the rule, what may be shown of it, and where
    it is.

    `place` is "file", "conversation", "metadata" (what gitcp writes about a checkpoint), "message",
    "path", or "tag", "session" or "branch" for a name; `path` lies in the checkpoint's tree.
    `checkpoint` is the oldest scanned one that has it there.
    """

    id: str
    rule: str
    excerpt: str
    place: str
    path: bytes
    line: int
    checkpoint: CheckpointId | None


class Sieve(Value):
    """What does not leave: what our rules find, and what the user's scanner found, but for the IDs
    in `allowed`.
    """

    allowed: Collection[str] = frozenset()
    known: tuple[Known, ...] = ()

    @property
    def placed(self) -> tuple[tuple[str, bytes], ...]:
        """Of what the scanner found that which can be looked for."""
        return tuple((each.rule, each.text) for each in self.known if not each.piece)

    def lets_pass(self, rule: str, text: bytes) -> bool:
        """Whether a secret is allowed to leave."""
        return scan.fingerprint(rule, text) in self.allowed


OURS = Sieve()
"""Our rules alone."""


def sieve(
    store: Store, commits: Iterable[Oid], allowed: Collection[str] = (), texts: Iterable[bytes] = ()
) -> Sieve:
    """What keeps secrets back in these checkpoints and texts, after the user's scanner, if there is
    one, saw them.

    Writes the cache and nothing else. Raises GitcpError where the scanner fails: what was not seen
    may not leave.
    """
    scanner = settings.scanner(store.repo)
    if scanner is None:
        return Sieve(allowed)
    commits = _here(store, commits)
    with pieces(store.repo) as given:
        run = _Run(store, Sieve(), given)
        for commit in commits:
            run.checkpoint(commit)
        for text in texts:
            given.add(text)
        known = given.scan(scanner, store.repo)
    if not known:
        scan_cache.add(store.repo, run.clean)
    return Sieve(allowed, known)


def search(
    store: Store, commits: Iterable[Oid], allowed: Collection[str] = (), texts: Iterable[bytes] = ()
) -> tuple[Sieve, tuple[Finding, ...]]:
    """The sieve for checkpoints, given oldest first, and what it finds in them; `texts` leave with
    them.

    Writes the cache and nothing else. Raises StoreDamaged for what cannot be read: what was not
    seen may not leave.
    """
    commits = tuple(commits)
    made = sieve(store, commits, allowed, texts)
    run = _searched(store, commits, made)
    return made, tuple(found for found in run.found.values() if found.id not in allowed)


def findings(
    store: Store, commits: Iterable[Oid], allowed: Collection[str] = ()
) -> tuple[Finding, ...]:
    """The secrets in checkpoints, given oldest first; those in `allowed` (their IDs) are left out.
    See `search`.
    """
    return search(store, commits, allowed)[1]


def texts(store: Store, commits: Iterable[Oid]) -> dict[str, tuple[bytes, ...]]:
    """The secrets in checkpoints themselves, by ID, in each of the ways in which they are written
    there.

    Nobody is shown them. Raises StoreDamaged.
    """
    commits = tuple(commits)
    found = _searched(store, commits, sieve(store, commits)).texts
    return {id: tuple(spellings) for id, spellings in found.items()}


def _searched(store: Store, commits: Iterable[Oid], made: Sieve) -> _Run:
    run = _Run(store, made)
    for commit in _here(store, commits):
        run.checkpoint(commit)
    scan_cache.add(store.repo, run.clean)
    return run


def _here(store: Store, commits: Iterable[Oid]) -> tuple[Oid, ...]:
    """The same; what a partial clone does not have of them is fetched, since what was not seen may
    not leave.
    """
    commits = tuple(commits)
    if promised.bring(store.repo, commits):
        store.objects.flush()  # what arrived is looked for again
    return commits


def in_text(text: bytes, place: str, path: bytes = b"", sieve: Sieve = OURS) -> tuple[Finding, ...]:
    """The secrets in bytes that are about to leave, whatever they are. Reads nothing, writes
    nothing.
    """
    return tuple(
        found
        for found, _ in _described(text, place, path, None, sieve)
        if found.id not in sieve.allowed
    )


def of_tags(store: Store, tags: Mapping[str, Oid]) -> dict[str, bytes]:
    """What leaves with tags, by name: the objects, and the names, which a ref has that names a
    commit itself too.
    """
    return {
        name: name.encode() + b"\n" + store.objects.read(value)[1] for name, value in tags.items()
    }


def in_tags(store: Store, tags: Mapping[str, Oid], sieve: Sieve) -> tuple[Finding, ...]:
    """The secrets in tags, given by name."""
    held = of_tags(store, tags).items()
    return tuple(each for name, data in held for each in in_text(data, "tag", name.encode(), sieve))


def in_names(place: str, names: Iterable[str], sieve: Sieve) -> tuple[Finding, ...]:
    """The secrets in names of sessions or branches, which leave as they are."""
    return tuple(each for name in names for each in in_text(name.encode(), place, sieve=sieve))


def redacted(text: bytes, sieve: Sieve = OURS) -> bytes:
    """The same bytes with every secret replaced by `[REDACTED:rule]`, but for those that are
    allowed.
    """
    return scan.redact(
        text, lambda secret, found: not sieve.lets_pass(secret.rule, found), sieve.placed
    )


class Cleaner:
    """Texts as they may leave: without secrets, and without the beginning of one where a text was
    cut short.

    `known` holds secrets whole: what a listing shows of a message, or a subject of a prompt, may
    end inside of one.
    """

    def __init__(self, sieve: Sieve, known: Iterable[bytes]) -> None:
        self.sieve = sieve
        found = (s for data in known for s in _texts(data, sieve))
        self.beginnings = {
            text[:size]: rule
            for rule, text in found
            for size in range(scan.shown(text) + 1, len(text))
        }
        self.longest = max(map(len, self.beginnings), default=0)

    def __call__(self, text: str) -> str:
        """The text without them."""
        return self.cleaned(text.encode("utf-8", "surrogatepass")).decode("utf-8", "surrogatepass")

    def cleaned(self, text: bytes) -> bytes:
        """The same of bytes."""
        data = redacted(text, self.sieve)
        body = data.removesuffix(CUT)
        for size in range(min(self.longest, len(body)), 0, -1):
            rule = self.beginnings.get(body[-size:])
            if rule is not None:
                return body[:-size] + b"[REDACTED:%s]" % rule.encode() + data[len(body) :]
        return data


def _texts(data: bytes, sieve: Sieve) -> Iterator[tuple[str, bytes]]:
    for rule, start, end, text in scan.scan(data, sieve.placed):
        if not sieve.lets_pass(rule, text):
            yield rule, data[start:end]


def require_placed(sieve: Sieve) -> None:
    """Raise SecretsFound for what the scanner found and no copy can be without: where it stands is
    not known.
    """
    found = (_stray(each, "text", b"", None) for each in sieve.known if each.piece)
    left = [each for each in found if each.id not in sieve.allowed]
    if left:
        raise refused(left, left="the scanner does not say which text it is")


def refused(
    found: Sequence[Finding], what: str = "nothing was written", left: str = ""
) -> SecretsFound:
    """The error that says which secrets stand in the way. `left` says why they cannot be left
    out.
    """
    count = len({finding.id for finding in found})
    hint = (
        "--allow ID  lets one pass"
        if left
        else "--redact  leaves them out, --allow ID  lets one pass"
    )
    why = f"{left}: {what}" if left else what
    return SecretsFound(
        f"{count} {'secret' if count == 1 else 'secrets'} found: {why}",
        tuple(dict.fromkeys(map(_line, found))),
        hint=hint,
    )


def _line(found: Finding) -> str:
    inside = f"{found.checkpoint}, " if found.checkpoint else ""
    where = f"{found.place} {display(found.path)}".rstrip()
    return f"{found.id}  {found.rule}  {found.excerpt}  in {inside}{where}, line {found.line}"


class _Run:
    """One scan: what was found, by ID and place, and what was found clean. `given` collects what
    was looked at.
    """

    def __init__(self, store: Store, sieve: Sieve, given: Pieces | None = None) -> None:
        self.store = store
        self.sieve = sieve
        self.given = given
        self.known = scan_cache.load(store.repo)
        self.clean: set[bytes] = set()
        self.dirty: set[tuple[bytes, bytes]] = set()
        self.found: dict[tuple[str, str, bytes], Finding] = {}
        self.texts: dict[str, dict[bytes, None]] = {}
        self.id: CheckpointId | None = None

    def checkpoint(self, commit: Oid) -> None:
        summary = self.store.summary(commit)
        self.id = summary.id
        self._look(self.store.objects.read_commit(commit), "message", b"")
        self._tree(summary.root, b"")

    def _look(self, data: bytes, place: str, path: bytes) -> bool:
        """Keep what is found in some bytes; whether there is nothing."""
        clean = True
        if self.given is not None:
            self.given.add(data)
        for each, text in _described(data, place, path, self.id, self.sieve):
            clean = False
            self.texts.setdefault(each.id, {})[text] = None
            self.found.setdefault((each.id, each.place, each.path), each)
        return clean

    def _is_known(self, key: bytes) -> bool:
        return key in self.known or key in self.clean

    def _tree(self, oid: Oid, path: bytes) -> bool:
        """Scan a tree and all below it; whether nothing was found."""
        key = bytes.fromhex(oid)
        if self._is_known(key):
            return True
        if (key, path) in self.dirty:
            return False
        entries = self.store.objects.read_tree(oid)
        names = b"\0".join(entry.name for entry in entries)
        clean = self._look(names, "path", path)
        for name, mode, child in entries:
            below = path + name
            if mode == TREE:
                clean &= self._tree(child, below + b"/")
            elif mode != GITLINK:
                clean &= self._blob(child, below)
        if path.startswith(STREAMS):
            clean &= self._joints(
                [child for _, mode, child in entries if mode not in (TREE, GITLINK)], path
            )
        self._remember(key, path, clean=clean)
        return clean

    def _remember(self, key: bytes, path: bytes, *, clean: bool) -> None:
        if clean:
            self.clean.add(key)
        else:
            self.dirty.add((key, path))

    def _blob(self, oid: Oid, path: bytes) -> bool:
        key = bytes.fromhex(oid)
        if self._is_known(key):
            return True
        if (key, path) in self.dirty:
            return False
        clean = self._look(self.store.objects.read_blob(oid), _place(path), path)
        self._remember(key, path, clean=clean)
        return clean

    def _joints(self, pieces: list[Oid], path: bytes) -> bool:
        """What stands across the end of one segment and the beginning of the next, where a line was
        cut.
        """
        clean = True
        for before, after in pairwise(pieces):
            key = hashlib.sha1(bytes.fromhex(before + after), usedforsecurity=False).digest()
            if self._is_known(key):
                continue
            first, second = (
                self.store.objects.read_blob(before),
                self.store.objects.read_blob(after),
            )
            whole = first[-OVERLAP:] + second[:OVERLAP] if first[-1:] != b"\n" else b""
            if self._look(whole, "conversation", path):
                self.clean.add(key)
            else:
                clean = False
        return clean


def _described(
    data: bytes, place: str, path: bytes, id: CheckpointId | None, sieve: Sieve
) -> Iterator[tuple[Finding, bytes]]:
    for rule, start, end, text in scan.scan(data, sieve.placed):
        yield (
            _finding(rule, text, place, path, data.count(b"\n", 0, start) + 1, id),
            data[start:end],
        )
    strays = [each for each in sieve.known if each.piece]
    digest = hashlib.sha256(data).digest() if strays else b""
    for each in strays:
        if each.piece == digest:
            yield _stray(each, place, path, id), each.mark


def _stray(known: Known, place: str, path: bytes, id: CheckpointId | None) -> Finding:
    """A secret of which only the line is known, or that stands there in other words."""
    shown = scan.masked(known.text) if known.text else "text not told"
    return Finding(
        scan.fingerprint(known.rule, known.mark), known.rule, shown, place, path, known.line, id
    )


def _finding(
    rule: str, text: bytes, place: str, path: bytes, line: int, id: CheckpointId | None
) -> Finding:
    return Finding(scan.fingerprint(rule, text), rule, scan.masked(text), place, path, line, id)


def _place(path: bytes) -> str:
    if not path.startswith(RESERVED + b"/"):
        return "file"
    return "conversation" if path.startswith(STREAMS) else "metadata"
