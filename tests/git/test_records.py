"""What only the user decides about a repository is found again from where it was recorded, and from
nowhere else.
"""

from __future__ import annotations

import os
import shutil
import stat
from datetime import datetime
from pathlib import Path

import pytest

from gitcp.git import records
from gitcp.model import Host


@pytest.fixture
def host(sealed: Path) -> Host:
    """The user."""
    return Host(os.environ, sealed, datetime.now)


@pytest.fixture
def git_dir(tmp_path: Path, host: Host) -> Path:
    """A git directory of which something is recorded."""
    path = tmp_path / "project" / ".git"
    path.mkdir(parents=True)
    records.write(path, host, "push/hub.json", b"yes")
    return path


def test_recorded(git_dir: Path, host: Host) -> None:
    """What was recorded is there, for this user alone, until it is removed."""
    assert records.read(git_dir, host, "push/hub.json") == b"yes"
    assert not records.has(git_dir, host, records.OWN)
    (file,) = records.state_directory(host).rglob("hub.json")
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700

    records.remove(git_dir, host, "push/hub.json")

    assert not records.has(git_dir, host, "push/hub.json")


def test_elsewhere(git_dir: Path, host: Host, tmp_path: Path) -> None:
    """Not of a copy, not of a directory that was moved, and not of another one in its place; again
    when it is back.
    """
    project, moved = git_dir.parent, tmp_path / "moved"
    shutil.copytree(project, tmp_path / "copy")
    assert not records.has(tmp_path / "copy" / ".git", host, "push/hub.json")
    project.rename(moved)
    assert not records.has(moved / ".git", host, "push/hub.json")
    shutil.copytree(moved, project)
    assert not records.has(git_dir, host, "push/hub.json")
    shutil.rmtree(project)
    moved.rename(project)
    assert records.has(git_dir, host, "push/hub.json")


def test_the_same_place_without_its_mark(git_dir: Path, host: Host) -> None:
    """A directory that got the inode and the path of a removed one has no mark, or another."""
    mark = git_dir / "gitcp" / records.MARK
    for text in ("0" * 32 + "\n", "nonsense", None):
        if text is None:
            mark.unlink()
        else:
            mark.write_text(text)
        assert not records.has(git_dir, host, "push/hub.json")


@pytest.mark.parametrize(
    ("given", "where"),
    [
        ({"XDG_STATE_HOME": "/state"}, "/state/gitcp"),
        ({"XDG_STATE_HOME": "relative"}, "/home/ada/.local/state/gitcp"),
        ({}, "/home/ada/.local/state/gitcp"),
    ],
)
def test_where(given: dict[str, str], where: str) -> None:
    """Where the state directory is."""
    found = records.state_directory(Host(given, Path("/home/ada"), datetime.now))
    assert found == Path(where)
