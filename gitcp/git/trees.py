"""Trees as values: parse, serialize, build, walk and compare. Paths are raw bytes throughout, for
speed.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from itertools import chain
from typing import NamedTuple, Protocol, Union

from gitcp.errors import StoreDamaged
from gitcp.git.object_format import FORMATS, ObjectFormat
from gitcp.model import GITLINK, TREE, Entry, FileChange, Oid

_ENTRIES = {
    each.raw: re.compile(rb"([0-7]+) ([^\0]*)\0(.{%d})" % each.raw, re.DOTALL)
    for each in FORMATS.values()
}


class TreeEntry(NamedTuple):
    """One line of a tree object."""

    name: bytes
    mode: int
    oid: Oid


Nested = Mapping[bytes, Union[Entry, "Nested"]]
"""A tree to be written: names to entries or to further trees."""


_Edit = tuple[Oid | None, bytes, Mapping[bytes, Entry | None], dict[bytes, TreeEntry]]
"""A tree to be edited (None: a new one), its name, its edits, and the entries of the tree above."""


class PartOfTree(str):
    """The id of a tree that is not stored: the tree `whole` without its entry `left_out`. It can be
    read if `whole` can.
    """

    __slots__ = ("left_out", "whole")

    whole: Oid
    left_out: bytes

    @classmethod
    def named(cls, name: Oid, whole: Oid, left_out: bytes) -> Oid:
        """Return the tree's id `name`, with the information how to read it."""
        self = cls(name)
        self.whole, self.left_out = whole, left_out
        return Oid(self)


class TreeReader(Protocol):
    """Reads trees."""

    def read_tree(self, oid: Oid) -> list[TreeEntry]: ...


class TreeWriter(Protocol):
    """Writes trees."""

    def write_tree(self, entries: list[TreeEntry]) -> Oid: ...


class TreeStore(Protocol):
    """Reads and writes trees."""

    @property
    def reader(self) -> TreeReader: ...

    @property
    def writer(self) -> TreeWriter: ...


def raw_entries(data: bytes, object_format: ObjectFormat) -> list[tuple[bytes, bytes, bytes]]:
    """Return the mode, the name and the raw id of each entry of a raw tree object, in its order.
    Raises StoreDamaged if it is invalid.
    """
    fields: list[tuple[bytes, bytes, bytes]] = _ENTRIES[object_format.raw].findall(data)
    between = 2 * len(fields)  # a space and a NUL each
    if sum(map(len, chain.from_iterable(fields))) + between != len(data):
        raise StoreDamaged("a tree object does not parse")
    return fields


def parse(data: bytes, object_format: ObjectFormat) -> list[TreeEntry]:
    """Return the entries of a raw tree object, in its order. Raises StoreDamaged if it is
    invalid.
    """
    return decoded(raw_entries(data, object_format))


def decoded(raw: Iterable[tuple[bytes, bytes, bytes]]) -> list[TreeEntry]:
    """Return what `raw_entries` returns as entries."""
    return [TreeEntry(name, int(mode, 8), Oid(oid.hex())) for mode, name, oid in raw]


def serialised(entries: list[TreeEntry]) -> tuple[list[TreeEntry], bytes]:
    """Return entries in git's order, where a directory sorts as if its name ended in a slash, and
    the raw tree object that they make.
    """
    ordered = sorted(entries, key=lambda each: each.name + b"/" if each.mode == TREE else each.name)
    lines = [b"%o %s\0%s" % (mode, name, bytes.fromhex(oid)) for name, mode, oid in ordered]
    return ordered, b"".join(lines)


def build(writer: TreeWriter, nested: Nested) -> Oid:
    """Write `nested` bottom up and return the root's id. Empty directories are dropped, as in git.
    Handles any depth.
    """
    top: list[TreeEntry] = []
    order: list[tuple[bytes, list[TreeEntry], list[TreeEntry]]] = []
    ahead: list[tuple[Nested, bytes, list[TreeEntry]]] = [(nested, b"", top)]
    while ahead:
        here, name, above = ahead.pop()
        entries = [
            TreeEntry(n, value.mode, value.oid)
            for n, value in here.items()
            if isinstance(value, Entry)
        ]
        order.append((name, entries, above))
        ahead += [(value, n, entries) for n, value in here.items() if not isinstance(value, Entry)]
    for name, entries, above in reversed(order):
        if entries or above is top:
            above.append(TreeEntry(name, TREE, writer.write_tree(entries)))
    return top[0].oid


def nest(paths: Mapping[bytes, Entry]) -> Nested:
    """Return flat paths as a nested mapping for `build`."""
    root: dict[bytes, object] = {}
    for path, entry in paths.items():
        *parents, name = path.split(b"/")
        here = root
        for parent in parents:
            here = here.setdefault(parent, {})  # type: ignore[assignment]
        here[name] = entry
    return root  # type: ignore[return-value]


def lookup(reader: TreeReader, tree: Oid, path: bytes) -> Entry | None:
    """Return the entry at `path` below `tree`, None if there is none."""
    entry = Entry(TREE, tree)
    for name in path.split(b"/"):
        if entry.mode != TREE:
            return None
        child = next((e for e in reader.read_tree(entry.oid) if e.name == name), None)
        if child is None:
            return None
        entry = Entry(child.mode, child.oid)
    return entry


def put(store: TreeStore, tree: Oid | None, path: bytes, entry: Entry) -> Oid:
    """Return `tree` with `entry` at `path`. Writes the trees along the path."""
    made = edited(store, tree, {path: entry})
    assert made is not None  # something is in it
    return made


def without(store: TreeStore, tree: Oid, path: bytes) -> Oid | None:
    """Return `tree` with nothing at `path`, None if that leaves it empty. Writes the trees along
    the path.
    """
    return edited(store, tree, {path: None}) if lookup(store.reader, tree, path) else tree


def changed(
    store: TreeStore, tree: Oid | None, then: Mapping[bytes, Entry], now: Mapping[bytes, Entry]
) -> Oid | None:
    """Return the tree of the paths `now`, None if there are none. Subtrees unchanged since `then`,
    the paths of `tree`, are not written again.
    """
    edits: dict[bytes, Entry | None] = dict.fromkeys(then.keys() - now.keys()) | dict(
        now.items() - then.items()
    )
    if now and tree:
        with suppress(StoreDamaged):  # then all of it is written
            return edited(store, tree, edits) if edits else tree
    return build(store.writer, nest(now)) if now else None


def edited(store: TreeStore, tree: Oid | None, edits: Mapping[bytes, Entry | None]) -> Oid | None:
    """Return `tree` with some paths replaced or removed. Each tree along the paths is written
    once. Handles any depth.
    """
    top: dict[bytes, TreeEntry] = {}
    order: list[tuple[bytes, dict[bytes, TreeEntry], dict[bytes, TreeEntry]]] = []
    ahead: list[_Edit] = [(tree, b"", edits, top)]
    while ahead:
        oid, name, inside, above = ahead.pop()
        here = {e.name: e for e in store.reader.read_tree(oid)} if oid else {}
        order.append((name, here, above))
        below: dict[bytes, dict[bytes, Entry | None]] = {}
        for path, entry in inside.items():
            first, _, rest = path.partition(b"/")
            below.setdefault(first, {})[rest] = entry
        for first, further in below.items():
            before, made = here.pop(first, None), further.pop(b"", None)
            if made is not None:
                here[first] = TreeEntry(first, *made)
            elif further:
                is_tree = before is not None and before.mode == TREE
                ahead.append((before.oid if before and is_tree else None, first, further, here))
    for name, here, above in reversed(order):
        if here:
            above[name] = TreeEntry(name, TREE, store.writer.write_tree(list(here.values())))
    return top[b""].oid if top else None


def walk(reader: TreeReader, tree: Oid) -> Iterator[tuple[bytes, Entry]]:
    """Yield every path below `tree` that is not a directory, in tree order."""
    ahead = [(b"", Entry(TREE, tree))]
    while ahead:
        path, entry = ahead.pop()
        if entry.mode != TREE:
            yield path, entry
            continue
        prefix = path + b"/" if path else b""
        inside = [
            (prefix + name, Entry(mode, oid)) for name, mode, oid in reader.read_tree(entry.oid)
        ]
        ahead += reversed(inside)


def diff(reader: TreeReader, old: Oid | None, new: Oid | None) -> Iterator[FileChange]:
    """Yield the differences between two trees, path by path. Only trees with different ids are
    read.
    """
    top = [Entry(TREE, tree) if tree else None for tree in (old, new)]
    ahead: list[tuple[bytes, Entry | None, Entry | None]] = (
        [(b"", top[0], top[1])] if old != new else []
    )
    while ahead:
        path, a, b = ahead.pop()
        leaf_a, leaf_b = (entry if entry and entry.mode != TREE else None for entry in (a, b))
        if leaf_a or leaf_b:
            yield FileChange(path, leaf_a, leaf_b)
        prefix = path + b"/" if path else b""
        before, after = _differing(reader, a, b)
        ahead += [
            (prefix + name, before.get(name), after.get(name))
            for name in sorted(before | after, reverse=True)
        ]


def _differing(
    reader: TreeReader, a: Entry | None, b: Entry | None
) -> tuple[dict[bytes, Entry], dict[bytes, Entry]]:
    """Return the entries that differ between two directories; anything else has no entries."""
    one, other = (
        set(reader.read_tree(entry.oid)) if entry and entry.mode == TREE else set()
        for entry in (a, b)
    )
    return _by_name(one - other), _by_name(other - one)


def _by_name(entries: set[TreeEntry]) -> dict[bytes, Entry]:
    return {name: Entry(mode, oid) for name, mode, oid in entries}


def is_content(mode: int) -> bool:
    """Return whether an entry of this mode has an object in this repository (a gitlink has
    none).
    """
    return mode != GITLINK
