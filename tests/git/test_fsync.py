"""gitcp.git.fsync: many files are synced at a time, and whatever happens to one is said of that
one.
"""

from __future__ import annotations

import errno
import os
import threading
from pathlib import Path
from typing import Any

import pytest

from gitcp.git import fsync as syncing


@pytest.fixture
def descriptors(tmp_path: Path) -> Any:
    opened = [os.open(tmp_path / f"{number:03}", os.O_CREAT | os.O_RDWR) for number in range(100)]
    yield opened
    for descriptor in opened:
        os.close(descriptor)


def test_each_is_synced_once(descriptors: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    """None is left out, and none is waited for twice; of nothing there is nothing to say."""
    synced: list[int] = []
    monkeypatch.setattr(os, "fsync", synced.append)

    assert syncing.sync(descriptors) == [None] * 100
    assert sorted(synced) == sorted(descriptors)
    assert syncing.sync([]) == []


def test_they_wait_together(descriptors: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    """Each goes on only when as many as may wait have begun: one after the other would break the
    gate.
    """
    gate = threading.Barrier(syncing.AT_ONCE, timeout=60)
    monkeypatch.setattr(os, "fsync", lambda descriptor: gate.wait())

    count = syncing.AT_ONCE * syncing.EACH
    assert syncing.sync(descriptors[:count]) == [None] * count


def test_an_error_is_that_of_its_file(
    descriptors: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that fails keeps no other from the disk."""
    synced: list[int] = []

    def fsync(descriptor: int) -> None:
        if descriptor in descriptors[10:12]:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        synced.append(descriptor)

    monkeypatch.setattr(os, "fsync", fsync)
    said = syncing.sync(descriptors)

    assert [number for number, error in enumerate(said) if error is not None] == [10, 11]
    assert len(synced) == 98


def test_an_interruption_comes_through(
    descriptors: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """When it is raised, no thread goes on with descriptors that the caller then closes."""
    begun, ended = [], []

    def fsync(descriptor: int) -> None:
        begun.append(descriptor)
        if descriptor == descriptors[3]:
            raise KeyboardInterrupt
        ended.append(descriptor)

    monkeypatch.setattr(os, "fsync", fsync)
    with pytest.raises(KeyboardInterrupt):
        syncing.sync(descriptors)

    assert len(ended) == len(begun) - 1


def test_begun_while_something_else_goes_on(
    descriptors: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is waited for before the end is asked for; then all of them are."""
    gate, synced = threading.Event(), []

    def fsync(descriptor: int) -> None:
        assert gate.wait(timeout=60)
        synced.append(descriptor)

    monkeypatch.setattr(os, "fsync", fsync)
    ended = syncing.begin_sync(descriptors)
    assert not synced
    gate.set()

    assert ended() == [None] * 100
    assert sorted(synced) == sorted(descriptors)


def test_begun_and_failed(descriptors: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    """What went wrong there is raised where the end is asked for; an error of the system is
    returned.
    """
    monkeypatch.setattr(os, "fsync", lambda _: (_ for _ in ()).throw(OSError(errno.EIO, "EIO")))
    assert [error.errno for error in syncing.begin_sync(descriptors)() if error] == [
        errno.EIO
    ] * 100
    monkeypatch.setattr(syncing, "sync", lambda _: (_ for _ in ()).throw(MemoryError()))
    with pytest.raises(MemoryError):
        syncing.begin_sync(descriptors)()


def test_without_threads(descriptors: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    """A system that gives no more threads costs time and nothing else."""

    def none_left(*_: object) -> None:
        raise RuntimeError("can't start new thread")

    synced: list[int] = []
    monkeypatch.setattr(syncing, "start_new_thread", none_left)
    monkeypatch.setattr(os, "fsync", synced.append)

    assert syncing.sync(descriptors) == [None] * 100
    assert synced == descriptors


def test_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Files and directories; what is gone is left out, an error is raised, and no descriptor stays
    open.
    """
    paths = [tmp_path, *(tmp_path / f"{number}" for number in range(200))]
    for path in paths[1:]:
        path.write_bytes(b"x")
    paths[7].unlink()
    synced: list[int] = []
    monkeypatch.setattr(os, "fsync", lambda descriptor: synced.append(os.fstat(descriptor).st_ino))
    open_before = len(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else 0

    syncing.sync_paths(paths)
    assert sorted(synced) == sorted(path.stat().st_ino for path in paths if path.exists())

    def fail(descriptor: int) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(OSError, match="Input/output"):
        syncing.sync_paths(paths)
    assert (len(os.listdir("/proc/self/fd")) if open_before else 0) == open_before


def read(path: Path) -> bytes | None:
    return path.read_bytes() if path.exists() else None


@pytest.mark.parametrize("before", [None, b"old"])
def test_replaced_as_a_whole(tmp_path: Path, before: bytes | None) -> None:
    """Until the block ends there is the old file; nothing else is left beside the new one."""
    path = tmp_path / "file"
    if before is not None:
        path.write_bytes(before)
    with syncing.replacing(path) as descriptor:
        os.write(descriptor, b"new")
        assert read(path) == before

    assert (os.listdir(tmp_path), read(path)) == (["file"], b"new")
    assert path.stat().st_mode & 0o777 == 0o600
    with pytest.raises(OSError, match=os.strerror(errno.EBADF)):
        os.fstat(descriptor)


@pytest.mark.parametrize("fails", ["block", "fsync", "replace"])
@pytest.mark.parametrize("keep_open", [False, True])
def test_a_write_that_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fails: str, keep_open: bool
) -> None:
    """The old file is as it was, and nothing is left: no file, no descriptor."""

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    path = tmp_path / "file"
    path.write_bytes(b"old")
    if fails != "block":
        monkeypatch.setattr(os, fails, full)
    opened = []

    def write() -> None:
        with syncing.replacing(path, keep_open=keep_open) as descriptor:
            opened.append(descriptor)
            os.write(descriptor, b"new")
            if fails == "block":
                full()

    with pytest.raises(OSError, match=os.strerror(errno.ENOSPC)):
        write()

    assert (os.listdir(tmp_path), read(path)) == (["file"], b"old")
    with pytest.raises(OSError, match=os.strerror(errno.EBADF)):
        os.fstat(opened[0])


@pytest.mark.parametrize("durable", [False, True])
def test_durable_means_synced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, durable: bool
) -> None:
    """The bytes before they have the name, the name after; of a cache neither."""
    path = tmp_path / "file"
    synced: list[tuple[bool, bool]] = []
    monkeypatch.setattr(
        os, "fsync", lambda each: synced.append((os.path.isdir(f"/dev/fd/{each}"), path.exists()))
    )
    syncing.replace_file(path, b"new", durable=durable)

    assert read(path) == b"new"
    assert synced == ([(False, False), (True, True)] if durable else [])


@pytest.mark.parametrize("links", [True, False])
def test_not_over_another(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, links: bool) -> None:
    """A file that came there meanwhile stays, also where there are no hard links."""

    def refused(*_: object) -> None:
        raise PermissionError(errno.EPERM, os.strerror(errno.EPERM))

    if not links:
        monkeypatch.setattr(os, "link", refused)
    path = tmp_path / "file"
    with syncing.replacing(path, overwrite=False) as descriptor:
        os.write(descriptor, b"first")
    with pytest.raises(FileExistsError), syncing.replacing(path, overwrite=False) as descriptor:
        os.write(descriptor, b"second")

    assert (os.listdir(tmp_path), read(path)) == (["file"], b"first")


def test_kept_open(tmp_path: Path) -> None:
    """What is done to the descriptor, a lock for one, holds for the file that is there."""
    path = tmp_path / "file"
    with syncing.replacing(path, keep_open=True) as descriptor:
        os.write(descriptor, b"new")

    assert os.path.samestat(os.fstat(descriptor), path.stat())
    os.close(descriptor)


def test_a_link_is_not_written_through(tmp_path: Path) -> None:
    """Neither one at the path, nor one that somebody put where the temporary file goes."""
    path, other = tmp_path / "file", tmp_path / "other"
    other.write_bytes(b"mine")
    path.symlink_to(other)
    Path(f"{path}.{os.getpid()}").symlink_to(other)
    syncing.replace_file(path, b"new")

    assert (read(other), read(path), path.is_symlink()) == (b"mine", b"new", False)
