"""Read the state file of a working tree: one node for each directory, each read by itself.

A file is trusted_cache.beginning, then nodes, then a docket, always at the very end. A save
appends the nodes of the directories that changed and of those above them, a head, and a docket.
Nothing is overwritten: an older docket still has all of its nodes. Who names a node names its
checksum too, from the docket down, so nothing has to be synced: what a power cut lost, or what
something older left in its place, is never taken for the node that is meant.
"""

from __future__ import annotations

import marshal
import os
import zlib

from gitcp import fingerprint, trusted_cache

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any, BinaryIO

    Ref = tuple[int, int, int, int, int, int, bytes]
    """Names a node: its offset, size and checksum; and of the directory with all below it the
    number of names that a look compares, that of captured paths, the flags, and the tree.
    """
    Node = tuple[int, int, list[bytes], list[int], dict[bytes, Ref], Any]
    """Of a directory: its stamp and inode; the names that a look compares and their ctimes; the
    directories in it; the rest (see gitcp.worktree.records.StoredDirectory).
    """

DOCKET = 20
"""Bytes of a docket: offset (8), size and checksum (4 each) of the head, and its own checksum."""

ALWAYS = 1
"""The flag of a directory that has to be compared even where nothing reported a change, here or
below.
"""


class Damaged(ValueError):
    """A state file is not whole, or not ours: it counts as none."""


class ScanFile:
    """An open state file, as it was when it was opened: `head` is what applies to all of it, `root`
    names the node of the root. `beginning` is how a file of this user begins at its place.
    """

    __slots__ = ("_descriptor", "fingerprint", "head", "length", "root")

    def __init__(self, file: BinaryIO, beginning: bytes) -> None:
        self._descriptor = -1  # what __del__ finds if no descriptor is left
        self._descriptor = os.dup(file.fileno())
        status = os.fstat(self._descriptor)
        self.fingerprint = fingerprint.of(status)
        self.length = status.st_size
        docket = self.read(max(self.length - DOCKET, 0), DOCKET)
        is_ours = self.read(0, len(beginning)) == beginning
        if not is_ours or docket[16:] != checksum(docket[:16]):
            raise Damaged
        numbers = (docket[:8], docket[8:12], docket[12:16])
        offset, size, crc = (int.from_bytes(number, "big") for number in numbers)
        try:
            *self.head, self.root = decoded(self.read(offset, size), crc)
        except TypeError:
            raise Damaged from None

    def __del__(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)

    def read(self, offset: int, size: int) -> bytes:
        """Return these bytes, as many as there are. Raises Damaged if they cannot be read."""
        try:
            return os.pread(self._descriptor, size, offset)
        except (OSError, OverflowError):
            raise Damaged from None

    def node(self, ref: Ref) -> Node:
        """Return a node. Raises Damaged."""
        node: Node = decoded(self.read(ref[0], ref[1]), ref[2])
        return node

    def walk(self, low: int = 0, high: int | None = None) -> Iterator[tuple[bytes, Node]]:
        """Yield directories and their nodes, each before what is below it.

        All names that a look compares are counted in this order, each directory as one more; only
        directories that begin from `low` up to `high` are yielded, and none in which there is
        nothing to compare. Raises Damaged.
        """
        pending = [(b"", self.root, 0)]
        high = self.root[3] if high is None else high
        while pending:
            path, ref, position = pending.pop()
            node = self.node(ref)
            if low <= position:
                yield path, node
            position += 1 + len(node[2])
            for name, child in node[4].items():
                if child[3] and position + child[3] > low and position < high:
                    pending.append((below(path, name), child, position))
                position += child[3]

    def flagged(self, flag: int) -> Iterator[tuple[bytes, Node]]:
        """Yield the directories that have this flag here or below. Raises Damaged."""
        yield from flagged(self.node, self.root, flag)

    def subtree(self, path: bytes) -> Iterator[tuple[bytes, Node]]:
        """Yield a directory and all below it; if it is unknown, the nearest known above it alone.
        Raises Damaged.
        """
        known, ref = self._nearest(path)
        if known != path:
            yield known, self.node(ref)
            return
        pending = [(path, ref)]
        while pending:
            path, ref = pending.pop()
            node = self.node(ref)
            yield path, node
            pending += [(below(path, name), child) for name, child in node[4].items()]

    def nearest(self, path: bytes) -> tuple[bytes, Node]:
        """Return a directory, or the nearest known one above it. Raises Damaged."""
        known, ref = self._nearest(path)
        return known, self.node(ref)

    def _nearest(self, path: bytes) -> tuple[bytes, Ref]:
        known, ref = b"", self.root
        for name in path.split(b"/") if path else ():
            child = self.node(ref)[4].get(name)
            if child is None:
                break
            known, ref = below(known, name), child
        return known, ref


def opened(path: str) -> ScanFile:
    """Open a state file. Raises OSError if it cannot be read or another user could have written it,
    and Damaged.
    """
    beginning = trusted_cache.beginning(path)
    try:
        with trusted_cache.opened(path) as file:
            return ScanFile(file, beginning)
    except Damaged:
        import fcntl  # somebody may be appending to it at this moment

        with trusted_cache.opened(path) as file:
            fcntl.flock(file, fcntl.LOCK_SH)
            try:
                return ScanFile(file, beginning)
            finally:
                fcntl.flock(file, fcntl.LOCK_UN)  # what is returned has the same open file


def flagged(read: Any, root: Ref, flag: int) -> Iterator[tuple[bytes, Node]]:
    """Yield the directories with a flag, nodes being read with `read`, the upper ones first."""
    pending = [(b"", root)] if root[5] & flag else []
    while pending:
        path, ref = pending.pop()
        node = read(ref)
        yield path, node
        children = node[4].items()
        pending += [(below(path, name), child) for name, child in children if child[5] & flag]


def below(path: bytes, name: bytes) -> bytes:
    """Return the path of an entry of a directory."""
    return path + b"/" + name if path else name


def decoded(data: bytes, crc: int) -> Any:
    """Return the value in a node or head. Raises Damaged."""
    if zlib.crc32(data) != crc:
        raise Damaged
    try:
        return marshal.loads(data)  # noqa: S302 -- written by this user, and whole
    except (ValueError, EOFError, TypeError):
        raise Damaged from None


def checksum(data: bytes) -> bytes:
    """Return the checksum of a docket, or of a head as a docket has it."""
    return zlib.crc32(data).to_bytes(4, "big")
