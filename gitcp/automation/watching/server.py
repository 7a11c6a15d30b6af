"""The journal of a working tree for other processes: a thread that keeps it, and answers in git's
protocol at `<git dir>/gitcp/watch.ipc`.
"""

from __future__ import annotations

import _socket
import os
import select
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import Any

from gitcp.automation.watching.journal import EVERYTHING, Journal
from gitcp.fastpath import watch_ipc

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
