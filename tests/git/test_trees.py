"""Trees as values: built, walked and compared at any depth, and as git does."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from kinds import FORMAT

from gitcp.errors import StoreDamaged
from gitcp.git import trees
from gitcp.git.trees import TreeEntry
from gitcp.model import EXECUTABLE, FILE, TREE, Entry, FileChange, Oid

OIDS = [Oid(f"{number:0{FORMAT.digits}x}") for number in range(1, 5)]

NAMES = st.sampled_from([b"a", b"a.b", b"a0", b"b", b"dir"])
ENTRIES = st.builds(Entry, st.sampled_from([FILE, EXECUTABLE]), st.sampled_from(OIDS))
PATHS = st.lists(NAMES, min_size=1, max_size=4).map(b"/".join)


class Memory:
    """Trees kept in a dictionary."""

    def __init__(self) -> None:
        self.kept: dict[Oid, list[TreeEntry]] = {}

    def write_tree(self, entries: list[TreeEntry]) -> Oid:
        """Keep a tree; the same entries get the same name."""
        found = trees.serialised(entries)[0]
        oid = next((oid for oid, kept in self.kept.items() if kept == found), None)
        oid = oid or Oid(f"{len(self.kept):0{FORMAT.digits}x}"[::-1])
        self.kept[oid] = found
        return oid

    @property
    def reader(self) -> Memory:
        """It reads."""
        return self

    @property
    def writer(self) -> Memory:
        """It writes."""
        return self

    def read_tree(self, oid: Oid) -> list[TreeEntry]:
        """A tree that was kept."""
        return self.kept[oid]


def without_clashes(paths: dict[bytes, Entry]) -> dict[bytes, Entry]:
    """No path below another that is a file."""
    return {
        path: e
        for path, e in paths.items()
        if not any(path.startswith(other + b"/") for other in paths)
    }


TREES = st.dictionaries(PATHS, ENTRIES, max_size=8).map(without_clashes)


@given(TREES)
def test_walk_gives_what_was_built(paths: dict[bytes, Entry]) -> None:
    """A tree holds the paths it was built of, in git's order."""
    memory = Memory()
    found = list(trees.walk(memory, trees.build(memory, trees.nest(paths))))

    assert dict(found) == paths
    assert [path for path, _ in found] == sorted(paths)


@given(TREES, TREES)
def test_diff_is_the_difference(old: dict[bytes, Entry], new: dict[bytes, Entry]) -> None:
    """Every path that is not the same on both sides, and no other."""
    memory = Memory()
    a, b = (trees.build(memory, trees.nest(side)) for side in (old, new))

    found = list(trees.diff(memory, a, b))

    wanted = {path for path in old.keys() | new.keys() if old.get(path) != new.get(path)}
    assert {change.path for change in found} == wanted
    for path in wanted:
        sides = {(change.old, change.new) for change in found if change.path == path}
        assert sides == {(old.get(path), new.get(path))}


@given(TREES, TREES)
def test_changed_is_what_would_be_built(then: dict[bytes, Entry], now: dict[bytes, Entry]) -> None:
    """Whatever the tree was before, what it becomes is the tree of the paths."""
    memory = Memory()
    before, built = (
        trees.build(memory, trees.nest(paths)) if paths else None for paths in (then, now)
    )

    assert trees.changed(memory, before, then, now) == built


@given(TREES, TREES)
def test_changed_writes_nothing_else(then: dict[bytes, Entry], now: dict[bytes, Entry]) -> None:
    """Every tree that is written on the way is part of the result."""
    memory = Memory()
    before = trees.build(memory, trees.nest(then)) if then else None
    known = set(memory.kept)
    made = trees.changed(memory, before, then, now)
    reached, ahead = set(), [made] if made else []
    while ahead:
        reached.add(tree := ahead.pop())
        ahead += [entry.oid for entry in memory.kept[tree] if entry.mode == TREE]

    assert set(memory.kept) - known <= reached


def test_what_is_the_same_is_not_written_again() -> None:
    """Of a hundred directories one is, and the tree above it; where the old ones cannot be read,
    all are.
    """
    then = {b"%d/file" % number: Entry(FILE, OIDS[0]) for number in range(100)}
    now = then | {b"7/file": Entry(FILE, OIDS[1])}
    memory = Memory()
    before, built = (trees.build(memory, trees.nest(paths)) for paths in (then, now))

    class Counting(Memory):
        """The same trees, and how often one is written."""

        count = 0
        lost = False

        def write_tree(self, entries: list[TreeEntry]) -> Oid:
            self.count += 1
            return memory.write_tree(entries)

        def read_tree(self, oid: Oid) -> list[TreeEntry]:
            if self.lost:
                raise StoreDamaged("gone")
            return memory.read_tree(oid)

    counting = Counting()
    assert trees.changed(counting, before, then, now) == built
    assert counting.count == 2
    counting.lost = True
    assert trees.changed(counting, before, then, now) == built
    assert counting.count == 2 + 101


def test_the_same_tree_is_not_read() -> None:
    """Comparing a tree with itself, or nothing with nothing, reads nothing."""
    assert not list(trees.diff(Memory(), OIDS[0], OIDS[0]))
    assert not list(trees.diff(Memory(), None, None))


def test_no_depth_is_too_great() -> None:
    """A path as deep as a path can be is built, walked and compared."""
    memory = Memory()
    path = b"/".join([b"d"] * 2000)
    tree = trees.build(memory, trees.nest({path: Entry(FILE, OIDS[0])}))

    assert list(trees.walk(memory, tree)) == [(path, Entry(FILE, OIDS[0]))]
    assert list(trees.diff(memory, None, tree)) == [FileChange(path, None, Entry(FILE, OIDS[0]))]
