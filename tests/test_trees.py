"""Trees as values: built, walked and compared at any depth, and as git does."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from gitcp.git import trees
from gitcp.git.trees import TreeEntry
from gitcp.model import EXECUTABLE, FILE, Entry, FileChange, Oid

OIDS = [Oid(f"{number:040x}") for number in range(1, 5)]

NAMES = st.sampled_from([b"a", b"a.b", b"a0", b"b", b"dir"])
ENTRIES = st.builds(Entry, st.sampled_from([FILE, EXECUTABLE]), st.sampled_from(OIDS))
PATHS = st.lists(NAMES, min_size=1, max_size=4).map(b"/".join)


class Memory:
    """Trees kept in a dictionary."""

    def __init__(self) -> None:
        self.kept: dict[Oid, list[TreeEntry]] = {}

    def write_tree(self, entries: list[TreeEntry]) -> Oid:
        """Keep a tree; the same entries get the same name."""
        found = sorted(entries, key=trees.sort_key)
        oid = next((oid for oid, kept in self.kept.items() if kept == found), None)
        oid = oid or Oid(f"{len(self.kept):040x}"[::-1])
        self.kept[oid] = found
        return oid

    def read_tree(self, oid: Oid) -> list[TreeEntry]:
        """A tree that was kept."""
        return self.kept[oid]


def without_clashes(paths: dict[bytes, Entry]) -> dict[bytes, Entry]:
    """No path below another that is a file."""
    return {path: e for path, e in paths.items() if not any(path.startswith(other + b"/") for other in paths)}


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
