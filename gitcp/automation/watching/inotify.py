"""Linux's inotify, by ctypes: which says when events were lost or a directory could not be watched,
as libraries do not.
"""

from __future__ import annotations

import ctypes
import errno
import os
import struct
from typing import NamedTuple

MODIFY, ATTRIB, CLOSE_WRITE = 0x2, 0x4, 0x8
MOVED_FROM, MOVED_TO, CREATE, DELETE = 0x40, 0x80, 0x100, 0x200
DELETE_SELF, MOVE_SELF = 0x400, 0x800
UNMOUNT, OVERFLOW, IGNORED, IS_DIRECTORY = 0x2000, 0x4000, 0x8000, 0x40000000
ONLY_DIRECTORY, DO_NOT_FOLLOW = 0x01000000, 0x02000000

WANTED = (
    MODIFY
    | ATTRIB
    | CLOSE_WRITE
    | MOVED_FROM
    | MOVED_TO
    | CREATE
    | DELETE
    | DELETE_SELF
    | MOVE_SELF
)
"""Whatever changes a directory's entries, or a file's bytes or mode."""

RAISE = "sudo sysctl fs.inotify.max_user_watches=1000000"
"""The command that raises the number of directories that may be watched."""

LIMITS = "/proc/sys/fs/inotify"
EVENT = struct.Struct("iIII")
READ = 1 << 18

TRUSTED = {
    0xEF53: "ext4",
    0x58465342: "xfs",
    0x9123683E: "btrfs",
    0x01021994: "tmpfs",
    0x858458F6: "ramfs",
    0xF2F52010: "f2fs",
    0x2FC12FC1: "zfs",
    0xCA451A4E: "bcachefs",
    0x794C7630: "overlayfs",
}
"""File systems that only this kernel changes, by their number in statfs(2). On others (networks,
FUSE) a change may come from elsewhere, without an event.
"""


class FileEvent(NamedTuple):
    """`watch` is the number of the directory's watch (-1: none), `name` the entry (b"": itself)."""

    watch: int
    mask: int
    name: bytes


class Inotify:
    """A queue of events, and the directories that it watches. Raises OSError where the system has
    no inotify, or gives no more queues.
    """

    def __init__(self) -> None:
        self._libc = ctypes.CDLL(None, use_errno=True)
        if not hasattr(self._libc, "inotify_init1"):
            raise OSError(errno.ENOSYS, "this system has no inotify")
        self.descriptor = int(self._libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC))
        if self.descriptor < 0:
            raise _error()

    def add(self, path: bytes) -> int:
        """Watch a directory, never through a link, and return the number of its watch: the same one
        if it has one already. Raises OSError (ENOSPC: the limit is reached).
        """
        number = int(
            self._libc.inotify_add_watch(
                self.descriptor, path, WANTED | ONLY_DIRECTORY | DO_NOT_FOLLOW
            )
        )
        if number < 0:
            raise _error(path)
        return number

    def remove(self, number: int) -> None:
        """Watch a directory no longer; it may be gone."""
        self._libc.inotify_rm_watch(self.descriptor, number)

    def read(self) -> list[FileEvent]:
        """Return the events that are there, none if none are. Raises OSError."""
        try:
            data = os.read(self.descriptor, READ)
        except BlockingIOError:
            return []
        events, at = [], 0
        while at < len(data):
            watch, mask, _, length = EVENT.unpack_from(data, at)
            at += EVENT.size + length
            events.append(FileEvent(watch, mask, data[at - length : at].rstrip(b"\0")))
        return events

    def close(self) -> None:
        """End all watches."""
        os.close(self.descriptor)


def is_trusted(path: bytes) -> bool:
    """Return whether the file system of a path tells all its changes to this system."""
    buffer = (ctypes.c_long * 32)()
    done = ctypes.CDLL(None).statfs(path, ctypes.byref(buffer))
    return done == 0 and (buffer[0] & 0xFFFFFFFF) in TRUSTED


def most_watches() -> int | None:
    """Return how many directories this user may watch, None where that is not known."""
    try:
        with open(f"{LIMITS}/max_user_watches", encoding="ascii") as file:
            return int(file.read())
    except (OSError, ValueError):
        return None


def _error(path: bytes = b"") -> OSError:
    number = ctypes.get_errno()
    return OSError(number, os.strerror(number), os.fsdecode(path))
