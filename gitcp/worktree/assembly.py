"""From directories to trees: writes the trees of what changed, and of all that lies above."""

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
    """Write the trees of `records` and of what lies above them, deepest first; their names, the
    root's in any case.

    A name is 20 bytes, b"" for directories without anything captured. `past` are the directories as
    they were. The root's tree, and those that changed as they were, are named to `objects`, which
    can then read them: they are compared next.
    """
    found: dict[bytes, bytes] = {}

    def now(path: bytes) -> bytes:
        return found[path] if path in found else then(path)

    def then(path: bytes) -> bytes:
        line = past.line(path)
        return line.tree if line else b""

    waiting: dict[int, set[bytes]] = {0: {b""}}
    for path in records:
        waiting.setdefault(_depth(path), set()).add(path)
    for depth in range(max(waiting), -1, -1):
        for path in waiting.get(depth, ()):
            record = records.get(path) or past.record(path)
            assert record is not None
            found[path] = _write(objects, record, _entries(record, now))
            if found[path] == then(path):
                continue
            old = None if objects.has_read(Oid(then(path).hex())) else past.record(path)
            if old is not None:
                objects.name_tree(_entries(old, then))
            if path:
                waiting.setdefault(depth - 1, set()).add(path.rpartition(b"/")[0])
    return found


def _entries(record: Record, tree: Callable[[bytes], bytes]) -> list[TreeEntry]:
    """The entries of a directory; `tree` says what the trees below it are."""
    entries = record.entries()
    for name in record.subdirectories():
        if below := tree(record.below(name)):
            entries.append(TreeEntry(name, TREE, Oid(below.hex())))
    return entries


def _write(objects: Objects, record: Record, entries: list[TreeEntry]) -> bytes:
    if not entries and record.path:
        return b""
    # The root's tree is only named: a checkpoint's tree is that one and `.gitcp`.
    write = objects.write_tree if record.path else objects.name_tree
    return bytes.fromhex(write(entries))


def _depth(path: bytes) -> int:
    return path.count(b"/") + 1 if path else 0
