"""The writer against hostile trees, disks and neighbours: outside stays as it was, and files stay
whole.
"""

from __future__ import annotations

import ctypes
import errno
import os
import resource
import signal
import socket
import stat
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from gitcp.errors import BadValue, DiskFull, GitcpError, Refused
from gitcp.git import fsync
from gitcp.worktree import directories
from gitcp.worktree.directories import PathBlocked
from gitcp.worktree.paths import DEEPEST, is_temporary
from gitcp.worktree.writer import Writer

NOBODY = 65534
CANARY = b"outside, not yours"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """The directory the writer works in."""
    path = tmp_path / "root"
    path.mkdir()
    return path


@pytest.fixture
def writer(root: Path) -> Iterator[Writer]:
    """A writer on `root`."""
    with Writer(root) as opened:
        yield opened


@pytest.fixture
def outside(tmp_path: Path) -> Iterator[Path]:
    """A directory beside the root with one file, checked after the test to be just that."""
    path = tmp_path / "outside"
    path.mkdir()
    canary = path / "file"
    canary.write_bytes(CANARY)
    canary.chmod(0o640)
    before = canary.stat()
    yield path
    after = canary.stat()

    assert sorted(os.listdir(path)) == ["file"], "something was made or removed outside"
    assert canary.read_bytes() == CANARY, "a file outside was written"
    assert (after.st_ino, after.st_mode, after.st_mtime_ns) == (
        before.st_ino,
        before.st_mode,
        before.st_mtime_ns,
    )


@pytest.fixture
def tiny_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 64 KiB, where this user may mount one."""
    path = tmp_path / "tiny"
    path.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(path)], capture_output=True
    )
    if mounted.returncode:
        pytest.skip("needs the right to mount a tmpfs")
    yield path
    subprocess.run(["umount", "-l", str(path)], check=True)


@contextmanager
def ordinary_user(*owned: Path) -> Iterator[None]:
    """Runs as somebody who owns the given paths and whom permissions stop, even where the tests run
    as root.
    """
    if os.geteuid() != 0:
        yield
        return
    for path in owned:
        os.chown(path, NOBODY, NOBODY)
    os.seteuid(NOBODY)
    try:
        yield
    finally:
        os.seteuid(0)


def exchange(one: Path, other: Path) -> None:
    """Swaps two names at once, so that there is no moment without either."""
    here, swap = -100, 2
    if ctypes.CDLL(None).renameat2(here, bytes(one), here, bytes(other), swap):
        pytest.skip("needs a file system that can swap names")


def files(root: Path) -> dict[str, bytes | str | None]:
    """All below `root`: bytes of files, targets of links, None for the rest. Unfinished files would
    be in it too.
    """
    found: dict[str, bytes | str | None] = {}
    for path in sorted(root.rglob("*")):
        name = str(path.relative_to(root))
        if path.is_symlink():
            found[name] = os.readlink(path)
        else:
            found[name] = path.read_bytes() if path.is_file() else None
    return found


def mode_of(path: Path) -> int:
    """The permission bits of what lies at `path`."""
    return stat.S_IMODE(path.lstat().st_mode)


def seen(found: os.stat_result | None) -> tuple[int, ...]:
    """What tells one state of a file from the next (two `stat_result`s are equal within the same
    second).
    """
    assert found is not None
    return (
        found.st_dev,
        found.st_ino,
        found.st_mode,
        found.st_size,
        found.st_mtime_ns,
        found.st_ctime_ns,
    )


# ---------------------------------------------------------------- files


def test_a_file_is_made_with_its_directories(writer: Writer, root: Path) -> None:
    """Missing parents are made, content and stat are those of the file on the disk, and nothing
    else is left.
    """
    writer.write(b"a/b/c.txt", [b"one ", b"", b"two"], 0o644)

    assert files(root) == {"a": None, "a/b": None, "a/b/c.txt": b"one two"}


def test_the_stat_is_that_of_the_file_in_its_place(
    writer: Writer, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What write and symlink return holds on the disk to the nanosecond, though the rename is a
    change itself.
    """
    real = os.rename

    def slow(*args: Any, **options: Any) -> None:
        time.sleep(0.02)  # longer than the tick by which a kernel stamps its files
        real(*args, **options)

    monkeypatch.setattr(os, "rename", slow)

    assert seen(writer.write(b"file", [b"x"], 0o644)) == seen((root / "file").lstat())
    assert seen(writer.symlink(b"link", b"x")) == seen((root / "link").lstat())


def test_many_neighbours_in_any_order(writer: Writer, root: Path) -> None:
    """Going to and fro between directories, up and down, always ends in the right one."""
    paths = [
        b"a/x",
        b"a/b/x",
        b"x",
        b"a/b/c/x",
        b"a/y",
        b"b/b/x",
        b"a/b/y",
        b"b/x",
        b"y",
        b"a/b/c/y",
    ]
    for path in paths:
        writer.write(path, [path], 0o644)

    assert {name: data for name, data in files(root).items() if data} == {
        path.decode(): path for path in paths
    }
    assert [b"".join(writer.read(path)) for path in paths] == paths


def test_the_permissions_given_are_final(writer: Writer, root: Path) -> None:
    """The exec bit and 0600 arrive whatever the umask and the old file say; setuid and its like
    never do.
    """
    old = os.umask(0o077)
    try:
        writer.write(b"run", [b"#!/bin/sh"], 0o755)
    finally:
        os.umask(old)
    assert mode_of(root / "run") == 0o755

    assert stat.S_IMODE(writer.write(b"run", [b"secret"], 0o600).st_mode) == 0o600
    assert mode_of(root / "run") == 0o600

    writer.write(b"run", [b""], 0o6755)
    assert mode_of(root / "run") == 0o755


def test_a_file_is_replaced_at_once(writer: Writer, root: Path) -> None:
    """Somebody reading all the time sees the old content or the new, never nothing and never a
    mixture.
    """
    versions = [bytes([letter]) * 100_000 for letter in b"ab"]
    writer.write(b"file", [versions[0]], 0o644)
    read: list[bytes] = []
    done = threading.Event()

    def look() -> None:
        while not done.is_set():
            read.append((root / "file").read_bytes())

    reader = threading.Thread(target=look)
    reader.start()
    for turn in range(300):
        writer.write(b"file", [versions[turn % 2][:40_000], versions[turn % 2][40_000:]], 0o644)
    done.set()
    reader.join()

    assert set(read) <= set(versions)
    assert len(read) > 1


def test_an_open_reader_keeps_the_old_file(writer: Writer, root: Path) -> None:
    """The old file is left whole for who has it open; the new one is another file."""
    (root / "file").write_bytes(b"old")
    with open(root / "file", "rb") as held:
        writer.write(b"file", [b"new"], 0o644)

        assert held.read() == b"old"
    assert (root / "file").read_bytes() == b"new"


def test_nothing_stays_open(writer: Writer, root: Path) -> None:
    """A restore of many files needs no more descriptors than one of a few."""
    writer.write(b"file", [b"0"], 0o644)
    before = os.listdir("/proc/self/fd")
    for number in range(5):
        writer.write(b"file", [b"%d" % number], 0o644)

    assert len(os.listdir("/proc/self/fd")) == len(before)


def test_a_hard_link_outside_is_untouched(writer: Writer, root: Path, outside: Path) -> None:
    """A file that has another name outside is replaced, not written into."""
    os.link(outside / "file", root / "file")

    writer.write(b"file", [b"inside"], 0o644)

    assert (root / "file").read_bytes() == b"inside"


@pytest.mark.parametrize(
    "name",
    [
        b"\xff\xfe",
        b"new\nline",
        b"x" * 255,
        b"-rf",
        b"a\\b",
        "日本".encode(),
        b"\x1b[2J",
        b" ",
        b"...",
        b".gitcp-tmp-",
    ],
)
def test_odd_names_arrive_byte_for_byte(writer: Writer, root: Path, name: bytes) -> None:
    """Names are bytes: not UTF-8, newlines, 255 bytes long, with control characters."""
    writer.write(b"d/" + name, [b"content"], 0o644)

    assert os.listdir(os.fsencode(root / "d")) == [name]
    assert b"".join(writer.read(b"d/" + name)) == b"content"


@pytest.mark.parametrize("descriptors", [64, 8192])
def test_a_path_of_the_greatest_depth(
    root: Path, monkeypatch: pytest.MonkeyPatch, descriptors: int
) -> None:
    """2,048 components are written, read and removed, whatever number of directories may be open
    at a time; with few, those far above are opened again.
    """
    monkeypatch.setattr(directories, "_openable", lambda: descriptors)
    monkeypatch.setattr(directories, "ALWAYS_OPEN", min(descriptors, directories.ALWAYS_OPEN))
    path = b"/".join([b"d"] * DEEPEST)
    with Writer(root) as writer:
        writer.write(path, [b"at the bottom"], 0o644)

        assert b"".join(writer.read(path)) == b"at the bottom"
        above = path[: len(path) // 2]
        writer.write(above + b"/beside", [b"half way"], 0o644)
        writer.remove(path)
        assert writer.lstat(path) is None
        assert writer.remove_directory(path.rpartition(b"/")[0])
    subprocess.run(["rm", "-rf", "--", root / "d"], check=True)  # pytest cannot


def test_a_deep_directory_that_was_moved_is_not_reopened(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A directory whose descriptor was closed is compared when it is opened again: not the one that
    has its name now is used, but the path is walked anew.
    """
    monkeypatch.setattr(directories, "_openable", lambda: 4)
    monkeypatch.setattr(directories, "ALWAYS_OPEN", 3)
    path = b"/".join([b"d"] * 20)
    with Writer(root) as writer:
        writer.write(path + b"/one", [b"1"], 0o644)
        (root / "d/d/d").rename(root / "aside")
        (root / "d/d/d").symlink_to(root / "aside")

        with pytest.raises(PathBlocked):
            writer.write(path + b"/two", [b"2"], 0o644)
        (root / "d/d/d").unlink()
        writer.write(path + b"/two", [b"2"], 0o644)

        assert os.listdir(root / "aside" / "/".join("d" * 17)) == ["one"]
        assert os.listdir(root / "/".join("d" * 20)) == ["two"]


@pytest.mark.parametrize(
    "path", [b"", b"../x", b"/x", b"a/../x", b".git/config", b"a/.GIT", b".gitcp/x", b"a\0", b"a/"]
)
def test_a_bad_path_goes_nowhere(writer: Writer, root: Path, path: bytes) -> None:
    """Every method refuses a path that must not be written, before it looks at the disk."""
    calls: list[Callable[[], object]] = [
        lambda: writer.lstat(path),
        lambda: list(writer.read(path)),
        lambda: writer.readlink(path),
        lambda: writer.write(path, [b"x"], 0o644),
        lambda: writer.symlink(path, b"x"),
        lambda: writer.remove(path),
        lambda: writer.chmod(path, 0o644),
        lambda: writer.make_directory(path),
        lambda: writer.remove_directory(path),
    ]
    for call in calls:
        with pytest.raises(BadValue, match="the path"):
            call()
    assert files(root) == {}
    assert os.listdir(root.parent) == ["root"]


# ---------------------------------------------------------------- links


def test_a_link_is_replaced_and_not_followed(writer: Writer, root: Path, outside: Path) -> None:
    """Writing where a symbolic link to a file outside lies replaces the link."""
    (root / "file").symlink_to(outside / "file")

    writer.write(b"file", [b"inside"], 0o644)

    assert files(root) == {"file": b"inside"}


def test_a_link_to_nothing_is_replaced(writer: Writer, root: Path, outside: Path) -> None:
    """A dangling link makes no file where it points."""
    (root / "file").symlink_to(outside / "new")

    writer.write(b"file", [b"inside"], 0o644)

    assert files(root) == {"file": b"inside"}


@pytest.mark.parametrize("target", ["../outside", "../../outside", "/"])
def test_a_link_on_the_way_blocks(writer: Writer, root: Path, outside: Path, target: str) -> None:
    """A parent that is a symbolic link is never walked: changes are refused, questions find
    nothing.
    """
    (root / "d").mkdir()
    (root / "d/link").symlink_to(target)
    (root / "direct").symlink_to(outside)
    for path in (b"d/link/file", b"d/link/outside/file", b"direct/file", b"direct/sub/new"):
        with pytest.raises(PathBlocked, match="is a symbolic link, not a directory"):
            writer.write(path, [b"through"], 0o644)
        with pytest.raises(PathBlocked):
            writer.symlink(path, b"x")
        with pytest.raises(PathBlocked):
            writer.make_directory(path)
        with pytest.raises(PathBlocked):
            writer.chmod(path, 0o777)
        with pytest.raises(PathBlocked):
            list(writer.read(path))
        writer.remove(path)

        assert writer.lstat(path) is None
        assert not writer.remove_directory(path)
    assert writer.sweep(b"direct") == 0
    assert files(root) == {"d": None, "d/link": target, "direct": str(outside)}


def test_a_link_put_in_place_of_a_known_directory(
    writer: Writer, root: Path, outside: Path
) -> None:
    """A directory that was written to and then swapped for a link is looked at again, and
    blocks.
    """
    writer.write(b"a/d/first", [b"1"], 0o644)
    (root / "a/d").rename(root / "a/moved")
    (root / "a/d").symlink_to(outside)

    with pytest.raises(PathBlocked):
        writer.write(b"a/d/file", [b"2"], 0o644)

    assert files(root / "a/moved") == {"first": b"1"}


def test_another_directory_put_in_place_of_a_known_one(writer: Writer, root: Path) -> None:
    """A directory that was replaced by another one gets the next file itself, not its
    predecessor.
    """
    writer.write(b"d/sub/first", [b"1"], 0o644)
    (root / "d").rename(root / "moved")
    (root / "d").mkdir()

    writer.write(b"d/sub/second", [b"2"], 0o644)

    assert files(root / "d") == {"sub": None, "sub/second": b"2"}
    assert files(root / "moved") == {"sub": None, "sub/first": b"1"}


def test_a_directory_swapped_in_the_middle_of_a_write(
    writer: Writer, root: Path, outside: Path
) -> None:
    """A directory that is moved away while its file is written: refused, and the file is the old
    one where it went.
    """
    (root / "d").mkdir()
    (root / "d/file").write_bytes(b"old")

    def swapping() -> Iterator[bytes]:
        yield b"new, first half"
        (root / "d").rename(root / "moved")
        (root / "d").symlink_to(outside)
        yield b"second half"

    with pytest.raises(PathBlocked, match="moved while"):
        writer.write(b"d/file", swapping(), 0o644)

    assert files(root) == {"d": str(outside), "moved": None, "moved/file": b"old"}


def test_outside_survives_a_race(
    writer: Writer, root: Path, outside: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Thousands of changes while a neighbour keeps swapping the directory for a link: none reaches
    outside.
    """
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)
    (root / "d").mkdir()
    (root / "link").symlink_to(outside)
    exchange(root / "d", root / "link")
    done = threading.Event()

    def swap() -> None:
        while not done.is_set():
            exchange(root / "d", root / "link")

    outcomes = {"done": 0, "refused": 0}
    changes: list[Callable[[], object]] = [
        lambda: writer.write(b"d/file", [b"inside"], 0o777),
        lambda: writer.chmod(b"d/file", 0o600),
        lambda: writer.symlink(b"d/file", b"x"),
        lambda: writer.write(b"d/new", [b"inside"], 0o644),
        lambda: writer.remove(b"d/file"),
        lambda: writer.sweep(b"d"),
    ]
    neighbour = threading.Thread(target=swap)
    neighbour.start()
    try:
        for turn in range(6000):
            try:
                changes[turn % len(changes)]()
                outcomes["done"] += 1
            except GitcpError:
                outcomes["refused"] += 1
    finally:
        done.set()
        neighbour.join()

    real = root / ("link" if (root / "d").is_symlink() else "d")
    assert outcomes["done"] > 100
    assert outcomes["refused"] > 100
    assert set(os.listdir(real)) <= {"file", "new"}, "an unfinished file is left"


@pytest.mark.parametrize("other", ["link", "fifo"])
def test_a_file_swapped_after_the_look_at_it(
    writer: Writer, root: Path, outside: Path, monkeypatch: pytest.MonkeyPatch, other: str
) -> None:
    """A file that becomes a link or a FIFO just before it is opened is neither read nor given
    another mode.
    """
    (root / "link").symlink_to(outside / "file")
    os.mkfifo(root / "fifo", 0o600)
    (root / "file").write_bytes(b"inside")
    real = os.open

    def late(path: Any, *args: Any, **options: Any) -> int:
        if path == b"file":
            exchange(root / "file", root / other)
        return real(path, *args, **options)

    monkeypatch.setattr(os, "open", late)
    with pytest.raises(GitcpError):
        list(writer.read(b"file"))
    exchange(root / "file", root / other)
    with pytest.raises(GitcpError):
        writer.chmod(b"file", 0o777)

    assert stat.S_ISREG((root / other).lstat().st_mode), "the two were swapped"
    assert mode_of(root / other) == 0o644
    assert mode_of(root / "fifo" if other == "link" else root / "file") == 0o600


def test_a_link_is_made_and_replaced_at_once(writer: Writer, root: Path, outside: Path) -> None:
    """A link replaces a file or another link under its name; its target may be anything and is not
    looked at.
    """
    (root / "d").mkdir()
    (root / "d/link").write_bytes(b"a file")
    for target in (os.fsencode(outside / "file"), b"../../\xff\n", b"/nowhere"):
        made = writer.symlink(b"d/link", target)

        assert seen(made) == seen((root / "d/link").lstat())
        assert stat.S_ISLNK(made.st_mode)
        assert writer.readlink(b"d/link") == target
    assert os.listdir(root / "d") == ["link"]


@pytest.mark.parametrize("target", [b"", b"a\0b"])
def test_a_target_that_no_link_can_have(writer: Writer, root: Path, target: bytes) -> None:
    """An empty target or one with a NUL byte is a bad value, and the old file stays."""
    (root / "link").write_bytes(b"old")

    with pytest.raises(BadValue, match="cannot be a link"):
        writer.symlink(b"link", target)
    assert files(root) == {"link": b"old"}


def test_a_root_that_is_a_link_or_a_file_is_refused(tmp_path: Path, root: Path) -> None:
    """The root itself is not reached through a link either, and must be a directory."""
    (tmp_path / "link").symlink_to(root)
    (tmp_path / "file").write_bytes(b"")
    for path in (tmp_path / "link", tmp_path / "file", tmp_path / "absent"):
        with pytest.raises(GitcpError, match="cannot open"):
            Writer(path)


# ---------------------------------------------------------------- what may not be replaced


@pytest.fixture
def special(root: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[bytes, str]]:
    """One of each kind that is never replaced, with what a message calls it."""
    (root / "directory").mkdir()
    (root / "full").mkdir()
    (root / "full/file").write_bytes(b"content")
    os.mkfifo(root / "fifo")
    with socket.socket(socket.AF_UNIX) as server:
        with monkeypatch.context() as inside:
            inside.chdir(root)  # the path of a socket may have 107 bytes only
            server.bind("socket")
        yield {
            b"directory": "a directory",
            b"full": "a directory",
            b"fifo": "a FIFO",
            b"socket": "a socket",
        }


def test_directories_and_special_files_are_not_replaced(
    writer: Writer, root: Path, special: dict[bytes, str]
) -> None:
    """Write, link and remove refuse them by name, before a byte of the new content is asked for."""
    before = {name: seen((root / name).lstat()) for name in os.listdir(root)}

    def never() -> Iterator[bytes]:
        raise AssertionError("the content was read")
        yield b""

    for path, kind in special.items():
        calls: list[Callable[[], object]] = [
            partial(writer.write, path, never(), 0o644),
            partial(writer.symlink, path, b"x"),
            partial(writer.remove, path),
            partial(next, writer.read(path)),
        ]
        for call in calls:
            with pytest.raises(PathBlocked, match=f"{path.decode()} is {kind}, not a file"):
                call()
    assert {name: seen((root / name).lstat()) for name in os.listdir(root)} == before


def test_special_files_keep_their_mode(
    writer: Writer, root: Path, special: dict[bytes, str]
) -> None:
    """chmod is for files and directories only."""
    for path in (b"fifo", b"socket"):
        before = mode_of(root / path.decode())
        with pytest.raises(PathBlocked):
            writer.chmod(path, 0o777)
        assert mode_of(root / path.decode()) == before


def test_a_file_on_the_way_blocks(writer: Writer, root: Path) -> None:
    """A parent that is a file is not replaced by a directory."""
    (root / "file").write_bytes(b"content")

    with pytest.raises(PathBlocked, match="file is a file, not a directory"):
        writer.write(b"file/below/x", [b"x"], 0o644)
    with pytest.raises(PathBlocked):
        writer.make_directory(b"file")
    assert writer.lstat(b"file/below") is None
    assert not writer.remove_directory(b"file")
    assert files(root) == {"file": b"content"}


def test_a_block_is_a_refusal() -> None:
    """PathBlocked is a Refused, and so leaves with that exit code."""
    assert issubclass(PathBlocked, Refused)


# ---------------------------------------------------------------- looking


def test_lstat_tells_what_is_there(writer: Writer, root: Path, outside: Path) -> None:
    """The link and not its target; None for what is absent, or below what is absent or no
    directory.
    """
    (root / "link").symlink_to(outside / "file")
    (root / "file").write_bytes(b"x")

    assert seen(writer.lstat(b"link")) == seen((root / "link").lstat())
    assert seen(writer.lstat(b"file")) == seen((root / "file").lstat())
    assert [writer.lstat(path) for path in (b"no", b"no/way", b"file/x", b"link/x")] == [None] * 4


def test_names_in_a_directory(writer: Writer, root: Path, outside: Path) -> None:
    """Sorted; none where there is no directory any more, or never was, or a link to one."""
    for name in (b"b", b"\xff", b"a"):
        writer.write(b"d/" + name, [b"x"], 0o644)
    (root / "link").symlink_to(outside)

    assert writer.names(b"d") == [b"a", b"b", b"\xff"]
    assert [writer.names(path) for path in (b"gone", b"gone/too", b"d/a", b"link")] == [[]] * 4


def test_reading_is_for_files_only(writer: Writer, root: Path, outside: Path) -> None:
    """A link is not followed and a missing file is an error; so is readlink of a file."""
    (root / "link").symlink_to(outside / "file")
    (root / "file").write_bytes(b"x")

    with pytest.raises(PathBlocked, match="link is a symbolic link, not a file"):
        list(writer.read(b"link"))
    with pytest.raises(GitcpError, match="cannot read gone"):
        list(writer.read(b"gone"))
    with pytest.raises(PathBlocked, match="file is a file, not a symbolic link"):
        writer.readlink(b"file")


def test_a_large_file_is_read_in_chunks_and_copied(writer: Writer, root: Path) -> None:
    """One path may be written from what is read at another, in another directory, chunk by
    chunk.
    """
    content = os.urandom(1_000_000)
    writer.write(b"a/b/from", [content], 0o644)

    writer.write(b"c/to", writer.read(b"a/b/from"), 0o644)

    assert max(map(len, writer.read(b"c/to"))) < len(content)
    assert files(root / "c") == {"to": content}
    assert files(root / "a") == {"b": None, "b/from": content}


# ---------------------------------------------------------------- removing, directories, modes


def test_remove_takes_files_and_links_only(writer: Writer, root: Path, outside: Path) -> None:
    """A link goes and its target stays; what is absent is fine."""
    (root / "link").symlink_to(outside / "file")
    (root / "file").write_bytes(b"x")
    for path in (b"link", b"file", b"file", b"never/was"):
        writer.remove(path)

    assert files(root) == {}


def test_directories_are_made_and_removed(writer: Writer, root: Path) -> None:
    """Only an empty directory is removed, and the answer says whether there was one."""
    writer.make_directory(b"a/b/c")
    writer.make_directory(b"a/b")

    assert files(root) == {"a": None, "a/b": None, "a/b/c": None}
    assert not writer.remove_directory(b"a/b")
    assert writer.remove_directory(b"a/b/c")
    assert not writer.remove_directory(b"a/b/c")
    assert not writer.remove_directory(b"none/at/all")
    assert files(root) == {"a": None, "a/b": None}


def test_a_removed_directory_is_made_again(writer: Writer, root: Path) -> None:
    """A directory that went, by us or by others, is not written to as if it were still there."""
    writer.write(b"a/b/x", [b"1"], 0o644)
    writer.remove(b"a/b/x")
    assert writer.remove_directory(b"a/b")
    (root / "a").rmdir()

    writer.write(b"a/b/x", [b"2"], 0o644)

    assert files(root) == {"a": None, "a/b": None, "a/b/x": b"2"}


def test_chmod_works_on_what_cannot_be_read(writer: Writer, root: Path) -> None:
    """A file and a directory of mode 0000 get their bits; a directory keeps its setgid bit, a file
    gets none.
    """
    (root / "file").write_bytes(b"secret")
    (root / "file").chmod(0)
    (root / "directory").mkdir()
    (root / "directory").chmod(0o2000)
    with ordinary_user(root, root / "file", root / "directory"):
        writer.chmod(b"file", 0o4640)
        writer.chmod(b"directory", 0o750)

    assert mode_of(root / "file") == 0o640
    assert mode_of(root / "directory") & 0o777 == 0o750
    assert (root / "file").read_bytes() == b"secret"


def test_chmod_keeps_the_setgid_bit_of_a_directory(writer: Writer, root: Path) -> None:
    """A directory shared by a group stays so; a program that runs as its owner does not."""
    (root / "shared").mkdir()
    (root / "shared").chmod(0o2775)
    (root / "program").write_bytes(b"#!/bin/sh")
    (root / "program").chmod(0o4755)

    writer.chmod(b"shared", 0o700)
    writer.chmod(b"program", 0o700)

    assert mode_of(root / "shared") == 0o2700
    assert mode_of(root / "program") == 0o700


def test_chmod_never_follows_a_link(writer: Writer, root: Path, outside: Path) -> None:
    """The mode of a link's target is not ours to change."""
    (root / "link").symlink_to(outside / "file")
    (root / "to-directory").symlink_to(outside)
    before = mode_of(outside)
    for path in (b"link", b"to-directory"):
        with pytest.raises(PathBlocked, match="is a symbolic link"):
            writer.chmod(path, 0o777)
    with pytest.raises(GitcpError, match="cannot change the permissions of gone"):
        writer.chmod(b"gone", 0o777)

    assert mode_of(outside) == before


def test_chmod_of_a_hard_link_leaves_its_other_name(
    writer: Writer, root: Path, outside: Path
) -> None:
    """A file that has another name outside gets its mode as a file of its own."""
    os.link(outside / "file", root / "file")

    writer.chmod(b"file", 0o755)

    assert mode_of(root / "file") == 0o755
    assert (root / "file").read_bytes() == CANARY


# ---------------------------------------------------------------- failures


def unfinished(*chunks: bytes, error: BaseException) -> Iterator[bytes]:
    """Content that ends with an error."""
    yield from chunks
    raise error


@pytest.mark.parametrize(
    "error", [KeyboardInterrupt(), GitcpError("object is damaged"), MemoryError()]
)
def test_content_that_breaks_off_changes_nothing(
    writer: Writer, root: Path, error: BaseException
) -> None:
    """Ctrl-C or a damaged object in the middle: the old file is whole, no new file or directory is
    left.
    """
    (root / "file").write_bytes(b"old")
    for path in (b"file", b"new", b"a/b/new"):
        with pytest.raises(type(error)):
            writer.write(path, unfinished(b"half", error=error), 0o644)

    assert files(root) == {"file": b"old"}


@pytest.mark.parametrize("call", ["open", "write", "fchmod", "fsync", "rename"])
@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT, errno.EIO])
def test_each_step_may_fail(
    writer: Writer, root: Path, monkeypatch: pytest.MonkeyPatch, call: str, code: int
) -> None:
    """Whichever system call fails, the old file is whole and nothing is left; a full disk is called
    so.
    """
    (root / "file").write_bytes(b"old")
    real = getattr(os, call)

    def failing(*args: Any, **options: Any) -> Any:
        if call != "open" or is_temporary(args[0] if isinstance(args[0], bytes) else b""):
            raise OSError(code, os.strerror(code))
        return real(*args, **options)

    for path in (b"file", b"a/b/new"):
        with monkeypatch.context() as broken:
            broken.setattr(os, call, failing)
            with pytest.raises(GitcpError, match="It was not changed") as caught:
                writer.write(path, [b"new"], 0o644)
        assert isinstance(caught.value, DiskFull) == (code != errno.EIO)
        assert path.decode() in str(caught.value)
    assert files(root) == {"file": b"old"}


def test_a_full_disk(tiny_disk: Path) -> None:
    """On a disk that is really full the old files are whole, and writing works again once there is
    room.
    """
    with Writer(tiny_disk) as writer:
        writer.write(b"file", [b"old" * 1000], 0o644)
        for path in (b"file", b"d/new"):
            with pytest.raises(DiskFull, match="the disk is full"):
                writer.write(path, [b"x" * 40_000, b"x" * 40_000], 0o644)
            assert files(tiny_disk) == {"file": b"old" * 1000}
        writer.write(b"file", [b"new" * 5000], 0o644)
    assert files(tiny_disk) == {"file": b"new" * 5000}


def test_a_write_that_is_cut_short(writer: Writer, root: Path) -> None:
    """A limit hit in the middle of a file (a part of it is on the disk already) leaves the old
    one.
    """
    (root / "file").write_bytes(b"old")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, hard))
    try:
        with pytest.raises(GitcpError, match="cannot write file: File too large"):
            writer.write(b"file", [b"x" * 50_000], 0o644)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))

    assert files(root) == {"file": b"old"}


def test_a_read_only_directory(writer: Writer, root: Path) -> None:
    """The error names the path and the reason, and nothing has changed."""
    (root / "d").mkdir()
    (root / "d/file").write_bytes(b"old")
    (root / "d").chmod(0o555)
    calls: dict[str, Callable[[], object]] = {
        "write d/file": lambda: writer.write(b"d/file", [b"new"], 0o644),
        "write d/sub/new": lambda: writer.write(b"d/sub/new", [b"new"], 0o644),
        "write d/link": lambda: writer.symlink(b"d/link", b"x"),
        "remove d/file": lambda: writer.remove(b"d/file"),
        "make the directory d/sub": lambda: writer.make_directory(b"d/sub"),
    }
    with ordinary_user(root, root / "d", root / "d/file"):
        for action, call in calls.items():
            with pytest.raises(
                GitcpError, match=f"^cannot {action}: Permission denied. It was not changed$"
            ):
                call()
    (root / "d").chmod(0o755)

    assert files(root) == {"d": None, "d/file": b"old"}


def test_a_directory_that_may_not_be_entered(writer: Writer, root: Path) -> None:
    """What cannot be looked into is an error, and never taken for absent."""
    (root / "closed").mkdir()
    (root / "closed/file").write_bytes(b"x")
    (root / "closed").chmod(0)
    with (
        ordinary_user(root, root / "closed"),
        pytest.raises(GitcpError, match="cannot examine closed/file: Permission"),
    ):
        writer.lstat(b"closed/file")
    (root / "closed").chmod(0o755)


def test_somebody_else_replaces_the_file_at_once(
    writer: Writer, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A stat of our file is returned, never one of a stranger's: whoever keeps it will notice the
    change.
    """
    real = os.rename

    def overtaken(*args: Any, **options: Any) -> None:
        real(*args, **options)
        (root / "other").write_bytes(b"theirs")
        real(root / "other", root / "file")

    monkeypatch.setattr(os, "rename", overtaken)
    made = writer.write(b"file", [b"ours"], 0o644)

    assert made.st_ino != (root / "file").stat().st_ino
    assert (root / "file").read_bytes() == b"theirs"


# --------------------------------------------------------------- durability and what a crash leaves


def test_content_reaches_the_disk_before_the_name(
    writer: Writer, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """fsync of the file, then rename; flush syncs each directory that changed, once."""
    steps: list[int | str] = []
    real_fsync, real_rename = os.fsync, os.rename

    def fsync(descriptor: int) -> None:
        steps.append(os.fstat(descriptor).st_ino)
        real_fsync(descriptor)

    def rename(*args: Any, **options: Any) -> None:
        steps.append("rename")
        real_rename(*args, **options)

    monkeypatch.setattr(os, "fsync", fsync)
    monkeypatch.setattr(os, "rename", rename)
    made = [writer.write(path, [b"x"], 0o644).st_ino for path in (b"d/a", b"d/b", b"gone/x")]
    writer.remove(b"gone/x")
    writer.remove_directory(b"gone")
    assert steps == [made[0], "rename", made[1], "rename", made[2], "rename"]

    steps.clear()
    writer.flush()
    assert sorted(map(str, steps)) == sorted(
        str(place.stat().st_ino) for place in (root, root / "d")
    )

    steps.clear()
    writer.flush()
    assert steps == []


@pytest.mark.parametrize(
    ("change", "touched"),
    [
        (lambda writer: writer.write(b"d/file", [b"x"], 0o644), ["d"]),
        (
            lambda writer: writer.write(b"d/new/sub/file", [b"x"], 0o644),
            ["d", "d/new", "d/new/sub"],
        ),
        (lambda writer: writer.symlink(b"d/file", b"x"), ["d"]),
        (lambda writer: writer.remove(b"d/file"), ["d"]),
        (lambda writer: writer.make_directory(b"d/one/two"), ["d", "d/one"]),
        (lambda writer: writer.remove_directory(b"d/empty"), ["d"]),
        (lambda writer: writer.sweep(b"d"), ["d"]),
        (lambda writer: writer.sweep(b""), []),
        (lambda writer: writer.remove(b"d/absent"), []),
        (lambda writer: writer.remove_directory(b"d/absent"), []),
    ],
)
def test_every_change_of_a_name_is_flushed(
    writer: Writer,
    root: Path,
    monkeypatch: pytest.MonkeyPatch,
    change: Callable[[Writer], object],
    touched: list[str],
) -> None:
    """Whatever makes, replaces or removes a name has its directory synced; what changes nothing
    syncs nothing.
    """
    (root / "d/empty").mkdir(parents=True)
    (root / "d/file").write_bytes(b"x")
    (root / "d/.gitcp-tmp-0123456789abcdef").write_bytes(b"half")
    change(writer)
    synced: list[int] = []
    monkeypatch.setattr(os, "fsync", lambda descriptor: synced.append(os.fstat(descriptor).st_ino))
    writer.flush()

    assert sorted(synced) == sorted((root / name).stat().st_ino for name in touched)


def test_flushed_while_something_else_goes_on(
    writer: Writer, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every directory, however many; what changes meanwhile is for the next flush. An error is
    raised at the end.
    """
    synced: list[int] = []
    for number in range(3 * fsync.OPEN):
        writer.make_directory(b"d%d/e" % number)
    monkeypatch.setattr(os, "fsync", lambda descriptor: synced.append(os.fstat(descriptor).st_ino))
    with writer.flushing():
        writer.make_directory(b"later/e")
    assert sorted(synced) == sorted(path.stat().st_ino for path in (root, *root.glob("d*")))
    synced.clear()
    writer.flush()
    assert sorted(synced) == sorted(path.stat().st_ino for path in (root, root / "later"))

    def failing(descriptor: int) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    writer.make_directory(b"last")
    monkeypatch.setattr(os, "fsync", failing)
    reached = False
    with pytest.raises(GitcpError, match="cannot sync the directory"), writer.flushing():
        reached = True
    assert reached


def test_a_directory_that_cannot_be_synced_is_reported(
    writer: Writer, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """flush says which directory failed and tries it again next time; a file system without such
    syncs is fine.
    """
    writer.write(b"d/a", [b"x"], 0o644)
    synced: list[int] = []

    def failing(code: int) -> Callable[[int], None]:
        def fsync(descriptor: int) -> None:
            raise OSError(code, os.strerror(code))

        return fsync

    monkeypatch.setattr(os, "fsync", failing(errno.EIO))
    with pytest.raises(GitcpError, match=r"cannot sync the directory \.: .*power loss"):
        writer.flush()
    monkeypatch.setattr(os, "fsync", failing(errno.EINVAL))
    writer.flush()
    monkeypatch.setattr(os, "fsync", synced.append)
    writer.flush()

    assert synced == []


def test_sweep_removes_what_a_crash_left(writer: Writer, root: Path) -> None:
    """Unfinished files and links go, from the one directory that was named; look-alikes stay."""
    for directory in (root, root / "d", root / "d/sub"):
        directory.mkdir(exist_ok=True)
        (directory / ".gitcp-tmp-0123456789abcdef").write_bytes(b"half")
        (directory / ".gitcp-tmp-00000000000000ff").symlink_to("x")
    stay = [
        ".gitcp-tmp-",
        ".gitcp-tmp-notes.txt",
        ".gitcp-tmp-0123456789ABCDEF",
        "x.gitcp-tmp-0123456789abcdef",
    ]
    for name in stay:
        (root / "d" / name).write_bytes(b"mine")
    (root / "d/.gitcp-tmp-1111111111111111").mkdir()

    assert writer.sweep(b"d") == 2
    assert sorted(os.listdir(root / "d")) == sorted([*stay, "sub", ".gitcp-tmp-1111111111111111"])
    assert len(os.listdir(root / "d/sub")) == 2
    assert writer.sweep(b"") == 2
    assert os.listdir(root) == ["d"]
    assert writer.sweep(b"") == writer.sweep(b"absent") == 0


def test_a_killed_writer_leaves_what_sweep_finds(root: Path) -> None:
    """After a kill in the middle of a write the old file is whole, and one sweep removes all that
    is left.
    """
    (root / "file").write_bytes(b"old")

    def killing() -> Iterator[bytes]:
        yield b"half"
        os.kill(os.getpid(), signal.SIGKILL)

    child = os.fork()
    if child == 0:
        with suppress(BaseException), Writer(root) as doomed:
            doomed.write(b"file", killing(), 0o644)
        os._exit(0)
    _, status = os.waitpid(child, 0)

    assert os.WTERMSIG(status) == signal.SIGKILL
    assert len(os.listdir(root)) == 2
    with Writer(root) as writer:
        assert writer.sweep(b"") == 1
    assert files(root) == {"file": b"old"}


def test_no_descriptor_is_left_open(root: Path) -> None:
    """A writer gives back every descriptor, after successes and failures."""
    before = os.listdir("/dev/fd")
    with Writer(root) as writer:
        writer.write(b"a/b/c/d", [b"x"], 0o644)
        next(writer.read(b"a/b/c/d"))
        with suppress(PathBlocked):
            writer.write(b"a/b", [b"x"], 0o644)
        with suppress(PathBlocked):
            writer.write(b"a/b/c/d/e", [b"x"], 0o644)
        writer.flush()

    assert os.listdir("/dev/fd") == before
