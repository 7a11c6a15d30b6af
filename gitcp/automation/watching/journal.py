"""A journal of changed directories, by inotify: which may have changed since a token.

It claims no more than it can prove. A directory is watched before it is listed. One that is not
watched (ignored, unreadable, a mount point, on a file system that tells no changes) is named in
each answer, with all below it. An event says only that a name changed: what it names now is looked
up, since two directories may have been exchanged. A new name of a file that has others may change
anywhere: older tokens are answered with "everything". After lost events, a mount, or if there is
another directory at the root, the journal begins anew, with another name, and answers the same.
"""

from __future__ import annotations

import errno
import os
import secrets
import select
import stat
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING

from gitcp.automation.watching import inotify
from gitcp.automation.watching.inotify import Inotify
from gitcp.fastpath import mounts

if TYPE_CHECKING:
    from gitcp.automation.watching.inotify import FileEvent

EVERYTHING = [b"/"]
RULES = b".gitignore"
REPOSITORY = b".git"
NEW = inotify.CREATE | inotify.MOVED_TO
GONE = inotify.DELETE | inotify.MOVED_FROM

Enters = Callable[[list[bytes]], Iterable[bytes]]
"""Returns those of these directories, all of one depth, that are watched."""


class Journal:
    """Watches the tree at `root` (an absolute path), and `elsewhere`: directories outside it, which
    are in no answer. Not for several threads at once.

    `enters` decides which directories below the root are watched. Raises OSError if they cannot be
    watched (ENOSPC: there are too many).
    """

    def __init__(self, root: bytes, enters: Enters, elsewhere: Iterable[bytes] = ()) -> None:
        self._root, self._enters = root, enters
        self._elsewhere = frozenset(elsewhere)
        self._mount_events = MountEvents()
        self._queue = Inotify()
        self._begin()

    @property
    def descriptor(self) -> int:
        """Return the descriptor that can be read when there are events; another after some."""
        return self._queue.descriptor

    @property
    def size(self) -> int:
        """Return the number of watched directories."""
        return len(self._paths)

    @property
    def token(self) -> bytes:
        """Return the token of now."""
        return b"gitcp:%s:%d" % (self._name, self._number)

    def since(self, token: bytes) -> list[bytes]:
        """Return the directories that may have changed since a token, as git's daemon does: "/" for
        everything, "." for the root, a "/" at the end of one with anything below it.
        """
        name, _, number = token.removeprefix(b"gitcp:").partition(b":")
        is_ours = name == self._name and number.isdigit()
        is_known = is_ours and self._linked <= int(number) <= self._number
        if not is_known or not self._is_trusted:
            return EVERYTHING
        changed = []
        for path, changed_at in reversed(self._changed.items()):
            if changed_at <= int(number):
                break
            changed.append(path or b".")
        return changed + [path + b"/" for path in self._unwatched]

    def read(self) -> list[tuple[bytes, bool]]:
        """Take in the events that are there. Return the absolute paths with one, and whether it was
        more than a file's new bytes.

        Raises OSError if a directory cannot be watched.
        """
        if not self._is_same_tree():
            return [(self._root, True)]
        touched = dict[bytes, bool]()
        while events := self._queue.read():
            for event in events:
                if event.watch == -1 or event.mask & inotify.UNMOUNT:
                    self._restart()
                    return [(self._root, True)]
                path = self._take(event)
                if path is not None:
                    is_more = bool(event.mask & ~(inotify.MODIFY | inotify.CLOSE_WRITE))
                    touched[path] = touched.get(path, False) or is_more
        return list(touched.items())

    def watch_also(self, elsewhere: Iterable[bytes]) -> None:
        """Watch these directories outside the tree, too. Raises OSError."""
        for path in set(elsewhere) - self._elsewhere:
            self._add(path)
        self._elsewhere |= frozenset(elsewhere)

    def close(self) -> None:
        """End all watches."""
        self._queue.close()
        self._mount_events.close()

    # ------------------------------------------------------------ watches

    def _begin(self) -> None:
        self._name = _new_name()
        self._number = 1
        self._linked = 0
        self._has_added = True
        """Whether a directory was added since the mounts were looked at."""
        self._paths: dict[int, bytes] = {}
        self._numbers: dict[bytes, int] = {}
        self._changed: dict[bytes, int] = {}
        self._unwatched: set[bytes] = set()
        for path in self._elsewhere:
            self._add(path)
        status = os.lstat(self._root)
        self._device, self._inode = status.st_dev, status.st_ino
        self._mounts = mounts.below(self._root)
        self._is_trusted = inotify.is_trusted(self._root) and self._mounts is not None
        self._walk(b"")
        self._unwatched |= self._mounts or frozenset()  # a file can be one, too

    def _restart(self) -> None:
        """Begin anew: what happened in between is not known."""
        self._queue.close()
        self._queue = Inotify()
        self._begin()

    def _is_same_tree(self) -> bool:
        """Return whether the root is the directory that is watched, and has the same mounts below
        it; if not, begin anew. No event says so: a directory above may be another one, and a mount
        hides what is watched. While there is nothing at the root, no answer is worth anything, and
        nothing can be looked up.
        """
        try:
            status = os.lstat(self._root)
        except OSError:
            self._name, self._inode = _new_name(), -1
            return True
        is_same = (status.st_dev, status.st_ino) == (self._device, self._inode)
        happened = self._mount_events.happened()
        # A directory that was looked at while another was mounted over it was not watched later.
        is_same = is_same and not (happened and self._has_added and self._mounts is not None)
        self._has_added = False
        if is_same and not happened and not self._mounts:
            return True
        if is_same and mounts.below(self._root) == self._mounts:  # a directory above one may move
            return True
        self._restart()
        return False

    def _full(self, path: bytes) -> bytes:
        return self._root + b"/" + path if path else self._root

    def _add(self, full: bytes) -> bool:
        """Watch a directory; return whether its events now have this path. Raises OSError if there
        are too many.
        """
        try:
            number = self._queue.add(full)
        except OSError as error:
            if error.errno in (errno.ENOENT, errno.ENOTDIR, errno.EACCES, errno.ELOOP):
                return False
            raise
        known = self._paths.get(number, full)
        if known != full and _is_same(known, full):
            return False  # mounted twice: events have one path only
        self._paths[number] = full
        self._numbers[full] = number
        self._has_added = True
        return True

    def _walk(self, top: bytes, *, is_made: bool = False) -> None:
        """Watch a directory of the tree, which was just made or not, and those below it: each of
        them may have changed.
        """
        level = [top]
        while level:
            below = [path for directory in level for path in self._enter(directory, is_made)]
            entered = set(self._enters(below)) if below else set()
            for path in below:
                if path not in entered:
                    self._leave_out(path)
            level = [path for path in below if path in entered]

    def _enter(self, path: bytes, is_made: bool) -> Iterator[bytes]:
        """Watch a directory, then return those in it."""
        full = self._full(path)
        try:
            is_mounted = os.lstat(full).st_dev != self._device or path in (self._mounts or ())
            if is_mounted or not self._add(full):
                self._leave_out(path)
                return iter(())
            names, files = _entries(full)
        except (FileNotFoundError, NotADirectoryError, PermissionError):
            self._leave_out(path)  # until the directory above it has an event
            return iter(())
        self._unwatched.discard(path)
        self._mark(path)
        if is_made:
            self._note_links(files)
        return (path + b"/" + name if path else name for name in names if name != REPOSITORY)

    def _leave_out(self, path: bytes) -> None:
        self._drop(path)
        self._unwatched.add(path)

    def _drop(self, path: bytes) -> None:
        """Watch a directory and those below it no longer: they are gone, or have another name."""
        if path not in self._changed:
            self._unwatched.discard(path)
            return
        prefix = path + b"/"
        for each in [each for each in self._changed if each == path or each.startswith(prefix)]:
            self._drop_one(each)
        self._unwatched -= {each for each in self._unwatched if each.startswith(prefix)}

    def _drop_one(self, path: bytes) -> None:
        self._changed.pop(path, None)
        self._unwatched.discard(path)
        full = self._full(path)
        number = self._numbers.pop(full, -1)
        if self._paths.get(number) == full:
            del self._paths[number]
            self._queue.remove(number)

    def _mark(self, path: bytes) -> None:
        self._number += 1
        self._changed.pop(path, None)
        self._changed[path] = self._number

    def _note_links(self, files: Iterable[bytes]) -> None:
        """Answer older tokens with everything if one of these new files has other names."""
        # What was written through a link that was gone before the next save was not in it.
        if any(map(_has_links, files)):
            self._number += 1
            self._linked = self._number

    # ------------------------------------------------------------ events

    def _take(self, event: FileEvent) -> bytes | None:
        """Take in one event; return the path that it is about, None for nothing."""
        full = self._paths.get(event.watch)
        if full is None:
            return None
        if event.mask & inotify.IGNORED:  # the directory is gone; the one above it has an event
            del self._paths[event.watch]
            if self._numbers.get(full) == event.watch:
                del self._numbers[full]
            return None
        path = full[len(self._root) + 1 :]
        if self._full(path) == full and path in self._changed:  # else it is elsewhere
            self._mark(path)
            self._change(path, event.name, event.mask)
        return full + b"/" + event.name if event.name else full

    def _change(self, path: bytes, name: bytes, mask: int) -> None:
        """Follow what an event says of the directories below `path`."""
        child = path + b"/" + name if path else name
        if not name and mask & inotify.MOVE_SELF and not path:
            self._name = _new_name()  # it is another tree from now on
        elif name == RULES:
            self._walk(path)
        elif name == REPOSITORY and path:
            self._walk_new(path)
        elif name and mask & NEW and not mask & inotify.IS_DIRECTORY:
            self._note_links([self._full(child)])
        elif not name or not mask & inotify.IS_DIRECTORY or name == REPOSITORY:
            return
        # Of two directories exchanged at once, one was taken for gone and was no longer watched.
        elif mask & GONE and not self._is_there(child):
            if mask & inotify.DELETE:
                self._drop_one(child)  # it was empty
            else:
                self._drop(child)
        elif mask & (GONE | NEW) or child in self._unwatched:
            self._drop(child)
            self._walk_new(child, is_made=bool(mask & inotify.CREATE))

    def _is_there(self, path: bytes) -> bool:
        """Return whether there is a directory now, and no link to one."""
        try:
            return stat.S_ISDIR(os.lstat(self._full(path)).st_mode)
        except (FileNotFoundError, NotADirectoryError):
            return False
        except OSError:
            return True  # not known: it is then left out

    def _walk_new(self, child: bytes, *, is_made: bool = False) -> None:
        if child in set(self._enters([child])):
            self._walk(child, is_made=is_made)
        else:
            self._leave_out(child)


class MountEvents:
    """The mounts and unmounts that this process sees. Without /proc, each moment may have had
    one.
    """

    def __init__(self) -> None:
        self._descriptor = -1
        try:
            self._descriptor = os.open(mounts.TABLE, os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            return
        self._poll = select.poll()
        self._poll.register(self._descriptor, select.POLLPRI)

    def happened(self) -> bool:
        """Return whether there was one since the last time."""
        return self._descriptor < 0 or bool(self._poll.poll(0))

    def close(self) -> None:
        """Close what is read."""
        if self._descriptor >= 0:
            os.close(self._descriptor)


def _new_name() -> bytes:
    return secrets.token_hex(16).encode("ascii")


def _entries(full: bytes) -> tuple[list[bytes], list[bytes]]:
    """Return the names of the directories in one, and the paths of the files. Raises OSError."""
    directories, files = list[bytes](), list[bytes]()
    with os.scandir(full) as listing:
        for each in listing:
            if each.is_dir(follow_symlinks=False):
                directories.append(each.name)
            else:
                files.append(each.path)
    return directories, files


def _has_links(file: bytes) -> bool:
    """Return whether this is a file with several names."""
    try:
        status = os.lstat(file)
    except OSError:
        return False
    return stat.S_ISREG(status.st_mode) and status.st_nlink > 1


def _is_same(one: bytes, other: bytes) -> bool:
    try:
        return os.path.samestat(os.lstat(one), os.lstat(other))
    except OSError:
        return False
