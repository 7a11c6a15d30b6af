"""Bytes and names that survive power loss.

Of many files that are fsynced each waits for the disk, and eight that wait together wait hardly
longer than one. They do it in bare threads: `threading` would cost a small save more than what is
won.
"""

from __future__ import annotations

import errno
import os
import stat
from _thread import allocate_lock, start_new_thread
from contextlib import suppress

from gitcp.fastpath import trusted_cache
from gitcp.git import shared

TYPE_CHECKING = False
if TYPE_CHECKING:
    from _thread import LockType
    from collections.abc import Callable, Iterable, Sequence
    from pathlib import Path
    from typing import Any

FULL = (errno.ENOSPC, errno.EDQUOT)
"""How the system says that a disk is full, or this user's part of it."""

AT_ONCE = 8
"""Threads that wait, this one included; more win nothing."""

EACH = 3
"""Files for which a thread pays: to start one takes a fifth of the wait for a file."""

OPEN = 64
"""Files that are open at a time."""


def write_all(descriptor: int, data: bytes) -> None:
    """Write all of it, where the system takes a part at a time too. Raises OSError."""
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(descriptor, rest) :]


def sync_file(path: str | Path) -> None:
    """fsync a file."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sync_directory(path: str | Path) -> None:
    """fsync a directory, so that the names in it survive power loss."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def make_directories(path: Path) -> None:
    """Make a directory and those above it, as far as they are missing; they survive power loss.

    In a shared repository its other members can use them. Raises OSError.
    """
    try:
        path.mkdir()
    except FileExistsError:
        return
    except FileNotFoundError:
        make_directories(path.parent)
        path.mkdir(exist_ok=True)
    shared.adjust(path)
    sync_directory(path.parent)


def create(path: str | Path, mode: int = 0o600) -> int:
    """A new file, open for reading and writing, in place of whatever a crash left by that name.
    Raises OSError.

    Never writes through a link, whoever put it there.
    """
    flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        return os.open(path, flags, mode)
    except FileExistsError:
        os.unlink(path)
        return os.open(path, flags, mode)


def write_new(
    path: str | Path, data: bytes, mode: int = 0o600, *, sync: bool, private: bool = False
) -> None:
    """Write a new file, in place of whatever a crash left by that name. Raises OSError; the file
    may be there then.

    In a shared repository its other members can read it, unless it is `private`.
    """
    descriptor = create(path, mode)
    try:
        write_all(descriptor, data)
        if not private:
            shared.share(descriptor, path)
        if sync:
            os.fsync(descriptor)
    finally:
        os.close(descriptor)


def replace_file(
    path: str | Path, data: bytes, *, sync: bool = True, private: bool = False
) -> None:
    """Replace one of gitcp's own files as a whole: there is the old one or the new one. Raises
    OSError.

    For its owner alone, and in a shared repository for its other members, unless it is `private`.
    Nothing is left of a write that failed.
    """
    temporary = f"{path}.{os.getpid()}"
    try:
        write_new(temporary, data, sync=sync, private=private)
        os.replace(temporary, path)
    except BaseException:
        with suppress(OSError):
            os.unlink(temporary)
        raise
    if sync:
        sync_directory(os.path.dirname(path))


def replace_cache(path: str | Path, value: Any) -> None:
    """Replace a cache as a whole (see gitcp.fastpath.trusted_cache), for this user alone; a power
    cut may cost it.

    Raises OSError, and ValueError for what marshal refuses.
    """
    replace_file(path, trusted_cache.dump(value), sync=False, private=True)


def open_own(path: str | Path) -> int:
    """Open one of gitcp's own files to read it. Raises OSError, also where it is no ordinary file:
    never waits.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(errno.EINVAL, "not an ordinary file", os.fspath(path))
    return descriptor


def read_own(path: str | Path) -> bytes:
    """The bytes of one of gitcp's own files. Raises OSError, as `open_own`."""
    with open(open_own(path), "rb") as file:
        return file.read()


def open_shared(path: Path, flags: int) -> int:
    """Open one of gitcp's own files, made if it is missing, for its owner and in a shared
    repository for its members.

    Raises OSError, also where it is a link.
    """
    flags |= os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        return os.open(path, flags)
    except FileNotFoundError:
        descriptor = os.open(path, flags | os.O_CREAT, 0o600)
    try:
        shared.share(descriptor, path)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def make_own_directory(path: Path) -> None:
    """Make a directory for gitcp's own files, for its owner and in a shared repository for its
    members; or find it.

    Raises OSError.
    """
    try:
        path.mkdir(mode=0o700)
    except FileExistsError:
        return
    shared.adjust(path)


def sync(descriptors: Sequence[int]) -> list[OSError | None]:
    """fsync open files and directories: what the system said of each, None where it is on the
    disk.
    """
    said: list[BaseException | None] = [None] * len(descriptors)
    waiting = list(enumerate(descriptors))[::-1]

    def work() -> None:
        while waiting:
            try:
                number, descriptor = waiting.pop()
            except IndexError:  # another thread took the last one
                return
            try:
                os.fsync(descriptor)
            except BaseException as error:  # noqa: BLE001 -- raised below, in the thread that asked
                said[number] = error

    _together(work, min(AT_ONCE, -(-len(descriptors) // EACH)))
    for error in said:
        if error is not None and not isinstance(error, OSError):
            raise error
    return [error if isinstance(error, OSError) else None for error in said]


def begin_sync(descriptors: Sequence[int]) -> Callable[[], list[OSError | None]]:
    """`sync` while this thread goes on. What is returned waits for it, and returns what it
    returned.
    """
    said: list[OSError | None] = []
    failed: list[BaseException] = []
    done = allocate_lock()
    done.acquire()

    def work() -> None:
        try:
            said.extend(sync(descriptors))
        except BaseException as error:  # noqa: BLE001 -- raised below, in the thread that asked
            failed.append(error)
        finally:
            done.release()

    def ended() -> list[OSError | None]:
        try:
            done.acquire()
        except BaseException:  # whoever asked closes them next
            done.acquire()
            raise
        if failed:
            raise failed[0]
        return said

    try:
        start_new_thread(work, ())
    except RuntimeError:  # the system has no more of them
        work()
    return ended


def sync_paths(paths: Iterable[str | os.PathLike[str]]) -> None:
    """fsync files and directories, by name; what is gone is left out. Raises OSError."""
    left = list(paths)
    while left:
        now, left = left[:OPEN], left[OPEN:]
        descriptors: list[int] = []
        try:
            for path in now:
                try:
                    descriptors.append(os.open(path, os.O_RDONLY | os.O_CLOEXEC))
                except FileNotFoundError:
                    continue
            failed = [error for error in sync(descriptors) if error is not None]
        finally:
            for descriptor in descriptors:
                os.close(descriptor)
        if failed:
            raise failed[0]


def _together(work: Callable[[], None], threads: int) -> None:
    """Run `work` in this thread and in others, and wait until it is done in all of them."""
    others = []
    try:
        for _ in range(threads - 1):
            lock = allocate_lock()
            lock.acquire()
            try:
                start_new_thread(_until_released, (work, lock))
            except RuntimeError:  # the system has no more of them
                break
            others.append(lock)
        work()
    finally:
        for lock in others:
            lock.acquire()


def _until_released(work: Callable[[], None], lock: LockType) -> None:
    try:
        work()
    finally:
        lock.release()
