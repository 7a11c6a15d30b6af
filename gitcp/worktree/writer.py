"""Changes files under a working tree. Nothing else in gitcp does.

It knows paths and bytes, and neither git nor plans: whether a path may go is decided before. What
it answers for is that no change ends up outside the root and that no file is ever half written.
libgit2's checkout gives neither: it writes through symbolic links and cuts files short in place. So
each directory on the way is opened on its own, never following a link, and each file is written
beside its place and renamed over it.
"""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from errno import EEXIST, EINVAL, ENOENT, ENOTDIR, ENOTEMPTY
from typing import TYPE_CHECKING, NamedTuple

from gitcp.errors import BadValue, DiskFull, GitcpError
from gitcp.git import fsync
from gitcp.worktree.directories import (
    KINDS,
    Directories,
    PathBlocked,
    PathShut,
    Root,
    identity,
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
KEPT = "It was left as it was"
UNSYNCED = "A power loss may undo the changes in it"

_FILE, _LINK, _DIRECTORY = (stat.S_IFREG,), (stat.S_IFLNK,), (stat.S_IFDIR,)


class Prepared(NamedTuple):
    """A file that waits beside its place: its path, its temporary name, its directory's descriptor,
    its own (-1 for a link), and the directories that were made for it.
    """

    path: bytes
    temporary: bytes
    directory: int
    descriptor: int
    made: tuple[bytes, ...]

    def close(self) -> None:
        """Give the descriptors back."""
        os.close(self.directory)
        if self.descriptor >= 0:
            os.close(self.descriptor)


class Writer:
    """Reads and changes what lies below one directory, the root, and never anything outside it.

    Paths are relative to the root and checked by `paths.problem`: each method raises BadValue for a
    bad one, PathBlocked where a directory on the way is a link or a file (for `lstat`, `remove`,
    `remove_directory` and `sweep` there is then nothing at the path), DiskFull, and GitcpError for
    whatever else the system refuses. What failed has changed nothing. Not for several threads at
    once. What changed, or had before in `touched`, is safe after `flush`.
    """

    def __init__(self, root: Root, touched: Iterable[bytes] = ()) -> None:
        try:
            self._directories = Directories(root)
        except OSError as error:
            shown = display(os.fsencode(root))
            raise GitcpError(
                f"cannot open {shown}: {error.strerror}. Nothing was changed"
            ) from None
        self._touched = set(touched)
        self.changed: set[bytes] = set()
        """Every path that was made, replaced or removed, or got another mode."""
        self.made: set[bytes] = set()  # the directories among them that were made

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Gives the descriptors back. It does not flush."""
        self._directories.close()

    def lstat(self, path: bytes) -> os.stat_result | None:
        """What lies at `path`, None if nothing does, or if what leads there is not a directory."""
        with _reporting("look at", path):
            directory = self._find(_parent(path))
            return None if directory is None else lstat_in(directory, _name(path))

    def read(self, path: bytes) -> Iterator[bytes]:
        """The content of a regular file, in chunks; the file is opened at the first. Raises
        PathBlocked for others.
        """
        with _reporting("read", path):
            directory, name = self._locate(path, _FILE)
            descriptor = os.open(
                name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=directory
            )
            try:
                _require(_FILE, os.fstat(descriptor), path)
                while chunk := os.read(descriptor, CHUNK):
                    yield chunk
            finally:
                os.close(descriptor)

    def readlink(self, path: bytes) -> bytes:
        """Where the symbolic link at `path` points. Raises PathBlocked for anything else."""
        with _reporting("read", path):
            directory, name = self._locate(path, _LINK)
            return os.readlink(name, dir_fd=directory)

    def names(self, path: bytes) -> list[bytes]:
        """The names in a directory, sorted; none if there is no such directory."""
        with _reporting("list", path):
            try:
                return sorted(
                    os.fsencode(name) for name in os.listdir(self._directories.open(_checked(path)))
                )
            except (FileNotFoundError, PathBlocked):
                return []

    def write(self, path: bytes, chunks: Iterable[bytes], permissions: int) -> os.stat_result:
        """Puts a regular file with the bytes of `chunks` and the `permissions` (rwx bits, no
        others) at `path`.

        Replaces a file, a link or nothing, at once: whoever looks sees the old or the new. Makes
        missing directories. A hard link is broken: its other names keep the old content. The
        content is on the disk when this returns, the name after `flush`. Returns the new file's
        stat; should another program have replaced it already, a stat that matches nothing on the
        disk. Raises PathBlocked for a directory or a special file, and what `chunks` raises.
        """
        prepared = self.prepare(path, chunks, permissions)
        for error in self.sync([prepared]):
            if error is not None:
                raise error
        return self.place(prepared)

    def prepare(
        self,
        path: bytes,
        chunks: Iterable[bytes],
        permissions: int,
        like: os.stat_result | None = None,
    ) -> Prepared:
        """The first part of `write`: the file, under a temporary name beside its place. `place` or
        `drop` must follow.

        Its owner is that of the file which `like` describes, as far as this user may give files
        away. It holds two descriptors. Many files that are prepared, then synced, then placed, wait
        for the disk once.
        """
        return self._beside(
            path,
            lambda directory, name: write_in(directory, name, chunks, permissions & 0o777, like),
        )

    def sync(self, batch: Sequence[Prepared]) -> list[GitcpError | None]:
        """The second part: what they hold is on the disk then. One that fails is dropped; its error
        is returned.
        """
        try:
            said = fsync.sync([prepared.descriptor for prepared in batch])
        except BaseException:
            for prepared in batch:
                self.drop(prepared)
            raise
        return [
            None if error is None else self._refused(one, error)
            for one, error in zip(batch, said, strict=True)
        ]

    def _refused(self, prepared: Prepared, error: OSError) -> GitcpError:
        self.drop(prepared)
        return _told(error, "write", prepared.path)

    def place(self, prepared: Prepared) -> os.stat_result:
        """The last part: gives the file its name, and returns what `write` returns. If that fails,
        it is dropped.
        """
        name, parent, directory = _name(prepared.path), _parent(prepared.path), prepared.directory
        try:
            with _reporting("write", prepared.path):
                _require(_FILE + _LINK, lstat_in(directory, name), prepared.path)
                self._require_in_place(directory, parent)
                fresh = os.stat(prepared.temporary, dir_fd=directory, follow_symlinks=False)
                os.rename(prepared.temporary, name, src_dir_fd=directory, dst_dir_fd=directory)
                self._note(prepared.path)
                placed = lstat_in(directory, name)
        except BaseException:
            self.drop(prepared)
            raise
        prepared.close()
        # The rename changed the ctime; a stat without that can do no more harm than to be taken for
        # a change.
        return placed if placed and identity(placed) == identity(fresh) else fresh

    def drop(self, prepared: Prepared) -> None:
        """Removes what `prepare` made, the directories too if nothing else is in them. Never
        raises.
        """
        with suppress(OSError):
            os.unlink(prepared.temporary, dir_fd=prepared.directory)
        prepared.close()
        self._unmake(prepared.made)

    def symlink(self, path: bytes, target: bytes) -> os.stat_result:
        """Puts a symbolic link to `target` at `path`, in the same way as `write`. Where it points
        is not looked at.
        """
        if not target or b"\0" in target:
            raise BadValue(
                f"{display(path)} cannot be a link to {display(target)!r}. Nothing was changed"
            )
        return self.place(
            self._beside(path, lambda directory, name: symlink_in(directory, name, target))
        )

    def remove(self, path: bytes) -> None:
        """Removes a file or a link; nothing there is fine. Raises PathBlocked for a directory or a
        special file.
        """
        with _reporting("remove", path):
            directory = self._find(_parent(path))
            found = None if directory is None else lstat_in(directory, _name(path))
            if directory is None or found is None:
                return
            _require(_FILE + _LINK, found, path)
            with suppress(FileNotFoundError):
                os.unlink(_name(path), dir_fd=directory)
            self._note(path)

    def chmod(self, path: bytes, permissions: int) -> None:
        """Sets the rwx bits of a file or a directory; it need not be readable. A directory keeps
        its other bits.

        A file with further hard links is written anew, so that only this name changes. Raises
        PathBlocked for a link.
        """
        with _reporting("change the permissions of", path):
            directory, name = self._locate(path, _FILE + _DIRECTORY)
            found = os.stat(name, dir_fd=directory, follow_symlinks=False)
            if stat.S_ISREG(found.st_mode) and found.st_nlink > 1:
                self.write(path, self.read(path), permissions)
            else:
                _change_mode(directory, name, permissions & 0o777, path)
            self.changed.add(path)

    def make_directory(self, path: bytes) -> None:
        """Makes a directory and those above it, as far as they are missing."""
        with _reporting("make the directory", path), self._making() as made:
            self._directories.open(_checked(path), made)

    def remove_directory(self, path: bytes) -> bool:
        """Removes an empty directory. False if it is not empty or there is no directory."""
        with _reporting("remove the directory", path):
            directory = self._find(_parent(path))
            if directory is None:
                return False
            try:
                os.rmdir(_name(path), dir_fd=directory)
            except OSError as error:
                if error.errno in (ENOENT, ENOTDIR, ENOTEMPTY, EEXIST):
                    return False
                raise
            self._note(path)
            return True

    def sweep(self, directory: bytes) -> int:
        """Removes the unfinished files that a crashed run left in `directory` (b"" is the root);
        returns how many.
        """
        with _reporting("tidy", directory):
            descriptor = self._find(_checked(directory) if directory else b"")
            if descriptor is None:
                return 0
            named = [
                name for name in map(os.fsencode, os.listdir(descriptor)) if is_temporary(name)
            ]
            left = [name for name in named if kind(lstat_in(descriptor, name)) in _FILE + _LINK]
            for name in left:
                with suppress(FileNotFoundError):
                    os.unlink(name, dir_fd=descriptor)
            self._touched.update([directory] if left else [])
            return len(left)

    def flush(self) -> None:
        """Makes the names written and removed since the last flush survive a power loss. Raises
        GitcpError.
        """
        with self.flushing():
            pass

    @contextmanager
    def flushing(self) -> Iterator[None]:
        """The same, done when the block ends, which meanwhile need not wait. What it changes is for
        the next flush.
        """
        left = sorted(self._touched)
        while len(left) > fsync.OPEN:
            with self._syncing(left[: fsync.OPEN]):
                left = left[fsync.OPEN :]
        with self._syncing(left):
            yield

    @contextmanager
    def _syncing(self, directories: Sequence[bytes]) -> Iterator[None]:
        there: dict[bytes, int] = {}
        self._touched.difference_update(directories)
        try:
            for directory in directories:
                with _reporting("sync the directory", directory, UNSYNCED):
                    descriptor = self._find(directory)
                    # else it is gone again, and its parent was touched too
                    if descriptor is not None:
                        there[directory] = os.dup(descriptor)
            ended = fsync.begin_sync(list(there.values()))
            try:
                yield
            finally:
                said = dict(zip(there, ended(), strict=True))
            for directory, error in said.items():
                # that one: a file system that cannot sync directories
                if error is not None and error.errno != EINVAL:
                    raise _told(error, "sync the directory", directory, UNSYNCED)
        except BaseException:
            self._touched.update(directories)
            raise
        finally:
            for descriptor in there.values():
                os.close(descriptor)

    def _beside(self, path: bytes, create: Callable[[int, bytes], int]) -> Prepared:
        """Lets `create` make a new file or link under a temporary name, and return a descriptor, or
        -1.
        """
        temporary = TEMPORARY + os.urandom(8).hex().encode()
        with _reporting("write", path), self._making() as made:
            # `create` may run our own `read`, which moves on to another directory: this one must
            # stay open.
            directory = os.dup(self._directories.open(_parent(path), made))
            try:
                _require(_FILE + _LINK, lstat_in(directory, _name(path)), path)
                descriptor = create(directory, temporary)
            except BaseException:
                with suppress(OSError):
                    os.unlink(temporary, dir_fd=directory)
                os.close(directory)
                raise
        return Prepared(path, temporary, directory, descriptor, tuple(made))

    def _require_in_place(self, descriptor: int, directory: bytes) -> None:
        """A long write gives others time to move the directory away; the file would go with it."""
        current = self._find(directory)
        if current is None or identity(os.fstat(current)) != identity(os.fstat(descriptor)):
            raise PathBlocked(
                f"{display(directory)} was moved while a file in it was written. Nothing was "
                "changed"
            )

    @contextmanager
    def _making(self) -> Iterator[list[bytes]]:
        """A list for the directories made on the way to a change; they go again if it fails."""
        made: list[bytes] = []
        try:
            yield made
        except BaseException:
            self._unmake(made)
            raise
        for directory in made:
            self._note(directory)
        self.made.update(made)

    def _unmake(self, made: Sequence[bytes]) -> None:
        for directory in reversed(made):
            with suppress(GitcpError):
                self.remove_directory(directory)

    def _note(self, path: bytes) -> None:
        """A name was made, replaced or removed: its directory is to be synced."""
        self.changed.add(path)
        self._touched.add(_parent(path))

    def _find(self, directory: bytes) -> int | None:
        """The descriptor of `directory`, valid until the next call; None if there is no such
        directory.
        """
        try:
            return self._directories.open(directory)
        except (FileNotFoundError, PathBlocked):
            return None

    def _locate(self, path: bytes, kinds: tuple[int, ...]) -> tuple[int, bytes]:
        """The descriptor of the directory of `path`, and its name there. Raises PathBlocked unless
        it is of `kinds`.
        """
        directory, name = self._directories.open(_parent(path)), _name(path)
        _require(kinds, os.stat(name, dir_fd=directory, follow_symlinks=False), path)
        return directory, name


def _change_mode(directory: int, name: bytes, permissions: int, path: bytes) -> None:
    """Changes the mode of a file or directory, but not through a link that has just taken its
    place.
    """
    if sys.platform != "linux":
        os.chmod(name, permissions, dir_fd=directory, follow_symlinks=False)
        return
    # Linux changes modes through a name or an open file only, and a file of mode 0000 does not open
    # but for its path.
    descriptor = os.open(name, os.O_PATH | os.O_NOFOLLOW, dir_fd=directory)
    try:
        found = os.fstat(descriptor)
        _require(_FILE + _DIRECTORY, found, path)
        kept = found.st_mode & 0o7000 if stat.S_ISDIR(found.st_mode) else 0
        os.chmod(f"/proc/self/fd/{descriptor}", kept | permissions)
    finally:
        os.close(descriptor)


def _checked(path: bytes) -> bytes:
    reason = problem(path)
    if reason:
        raise BadValue(f"the path {display(path)!r} {reason}. Nothing was changed")
    return path


def _parent(path: bytes) -> bytes:
    """The directory of a path, after the check that every path goes through."""
    return _checked(path).rpartition(b"/")[0]


def _name(path: bytes) -> bytes:
    return path.rpartition(b"/")[2]


def _require(kinds: tuple[int, ...], found: os.stat_result | None, path: bytes) -> None:
    """Raises PathBlocked if what was found at `path` is none of `kinds`. Nothing found is fine."""
    if found and kind(found) not in kinds:
        wanted = " or ".join(KINDS[kind] for kind in kinds)
        raise PathBlocked(f"{display(path)} is {named(found)}, not {wanted}. It was left as it was")


@contextmanager
def _reporting(action: str, path: bytes, kept: str = KEPT) -> Iterator[None]:
    """Turns the system's errors into gitcp's. `action` completes "cannot …"."""
    try:
        yield
    except OSError as error:
        raise _told(error, action, path, kept) from None


def _told(error: OSError, action: str, path: bytes, kept: str = KEPT) -> GitcpError:
    what = f"cannot {action} {display(path) or '.'}"
    if error.errno in fsync.FULL:
        return DiskFull(f"the disk is full: {what}. {kept}", hint="free some space, then try again")
    told = PathShut if isinstance(error, PermissionError) else GitcpError
    return told(f"{what}: {error.strerror}. {kept}")
