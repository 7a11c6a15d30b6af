"""Scans of random trees after random edits: git's tree, git's untracked files, whatever is
remembered.
"""

from __future__ import annotations

import os
import shutil
import stat
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from capturing import Camera, git_tree, host, untracked
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gitcp.fastpath import stat_check
from gitcp.git.repo import Repository
from gitcp.worktree import rules, scan, snapshot
from gitcp.worktree.ignore import Include
from gitcp.worktree.nested import git_dir_of, head_of
from gitcp.worktree.snapshot import Limits

from driver import Project

NAMES = (
    "a",
    "b",
    "c.log",
    "d.txt",
    "build",
    "src",
    "x.tmp",
    "caf\u00e9",
    "sp ace",
    ".hid",
    "node_modules",
)
RULES = (
    "*.log",
    "build/",
    "/src",
    "!c.log",
    "*.tmp",
    "a/**",
    "!a/",
    "b",
    "/a/b",
    "src/*.txt",
    "!*.txt",
    "**/b",
    "*",
    "!*/",
    "!.gitignore",
    ".hid",
    "[a-c]",
    "node_modules",
)

PATHS = st.lists(st.sampled_from(NAMES), min_size=1, max_size=3).map("/".join)
CONTENTS = st.sampled_from(["x", "yy\n", "", "one\ntwo\n", "z" * 300])
IGNORES = st.lists(st.sampled_from(RULES), max_size=3, unique=True).map("\n".join)
MODES = st.sampled_from([0o644, 0o755, 0o600, 0o700])

Edit = tuple[Any, ...]


def edits() -> st.SearchStrategy[Edit]:
    """One thing that a person or a program does to a working tree or to the index."""
    return st.one_of(
        st.tuples(st.just(write), PATHS, CONTENTS),
        st.tuples(st.just(write), PATHS, CONTENTS),
        st.tuples(st.just(overwrite), PATHS),
        st.tuples(st.just(chmod), PATHS, MODES),
        st.tuples(st.just(link), PATHS, PATHS),
        st.tuples(st.just(move), PATHS, PATHS),
        st.tuples(st.just(trade), PATHS, PATHS),
        st.tuples(st.just(remove), PATHS),
        st.tuples(st.just(swap), PATHS),
        st.tuples(st.just(make_directory), PATHS),
        st.tuples(st.just(ignore), st.one_of(st.just(""), PATHS), IGNORES),
        st.tuples(st.just(exclude), IGNORES),
        st.tuples(st.just(git), st.just("add"), PATHS),
        st.tuples(st.just(git), st.just("add --force"), PATHS),
        st.tuples(st.just(git), st.just("rm -r --cached"), PATHS),
        st.tuples(
            st.just(git), st.sampled_from(["add --all", "reset --hard", "update-index --refresh"])
        ),
        st.tuples(st.just(git), st.just("commit --quiet --message x")),
        st.tuples(st.just(wait)),
    )


def write(project: Project, path: str, content: str) -> None:
    """Write a file, over whatever file is there."""
    project.write(path, content)


def overwrite(project: Project, path: str) -> None:
    """Change a file's bytes and nothing else that git looks at."""
    full = project.root / path
    status = full.lstat()
    if stat.S_ISREG(status.st_mode):
        full.write_bytes(bytes(reversed(full.read_bytes())))
        os.utime(full, ns=(status.st_atime_ns, status.st_mtime_ns))


def chmod(project: Project, path: str, mode: int) -> None:
    """Change a file's mode."""
    if (project.root / path).is_file():
        os.chmod(project.root / path, mode)


def link(project: Project, path: str, target: str) -> None:
    """Make a symbolic link."""
    project.symlink(path, target)


def move(project: Project, path: str, to: str) -> None:
    """Rename a file or a directory."""
    project.root.joinpath(to).parent.mkdir(parents=True, exist_ok=True)
    os.rename(project.root / path, project.root / to)


def trade(project: Project, path: str, other: str) -> None:
    """Give each of two files the other's name."""
    full, to = project.root / path, project.root / other
    if full.is_file() and to.is_file() and full != to:
        aside = full.with_name("aside")
        os.rename(full, aside)
        os.rename(to, full)
        os.rename(aside, to)


def remove(project: Project, path: str) -> None:
    """Remove a file or a directory."""
    project.remove(path)


def swap(project: Project, path: str) -> None:
    """Make a file of a directory, or a directory of a file."""
    was_directory = project.root.joinpath(path).is_dir()
    project.remove(path)
    project.write(path if was_directory else path + "/in", "swapped")


def make_directory(project: Project, path: str) -> None:
    """Make an empty directory."""
    project.root.joinpath(path).mkdir(parents=True)


def ignore(project: Project, directory: str, content: str) -> None:
    """Write a .gitignore, or take it away."""
    if content:
        project.write(os.path.join(directory, ".gitignore"), content)
    else:
        project.remove(os.path.join(directory, ".gitignore"))


def attribute(project: Project, directory: str, content: str) -> None:
    """Write a .gitattributes, or take it away."""
    if content:
        project.write(os.path.join(directory, ".gitattributes"), content)
    else:
        project.remove(os.path.join(directory, ".gitattributes"))


def exclude(project: Project, content: str) -> None:
    """Write info/exclude."""
    project.write(project.git_dir / "info/exclude", content)


def git(project: Project, command: str, *paths: str) -> None:
    """Run a git command, which may fail."""
    project.git(*command.split(), "--", *paths, check=False) if paths else project.git(
        *command.split(), check=False
    )


def wait(project: Project) -> None:
    """Let the clock that stamps files go on."""
    time.sleep(0.01)


def make(project: Project, edit: Edit) -> None:
    """Make one edit; where it cannot be made, nothing happens."""
    action: Callable[..., None] = edit[0]
    try:
        action(project, *edit[1:])
    except (OSError, shutil.Error):
        return


@pytest.mark.faults
@pytest.mark.parametrize("forked", [False, True])
@settings(
    max_examples=30,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(rounds=st.lists(st.lists(edits(), max_size=5), min_size=1, max_size=6))
def test_like_git(monkeypatch: pytest.MonkeyPatch, forked: bool, rounds: list[list[Edit]]) -> None:
    """After any edits the tree is the one `git add --all` makes, and the untracked files are those
    git sees.
    """
    monkeypatch.setattr(snapshot, "FORK_ABOVE", 0 if forked else 1 << 30)
    monkeypatch.setattr(stat_check, "may_fork", lambda: True)
    with tempfile.TemporaryDirectory() as directory:
        project = Project(Path(directory) / "project")
        project.commit()
        camera = Camera(project)
        for number, changes in enumerate(rounds):
            for edit in changes:
                make(project, edit)
            shot = camera.take(remember=number % 4 != 3)

            assert shot.snapshot.tree == git_tree(project)
            tracked = {os.fsencode(path) for path in project.git("ls-files", "-z").split("\0")}
            assert set(shot.entries) - tracked == untracked(project)


@pytest.mark.parametrize("together", [7, 64])
def test_large_like_git(project: Project, monkeypatch: pytest.MonkeyPatch, together: int) -> None:
    """In a tree of which never more than a part is in memory, no path is missing: the first save
    and the next ones have what git's own listing has, and git's own tree.
    """
    monkeypatch.setattr(scan, "BATCH", together)
    for number in range(1200):
        parts = (number % 7, number // 7 % 11, number // 77 % 5, number)
        directory = "/".join(f"d{part}" for part in parts[: 1 + number % 4])
        project.write(f"{directory}/file{number}", f"{number}\n")
        if number % 50 == 0:
            project.write(f"{directory}/.gitignore", "*1\n!file11\nd3/\n")
    project.git("add", "-f", "d0", "d1", "d2/d3")
    project.git("commit", "-q", "-m", "some")
    camera = Camera(project)
    for edit in range(4):
        if edit == 1:
            project.remove("d4")
        if edit == 2:
            project.write("d5/.gitignore", "*2\n")
        if edit == 3:
            project.write("d6/new/below/file", "new\n")
        shot = camera.take()

        listed = project.git("ls-files", "-co", "--exclude-standard", "-z").split("\0")
        there = {os.fsencode(path) for path in listed if (project.root / path).is_file()}
        assert set(shot.entries) == there
        assert shot.snapshot.tree == git_tree(project)


ATTRIBUTES = st.lists(
    st.sampled_from(
        [
            "* text=auto",
            "*.txt text eol=crlf",
            "a/** -text",
            "*.tmp ident",
            "b text",
            "src/* eol=lf",
        ]
    ),
    max_size=2,
    unique=True,
).map("\n".join)


@pytest.mark.faults
@settings(
    max_examples=25,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(
    files=st.dictionaries(
        PATHS, st.sampled_from(["x\r\n", "$Id$\n", "one\ntwo\n"]), min_size=2, max_size=8
    ),
    rounds=st.lists(
        st.one_of(
            st.tuples(st.just(ignore), st.one_of(st.just(""), PATHS), IGNORES),
            st.tuples(st.just(attribute), st.one_of(st.just(""), PATHS), ATTRIBUTES),
            st.tuples(
                st.just(git), st.sampled_from(["add --all", "commit --quiet --all --message x"])
            ),
            st.tuples(st.just(write), PATHS, st.sampled_from(["y\r\n", "z\n"])),
        ),
        min_size=2,
        max_size=8,
    ),
)
def test_rules_that_change(files: dict[str, str], rounds: list[Edit]) -> None:
    """When rules change anywhere, what lies below is judged anew: as by a scan that remembers
    nothing.
    """
    with tempfile.TemporaryDirectory() as directory:
        project = Project(Path(directory) / "project")
        for path, content in files.items():
            make(project, (write, path, content))
        project.commit()
        camera = Camera(project)
        for edit in rounds:
            make(project, edit)
            camera.take()  # which compares


@settings(max_examples=60)
@given(
    files=st.dictionaries(
        st.one_of(st.just(".gitignore"), PATHS.map(lambda path: path + "/.gitignore")), IGNORES
    ),
    paths=st.lists(PATHS, min_size=1, max_size=10, unique=True),
    excluded=IGNORES,
)
def test_ignored_like_git(files: dict[str, str], paths: list[str], excluded: str) -> None:
    """Which paths of a list are ignored, by rules that lie anywhere, agrees with git."""
    with tempfile.TemporaryDirectory() as directory:
        project = Project(Path(directory) / "project")
        exclude(project, excluded)
        for path, content in files.items():
            project.write(path, content)
        given = [path for path in paths if not project.root.joinpath(path).is_dir()]
        asked = project.git(
            "check-ignore",
            "--no-index",
            "-z",
            "--stdin",
            input="\0".join(given).encode(),
            check=False,
        )

        found = rules.ignored(
            Camera(project).repo, map(os.fsencode, given), lambda path: on_disk(project, path)
        )

        assert found == {os.fsencode(path) for path in asked.split("\0")} - {b""}


def on_disk(project: Project, path: bytes) -> bytes | None:
    """A file's bytes, None if there is no such file."""
    try:
        return project.read(path)
    except OSError:
        return None


def test_ignored_directory(project: Project) -> None:
    """A path that ends in a slash is a directory; what lies below an ignored one is ignored,
    whatever it says.
    """
    files = {b".gitignore": b"out/\n", b"out/.gitignore": b"!*\n"}
    paths = [b"out/", b"out", b"out/x", b"in/out/y", b"in/"]

    assert rules.ignored(Camera(project).repo, paths, files.get) == {b"out/", b"out/x", b"in/out/y"}


def test_ignored_deep_down(project: Project) -> None:
    """A path of a hostile tree, thousands of directories deep, is judged like any other."""
    deep = b"/".join([b"d"] * 3000)

    found = rules.ignored(
        Camera(project).repo, [deep + b"/x.log", deep], {b".gitignore": b"*.log\n"}.get
    )

    assert found == {deep + b"/x.log"}


@pytest.mark.parametrize(
    ("pattern", "leading", "taken"),
    [
        (".env", [], {".env", "a/.env"}),
        ("/.env", [], {".env"}),
        ("build/out/*.json", ["build", "build/out"], {"build/out/x.json"}),
        ("*/x", [], {"a/x"}),
        ("a/**/x", ["a"], {"a/x", "a/b/x"}),
        ("", [], set()),
    ],
)
def test_include(pattern: str, leading: list[str], taken: set[str]) -> None:
    """What an include pattern takes, and the ignored directories it leads into."""
    include = Include((pattern,), ignore_case=False)
    paths = (".env", "a/.env", "build/out/x.json", "a/build/out/x.json", "x", "a/x", "a/b/x")

    found = {path for path in paths if include.takes(*parts(path), is_directory=False)}

    assert found == taken
    assert sorted(include.leading) == [os.fsencode(path) for path in leading]


def parts(path: str) -> tuple[bytes, bytes]:
    """The directory of a path and its name."""
    directory, _, name = os.fsencode(path).rpartition(b"/")
    return directory, name


def test_repository_at(project: Project, tmp_path: Path) -> None:
    """What is a repository is decided as git does it; where its HEAD is, through packed refs and
    linked trees too.
    """
    project.write("file", "x")
    commit = project.commit()
    project.git("worktree", "add", "--quiet", "--detach", str(tmp_path / "linked"))
    project.git("pack-refs", "--all")
    for name in ("none", "empty/.git", "strange"):
        tmp_path.joinpath(name).mkdir(parents=True)
    os.mkfifo(tmp_path / "strange/.git")

    repo = Repository.open(project.root, host())

    def head(directory: Path) -> str | None:
        git_dir = git_dir_of(os.fsencode(directory))
        return head_of(git_dir, repo) if git_dir else "no repository"

    assert head(project.root) == head(tmp_path / "linked") == commit
    assert [head(tmp_path / name) for name in ("none", "empty", "strange")] == ["no repository"] * 3
    assert head(Project(tmp_path / "unborn").root) is None


def test_large_tree(project: Project) -> None:
    """More files than are held at once, all of them new, are captured as git would."""
    for number in range(4500):
        project.write(f"d{number % 50}/{number}", f"{number}\n")
    camera = Camera(project, Limits())

    shot = camera.take()

    assert shot.snapshot.total == 4500
    assert shot.snapshot.tree == git_tree(project)
