"""The temporary repository in which a diff, a merge or a blame is made."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from gitcp.git.loose import alternate_line, with_alternates

from driver import Project


@pytest.mark.parametrize("name", ["a\nb", '"quoted"', "a\rb", "a\\b", "#1", "naïve"])
def test_odd_paths(tmp_path: Path, sealed: Path, name: str) -> None:
    """It finds the repository's objects wherever that is, also below a path with a line feed."""
    project = Project(tmp_path / name)
    project.write("a", "one\n")
    project.write("b", "one\n")
    project.commit()
    for number in range(2):
        project.write("a", f"step {number}\n" * 3)
        project.gitcp("save", f"step {number}", check=0)
    project.write("a", "now\n")

    assert "+now" in project.gitcp("diff", "1", check=0).out
    assert project.json("why", "b:1")["began"] is True
    project.gitcp("save", check=0)
    project.gitcp("revert", "3", "--yes", check=0)
    assert project.read("a") == b"step 1\n" * 3
    project.gitcp("restore", "1", "--mine", "--yes", check=0)
    project.gitcp("check", check=0)


@pytest.mark.parametrize("name", ['"quoted"', "a\rb", "naïve"])
def test_borrowed_from_odd_paths(tmp_path: Path, sealed: Path, name: str) -> None:
    """Objects that git borrows from there (`git clone --shared`) are found."""
    lender = Project(tmp_path / name, own_store=False)
    lender.write("a", "one\n")
    lender.commit()
    lender.git("clone", "--quiet", "--shared", ".", str(tmp_path / "clone"))
    borrower = Project(tmp_path / "clone", own_store=False)

    borrowed = [path.resolve() for path in with_alternates(borrower.git_dir / "objects")]
    assert borrowed[1:] == [(lender.git_dir / "objects").resolve()]
    borrower.write("a", "two\n")
    borrower.gitcp("save", check=0)
    borrower.gitcp("check", check=0)


@pytest.mark.parametrize("path", [b"/a\nb", b'"a', b"/a\\b\n\t\xff", b"/plain"])
def test_lines_are_read_as_written(tmp_path: Path, path: bytes) -> None:
    """A line is read as the path that it was written for, by gitcp as by git."""
    directory = tmp_path / "objects"
    directory.joinpath("info").mkdir(parents=True)
    directory.joinpath("info/alternates").write_bytes(alternate_line(path) + b"\n# a comment\n")

    assert [os.fsencode(each) for each in with_alternates(directory)] == [
        os.fsencode(directory),
        os.path.join(os.fsencode(directory), path),
    ]


@pytest.mark.parametrize("content", [bytes(1024), b"\xff\0\n", b"", None])
def test_broken_list(tmp_path: Path, content: bytes | None) -> None:
    """A crash leaves one of NULs; something else, a directory. As git does, nothing is borrowed."""
    listed = tmp_path / "info/alternates"
    if content is None:
        listed.mkdir(parents=True)
    else:
        listed.parent.mkdir()
        listed.write_bytes(content)

    assert with_alternates(tmp_path)[:1] == [tmp_path]
    assert b"\0" not in b"".join(map(os.fsencode, with_alternates(tmp_path)))


@pytest.mark.parametrize("broken", [False, True], ids=["own store", "broken HEAD"])
def test_packed_objects_without_a_repository_of_git(
    tmp_path: Path, sealed: Path, *, broken: bool
) -> None:
    """Packed objects are read where git itself finds no repository: a diff, a merge and an undo
    failed there once a save had written a pack.
    """
    project = Project(tmp_path / "project", own_store=not broken)
    for state in ("one", "two"):
        for number in range(150):
            project.write(f"d{number}/file", f"{state} {number}\n")
        project.gitcp("save", state, "--session", "s", check=0)
    assert list(project.git_dir.glob("objects/pack/*.pack"))
    if broken:
        project.git_dir.joinpath("HEAD").write_text("broken\n")
    project.write("d3/file", "now\n")

    assert "+now" in project.gitcp("diff", "s@1", check=0).out
    project.gitcp("restore", "s@1", "d1", "--yes", check=0)
    project.write("d2/file", "later\n")
    project.gitcp("undo", "--yes", check=0)
    assert project.read("d1/file") == b"two 1\n"
    assert project.read("d2/file") == b"later\n"
    project.gitcp("revert", "s@2", "d4", "--yes", check=0)
    assert project.read("d4/file") == b"one 4\n"
    project.gitcp("restore", "s@1", "--mine", "--yes", "d5", check=0)
    assert project.read("d5/file") == b"one 5\n"
