"""Which processes have files open, as far as the system tells: on Linux, those of this user."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator
from contextlib import suppress

from gitcp.worktree.sqlite_locks import named

WRITES = os.O_WRONLY | os.O_RDWR


def writers(paths: Collection[bytes]) -> dict[bytes, tuple[str, ...]]:
    """Return the processes that have one of these files open for writing, by absolute path: name
    and number. This process is one of them. Follows no links.
    """
    wanted: dict[tuple[int, int], list[bytes]] = {}
    for path in paths:
        with suppress(OSError):
            status = os.lstat(path)
            wanted.setdefault((status.st_dev, status.st_ino), []).append(path)
    names = {os.path.basename(path) for path in paths}
    users: dict[bytes, set[int]] = {}
    for pid, identity in _written_files(names) if wanted else ():
        for path in wanted.get(identity, ()):
            users.setdefault(path, set()).add(pid)
    return {path: tuple(map(named, sorted(pids))) for path, pids in users.items()}


def _written_files(names: Collection[bytes]) -> Iterator[tuple[int, tuple[int, int]]]:
    """Yield the device and inode of each file of such a name that a process may write."""
    with suppress(OSError):
        for entry in os.listdir("/proc"):
            if entry.isdigit():
                yield from _written_by(int(entry), names)


def _written_by(pid: int, names: Collection[bytes]) -> Iterator[tuple[int, tuple[int, int]]]:
    directory = f"/proc/{pid}/fd"
    with suppress(OSError):
        for descriptor in os.listdir(directory):
            with suppress(OSError, ValueError):
                link = os.fsencode(os.readlink(f"{directory}/{descriptor}"))
                if os.path.basename(link) in names and _may_write(pid, descriptor):
                    status = os.stat(f"{directory}/{descriptor}")
                    yield pid, (status.st_dev, status.st_ino)


def _may_write(pid: int, descriptor: str) -> bool:
    with open(f"/proc/{pid}/fdinfo/{descriptor}", "rb") as file:
        for line in file:
            if line.startswith(b"flags:"):
                return bool(int(line.split()[1], 8) & WRITES)
    return False
