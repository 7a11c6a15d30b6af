"""Snapshots: each hard case of a working tree by its name, and what is remembered from one snapshot
to the next.

`Camera.take` checks at every snapshot that nothing of git's was written, that the index can be told
from it, and that a scan that remembers nothing says the same.
"""

from __future__ import annotations

import os
import socket
import stat
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from capturing import Camera, git_tree, host
from kinds import FORMAT, REFS

from gitcp.fastpath import stat_check
from gitcp.git import index as git_index
from gitcp.git import trees
from gitcp.git.objects import Objects
from gitcp.git.reader import ObjectReader
from gitcp.git.repo import Repository
from gitcp.model import EXECUTABLE, FILE, GITLINK, SYMLINK, Entry, IndexEntry, Oid, SkipReason
from gitcp.worktree import reading, scan
from gitcp.worktree import snapshot as snapshot_module
from gitcp.worktree.paths import TEMPORARY
from gitcp.worktree.records import ScannedDirectory, stamp_of
from gitcp.worktree.snapshot import Limits, take

from driver import Project


@pytest.fixture
def camera(project: Project) -> Camera:
    """A camera before a project with one committed file."""
    project.write("tracked", "tracked\n")
    project.commit()
    return Camera(project)


def blob(project: Project, path: str) -> str:
    """The name git gives a file's bytes as they are."""
    return project.git("hash-object", "--no-filters", "--", path)


# ---------------------------------------------------------------- which files


def test_ordinary_tree(camera: Camera) -> None:
    """The tree is the one `git add --all` would make."""
    camera.project.write("new", "new\n")
    camera.project.write("dir/sub/file", "below\n")
    camera.project.write("tracked", "edited\n")

    shot = camera.take()

    assert shot.snapshot.tree == git_tree(camera.project)
    assert set(shot.entries) == {b"tracked", b"new", b"dir/sub/file"}
    assert shot.snapshot.untracked == (b"dir/", b"new")


def test_tracked_but_ignored(camera: Camera) -> None:
    """A tracked file is captured though a rule ignores it or its directory; its untracked
    neighbours are not.
    """
    project = camera.project
    project.write("build/kept", "kept\n")
    project.write("trace.log", "log\n")
    project.git("add", "build/kept", "trace.log")
    project.write(".gitignore", "build/\n*.log\n")
    project.write("build/other", "other\n")
    project.write("other.log", "other\n")

    shot = camera.take()

    assert set(shot.entries) == {b".gitignore", b"tracked", b"build/kept", b"trace.log"}
    assert shot.snapshot.tree == git_tree(project)
    assert not shot.snapshot.skipped, "what is ignored is not worth a word"


def test_untracked_not_ignored(camera: Camera) -> None:
    """Nested rules decide as git's do: a deeper file brings back what a higher one ignores."""
    project = camera.project
    project.write(".gitignore", "*.log\n/out\n")
    project.write("a/.gitignore", "!kept.log\n")
    for path in ("a/kept.log", "a/lost.log", "a/b/kept.log", "out/x", "a/out/x"):
        project.write(path, path)

    assert set(camera.take().entries) == {
        b".gitignore",
        b"tracked",
        b"a/.gitignore",
        b"a/kept.log",
        b"a/b/kept.log",
        b"a/out/x",
    }


def test_rules_elsewhere(camera: Camera, sealed: Path) -> None:
    """core.excludesFile, the default one of the user, and info/exclude count, and so does a change
    to them.
    """
    project = camera.project
    for name in ("a.one", "a.two", "a.three"):
        project.write(name, name)
    default = sealed / ".config/git/ignore"
    default.parent.mkdir(parents=True)
    default.write_text("*.one\n")
    exclude = project.git_dir / "info/exclude"
    exclude.write_text("*.two\n")

    assert set(camera.take().entries) == {b"tracked", b"a.three"}
    exclude.write_text("")
    assert set(camera.take().entries) == {b"tracked", b"a.three", b"a.two"}
    sealed.joinpath("mine").write_text("*.three\n")
    project.git("config", "core.excludesFile", "~/mine")
    assert set(camera.take().entries) == {b"tracked", b"a.two", b"a.one"}


def test_ignored_later(camera: Camera) -> None:
    """A rule that comes or goes takes files away and brings them back, also one in an ignored
    .gitignore.
    """
    project = camera.project
    project.write("deep/er/x.log", "log\n")
    assert b"deep/er/x.log" in camera.take().entries

    project.write("deep/.gitignore", "*.log\n.gitignore\n")
    assert set(camera.take().entries) == {b"tracked"}
    project.write("deep/.gitignore", ".gitignore\n")
    assert set(camera.take().entries) == {b"tracked", b"deep/er/x.log"}


def test_include(camera: Camera) -> None:
    """Include patterns take in ignored files where they are entered, and are entered where they say
    so literally.
    """
    project = camera.project
    project.write(".gitignore", ".env\nbuild/\nlocal/\n")
    for path in (
        ".env",
        "app/.env",
        "build/.env",
        "build/out/report.json",
        "build/out/x",
        "local/any/thing",
    ):
        project.write(path, path)
    camera.limits = Limits(include=(".env", "build/out/*.json", "local/"))

    assert set(camera.take().entries) == {
        b".gitignore",
        b"tracked",
        b".env",
        b"app/.env",
        b"build/.env",
        b"build/out/report.json",
        b"local/any/thing",
    }


def test_case_of_names(camera: Camera) -> None:
    """With core.ignoreCase, rules match names whatever their case."""
    camera.project.write(".gitignore", "*.LOG\n")
    camera.project.write("a.log", "log\n")

    assert b"a.log" in camera.take().entries
    camera.project.git("config", "core.ignoreCase", "true")
    assert b"a.log" not in camera.take().entries


# ---------------------------------------------------------------- kinds of files


def test_symlinks(camera: Camera) -> None:
    """A symlink is its target's name, never what it points to: to a file, to a directory, to
    nothing.
    """
    project = camera.project
    project.write("dir/inside", "inside\n")
    project.symlink("to-file", "tracked")
    project.symlink("to-directory", "dir")
    project.symlink("to-nothing", b"/nowhere/caf\xe9")

    shot = camera.take()

    assert {path for path, entry in shot.entries.items() if entry.mode == SYMLINK} == {
        b"to-file",
        b"to-directory",
        b"to-nothing",
    }
    assert shot.blob(b"to-nothing") == b"/nowhere/caf\xe9"
    assert b"to-directory/inside" not in shot.entries
    assert shot.snapshot.tree == git_tree(project)


def test_directory_became_symlink(camera: Camera) -> None:
    """Tracked files behind a directory that is a symlink now are gone; the index still has them."""
    project = camera.project
    project.write("real/file", "file\n")
    project.write("dir/file", "file\n")
    project.commit()
    camera.take()
    project.remove("dir")
    project.symlink("dir", "real")

    shot = camera.take()

    assert shot.entries[b"dir"].mode == SYMLINK
    assert b"dir/file" not in shot.entries
    assert [entry.path for entry in shot.snapshot.staged] == [b"dir/file"]


def test_an_index_that_is_refreshed_and_put_back(
    camera: Camera, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An index with nothing new but stat data is not compared directory by directory; one that has
    again what an older one had is.
    """
    project = camera.project
    project.write("dir/file", "one\n")
    project.commit()
    first = camera.take()
    compared = []
    plain = snapshot_module._reindexed

    def reindexed(*args: Any) -> list[bytes]:
        compared.append(args)
        return plain(*args)

    monkeypatch.setattr(snapshot_module, "_reindexed", reindexed)
    os.utime(project.root / "dir/file", (1, 1))
    project.git("update-index", "--refresh")
    assert camera.take().snapshot.staged == first.snapshot.staged == ()

    project.write("dir/file", "two\n")
    project.git("add", "-A")
    project.write("dir/file", "three\n")
    staged = camera.take().snapshot.staged
    project.git("reset", "-q")
    back = camera.take().snapshot.staged

    assert [entry.path for entry in staged] == [b"dir/file"]
    assert [entry.oid for entry in staged] != [entry.oid for entry in back]
    assert len(compared) == 2


def test_exec_bit(camera: Camera) -> None:
    """The owner's x bit makes an executable, and a change of it alone is a change."""
    project = camera.project
    project.write("run", "#!/bin/sh\n", 0o755)
    project.write("plain", "plain\n", 0o655)

    shot = camera.take()
    assert (shot.entries[b"run"].mode, shot.entries[b"plain"].mode) == (EXECUTABLE, FILE)
    os.chmod(project.root / "run", 0o644)
    assert camera.take().entries[b"run"].mode == FILE


def test_no_file_mode(camera: Camera) -> None:
    """Where core.fileMode says that the file system keeps no x bit, the index has it, and
    permissions mean nothing.
    """
    project = camera.project
    project.write("run", "#!/bin/sh\n", 0o755)
    project.git("add", "run")
    project.git("config", "core.fileMode", "false")
    os.chmod(project.root / "run", 0o644)
    project.write("new", "new\n", 0o700)

    shot = camera.take()

    assert (shot.entries[b"run"].mode, shot.entries[b"new"].mode) == (EXECUTABLE, FILE)
    assert shot.snapshot.modes == {}
    assert shot.snapshot.tree == git_tree(project)


def test_modes(camera: Camera) -> None:
    """Permission bits that git cannot hold are written down, and no others."""
    project = camera.project
    for name, mode in (
        ("secret", 0o600),
        ("key", 0o400),
        ("shared", 0o666),
        ("usual", 0o644),
        ("group", 0o664),
    ):
        project.write(name, name, mode)
    project.write("run", "run", 0o700)

    assert camera.take().snapshot.modes == {
        b"secret": 0o600,
        b"key": 0o400,
        b"shared": 0o666,
        b"run": 0o700,
    }
    os.umask(0o077)
    assert camera.take().snapshot.modes == {b"key": 0o400, b"shared": 0o666}
    project.remove("key")
    assert camera.take().snapshot.modes == {b"shared": 0o666}


def test_empty_directories(camera: Camera) -> None:
    """Directories with nothing to capture are listed, the innermost ones; not ignored ones, none
    with a skip, and none of Python's cache.
    """
    project = camera.project
    for path in (
        "empty",
        "nest/ed/empty",
        "nest/also",
        "half/empty",
        "logs",
        "build/empty",
        "queue",
        "package/__pycache__",
    ):
        project.root.joinpath(path).mkdir(parents=True)
    project.write("half/file", "file\n")
    project.write(".gitignore", "*.log\nbuild/\n")
    project.write("logs/x.log", "log\n")
    project.write("package/__pycache__/x.log", "a cache\n")
    os.mkfifo(project.root / "queue/fifo")

    shot = camera.take()

    assert shot.snapshot.empty_directories == (
        b"empty",
        b"half/empty",
        b"logs",
        b"nest/also",
        b"nest/ed/empty",
    )
    project.write("empty/now", "filled\n")
    assert b"empty" not in camera.take().snapshot.empty_directories


def test_fifo_and_socket(camera: Camera) -> None:
    """What is neither file nor symlink is listed, and never opened; an ignored one is not worth a
    word.
    """
    project = camera.project
    os.mkfifo(project.root / "fifo")
    os.mkfifo(project.root / "fifo.log")
    project.write(".gitignore", "*.log\n")
    listening = socket.socket(socket.AF_UNIX)
    here = os.open(project.root, os.O_RDONLY)
    try:
        listening.bind(
            f"/proc/self/fd/{here}/socket"
            if sys.platform == "linux"
            else str(project.root / "socket")
        )
        shot = camera.take()
    finally:
        listening.close()
        os.close(here)

    assert {path: (skip.reason, skip.detail) for path, skip in shot.skipped.items()} == {
        b"fifo": (SkipReason.SPECIAL, "a FIFO"),
        b"socket": (SkipReason.SPECIAL, "a socket"),
    }


def test_tracked_file_became_fifo(camera: Camera) -> None:
    """A FIFO in the place of a tracked file is listed, and the file is not taken for deleted
    without a word.
    """
    camera.take()
    camera.project.remove("tracked")
    os.mkfifo(camera.project.root / "tracked")

    shot = camera.take()

    assert shot.skipped[b"tracked"].reason == SkipReason.SPECIAL
    assert [entry.path for entry in shot.snapshot.staged] == [b"tracked"]


def test_odd_names(camera: Camera) -> None:
    """Names with newlines, tabs, quotes, backslashes, leading dashes and pathspec magic are
    names.
    """
    names = [
        b"new\nline",
        b"t\tab",
        b'"quoted"',
        b"back\\slash",
        b"-dash",
        b":(top)magic",
        b"*",
        b" lead",
        b"trail ",
        b"~x",
    ]
    for name in names:
        camera.project.write(name, name)

    shot = camera.take()

    assert set(shot.entries) == {b"tracked", *names}
    assert shot.snapshot.tree == git_tree(camera.project)


def test_non_utf8_names(camera: Camera) -> None:
    """Names are bytes, in directories too, up to the longest the system takes."""
    names = [b"caf\xe9", b"\xff\xfe/\x80", b"n" * 255]
    for name in names:
        camera.project.write(name, name)

    assert set(camera.take().entries) == {b"tracked", *names}


def test_bad_names(camera: Camera) -> None:
    """Names that some file system takes for .git are left out and listed; a directory as a
    whole.
    """
    project = camera.project
    for name in (b"git~1", b".GIT/config", b".git.", "sub/.g\u200cit".encode()):
        project.write(name, "x")

    shot = camera.take()

    assert set(shot.entries) == {b"tracked"}
    assert {path for path, skip in shot.skipped.items() if skip.reason == SkipReason.BAD_NAME} == {
        b"git~1",
        b".GIT",
        b".git.",
        "sub/.g\u200cit".encode(),
    }


def test_file_and_directory_swap(camera: Camera) -> None:
    """A file becomes a directory and a directory a file; nothing of the old is left."""
    project = camera.project
    project.write("dir/a", "a\n")
    project.write("dir/b/c", "c\n")
    project.commit()
    camera.take()
    project.remove("dir")
    project.write("dir", "a file now\n")
    project.remove("tracked")
    project.write("tracked/inside", "a directory now\n")

    shot = camera.take()

    assert set(shot.entries) == {b"dir", b"tracked/inside"}
    assert shot.snapshot.tree == git_tree(project)
    assert [entry.path for entry in shot.snapshot.staged] == [b"dir/a", b"dir/b/c", b"tracked"]


def test_deep_tree(camera: Camera) -> None:
    """A directory 400 levels deep is captured."""
    path = b"/".join([b"d"] * 400) + b"/file"
    camera.project.write(path, "deep\n")

    assert path in camera.take().entries


# ---------------------------------------------------------------- left out with a reason


def test_huge_file(camera: Camera) -> None:
    """An untracked file over the limit is listed with its size; a tracked one is captured, in
    blocks.
    """
    project = camera.project
    big = b"0123456789abcdef" * (9 << 16)
    project.write("tracked.bin", big)
    project.git("add", "tracked.bin")
    project.write("untracked.bin", big)
    project.write("limit", b"x" * 5000)
    camera.limits = Limits(max_untracked_file=5000)

    shot = camera.take()

    assert shot.entries[b"tracked.bin"].oid == blob(project, "tracked.bin")
    assert shot.blob(b"tracked.bin") == big
    assert b"limit" in shot.entries
    skip = shot.skipped[b"untracked.bin"]
    assert (skip.reason, skip.detail) == (SkipReason.TOO_LARGE, f"{len(big)} bytes")
    project.write("untracked.bin", "small now\n")
    assert b"untracked.bin" in camera.take().entries


def test_unignored_node_modules(camera: Camera) -> None:
    """A directory that a tool filled is left out as a whole: only an untracked, unignored one over
    the limit.
    """
    project = camera.project
    camera.limits = Limits(max_dependency_files=5)
    for number in range(6):
        project.write(f"node_modules/p{number}/index.js", "x")
        project.write(f"app/node_modules/p{number}.js", "x")
        project.write(f"venv/{number}", "x")
        project.write(f"ordinary/{number}", "x")
    project.write("few/node_modules/one.js", "x")
    project.git("add", "app/node_modules/p0.js")

    shot = camera.take()

    assert {path: skip.reason for path, skip in shot.skipped.items()} == {
        b"node_modules": SkipReason.TOO_MANY,
        b"venv": SkipReason.TOO_MANY,
    }
    assert "5" in shot.skipped[b"venv"].detail
    assert sum(path.startswith(b"app/node_modules/") for path in shot.entries) == 6
    assert b"few/node_modules/one.js" in shot.entries
    project.write(".gitignore", "node_modules/\n")
    assert set(camera.take().skipped) == {b"venv"}


def test_node_modules_grow_and_shrink(camera: Camera) -> None:
    """The limit is looked at again when something changes deep inside."""
    project = camera.project
    camera.limits = Limits(max_dependency_files=3)
    project.write("node_modules/a/b/one.js", "x")
    assert b"node_modules/a/b/one.js" in camera.take().entries

    for number in range(4):
        project.write(f"node_modules/a/b/{number}.js", "x")
    assert set(camera.take().skipped) == {b"node_modules"}
    project.remove("node_modules")
    project.write("node_modules/a/one.js", "x")
    assert b"node_modules/a/one.js" in camera.take().entries


def refuse(monkeypatch: pytest.MonkeyPatch, name: str, path: Path, error: OSError) -> None:
    """Have the system refuse one call for one path, as it does to others than root."""
    real = getattr(os, name)

    def refusing(given: object, *args: object, **named: object) -> object:
        if given in (str(path), os.fsencode(path)):
            raise error
        return real(given, *args, **named)

    monkeypatch.setattr(os, name, refusing)


@pytest.mark.parametrize("tracked", [True, False], ids=["tracked", "untracked"])
def test_unreadable_file(camera: Camera, monkeypatch: pytest.MonkeyPatch, tracked: bool) -> None:
    """A file that cannot be read is left out and listed, the rest is saved, and it comes back when
    it can be read.
    """
    project = camera.project
    project.write("locked", "locked\n")
    if tracked:
        project.git("add", "locked")
    with monkeypatch.context() as patch:
        refuse(patch, "open", project.root / "locked", PermissionError(13, "Permission denied"))
        shot = camera.take()

    assert (shot.skipped[b"locked"].reason, shot.skipped[b"locked"].detail) == (
        SkipReason.UNREADABLE,
        "EACCES",
    )
    assert set(shot.entries) == {b"tracked"}
    assert [entry.path for entry in shot.snapshot.staged] == ([b"locked"] if tracked else [])
    assert set(camera.take().entries) == {b"tracked", b"locked"}


@pytest.mark.parametrize("tracked", [True, False], ids=["tracked", "untracked"])
def test_unreadable_directory(
    camera: Camera, monkeypatch: pytest.MonkeyPatch, tracked: bool
) -> None:
    """A directory that cannot be listed is left out as a whole, with what is tracked in it, and
    comes back.
    """
    project = camera.project
    project.write("locked/sub/file", "locked\n")
    if tracked:
        project.commit()
    camera.take()
    project.write("locked/more", "more\n")
    with monkeypatch.context() as patch:
        refuse(patch, "scandir", project.root / "locked", PermissionError(13, "Permission denied"))
        shot = camera.take()

    assert shot.skipped[b"locked"].reason == SkipReason.UNREADABLE
    assert set(shot.entries) == {b"tracked"}
    assert not shot.snapshot.empty_directories
    assert set(camera.take().entries) == {b"tracked", b"locked/sub/file", b"locked/more"}


@pytest.mark.skipif(REFS != "files", reason="somebody else cannot run the git in our home")
@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to become somebody else")
def test_unreadable_for_somebody_else(camera: Camera, tmp_path: Path) -> None:
    """Without root's rights, files and directories of mode 0 are listed and everything else is
    captured.
    """
    project = camera.project
    project.write("locked", "locked\n", 0)
    project.write("shut/file", "x")
    project.write("half/file", "x")
    for directory in (tmp_path, *tmp_path.parents[:-2]):
        os.chmod(directory, 0o755)
    for path in (project.root, *project.root.rglob("*")):
        os.chown(path, 65534, 65534, follow_symlinks=False)
    os.chmod(project.root / "shut", 0)
    os.chmod(project.root / "half", 0o400)
    code = f"""
import encodings.ascii, os, subprocess, sys
sys.path[:0] = {sys.path!r}
from pathlib import Path
from gitcp.git.objects import Objects
from gitcp.git.reader import ObjectReader
from gitcp.git.repo import Repository
from gitcp.model import Host
from gitcp.worktree import scan, convert
from gitcp.worktree.snapshot import Limits, take
os.setuid(65534)
host = Host(os.environ, Path("/nonexistent"), None)
repo = Repository.open(Path({str(project.root)!r}), host)
snapshot = take(repo, Objects(repo, dry=True), Limits(), ()).snapshot
print(sorted((skip.path, skip.reason.value, skip.detail) for skip in snapshot.skipped), snapshot.total)
"""  # noqa: E501
    env = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "GIT_CONFIG_NOSYSTEM": "1"}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=env, cwd="/"
    )

    assert done.returncode == 0, done.stderr
    listed = [(path, "unreadable", "EACCES") for path in (b"half/file", b"locked", b"shut")]
    assert done.stdout.strip() == f"{listed} 1"


def test_out_of_descriptors(camera: Camera, monkeypatch: pytest.MonkeyPatch) -> None:
    """When it is our own means that end, there is no snapshot: a file is not called unreadable for
    that.
    """
    from gitcp.errors import GitcpError

    refuse(monkeypatch, "open", camera.project.root / "tracked", OSError(24, "Too many open files"))

    with pytest.raises(GitcpError, match="Too many open files"):
        take(camera.repo, Objects(camera.repo), Limits(), ())


def test_unlistable_root(camera: Camera, monkeypatch: pytest.MonkeyPatch) -> None:
    """A working tree that cannot be listed makes no snapshot at all."""
    from gitcp.errors import GitcpError

    refuse(monkeypatch, "scandir", camera.project.root, PermissionError(13, "Permission denied"))

    with pytest.raises(GitcpError, match="cannot be listed"):
        take(camera.repo, Objects(camera.repo), Limits(), ())


@pytest.mark.parametrize("times", [1, 2, 99])
def test_file_changing_while_read(
    camera: Camera, monkeypatch: pytest.MonkeyPatch, times: int
) -> None:
    """A file that changes under our hands is read again; one that never rests is left out and
    listed.
    """
    path = camera.project.root / "busy"
    path.write_bytes(b"start\n")
    left = [times]
    real = os.read

    def busy(descriptor: int, size: int) -> bytes:
        data = real(descriptor, size)
        if data.startswith(b"start") and left[0]:
            left[0] -= 1
            with path.open("ab") as file:
                file.write(b"more\n")
        return data

    monkeypatch.setattr(os, "read", busy)
    taken = take(camera.repo, Objects(camera.repo), Limits(), ())

    if times < reading.TRIES:
        assert not taken.snapshot.skipped
        assert taken.snapshot.total == 2
    else:
        assert [(skip.path, skip.reason) for skip in taken.snapshot.skipped] == [
            (b"busy", SkipReason.UNSTABLE)
        ]
        assert taken.snapshot.total == 1


def test_file_replaced_by_symlink_while_read(
    camera: Camera, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A symlink put in a file's place after lstat is never read through."""
    tmp_path.joinpath("outside").write_text("secret")
    path = camera.project.root / "tracked"
    real = os.open

    def swapping(given: object, *args: int, **named: int) -> int:
        if given == os.fsencode(path) and not path.is_symlink():
            path.unlink()
            path.symlink_to(tmp_path / "outside")
        return real(given, *args, **named)  # type: ignore[arg-type]

    monkeypatch.setattr(os, "open", swapping)
    objects = Objects(camera.repo)
    snapshot = take(camera.repo, objects, Limits(), ()).snapshot

    assert [(skip.path, skip.reason) for skip in snapshot.skipped] == [
        (b"tracked", SkipReason.UNSTABLE)
    ]
    assert all(data != b"secret" for _, data in objects.pending.objects.values())


def test_a_store_below(camera: Camera) -> None:
    """gitcp's own store of a directory further down is not captured, tracked or not, and listed."""
    camera.project.write("sub/.gitcp/store.git/config", "x")
    for _ in range(2):
        shot = camera.take()
        assert set(shot.entries) == {b"tracked"}
        assert shot.skipped[b"sub/.gitcp/store.git"].reason == SkipReason.BAD_NAME
        camera.project.git("add", "--force", "sub")


def test_reserved(camera: Camera) -> None:
    """`.gitcp` at the root is never captured, tracked or not, and listed; deeper down it is a name
    like any other.
    """
    project = camera.project
    project.write(".gitcp/checkpoint.json", "{}")
    project.write("sub/.gitcp/file", "x")

    shot = camera.take()
    assert set(shot.entries) == {b"tracked", b"sub/.gitcp/file"}
    assert shot.skipped[b".gitcp"].reason == SkipReason.RESERVED

    project.git("add", "--force", ".gitcp")
    shot = camera.take()
    assert set(shot.entries) == {b"tracked", b"sub/.gitcp/file"}
    assert shot.skipped[b".gitcp"].reason == SkipReason.RESERVED
    assert [entry.path for entry in shot.snapshot.staged] == [b".gitcp/checkpoint.json"]


def test_left_by_a_crash(camera: Camera) -> None:
    """The temporary files of a restore that was killed are nobody's work."""
    camera.project.write(b"dir/" + TEMPORARY + b"0123456789abcdef", "half a file")

    assert set(camera.take().entries) == {b"tracked"}


def test_named_much_like_our_own(camera: Camera) -> None:
    """A file or directory whose name only begins like those is somebody's work, and so is whatever
    git tracks.
    """
    tracked = TEMPORARY + b"0123456789abcdef"
    work = {TEMPORARY + b"notes", TEMPORARY + b"fedcba9876543210/inside", tracked}
    for path in work:
        camera.project.write(path, "mine\n")
    camera.project.git("add", "--", tracked)

    assert set(camera.take().entries) == {b"tracked", *work}


# ---------------------------------------------------------------- other repositories


def other_repository(root: Path) -> Project:
    """Another repository with one commit."""
    other = Project(root)
    other.write("inner", "inner\n")
    other.commit()
    return other


def test_nested_repository_with_commit(camera: Camera) -> None:
    """A repository inside is not entered; it is recorded with its commit, and again when that
    moves.
    """
    other = other_repository(camera.project.root / "vendor/lib")

    shot = camera.take()
    assert set(shot.entries) == {b"tracked"}
    assert [(n.path, n.head) for n in shot.snapshot.nested] == [
        (b"vendor/lib", other.git("rev-parse", "HEAD"))
    ]
    assert not shot.snapshot.empty_directories

    other.write("inner", "more\n")
    moved = other.commit()
    assert [n.head for n in camera.take().snapshot.nested] == [moved]
    other.git("checkout", "--quiet", "--detach")
    assert [n.head for n in camera.take().snapshot.nested] == [moved]
    other.remove(".git")
    assert b"vendor/lib/inner" in camera.take().entries


def test_nested_repository_without_commit(camera: Camera) -> None:
    """A repository that has no commit yet is recorded all the same, and one that is just being
    made, once it is one.
    """
    camera.project.write("vendor/lib/inner", "inner\n")
    assert b"vendor/lib/inner" in camera.take().entries

    Project(camera.project.root / "vendor/lib").git("init", "--quiet")
    shot = camera.take()
    assert [(n.path, n.head) for n in shot.snapshot.nested] == [(b"vendor/lib", None)]
    assert set(shot.entries) == {b"tracked"}


@pytest.mark.parametrize(
    "content", ["not a repository", "gitdir: /nowhere", "gitdir: ../../tracked"]
)
def test_git_file_that_is_none(camera: Camera, content: str) -> None:
    """A directory whose .git is no repository is an ordinary directory, and the .git is never
    captured.
    """
    camera.project.write("odd/.git", content)
    camera.project.write("odd/file", "x")
    camera.project.write("odder/.git/whatever", "x")
    camera.project.write("odder/file", "x")

    shot = camera.take()

    assert set(shot.entries) == {b"tracked", b"odd/file", b"odder/file"}
    assert shot.snapshot.tree == git_tree(camera.project)


def test_git_directory_becomes_repository(camera: Camera) -> None:
    """A .git that becomes a repository by a write inside it is noticed."""
    camera.project.write("odd/file", "x")
    git_dir = camera.project.root / "odd/.git"
    for name in ("objects", "refs"):
        git_dir.joinpath(name).mkdir(parents=True)
    assert b"odd/file" in camera.take().entries

    git_dir.joinpath("HEAD").write_text("ref: refs/heads/main\n")
    shot = camera.take()
    assert [n.path for n in shot.snapshot.nested] == [b"odd"]
    assert set(shot.entries) == {b"tracked"}


def test_tracked_below_nested_repository(camera: Camera) -> None:
    """Where our own index has files, a directory is ours, whatever repository was made in it."""
    project = camera.project
    project.write("sub/ours", "ours\n")
    project.commit()
    Project(project.root / "sub").git("init", "--quiet")
    project.write("sub/new", "new\n")

    shot = camera.take()

    assert set(shot.entries) == {b"tracked", b"sub/ours", b"sub/new"}
    assert not shot.snapshot.nested


def test_linked_worktree_inside(camera: Camera) -> None:
    """A linked working tree of this repository inside it (as agents make them) is another
    repository's, too.
    """
    camera.project.git("worktree", "add", "--quiet", "agents/one")

    shot = camera.take()

    assert set(shot.entries) == {b"tracked"}
    assert [(n.path, n.head) for n in shot.snapshot.nested] == [
        (b"agents/one", camera.repo.head().commit)
    ]


def test_linked_worktree(camera: Camera, tmp_path: Path) -> None:
    """In a linked working tree its own index and HEAD count, and its state is kept apart."""
    camera.project.git("worktree", "add", "--quiet", "-b", "side", str(tmp_path / "linked"))
    linked = Camera(Project(tmp_path / "linked"))
    linked.project.write("only here", "x")
    linked.project.git("add", "only here")

    shot = linked.take()

    assert set(shot.entries) == {b"tracked", b"only here"}
    assert shot.snapshot.base.branch == "side"
    assert not shot.snapshot.untracked
    assert linked.state == camera.repo.git_dir / "worktrees/linked/gitcp/worktree-state"
    assert linked.state.exists()
    assert set(camera.take().entries) == {b"tracked"}


def add_submodule(camera: Camera, tmp_path: Path) -> Project:
    """Add and commit a submodule at `sub`; the repository inside."""
    other = other_repository(tmp_path / "other")
    allowed = ("-c", "protocol.file.allow=always")
    camera.project.git(*allowed, "submodule", "--quiet", "add", str(other.root), "sub")
    camera.project.commit()
    return Project(camera.project.root / "sub")


def test_submodule(camera: Camera, tmp_path: Path) -> None:
    """A submodule is a gitlink at the commit its working tree is at, now and when that moves."""
    inside = add_submodule(camera, tmp_path)
    first = inside.git("rev-parse", "HEAD")

    shot = camera.take()
    assert shot.entries[b"sub"] == Entry(GITLINK, Oid(first))
    assert [(s.path, s.commit) for s in shot.snapshot.submodules] == [(b"sub", first)]
    assert not shot.snapshot.staged
    assert not shot.snapshot.nested

    inside.write("inner", "moved on\n")
    second = inside.commit()
    shot = camera.take()
    assert shot.entries[b"sub"].oid == second
    assert [(entry.path, entry.oid) for entry in shot.snapshot.staged] == [(b"sub", first)]
    assert shot.snapshot.tree == git_tree(camera.project)


@pytest.mark.parametrize("attributes", ["", "* text eol=crlf\n"])
def test_files_that_stand_for_links(camera: Camera, attributes: str) -> None:
    """Where git has no links (core.symlinks=false), a text file stands for a tracked one: it is
    the link, as for `git status`, whatever attributes text files have; and is a file, if the index
    has a file there.
    """
    project = camera.project
    project.symlink("link", "target")
    project.write(".gitattributes", attributes)
    project.commit()
    assert camera.take().entries[b"link"].mode == SYMLINK
    project.git("config", "core.symlinks", "false")
    project.remove("link")
    project.write("link", "target")
    project.write("other", "target")
    assert project.git("status", "--porcelain") == "?? other"

    link = Entry(SYMLINK, Oid(project.git("rev-parse", "HEAD:link")))
    for _ in range(2):
        shot = camera.take()
        assert shot.entries[b"link"] == link
        assert shot.entries[b"other"].mode == FILE
        assert b"link" in shot.snapshot.raw
        assert not shot.snapshot.staged
        assert b"link" not in {each.path for each in shot.snapshot.converted}

    project.git("rm", "--quiet", "--cached", "link")
    assert camera.take().entries[b"link"].mode == FILE
    project.git("reset", "--quiet")
    assert camera.take().entries[b"link"] == link
    project.git("config", "core.symlinks", "true")
    assert camera.take().entries[b"link"].mode == FILE


@pytest.mark.parametrize("above", ["", "vendor"])
def test_submodule_removed(camera: Camera, tmp_path: Path, above: str) -> None:
    """A submodule whose directory is gone is deleted, as `git status` says, and is back with its
    directory. Sparse checkout removes one, too: that is kept.
    """
    add_submodule(camera, tmp_path)
    path = f"{above}/sub".removeprefix("/")
    if above:
        camera.project.root.joinpath(above).mkdir()
        camera.project.git("mv", "sub", path)
        camera.project.commit()
    first = Project(camera.project.root / path).git("rev-parse", "HEAD")
    camera.take()
    camera.project.remove(above or "sub")
    assert camera.project.git("status", "--porcelain") == f" D {path}"

    shot = camera.take()
    assert path.encode() not in shot.entries
    assert not shot.snapshot.submodules

    camera.project.git("update-index", "--skip-worktree", path)
    shot = camera.take()
    assert shot.entries[path.encode()] == Entry(GITLINK, Oid(first))
    camera.project.git("update-index", "--no-skip-worktree", path)
    camera.project.root.joinpath(path).mkdir(parents=True)
    assert camera.take().entries[path.encode()] == Entry(GITLINK, Oid(first))


def test_submodule_not_populated(camera: Camera, tmp_path: Path) -> None:
    """A submodule that was not checked out, an empty directory, is at the index's commit."""
    inside = add_submodule(camera, tmp_path)
    first = inside.git("rev-parse", "HEAD")
    camera.take()
    camera.project.remove("sub")
    camera.project.root.joinpath("sub").mkdir()

    shot = camera.take()

    assert shot.entries[b"sub"] == Entry(GITLINK, Oid(first))
    assert not shot.snapshot.skipped
    assert not shot.snapshot.staged


def test_submodule_with_stray_files(camera: Camera, tmp_path: Path) -> None:
    """Files where a submodule should be are seen by nobody: that is said."""
    add_submodule(camera, tmp_path)
    camera.project.remove("sub")
    camera.project.write("sub/stray", "x")

    shot = camera.take()

    assert shot.entries[b"sub"].mode == GITLINK
    assert shot.skipped[b"sub"].reason == SkipReason.NESTED_REPOSITORY


def test_git_directory_in_the_tree(tmp_path: Path, sealed: Path) -> None:
    """A repository whose git directory lies in its own working tree does not capture it."""
    root = tmp_path / "project"
    root.mkdir()
    subprocess.run(
        ["git", "init", "--quiet", "--separate-git-dir=store.git", "."], cwd=root, check=True
    )
    project = Project(root)
    project.write("file", "x")
    repo = Repository.open(root, host())

    snapshot = take(repo, Objects(repo), Limits(), ()).snapshot

    assert (snapshot.total, [skip.path for skip in snapshot.skipped]) == (1, [b"store.git"])


# ---------------------------------------------------------------- the index


def test_unborn_head(project: Project) -> None:
    """Before the first commit there is no base, with files or without any."""
    camera = Camera(project)
    shot = camera.take()
    assert (shot.snapshot.tree, shot.snapshot.total) == (FORMAT.empty_tree, 0)
    assert (shot.snapshot.base.commit, shot.snapshot.base.branch) == (None, "main")

    project.write("dir/first", "first\n")
    project.write("second", "second\n")
    project.git("add", "second")
    shot = camera.take()
    assert set(shot.entries) == {b"dir/first", b"second"}
    assert shot.snapshot.untracked == (b"dir/",)


def test_detached_head(camera: Camera) -> None:
    """A detached HEAD is a commit without a branch."""
    camera.project.git("checkout", "--quiet", "--detach")

    base = camera.take().snapshot.base

    assert (base.commit, base.branch) == (camera.project.git("rev-parse", "HEAD"), None)


def diverge(project: Project) -> None:
    """Two branches that conflict in `tracked` and in `other`."""
    project.write("other", "base\n")
    project.commit()
    project.git("checkout", "--quiet", "-b", "side")
    project.write("tracked", "theirs\n")
    project.git("rm", "--quiet", "other")
    project.commit()
    project.git("checkout", "--quiet", "main")
    project.write("tracked", "ours\n")
    project.write("other", "ours\n")
    project.commit()


def test_mid_merge(camera: Camera) -> None:
    """In a merge the files are captured as they lie there, and the stages are recorded."""
    project = camera.project
    diverge(project)
    project.git("merge", "side", check=False)

    shot = camera.take()

    assert shot.snapshot.base.operation == "merge"
    assert b"<<<<<<<" in shot.blob(b"tracked")
    assert [(entry.path, entry.stage) for entry in shot.snapshot.conflicts] == [
        (b"other", 1),
        (b"other", 2),
        (b"tracked", 1),
        (b"tracked", 2),
        (b"tracked", 3),
    ]
    assert not shot.snapshot.staged
    assert not shot.snapshot.untracked
    assert shot.snapshot.tree == git_tree(project)


def test_mid_rebase(camera: Camera) -> None:
    """A rebase that stopped is recorded, with its conflict."""
    project = camera.project
    diverge(project)
    project.git("rebase", "side", check=False)

    shot = camera.take()

    assert shot.snapshot.base.operation == "rebase"
    assert shot.snapshot.base.branch is None
    assert b"tracked" in {entry.path for entry in shot.snapshot.conflicts}


@pytest.mark.parametrize("content", [b"content\n", b""])
def test_intent_to_add(camera: Camera, content: bytes) -> None:
    """A file that is only planned to be added is captured as it is, and the plan is kept."""
    camera.project.write("planned", content)
    camera.project.git("add", "--intent-to-add", "planned")

    shot = camera.take()

    assert shot.blob(b"planned") == content
    [entry] = shot.snapshot.staged
    assert (entry.path, entry.intent_to_add) == (b"planned", True)
    assert not shot.snapshot.untracked


@pytest.mark.parametrize("flag", ["--assume-unchanged", "--skip-worktree"])
def test_flagged_edit(camera: Camera, flag: str) -> None:
    """An edit to a file that git was told not to look at is captured (assume_unchanged_edit,
    skip_worktree_edit).
    """
    project = camera.project
    project.git("update-index", flag, "tracked")
    camera.take()
    project.write("tracked", "edited\n")

    shot = camera.take()

    assert shot.blob(b"tracked") == b"edited\n"
    assert [entry.path for entry in shot.snapshot.staged] == [b"tracked"]


def test_assume_unchanged_deletion(camera: Camera) -> None:
    """A file that git was told not to look at is gone when it is gone."""
    camera.project.git("update-index", "--assume-unchanged", "tracked")
    camera.project.remove("tracked")

    shot = camera.take()

    assert not shot.entries
    [entry] = shot.snapshot.staged
    assert entry.assume_unchanged


def test_staged_but_different(camera: Camera) -> None:
    """What is staged and what lies in the file are both kept; a deletion, an addition and a mode
    alike.
    """
    project = camera.project
    for name in ("gone", "mode", "same"):
        project.write(name, name)
    project.commit()
    project.write("tracked", "staged\n")
    project.write("removed", "staged\n")
    project.git("add", "tracked", "removed")
    staged = project.git("rev-parse", ":tracked")
    project.write("tracked", "edited\n")
    project.remove("removed")
    project.remove("gone")
    os.chmod(project.root / "mode", 0o755)
    project.git("rm", "--quiet", "--cached", "same")

    shot = camera.take()

    assert shot.blob(b"tracked") == b"edited\n"
    assert {entry.path: entry.mode for entry in shot.snapshot.staged} == {
        b"tracked": FILE,
        b"removed": FILE,
        b"gone": FILE,
        b"mode": FILE,
    }
    assert IndexEntry(b"tracked", FILE, Oid(staged)) in shot.snapshot.staged
    assert shot.snapshot.untracked == (b"same",)


def test_untracked_directories(camera: Camera) -> None:
    """A directory that the index knows nothing of stands for all below it, but only if something is
    captured there.
    """
    project = camera.project
    project.write("mixed/tracked", "x")
    project.git("add", "mixed")
    for path in ("mixed/new", "mixed/sub/new", "all/new/deep", "none/x.log"):
        project.write(path, path)
    project.write(".gitignore", "*.log\n")

    assert camera.take().snapshot.untracked == (b".gitignore", b"all/", b"mixed/new", b"mixed/sub/")
    project.git("add", "all/new/deep")
    assert camera.take().snapshot.untracked == (b".gitignore", b"mixed/new", b"mixed/sub/")
    project.git("rm", "-r", "--quiet", "--cached", "all", "mixed")
    assert camera.take().snapshot.untracked == (b".gitignore", b"all/", b"mixed/")


@pytest.mark.parametrize(
    "options", [("--no-cone", "/kept/"), ("--cone", "kept"), ("--cone", "--sparse-index", "kept")]
)
def test_sparse_checkout(camera: Camera, options: tuple[str, ...]) -> None:
    """What sparse checkout left out is in the tree as the index has it; what is there nevertheless
    is read.
    """
    project = camera.project
    for path in ("kept/a", "left/b", "left/deep/c", "other/d"):
        project.write(path, path)
    whole = project.commit()
    project.git("sparse-checkout", "set", *options)

    shot = camera.take()
    absent = {b"left/", b"other/"} | (set() if "--cone" in options else {b"tracked"})
    assert shot.snapshot.tree == project.git("rev-parse", f"{whole}^{{tree}}")
    assert set(shot.snapshot.absent) == absent
    assert not shot.snapshot.staged

    project.write("left/b", "made by hand\n")
    shot = camera.take()
    assert shot.blob(b"left/b") == b"made by hand\n"
    assert set(shot.snapshot.absent) == absent - {b"left/"} | {b"left/deep/"}
    project.remove("left")
    assert camera.take().snapshot.tree == project.git("rev-parse", f"{whole}^{{tree}}")
    project.git("sparse-checkout", "disable")
    assert camera.take().snapshot.absent == ()


def test_file_in_place_of_sparse_directory(camera: Camera) -> None:
    """A file that stands where sparse checkout left out a directory wins; the index is still told
    in full.
    """
    project = camera.project
    project.write("left/b", "b")
    project.commit()
    project.git("sparse-checkout", "set", "--no-cone", "/tracked")
    project.write("left", "a file\n")

    shot = camera.take()

    assert set(shot.entries) == {b"left", b"tracked"}
    assert not shot.snapshot.absent
    assert [entry.path for entry in shot.snapshot.staged] == [b"left/b"]


@pytest.fixture
def sparse(camera: Camera) -> Camera:
    """A working tree of one directory, with a sparse index that has two others as an entry each."""
    for path in ("kept/a", "left/b", "left/deep/c", "left/deep/er/d", "other/.gitignore"):
        camera.project.write(path, path)
    camera.project.commit()
    camera.project.git("sparse-checkout", "set", "--cone", "--sparse-index", "kept")
    assert set(camera.take().snapshot.absent) == {b"left/", b"other/"}
    return camera


def test_sparse_index_is_not_expanded(sparse: Camera, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is not checked out is neither listed by git nor read."""
    monkeypatch.setattr(git_index, "_ask", None)
    read = []
    monkeypatch.setattr(ObjectReader, "read_tree", lambda _, oid: read.append(oid))
    sparse.project.write("kept/a", "changed\n")
    repo = sparse.repo

    taken = take(repo, Objects(repo), Limits(), frozenset())

    assert taken.snapshot.absent == (b"left/", b"other/")
    assert read == []


def test_below_a_sparse_directory(sparse: Camera) -> None:
    """What is made there is read; its directory comes and goes, with the index as it is or not."""
    project = sparse.project
    project.write("left/deep/er/new", "new\n")
    shot = sparse.take()
    assert shot.snapshot.absent == (b"left/b", b"left/deep/c", b"left/deep/er/d", b"other/")
    assert shot.snapshot.untracked == (b"left/deep/er/new",)

    project.write("kept/staged", "staged\n")
    project.git("add", "kept")
    assert sparse.take().blob(b"left/deep/er/new") == b"new\n"
    project.write("left/deep/er/d", "tracked\n")
    assert sparse.take().snapshot.untracked == (b"left/deep/er/new",)
    project.remove("left")
    assert sparse.take().snapshot.absent == (b"left/", b"other/")


def test_file_in_place_of_a_tree(sparse: Camera) -> None:
    """A file in the place of a directory that a sparse index has as one entry wins, and the index
    is told in full.
    """
    sparse.project.write("left", "a file\n")

    shot = sparse.take()

    assert b"left" in shot.entries
    assert shot.snapshot.untracked == (b"left",)
    assert [e.path for e in shot.snapshot.staged] == [b"left/b", b"left/deep/c", b"left/deep/er/d"]
    sparse.project.remove("left")
    assert sparse.take().snapshot.absent == (b"left/", b"other/")


def test_missing_tree_of_a_sparse_index(sparse: Camera) -> None:
    """A directory in the place of one whose tree is missing is skipped; the index keeps its
    entry.
    """
    project = sparse.project
    tree = project.git("rev-parse", "HEAD:left")
    project.write("left/new", "new\n")
    loose = project.git_dir / "objects" / tree[:2] / tree[2:]
    content = loose.read_bytes()
    loose.chmod(0o644)
    loose.unlink()

    repo = sparse.repo
    taken = take(repo, Objects(repo), Limits(), frozenset())

    assert [(skip.path, skip.reason) for skip in taken.snapshot.skipped] == [
        (b"left", SkipReason.UNREADABLE)
    ]
    assert taken.snapshot.absent == (b"left/", b"other/")
    loose.write_bytes(content)


def test_sparse_gitignore(camera: Camera) -> None:
    """A .gitignore that sparse checkout left out still ignores, as it does for git."""
    project = camera.project
    project.write("sub/.gitignore", "*.log\n")
    project.commit()
    project.git("sparse-checkout", "set", "--no-cone", "/tracked")
    project.write("sub/x.log", "log\n")

    shot = camera.take()

    assert set(shot.entries) == {b"tracked", b"sub/.gitignore"}
    assert shot.snapshot.absent == (b"sub/.gitignore",)


def test_split_index(camera: Camera) -> None:
    """A split index is read whole, and a change to it is noticed."""
    project = camera.project
    project.git("update-index", "--split-index")
    project.write("new", "new\n")
    assert camera.take().snapshot.untracked == (b"new",)

    project.git("add", "new")
    assert camera.take().snapshot.untracked == ()


def test_index_v4(camera: Camera) -> None:
    """An index of version 4 says the same as one of version 2."""
    project = camera.project
    for path in ("a/b/c", "a/b/d", "a/e"):
        project.write(path, path)
    project.commit()
    first = camera.take()
    project.git("update-index", "--index-version", "4")

    assert camera.take().snapshot == first.snapshot


# ---------------------------------------------------------------- what is remembered


def test_index_v4_with_names_cut_alike(camera: Camera) -> None:
    """Version 4 writes of a name what it does not share with the one before, which may lie in a
    directory below.
    """
    camera.project.git("update-index", "--index-version", "4")
    camera.project.write("d/abc/1", "")
    camera.project.write("d/xbc/1", "")
    camera.project.write(".gitignore", "*d\n!/d\n")
    for name in ("d/abd", "d/xbd"):
        camera.project.write(name, "one\n")
    camera.project.git("add", ".gitignore", "d/abc", "d/xbc")
    camera.project.git("add", "--force", "d/abd")
    time.sleep(0.02)
    assert b"d/abd" in camera.take().entries
    camera.project.git("rm", "--quiet", "--cached", "d/abd")
    camera.project.git("add", "--force", "d/xbd")

    shot = camera.take()

    assert (b"d/abd" in shot.entries, b"d/xbd" in shot.entries) == (False, True)


def test_nothing_changed(camera: Camera) -> None:
    """The second snapshot of the same files lists no directory and reads no file."""
    camera.project.write("dir/file", "x")
    time.sleep(0.02)
    first = camera.take()
    repo, opened = camera.repo, []

    def refuse_listing(path: object) -> object:
        opened.append(path)
        raise AssertionError("a directory was listed")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "scandir", refuse_listing)
        objects = Objects(repo)
        second = take(repo, objects, Limits(), camera.live)

    assert second.snapshot == first.snapshot
    assert (opened, objects.writer.new_objects) == ([], 0)
    assert objects.reader.read_tree(second.snapshot.tree) == first.objects.reader.read_tree(
        first.snapshot.tree
    )


def test_same_size_edits_in_one_tick(camera: Camera) -> None:
    """Edits that change neither size nor mtime are seen, however fast they follow on a snapshot."""
    path = camera.project.root / "tracked"
    repo = camera.repo
    for number in range(60):
        path.write_bytes(b"%08d" % number)
        os.utime(path, (1_000_000_000, 1_000_000_000))
        objects = Objects(repo)
        taken = take(repo, objects, Limits(), camera.live)
        objects.writer.flush()
        taken.remember()
        camera.live = frozenset({taken.snapshot.tree})
        [entry] = objects.reader.read_tree(taken.snapshot.tree)
        assert objects.reader.read_blob(entry.oid) == b"%08d" % number


def test_looked_at_in_the_tick_it_was_written(
    camera: Camera, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was stamped no earlier than the scan began is read again by the next one, though nothing
    tells it apart.
    """
    monkeypatch.setattr(
        snapshot_module, "tick", lambda: os.lstat(camera.project.path("tracked")).st_ctime_ns
    )
    camera.take()
    read = []
    real = os.open

    def noting(path: object, *args: int, **named: int) -> int:
        read.append(path)
        return real(path, *args, **named)  # type: ignore[arg-type]

    with monkeypatch.context() as patch:
        patch.setattr(os, "open", noting)
        take(camera.repo, Objects(camera.repo, dry=True), Limits(), camera.live)

    assert camera.project.path("tracked") in read


@pytest.mark.parametrize(
    ("ctime", "settles"),
    [
        (1_500_000_001, True),
        (2_000_000_001, False),
        (1_000_000_000, False),
        (0, True),
        (3_000_000_000, False),
    ],
)
def test_settled(ctime: int, settles: bool) -> None:
    """A stamp in whole seconds may be of a file system that counts in two; any other is as fine as
    the clock.
    """
    assert reading.settled(ctime, 2_000_000_001) is settles


def test_new_and_removed_files_in_one_tick(camera: Camera) -> None:
    """Entries that come and go are seen, however fast they follow on a snapshot."""
    repo = camera.repo
    for number in range(30):
        camera.project.write(f"dir/{number}", "x")
        if number:
            camera.project.remove(f"dir/{number - 1}")
        objects = Objects(repo)
        taken = take(repo, objects, Limits(), camera.live)
        objects.writer.flush()
        taken.remember()
        camera.live = frozenset({taken.snapshot.tree})
        assert (taken.snapshot.total, taken.stamp(f"dir/{number}".encode()) is not None) == (
            2,
            True,
        )


def test_names_traded_where_renaming_leaves_no_trace(
    camera: Camera, monkeypatch: pytest.MonkeyPatch
) -> None:
    """There are file systems on which a rename does not touch the file: then its inode tells it
    from the other one.
    """
    for name in ("dir/one", "dir/other"):
        camera.project.write(name, name)
    time.sleep(0.02)
    camera.take()
    monkeypatch.setattr(stat_check, "_otherwise", lambda *_: [])
    root = camera.project.root / "dir"
    for name, to in (("one", "aside"), ("other", "one"), ("aside", "other")):
        os.rename(root / name, root / to)

    shot = camera.take()

    assert (shot.blob(b"dir/one"), shot.blob(b"dir/other")) == (b"dir/other", b"dir/one")


def test_only_what_changed_is_looked_at(camera: Camera, monkeypatch: pytest.MonkeyPatch) -> None:
    """A directory that has the entries it had is not listed; of one that has not, only files that
    changed are read.
    """
    for number in range(10):
        camera.project.write(f"kept/{number}", "x")
        camera.project.write(f"grown/{number}", "x")
    time.sleep(0.02)
    camera.take()
    listed: list[bytes] = []
    looked_at: list[bytes] = []
    visit, file_of = scan.Scan._visit, scan.Scan._file

    def visiting(self: scan.Scan, record: ScannedDirectory) -> None:
        listed.append(record.path)
        visit(self, record)

    def looking(
        self: scan.Scan,
        record: ScannedDirectory,
        name: bytes,
        full: bytes,
        old: ScannedDirectory | None,
    ) -> None:
        looked_at.append(record.below(name))
        file_of(self, record, name, full, old)

    monkeypatch.setattr(scan.Scan, "_visit", visiting)
    monkeypatch.setattr(scan.Scan, "_file", looking)
    with open(camera.project.root / "kept/3", "a") as file:
        file.write("more")
    camera.project.write("grown/4", "more")
    camera.project.write("grown/new", "x")

    objects = Objects(camera.repo, dry=True)
    taken = take(camera.repo, objects, Limits(), camera.live)

    assert listed == [b"grown"]
    assert sorted(looked_at) == [b"grown/4", b"grown/new", b"kept/3"]
    found = dict(trees.walk(objects.reader, taken.snapshot.tree))
    assert len(found) == 22
    assert found[b"grown/4"].oid == blob(camera.project, "grown/4")


def test_directory_that_changes_after_the_look(
    camera: Camera, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What came into a directory after it was looked at is not missed, in this snapshot or the
    next.
    """
    camera.project.write("dir/file", "x")
    time.sleep(0.02)
    camera.take()
    looked = snapshot_module.compare

    def changed(*args: Any) -> list[Any]:
        found = looked(*args)
        camera.project.write("dir/late", "x")
        time.sleep(0.02)
        return found

    monkeypatch.setattr(snapshot_module, "compare", changed)
    with open(camera.project.root / "dir/file", "a") as file:
        file.write("more")
    objects = Objects(camera.repo, dry=True)
    taken = take(camera.repo, objects, Limits(), camera.live)

    assert dict(trees.walk(objects.reader, taken.snapshot.tree)).keys() == {
        b"dir/file",
        b"dir/late",
        b"tracked",
    }


@pytest.mark.parametrize("parts", [1, 2])
def test_look_in_parts(camera: Camera, monkeypatch: pytest.MonkeyPatch, parts: int) -> None:
    """One process or two find the same changes, wherever they are."""
    for number in range(40):
        camera.project.write(f"d{number % 7}/sub/{number}", "x")
    time.sleep(0.02)
    camera.take()
    monkeypatch.setattr(snapshot_module, "FORK_ABOVE", 0 if parts == 2 else 1 << 30)
    monkeypatch.setattr(stat_check, "may_fork", lambda: True)
    for path in ("d0/sub/0", "d3/sub/3", "d6/sub/6"):
        camera.project.write(path, "edited\n")
    camera.project.remove("d5")

    shot = camera.take()

    assert shot.blob(b"d6/sub/6") == shot.blob(b"d0/sub/0") == b"edited\n"
    assert shot.snapshot.tree == git_tree(camera.project)


def test_child_that_dies(camera: Camera, monkeypatch: pytest.MonkeyPatch) -> None:
    """If the second process comes to harm, the first looks at its share as well."""
    camera.project.write("dir/file", "x")
    time.sleep(0.02)
    camera.take()
    monkeypatch.setattr(snapshot_module, "FORK_ABOVE", 0)
    monkeypatch.setattr(stat_check, "may_fork", lambda: True)
    monkeypatch.setattr(stat_check, "_answer", lambda *_: os._exit(1))
    camera.project.write("dir/file", "edited\n")
    camera.project.write("tracked", "edited\n")

    assert camera.take().blob(b"dir/file") == b"edited\n"


def test_child_without_standard_streams(camera: Camera, monkeypatch: pytest.MonkeyPatch) -> None:
    """A program that has no standard streams sees every change, whether the second process can
    answer or not.
    """
    camera.project.write("dir/file", "x")
    time.sleep(0.02)
    camera.take()
    monkeypatch.setattr(snapshot_module, "FORK_ABOVE", 0)
    monkeypatch.setattr(stat_check, "may_fork", lambda: True)
    camera.project.write("dir/file", "edited\n")
    held = [os.dup(descriptor) for descriptor in (0, 1, 2)]
    try:
        os.closerange(0, 3)
        taken = take(camera.repo, Objects(camera.repo, dry=True), Limits(), camera.live)
    finally:
        for descriptor, copy in enumerate(held):
            os.dup2(copy, descriptor)
            os.close(copy)

    assert taken.snapshot.tree == git_tree(camera.project)


def test_no_fork_beside_threads() -> None:
    """A process with other threads is never forked."""
    done = threading.Event()
    thread = threading.Thread(target=done.wait)
    thread.start()
    try:
        assert not stat_check.may_fork()
    finally:
        done.set()
        thread.join()


@pytest.mark.parametrize(
    "damage",
    [
        lambda data: b"",
        lambda data: b"garbage",
        lambda data: data[:-10],
        lambda data: (
            data[: len(data) // 2] + bytes([data[len(data) // 2] ^ 1]) + data[len(data) // 2 + 1 :]
        ),
        lambda data: data.replace(b"cpython", b"jython!", 1),
    ],
    ids=["empty", "garbage", "torn", "one bit", "other Python"],
)
def test_damaged_state(camera: Camera, damage: object) -> None:
    """Whatever lies in the state file's place: a full scan, and never an error."""
    first = camera.take()
    camera.state.write_bytes(damage(camera.state.read_bytes()))  # type: ignore[operator]
    camera.project.write("new", "new\n")

    shot = camera.take()

    assert set(shot.entries) == {*first.entries, b"new"}
    camera.project.write("tracked", "edited\n")
    assert camera.take().blob(b"tracked") == b"edited\n"


def test_state_of_a_copy(camera: Camera, tmp_path: Path) -> None:
    """A copy of a repository, state file and all, is another working tree."""
    camera.project.write("dir/file", "x")
    camera.take()
    subprocess.run(["cp", "-a", str(camera.project.root), str(tmp_path / "copy")], check=True)
    copy = Camera(Project(tmp_path / "copy"))
    copy.live = camera.live
    copy.project.write("dir/file", "y")

    assert copy.take().blob(b"dir/file") == b"y"


def test_state_file_is_private(camera: Camera) -> None:
    """Nobody else can read the state file, and nothing is left beside it."""
    camera.take()

    assert stat.S_IMODE(camera.state.stat().st_mode) == 0o600
    assert stat.S_IMODE(camera.state.parent.stat().st_mode) == 0o700
    assert sorted(path.name for path in camera.state.parent.iterdir()) in (
        ["config", "worktree-state"],
        ["worktree-state"],
    )


def test_state_that_cannot_be_written(camera: Camera, monkeypatch: pytest.MonkeyPatch) -> None:
    """A disk that is full when the state is written costs the cache and nothing else."""
    monkeypatch.setattr(
        os, "replace", lambda *_: (_ for _ in ()).throw(OSError(28, "No space left on device"))
    )
    objects = Objects(camera.repo)
    taken = take(camera.repo, objects, Limits(), ())

    taken.remember()

    assert not camera.state.exists()
    assert not list(camera.state.parent.glob("worktree-state*"))


def test_not_remembered(camera: Camera) -> None:
    """A snapshot of which no checkpoint came about leaves the state as it was, and the next one
    sees everything.
    """
    camera.take()
    camera.project.write("new", "new\n")
    before = camera.state.read_bytes()
    camera.take(remember=False)

    assert camera.state.read_bytes() == before
    assert b"new" in camera.take().entries


def test_blobs_that_are_gone(camera: Camera) -> None:
    """If no ref holds the remembered tree, its blobs are looked up, and what was pruned is written
    again.
    """
    project = camera.project
    project.write("dir/new", "only in a checkpoint\n")
    first = camera.take()
    project.git("prune", "--expire=now")
    assert project.git("cat-file", "-t", first.entries[b"dir/new"].oid, check=False) == ""
    camera.live = frozenset()

    shot = camera.take()

    assert shot.snapshot == first.snapshot
    assert project.git("cat-file", "-t", shot.entries[b"dir/new"].oid) == "blob"


def test_limits_changed(camera: Camera) -> None:
    """Other limits are another scan."""
    camera.project.write("big", b"x" * 100)
    assert b"big" in camera.take().entries

    camera.limits = Limits(max_untracked_file=50)
    assert camera.take().skipped[b"big"].reason == SkipReason.TOO_LARGE
    camera.limits = Limits(max_untracked_file=50, include=("*.x",))
    camera.project.write(".gitignore", "*.x\n")
    camera.project.write("a.x", "x")
    assert b"a.x" in camera.take().entries


def test_directory_moved_in(camera: Camera) -> None:
    """A directory in the place of another, files and times alike, is another directory."""
    project = camera.project
    project.write("one/file", "1111\n")
    project.write("two/file", "2222\n")
    time.sleep(0.02)
    camera.take()
    os.rename(project.root / "one", project.root / "three")
    os.rename(project.root / "two", project.root / "one")

    shot = camera.take()

    assert shot.blob(b"one/file") == b"2222\n"
    assert shot.blob(b"three/file") == b"1111\n"
    assert b"two/file" not in shot.entries


def test_hard_link_written_elsewhere(camera: Camera, tmp_path: Path) -> None:
    """A file changed through another name of it has changed."""
    os.link(camera.project.root / "tracked", tmp_path / "elsewhere")
    time.sleep(0.02)
    camera.take()
    tmp_path.joinpath("elsewhere").write_text("changed outside\n")

    assert camera.take().blob(b"tracked") == b"changed outside\n"


def test_refreshed_index(camera: Camera) -> None:
    """An index that was only refreshed, as `git status` does it, changes nothing; the next look
    knows it.
    """
    camera.project.write("dir/file", "x")
    camera.project.commit()
    time.sleep(0.02)
    first = camera.take()
    os.utime(camera.project.root / "dir/file")
    camera.project.git("update-index", "--refresh")

    assert camera.take().snapshot == first.snapshot
    assert camera.take().snapshot == first.snapshot


def test_stamps(camera: Camera) -> None:
    """The stamp of a captured path is what lstat says of it, until it changes; nothing else has
    one.
    """
    project = camera.project
    project.write("dir/file", "x")
    project.symlink("link", "tracked")
    project.root.joinpath("empty").mkdir()
    camera.take()
    taken = camera.take().taken

    for path in (b"tracked", b"dir/file", b"link"):
        assert taken.stamp(path) == stamp_of(os.lstat(project.path(path)))
    for path in (b"", b"dir", b"empty", b"nothing", b"dir/nothing", b"no/where"):
        assert taken.stamp(path) is None
    project.write("dir/file", "y")
    assert taken.stamp(b"dir/file") != stamp_of(os.lstat(project.path("dir/file")))


def test_seeded_from_the_index(camera: Camera, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first snapshot of a clean checkout reads no file whose blob the index proves, and says
    the same.
    """
    project = camera.project
    for number in range(210):
        project.write(f"d{number % 5}/{number}", f"file {number}\n")
    project.commit()
    project.write("d0/0", "edited\n")
    time.sleep(0.02)
    project.git("update-index", "--refresh", "--force-write-index", check=False)
    read = []
    real = os.open

    def counting(path: object, *args: int, **named: int) -> int:
        if isinstance(path, bytes) and path.startswith(os.fsencode(project.root)):
            read.append(path)
        return real(path, *args, **named)  # type: ignore[arg-type]

    with monkeypatch.context() as patch:
        patch.setattr(os, "open", counting)
        objects = Objects(camera.repo)
        taken = take(camera.repo, objects, Limits(), ())

    assert read == [project.path("d0/0")]
    objects.writer.flush()
    assert camera.take().snapshot == taken.snapshot
    assert taken.snapshot.tree == git_tree(project)
