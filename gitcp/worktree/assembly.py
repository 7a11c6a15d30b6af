"""From directories to trees: writes the trees of what changed, and of all that lies above."""

from __future__ import annotations

from collections.abc import Mapping

from gitcp.git.trees import TreeEntry
from gitcp.model import TREE, Oid
from gitcp.typed import TYPE_CHECKING
from gitcp.worktree.records import Line, PlainLine, Record

if TYPE_CHECKING:
    from gitcp.git.objects import Objects


def write_trees(objects: Objects, records: dict[bytes, Record], lines: Mapping[bytes, PlainLine]) -> bytes:
    """Write the trees of `records`, deepest first; the 20 bytes of the root's name.

    `lines` are the directories that did not change. Those above a changed one are taken out of them into `records`.
    Each record is told its tree. Directories without anything captured get none. The root's tree is named in any case,
    so that `objects` can read it.
    """
    waiting: dict[int, set[bytes]] = {0: {b""}}
    for path in records:
        waiting.setdefault(_depth(path), set()).add(path)
    for depth in range(max(waiting), -1, -1):
        for path in waiting.get(depth, ()):
            record = records.get(path)
            if record is None:
                record = records[path] = Record.of(path, lines[path])
            before = Line._make(lines[path]).tree if path in lines else None
            record.tree = _write(objects, record, records, lines)
            if record.tree != before and path:
                parent = path.rpartition(b"/")[0]
                waiting.setdefault(depth - 1, set()).add(parent)
    return _tree(b"", records, lines)


def _write(
    objects: Objects, record: Record, records: Mapping[bytes, Record], lines: Mapping[bytes, PlainLine]
) -> bytes:
    entries = record.entries()
    for name in record.subdirectories():
        path = record.below(name)
        if tree := _tree(path, records, lines):
            entries.append(TreeEntry(name, TREE, Oid(tree.hex())))
    if not entries and record.path:
        return b""
    # The root's tree is only named: a checkpoint's tree is that one and `.gitcp`.
    write = objects.write_tree if record.path else objects.name_tree
    return bytes.fromhex(write(entries))


def _tree(path: bytes, records: Mapping[bytes, Record], lines: Mapping[bytes, PlainLine]) -> bytes:
    if path in records:
        return records[path].tree
    return Line._make(lines[path]).tree if path in lines else b""


def _depth(path: bytes) -> int:
    return path.count(b"/") + 1 if path else 0
