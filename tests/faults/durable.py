"""What a power cut would leave: the calls of a command played on a disk that keeps only what was
fsynced.

The strictest disk that POSIX allows: a file's bytes are kept once the file was fsynced, and a name
(of a file or of a directory) once the directory that holds it was.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from faults.tracer import Call

WRITTEN = frozenset(
    "write pwrite64 writev sendfile ftruncate truncate fallocate pwritev copy_file_range".split()
)
MADE = frozenset("mkdir mkdirat symlink symlinkat open openat creat".split())
MOVED = frozenset("rename renameat renameat2".split())
GONE = frozenset("unlink unlinkat rmdir".split())
SYNCED = frozenset("fsync fdatasync".split())


class Disk:
    """Which bytes and which names would not survive, after the calls played so far; `there` was on
    it before.
    """

    def __init__(self, there: Iterable[str]) -> None:
        self.bytes: set[str] = set()
        self.names: set[str] = set()
        self._there = set(there)

    def play(self, call: Call) -> None:
        """Take one call into account. It is taken to have worked."""
        first = call.paths[0]
        if call.name in WRITTEN:
            self.bytes.add(first)
        elif call.name in MADE and first not in self._there:
            self._appear(first)
        elif call.name in ("link", "linkat"):
            self._appear(call.paths[1])
        elif call.name in MOVED:
            self._move(*call.paths)
        elif call.name in GONE:
            self._vanish(first)
        elif call.name in SYNCED:
            self.bytes.discard(first)
            self.names = {name for name in self.names if os.path.dirname(name) != first}

    def would_lose(self, below: str | Path) -> set[str]:
        """What of the files and names below a directory, and on the way to it, would not be there
        or not be whole.
        """
        inside = f"{below}/"
        return {
            path
            for path in self.bytes | self.names
            if path.startswith(inside) or inside.startswith(f"{path}/")
        }

    def _appear(self, path: str) -> None:
        self._there.add(path)
        self.names.add(path)

    def _move(self, old: str, new: str) -> None:
        if old in self.bytes:
            self.bytes.add(new)
        self._vanish(old)
        self._appear(new)

    def _vanish(self, path: str) -> None:
        self._there.discard(path)
        self.bytes.discard(path)
        self.names.discard(path)


def everything(root: Path) -> set[str]:
    """Every path that exists below a directory."""
    return {
        os.path.join(place, name)
        for place, below, names in os.walk(root)
        for name in (*below, *names)
    }
