"""Write files that survive power loss.

Each fsync waits for the disk, and eight concurrent ones take hardly longer than one. They run in
bare threads: importing `threading` would cost a small save more than it gains.
"""

from __future__ import annotations

import errno
import os
import stat
from _thread import allocate_lock, start_new_thread
from contextlib import contextmanager, suppress

from gitcp import trusted_cache
from gitcp.git import shared

TYPE_CHECKING = False
if TYPE_CHECKING:
    from _thread import LockType
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from pathlib import Path
    from typing import Any

FULL = (errno.ENOSPC, errno.EDQUOT)
"""The errors of a full disk or an exceeded quota."""

AT_ONCE = 8
"""Maximum number of waiting threads, including this one; more do not help."""

EACH = 3
"""Files per additional thread: starting one takes a fifth of the wait for a file."""

OPEN = 64
"""Maximum number of files open at a time."""


def write_all(descriptor: int, data: bytes) -> None:
    """Write all of `data`, even if the system accepts only parts. Raises OSError."""
    rest = memoryview(data)
    while rest:
        # A ref that the system wrote in parts was reported as a full disk, and half a run's journal
        # was read as a whole one.
        rest = rest[os.write(descriptor, rest) :]


def sync_file(path: str | Path) -> None:
    """Make a file's content durable."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sync_directory(path: str | Path) -> None:
    """Make the names in a directory durable."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def make_directories(path: Path) -> None:
    """Create a directory and its missing parents, durably.

    In a shared repository, other members can use them. Raises OSError.
    """
    ahead = [path]
    while ahead:
        try:
            ahead[-1].mkdir()
        except FileExistsError:
            ahead.pop()
            continue
        except FileNotFoundError:
            ahead.append(ahead[-1].parent)
            continue
        made = ahead.pop()
        shared.give_directory(made)
        shared.adjust(made)
        sync_directory(made.parent)


def create(path: str | Path, mode: int = 0o600) -> int:
    """Open a new file for reading and writing, replacing a leftover of a crash. Raises OSError.

    Never writes through a link.
    """
    flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        return os.open(path, flags, mode)
    except FileExistsError:
        os.unlink(path)
        return os.open(path, flags, mode)


def write_new(path: str | Path, data: bytes, mode: int, *, durable: bool) -> None:
    """Write a new file, replacing a leftover of a crash. Raises OSError; the file may then exist.
    Used for refs, which are renamed under git's lock (gitcp.git.refs).
    """
    descriptor = create(path, mode)
    try:
        write_all(descriptor, data)
        shared.share(descriptor, path)
        if durable:
            os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def replacing(
    path: str | Path,
    *,
    temporary: str | Path | None = None,
    mode: int = 0o600,
    durable: bool = True,
    private: bool = False,
    overwrite: bool = True,
    keep_open: bool = False,
) -> Iterator[int]:
    """Write a whole file: yield the descriptor of a new file, which is renamed to `path` when the
    block ends; until then the old one exists. All small files are written this way, gitcp's own and
    the user's. A link at `path` is replaced, not followed.

    The file is named `temporary` in between, survives power loss if `durable`, and is readable by
    its owner only, or according to `mode` and the umask; in a shared repository also by other
    members, unless `private`. With `keep_open` the descriptor stays open after the block.

    Raises OSError; FileExistsError if `path` exists and `overwrite` is false. A failed write leaves
    nothing behind.
    """
    temporary = temporary or f"{path}.{os.getpid()}"
    descriptor = create(temporary, mode)
    try:
        yield descriptor
        if not private:
            shared.share(descriptor, path)
        if durable:
            os.fsync(descriptor)
        (os.replace if overwrite else _name_new)(temporary, path)
        if durable:
            sync_directory(os.path.dirname(path) or os.curdir)
    except BaseException:
        os.close(descriptor)
        with suppress(OSError):
            os.unlink(temporary)
        raise
    if not keep_open:
        os.close(descriptor)


def _name_new(temporary: str | Path, path: str | Path) -> None:
    """Rename a finished file, without replacing another."""
    try:
        os.link(temporary, path)
    except OSError as error:
        if error.errno not in (errno.EPERM, errno.ENOTSUP):
            raise
        # A file system without hard links: reserve the name first, then rename over it.
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600))
        try:
            os.replace(temporary, path)
        except OSError:
            os.unlink(path)
            raise
    else:
        os.unlink(temporary)


def is_running(pid: str) -> bool:
    """Return whether the process exists that owns a temporary file, by the pid in its name."""
    try:
        os.kill(int(pid), 0)
    except (ValueError, OverflowError, ProcessLookupError):
        return False
    except PermissionError:
        pass
    return True


def replace_file(
    path: str | Path, data: bytes, *, durable: bool = True, private: bool = False
) -> None:
    """Replace one of gitcp's own files with `data`. Raises OSError."""
    with replacing(path, durable=durable, private=private) as descriptor:
        write_all(descriptor, data)


def replace_cache(path: str | Path, value: Any) -> None:
    """Replace a cache (see gitcp.trusted_cache), readable by this user only. It may be lost in a
    power failure. The path is absolute, and as it is read.

    Raises OSError, and ValueError for values that marshal rejects.
    """
    sealed = trusted_cache.sealed(os.fspath(path), value)
    replace_file(path, sealed, durable=False, private=True)


def open_own(path: str | Path) -> int:
    """Open one of gitcp's own files for reading. Never blocks. Raises OSError, also if it is not a
    regular file.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(errno.EINVAL, "not an ordinary file", os.fspath(path))
    return descriptor


def read_own(path: str | Path) -> bytes:
    """Return the bytes of one of gitcp's own files. Raises OSError, as `open_own`."""
    with open(open_own(path), "rb") as file:
        return file.read()


def open_shared(path: Path, flags: int) -> int:
    """Open one of gitcp's own files, creating it if missing; in a shared repository other members
    can use it, even if git's settings have not been read, as in a hook.

    Raises OSError, also if it is a link.
    """
    flags |= os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        return os.open(path, flags)
    except FileNotFoundError:
        descriptor = os.open(path, flags | os.O_CREAT, 0o600)
    try:
        shared.share(descriptor, path)
        shared.share_like_directory(descriptor, os.fspath(path))
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def append_line(path: Path, line: bytes | Callable[[bytes, int], bytes], tail: int = 1) -> None:
    """Append a line to one of gitcp's own logs, and make it durable. `line` is without its line
    feed, or makes it of the last `tail` bytes of the file and its size in bytes, while no other
    process appends. Raises OSError.
    """
    import fcntl  # few processes append

    descriptor = open_shared(path, os.O_RDWR | os.O_APPEND)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        size = os.fstat(descriptor).st_size
        end = os.pread(descriptor, tail, max(0, size - tail))
        data = line if isinstance(line, bytes) else line(end, size)
        # Terminate a line truncated by a crash, or this one would be lost with it.
        write_all(descriptor, (b"\n" if size and not end.endswith(b"\n") else b"") + data + b"\n")
        os.fsync(descriptor)
        if not size:
            sync_directory(path.parent)
    finally:
        os.close(descriptor)


def make_own_directory(path: Path) -> None:
    """Create a directory for gitcp's own files if missing; in a shared repository other members can
    use it.

    Raises OSError.
    """
    try:
        path.mkdir(mode=0o700)
    except FileExistsError:
        return
    shared.give_directory(path)
    shared.adjust(path)


def sync(descriptors: Sequence[int]) -> list[OSError | None]:
    """fsync open files and directories. Return the error of each, None on success."""
    errors: list[BaseException | None] = [None] * len(descriptors)
    queue = list(enumerate(descriptors))[::-1]

    def work() -> None:
        while queue:
            try:
                number, descriptor = queue.pop()
            except IndexError:  # another thread took the last one
                return
            try:
                os.fsync(descriptor)
            except BaseException as error:  # noqa: BLE001 -- raised below, in the thread that asked
                errors[number] = error

    _run_in_threads(work, min(AT_ONCE, -(-len(descriptors) // EACH)))
    for error in errors:
        if error is not None and not isinstance(error, OSError):
            raise error
    return [error if isinstance(error, OSError) else None for error in errors]


def begin_sync(descriptors: Sequence[int]) -> Callable[[], list[OSError | None]]:
    """Start `sync` in the background. Return a function that waits for it and returns its
    result.
    """
    errors: list[OSError | None] = []
    failed: list[BaseException] = []
    done = allocate_lock()
    done.acquire()

    def work() -> None:
        try:
            errors.extend(sync(descriptors))
        except BaseException as error:  # noqa: BLE001 -- raised below, in the thread that asked
            failed.append(error)
        finally:
            done.release()

    def ended() -> list[OSError | None]:
        try:
            done.acquire()
        except BaseException:  # the caller closes the descriptors next
            done.acquire()
            raise
        if failed:
            raise failed[0]
        return errors

    try:
        start_new_thread(work, ())
    except RuntimeError:  # no more threads are available
        work()
    return ended


def sync_paths(paths: Iterable[str | os.PathLike[str]]) -> None:
    """fsync files and directories by path; missing ones are skipped. Raises OSError."""
    remaining = list(paths)
    while remaining:
        batch, remaining = remaining[:OPEN], remaining[OPEN:]
        descriptors: list[int] = []
        try:
            for path in batch:
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


def _run_in_threads(work: Callable[[], None], threads: int) -> None:
    """Run `work` in this thread and in others, and wait until all are done."""
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
