"""SQLite's locks: copy a database with its sidecars while no transaction can change what is read.

Files are opened for reading only, and only shared locks are taken, so nothing in the user's tree
changes: SQLite itself would create a `-shm` file, roll a journal back, or move the log into the
database when it closes. While somebody holds SHARED, nobody writes a database with a rollback
journal. In WAL mode, the lock of checkpoints keeps the database as it is; the log only grows, and
every beginning of it is consistent.

A process loses its locks on a file when it closes any descriptor of that file. So a program that
has the database open itself starts this file as a script, for which it imports nothing of gitcp.
"""

from __future__ import annotations

import fcntl
import os
import stat
import struct
import sys
import time
from contextlib import ExitStack, suppress

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    Stamp = tuple[int, int, int, int]
    """ctime in nanoseconds, size in bytes, inode, mode."""

    Copies = tuple[dict[bytes, tuple[os.stat_result, bool]], str]
    """The files that exist, by what is added to the database's name: the status, and whether the
    file was copied; and who held the lock, "" if it was had.
    """

PENDING = 0x40000000
SHARED = PENDING + 2
SHARED_SIZE = 510
CHECKPOINT = 121
"""Where SQLite's locks are: in the database, and that of checkpoints in its `-shm` file."""

MAIN, LOG, JOURNAL, MEMORY = b"", b"-wal", b"-journal", b"-shm"
MEMBERS = (MAIN, LOG, JOURNAL)
"""What is added to the name of a database, in the order in which its files are copied."""

FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
PAUSE = 0.005
BLOCK = 1 << 20
SOMEBODY = "another program"


class _Changed(Exception):
    """A file changed while it was copied."""


class _Locked(Exception):
    """Somebody else holds a lock."""


def copy(
    database: bytes, known: Mapping[bytes, Stamp], receivers: Mapping[bytes, int], until: float
) -> Copies:
    """Copy the files of a database, as they were at one moment, to the descriptors `receivers`.

    A file whose stamp is the `known` one is not copied. If the locks cannot be had `until` then, a
    time of `time.monotonic`, the files are copied without. Raises OSError.
    """
    while True:
        is_last = time.monotonic() >= until
        try:
            return _copied(database, known, receivers, locked=True), ""
        except _Locked as error:
            holder = str(error)
        except _Changed:
            holder = "a program without locks"
        if is_last:
            return _copied(database, {}, receivers, locked=False), holder
        time.sleep(PAUSE)


def _copied(
    database: bytes, known: Mapping[bytes, Stamp], receivers: Mapping[bytes, int], *, locked: bool
) -> dict[bytes, tuple[os.stat_result, bool]]:
    copied = {}
    with ExitStack() as stack:
        main = _opened(stack, database)
        if locked:
            memory = None
            with suppress(FileNotFoundError):
                memory = _opened(stack, database + MEMORY)
            _lock(main, memory)
        files = {MAIN: main}
        for member in (LOG, JOURNAL):
            with suppress(FileNotFoundError):
                files[member] = _opened(stack, database + member)
        for member, file in files.items():
            status = os.fstat(file)
            if not stat.S_ISREG(status.st_mode):
                continue
            is_known = known.get(member) == _stamp(status)
            if not is_known:
                _transfer(file, receivers[member], status.st_size)
            copied[member] = status, not is_known
        if locked and _has_changed(database, memory, files, copied):
            raise _Changed
    return copied


def _has_changed(
    database: bytes,
    memory: int | None,
    files: Mapping[bytes, int],
    copied: Mapping[bytes, tuple[os.stat_result, bool]],
) -> bool:
    """Return whether what the locks protect changed all the same. If nobody had a database in WAL
    mode open, there was no lock of checkpoints to take; if somebody opened it since, there is one.
    """
    if _stamp(os.fstat(files[MAIN])) != _stamp(copied[MAIN][0]):
        return True
    return memory is None and os.path.lexists(database + MEMORY)


def _opened(stack: ExitStack, path: bytes) -> int:
    descriptor = os.open(path, FLAGS)
    stack.callback(os.close, descriptor)
    return descriptor


def _lock(main: int, memory: int | None) -> None:
    """Take the locks; they go when the files are closed. Raises _Locked."""
    for start, size in ((PENDING, 1), (SHARED, SHARED_SIZE)):
        if not _try(main, start, size):
            fcntl.lockf(main, fcntl.LOCK_UN, 1, PENDING)
            raise _Locked(holder(main, start, size))
    fcntl.lockf(main, fcntl.LOCK_UN, 1, PENDING)
    if memory is not None and not _try(memory, CHECKPOINT, 1):
        raise _Locked(holder(memory, CHECKPOINT, 1))


def _try(file: int, start: int, size: int) -> bool:
    try:
        fcntl.lockf(file, fcntl.LOCK_SH | fcntl.LOCK_NB, size, start)
    except OSError:
        return False
    return True


def holder(file: int, start: int, size: int) -> str:
    """Return who keeps a shared lock from being taken, as far as the system tells."""
    pid = 0
    if sys.platform == "linux":
        with suppress(OSError):
            form = "hhqqi4x"  # struct flock
            asked = struct.pack(form, fcntl.F_RDLCK, os.SEEK_SET, start, size, 0)
            kind, _, _, _, pid = struct.unpack(form, fcntl.fcntl(file, fcntl.F_GETLK, asked))
            pid = 0 if kind == fcntl.F_UNLCK else pid
    return named(pid) if pid > 0 else SOMEBODY


def named(pid: int) -> str:
    """Return a process by its name and number."""
    name = ""
    with suppress(OSError), open(f"/proc/{pid}/comm", "rb") as file:
        name = file.read().decode("utf-8", "replace").strip()
    return f"{name or 'process'} (pid {pid})"


def _stamp(status: os.stat_result) -> Stamp:
    return status.st_ctime_ns, status.st_size, status.st_ino, status.st_mode


def _transfer(source: int, target: int, size: int) -> None:
    """Copy the first `size` bytes of a file. Raises _Changed if it is shorter by now."""
    os.ftruncate(target, 0)
    done = 0
    while done < size:
        count = _kernel_copy(source, target, size - done, done)
        if count is None:
            block = os.pread(source, min(BLOCK, size - done), done)
            count = os.pwrite(target, block, done)
        if not count:
            raise _Changed
        done += count


def _kernel_copy(source: int, target: int, size: int, offset: int) -> int | None:
    """Copy by the kernel, which shares the blocks where the file system can; None if it cannot."""
    if sys.platform == "linux":
        with suppress(OSError):
            return os.copy_file_range(source, target, size, offset, offset)
    return None


def _main() -> None:
    """Copy what another process asks for, and answer it on standard output."""
    import ast
    import pickle

    database, known, receivers, seconds = ast.literal_eval(sys.argv[1])
    answer: object
    try:
        answer = copy(database, known, receivers, time.monotonic() + seconds)
    except OSError as error:
        answer = error
    sys.stdout.buffer.write(pickle.dumps(answer))


if __name__ == "__main__":
    _main()
