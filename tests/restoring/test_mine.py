"""`--mine`: only the changes of one session go; those of others stay to the last byte; what cannot
be both is a conflict.

Random histories of three sessions and a person in one tree, 100 in the usual run. More of them:

    MINE=1000 python -m pytest tests/restoring/test_mine.py -k interleaved
"""

from __future__ import annotations

import os
import random
from collections.abc import Collection

import pytest
from together import CONFLICT, MINE, OTHERS, File, Files, Tree

from gitcp.git import trees
from gitcp.history.authors import Transition
from gitcp.model import Base, CheckpointId, Entry, Snapshot
from gitcp.restoring.merge import Merged, by_git
from gitcp.restoring.mine import SIDES, without_own
from gitcp.store import Store

from driver import Project
from samples import open_store

HISTORIES = int(os.environ.get("MINE", "100"))


def snapshot(store: Store, files: Files) -> Snapshot:
    entries = {
        path: Entry(mode, store.writer.write_blob(data)) for path, (mode, data) in files.items()
    }
    tree = trees.build(store.writer, trees.nest(entries))
    return Snapshot(tree=tree, base=Base(None, None), total=len(files))


def transition(
    before: Snapshot, after: Snapshot, own: Collection[bytes], uncertain: Collection[bytes] = ()
) -> Transition:
    """What changed between two snapshots; what is neither own nor uncertain is of others."""
    id = CheckpointId("mine", 1)
    return Transition(id, before, after, frozenset(own), {}, frozenset(uncertain))


def restored(store: Store, merged: Merged) -> Files:
    """The files that a merge would restore."""
    store.writer.flush()
    return {
        path: (entry.mode, store.reader.read_blob(entry.oid))
        for path, entry in trees.walk(store.reader, merged.snapshot.tree)
    }


def history(store: Store, dice: random.Random) -> tuple[Tree, list[Transition]]:
    """Twelve transitions, in each of which one author or several did something.

    The mode of a path that two of them change in one transition stays as it is: two changes of it
    would cancel out, and no snapshot would show them.
    """
    tree, transitions = Tree(dice), []
    for _ in range(12):
        before = tree.files()
        changed: dict[str, set[bytes]] = {}
        authors = dice.sample((MINE, *OTHERS), dice.choice((1, 1, 1, 2)))
        for author in authors:
            for _ in range(dice.randint(1, 2)):
                changed.setdefault(author, set()).update(tree.act(author, modes=len(authors) == 1))
        own = changed.get(MINE, set())
        others = set().union(*(paths for author, paths in changed.items() if author != MINE))
        sides = snapshot(store, before), snapshot(store, tree.files())
        store.writer.flush()
        transitions.append(transition(*sides, own - others, own & others))
    return tree, transitions


@pytest.mark.parametrize("seed", range(0, HISTORIES, 10))
def test_interleaved(project: Project, seed: int) -> None:
    """Each path is as the model has it without my changes, or a conflict and untouched. Changes
    that are apart are no conflict; all that overlap are.
    """
    store = open_store(project)
    lines = by_git(store.repo, SIDES)
    for number in range(seed, seed + 10):
        tree, transitions = history(store, random.Random(number))
        uncertain = {path for each in transitions for path in each.uncertain}
        merged = without_own(store.objects, transitions[-1].after, transitions, lines)
        after, now = restored(store, merged), tree.files()
        conflicts = {conflict.path: conflict.why for conflict in merged.conflicts}
        for path in sorted(now.keys() | after.keys() | tree.start.keys() | tree.events.keys()):
            check(tree, path, after.get(path), conflicts.get(path), path in uncertain)


def check(tree: Tree, path: bytes, after: File | None, conflict: str | None, unsure: bool) -> None:
    wanted, now = tree.without_mine(path), tree.file(path)
    if conflict is not None:
        assert after == now, path
        assert unsure or not tree.is_apart(path), (path, conflict)
    elif unsure and now == tree.start.get(path):
        assert after in (now, wanted), story(tree, path)
    elif unsure and now is None:
        assert after in (None, wanted), story(tree, path)
    else:
        assert wanted != CONFLICT, (path, after, story(tree, path))
        assert after == wanted, (path, story(tree, path))


def story(tree: Tree, path: bytes) -> list[tuple[object, ...]]:
    """What happened to a path, for a failure."""
    return [(each.author, each.by_line, each.before, each.after) for each in tree.events[path]]
