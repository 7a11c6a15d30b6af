"""`--mine`: only the changes of one session go; those of others stay to the last byte; what cannot
be both is a conflict.

Random histories of three sessions and a person in one tree, 100 in the usual run. More of them:

    MINE=1000 python -m pytest tests/restoring/test_mine.py -k interleaved
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Collection
from functools import partial
from typing import Any

import pytest
from back import contents, numbered, restore, save, undo
from hooked import hooks
from mid_turn import IDS, Day, on_disk, put
from thorough import FULL
from together import CONFLICT, MINE, OTHERS, File, Files, Tree

from gitcp.errors import Refused
from gitcp.git import trees
from gitcp.history.authors import Transition
from gitcp.history.revisions import resolve
from gitcp.model import (
    FILE,
    NOBODY,
    Agent,
    Authors,
    Base,
    Checkpoint,
    CheckpointId,
    Claim,
    Entry,
    Skip,
    SkipReason,
    Snapshot,
)
from gitcp.restoring import others, revert
from gitcp.restoring import restore as op
from gitcp.restoring.merge import Merged, by_git
from gitcp.restoring.mine import SIDES, without_own
from gitcp.restoring.request import RestoreRequest
from gitcp.saving import authors as deciding
from gitcp.store import Store
from gitcp.value import replace

from driver import Project
from samples import open_store

HISTORIES = 1000 if FULL else 60


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


@pytest.mark.parametrize("skipped", [b"dir/b", b"dir"])
def test_what_was_not_captured(project: Project, skipped: bytes) -> None:
    """A file that the checkpoint did not capture stays: it may have existed then. One of somebody
    else stays too where a checkpoint in between did not capture it.
    """
    store = open_store(project)
    skip = Skip(skipped, SkipReason.TOO_LARGE)
    start, mine, ours = (
        snapshot(store, {b"a": (FILE, b"1\n"), b"dir/b": (FILE, text)})
        for text in (b"old\n", b"old\nmine\n", b"old\nmine\nours\n")
    )
    unseen = replace(snapshot(store, {b"a": (FILE, b"1\n")}), skipped=(skip,))
    store.writer.flush()
    lines = by_git(store.repo, SIDES)
    for transitions, why in (
        ([transition(unseen, mine, {b"dir/b"})], "not captured then (too-large)"),
        (
            [transition(start, unseen, ()), transition(unseen, ours, {b"dir/b"})],
            "not captured now (too-large)",
        ),
    ):
        now = transitions[-1].after
        merged = without_own(store.objects, now, transitions, lines)
        assert [(each.path, each.why) for each in merged.conflicts] == [(b"dir/b", why)]
        assert merged.snapshot.tree == now.tree


def recorded(
    changed: dict[str, set[bytes]], _: Store, draft: Checkpoint, *given: Any, at_work: Any = None
) -> Authors | None:
    """What a save records if it knows who did what."""
    state, changes = given[1:]
    who = {
        change.path: frozenset(
            NOBODY if author == "person" else author
            for author, paths in changed.items()
            if change.path in paths
        )
        for change in changes
    }
    own = frozenset((draft.id.session,))
    claims = {path: Claim(sessions) for path, sessions in who.items() if sessions != own}
    return Authors(len(who) - len(claims), claims, state.previous)


def worked(project: Project, tree: Tree, patch: pytest.MonkeyPatch) -> set[bytes]:
    """Twelve transitions in a real tree, each with a checkpoint of one of the sessions. Returns the
    paths that I changed together with others.
    """
    together: set[bytes] = set()
    for number in range(12):
        before = tree.files()
        authors = tree.dice.sample((MINE, *OTHERS), tree.dice.choice((1, 1, 1, 2)))
        changed = {author: tree.act(author, modes=len(authors) == 1) for author in authors}
        if MINE in changed and len(authors) > 1:
            together |= set.intersection(*changed.values())
        put(project, before, tree.files())
        patch.setattr(deciding, "decide", partial(recorded, changed))
        save(project, (MINE, "second")[number % 2])
    patch.setattr(deciding, "decide", partial(recorded, {}))
    return together


def begun(project: Project, seed: int, monkeypatch: pytest.MonkeyPatch) -> tuple[Tree, Checkpoint]:
    """Three agents' sessions in a real tree, and the checkpoint that mine goes back to."""
    agents = {name: Agent("claude", name) for name in (MINE, "second", "third")}
    monkeypatch.setattr(others, "_agent", lambda _, name: agents.get(name))
    tree = Tree(random.Random(seed))
    put(project, {}, tree.files())
    project.commit()
    return tree, save(project, MINE)


@pytest.mark.parametrize("seed", range(0, HISTORIES, 5))
def test_restored_and_undone(project: Project, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a real tree: a conflict ends it with nothing changed. Without those paths, each file
    becomes what the model has without my changes, and undo returns every byte.
    """
    tree, target = begun(project, seed, monkeypatch)
    together = worked(project, tree, monkeypatch)
    before = contents(project)
    store = open_store(project)
    request = RestoreRequest(target, project.root, conversation=False, mine=True, session=MINE)
    conflicts = {each.path: each.why for each in op.plan(store, request).conflicts}
    if conflicts:
        with project.guard(), pytest.raises(Refused, match="cannot be undone alone"):
            op.restore(open_store(project), request)
        assert contents(project) == before
    rest = tuple(sorted((tree.start.keys() | tree.events.keys()) - conflicts.keys()))
    with project.guard():
        report = op.restore(open_store(project), replace(request, paths=rest))

    assert not report.kept
    after = on_disk(project)
    for path in sorted(tree.start.keys() | tree.events.keys()):
        check(tree, path, after.get(path), conflicts.get(path), path in together)
    if report.checkpoint:
        with project.guard():
            undo(project)
    assert contents(project) == before


def went_back(project: Project, tree: Tree, target: Checkpoint, patch: pytest.MonkeyPatch) -> None:
    """Twelve steps in a real tree. In some, a checkpoint or one path of it is restored, also the
    state before an earlier restore, as an undo does: then that has the story that it had there.
    """
    known = [(target, tree.copied())]
    for _ in range(12):
        source, then = tree.dice.choice(known)
        differing = sorted(tree.differing(then))
        before = tree.copied()
        if tree.dice.random() < 0.6 or not differing:
            author = tree.dice.choice((MINE, MINE, *OTHERS))
            changed = {author: tree.act(author, modes=True)}
            put(project, before.files(), tree.files())
            patch.setattr(deciding, "decide", partial(recorded, changed))
            known.append((save(project, tree.dice.choice((MINE, "second"))), tree.copied()))
            patch.setattr(deciding, "decide", partial(recorded, {}))
            continue
        paths = () if tree.dice.random() < 0.5 else (tree.dice.choice(differing),)
        fields: dict[str, Any] = {"conversation": False, "whole_tree": True, "paths": paths}
        report = restore(project, source, **fields)
        tree.go_back(then, paths or differing)
        assert on_disk(project) == tree.files()
        assert report.safety
        assert report.checkpoint
        store = open_store(project)
        known.append((numbered(store, report.safety), before))
        known.append((numbered(store, report.checkpoint), tree.copied()))


def test_mode_kept_by_a_restore(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    """Permissions that another session gave a file, and a first restore kept, a second one keeps as
    well, although the tree is the one of the checkpoint that the first one restored.
    """
    monkeypatch.setattr(deciding, "decide", partial(recorded, {MINE: {b"f", b"g"}}))
    project.write("f", "1\n", mode=0o600)
    first = save(project, MINE)
    project.write("f", "2\n")
    second = save(project, MINE)
    os.chmod(project.path("f"), 0o640)
    save(project, "second")
    project.write("g", "new\n")
    save(project, MINE)

    for target in (second, first):
        restore(project, target, conversation=False, mine=True, session=MINE)
    assert on_disk(project) == {b"f": (0o100640, b"1\n")}


def test_revert_of_what_a_restore_undid(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    """`revert --mine` of a step that was restored away changes nothing: what came later is not
    part of it. It was removed.
    """
    monkeypatch.setattr(deciding, "decide", partial(recorded, {MINE: {b"a", b"b", b"c"}}))
    first, second = (_with(project, name) for name in ("a", "b"))
    restore(project, first, conversation=False, whole_tree=True)
    _with(project, "c")
    request = RestoreRequest(second, project.root, mine=True, session=MINE, reverted=first)
    plan = revert.plan(open_store(project), replace(request, conversation=False))
    assert (tuple(plan.files.paths), plan.conflicts) == ((), ())


def _with(project: Project, name: str) -> Checkpoint:
    """A checkpoint of mine with a new file."""
    project.write(name, "new\n")
    return save(project, MINE)


@pytest.mark.parametrize("seed", range(0, HISTORIES, 5))
def test_restores_in_between(project: Project, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """What restores brought back is whose it was, whoever went back: the files of others stay, and
    undo returns every byte.
    """
    tree, target = begun(project, seed, monkeypatch)
    went_back(project, tree, target, monkeypatch)
    before, names = contents(project), tree.files().keys() | tree.start.keys() | tree.events.keys()
    request = RestoreRequest(target, project.root, conversation=False, mine=True, session=MINE)
    conflicts = {each.path: each.why for each in op.plan(open_store(project), request).conflicts}
    rest = tuple(sorted(names - conflicts.keys()))
    report = op.restore(open_store(project), replace(request, paths=rest))

    assert not report.kept
    after = on_disk(project)
    for path in sorted(names):
        check(tree, path, after.get(path), conflicts.get(path), unsure=False)
    if report.checkpoint:
        undo(project)
    assert contents(project) == before


@pytest.mark.parametrize("seed", range(0, HISTORIES, 20))
def test_a_person_in_mid_turn(
    project: Project, seed: int, record_property: Callable[[str, object], None]
) -> None:
    """Each path is as the model has it without the session's changes, or a conflict and untouched.
    There are conflicts only where lines are near each other, or where it cannot be known. How many
    is in the report (`--junitxml`).
    """
    with hooks(project) as call:
        day = Day(project, call, seed)
        for _ in range(12):
            day.step()
        for agent in IDS:
            day.hook(agent, "Stop")
    tree, before = day.tree, contents(project)
    store = open_store(project)
    target = store.read(resolve(store, "aaaaaaaa@2", current=None))
    request = RestoreRequest(
        target, project.root, conversation=False, mine=True, session=target.id.session
    )
    conflicts = {each.path: each.why for each in op.plan(store, request).conflicts}
    rest = tuple(sorted((tree.start.keys() | tree.events.keys()) - conflicts.keys()))
    report = op.restore(open_store(project), replace(request, paths=rest))

    after = on_disk(project)
    for path in sorted(tree.start.keys() | tree.events.keys()):
        check(tree, path, after.get(path), conflicts.get(path), path in day.unsure)
    own = {p for p, events in tree.events.items() if any(each.author == MINE for each in events)}
    record_property("own", len(own))
    record_property("conflicts", len(conflicts))
    record_property("unsure", len(conflicts.keys() & day.unsure))
    if report.checkpoint:
        undo(project)
    assert contents(project) == before


def story(tree: Tree, path: bytes) -> list[tuple[object, ...]]:
    """What happened to a path, for a failure."""
    return [(each.author, each.by_line, each.before, each.after) for each in tree.events[path]]
