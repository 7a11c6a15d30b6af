"""Undo gives files the very permissions that they had, recorded in a checkpoint or not."""

from __future__ import annotations

import os

import pytest
from back import finish, restore, save

from gitcp.ops import restore as op

from driver import Project


@pytest.mark.parametrize(("bits", "mask"), [(0o664, 0o022), (0o644, 0o077), (0o775, 0o022), (0o755, 0o077)])
@pytest.mark.parametrize("how", ["written", "removed"])
def test_permissions_that_no_checkpoint_records(project: Project, bits: int, mask: int, how: str) -> None:
    """A file gets the bits back that it had, though a checkpoint does not tell them from those of a new file."""
    os.umask(mask)
    project.write("other", "one\n")
    if how != "removed":
        project.write("file", "one\n", 0o600)
    project.gitcp("save", "--session", "s", check=0)
    project.write("file", "two\n", bits)
    before = project.files()

    project.gitcp("restore", "s@1", "--yes", check=0)
    after = project.files()
    project.gitcp("undo", "--yes", check=0)

    assert after != before
    assert project.files() == before
    project.gitcp("redo", "--yes", check=0)
    assert project.files() == after


def test_ordinary_permissions_come_back(project: Project) -> None:
    """A file of ordinary permissions gets them back, though the restore left it others that are not recorded."""
    project.write("file", "one\n", 0o775)
    project.gitcp("save", "--session", "s", check=0)
    project.write("file", "two\n", 0o644)
    project.gitcp("save", "--session", "s", check=0)
    project.write("file", "three\n", 0o775)
    before = project.files()
    project.gitcp("restore", "s@2", "--yes", check=0)
    assert project.files() != before

    project.gitcp("undo", "--yes", check=0)

    assert project.files() == before


def test_aborted(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    """A restore that is taken back half way gives files the bits that they had."""
    project.write("file", "one\n")
    target = save(project)
    project.write("file", "two\n", 0o664)
    before = project.files()

    def fail(*args: object, **others: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(op, "_save_after", fail)
        with pytest.raises(KeyboardInterrupt):
            restore(project, target)
    assert project.files() != before

    finish(project, forward=False)

    assert project.files() == before
