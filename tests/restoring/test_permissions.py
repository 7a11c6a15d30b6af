"""Undo gives files the very permissions that they had, recorded in a checkpoint or not."""

from __future__ import annotations

import json
import os
import shutil
import stat
from pathlib import Path

import pytest
from back import finish, restore, save

from gitcp.restoring import restore as op

from driver import Project


@pytest.mark.parametrize(
    ("bits", "mask"), [(0o664, 0o022), (0o644, 0o077), (0o775, 0o022), (0o755, 0o077)]
)
@pytest.mark.parametrize("how", ["written", "removed"])
def test_permissions_that_no_checkpoint_records(
    project: Project, bits: int, mask: int, how: str
) -> None:
    """A file gets the bits back that it had, though a checkpoint does not tell them from those of a
    new file.
    """
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
    """A file of ordinary permissions gets them back, though the restore left it others that are not
    recorded.
    """
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


@pytest.mark.parametrize(
    ("then", "now", "after"),
    [
        (0o644, 0o664, 0o664),  # what a group shares, no checkpoint tells from what it does not
        (0o755, 0o664, 0o775),
        (0o644, 0o775, 0o664),
        (0o644, 0o600, 0o644),
        (0o755, 0o600, 0o755),
        (0o600, 0o644, 0o600),
        (0o644, "link", 0o644),
        (0o755, "nothing", 0o755),
    ],
)
def test_permissions_of_what_is_replaced(
    project: Project, then: int, now: int | str, after: int
) -> None:
    """A file gets the bits that were recorded. Where none were, it keeps those it has, if these
    would not be either.
    """
    project.write("file", "old\n", then)
    target = save(project)
    project.remove("file")
    if now == "link":
        project.symlink("file", "elsewhere")
    elif isinstance(now, int):
        project.write("file", "new\n", now)

    restore(project, target)

    file = project.files()[b"file"]
    assert (file.data, file.mode) == (b"old\n", after)


def test_what_is_executable_again_is_for_no_one_else(project: Project) -> None:
    """Who may not read a file does not get to run it."""
    os.umask(0o027)
    project.write("file", "old\n", 0o750)
    target = save(project)
    project.write("file", "new\n", 0o640)

    restore(project, target)

    assert project.files()[b"file"].mode == 0o750


def test_a_file_that_had_its_bits_was_not_written(project: Project) -> None:
    """A restore changes no file whose recorded bits it has, so undo has no claim to it."""
    os.umask(0o022)
    project.write("file", "one\n", 0o600)
    project.write("other", "one\n")
    project.gitcp("save", "--session", "s", check=0)
    os.umask(0o077)  # 0600 is recorded no more
    project.write("other", "two\n")
    ctime = os.stat(project.root / "file").st_ctime_ns
    project.gitcp("restore", "s@1", "--yes", check=0)
    assert os.stat(project.root / "file").st_ctime_ns == ctime
    project.write(".gitignore", "file\n")

    safety = json.loads(project.gitcp("undo", "--yes", "--json", check=0).out)["safety"]

    assert "file" not in project.gitcp("show", "--files", safety, check=0).out.split()
    assert project.files()[b"other"].data == b"two\n"


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


MODES = {"private": 0o700, "private/below": 0o750, "empty": 0o2770, "open": 0o1777}


def make_directories(project: Project) -> None:
    """Directories with permissions that git does not store, one of them empty."""
    for name in MODES:
        (project.root / name).mkdir()
        if name != "empty":
            project.write(f"{name}/file", "one\n")
    for name in reversed(MODES):
        (project.root / name).chmod(MODES[name])


def modes(root: Path) -> dict[str, int]:
    """The permissions of these directories."""
    return {name: stat.S_IMODE((root / name).stat().st_mode) for name in MODES}


def test_directories(project: Project) -> None:
    """A directory gets the permissions that it had, set-gid and sticky bits included: by an undo, a
    redo, a restore after it was removed, and in another place.
    """
    project.write("other", "one\n")
    project.gitcp("save", "--session", "s", check=0)
    make_directories(project)
    project.gitcp("save", "--session", "s", check=0)
    project.gitcp("restore", "s@1", "--yes", check=0)
    assert not (project.root / "private").exists()

    project.gitcp("undo", "--yes", check=0)
    assert modes(project.root) == MODES
    project.gitcp("restore", "s@2", "--to", "../to", check=0)
    assert modes(project.root.parent / "to") == MODES
    for name in MODES:
        shutil.rmtree(project.root / name, ignore_errors=True)
    project.gitcp("restore", "s@2", "--yes", check=0)
    assert modes(project.root) == MODES
    project.gitcp("undo", "--yes", check=0)
    assert not (project.root / "private").exists()
    project.gitcp("redo", "--yes", check=0)
    assert modes(project.root) == MODES


def test_directories_that_were_not_saved(project: Project) -> None:
    """A restore saves before it removes them; and bits that no checkpoint records are those of the
    directory, not of the umask.
    """
    project.write("other", "one\n")
    project.gitcp("save", "--session", "s", check=0)
    make_directories(project)
    (project.root / "group").mkdir()
    (project.root / "group").chmod(0o775)

    project.gitcp("restore", "s@1", "--yes", check=0)
    project.gitcp("undo", "--yes", check=0)

    assert modes(project.root) == MODES
    assert stat.S_IMODE((project.root / "group").stat().st_mode) == 0o775


def test_a_mode_of_a_directory_alone(project: Project) -> None:
    """A directory whose mode alone changed is saved, also with ordinary permissions, and gets each
    of them back.
    """
    project.write("directory/file", "one\n")
    path = project.root / "directory"
    project.gitcp("save", "--session", "s", check=0)
    path.chmod(0o700)
    assert "saved s@2" in project.gitcp("save", "--session", "s", check=0).out
    assert "saved s@3" not in project.gitcp("save", "--session", "s", check=0).out

    project.gitcp("restore", "s@1", "--yes", check=0)
    assert stat.S_IMODE(path.stat().st_mode) == 0o755
    project.gitcp("restore", "s@2", "--yes", check=0)
    assert stat.S_IMODE(path.stat().st_mode) == 0o700


def test_a_directory_without_write_permission(project: Project) -> None:
    """Its files are written first, then it is shut."""
    project.write("shut/file", "one\n")
    (project.root / "shut").chmod(0o555)
    project.gitcp("save", "--session", "s", check=0)

    project.gitcp("restore", "s@1", "--to", "../to", check=0)

    there = project.root.parent / "to" / "shut"
    assert stat.S_IMODE(there.stat().st_mode) == 0o555
    assert there.joinpath("file").read_text() == "one\n"
