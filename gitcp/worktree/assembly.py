"""Write the git trees of changed directories and of all directories above them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from gitcp.git.trees import TreeEntry
from gitcp.model import TREE, Oid
from gitcp.worktree.records import Past, Record

if TYPE_CHECKING:
    from gitcp.git.objects import Objects


def write_trees(
    objects: Objects, records: Mapping[bytes, Record], past: Past
) -> dict[bytes, bytes]:
    """Write the trees of `records` and of the directories above them, deepest first.

    Return their ids by path, always including the root's. An id is raw bytes, b"" for a directory
    without captured files. `past` are the directories as they were. The root's tree, and the
    previous trees of changed directories, are only registered with `objects`, which can then read
    them: they are compared next.
    """
    tree_ids: dict[bytes, bytes] = {}

    def current_tree(path: bytes) -> bytes:
        return tree_ids[path] if path in tree_ids else previous_tree(path)

    def previous_tree(path: bytes) -> bytes:
        line = past.line(path)
        return line.tree if line else b""

    paths_by_depth: dict[int, set[bytes]] = {0: {b""}}
    for path in records:
        paths_by_depth.setdefault(_depth(path), set()).add(path)
    for depth in range(max(paths_by_depth), -1, -1):
        for path in paths_by_depth.get(depth, ()):
            record = records.get(path) or past.record(path)
            assert record is not None
            tree_ids[path] = _write_tree(objects, record, _entries(record, current_tree))
            if tree_ids[path] == previous_tree(path):
                continue
            old = (
                None
                if objects.reader.has_cached(Oid(previous_tree(path).hex()))
                else past.record(path)
            )
            if old is not None:
                objects.reader.name_tree(_entries(old, previous_tree))
            if path:
                paths_by_depth.setdefault(depth - 1, set()).add(path.rpartition(b"/")[0])
    return tree_ids


def _entries(record: Record, tree: Callable[[bytes], bytes]) -> list[TreeEntry]:
    """Return the tree entries of a directory; `tree` returns the tree id of a subdirectory."""
    entries = record.entries()
    for name in record.subdirectories():
        if below := tree(record.below(name)):
            entries.append(TreeEntry(name, TREE, Oid(below.hex())))
    return entries


def _write_tree(objects: Objects, record: Record, entries: list[TreeEntry]) -> bytes:
    if not entries and record.path:
        return b""
    # The root's tree is not written: a checkpoint's tree is this one plus `.gitcp`.
    write = objects.writer.write_tree if record.path else objects.reader.name_tree
    return bytes.fromhex(write(entries))


def _depth(path: bytes) -> int:
    return path.count(b"/") + 1 if path else 0
