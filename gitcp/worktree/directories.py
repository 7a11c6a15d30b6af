"""Open directories of a working tree: one descriptor a level, never reached through a symbolic
link.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from errno import ELOOP, ENOTDIR
from typing import NamedTuple

from gitcp.errors import GitcpError, Refused
from gitcp.git import shared
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
    """The path, or a directory above it, is of a kind that must not be replaced or followed."""


class PathInaccessible(GitcpError):
    """The path cannot be examined: a directory above it denies access."""


class Level(NamedTuple):
    """One directory: its name in its parent, its descriptor, its device and inode. The descriptor
    is -1 if it was closed because others are open far below.
    """

    name: bytes
    descriptor: int
    identity: tuple[int, int]


ALWAYS_OPEN = 256
"""Directories that stay open in any case, above the most recent one and besides the root."""

MOST_OPEN = 4096


class Directories:
    """Open descriptors from the root to the most recent directory, so that further files there need
    no new walk.
    """

    def __init__(self, root: Root) -> None:
        self._levels: list[Level] = []
        self._holding = False
        self._held: bytes | None = None
        self._most = ALWAYS_OPEN
        self._append(b"", os.open(root, DIRECTORY))

    def open(self, directory: bytes, made: list[bytes] | None = None) -> int:
        """Return the descriptor of `directory` (b"" is the root), valid until the next call.

        With `made`, create missing directories and append them to it. Raises FileNotFoundError and
        PathBlocked.
        """
        if directory == self._held:
            return self._levels[-1].descriptor
        self._held = None
        names = directory.split(b"/") if directory else []
        self._drop(1 + self._count_unmoved(names))
        for depth in range(len(self._levels), len(names) + 1):
            self._enter(b"/".join(names[:depth]), made)
        self._held = directory if self._holding else None
        return self._levels[-1].descriptor

    def is_at(self, directory: bytes, opened: tuple[int, int]) -> bool:
        """Return whether `directory` is the directory with this identity, without opening it if
        its parent is open. Raises FileNotFoundError and PathBlocked for one of those above it.
        """
        if not directory:
            return opened == self._levels[0].identity
        parent, _, name = directory.rpartition(b"/")
        status = lstat_in(self.open(parent), name)
        return status is not None and opened == identity(status)

    @property
    def identity(self) -> tuple[int, int]:
        """Return the device and inode of the directory that `open` returned last."""
        return self._levels[-1].identity

    @contextmanager
    def holding(self) -> Iterator[None]:
        """While the block runs, look once whether a directory is still in its place, not for each
        of the calls that follow each other for that same directory.
        """
        self._holding = True
        try:
            yield
        finally:
            self._holding, self._held = False, None

    def close(self) -> None:
        self._drop(0)

    def _count_unmoved(self, names: list[bytes]) -> int:
        """Return how many of the directories lead to `names` and are still the same directories on
        disk. The last of these is open.
        """
        above = self._levels[0].descriptor
        for count, (level, name) in enumerate(zip(self._levels[1:], names, strict=False)):
            if level.name != name:
                return count
            if level.descriptor >= 0:
                status = lstat_in(above, name)
                if status is None or identity(status) != level.identity:
                    return count
                above = level.descriptor
            else:
                above = self._reopen(count + 1, above)
                if above < 0:
                    return count
            self._shut(count + 1 - self._most)
        return min(len(self._levels) - 1, len(names))

    def _reopen(self, at: int, above: int) -> int:
        """Open a level again, in the one above. Return -1 if it is not the same directory."""
        level = self._levels[at]
        try:
            descriptor = os.open(level.name, DIRECTORY, dir_fd=above)
        except OSError:
            return -1
        if identity(os.fstat(descriptor)) != level.identity:
            os.close(descriptor)
            return -1
        self._levels[at] = level._replace(descriptor=descriptor)
        return descriptor

    def _shut(self, at: int) -> None:
        """Close the descriptor of a level, but never that of the root."""
        if at > 0 and (level := self._levels[at]).descriptor >= 0:
            os.close(level.descriptor)
            self._levels[at] = level._replace(descriptor=-1)

    def _enter(self, directory: bytes, made: list[bytes] | None) -> None:
        """Open one more level: `directory`, in the last one."""
        above, name = self._levels[-1].descriptor, directory.rpartition(b"/")[2]
        try:
            self._append(name, os.open(name, DIRECTORY, dir_fd=above))
        except FileNotFoundError:
            if made is None:
                raise
            is_new = False
            with suppress(FileExistsError):
                os.mkdir(name, 0o777, dir_fd=above)
                made.append(directory)
                is_new = True
            self._enter(directory, None)
            if is_new:
                shared.give(self._levels[-1].descriptor, above)
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
        above = len(self._levels) - 1
        if above > self._most == ALWAYS_OPEN:
            self._most = _openable()
        self._shut(above - self._most)

    def _drop(self, kept: int) -> None:
        while len(self._levels) > kept:
            if (descriptor := self._levels.pop().descriptor) >= 0:
                os.close(descriptor)


def _openable() -> int:
    """Return how many directories may stay open. A tree may be deeper than the 1,024 descriptors
    that a process usually has, so this allows it more of them, as far as the system lets it.
    """
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = 2 * MOST_OPEN if hard == resource.RLIM_INFINITY else min(2 * MOST_OPEN, hard)
    if 0 <= soft < wanted:
        with suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
            soft = wanted
    return MOST_OPEN if soft < 0 else max(ALWAYS_OPEN + 1, min(MOST_OPEN, soft // 2))


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
    """Create a file with the bytes of `chunks` and return its descriptor, not synced yet.

    It gets the owner of `like`, or of the directory, if this user may change owners.
    """
    descriptor = os.open(
        name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600, dir_fd=directory
    )
    try:
        for chunk in chunks:
            write_all(descriptor, chunk)
        status = os.fstat(descriptor)
        if like is not None and (like.st_uid, like.st_gid) != (status.st_uid, status.st_gid):
            with suppress(PermissionError):
                os.fchown(descriptor, like.st_uid, like.st_gid)
        if like is None:
            shared.give(descriptor, directory)
        os.fchmod(descriptor, permissions)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def symlink_in(directory: int, name: bytes, target: bytes) -> int:
    """Create a symbolic link. Return -1: there is no descriptor to sync."""
    os.symlink(target, name, dir_fd=directory)
    return -1


def identity(status: os.stat_result) -> tuple[int, int]:
    """Return the device and inode of a file or directory."""
    return status.st_dev, status.st_ino


def kind(status: os.stat_result | None) -> int:
    return stat.S_IFMT(status.st_mode) if status else 0


def named(status: os.stat_result | None) -> str:
    return KINDS.get(kind(status), "something unknown")
