"""Trees as values: parse, serialise, build, walk and compare. Raw bytes throughout, since that is what is fast."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple, Protocol, Union

from gitcp.errors import StoreDamaged
from gitcp.model import GITLINK, TREE, Entry, FileChange, Oid

EMPTY_TREE = Oid("4b825dc642cb6eb9a060e54bf8d69288fbee4904")
EMPTY_BLOB = Oid("e69de29bb2d1d6434b8b29ae775ad8c2e48c5391")


class TreeEntry(NamedTuple):
    """One line of a tree object."""

    name: bytes
    mode: int
    oid: Oid


Nested = Mapping[bytes, Union[Entry, "Nested"]]
"""A tree to be written: names to entries or to further trees."""


class TreeReader(Protocol):
    """Where trees are read from."""

    def read_tree(self, oid: Oid) -> list[TreeEntry]: ...


class TreeWriter(Protocol):
    """Where trees are written to."""

    def write_tree(self, entries: list[TreeEntry]) -> Oid: ...


class TreeStore(TreeReader, TreeWriter, Protocol):
    """Where trees are read from and written to."""


def parse(data: bytes) -> list[TreeEntry]:
    """The entries of a raw tree object, in its order. Raises StoreDamaged if it is not one."""
    entries, position, end = [], 0, len(data)
    try:
        while position < end:
            space = data.index(b" ", position)
            null = data.index(b"\0", space)
            oid = data[null + 1 : null + 21]
            if len(oid) != 20:
                raise ValueError
            entries.append(TreeEntry(data[space + 1 : null], int(data[position:space], 8), Oid(oid.hex())))
            position = null + 21
    except ValueError:
        raise StoreDamaged("a tree object does not parse") from None
    return entries


def sort_key(entry: TreeEntry) -> bytes:
    """git's order: a directory sorts as if its name ended in a slash."""
    return entry.name + b"/" if entry.mode == TREE else entry.name


def serialise(entries: list[TreeEntry]) -> bytes:
    """The raw tree object of `entries`, sorted as git wants them."""
    return b"".join(
        b"%o %s\0%s" % (entry.mode, entry.name, bytes.fromhex(entry.oid)) for entry in sorted(entries, key=sort_key)
    )


def build(writer: TreeWriter, nested: Nested) -> Oid:
    """Write `nested` bottom up; empty directories vanish, as git has none."""
    entries = []
    for name, value in nested.items():
        if isinstance(value, Entry):
            entries.append(TreeEntry(name, value.mode, value.oid))
        elif value:
            entries.append(TreeEntry(name, TREE, build(writer, value)))
    return writer.write_tree(entries)


def nest(paths: Mapping[bytes, Entry]) -> Nested:
    """Flat paths as a nested mapping, ready for `build`."""
    root: dict[bytes, object] = {}
    for path, entry in paths.items():
        *parents, name = path.split(b"/")
        here = root
        for parent in parents:
            here = here.setdefault(parent, {})  # type: ignore[assignment]
        here[name] = entry
    return root  # type: ignore[return-value]


def lookup(reader: TreeReader, tree: Oid, path: bytes) -> Entry | None:
    """The entry at `path` below `tree`, None if there is none."""
    entry = Entry(TREE, tree)
    for name in path.split(b"/"):
        if entry.mode != TREE:
            return None
        found = next((e for e in reader.read_tree(entry.oid) if e.name == name), None)
        if found is None:
            return None
        entry = Entry(found.mode, found.oid)
    return entry


def put(store: TreeStore, tree: Oid | None, path: bytes, entry: Entry) -> Oid:
    """A tree with `entry` at `path`, and all else as it was in `tree`. Writes the trees on the way to it."""
    name, _, rest = path.partition(b"/")
    here = {e.name: e for e in store.read_tree(tree)} if tree else {}
    if rest:
        below = here.get(name)
        entry = Entry(TREE, put(store, below.oid if below and below.mode == TREE else None, rest, entry))
    here[name] = TreeEntry(name, *entry)
    return store.write_tree(list(here.values()))


def walk(reader: TreeReader, tree: Oid, prefix: bytes = b"") -> Iterator[tuple[bytes, Entry]]:
    """Every path below `tree` that is not a directory, in tree order."""
    for name, mode, oid in reader.read_tree(tree):
        if mode == TREE:
            yield from walk(reader, oid, prefix + name + b"/")
        else:
            yield prefix + name, Entry(mode, oid)


def diff(reader: TreeReader, old: Oid | None, new: Oid | None, prefix: bytes = b"") -> Iterator[FileChange]:
    """What differs between two trees, path by path. Only trees whose ids differ are read."""
    if old == new:
        return
    before = {e.name: e for e in reader.read_tree(old)} if old else {}
    after = {e.name: e for e in reader.read_tree(new)} if new else {}
    for name in sorted(before.keys() | after.keys()):
        a, b = before.get(name), after.get(name)
        if a == b:
            continue
        path = prefix + name
        tree_a, tree_b = (e.oid if e and e.mode == TREE else None for e in (a, b))
        leaf_a, leaf_b = (Entry(e.mode, e.oid) if e and e.mode != TREE else None for e in (a, b))
        if leaf_a or leaf_b:
            yield FileChange(path, leaf_a, leaf_b)
        if tree_a or tree_b:
            yield from diff(reader, tree_a, tree_b, path + b"/")


def is_content(mode: int) -> bool:
    """Whether an entry of this mode has an object in this repository (a gitlink has not)."""
    return mode != GITLINK
