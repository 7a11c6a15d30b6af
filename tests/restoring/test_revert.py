"""`gitcp revert`: what one step changed goes, everything later stays; what cannot be both is said
before anything is done.

Against git's own merge of random histories, twenty a round. 500 of them:

    GITCP_FULL=1 python -m pytest tests/restoring/test_revert.py -k like_git
"""

from __future__ import annotations

import os
import random

import pytest
from back import SESSION, contents, finish, kept, last, redo, save, undo
from thorough import FULL

from gitcp.errors import BadValue, DiskFull, Refused
from gitcp.git import trees
from gitcp.model import FILE, SYMLINK, Base, Entry, Oid, Snapshot
from gitcp.restoring import apply
from gitcp.restoring import revert as op
from gitcp.restoring.merge import Merged, by_git, merge
from gitcp.restoring.request import RestoreRequest
from gitcp.restoring.restore import Report
from gitcp.restoring.revert import RevertPlan
from gitcp.state import journal
from gitcp.store import Store
from gitcp.worktree.snapshot import Limits

from driver import Project
from samples import open_store

MERGES = 25 if FULL else 2
NUMBERS = "".join(f"{n}\n" for n in range(1, 31))

Files = dict[bytes, tuple[int, bytes]]


def planned(
    project: Project, number: int, before: int | None = None, **fields: object
) -> RevertPlan:
    """The plan of reverting a checkpoint of the session."""
    store = open_store(project)
    tip = store.tip(SESSION)
    assert tip is not None
    commits = {s.id.number: s.commit for s in store.history(tip)}
    target, start = op.step(store, commits[number], commits[before] if before else None)
    request = RestoreRequest(target, project.root, conversation=False, reverted=start, **fields)  # type: ignore[arg-type]
    return op.plan(store, request)


def revert(project: Project, number: int, before: int | None = None, **fields: object) -> Report:
    return op.revert(open_store(project), planned(project, number, before, **fields))


@pytest.fixture
def steps(project: Project) -> Project:
    """Three saved steps: the second changes the head of a file, adds one and removes one; the third
    changes the end.
    """
    project.write("list", NUMBERS)
    project.write("old/gone", "gone\n")
    project.write("run", "#!/bin/sh\n", mode=0o755)
    project.commit()
    save(project)
    project.write("list", NUMBERS.replace("\n3\n", "\nthree\n"))
    project.write("dir/new", "new\n")
    project.remove("old")
    save(project)
    project.write("list", NUMBERS.replace("\n3\n", "\nthree\n").replace("\n28\n", "\nxxviii\n"))
    project.write("later", "later\n")
    save(project)
    return project


def test_revert(steps: Project) -> None:
    """The step is gone, the later one is there, unsaved work too; a checkpoint says so; undo and
    redo walk it.
    """
    steps.write("unsaved", "only here\n")
    before = contents(steps)
    with steps.guard():
        report = revert(steps, 2)
    after = contents(steps)

    assert steps.read("list").decode() == NUMBERS.replace("\n28\n", "\nxxviii\n")
    assert steps.read("old/gone") == b"gone\n"
    assert set(after) - set(before) == {b"old", b"old/gone"}
    assert set(before) - set(after) == {b"dir", b"dir/new"}
    made = last(steps)
    assert (made.id, made.restored_from, str(made.reverted)) == (
        report.checkpoint,
        None,
        "work@1..work@2",
    )
    assert steps.git("log", "-1", "--format=%s", made.commit) == "reverted work@1..work@2"

    with steps.guard():
        undo(steps)
    assert contents(steps) == before
    with steps.guard():
        redo(steps)
    assert contents(steps) == after
    logged = steps.json_lines("oplog")
    assert [(each["operation"], each["of"]) for each in logged] == [
        ("redo", 1),
        ("undo", 1),
        ("revert", None),
    ]
    assert logged[-1]["said"] == "without work@1..work@2"


def test_undo_changes_no_more(steps: Project) -> None:
    """Undoing a revert leaves alone what it did not touch, and does without a file that is gone by
    now.
    """
    revert(steps, 2)
    steps.write("later", "work after the revert\n")
    steps.remove("old")
    undo(steps)

    assert steps.read("later") == b"work after the revert\n"
    assert steps.read("dir/new") == b"new\n"


def test_empty_directories(project: Project) -> None:
    """Undo and redo of a revert make and remove the empty directories that it removed and made, and
    no others.
    """
    project.write("file", "one\n")
    os.makedirs(project.path("old/below"))
    save(project)
    os.makedirs(project.path("new/inner"))
    project.remove("old")
    save(project)
    project.write("file", "work since\n")
    before = contents(project)

    revert(project, 2)
    after = contents(project)
    assert set(before) - set(after) == {b"new", b"new/inner"}
    assert set(after) - set(before) == {b"old", b"old/below"}

    project.write("file", "after the revert\n")
    os.makedirs(project.path("mine"))
    project.write("old/below/mine", "made since\n")
    undo(project)
    there = contents(project)
    assert {path for path in there if path not in before} == {
        b"mine",
        b"old",
        b"old/below",
        b"old/below/mine",
    }
    assert before.keys() <= there.keys()
    assert project.read("file") == b"after the revert\n"

    project.remove("old/below/mine")
    redo(project)
    there = contents(project)
    assert there.keys() == after.keys() | {b"mine"}
    assert project.read("file") == b"after the revert\n"


def test_a_directory_for_a_file(project: Project) -> None:
    """Undo of a revert that put an empty directory in the place of a file, and a file in that of
    one.
    """
    os.makedirs(project.path("one"))
    project.write("two", "two\n")
    save(project)
    project.remove("one")
    project.write("one", "one\n")
    project.remove("two")
    os.makedirs(project.path("two"))
    save(project)
    before = contents(project)

    revert(project, 2)
    after = contents(project)
    assert {path: file.kind for path, file in after.items()} == {
        b"one": "directory",
        b"two": "file",
    }
    undo(project)
    assert contents(project) == before
    redo(project)
    assert contents(project) == after


def test_affected(steps: Project) -> None:
    """The later checkpoints that changed the same paths are known before anything is done, and
    nothing is stored.
    """
    objects = set(
        steps.git("cat-file", "--batch-all-objects", "--batch-check=%(objectname)").splitlines()
    )
    refs = steps.git("for-each-ref")
    steps.write("list", "quite another\n")
    plan = planned(steps, 2)

    assert [(str(each.summary.id), each.paths) for each in plan.affected] == [
        ("work@3", (b"list",))
    ]
    assert [(c.path, c.why) for c in plan.conflicts] == [(b"list", "the same lines changed since")]
    assert {step.path for step in plan.files.write} == {b"old/gone"}
    assert (
        set(
            steps.git("cat-file", "--batch-all-objects", "--batch-check=%(objectname)").splitlines()
        )
        == objects
    )
    assert steps.git("for-each-ref") == refs


def test_conflict(steps: Project) -> None:
    """A conflict ends it with nothing changed; --keep takes back the rest, --markers writes what
    git would write.
    """
    steps.write("list", NUMBERS.replace("\n3\n", "\nIII\n"))
    before, refs = contents(steps), steps.git("for-each-ref")

    with steps.guard():
        said = steps.gitcp("revert", "2", "--yes", "--session", SESSION, check=12).err
    assert "later changes to list conflict with it; nothing was changed" in said
    assert "gitcp revert 2 --yes --session work --keep" in said
    assert (contents(steps), steps.git("for-each-ref")) == (before, refs)

    done = steps.gitcp("revert", "2", "--yes", "--keep", "--session", SESSION, check=3).out
    assert "the same lines changed since" in done
    assert steps.read("list").decode() == NUMBERS.replace("\n3\n", "\nIII\n")
    assert steps.read("old/gone") == b"gone\n"

    steps.gitcp("undo", "--yes", check=0)
    steps.gitcp("revert", "2", "--yes", "--markers", "--session", SESSION, check=3)
    assert (
        steps.read("list")
        .decode()
        .startswith(
            "1\n2\n<<<<<<< list (now)\nIII\n=======\n3\n>>>>>>> list (before the step)\n4\n"
        )
    )


def test_command(steps: Project) -> None:
    """The plan and the report as programs and people get them; a range; some paths."""
    given = ("--session", SESSION)
    plan = steps.json("revert", "1..3", "--dry-run", *given)
    assert plan["schema"] == "gitcp.revert-plan/1"
    assert plan["written"] == ["list", "old/gone"]
    assert plan["removed"] == ["dir/new", "later"]
    assert "cannot ask for confirmation here: " in steps.gitcp("revert", "2", *given, check=12).err

    done = steps.gitcp("revert", "2", "--yes", "--json", *given, "--", "old", check=0).out
    assert '"written":["old/gone"]' in done
    assert '"reverted":"work@1..work@2"' in done
    assert steps.read("dir/new") == b"new\n"
    shown = steps.gitcp("show", *given, check=0).out
    assert "Reverted" in shown
    again = steps.gitcp("revert", "2", "--yes", *given, "--", "old", check=0).out
    assert again.startswith("nothing of work@1..work@2 is left to revert")


def test_refused(steps: Project) -> None:
    """The first checkpoint has nothing before it; a range must go forward; a merge in progress is
    left alone.
    """
    with steps.guard():
        for revision in ("1", "..2"):
            message = steps.gitcp("revert", revision, "--yes", "--session", SESSION)
            assert message.code == (2 if revision == "1" else 0), message
    for revision in ("3..2", "2..2"):
        assert (
            "does not come before"
            in steps.gitcp("revert", revision, "--session", SESSION, check=2).err
        )
    with pytest.raises(BadValue, match="neither in"):
        planned(steps, 2, paths=(b"nowhere",))
    for words in (("dir/new",), ("dir/new", "2")):
        refused = steps.gitcp("revert", *words, "--session", SESSION, check=2).err
        assert refused == (
            "error: dir/new is a path, and REV is required: nothing was changed\n"
            "hint: gitcp log -- dir/new\n"
        )
    steps.write(steps.git_dir / "MERGE_HEAD", steps.git("rev-parse", "HEAD") + "\n")
    with pytest.raises(Refused, match="a merge is in progress"):
        revert(steps, 2)


def test_changed_since_the_plan(steps: Project) -> None:
    """What was agreed to is what is done: files that changed meanwhile end it."""
    plan = planned(steps, 2)
    steps.write("dir/new", "changed meanwhile\n")
    before = contents(steps)
    with pytest.raises(Refused, match="changed after the plan"):
        op.revert(open_store(steps), plan)

    assert contents(steps) == before


@pytest.mark.parametrize("forward", [True, False])
def test_interrupted(steps: Project, monkeypatch: pytest.MonkeyPatch, forward: bool) -> None:
    """A revert that was cut off in the middle is finished as planned, or taken back, byte for
    byte.
    """
    before = contents(steps)
    revert(steps, 2)
    wanted = contents(steps)
    undo(steps)
    done = 0

    def cut_off(work: apply._Work, *step: object) -> None:
        nonlocal done
        done += 1
        if done > 1:
            raise DiskFull("full")
        place(work, *step)  # type: ignore[arg-type]

    place = apply._Work._place
    with monkeypatch.context() as patch:
        patch.setattr(apply._Work, "_place", cut_off)
        with pytest.raises(DiskFull):
            revert(steps, 2)
    assert contents(steps) not in (before, wanted)
    assert journal.unfinished(open_store(steps).repo) is not None

    with steps.guard():
        finish(steps, forward=forward)
    assert contents(steps) == (wanted if forward else before)
    assert str(last(steps).reverted) == ("work@1..work@2" if forward else "None")


def test_what_was_not_looked_at_was_not_changed(project: Project) -> None:
    """A file that one side of the step left out, or that is ignored now, is not removed."""
    project.write("big", "x" * 100)
    save(project, limits=Limits(max_untracked_file=10))
    project.write("log.txt", "made by the step\n")
    save(project)
    project.write(".gitignore", "log.txt\n")
    save(project)

    report = revert(project, 2)

    assert project.read("big") == b"x" * 100
    assert project.read("log.txt") == b"made by the step\n"
    assert (report.removed, kept(report)) == ((), {})


def test_modes_and_links(project: Project) -> None:
    """Permissions, links and empty directories go back as files do."""
    project.write("key", "k\n", mode=0o600)
    project.write("tool", "t\n")
    project.symlink("link", "key")
    os.mkdir(project.path("empty"))
    save(project)
    first = contents(project)
    os.chmod(project.path("key"), 0o644)
    os.chmod(project.path("tool"), 0o755)
    project.remove("link")
    project.symlink("link", "tool")
    project.remove("empty")
    save(project)
    project.write("later", "later\n")
    save(project)

    revert(project, 2)

    assert {path: file for path, file in contents(project).items() if path != b"later"} == first


# ---------------------------------------------------------------- git's own merge


def text(path: bytes) -> bytes:
    """Thirty lines that no other path has, so that git takes nothing for renamed."""
    return b"".join(b"%s %d\n" % (path, n) for n in range(30))


def edited(random: random.Random, files: Files) -> Files:
    """The files after a few random edits: lines, files, modes, links, directories in the place of
    files.
    """
    found = dict(files)
    for _ in range(random.randint(1, 4)):
        path = random.choice(
            [
                *found,
                b"f%d" % random.randrange(6),
                b"d%d/x" % random.randrange(3),
                b"d%d" % random.randrange(3),
            ]
        )
        mode, data = found.get(path, (FILE, text(path)))
        lines = data.splitlines(keepends=True)
        match random.randrange(8):
            case 0:
                found.pop(path, None)
                continue
            case 1:
                mode = 0o100755 if mode == FILE else FILE
            case 2:
                mode, lines = SYMLINK, [b"target%d" % random.randrange(3)]
            case _:
                mode = FILE if mode == SYMLINK else mode
                at = random.randrange(len(lines) + 1)
                lines[at : at + random.randrange(3)] = [
                    b"%s %d\n" % (path, random.randrange(1000))
                ] * random.randrange(3)
        for other in list(found):
            if other.startswith(path + b"/") or path.startswith(other + b"/"):
                del found[other]
        found[path] = (mode, b"".join(lines))
    return found


def written(store: Store, files: Files) -> Oid:
    entries = {
        path: Entry(mode, store.writer.write_blob(data)) for path, (mode, data) in files.items()
    }
    return trees.build(store.writer, trees.nest(entries))


def merged_by_git(project: Project, sides: tuple[Oid, Oid, Oid]) -> tuple[str, bool]:
    """The tree that git makes of a base and two sides, and whether there are conflicts."""
    base = project.git("commit-tree", "-m", "base", sides[0])
    ours, theirs = (
        project.git("commit-tree", "-m", "side", "-p", base, tree) for tree in sides[1:]
    )
    said = project.git("merge-tree", "--write-tree", ours, theirs, check=False)
    return said.splitlines()[0], "CONFLICT" in said


@pytest.mark.parametrize("seed", range(MERGES))
def test_like_git(project: Project, seed: int) -> None:
    """A merge without conflict is the tree that git's own merge makes, and where git sees a
    conflict, so do we.
    """
    dice = random.Random(seed)
    store = open_store(project)
    lines = by_git(store.repo)
    clean = 0
    start: Files = {path: (FILE, text(path)) for path in (b"f0", b"f1", b"f2", b"f3", b"d0/x")}
    for _ in range(20):
        base = edited(dice, start)
        theirs, ours = start if dice.random() < 0.5 else edited(dice, base), edited(dice, base)
        sides = tuple(written(store, files) for files in (base, ours, theirs))
        store.writer.flush()
        found = merged(store, sides, lines)  # type: ignore[arg-type]
        tree, conflict = merged_by_git(project, sides)  # type: ignore[arg-type]

        assert bool(found.conflicts) == conflict, (base, ours, theirs, found.conflicts)
        if not conflict:
            clean += 1
            assert trees_equal(store, found.snapshot.tree, Oid(tree))
    assert clean


def merged(store: Store, sides: tuple[Oid, Oid, Oid], lines: object) -> Merged:
    snapshots = tuple(Snapshot(tree=tree, base=Base(None, None), total=0) for tree in sides)
    found = merge(store.objects, snapshots, lines)  # type: ignore[arg-type]
    store.writer.flush()
    return found


def trees_equal(store: Store, ours: Oid, theirs: Oid) -> bool:
    return dict(trees.walk(store.reader, ours)) == dict(trees.walk(store.reader, theirs))


def test_step_without_changes(project: Project) -> None:
    """It is not said of a step that changed no files that its changes are gone."""
    project.write("a", "one\n")
    project.gitcp("save", check=0)
    project.gitcp("save", "a label", "--force", check=0)

    said = project.gitcp("revert", "2", "--dry-run", check=0).out

    assert "nothing to revert: the files have no changes of it" in said
