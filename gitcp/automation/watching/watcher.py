"""Wait for changes in the working tree that affect a save. The only user of watchfiles.

Each directory is watched separately, so that ignored files cost nothing: no watch, no event. Only
directory names are scanned, at the start and when directories appear. On Linux gitcp watches by
itself, and a thread keeps a journal for other processes, for which it answers at
`<git dir>/gitcp/watch.ipc`; elsewhere watchfiles wakes it.
"""

from __future__ import annotations

import _socket
import errno
import os
import select
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from gitcp import installed
from gitcp.automation.watching import inotify
from gitcp.automation.watching.journal import EVERYTHING, Journal
from gitcp.errors import GitcpError, RepositoryNotFound
from gitcp.fastpath import watch_ipc, watched
from gitcp.git import index
from gitcp.git.repo import Repository
from gitcp.model import RESERVED
from gitcp.worktree.dependencies import DEPENDENCIES, is_overfull
from gitcp.worktree.paths import is_temporary
from gitcp.worktree.reading import content
from gitcp.worktree.rules import ignored

if TYPE_CHECKING:
    from watchfiles._rust_notify import RustNotify


COOKIE = "watch-cookie."
COOKIE_SECONDS = 1.0
"""How long the event of a file that was just made may take."""

CLIENT_SECONDS = 0.5
"""How long a client may take to ask, and to read."""

Tell = Callable[[list[tuple[bytes, bool]] | OSError], None]


class WatchServer:
    """Keeps a journal in a thread of its own, and answers from `address` until closed.

    `directory` is where cookies are made: gitcp's own, and watched by the journal. `tell` is called
    in that thread with the events that the journal read, and with the error that ends it.
    """

    def __init__(self, journal: Journal, directory: str, address: str, tell: Tell) -> None:
        self._journal, self._directory, self._address = journal, directory, address
        self._tell = tell
        self._cookies = 0
        self._seen: set[bytes] = set()
        self._lock = threading.Lock()
        self._end, self._ended = os.pipe()
        self._listener = self._listen()
        self._thread = threading.Thread(target=self._run, name="journal", daemon=True)
        self._thread.start()

    def watch_also(self, elsewhere: Iterable[bytes]) -> None:
        """Watch these directories outside the tree, too. Raises OSError."""
        with self._lock:
            self._journal.watch_also(elsewhere)

    def close(self) -> None:
        """Stop answering, and end all watches."""
        os.close(self._ended)
        self._thread.join()
        os.close(self._end)

    def _listen(self) -> Any:
        """Return a listening socket with the address; what an ended process left is replaced."""
        listener = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
        temporary = f"{self._address}.{os.getpid()}"
        with suppress(FileNotFoundError):
            os.unlink(temporary)
        with watch_ipc.WatchAddress(temporary) as address:
            listener.bind(address)
        os.chmod(temporary, 0o600)
        listener.listen(16)
        self._inode = os.lstat(temporary).st_ino
        os.rename(temporary, self._address)
        return listener

    def _run(self) -> None:
        try:
            while self._wait():
                pass
        except OSError as error:
            self._tell(error)
        finally:
            with suppress(OSError):
                if os.lstat(self._address).st_ino == self._inode:
                    os.unlink(self._address)
            self._listener.close()
            self._journal.close()

    def _wait(self) -> bool:
        """Wait for events, a client or the end; return whether to go on."""
        listener = self._listener.fileno()
        ready = _readable([self._end, self._journal.descriptor, listener], None)
        if self._end in ready:
            return False
        with self._lock:
            self._read()
            if listener in ready:
                self._serve()
        return True

    def _read(self) -> None:
        events = self._journal.read()
        own = os.fsencode(self._directory) + b"/"
        told = [each for each in events if not each[0].startswith(own)]
        self._seen = {path for path, _ in events}
        if told:
            self._tell(told)

    def _serve(self) -> None:
        """Answer one client. What goes wrong with it is its own matter."""
        descriptor, _ = self._listener._accept()
        connection = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM, 0, descriptor)
        try:
            connection.settimeout(CLIENT_SECONDS)
            if watch_ipc.owner(connection)[1] != os.geteuid():
                return
            token = watch_ipc.receive(connection, time.monotonic() + CLIENT_SECONDS)
            if token is not None:
                connection.sendall(b"".join(watch_ipc.lines(self._answer(token))))
        except (TimeoutError, ConnectionError, ValueError):
            return
        finally:
            connection.close()

    def _answer(self, token: bytes) -> bytes:
        is_current = self._is_current()
        paths = self._journal.since(token) if is_current else EVERYTHING
        return b"\0".join((self._journal.token if is_current else b"", *paths, b""))

    def _is_current(self) -> bool:
        """Return whether the journal has every event until now: it has that of a new file, which
        comes after them.
        """
        self._cookies += 1
        cookie = os.path.join(self._directory, f"{COOKIE}{os.getpid()}-{self._cookies}")
        try:
            os.close(os.open(cookie, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
            os.unlink(cookie)
        except OSError:
            return False
        until = time.monotonic() + COOKIE_SECONDS
        while (left := until - time.monotonic()) > 0:
            _readable([self._journal.descriptor], left)
            self._read()
            if os.fsencode(cookie) in self._seen:
                return True
        return False


def _readable(descriptors: Sequence[int], seconds: float | None) -> set[int]:
    """Return those of the descriptors that can be read, or were closed at the other end."""
    poll = select.poll()
    for descriptor in descriptors:
        poll.register(descriptor, select.POLLIN)
    return {descriptor for descriptor, _ in poll.poll(None if seconds is None else seconds * 1000)}


STEP_MS = 200
TOGETHER_MS = 1000
ADDED, MODIFIED, DELETED = 1, 2, 3
MISSING = "watching needs the package watchfiles, which is not installed"

QUIET, BATCH_SECONDS = 0.2, 1.0
"""Seconds without an event, and from the first, after which events count as one change."""

POLL = 0.5
"""Seconds after which a stop is noticed."""

Elsewhere = Callable[[], Iterable[Path]]
"""Returns the watched paths outside the working tree, existing or not; called again when
directories appear.
"""


class Stop:
    """A request to stop waiting; `set` may be called by a signal handler."""

    def __init__(self) -> None:
        self._is_set = False

    def set(self) -> None:
        """Request the stop."""
        self._is_set = True

    def is_set(self) -> bool:
        """Return whether a stop was requested; the method that watchfiles calls."""
        return self._is_set


class Watcher(Protocol):
    """Watches one working tree and paths elsewhere, from its creation on."""

    def wait(self, seconds: float | None) -> bool:
        """Return whether something changed within `seconds` (None for no limit), or before it was
        stopped.

        Raises RepositoryNotFound if the working tree is gone, GitcpError if it can no longer be
        watched.
        """
        ...

    def close(self) -> None:
        """Stop watching."""
        ...


def watcher(repo: Repository, most: int, elsewhere: Elsewhere, stop: Stop) -> Watcher:
    """Return what watches a working tree on this system. Raises GitcpError if it cannot be watched.

    `most` is the size of a directory of dependencies that a save skips.
    """
    relevance = Relevance(repo, most, elsewhere)
    if sys.platform != "linux":
        return WatchfilesWatcher(repo, relevance, stop)
    return JournalWatcher(repo, relevance, stop)


class JournalWatcher:
    """Watches one working tree and paths elsewhere, from its creation on; answers other processes
    meanwhile.

    Raises GitcpError if there are more directories than the system allows to watch.
    """

    def __init__(self, repo: Repository, relevance: Relevance, stop: Stop) -> None:
        self._repo, self._relevance, self._stop = repo, relevance, stop
        self._events: list[tuple[bytes, bool]] = []
        self._error: OSError | None = None
        self._arrived = threading.Condition()
        own = repo.state_dir
        outside = {*relevance.outside(), os.fsencode(own)}
        address = str(repo.git_dir / watched.SOCKET)
        try:
            journal = Journal(os.fsencode(repo.root), relevance.enters, outside)
        except OSError as error:
            raise self._failed(error) from None
        self._server = WatchServer(journal, str(own), address, self._take)

    def wait(self, seconds: float | None) -> bool:
        """Return whether something changed within `seconds` (None for no limit), or before the
        stop.

        Raises RepositoryNotFound if the working tree is gone, GitcpError if it can no longer be
        watched.
        """
        events = self._next(seconds)
        if not self._repo.git_dir.is_dir():
            raise RepositoryNotFound(
                f"the repository at {self._repo.root} no longer exists; watching stopped"
            )
        relevant = [path for path, more in events if self._relevance.matters(path, is_more=more)]
        if any(more for _, more in events):
            try:
                self._server.watch_also(self._relevance.outside())
            except OSError as error:
                raise self._failed(error) from None
        return bool(relevant)

    def close(self) -> None:
        """Stop watching."""
        self._server.close()

    def _take(self, events: list[tuple[bytes, bool]] | OSError) -> None:
        with self._arrived:
            if isinstance(events, OSError):
                self._error = events
            else:
                self._events += events
            self._arrived.notify()

    def _next(self, seconds: float | None) -> list[tuple[bytes, bool]]:
        """Return the events of one change, none if there are none in time."""
        until = None if seconds is None else time.monotonic() + seconds
        with self._arrived:
            while not self._events and not self._stop.is_set():
                if self._error is not None:
                    raise self._failed(self._error)
                left = POLL if until is None else min(POLL, until - time.monotonic())
                if left <= 0:
                    return []
                self._arrived.wait(left)
            first = time.monotonic()
            while self._arrived.wait(QUIET) and time.monotonic() < first + BATCH_SECONDS:
                pass
            events, self._events = self._events, []
        more = {path for path, is_more in events if is_more}
        return [(path, path in more) for path in dict(events)]

    def _failed(self, error: OSError) -> GitcpError:
        if error.errno not in (errno.ENOSPC, errno.EMFILE):
            return GitcpError(f"{self._repo.root} cannot be watched: {error.strerror}")
        most = inotify.most_watches() or 0
        return GitcpError(
            f"{self._repo.root} cannot be watched: it has more directories than this system lets "
            f"you watch, {most:,} in all",
            hint=inotify.RAISE,
        )


class WatchfilesWatcher:
    """Watches by watchfiles, which does not say what it lost: good for waking, not for trust."""

    def __init__(self, repo: Repository, relevance: Relevance, stop: Stop) -> None:
        self._repo, self._relevance, self._stop = repo, relevance, stop
        self._notify = self._start()

    def wait(self, seconds: float | None) -> bool:
        """Return whether something changed within `seconds` (None for no limit), or before `stop`
        is set.

        Raises RepositoryNotFound if the working tree is gone, GitcpError if it can no longer be
        watched.
        """
        timeout = 0 if seconds is None else max(1, int(seconds * 1000))
        events = self._notify.watch(TOGETHER_MS, STEP_MS, timeout, self._stop)
        if isinstance(events, str):
            return False
        relevant = [
            (kind, path)
            for kind, path in events
            if self._relevance.matters(os.fsencode(path), is_more=kind != MODIFIED)
        ]
        if any(kind != MODIFIED or path.endswith("/.gitignore") for kind, path in relevant):
            previous, self._notify = self._notify, self._start()
            previous.close()
        return bool(relevant)

    def close(self) -> None:
        """Stop watching."""
        self._notify.close()

    def _start(self) -> RustNotify:
        try:
            from watchfiles._rust_notify import RustNotify  # 10 ms, and an extra
        except ImportError:
            raise GitcpError(MISSING, hint=installed.install_extra("watch")) from None
        paths = self._watched_paths()
        while True:
            try:
                notify = RustNotify(sorted(paths), False, False, 0, False, True)
            except FileNotFoundError:  # deleted meanwhile
                notify = None
            except (OSError, RuntimeError) as error:
                message = (
                    f"{self._repo.root} cannot be watched ({len(paths):,} directories): {error}"
                )
                raise GitcpError(
                    message, hint="on Linux: sysctl fs.inotify.max_user_watches"
                ) from None
            previous, paths = paths, self._watched_paths()
            if notify is not None and paths == previous:
                return notify  # else a directory appeared before it was watched

    def _watched_paths(self) -> set[str]:
        """Raises RepositoryNotFound if the repository is gone."""
        if not self._repo.git_dir.is_dir():
            raise RepositoryNotFound(
                f"the repository at {self._repo.root} no longer exists; watching stopped"
            )
        outside = set(map(os.fsdecode, self._relevance.outside()))
        return outside | {os.fsdecode(path) for path in self._directories()}

    def _directories(self) -> Iterator[bytes]:
        """Yield the directories of the working tree that a save captures files from."""
        root = os.fsencode(self._repo.root)
        level = [b""]
        while level:
            yield from (os.path.join(root, path) if path else root for path in level)
            level = self._relevance.enters([p for parent in level for p in _below(root, parent)])


def _below(root: bytes, directory: bytes) -> Iterator[bytes]:
    """Yield the subdirectories of a directory, none if it is not to be watched or cannot be
    listed.
    """
    try:
        with os.scandir(os.path.join(root, directory)) as listing:
            names = [entry.name for entry in listing if entry.is_dir(follow_symlinks=False)]
    except OSError:
        return
    prefix = directory + b"/" if directory else b""
    yield from (
        prefix + name for name in names if name != b".git" and (directory or name != RESERVED)
    )


class Relevance:
    """Ignored files and directories do not matter, unless they are tracked; nor does what is in a
    repository inside, or in a directory with more than `most` dependencies.
    """

    def __init__(self, repo: Repository, most: int, elsewhere: Elsewhere) -> None:
        self._repo, self._most, self._elsewhere = repo, most, elsewhere
        self._root = os.fsencode(repo.root)
        self._outside: frozenset[str] = frozenset()
        self._index: object = ()
        self._tracked: frozenset[bytes] = frozenset()

    def outside(self) -> set[bytes]:
        """Return the directories outside the working tree that are watched, asked for anew."""
        self._outside = frozenset(map(str, self._elsewhere()))
        return {
            os.fsencode(directory)
            for path in self._outside
            for directory in (path, os.path.dirname(path))
            if os.path.isdir(directory)
        }

    def enters(self, paths: list[bytes]) -> list[bytes]:
        """Return those of these directories of one depth in which a save captures files."""
        ignored_paths = ignored(self._repo, [path + b"/" for path in paths], self._read)
        tracked = self._ignored_but_tracked() if ignored_paths else frozenset()
        return [
            path
            for path in paths
            if path != RESERVED
            and (path in tracked or (path + b"/" not in ignored_paths and not self._skips(path)))
        ]

    def matters(self, path: bytes, *, is_more: bool) -> bool:
        """Return whether a change of an absolute path can affect a save; `is_more` if it is not
        only a file's content.
        """
        root = self._root + b"/"
        if not path.startswith(root):
            name = os.fsdecode(path)
            return name in self._outside or (is_more and os.path.dirname(name) in self._outside)
        relative = path.removeprefix(root)
        top, name_ = relative.split(b"/")[0], os.path.basename(relative)
        if top in (b".git", RESERVED) or is_temporary(name_):
            return False
        query = relative + b"/" if os.path.isdir(path) and not os.path.islink(path) else relative
        if not ignored(self._repo, [query], self._read):
            return True
        return relative in self._ignored_but_tracked()

    def _ignored_but_tracked(self) -> frozenset[bytes]:
        """Return the tracked paths that are ignored, and the directories above them. git is asked
        again only when the index changed.
        """
        file = index.current_fingerprint(self._repo)
        if file != self._index:
            listing = self._repo.git("ls-files", "-z", "-c", "-i", "--exclude-standard")
            files = listing.split(b"\0")[:-1]
            above = {
                path[:at] for path in files for at in range(len(path)) if path[at : at + 1] == b"/"
            }
            self._index, self._tracked = file, frozenset({*files, *above})
        return self._tracked

    def _skips(self, path: bytes) -> bool:
        """Return whether a save skips a directory as a whole."""
        full = self._root + b"/" + path
        return os.path.lexists(full + b"/.git") or (
            os.path.basename(path) in DEPENDENCIES and is_overfull(full, self._most)
        )

    def _read(self, path: bytes) -> bytes | None:
        return content(self._root + b"/" + path)
