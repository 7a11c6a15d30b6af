"""Open directories of a working tree, one descriptor a level, never reached through a link."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable
from contextlib import suppress
from errno import ELOOP, ENOTDIR
from typing import NamedTuple

from gitcp.errors import GitcpError, Refused
from gitcp.git.fsync import write_all
from gitcp.worktree.paths import display

DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW
KINDS = {
    stat.S_IFREG: "a file",
    stat.S_IFLNK: "a symbolic link",
    stat.S_IFDIR: "a directory",
    stat.S_IFIFO: "a FIFO",
    stat.S_IFSOCK: "a socket",
    stat.S_IFBLK: "a device",
    stat.S_IFCHR: "a device",
}


Root = str | bytes | os.PathLike[str] | os.PathLike[bytes]


class PathBlocked(Refused):
    """What lies at the path, or on the way to it, is of a kind that may not be replaced or
    followed.
    """


class PathShut(GitcpError):
    """What lies at the path cannot be looked at: a directory on the way does not let us in."""


class Level(NamedTuple):
    """One open directory: its name in the one above it, its descriptor, its device and inode."""

    name: bytes
    descriptor: int
    identity: tuple[int, int]


class Directories:
    """Descriptors of the root and of the directories down to the one used last, so that its files
    cost no new walk.
    """

    def __init__(self, root: Root) -> None:
        self._levels: list[Level] = []
        self._append(b"", os.open(root, DIRECTORY))

    def open(self, directory: bytes, made: list[bytes] | None = None) -> int:
        """The descriptor of `directory` (b"" is the root), valid until the next call.

        Missing directories are made and added to `made`, if that is given. Raises FileNotFoundError
        and PathBlocked.
        """
        names = directory.split(b"/") if directory else []
        self._drop(1 + self._unmoved(names))
        for depth in range(len(self._levels), len(names) + 1):
            self._enter(b"/".join(names[:depth]), made)
        return self._levels[-1].descriptor

    def close(self) -> None:
        self._drop(0)

    def _unmoved(self, names: list[bytes]) -> int:
        """How many of the open directories lead to `names` and are still what is found there under
        their name.
        """
        above = self._levels[0].descriptor
        for count, (level, name) in enumerate(zip(self._levels[1:], names, strict=False)):
            found = lstat_in(above, name) if level.name == name else None
            if found is None or identity(found) != level.identity:
                return count
            above = level.descriptor
        return min(len(self._levels) - 1, len(names))

    def _enter(self, directory: bytes, made: list[bytes] | None) -> None:
        """Opens one more level: `directory`, in the last one."""
        above, name = self._levels[-1].descriptor, directory.rpartition(b"/")[2]
        try:
            self._append(name, os.open(name, DIRECTORY, dir_fd=above))
        except FileNotFoundError:
            if made is None:
                raise
            with suppress(FileExistsError):
                os.mkdir(name, 0o777, dir_fd=above)
                made.append(directory)
            self._enter(directory, None)
        except OSError as error:
            if error.errno not in (ENOTDIR, ELOOP):
                raise
            raise PathBlocked(
                f"{display(directory)} is {named(lstat_in(above, name))}, not a directory. Nothing "
                "in it was changed",
                hint="move it away, then run the command again",
            ) from None

    def _append(self, name: bytes, descriptor: int) -> None:
        self._levels.append(Level(name, descriptor, identity(os.fstat(descriptor))))

    def _drop(self, kept: int) -> None:
        while len(self._levels) > kept:
            os.close(self._levels.pop().descriptor)


def lstat_in(directory: int, name: bytes) -> os.stat_result | None:
    try:
        return os.stat(name, dir_fd=directory, follow_symlinks=False)
    except FileNotFoundError:
        return None


def write_in(
    directory: int,
    name: bytes,
    chunks: Iterable[bytes],
    permissions: int,
    like: os.stat_result | None,
) -> int:
    """A new file with the bytes of `chunks`, open; it is still to be synced. Its owner is that of
    `like`, if it may.
    """
    descriptor = os.open(
        name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600, dir_fd=directory
    )
    try:
        for chunk in chunks:
            write_all(descriptor, chunk)
        made = os.fstat(descriptor)
        if like is not None and (like.st_uid, like.st_gid) != (made.st_uid, made.st_gid):
            with suppress(PermissionError):
                os.fchown(descriptor, like.st_uid, like.st_gid)
        os.fchmod(descriptor, permissions)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def symlink_in(directory: int, name: bytes, target: bytes) -> int:
    """A new symbolic link; -1, for there is nothing to be synced."""
    os.symlink(target, name, dir_fd=directory)
    return -1


def identity(found: os.stat_result) -> tuple[int, int]:
    return found.st_dev, found.st_ino


def kind(found: os.stat_result | None) -> int:
    return stat.S_IFMT(found.st_mode) if found else 0


def named(found: os.stat_result | None) -> str:
    return KINDS.get(kind(found), "something unknown")
