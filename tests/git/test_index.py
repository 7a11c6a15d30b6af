"""Reading git's index: every version and flag as git itself lists it, and what its stat data
proves.
"""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest
from capturing import host
from kinds import FORMAT

from gitcp.errors import GitcpError, IndexUnreadable
from gitcp.git import index
from gitcp.git.repo import Repository
from gitcp.model import TREE, IndexEntry

from driver import Project

NAMES = (
    b"a",
    b"dir/b",
    b"dir/deep/er/c",
    b"dir/z",
    b"dir.txt",
    b"new\nline",
    b"caf\xe9",
    b"x" * 200,
    b"long/" + b"y" * 255,
)


@pytest.fixture
def tracked(project: Project) -> Project:
    """A project with odd names in its index, executables and symlinks."""
    for name in NAMES:
        project.write(name, b"content of " + name)
    project.write("run", "#!/bin/sh\n", 0o755)
    project.symlink("link", "a")
    project.commit()
    return project


def open_repo(project: Project) -> Repository:
    """The repository as gitcp opens it."""
    return Repository.open(project.root, host())


def listed(project: Project) -> list[IndexEntry]:
    """The index as `git ls-files` prints it, flags and all."""
    out = project.git("ls-files", "--stage", "-v", "-z").encode("utf-8", "surrogateescape")
    news = (
        project.git("diff", "--name-only", "--diff-filter=A", "-z")
        .encode("utf-8", "surrogateescape")
        .split(b"\0")
    )
    entries = []
    for line in out.split(b"\0")[:-1]:
        head, _, path = line.partition(b"\t")
        tag, mode, oid, stage = head.decode().split(" ")
        entries.append(
            IndexEntry(
                path,
                int(mode, 8),
                oid,  # type: ignore[arg-type]
                stage=int(stage),
                intent_to_add=path in news,
                skip_worktree=tag in "Ss",
                assume_unchanged=tag.islower(),
            )
        )
    return sorted(entries, key=lambda entry: (entry.path, entry.stage))


def read(project: Project) -> list[IndexEntry]:
    """The index as gitcp reads it."""
    return sorted(index.read_index(open_repo(project)), key=lambda entry: (entry.path, entry.stage))


def parsed(project: Project) -> dict[bytes, index.Folder] | None:
    """The folders of the index that gitcp can read without git."""
    data = project.read(project.git_dir / "index")
    status = os.stat(project.git_dir / "index")
    parsed_index = index._parse(index._Content(FORMAT.raw, data), status)
    return parsed_index.folders if parsed_index is not None else None


@pytest.mark.parametrize("version", ["2", "4"])
def test_versions(tracked: Project, version: str) -> None:
    """Versions 2 and 4 read as git lists them, without git's help."""
    tracked.git("update-index", "--index-version", version)
    config = tracked.git_dir.joinpath("config")
    settings = config.read_text()
    config.write_text("garbage that no git command survives")

    folders = parsed(tracked)

    assert folders is not None
    assert {path + b"/" + name for path, folder in folders.items() for name in folder.files} >= {
        b"dir/deep/er/c"
    }
    config.write_text(settings)
    assert read(tracked) == listed(tracked)
    assert len(read(tracked)) == len(NAMES) + 2


@pytest.mark.parametrize("version", ["3", "4"])
def test_flags(tracked: Project, version: str) -> None:
    """Intent-to-add, skip-worktree and assume-unchanged are read, from extended entries too."""
    tracked.write("planned", "not yet\n")
    tracked.git("add", "--intent-to-add", "planned")
    tracked.git("update-index", "--skip-worktree", "dir/b")
    tracked.git("update-index", "--assume-unchanged", "dir/z")
    tracked.git("update-index", "--index-version", version)

    entries = {entry.path: entry for entry in read(tracked)}

    assert read(tracked) == listed(tracked)
    assert entries[b"planned"].intent_to_add
    assert entries[b"dir/b"].skip_worktree
    assert entries[b"dir/z"].assume_unchanged


@pytest.mark.parametrize("version", ["2", "4"])
def test_conflict(project: Project, version: str) -> None:
    """The three stages of an unmerged path are all there, and the path is no stage 0."""
    conflict(project)
    project.git("update-index", "--index-version", version)

    entries = read(project)

    assert [entry.stage for entry in entries if entry.path == b"file"] == [1, 2, 3]
    assert entries == listed(project)


def conflict(project: Project) -> None:
    """Leave a merge of `file` in conflict."""
    project.write("file", "base\n")
    project.commit()
    project.git("checkout", "--quiet", "-b", "other")
    project.write("file", "theirs\n")
    project.commit()
    project.git("checkout", "--quiet", "main")
    project.write("file", "ours\n")
    project.commit()
    project.git("merge", "other", check=False)


def test_split_index(tracked: Project) -> None:
    """A split index is put together again."""
    tracked.git("update-index", "--split-index")
    tracked.write("later", "added after the split\n")
    tracked.git("add", "later")
    tracked.git("rm", "--quiet", "--cached", "dir/b")

    assert parsed(tracked) is None
    assert read(tracked) == listed(tracked)
    assert b"later" in {entry.path for entry in read(tracked)}


@pytest.mark.parametrize("version", ["3", "4"])
def test_sparse_index(tracked: Project, version: str) -> None:
    """A directory that a sparse index names as a whole is one entry; as values, all are told."""
    tracked.git("sparse-checkout", "set", "--cone", "--sparse-index", "long")
    tracked.git("update-index", "--index-version", version)
    whole = tracked.git("rev-parse", "HEAD:dir")

    folders = parsed(tracked)
    entries = {entry.path: entry for entry in read(tracked)}

    assert folders is not None
    assert folders.keys() == {b"", b"long"}
    assert folders[b""].folders == {b"long"}
    ((mode, oid, flags, _),) = folders[b""].files[b"dir"]
    assert (mode, oid.hex(), flags) == (TREE, whole, index.SKIP_WORKTREE)
    assert entries[b"dir/deep/er/c"].skip_worktree
    assert sorted(entries.values(), key=lambda e: e.path) == listed(tracked)


@pytest.mark.parametrize("version", ["2", "4"])
def test_read_in_parts(tracked: Project, version: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A large index is parsed window by window, and reads as one that is in memory."""
    tracked.git("update-index", "--index-version", version)
    whole = index.read(open_repo(tracked)).folders
    monkeypatch.setattr(index, "IN_MEMORY", 0)

    for window in range(340, 1000, 17):
        monkeypatch.setattr(index, "WINDOW", window)
        parts = index.read(open_repo(tracked)).folders
        assert parts.keys() == whole.keys()
        assert all(parts[path].files == folder.files for path, folder in whole.items())
        assert all(parts[path].digest() == folder.digest() for path, folder in whole.items())
    monkeypatch.setattr(index, "WINDOW", 64)  # no entry fits
    assert read(tracked) == listed(tracked)


def test_asked_like_parsed(tracked: Project) -> None:
    """What git is asked for and what is parsed are the same, stat data included."""
    repo = open_repo(tracked)

    asked, parsed = index._ask(repo), index.read(repo).folders

    assert asked.keys() == parsed.keys()
    for path, folder in parsed.items():
        assert asked[path].folders == folder.folders
        for name, slots in folder.files.items():
            # Of the stat data git does not list the mode; it is the entry's.
            assert [
                (*slot[:3], slot[3][:24], slot[3][28:]) for slot in asked[path].files[name]
            ] == [(*slot[:3], slot[3][:24], slot[3][28:]) for slot in slots]


def test_none(project: Project) -> None:
    """A repository without an index has an empty one."""
    assert index.current_fingerprint(open_repo(project)) is None
    assert index.read_index(open_repo(project)) == []


@pytest.mark.parametrize(
    "content", [b"", b"DIRC", b"not an index at all", b"DIRC\0\0\0\2\0\0\0\5" + b"x" * 40]
)
def test_damaged(tracked: Project, content: bytes) -> None:
    """A damaged index is an error in words."""
    tracked.write(tracked.git_dir / "index", content)
    with pytest.raises(IndexUnreadable, match="it is damaged"):
        index.read_index(open_repo(tracked))


def test_unreadable(tracked: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    """An index that cannot be read is an error in words, not an empty one."""

    def refuse(*_: object) -> object:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("gitcp.regular.opened", refuse)

    with pytest.raises(GitcpError, match="cannot be read: Permission denied"):
        index.read(open_repo(tracked))


def test_digest(tracked: Project) -> None:
    """A folder's digest follows what the index has there, and not its stat data."""
    before = {
        path: folder.digest() for path, folder in index.read(open_repo(tracked)).folders.items()
    }
    tracked.write("dir/b", b"content of dir/b")
    os.utime(tracked.root / "dir/b", (1, 1))
    tracked.git("update-index", "--refresh")
    refreshed = {
        path: folder.digest() for path, folder in index.read(open_repo(tracked)).folders.items()
    }
    tracked.git("update-index", "--assume-unchanged", "dir/b")
    flagged = {
        path: folder.digest() for path, folder in index.read(open_repo(tracked)).folders.items()
    }
    tracked.write("dir/deep/er/than/d", "new\n")
    tracked.git("add", "dir/deep")
    grown = {
        path: folder.digest() for path, folder in index.read(open_repo(tracked)).folders.items()
    }

    assert refreshed == before
    assert {path for path in before if flagged[path] != before[path]} == {b"dir"}
    assert {path for path in before if grown[path] != flagged[path]} == {b"dir/deep/er"}


@pytest.mark.parametrize("version", ["2", "4"])
def test_digest_of_the_index(tracked: Project, version: str) -> None:
    """An index that git only refreshed has the same digest; after every other change another."""
    tracked.git("update-index", "--index-version", version)
    digest = index.read(open_repo(tracked)).digest
    assert digest
    os.utime(tracked.root / "dir/b", (1, 1))
    tracked.git("update-index", "--refresh")
    assert index.read(open_repo(tracked)).digest == digest

    tracked.write("dir/deep/new", "")
    digests = [digest]
    for change in (
        ("--assume-unchanged", "dir/b"),
        ("--skip-worktree", "dir/b"),
        ("--chmod=+x", "dir/z"),
        ("--force-remove", "dir.txt"),
        ("--add", "dir/deep/new"),
        ("--cacheinfo", f"100644,{FORMAT.empty_blob},dir/z"),
    ):
        tracked.git("update-index", *change)
        digests.append(index.read(open_repo(tracked)).digest)
    assert len({*digests}) == len(digests)


def test_a_split_index_has_no_digest(tracked: Project) -> None:
    """Part of it is in another file."""
    tracked.git("update-index", "--split-index")

    assert index.read(open_repo(tracked)).digest == b""


def test_digest_of_an_index_read_in_parts(
    tracked: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The digest does not depend on how much of a file is read at a time."""
    digest = index.read(open_repo(tracked)).digest
    monkeypatch.setattr(index, "IN_MEMORY", 0)
    monkeypatch.setattr(index, "WINDOW", 400)

    assert index.read(open_repo(tracked)).digest == digest


def proven(project: Project, path: str) -> bool:
    """Whether the index proves what is in a file."""
    read_index = index.read(open_repo(project))
    directory, _, name = os.fsencode(path).rpartition(b"/")
    return read_index.proves(
        read_index.folders[directory].files[name][0], os.lstat(project.root / path)
    )


def settle(project: Project) -> None:
    """Have the index written in a later tick than the files."""
    time.sleep(0.02)
    project.git("update-index", "--refresh", "--force-write-index")


def test_proof(tracked: Project) -> None:
    """An unchanged file older than the index is proven; so is a symlink, and a sub-directory's."""
    settle(tracked)

    assert proven(tracked, "a")
    assert proven(tracked, "link")
    assert proven(tracked, "dir/deep/er/c")


@pytest.mark.parametrize(
    "change",
    [
        lambda project: project.write("a", "other"),
        lambda project: project.write("a", b"CONTENT OF a"),
        lambda project: os.utime(project.root / "a"),
        lambda project: os.chmod(project.root / "a", 0o755),
        lambda project: os.replace(project.root / "run", project.root / "a"),
        lambda project: project.git("update-index", "--assume-unchanged", "a"),
        lambda project: project.git("update-index", "--skip-worktree", "a"),
    ],
    ids=[
        "bytes",
        "same size",
        "touched",
        "mode",
        "renamed over",
        "assume-unchanged",
        "skip-worktree",
    ],
)
def test_no_proof(tracked: Project, change: object) -> None:
    """Any change to the file's stat data, and any flag that stops git from looking, ends the
    proof.
    """
    settle(tracked)
    change(tracked)  # type: ignore[operator]

    assert not proven(tracked, "a")


def test_no_proof_in_the_same_tick(tracked: Project) -> None:
    """A file that is not older than the index may have changed after git looked at it."""
    settle(tracked)
    status = os.stat(tracked.git_dir / "index")
    os.utime(
        tracked.git_dir / "index",
        ns=(status.st_atime_ns, os.stat(tracked.root / "a").st_mtime_ns),
    )

    assert not proven(tracked, "a")


def test_no_proof_by_an_emptied_entry(tracked: Project) -> None:
    """git marks an entry it is not sure of by a size of 0; that is no proof for a file that was
    emptied since.
    """
    slot = (0o100644, bytes(20), 0, bytes(40))
    status = os.stat(Path(os.devnull))

    assert not index.Index({}, 1 << 62).proves(slot, status)
