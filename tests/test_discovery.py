"""The working tree and the git directory are those that git itself finds, wherever one stands."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from capturing import host

from gitcp import discovery
from gitcp.errors import RepositoryNotFound
from gitcp.git.repo import Repository
from gitcp.worktree import nested

from driver import Project


def here(project: Project) -> Path:
    return project.root


def below(project: Project) -> Path:
    project.write("a/b/file", "x")
    return project.root / "a/b"


def through_a_link(project: Project) -> Path:
    """Named by a symbolic link that lies elsewhere."""
    project.write("a/b/file", "x")
    link = project.root.parent / "link"
    link.symlink_to(project.root / "a/b")
    return link


def linked(project: Project) -> Path:
    """A working tree whose `.git` is a file."""
    project.write("file", "x")
    project.commit()
    project.git("worktree", "add", "--quiet", "--detach", "../linked one")
    return project.root.parent / "linked one"


def separate(project: Project) -> Path:
    """The git directory lies elsewhere, by a relative path."""
    (project.root / ".git").rename(project.root.parent / "apart")
    project.write(".git", "gitdir: ../apart\n")
    return project.root


def an_empty_git_directory(project: Project) -> Path:
    """Of which git takes no notice."""
    (project.root / "a/.git").mkdir(parents=True)
    return project.root / "a"


def a_pipe_in_its_place(project: Project) -> Path:
    """Which keeps nobody waiting."""
    (project.root / "a").mkdir()
    os.mkfifo(project.root / "a/.git")
    return project.root / "a"


def a_link_to_nothing(project: Project) -> Path:
    (project.root / "a").mkdir()
    (project.root / "a/.git").symlink_to("gone")
    return project.root / "a"


PLACES = (
    here,
    below,
    through_a_link,
    linked,
    separate,
    an_empty_git_directory,
    a_pipe_in_its_place,
    a_link_to_nothing,
)


def told(directory: Path, *what: str) -> str:
    done = subprocess.run(
        ["git", "rev-parse", "--path-format=absolute", *what],
        cwd=directory,
        capture_output=True,
        text=True,
        check=True,
    )
    return os.path.realpath(done.stdout.removesuffix("\n"))


@pytest.mark.parametrize("place", PLACES)
def test_like_git(project: Project, place: Callable[[Project], Path]) -> None:
    """For the first stage and for a repository that is opened alike."""
    start = place(project)
    found = discovery.discover(str(start))

    assert found == (told(start, "--show-toplevel"), told(start, "--git-dir"))
    assert discovery.common(found[1]) == told(start, "--git-common-dir")
    repo = Repository.open(start, host())
    assert (str(repo.root), str(repo.git_dir)) == found
    assert str(repo.common_dir) == discovery.common(found[1])
    assert nested.git_dir_of(os.fsencode(repo.root)) == os.fsencode(found[1])


@pytest.mark.parametrize("text", ["", "gitdir:", "gitdir: gone\n", "gitdir: nul\0\n", "elsewhere"])
def test_a_file_that_names_nothing(project: Project, text: str) -> None:
    """git looks no further above it, nor do we; the error names the file."""
    project.write("a/.git", text)
    project.write("a/b/file", "x")

    assert discovery.discover(str(project.root / "a/b")) is None
    with pytest.raises(RepositoryNotFound, match=r"a/\.git does not name a git directory"):
        Repository.open(project.root / "a/b", host())


def test_nothing_there(tmp_path: Path) -> None:
    """Said at once, and by the first stage too."""
    assert discovery.discover(str(tmp_path)) is None
    assert discovery.discover(f"{tmp_path}/nul\0") is None
    with pytest.raises(RepositoryNotFound, match="no git repository at"):
        Repository.open(tmp_path, host())


@pytest.mark.parametrize("place", ["home", "root"])
def test_nothing_at_home(sealed: Path, place: str) -> None:
    """`git init` would be no help where gitcp saves nothing."""
    where = {"home": sealed, "root": Path("/")}[place]
    with pytest.raises(RepositoryNotFound, match="no git repository at") as refused:
        Repository.open(where, host())
    assert "gitcp does not save" in str(refused.value)
    assert refused.value.hint == "cd PROJECT && git init"


def test_inside_of_a_git_directory(project: Project) -> None:
    """There are no files to save there; git's hooks and agents that went there are of the project
    all the same.
    """
    inside = project.root / ".git/refs"

    assert discovery.discover(str(inside)) == (str(project.root), str(project.root / ".git"))
    with pytest.raises(RepositoryNotFound, match="is a git directory or a bare repository"):
        Repository.open(inside, host())
