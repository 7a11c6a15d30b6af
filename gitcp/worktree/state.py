"""The state file of a working tree: the result of the last scan, so that the next one only looks
for changes.

One file, `<git dir>/gitcp/worktree-state` (gitcp.fastpath.nodes reads it). A save appends the nodes
of the directories that changed and of those above them, so that its cost does not depend on the
size of the tree. When the appended part exceeds the rest, the file is rewritten. It is only a
cache: unexpected content (another Python version, another root, a wrong checksum, a truncated end)
counts as no file.

It also tells which files git tracked where the index cannot be read: a power cut leaves one of no
bytes, or of NULs. Without that, every tracked file would count as untracked, and those that an
ignore rule matches would be missing from the checkpoint.
"""

from __future__ import annotations

import fcntl
import marshal
import os
import zlib
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple

from gitcp import fingerprint, trusted_cache
from gitcp.errors import StoreDamaged
from gitcp.fastpath.nodes import Damaged, ScanFile, below, checksum, flagged
from gitcp.fastpath.stat_check import Look
from gitcp.git import index as git_index
from gitcp.git import trees
from gitcp.git.fsync import replacing, write_all
from gitcp.git.index import Index
from gitcp.model import Skip, SkipReason
from gitcp.worktree.records import PreviousScan, Ref, StoredDirectory

if TYPE_CHECKING:
    from pathlib import Path

    from gitcp.fastpath.nodes import Node
    from gitcp.fastpath.nodes import Ref as NodeRef
    from gitcp.fingerprint import Fingerprint
    from gitcp.git.reader import ObjectReader
    from gitcp.git.repo import Repository
    from gitcp.worktree.basis import ScanInputs
    from gitcp.worktree.records import ScannedDirectory


NAME = "worktree-state"

SPARE = 1 << 16
"""Bytes that may always be appended."""

SPILL = 1 << 20
"""Bytes of new nodes that are held in memory before they go to a temporary file."""


_Level = tuple[bytes, "NodeRef", "Node", Iterator[tuple[bytes, "NodeRef"]], dict[bytes, "NodeRef"]]
"""A directory that is being copied, those in it that are not copied yet, and those that are."""


class _Spilled:
    """Bytes in a temporary file without a name, which ends with this."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self.size = 0

    @classmethod
    def opened(cls) -> _Spilled:
        """Make the file. Raises OSError."""
        import tempfile  # 10 ms, and only a large tree needs it

        return cls(tempfile.TemporaryFile(buffering=0))

    def __del__(self) -> None:
        self._file.close()

    def add(self, data: bytes) -> None:
        """Append; what a full disk left of an attempt is overwritten. Raises OSError."""
        self._file.seek(self.size)
        write_all(self._file.fileno(), data)
        self.size += len(data)

    def read(self, at: int, size: int) -> bytes:
        return os.pread(self._file.fileno(), size, at)


class Nodes:
    """The nodes of a scan: those of the file it was loaded from (None: of none), and new ones,
    which `save` writes. `fingerprint` identifies the file and its length.
    """

    def __init__(self, state: ScanFile | None) -> None:
        self.fingerprint = state.fingerprint if state else None
        self._state = state
        self._start = state.length if state else trusted_cache.BEGINNING
        self._base = state.head[-1] if state else 0
        self._new = bytearray()
        self._spilled: _Spilled | None = None

    @property
    def _spilled_size(self) -> int:
        return self._spilled.size if self._spilled is not None else 0

    def put(self, path: bytes, line: StoredDirectory) -> Ref:
        """Add a node and return its reference."""
        return line.ref(path, *self._add(line.node()))

    def add(self, node: Node, ref: NodeRef) -> Ref:
        """Add the node that another file has under `ref`, and return its reference in this one."""
        weight, captured, flags, tree = ref[3:]
        return Ref(*self._add(node), weight, captured, flags, tree)

    def _add(self, node: Node) -> tuple[int, int, int]:
        """Return the offset, size and checksum of a node that was added."""
        data = marshal.dumps(node)
        offset = self._start + self._spilled_size + len(self._new)
        self._new += data
        if len(self._new) > SPILL:
            with suppress(OSError):  # else it stays in memory
                self._spilled = self._spilled or _Spilled.opened()
                self._spilled.add(bytes(self._new))
                self._new.clear()
        return offset, len(data), zlib.crc32(data)

    def line(self, ref: Ref) -> StoredDirectory:
        """Return a node. Raises Damaged."""
        return StoredDirectory.of(self.node(ref))

    def node(self, ref: NodeRef) -> Any:
        """Return a node as it is stored. Raises Damaged."""
        if ref[0] < self._start and self._state is not None:
            return self._state.node(ref)
        return marshal.loads(self._new_bytes(ref[0] - self._start, ref[1]))  # noqa: S302

    def _new_bytes(self, at: int, size: int) -> bytes:
        if at < self._spilled_size and self._spilled is not None:
            return self._spilled.read(at, size)
        at -= self._spilled_size
        return bytes(self._new[at : at + size])

    def stored(self) -> ScanFile:
        """Return the file it was loaded from, or saved to. Raises Damaged if there is none."""
        if self._state is None:
            raise Damaged
        return self._state

    # ------------------------------------------------------------ write

    def save(self, path: Path, head: tuple[Any, ...], root: Ref) -> None:
        """Write the new nodes, and a head that names this root. A file that is not the one it was
        loaded from is left alone: another process wrote it meanwhile. Raises OSError, Damaged.
        """
        if self._state is None:
            self._write(path, head, root)
        elif self._append(path, head, root):
            self._rewrite(path, head, root)

    def _append(self, path: Path, head: tuple[Any, ...], root: Ref) -> bool:
        """Append to the file if it is the same. Return whether it should be rewritten instead."""
        descriptor = os.open(path, os.O_RDWR | os.O_APPEND | os.O_NOFOLLOW)
        with open(descriptor, "r+b", buffering=0) as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            if fingerprint.of(os.fstat(file.fileno())) != self.fingerprint:
                return False
            added = self._spilled_size + len(self._new)
            if self._start + added > 2 * self._base + SPARE:
                return True
            for data in self._parts((*head, self._base), root):
                write_all(file.fileno(), data)
            self._wrote(os.fstat(file.fileno()))
        return False

    def _write(self, path: Path, head: tuple[Any, ...], root: Ref) -> None:
        """Write the first file: all nodes are new, and stay where they are."""
        base = self._start + self._spilled_size + len(self._new)
        beginning = trusted_cache.beginning(str(path), make=True)
        with replacing(path, durable=False, private=True, keep_open=True) as descriptor:
            write_all(descriptor, beginning)
            for data in self._parts((*head, base), root):
                write_all(descriptor, data)
        self._base = base
        with open(descriptor, "rb") as file:
            self._state = ScanFile(file, beginning)
            self._wrote(os.fstat(descriptor))

    def _wrote(self, status: os.stat_result) -> None:
        self.fingerprint = fingerprint.of(status)
        self._start = status.st_size
        self._new, self._spilled = bytearray(), None

    def _parts(self, head: tuple[Any, ...], root: Ref) -> Iterator[bytes]:
        """Yield the new nodes, the head and the docket: in one piece unless they are many."""
        for at in range(0, self._spilled_size, SPILL):
            yield self._new_bytes(at, min(SPILL, self._spilled_size - at))
        end = self._start + self._spilled_size + len(self._new)
        data = marshal.dumps((*head, tuple(root)))
        yield bytes(self._new) + data + docket(end, data)

    def _rewrite(self, path: Path, head: tuple[Any, ...], root: Ref) -> None:
        """Replace the file by one without nodes that nothing names any more."""
        fresh = Nodes(None)
        fresh.save(path, head, copied(self, fresh, root))
        self.fingerprint = fresh.fingerprint


def docket(offset: int, data: bytes) -> bytes:
    """Return the docket for a head with this data at `offset`."""
    numbers = offset.to_bytes(8, "big") + len(data).to_bytes(4, "big") + checksum(data)
    return numbers + checksum(numbers)


def copied(source: Nodes, target: Nodes, root: Ref) -> Ref:
    """Copy a node and all below it, and return its new reference. Raises Damaged."""
    levels: list[_Level] = [_level(source, b"", root)]
    while True:
        name, ref, node, pending, children = levels[-1]
        child = next(pending, None)
        if child is not None:
            levels.append(_level(source, *child))
            continue
        copy = target.add((*node[:4], children, node[5]), ref)
        levels.pop()
        if not levels:
            return copy
        levels[-1][-1][name] = (*copy,)


def _level(source: Nodes, name: bytes, ref: NodeRef) -> _Level:
    node = source.node(ref)
    return name, ref, node, iter(node[4].items()), {}


class ScanMemory(NamedTuple):
    """The remembered result of a scan.

    `tree` is the captured tree, `index_file` the index it was compared with, `index_digest` that of
    its content. `words` are all attributes named anywhere. `root` names the node of the root in
    `file`. `scanned` are the records of the directories that this process has just scanned, none of
    which is gone.
    """

    tree: bytes
    index_file: Fingerprint | None
    index_digest: bytes
    words: frozenset[str]
    decisions: tuple[str, ...]
    contents: tuple[str, ...]
    root: Ref
    file: Nodes
    scanned: Mapping[bytes, ScannedDirectory] | None = None

    def past(self) -> PreviousScan:
        """Return the directories, to be looked up one by one."""
        return PreviousScan(self.file.line, self.root, self.scanned)

    def flagged(self, flag: int) -> Iterator[tuple[bytes, StoredDirectory]]:
        """Yield the directories with a flag here or below. Raises Damaged."""
        for path, node in flagged(self.file.node, self.root, flag):
            yield path, StoredDirectory.of(node)

    def walk(self) -> Iterator[tuple[bytes, StoredDirectory]]:
        """Yield all directories. Raises Damaged."""
        pending = [(b"", self.root)]
        while pending:
            path, ref = pending.pop()
            line = self.file.line(ref)
            yield path, line
            pending += [(below(path, name), child) for name, child in line.children.items()]


def load(repo: Repository, basis: ScanInputs, look: Look | None) -> ScanMemory | None:
    """Return the remembered scan of this working tree, None if there is none; a look may have
    opened it already. Never raises, never writes.
    """
    path = str(repo.git_dir / "gitcp" / NAME)
    if look is None or look.state != path:
        look = Look(os.fsencode(repo.root), path)
    try:
        state = look.load()
        identity, tree, index, digest, words, decisions, contents, _ = state.head
        root = Ref(*state.root)
    except (OSError, ValueError, TypeError):
        return None
    if identity != tuple(basis.place):
        return None
    nodes = Nodes(state)
    return ScanMemory(tree, index, digest, frozenset(words), decisions, contents, root, nodes)


def save(repo: Repository, basis: ScanInputs, memory: ScanMemory) -> None:
    """Remember a scan, in a file readable only by its owner. Ignores a full disk."""
    head = (
        tuple(basis.place),
        memory.tree,
        memory.index_file,
        memory.index_digest,
        sorted(memory.words),
        memory.decisions,
        memory.contents,
    )
    with suppress(OSError, Damaged):
        memory.file.save(repo.state_dir / NAME, head, memory.root)


PATH = b".git/index"
"""The path by which a snapshot lists an index that it does not have."""

SCAN, HEAD, NOTHING = "the last scan", "HEAD", "no commit: those that are ignored are not saved"


def instead(repo: Repository, reader: ObjectReader, memory: ScanMemory | None) -> tuple[Index, str]:
    """Return the index that the last scan saw, else that of HEAD, and which of them it is. Raises
    Damaged.
    """
    if memory is not None:
        past = memory.past()
        records = ((path, past.record(path)) for path, _ in memory.walk())
        folders = {path: record.folder for path, record in records if record is not None}
        return Index(folders, 0, any(folder.trees for folder in folders.values())), SCAN
    commit = repo.head().commit
    try:
        entries = list(trees.walk(reader, reader.tree_of(commit))) if commit else []
    except StoreDamaged:
        entries = []
    is_sparse = repo.is_set("core.sparsecheckout", default=False)
    index = git_index.of_tree(entries, repo.object_format, absent=is_sparse)
    return index, HEAD if entries else NOTHING


def skip(why: str, instead: str) -> Skip:
    """Return how a snapshot lists the index that it could not read."""
    return Skip(PATH, SkipReason.UNREADABLE, f"git's index: {why}; tracked files: {instead}")
