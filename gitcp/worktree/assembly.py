"""Build trees and nodes from the bottom up: of scanned directories, and of those above them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from gitcp.git.trees import TreeEntry
from gitcp.model import TREE, Oid
from gitcp.worktree.records import Past, Record, Ref

if TYPE_CHECKING:
    from gitcp.git.objects import Objects
    from gitcp.worktree.basis import Basis
    from gitcp.worktree.records import Line
    from gitcp.worktree.state import Nodes


class Assembly:
    """Writes the git trees and the nodes of changed directories; `past` are the directories as they
    were.

    The root's tree, and the previous trees of changed directories, are only registered with
    `objects`, which can then read them: they are compared next.
    """

    def __init__(self, objects: Objects, nodes: Nodes, past: Past, basis: Basis) -> None:
        self._objects = objects
        self._nodes = nodes
        self._past = past
        self._basis = basis
        self._refs: dict[bytes, Ref] = {}

    def add(self, records: Mapping[bytes, Record]) -> None:
        """Add directories of a scan that knows no past, below which nothing is missing."""
        for path in sorted(records, key=_depth, reverse=True):
            self._put(path, self._line(records[path]))

    def update(self, records: Mapping[bytes, Record]) -> None:
        """Add changed directories, and change those above them."""
        paths_by_depth: dict[int, set[bytes]] = {0: {b""}}
        for path in records:
            paths_by_depth.setdefault(_depth(path), set()).add(path)
        for depth in range(max(paths_by_depth), -1, -1):
            for path in paths_by_depth.get(depth, ()):
                record = records.get(path)
                line = self._line(record) if record else self._above(path)
                self._put(path, line)
                self._register(path, line.tree)
                if path:
                    paths_by_depth.setdefault(depth - 1, set()).add(path.rpartition(b"/")[0])

    def register(self) -> None:
        """Let the tree of the root be read, where nothing changed."""
        line, record = self._past.line(b""), self._past.record(b"")
        if line is not None and record is not None:
            write_tree(self._objects, record, line.children)

    def root(self) -> Ref:
        """Return the reference to the root, which must have been added."""
        return self._refs[b""]

    def _put(self, path: bytes, line: Line) -> None:
        self._refs[path] = self._nodes.put(path, line)

    def _line(self, record: Record) -> Line:
        old, prefix = self._past.line(record.path), record.below(b"")
        children = {}
        for name in sorted(record.subdirectories()):
            ref = self._refs.pop(prefix + name, None)
            if ref is None and old is not None:
                ref = old.children.get(name)
            if ref is not None:
                children[name] = ref
        notes = record.notes(self._basis.umask, file_mode=self._basis.file_mode)
        return record.line(write_tree(self._objects, record, children), children, notes)

    def _above(self, path: bytes) -> Line:
        """Return a directory in which only others changed."""
        line, record = self._past.line(path), self._past.record(path)
        assert line is not None
        assert record is not None
        prefix = record.below(b"")
        children = {name: self._refs.pop(prefix + name, ref) for name, ref in line.children.items()}
        is_same = path and all(
            children[name].tree == ref.tree for name, ref in line.children.items()
        )
        tree = line.tree if is_same else write_tree(self._objects, record, children)
        return line._replace(children=children, tree=tree)

    def _register(self, path: bytes, tree: bytes) -> None:
        """Let the previous tree of a directory be read, if it was another."""
        old = self._past.line(path)
        if old is None or old.tree == tree or self._objects.reader.has_cached(Oid(old.tree.hex())):
            return
        record = self._past.record(path)
        assert record is not None
        self._objects.reader.name_tree(_entries(record, old.children))


def write_tree(objects: Objects, record: Record, children: Mapping[bytes, Ref]) -> bytes:
    """Write the tree of a directory and return its raw id, b"" if nothing is captured in it."""
    entries = _entries(record, children)
    if not entries and record.path:
        return b""
    # The root's tree is not written: a checkpoint's tree is this one plus `.gitcp`.
    write = objects.writer.write_tree if record.path else objects.reader.name_tree
    return bytes.fromhex(write(entries))


def _entries(record: Record, children: Mapping[bytes, Ref]) -> list[TreeEntry]:
    return record.entries() + [
        TreeEntry(name, TREE, Oid(ref.tree.hex())) for name, ref in children.items() if ref.tree
    ]


def _depth(path: bytes) -> int:
    return path.count(b"/") + 1 if path else 0
