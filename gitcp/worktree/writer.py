"""Change files below a working tree. Nothing else in gitcp does.

It knows paths and bytes, but neither git nor plans: the caller decides what may be changed. It
guarantees that no change ends up outside the root and that no file is ever half written. libgit2's
checkout guarantees neither: it writes through symbolic links and truncates files in place. So each
directory above a file is opened separately, never following a link, and each file is written beside
its target and renamed over it.
"""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from errno import EEXIST, EINVAL, ENOENT, ENOTDIR, ENOTEMPTY
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from gitcp.errors import BadValue, DiskFull, GitcpError
from gitcp.git import fsync
from gitcp.worktree import sqlite_files
from gitcp.worktree.directories import (
    KINDS,
    Directories,
    PathBlocked,
    PathInaccessible,
    Root,
    kind,
    lstat_in,
    named,
    symlink_in,
    write_in,
)
from gitcp.worktree.paths import TEMPORARY, display, is_temporary, problem

if TYPE_CHECKING:
    from typing import Self

CHUNK = 1 << 18
KEPT = "It was not changed"
UNSYNCED = "A power loss may undo the changes in it"

SPECIAL = stat.S_ISGID | stat.S_ISVTX
"""Bits that a restored directory may have besides its permissions. A file never has them."""

_FILE, _LINK, _DIRECTORY = (stat.S_IFREG,), (stat.S_IFLNK,), (stat.S_IFDIR,)


class PreparedWrite(NamedTuple):
    """A finished file not yet at its target: its path, temporary name, directory descriptor, that
    directory's device and inode, own descriptor (-1 for a link), and the directories created for
    it.
    """

    path: bytes
    temporary: bytes
    directory: int
    directory_identity: tuple[int, int]
    descriptor: int
    made: tuple[bytes, ...]

    def status(self, name: bytes) -> os.stat_result:
        """Return the status of the file, or of the link, which has this name now."""
        if self.descriptor >= 0:
            return os.fstat(self.descriptor)
        return os.stat(name, dir_fd=self.directory, follow_symlinks=False)

    def close(self) -> None:
        """Close the descriptors."""
        os.close(self.directory)
        if self.descriptor >= 0:
            os.close(self.descriptor)


class Writer:
    """Reads and changes files below one directory, the root, and never outside it.

    Paths are relative to the root and checked by `paths.problem`. Each method raises BadValue for
    an invalid path, PathBlocked if a directory above is a link or a file (for `lstat`, `remove`,
    `remove_directory` and `sweep` the path then does not exist), DiskFull, and GitcpError for other
    system errors. A failed call has changed nothing. Not thread-safe. Changes, and those in
    `touched` before, are durable after `flush`.
    """

    def __init__(self, root: Root, touched: Iterable[bytes] = ()) -> None:
        try:
            self._directories = Directories(root)
        except OSError as error:
            shown = display(os.fsencode(root))
            raise GitcpError(
                f"cannot open {shown}: {error.strerror}. Nothing was changed"
            ) from None
        self.root = os.fsencode(root)
        self._touched = set(touched)
        self.changed: set[bytes] = set()
        """Every path that was made, replaced or removed, or got another mode."""
        self.made: set[bytes] = set()  # the created directories among them

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Close the descriptors without flushing."""
        self._directories.close()

    def lstat(self, path: bytes) -> os.stat_result | None:
        """Return the lstat result of `path`, None if it does not exist or a parent is not a
        directory.
        """
        with _converting_errors("examine", path):
            directory = self._find(_parent(path))
            return None if directory is None else lstat_in(directory, _name(path))

    def read(self, path: bytes) -> Iterator[bytes]:
        """Yield the content of a regular file in chunks; the file is opened at the first. Raises
        PathBlocked for others.
        """
        with _converting_errors("read", path):
            directory, name = self._locate(path, _FILE)
            descriptor = os.open(
                name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=directory
            )
            try:
                _require(_FILE, os.fstat(descriptor), path)
                while chunk := os.read(descriptor, CHUNK):
                    yield chunk
            finally:
                sqlite_files.close(descriptor)

    def readlink(self, path: bytes) -> bytes:
        """Return the target of the symbolic link at `path`. Raises PathBlocked for anything
        else.
        """
        with _converting_errors("read", path):
            directory, name = self._locate(path, _LINK)
            return os.readlink(name, dir_fd=directory)

    def names(self, path: bytes) -> list[bytes]:
        """Return the sorted names in a directory, none if there is no such directory."""
        with _converting_errors("list", path):
            try:
                return sorted(
                    os.fsencode(name) for name in os.listdir(self._directories.open(_checked(path)))
                )
            except (FileNotFoundError, PathBlocked):
                return []

    def write(self, path: bytes, chunks: Iterable[bytes], permissions: int) -> os.stat_result:
        """Write a regular file with the bytes of `chunks` and the `permissions` (rwx bits only) at
        `path`.

        Atomically replaces a file, a link or nothing: readers see the old or the new content.
        Creates missing directories. A hard link is broken: its other names keep the old content.
        The content is durable when this returns, the name after `flush`. Returns the new file's
        stat; if another program has replaced it already, a stat that matches nothing on disk.
        Raises PathBlocked for a directory or a special file, and whatever `chunks` raises.
        """
        prepared = self.prepare(path, chunks, permissions)
        for error in self.sync([prepared]):
            if error is not None:
                raise error
        return self.place(prepared)

    def holding(self) -> AbstractContextManager[None]:
        """While the block runs, whether a directory was moved is looked at once for the calls that
        follow each other for paths in it, not for each of them.
        """
        return self._directories.holding()

    def prepare(
        self,
        path: bytes,
        chunks: Iterable[bytes],
        permissions: int,
        like: os.stat_result | None = None,
    ) -> PreparedWrite:
        """Do the first step of `write`: create the file under a temporary name beside its target.
        `place` or `drop` must follow.

        It gets the owner of the file that `like` describes, if this user may change owners. It
        keeps two descriptors open. Preparing many files, then syncing, then placing them waits for
        the disk once.
        """
        return self._create_temporary(
            path,
            lambda directory, name: write_in(directory, name, chunks, permissions & 0o777, like),
        )

    def sync(self, batch: Sequence[PreparedWrite]) -> list[GitcpError | None]:
        """Do the second step: make the content of prepared files durable. Files that fail are
        dropped, and their errors returned.
        """
        try:
            errors = fsync.sync([prepared.descriptor for prepared in batch])
        except BaseException:
            for prepared in batch:
                self.drop(prepared)
            raise
        return [
            None if error is None else self._drop_failed(prepared_file, error)
            for prepared_file, error in zip(batch, errors, strict=True)
        ]

    def _drop_failed(self, prepared: PreparedWrite, error: OSError) -> GitcpError:
        self.drop(prepared)
        return _error(error, "write", prepared.path)

    def place(
        self,
        prepared: PreparedWrite,
        admit: Callable[[os.stat_result | None], object] = lambda _: None,
    ) -> os.stat_result:
        """Do the last step: rename the file to its target and return what `write` returns. Drops
        the file on failure.

        `admit` is called with the status of what is replaced, None for nothing; what it raises is
        such a failure.
        """
        name, directory = _name(prepared.path), prepared.directory
        try:
            with _converting_errors("write", prepared.path):
                # Of a directory moved away during a restore, up to 63 more files were replaced.
                self._require_in_place(prepared)
                replaced = lstat_in(directory, name)
                _require(_FILE + _LINK, replaced, prepared.path)
                admit(replaced)
                os.rename(prepared.temporary, name, src_dir_fd=directory, dst_dir_fd=directory)
                self._mark_changed(prepared.path)
                # after the rename, which changes the ctime
                placed = prepared.status(name)
        except BaseException:
            self.drop(prepared)
            raise
        prepared.close()
        return placed

    def drop(self, prepared: PreparedWrite) -> None:
        """Remove what `prepare` created, including directories that are now empty. Never raises."""
        with suppress(OSError):
            os.unlink(prepared.temporary, dir_fd=prepared.directory)
        prepared.close()
        self._remove_made(prepared.made)

    def symlink(self, path: bytes, target: bytes) -> os.stat_result:
        """Create a symbolic link to `target` at `path`, as `write` does. The target is not
        checked.
        """
        if not target or b"\0" in target:
            raise BadValue(
                f"{display(path)} cannot be a link to {display(target)!r}. Nothing was changed"
            )
        return self.place(
            self._create_temporary(
                path, lambda directory, name: symlink_in(directory, name, target)
            )
        )

    def remove(self, path: bytes) -> None:
        """Remove a file or a link, if it exists. Raises PathBlocked for a directory or a special
        file.
        """
        with _converting_errors("remove", path):
            directory = self._find(_parent(path))
            status = None if directory is None else lstat_in(directory, _name(path))
            if directory is None or status is None:
                return
            _require(_FILE + _LINK, status, path)
            with suppress(FileNotFoundError):
                os.unlink(_name(path), dir_fd=directory)
            self._mark_changed(path)

    def chmod(self, path: bytes, permissions: int, *, special: bool = False) -> None:
        """Set the rwx bits of a file or directory, which need not be readable. A directory gets the
        set-gid and sticky bits of `permissions` too with `special`, else it keeps those that it
        has.

        A file with further hard links is rewritten, so that only this name changes. Raises
        PathBlocked for a link.
        """
        with _converting_errors("change the permissions of", path):
            directory, name = self._locate(path, _FILE + _DIRECTORY)
            status = os.stat(name, dir_fd=directory, follow_symlinks=False)
            if stat.S_ISREG(status.st_mode) and status.st_nlink > 1:
                self.write(path, self.read(path), permissions)
            else:
                is_whole = special and stat.S_ISDIR(status.st_mode)
                bits = permissions & (SPECIAL | 0o777 if is_whole else 0o777)
                _change_mode(directory, name, bits, path, special=is_whole)
            self.changed.add(path)

    def make_directory(self, path: bytes) -> None:
        """Create a directory and its missing parents."""
        with _converting_errors("make the directory", path), self._making_directories() as made:
            self._directories.open(_checked(path), made)

    def remove_directory(self, path: bytes) -> bool:
        """Remove an empty directory. Return False if it is not empty or does not exist."""
        with _converting_errors("remove the directory", path):
            directory = self._find(_parent(path))
            if directory is None:
                return False
            try:
                os.rmdir(_name(path), dir_fd=directory)
            except OSError as error:
                if error.errno in (ENOENT, ENOTDIR, ENOTEMPTY, EEXIST):
                    return False
                raise
            self._mark_changed(path)
            return True

    def sweep(self, directory: bytes) -> int:
        """Remove the unfinished files that a crashed run left in `directory` (b"" is the root).
        Return their number.
        """
        with _converting_errors("clean up", directory):
            descriptor = self._find(_checked(directory) if directory else b"")
            if descriptor is None:
                return 0
            candidates = [
                name for name in map(os.fsencode, os.listdir(descriptor)) if is_temporary(name)
            ]
            leftovers = [
                name for name in candidates if kind(lstat_in(descriptor, name)) in _FILE + _LINK
            ]
            for name in leftovers:
                with suppress(FileNotFoundError):
                    os.unlink(name, dir_fd=descriptor)
            self._touched.update([directory] if leftovers else [])
            return len(leftovers)

    def flush(self) -> None:
        """Make all names written or removed since the last flush durable. Raises GitcpError."""
        with self.flushing():
            pass

    @contextmanager
    def flushing(self) -> Iterator[None]:
        """Make names durable in the background while the block runs, at the latest when it ends.
        Changes made in the block are left to the next flush.
        """
        directories = sorted(self._touched)
        while len(directories) > fsync.OPEN:
            with self._syncing(directories[: fsync.OPEN]):
                directories = directories[fsync.OPEN :]
        with self._syncing(directories):
            yield

    @contextmanager
    def _syncing(self, directories: Sequence[bytes]) -> Iterator[None]:
        descriptors: dict[bytes, int] = {}
        self._touched.difference_update(directories)
        try:
            for directory in directories:
                with _converting_errors("sync the directory", directory, UNSYNCED):
                    descriptor = self._find(directory)
                    # else it was removed again, and its parent was touched too
                    if descriptor is not None:
                        descriptors[directory] = os.dup(descriptor)
            finish = fsync.begin_sync(list(descriptors.values()))
            try:
                yield
            finally:
                errors = dict(zip(descriptors, finish(), strict=True))
            for directory, error in errors.items():
                # EINVAL: the file system cannot sync directories
                if error is not None and error.errno != EINVAL:
                    raise _error(error, "sync the directory", directory, UNSYNCED)
        except BaseException:
            self._touched.update(directories)
            raise
        finally:
            for descriptor in descriptors.values():
                os.close(descriptor)

    def _create_temporary(self, path: bytes, create: Callable[[int, bytes], int]) -> PreparedWrite:
        """Call `create` to make a file or link under a temporary name; it returns a descriptor or
        -1.
        """
        temporary = TEMPORARY + os.urandom(8).hex().encode()
        with _converting_errors("write", path), self._making_directories() as made:
            # `create` may run our own `read`, which moves on to another directory: this one must
            # stay open.
            directory = os.dup(self._directories.open(_parent(path), made))
            opened = self._directories.identity
            try:
                _require(_FILE + _LINK, lstat_in(directory, _name(path)), path)
                descriptor = create(directory, temporary)
            except BaseException:
                with suppress(OSError):
                    os.unlink(temporary, dir_fd=directory)
                os.close(directory)
                raise
        return PreparedWrite(path, temporary, directory, opened, descriptor, tuple(made))

    def _require_in_place(self, prepared: PreparedWrite) -> None:
        """Raise PathBlocked if the directory was moved during a long write; the file would move
        with it.
        """
        directory = _parent(prepared.path)
        try:
            is_moved = not self._directories.is_at(directory, prepared.directory_identity)
        except (FileNotFoundError, PathBlocked):
            is_moved = True
        if is_moved:
            raise PathBlocked(
                f"{display(directory)} was moved while a file in it was written. Nothing was "
                "changed"
            )

    @contextmanager
    def _making_directories(self) -> Iterator[list[bytes]]:
        """Yield a list for the directories created for a change; remove them again if it fails."""
        made: list[bytes] = []
        try:
            yield made
        except BaseException:
            self._remove_made(made)
            raise
        for directory in made:
            self._mark_changed(directory)
        self.made.update(made)

    def _remove_made(self, made: Sequence[bytes]) -> None:
        for directory in reversed(made):
            with suppress(GitcpError):
                self.remove_directory(directory)

    def _mark_changed(self, path: bytes) -> None:
        """Record a created, replaced or removed name: its directory must be synced."""
        self.changed.add(path)
        self._touched.add(_parent(path))

    def _find(self, directory: bytes) -> int | None:
        """Return the descriptor of `directory`, valid until the next call; None if there is no such
        directory.
        """
        try:
            return self._directories.open(directory)
        except (FileNotFoundError, PathBlocked):
            return None

    def _locate(self, path: bytes, kinds: tuple[int, ...]) -> tuple[int, bytes]:
        """Return the descriptor of the directory of `path`, and its name there. Raises PathBlocked
        unless it is of `kinds`.
        """
        directory, name = self._directories.open(_parent(path)), _name(path)
        _require(kinds, os.stat(name, dir_fd=directory, follow_symlinks=False), path)
        return directory, name


def _change_mode(
    directory: int, name: bytes, permissions: int, path: bytes, *, special: bool
) -> None:
    """Change the mode of a file or directory, but not through a link that has just replaced it.
    Without `special`, a directory keeps its set-gid and sticky bits.
    """
    if sys.platform != "linux":
        status = os.stat(name, dir_fd=directory, follow_symlinks=False)
        permissions |= (
            status.st_mode & 0o7000 if stat.S_ISDIR(status.st_mode) and not special else 0
        )
        os.chmod(name, permissions, dir_fd=directory, follow_symlinks=False)
        return
    # Linux changes modes only through a name or an open file, and a file of mode 0000 can be
    # opened only with O_PATH.
    descriptor = os.open(name, os.O_PATH | os.O_NOFOLLOW, dir_fd=directory)
    try:
        status = os.fstat(descriptor)
        _require(_FILE + _DIRECTORY, status, path)
        if stat.S_ISDIR(status.st_mode):
            permissions |= 0 if special else status.st_mode & 0o7000
        elif special:
            permissions &= 0o777
        os.chmod(f"/proc/self/fd/{descriptor}", permissions)
    finally:
        os.close(descriptor)


@lru_cache(maxsize=1024)  # a restore asks ten times for a path: a tenth of a second for 5,000 files
def _checked(path: bytes) -> bytes:
    reason = problem(path)
    if reason:
        raise BadValue(f"the path {display(path)!r} {reason}. Nothing was changed")
    return path


def _parent(path: bytes) -> bytes:
    """Return the directory of a path, after checking the path."""
    return _checked(path).rpartition(b"/")[0]


def _name(path: bytes) -> bytes:
    return path.rpartition(b"/")[2]


def _require(kinds: tuple[int, ...], status: os.stat_result | None, path: bytes) -> None:
    """Raise PathBlocked if the status at `path` is none of `kinds`. None is accepted."""
    if status and kind(status) not in kinds:
        wanted = " or ".join(KINDS[kind] for kind in kinds)
        raise PathBlocked(f"{display(path)} is {named(status)}, not {wanted}. {KEPT}")


@contextmanager
def _converting_errors(action: str, path: bytes, kept: str = KEPT) -> Iterator[None]:
    """Convert OS errors to gitcp's. `action` completes "cannot …"."""
    try:
        yield
    except OSError as error:
        raise _error(error, action, path, kept) from None


def _error(error: OSError, action: str, path: bytes, kept: str = KEPT) -> GitcpError:
    failure = f"cannot {action} {display(path) or '.'}"
    if error.errno in fsync.FULL:
        return DiskFull(
            f"the disk is full: {failure}. {kept}", hint="free some space, then try again"
        )
    error_type = PathInaccessible if isinstance(error, PermissionError) else GitcpError
    return error_type(f"{failure}: {error.strerror}. {kept}")
