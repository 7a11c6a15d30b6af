"""Sandbox snapshots of the OpenAI Agents SDK as trees: real sandboxes, and archives that a tree
cannot hold.
"""

from __future__ import annotations

import asyncio
import io
import tarfile
from contextlib import closing
from typing import Any

import pytest
from agents.sandbox.errors import SnapshotPersistError, SnapshotRestoreError
from agents.sandbox.sandboxes.unix_local import UnixLocalSandboxClient
from agents.sandbox.snapshot import SnapshotBase
from hypothesis import given, settings
from hypothesis import strategies as st

import gitcp
from gitcp.openai_agents import GitSnapshot, GitSnapshotSpec

from driver import Project

NAMES = (
    "a",
    "./a",
    "a/b",
    "a/b/",
    "ü\n",
    "d",
    ".git",
    ".git/config",
    ".gitcp/x",
    "../x",
    "/x",
    "x" * 300,
)
KINDS = (tarfile.REGTYPE, tarfile.SYMTYPE, tarfile.DIRTYPE, tarfile.LNKTYPE, tarfile.FIFOTYPE)


@pytest.fixture
def snapshot(project: Project) -> GitSnapshot:
    """A snapshot in a repository with one commit."""
    project.write("a.txt", "one\n")
    project.commit()
    return GitSnapshot(id="box 1", path=project.root)


def archive(*members: tuple[str, bytes, bytes, int]) -> io.BytesIO:
    """An archive of members: name, kind, content, mode."""
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for name, kind, data, mode in members:
            member = tarfile.TarInfo(name)
            member.type, member.mode, member.mtime, member.uid = kind, mode, 1234567890.5, 7
            if kind in {tarfile.SYMTYPE, tarfile.LNKTYPE}:
                member.linkname = "the/target"
            member.size = len(data) if kind == tarfile.REGTYPE else 0
            tar.addfile(member, io.BytesIO(data))
    file.seek(0)
    return file


def contents(file: Any) -> list[tuple[Any, ...]]:
    """Everything that an archive says."""
    with tarfile.open(fileobj=file, mode="r:*") as tar:
        return [
            (
                m.name,
                m.type,
                m.mode,
                m.uid,
                m.uname,
                m.mtime,
                m.size,
                m.linkname,
                (f := tar.extractfile(m)) and f.read(),
            )
            if m.isreg()
            else (m.name, m.type, m.mode, m.uid, m.uname, m.mtime, m.linkname)
            for m in tar.getmembers()
        ]


def round_trip(snapshot: GitSnapshot, file: io.BytesIO) -> io.IOBase:
    """What comes back of an archive that was persisted."""
    asyncio.run(snapshot.persist(file))
    return asyncio.run(snapshot.restore())


MEMBER = st.tuples(
    st.sampled_from(NAMES),
    st.sampled_from(KINDS),
    st.binary(max_size=9),
    st.sampled_from((0o600, 0o755)),
)


def test_any_archive_comes_back(project: Project, snapshot: GitSnapshot) -> None:
    """Owners, times, modes, links, names that stand twice or lie below a file, `.git`: all is as it
    was.
    """

    @settings(max_examples=25)
    @given(st.lists(MEMBER, max_size=6))
    def tried(members: Any) -> None:
        with closing(round_trip(snapshot, archive(*members))) as back:
            assert contents(back) == contents(archive(*members))

    with project.guard():
        tried()
    project.gitcp("check", check=0)


def test_files_are_a_tree(project: Project, snapshot: GitSnapshot) -> None:
    """Any command can look at a workspace; what did not change is there once; the working tree is
    left alone.
    """
    big = bytes(range(256)) * 4000
    first = archive(
        ("./", tarfile.DIRTYPE, b"", 0o755),
        ("./src/x.py", tarfile.REGTYPE, b"1\n", 0o755),
        ("big", tarfile.REGTYPE, big, 0o600),
    )
    second = archive(
        ("./", tarfile.DIRTYPE, b"", 0o755),
        ("./src/x.py", tarfile.REGTYPE, b"2\n", 0o755),
        ("big", tarfile.REGTYPE, big, 0o600),
    )
    before = project.files()
    with project.guard():
        asyncio.run(snapshot.persist(first))
        asyncio.run(snapshot.persist(second))

    checkpoints = gitcp.open(project.root)
    assert checkpoints.file(f"{snapshot.name}@1", "src/x.py") == b"1\n"
    (change,) = checkpoints.diff(f"{snapshot.name}@1", f"{snapshot.name}@2")
    assert change.path == b"src/x.py"
    assert project.files() == before
    assert "src/x.py" in project.git(
        "diff",
        "--stat",
        f"refs/gitcp/sessions/{snapshot.name}~",
        f"refs/gitcp/sessions/{snapshot.name}",
    )


def test_what_is_no_archive(snapshot: GitSnapshot) -> None:
    """Garbage is refused and leaves nothing; nothing was persisted, nothing comes back; the SDK
    reads its own JSON.
    """
    assert asyncio.run(snapshot.restorable()) is False
    with pytest.raises(SnapshotRestoreError):
        asyncio.run(snapshot.restore())
    with pytest.raises(SnapshotPersistError):
        asyncio.run(snapshot.persist(io.BytesIO(b"no archive" * 100)))

    assert asyncio.run(snapshot.restorable()) is False
    assert SnapshotBase.parse(snapshot.model_dump()) == snapshot


def test_a_real_sandbox_goes_on_elsewhere(project: Project, snapshot: GitSnapshot) -> None:
    """What a command wrote in a sandbox is there in the next one, modes and links and its own
    repository.
    """
    script = (
        "mkdir -p src && printf 'hi' > src/x && chmod 700 src/x && ln -s src/x link && git init -q "
        "&& mkdir empty"
    )
    look = "cat link && stat -c %a src/x && test -d empty && git rev-parse --is-inside-work-tree"

    async def run(command: str) -> tuple[int, bytes]:
        client = UnixLocalSandboxClient()
        session = await client.create(snapshot=snapshot)
        try:
            async with session:
                done = await session.exec("sh", "-c", command)
                return done.exit_code, done.stdout
        finally:
            await client.delete(session)

    assert asyncio.run(run(script))[0] == 0
    assert asyncio.run(run(look)) == (0, b"hi700\ntrue\n")
    assert isinstance(GitSnapshotSpec(path=project.root).build("x"), GitSnapshot)
    assert asyncio.run(snapshot.restorable())
