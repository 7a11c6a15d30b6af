"""Every restore can be undone: `undo` and `redo` walk exactly, and change no more than the restore
did.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Collection
from pathlib import Path
from typing import Any

import pytest
from back import contents, finish, kept, last, numbered, redo, restore, save, undo
from capturing import Camera
from hypothesis import HealthCheck, given, note, settings
from hypothesis import strategies as st
from talk import Talk

from gitcp.errors import Refused
from gitcp.model import Checkpoint
from gitcp.restoring import restore as op
from gitcp.restoring.restore import Report, RestoreRequest
from gitcp.state import journal, undo_stack
from gitcp.store import Store
from gitcp.worktree.snapshot import Limits

from driver import File, Project
from samples import open_store

Files = dict[bytes, File]


def versions(project: Project, count: int) -> list[tuple[Checkpoint, Files]]:
    """That many saved states of the working tree, each quite another, and what they look like."""
    found = []
    for number in range(count):
        project.write("edited", f"version {number}\n")
        project.write(f"only-in-{number}/file", "here\n", mode=0o600)
        if number:
            project.remove(f"only-in-{number - 1}")
        target = save(project)
        found.append((target, contents(project)))
    return found


def test_walk(project: Project) -> None:
    """Undo, undo, redo, redo go through the very states that the restores left behind."""
    (first, was_first), (second, was_second), (_, was_third) = versions(project, 3)
    restore(project, first)
    restore(project, second)

    walked = []
    with project.guard():
        for step in (undo, undo, redo, redo, undo, undo):
            step(project)
            walked.append(contents(project))

    assert walked == [was_first, was_third, was_first, was_second, was_first, was_third]
    with pytest.raises(Refused, match="no restore to undo"):
        undo(project)


def test_undo_by_number_of_no_delete(project: Project) -> None:
    """What has nothing in the trash is not undone by its number; only of a restore is it said that
    `gitcp undo` does it.
    """
    (first, _), _ = versions(project, 2)
    restore(project, first)
    project.gitcp("save", "--amend", "label", check=0)

    said = [project.gitcp("undo", number, check=12).err.split(":")[1] for number in ("1", "2")]

    last = " by number, but by gitcp undo while it is the last"
    assert said == [
        f" operation 1 (restore) cannot be undone{last}",
        " operation 2 (amend) cannot be undone",
    ]


def test_undo_of_unsaved_work(project: Project) -> None:
    """What was never saved by anybody is what undo brings back, files and modes."""
    (first, _), _ = versions(project, 2)
    project.write("unsaved", "only here\n", mode=0o640)
    project.write("edited", "unsaved edit\n")
    before = contents(project)
    restore(project, first)

    undo(project)

    assert contents(project) == before


def test_undo_keeps_later_work(project: Project) -> None:
    """What was written since the restore stays: other files, and other lines of the same file; redo
    right after it returns every byte.
    """
    project.write("merged", "".join(f"{n}\n" for n in range(20)))
    first = save(project)
    project.write("merged", "".join(f"{n}\n" for n in range(20)).replace("3\n", "three\n", 1))
    project.write("gone", "by the restore\n")
    project.write("edited", "before\n")
    save(project)
    restore(project, first)
    project.write("later/file", "work\n", mode=0o600)
    project.write("merged", "".join(f"{n}\n" for n in range(20)).replace("15\n", "fifteen\n"))
    worked = contents(project)

    with project.guard():
        undo(project)
    back = contents(project)
    assert back[b"later/file"] == worked[b"later/file"]
    assert project.read("gone") == b"by the restore\n"
    assert project.read("edited") == b"before\n"
    assert b"\nthree\n" in project.read("merged")
    assert b"\nfifteen\n" in project.read("merged")
    redo(project)
    assert contents(project) == worked
    undo(project)
    assert contents(project) == back


def test_undo_names_what_it_would_lose(project: Project) -> None:
    """Changes that cannot be merged are listed by path, and nothing is changed, not even saved;
    only with `whole_tree` they go, and redo has them.
    """
    (first, _), (_, was_second) = versions(project, 2)
    restore(project, first)
    project.write("later", "work\n")
    project.write("edited", "after the restore\n")
    worked, refs = contents(project), project.git("for-each-ref")

    with pytest.raises(Refused, match="nothing was changed") as refused:
        undo(project)
    assert refused.value.candidates == ("edited  (the same lines changed since)",)
    assert refused.value.hint is not None
    assert refused.value.hint.startswith("gitcp undo --whole-tree")
    assert (contents(project), project.git("for-each-ref")) == (worked, refs)
    undo(project, whole_tree=True)
    assert contents(project) == was_second
    redo(project)
    assert contents(project) == worked


def test_undo_after_its_checkpoint_is_gone(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without the restore's own checkpoint, nobody knows what changed since: undo says so."""
    (first, _), (_, was_second) = versions(project, 2)
    recorded = restore(project, first).checkpoint
    found = Store.find
    monkeypatch.setattr(Store, "find", lambda *of: None if of[1] == recorded else found(*of))

    with pytest.raises(Refused, match="no longer exists, so what changed since is not known"):
        undo(project)
    undo(project, whole_tree=True)
    assert contents(project) == was_second


def test_copied_worktree(project: Project) -> None:
    """A copy of a linked working tree shares its git directory: each undoes its own restores only.
    One that was moved undoes what it did before.
    """
    project.write("a", "1\n")
    project.commit()
    project.git("worktree", "add", "--quiet", "../linked")
    linked = Project(project.root.parent / "linked")
    linked.gitcp("save", check=0)
    linked.write("b", "2\n")
    linked.gitcp("save", check=0)
    shutil.copytree(linked.root, project.root.parent / "copy")
    copy = Project(project.root.parent / "copy")
    copy.write("only-copy", "x\n")
    copy.gitcp("restore", "1", "--yes", check=0)
    before = linked.files()

    assert "no restore to undo" in linked.gitcp("undo", "--yes", check=12).err
    assert linked.files() == before
    linked.gitcp("restore", "1", "--yes", check=0)
    project.gitcp("prune", "--keep-last", "1", "--yes", check=0)  # keeps what both undo next
    copy.gitcp("undo", "--yes", check=0)
    assert copy.read("only-copy") == b"x\n"
    assert b"b" not in linked.files()
    shutil.rmtree(copy.root)
    linked.root.rename(copy.root)
    copy.gitcp("undo", "--yes", check=0)
    assert copy.read("b") == b"2\n"


def test_two_restores_from_one_state(project: Project) -> None:
    """Two restores from the same files in the same session are undone each by what it changed, even
    if the first one's own checkpoint went to another session.
    """
    project.write("a", "old\n")
    project.write("made", "here\n")
    project.gitcp("save", "--session", "one", check=0)
    target = project.files()
    project.write("a", "new\n")
    project.remove("made")
    project.gitcp("save", "--session", "two", check=0)
    before = project.files()

    def restore_from_two(*args: str) -> str:
        project.gitcp("save", "--session", "two", check=0)
        return str(project.json("restore", *args, "--yes")["safety"])

    safeties = [restore_from_two("one@1")]
    project.write("a", "new\n")
    project.remove("made")
    safeties.append(restore_from_two("one@1", "a"))
    project.gitcp("undo", "--yes", check=0)
    assert project.files() == before
    project.write("a", "old\n")
    project.write("made", "here\n")
    assert project.files() == target

    project.gitcp("undo", "--yes", check=0)

    assert project.files() == before
    assert len({*safeties}) == 2


def test_restore_after_undo(project: Project) -> None:
    """A new restore takes the place of what could be redone, and undo goes on to the older ones."""
    (first, was_first), (second, was_second), (_, was_third) = versions(project, 3)
    restore(project, first)
    restore(project, second)
    undo(project)
    assert contents(project) == was_first
    restore(project, second)

    with pytest.raises(Refused, match="no undo to redo"):
        redo(project)
    undo(project)
    assert contents(project) == was_first
    undo(project)
    assert contents(project) == was_third
    assert was_second not in (was_first, was_third)


def test_undo_with_nothing_to_do_still_steps(project: Project) -> None:
    """An undo that finds everything as it was takes its step all the same."""
    (first, _), (_, was_second) = versions(project, 2)
    restore(project, first)
    project.write("edited", "version 1\n")
    project.write("only-in-1/file", "here\n", mode=0o600)
    project.remove("only-in-0")

    report = undo(project)

    assert report.checkpoint is None
    assert contents(project) == was_second
    with pytest.raises(Refused, match="no restore to undo"):
        undo(project)


def test_undo_of_paths_leaves_the_rest(project: Project) -> None:
    """The undo of a restore of one path is of that path alone: what was done elsewhere since
    stays.
    """
    (first, _), _ = versions(project, 2)
    restore(project, first, paths=(b"edited",))
    project.write("elsewhere", "since then\n")

    with project.guard():
        report = undo(project)

    assert report.written == (b"edited",)
    assert project.read("edited") == b"version 1\n"
    assert project.read("elsewhere") == b"since then\n"


def test_undo_of_files_leaves_the_conversation(project: Project) -> None:
    """The undo of a restore of files alone puts no conversation anywhere, however it went on."""
    talk = Talk(project)
    talk.say("one", "two")
    project.write("a", "old\n")
    first = save(project, None)
    project.write("a", "new\n")
    restore(project, first, conversation=False)
    talk.say("three", "four")
    before = sorted(talk.path.parent.iterdir())

    report = undo(project)

    assert report.placed is None
    assert sorted(talk.path.parent.iterdir()) == before
    assert project.read("a") == b"new\n"


def test_undo_of_a_conversation(project: Project) -> None:
    """Undo names the agent's own session again, and redo the one that the restore made."""
    talk = Talk(project)
    talk.say("one", "two")
    first = save(project, None)
    talk.say("three", "four")
    whole = talk.path.read_bytes()
    restored = restore(project, first)
    assert restored.placed is not None
    assert restored.placed.session_id not in (None, talk.session)

    undone = undo(project)
    redone = redo(project)

    assert undone.placed is not None
    assert redone.placed is not None
    assert undone.placed.session_id == talk.session
    assert redone.placed.session_id == restored.placed.session_id
    assert talk.path.read_bytes() == whole
    assert len(list(talk.path.parent.iterdir())) == 2


def test_undo_of_the_index(project: Project) -> None:
    """A restore that set the index is undone with the index."""
    project.write("a", "one\n")
    project.commit()
    project.write("a", "two\n")
    project.git("add", "a")
    staged = save(project)
    project.git("reset", "--quiet")
    project.write("b", "b\n")
    project.git("add", "b")
    before = project.git("ls-files", "--stage")
    assert restore(project, staged, index=True).index
    assert project.git("ls-files", "--stage") != before

    assert undo(project).index
    assert project.git("ls-files", "--stage") == before
    redo(project)
    assert project.git("diff", "--cached", "--name-only") == "a"


def test_ignored_file_that_the_restore_made(project: Project) -> None:
    """A file that a restore made is removed by undo, though the rules of the state before ignore
    it: it was not there.

    One that somebody else made there since stays.
    """
    project.write("app.log", "captured\n")
    target = save(project)
    project.remove("app.log")
    project.write(".gitignore", "*.log\n")
    before = contents(project)
    restore(project, target)
    assert project.read("app.log") == b"captured\n"
    project.write("other.log", "not the restore's\n")

    report = undo(project)

    assert kept(report) == {}
    assert contents(project) == {
        **before,
        b"other.log": File("file", 0o644, b"not the restore's\n"),
    }


# ---------------------------------------------------------------- any tree to any other

NAMES = st.sampled_from([b"a", b"b", b"c\xff", b"x.log", b"keep.log", b".gitignore"])
PATHS = st.lists(NAMES, min_size=1, max_size=3).map(b"/".join)
# The same rules before and after: what changed rules do is tested case by case in test_restore.py.
RULES = st.sampled_from([b"*.log\n", b"", b"*.log\n!keep.log\n", b"/a\n", b"!*.log\n"])
NODES = st.one_of(
    st.tuples(
        st.just("file"),
        st.sampled_from([b"", b"one\n", b"two\n", b"\0\r\n"]),
        st.sampled_from([0o644, 0o755, 0o600]),
    ),
    st.tuples(st.just("link"), st.sampled_from([b"a", b"nowhere", b"../.."]), st.just(0)),
    st.tuples(st.just("empty"), st.just(b""), st.just(0)),
)
TREES = st.dictionaries(PATHS, NODES, max_size=10)


Tree = dict[bytes, tuple[str, bytes, int]]


def build(project: Project, tree: Tree, rules: bytes) -> None:
    """Make the working tree look like this, from nothing. What would lie in a file or a link is
    left out.
    """
    for name in os.listdir(os.fsencode(project.root)):
        if name != os.fsencode(project.git_dir.relative_to(project.root).parts[0]):
            project.remove(name)
    for path, (kind, data, mode) in {b".gitignore": ("file", rules, 0o644), **tree}.items():
        above = [path[:place] for place, byte in enumerate(path) if byte == ord("/")]
        if os.path.lexists(project.path(path)) or any(
            is_leaf(project.path(parent)) for parent in above
        ):
            continue
        if kind == "file":
            project.write(path, data, mode)
        elif kind == "link":
            project.symlink(path, data)
        else:
            os.makedirs(project.path(path), exist_ok=True)


def is_leaf(path: bytes) -> bool:
    """Whether a file or a link lies at `path`."""
    return os.path.lexists(path) and (os.path.islink(path) or not os.path.isdir(path))


def visible(project: Project) -> set[bytes]:
    """The files and links that git would add."""
    listed = project.git("ls-files", "-z", "--others", "--exclude-standard")
    return {name for name in listed.encode("utf-8", "surrogateescape").split(b"\0") if name}


def of(files: Files, paths: Collection[bytes]) -> Files:
    """What `files` has at these paths."""
    return {path: file for path, file in files.items() if path in paths}


@settings(max_examples=12, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(first=TREES, second=TREES, rules=RULES.map(lambda rules: (rules, rules)))
def test_any_tree_to_any_other(
    tmp_path_factory: pytest.TempPathFactory, first: Tree, second: Tree, rules: tuple[bytes, bytes]
) -> None:
    """From B back to A: what was captured of A is there again and what was ignored in B still is;
    undo is B again.
    """
    project = Project(tmp_path_factory.mktemp("any") / "project")
    build(project, first, rules[0])
    captured = of(contents(project), visible(project))
    target = save(project)
    build(project, second, rules[1])
    before = contents(project)
    ignored = of(
        before,
        {path for path, file in before.items() if file.kind != "directory"} - visible(project),
    )

    with project.guard():
        report = restore(project, target)
    after = contents(project)
    note(f"{captured=}\n{before=}\n{after=}\n{kept(report)=}")

    left = kept(report)
    assert of(after, captured.keys() - left.keys()) == of(captured, captured.keys() - left.keys())
    assert of(after, ignored.keys()) == ignored
    strangers = (
        {path for path, file in after.items() if file.kind != "directory"}
        - captured.keys()
        - ignored.keys()
    )
    assert strangers <= left.keys()
    assert report.failed == any(
        path in captured or path in target.snapshot.empty_directories for path in left
    )
    assert last(project).snapshot == Camera(project).afresh().snapshot, (
        "the restore did not see all it did"
    )
    if report.checkpoint is not None:
        undo(project)
        assert contents(project) == before
        assert last(project).snapshot == Camera(project).afresh().snapshot, (
            "the undo did not see all it did"
        )
    assert last(project).id.session == target.id.session


LINES = st.lists(st.sampled_from([b"one", b"two"]), min_size=3, max_size=3).map(
    b"\n-\n-\n-\n".join  # far enough apart to be merged
)
WORK = st.dictionaries(
    st.sampled_from([b"a", b"b", b"b/c", b"d/e"]),
    st.tuples(st.just("file"), LINES, st.sampled_from([0o644, 0o755])),
)


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(first=WORK, second=WORK, third=WORK)
def test_undo_after_any_work(
    tmp_path_factory: pytest.TempPathFactory, first: Tree, second: Tree, third: Tree
) -> None:
    """Whatever is done after a restore: undo brings back what nobody touched since, keeps what the
    restore did not change, and merges the rest as git does; or refuses, and nothing is changed.
    """
    project = Project(tmp_path_factory.mktemp("work") / "project")
    build(project, first, b"")
    target = save(project)
    build(project, second, b"")
    before = files_of(project)
    if restore(project, target).checkpoint is None:
        return
    left = files_of(project)
    build(project, third, b"")
    worked = files_of(project)
    paths = sorted(before.keys() | left.keys() | worked.keys())
    disputed = [p for p in paths if len({f.get(p) for f in (before, left, worked)}) == 3]

    try:
        with project.guard():
            undo(project)
    except Refused:
        assert files_of(project) == worked
        assert disputed or hides_another(before.keys() | worked.keys())
        return
    after = files_of(project)
    for path in paths:
        sides = left.get(path), worked.get(path), before.get(path)
        if path not in disputed:
            assert after.get(path) == (sides[2] if sides[0] == sides[1] else sides[1]), path
            continue
        base, ours, theirs = (file or File("file", 0, b"") for file in sides)
        got = after[path]
        assert got.mode in (ours.mode, theirs.mode)
        assert got.data == merged_by_git(project, base.data, ours.data, theirs.data), path


def files_of(project: Project) -> Files:
    """The files of the working tree, without directories."""
    return {path: file for path, file in contents(project).items() if file.kind != "directory"}


def hides_another(paths: Collection[bytes]) -> bool:
    """Whether one of these paths is a directory of another."""
    return any(other.startswith(path + b"/") for path in paths for other in paths)


def merged_by_git(project: Project, base: bytes, ours: bytes, theirs: bytes) -> bytes:
    """What `git merge-file` makes of three versions, which do not conflict."""
    place = project.root.parent
    for name, data in (("base", base), ("ours", ours), ("theirs", theirs)):
        place.joinpath(name).write_bytes(data)
    words: list[str | Path] = [
        "git",
        "merge-file",
        "-p",
        *(place / name for name in ("ours", "base", "theirs")),
    ]
    return subprocess.run(words, check=True, capture_output=True).stdout


# ------------------------------------------------------------ what a look at the tree does not show


def exactly(project: Project, target: Checkpoint, **fields: Any) -> tuple[Files, Report]:
    """Restore, undo, redo and undo: each gives back every byte and mode, ignored or not. What the
    restore left.
    """
    before = contents(project)
    with project.guard():
        done = restore(project, target, **fields)
        after = contents(project)
        for step, wanted in ((undo, before), (redo, after), (undo, before), (redo, after)):
            step(project)
            assert contents(project) == wanted, step.__name__
    return after, done


def walk_with(project: Project, limits: Limits, before: Files, after: Files) -> None:
    """Undo, redo and undo again, with limits."""
    for step, wanted in ((op.undo, before), (op.redo, after), (op.undo, before)):
        step(
            open_store(project),
            lambda id: RestoreRequest(
                numbered(open_store(project), id), project.root, limits=limits
            ),
        )
        assert contents(project) == wanted


def test_tracked_but_ignored_file(project: Project) -> None:
    """A file that was tracked and is ignored comes back; undo takes it away, and redo brings it."""
    project.write(".gitignore", "*.log\n")
    project.write("t.log", "tracked\n")
    project.git("add", "--force", "t.log")
    target = save(project)
    project.git("rm", "--quiet", "--cached", "t.log")
    project.remove("t.log")
    after, _ = exactly(project, target)
    assert after[b"t.log"].data == b"tracked\n"


def test_ignored_since_by_info_exclude(project: Project) -> None:
    """A file that info/exclude ignores now comes back and goes again."""
    project.write("deep/er/note", "mine\n", 0o600)
    target = save(project)
    project.remove("deep")
    project.write(f"{project.git_dir}/info/exclude", "note\n")
    after, _ = exactly(project, target)
    assert after[b"deep/er/note"].data == b"mine\n"


def test_ignored_since_by_excludes_file(project: Project) -> None:
    """The same for core.excludesFile."""
    project.write("note", "mine\n")
    target = save(project)
    project.remove("note")
    project.write(f"{project.git_dir}/ours", "note\n")
    project.git("config", "core.excludesFile", str(project.git_dir / "ours"))
    exactly(project, target)


def test_ignored_by_what_the_restore_brought(project: Project) -> None:
    """The restore changes a file and, with .gitignore, whether it is ignored: its content of before
    comes back.
    """
    project.write("a.log", "then\n")
    project.git("add", "--force", "a.log")
    project.write(".gitignore", "*.log\n")
    target = save(project)
    project.git("rm", "--quiet", "--cached", "a.log")
    project.remove(".gitignore")
    project.write("a.log", "now\n", 0o755)
    after, _ = exactly(project, target)
    assert after[b"a.log"].data == b"then\n"


def test_mode_of_what_is_ignored_then(project: Project) -> None:
    """A restore sets the mode of a file alone, which is ignored by the rules it brings."""
    project.write("a.log", "same\n", 0o600)
    project.git("add", "--force", "a.log")
    project.write(".gitignore", "*.log\n")
    target = save(project)
    project.git("rm", "--quiet", "--cached", "a.log")
    project.remove(".gitignore")
    os.chmod(project.path("a.log"), 0o640)
    after, _ = exactly(project, target)
    assert after[b"a.log"].mode == 0o600


def test_ignored_between_restore_and_undo(project: Project) -> None:
    """Somebody ignores what the restore brought: undo takes it back all the same."""
    project.write("note", "mine\n")
    target = save(project)
    project.remove("note")
    before = contents(project)
    restore(project, target)
    project.write(f"{project.git_dir}/info/exclude", "note\n")
    undo(project)
    assert contents(project) == before
    redo(project)
    assert project.read("note") == b"mine\n"


def test_empty_directory_that_is_ignored(project: Project) -> None:
    """An empty directory that the restore made is removed, though it is ignored. One that was there
    stays.
    """
    os.makedirs(project.path("build/out"))
    target = save(project)
    project.remove("build")
    project.write(f"{project.git_dir}/info/exclude", "build\nleft\n")
    os.mkdir(project.path("left"))
    after, _ = exactly(project, target)
    assert b"build/out" in after


def test_empty_directory_in_an_ignored_one(project: Project) -> None:
    """An empty directory comes back in one that is empty, too, and ignored: undo leaves the upper
    one.
    """
    os.makedirs(project.path("build/out"))
    target = save(project)
    os.rmdir(project.path("build/out"))
    project.write(f"{project.git_dir}/info/exclude", "build\n")
    after, _ = exactly(project, target)
    assert b"build/out" in after


def test_ignored_directory_that_was_there(project: Project) -> None:
    """A file comes back in an empty directory that is ignored: undo takes the file, and leaves the
    directory.
    """
    project.write("build/out", "made\n")
    target = save(project)
    project.remove("build/out")
    project.write(f"{project.git_dir}/info/exclude", "build\n")
    exactly(project, target)


@pytest.mark.parametrize(
    "where", ["{git_dir}/info/exclude", "{git_dir}/ours", ".gitignore", "hidden/.gitignore"]
)
@pytest.mark.parametrize("is_saved", [True, False])
def test_what_was_hidden_stays(project: Project, where: str, *, is_saved: bool) -> None:
    """Rules that no checkpoint has hid files and an empty directory. They are gone by the time of
    the undo.
    """
    is_exclude, where = where.endswith("exclude"), where.format(git_dir=project.git_dir)
    project.git("config", "core.excludesFile", str(project.git_dir / "ours"))
    (first, _), _ = versions(project, 2)
    project.write(where, "*\n" if where.startswith("hidden") else ".env\nhidden\n/.gitignore\n")
    project.write(".env" if is_exclude else "hidden/.env", "token\n", 0o600)
    project.write("hidden/deep/er", "mine\n")
    os.makedirs(project.path("hidden/empty"))
    before = contents(project)
    restore(project, first)
    after = contents(project)
    project.remove(where)
    gone = {os.fsencode(where)}
    if is_saved:
        save(project)
    for step, wanted in ((undo, before), (redo, after), (undo, before)):
        step(project)
        assert contents(project) == {
            path: file for path, file in wanted.items() if path not in gone
        }


def test_larger_than_the_limit(project: Project) -> None:
    """A tracked file comes back that is too large for one that is not tracked."""
    project.write("large", "x" * 2000)
    project.git("add", "large")
    small = Limits(max_untracked_file=1000)
    target = save(project, limits=small)
    project.git("rm", "--quiet", "--cached", "large")
    project.remove("large")
    before = contents(project)
    restore(project, target, limits=small)
    after = contents(project)
    walk_with(project, small, before, after)


def test_restored_in_a_directory_of_dependencies(project: Project) -> None:
    """A restore brings so many files into a directory that it is left out from then on."""
    few = Limits(max_dependency_files=3)
    for name in "abcd":
        project.write(f"node_modules/{name}.js", name)
    project.git("add", "--force", "node_modules")
    target = save(project, limits=few)
    project.git("rm", "--quiet", "-r", "--cached", "node_modules")
    project.remove("node_modules")
    before = contents(project)
    restore(project, target, limits=few)
    after = contents(project)
    assert before != after
    walk_with(project, few, before, after)


def test_changed_since_is_kept(project: Project) -> None:
    """What somebody changed after the restore stays, and undo says so."""
    project.write("note", "mine\n")
    project.write("other", "mine\n")
    target = save(project)
    project.remove("note")
    project.remove("other")
    project.write(f"{project.git_dir}/info/exclude", "note\nother\n")
    restore(project, target)
    project.write("note", "edited\n")
    report = undo(project)
    assert kept(report) == {b"note": "changed since it was restored, and ignored"}
    assert project.read("note") == b"edited\n"
    assert b"other" not in project.files()


def test_two_restores_of_an_ignored_file(project: Project) -> None:
    """Undo goes back through both, though the first undo wrote what the second takes away."""
    project.write("note", "one\n")
    project.write("x", "one\n")
    one = save(project)
    project.write("note", "two\n")
    project.write("x", "two\n")
    two = save(project)
    project.remove("note")
    project.write(f"{project.git_dir}/info/exclude", "note\n")
    states = [contents(project)]
    for target in (one, two):
        restore(project, target)
        states.append(contents(project))
    for wanted in (states[1], states[0]):
        undo(project)
        assert contents(project) == wanted
    for wanted in states[1:]:
        redo(project)
        assert contents(project) == wanted


def test_paths_that_are_ignored(project: Project) -> None:
    """A restore of one path, which is ignored now."""
    project.write("note", "mine\n")
    project.write("a", "one\n")
    target = save(project)
    project.remove("note")
    project.write("a", "two\n")
    project.write(f"{project.git_dir}/info/exclude", "note\n")
    after, _ = exactly(project, target, paths=(b"note",))
    assert (after[b"note"].data, after[b"a"].data) == (b"mine\n", b"two\n")


def test_revert_of_an_ignored_removal(project: Project) -> None:
    """A revert brings back a file that is ignored now."""
    project.write("note", "mine\n")
    project.write("a", "one\n")
    first = save(project)
    project.remove("note")
    second = save(project)
    project.write(f"{project.git_dir}/info/exclude", "note\n")
    after, _ = exactly(project, second, reverted=first, conversation=False)
    assert after[b"note"].data == b"mine\n"


def test_abort_takes_back_what_is_ignored(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An interrupted restore wrote a file that is ignored: --abort takes it away, and --continue
    keeps it for undo.
    """
    project.write("note", "mine\n")
    os.makedirs(project.path("build/out"))
    target = save(project)
    project.remove("note")
    project.remove("build")
    project.write("new", "new\n")
    project.write(f"{project.git_dir}/info/exclude", "note\nbuild\n")
    before = contents(project)
    restore(project, target)
    after = contents(project)
    undo(project)
    for forward, wanted in ((False, before), (True, after)):
        with monkeypatch.context() as patched:
            patched.setattr(op, "_save_after", crash)
            with pytest.raises(KeyboardInterrupt):
                restore(project, target)
        assert contents(project) == after
        finish(project, forward=forward)
        assert contents(project) == wanted
    undo(project)
    assert contents(project) == before


@pytest.mark.parametrize("conversation_alone", [False, True])
def test_continue_says_what_is_kept(
    project: Project, monkeypatch: pytest.MonkeyPatch, *, conversation_alone: bool
) -> None:
    """What a restore kept back is kept back by --continue too, and said, with exit code 3."""
    project.write("a", "old\n")
    project.write("b", "old\n")
    project.write("c", "old\n")
    target = save(project)
    if not conversation_alone:
        project.write("b", "new\n")
    project.remove("a")
    project.write("a/ignored", "mine\n")
    project.write(f"{project.git_dir}/info/exclude", "ignored\n")
    with monkeypatch.context() as patched:
        patched.setattr(op, "_save_after", crash)
        patched.setattr(op, "_is_placed", lambda *_: False)
        patched.setattr(op, "_is_conversation_unchanged", lambda *_: False)
        with pytest.raises(KeyboardInterrupt):
            restore(project, target)
    project.write("c", "edited since\n")

    with project.guard():
        done = project.gitcp("restore", "--continue", "--json", check=3)

    told = {one["path"]: one["reason"] for one in json.loads(done.out)["kept"]}
    assert told.keys() == {"a", "c"}
    assert told["c"] == "edited since the restore was interrupted"
    assert project.read("b") == b"old\n"
    assert project.read("c") == b"edited since\n"
    assert project.read("a/ignored") == b"mine\n"


def test_abort_leaves_what_was_hidden(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    """A rule is gone that hid a file when a restore began: --abort leaves the file, and so does the
    undo of that.
    """
    (first, _), _ = versions(project, 2)
    project.write(f"{project.git_dir}/info/exclude", ".env\n")
    project.write(".env", "token\n")
    before = contents(project)
    with monkeypatch.context() as patched:
        patched.setattr(op, "_save_after", crash)
        with pytest.raises(KeyboardInterrupt):
            restore(project, first)
    after = contents(project)
    project.write(f"{project.git_dir}/info/exclude", "")
    finish(project, forward=False)
    assert contents(project) == before
    undo(project)
    assert contents(project) == after


def crash(*_: object, **__: object) -> None:
    """The end of a process."""
    raise KeyboardInterrupt


def test_lists_are_not_left(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    """The lists of what restores wrote go when their restores are forgotten, and so do the ignore
    rules beside them.
    """
    (first, _), (second, _) = versions(project, 2)
    directory = open_store(project).repo.state_dir / journal.WRITTEN
    for target in (first, second) * 2:
        restore(project, target)
    assert len(os.listdir(directory)) == 5
    monkeypatch.setattr(undo_stack, "MOST", 1)
    restore(project, first)
    assert len(os.listdir(directory)) == 2


ANY_RULES = st.sampled_from(
    [b"", b"*.log\n", b"*.log\n!keep.log\n", b"/a\n", b"b\n", b"*\n", b"c*\n!.gitignore\n"]
)


@pytest.mark.faults
@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    trees=st.tuples(TREES, TREES),
    rules=st.tuples(ANY_RULES, ANY_RULES),
    excluded=st.tuples(
        ANY_RULES, ANY_RULES, st.sampled_from([b"", b"*.log\n", b"b\n", b"/a\n", b"*\n"])
    ),
    tracked=st.tuples(st.booleans(), st.booleans()),
    more=st.booleans(),
)
def test_any_rules(
    tmp_path_factory: pytest.TempPathFactory,
    trees: tuple[Tree, Tree],
    rules: tuple[bytes, bytes],
    excluded: tuple[bytes, bytes, bytes],
    tracked: tuple[bool, bool],
    more: bool,
) -> None:
    """Whatever is ignored before, after and besides since: undo gives back every file, and redo
    those of after.
    """
    project = Project(tmp_path_factory.mktemp("any") / "project")
    build(project, trees[0], rules[0])
    project.write(f"{project.git_dir}/info/exclude", excluded[0])
    if tracked[0]:
        project.git("add", "--all", "--force")
    target = save(project)
    build(project, trees[1], rules[1])
    project.write(f"{project.git_dir}/info/exclude", excluded[1])
    project.git_dir.joinpath("index").unlink(missing_ok=True)
    if tracked[1]:
        project.git("add", "--all", "--force")
    before = contents(project)
    with project.guard():
        report = restore(project, target)
        after = contents(project)
        note(f"{before=}\n{after=}\n{kept(report)=}")
        if report.checkpoint is None:
            return
    project.write(
        f"{project.git_dir}/info/exclude", excluded[1] + excluded[2] if more else excluded[2]
    )
    with project.guard():
        for step, wanted in ((undo, before), (redo, after), (undo, before)):
            step(project)
            assert contents(project) == wanted, step.__name__
