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
