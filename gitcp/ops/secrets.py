"""Secrets in checkpoints: what must be looked at before anything leaves the machine. Reads; writes one cache.

Scanned is everything that a checkpoint consists of: files, conversation, metadata, the README, commit messages, names
of paths and of tags. A blob or tree in which nothing was found is remembered by its name in `<git dir>/gitcp/scanned`,
so that the next scan reads what is new and nothing else.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Iterator
from itertools import pairwise

from gitcp.model import GITLINK, RESERVED, TREE, CheckpointId, Oid
from gitcp.ops import scanned
from gitcp.secrets import scan
from gitcp.store import CONVERSATION, Store
from gitcp.value import Value

OVERLAP = 4096
"""Bytes at the end of a piece of a line that are scanned again together with the next piece."""

STREAMS = RESERVED + b"/" + CONVERSATION + b"/"


class Finding(Value):
    """A secret: its ID (the same wherever it stands), the rule, what may be shown of it, and where it is.

    `place` is "file", "conversation", "metadata" (what gitcp writes about a checkpoint), "message", "path" or "tag";
    `path` lies in the checkpoint's tree. `checkpoint` is the oldest scanned one that has it there.
    """

    id: str
    rule: str
    excerpt: str
    place: str
    path: bytes
    line: int
    checkpoint: CheckpointId | None


def findings(store: Store, commits: Iterable[Oid], allowed: Collection[str] = ()) -> tuple[Finding, ...]:
    """The secrets in checkpoints, given oldest first; those in `allowed` (their IDs) are left out.

    Writes the cache and nothing else. Raises StoreDamaged for what cannot be read: what was not seen may not leave.
    """
    run = _Run(store, scanned.load(store.repo))
    for commit in commits:
        run.checkpoint(commit)
    scanned.add(store.repo, run.clean)
    return tuple(found for found in run.found.values() if found.id not in allowed)


def texts(store: Store, commits: Iterable[Oid]) -> dict[str, bytes]:
    """The secrets in checkpoints themselves, by ID. Nobody is shown them; writes nothing. Raises StoreDamaged."""
    run = _Run(store, scanned.load(store.repo))
    for commit in commits:
        run.checkpoint(commit)
    return run.texts


def in_text(text: bytes, place: str, path: bytes = b"", allowed: Collection[str] = ()) -> tuple[Finding, ...]:
    """The secrets in bytes that are about to leave, whatever they are. Reads nothing, writes nothing."""
    return tuple(found for found, _ in _described(text, place, path, None) if found.id not in allowed)


def redacted(text: bytes, allowed: Collection[str] = ()) -> bytes:
    """The same bytes with every secret replaced by `[REDACTED:rule]`, but for those in `allowed`."""
    return scan.redact(text, lambda secret, found: scan.fingerprint(secret.rule, found) not in allowed)


class _Run:
    """One scan: what was found, by ID and place, and what was found clean."""

    def __init__(self, store: Store, known: frozenset[bytes]) -> None:
        self.store = store
        self.known = known
        self.clean: set[bytes] = set()
        self.dirty: set[tuple[bytes, bytes]] = set()
        self.found: dict[tuple[str, str, bytes], Finding] = {}
        self.texts: dict[str, bytes] = {}
        self.id: CheckpointId | None = None

    def checkpoint(self, commit: Oid) -> None:
        summary = self.store.summary(commit)
        self.id = summary.id
        self._note(_described(self.store.objects.read_commit(commit), "message", b"", self.id))
        self._tree(summary.root, b"")

    def _note(self, found: Iterable[tuple[Finding, bytes]]) -> bool:
        """Keep what was found; whether there was nothing."""
        clean = True
        for each, text in found:
            clean = False
            self.texts[each.id] = text
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
        names = b"\n".join(entry.name for entry in entries)
        clean = self._note(_described(names, "path", path, self.id))
        for name, mode, child in entries:
            below = path + name
            if mode == TREE:
                clean &= self._tree(child, below + b"/")
            elif mode != GITLINK:
                clean &= self._blob(child, below)
        if path.startswith(STREAMS):
            clean &= self._joints([child for _, mode, child in entries if mode not in (TREE, GITLINK)], path)
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
        clean = self._note(_described(self.store.objects.read_blob(oid), _place(path), path, self.id))
        self._remember(key, path, clean=clean)
        return clean

    def _joints(self, pieces: list[Oid], path: bytes) -> bool:
        """What stands across the end of one segment and the beginning of the next, where a line was cut."""
        clean = True
        for before, after in pairwise(pieces):
            key = hashlib.sha1(bytes.fromhex(before + after), usedforsecurity=False).digest()
            if self._is_known(key):
                continue
            first, second = self.store.objects.read_blob(before), self.store.objects.read_blob(after)
            whole = first[-OVERLAP:] + second[:OVERLAP] if first[-1:] != b"\n" else b""
            if self._note(_described(whole, "conversation", path, self.id)):
                self.clean.add(key)
            else:
                clean = False
        return clean


def _described(data: bytes, place: str, path: bytes, id: CheckpointId | None) -> Iterator[tuple[Finding, bytes]]:
    for rule, start, end in scan.scan(data):
        text = data[start:end]
        line = data.count(b"\n", 0, start) + 1
        yield Finding(scan.fingerprint(rule, text), rule, scan.masked(text), place, path, line, id), text


def _place(path: bytes) -> str:
    if not path.startswith(RESERVED + b"/"):
        return "file"
    return "conversation" if path.startswith(STREAMS) else "metadata"
