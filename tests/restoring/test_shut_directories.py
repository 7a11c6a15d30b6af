"""Directories that a restore may list but not enter, or not even list: they are left alone, and all
else comes back.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from members import Member, needs_root

CASES = {
    "changed": ("mkdir d; echo 1 > d/f", "echo 2 > d/f"),
    "missing": ("mkdir d; echo 1 > d/f; echo 1 > d/gone", "rm d/gone"),
    "empty": ("mkdir d; echo 1 > d/f", "rm d/f"),
    "directory gone": ("mkdir -p d/e; echo 1 > d/e/f", "rm -r d/e"),
    "file for directory": ("mkdir -p d/e; echo 1 > d/e/f", "rm -r d/e; touch d/e"),
    "directory for file": ("echo 1 > d", "rm d; mkdir d; touch d/x"),
    "directory below for file": ("echo 1 > d", "rm d; mkdir -p d/s; touch d/s/x"),
}


@pytest.fixture
def member() -> Iterator[Member]:
    """A user who is not root, in a repository."""
    with tempfile.TemporaryDirectory(prefix="gitcp-members-") as name:
        os.chmod(name, 0o755)
        root = Path(os.path.realpath(name), "project")
        root.mkdir()
        member = Member(1, root)
        os.chown(root, member.uid, member.uid)
        member.run("git", "init", "-q", "-b", "main")
        yield member


@needs_root
@pytest.mark.parametrize("mode", [0o600, 0o400, 0o000])
@pytest.mark.parametrize("case", CASES)
def test_everything_else_comes_back(member: Member, case: str, mode: int) -> None:
    """Nothing in the directory is changed, it is named, and other files are restored; undo takes
    them back.
    """
    first, then = CASES[case]
    shut = member.root / ("d/s" if case == "directory below for file" else "d")
    member.run("sh", "-c", f"echo 1 > other; {first}")
    member.gitcp("save", "--session", "work")
    member.run("sh", "-c", f"echo 2 > other; {then}; chmod {mode:o} {shut}")
    before = sorted((str(path), path.is_file() and path.read_text()) for path in shut.rglob("*"))

    done = member.gitcp("restore", "work@1", "--yes", check=3)

    assert "\n    d" in done.out
    assert (member.root / "other").read_text() == "1\n"
    assert (
        sorted((str(path), path.is_file() and path.read_text()) for path in shut.rglob("*"))
        == before
    )
    member.gitcp("undo", "--yes")
    assert (member.root / "other").read_text() == "2\n"
    member.run("chmod", "700", str(shut))
    member.gitcp("restore", "work@1", "--yes", check=None)
    member.gitcp("check")
