"""gitcp.git.process: what becomes of what git says when it fails."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from gitcp.errors import DiskFull, GitcpError, GitFailed
from gitcp.git import process

from driver import Project


@pytest.fixture
def fails(tmp_path: Path) -> dict[str, str]:
    """An environment whose `git` says $SAID and fails."""
    git = tmp_path / "git"
    git.write_text('#!/bin/sh\nprintf "%s\\n" "$SAID" >&2\nexit 128\n')
    git.chmod(0o755)
    return {"PATH": f"{tmp_path}:/usr/bin:/bin"}


@pytest.mark.parametrize(
    ("said", "kind"),
    [
        ("fatal: cannot create x: No space left on device", DiskFull),
        ("fatal: sha1 file 'x' write error. Out of diskspace\nfatal: index-pack failed", DiskFull),
        ("error: x: Disk quota exceeded", DiskFull),
        ("remote: fatal: write error: No space left on device\nerror: unpack failed", GitFailed),
        ("fatal: bad object x", GitFailed),
        ("", GitFailed),
    ],
)
def test_a_full_disk_is_one(
    fails: dict[str, str], tmp_path: Path, said: str, kind: type[GitcpError]
) -> None:
    """Here, and not at the other end; whichever way git was called, its words and its command are
    passed on.
    """
    env, args = {**fails, "SAID": said}, ("-c", "fetch.fsckObjects=true", "fetch", "origin")
    with pytest.raises(GitcpError, match="`git fetch` failed with exit code 128: ") as called:
        process.run(args, cwd=str(tmp_path), env=env)
    with (
        pytest.raises(GitcpError) as read,
        process.reading(args, cwd=str(tmp_path), env=env, input=b"") as out,
    ):
        assert out.read() == b""

    assert type(called.value) is type(read.value) is kind
    assert str(called.value) == str(read.value)
    assert str(called.value).endswith(said or "no message")


def test_nothing_is_fetched(project: Project, tmp_path: Path) -> None:
    """A partial clone that somebody delivered lacks an object, and its URL runs a command: git
    alone runs it, gitcp's git does so only where the user asked to connect.
    """
    project.write("a", "a\n")
    project.commit()
    oid, mark = project.git("rev-parse", "HEAD:a"), tmp_path / "mark"
    project.git_dir.joinpath("objects", oid[:2], oid[2:]).unlink()
    for name, value in (
        ("core.repositoryFormatVersion", "1"),
        ("extensions.partialClone", "origin"),
        ("remote.origin.promisor", "true"),
        ("remote.origin.url", f"ext::touch {mark}"),
        ("protocol.ext.allow", "always"),
    ):
        project.git("config", name, value)
    wanted, cwd = ("cat-file", "blob", oid), str(project.root)

    with pytest.raises(GitFailed):
        process.run(wanted, cwd=cwd, env=os.environ)
    assert not mark.exists()
    with pytest.raises(GitFailed):
        process.run(wanted, cwd=cwd, env=os.environ, connects=True)
    assert mark.exists()
