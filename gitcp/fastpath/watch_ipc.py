"""Ask `gitcp watch` (gitcp.automation.watching.watcher), in the protocol of git's fsmonitor daemon.

The request is a token; the answer a new token, NUL, and the paths that may have changed since the
first one, NUL after each: both in pkt-lines, over a Unix socket. Only a process of this user is
believed, which Linux alone tells here, and only if it sees the same mounts: in a sandbox, the same
path may be another directory. This module loads no `socket`, which takes 8 ms of the 25 of an
unchanged save.
"""

from __future__ import annotations

import os
import struct
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

FLUSH = b"0000"
LARGEST = 65516
"""Bytes of content in one pkt-line."""

MOST = 64 << 20
"""Bytes of an answer: more is no answer."""

SECONDS = 2.0
"""How long a watcher may take to answer."""

MOUNTS = "/proc/%s/ns/mnt"
"""The mount namespace of a process."""

ADDRESS = 100
"""Bytes of a path that is surely short enough for the address of a socket."""


def ask(path: str, token: bytes, seconds: float = SECONDS) -> bytes | None:
    """Return the answer of the process that listens at `path`, undecoded; None if there is none, if
    another user runs it, or if it takes longer than `seconds`. Never raises.
    """
    until = time.monotonic() + seconds
    try:
        connection = connect(path, seconds)
        try:
            connection.sendall(b"".join(lines(token)))
            return receive(connection, until)
        finally:
            connection.close()
    except (OSError, ValueError):
        return None


def connect(path: str, seconds: float) -> Any:
    """Return a `_socket.socket` connected to a process of this user. Raises OSError,
    PermissionError if it is not this user's, or in another mount namespace.
    """
    import _socket

    connection = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
    try:
        connection.settimeout(seconds)
        with WatchAddress(path) as address:
            connection.connect(address)
        process, user = owner(connection)
        # Another user could report what they like, and a watcher in a sandbox sees another
        # directory at this path: a save then lacked changes.
        if user != os.geteuid() or os.readlink(MOUNTS % process) != os.readlink(MOUNTS % "self"):
            raise PermissionError(path)
    except BaseException:
        connection.close()
        raise
    return connection


def owner(connection: Any) -> tuple[int, int]:
    """Return the process at the other end and its user. Raises OSError where the system does not
    tell.
    """
    if sys.platform != "linux":
        raise OSError("the user of a socket is known on Linux alone")
    import _socket

    asked = connection.getsockopt(_socket.SOL_SOCKET, _socket.SO_PEERCRED, 12)
    pid, user, _ = struct.unpack("=iII", asked)
    return pid, user


class WatchAddress:
    """A path as the address of a socket, which has at most 107 bytes: a longer one goes through a
    descriptor of its directory, as long as the `with` block lasts.
    """

    def __init__(self, path: str) -> None:
        self._path, self._descriptor = path, -1

    def __enter__(self) -> str:
        if len(os.fsencode(self._path)) < ADDRESS:
            return self._path
        directory, name = os.path.split(self._path)
        self._descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        return f"/proc/self/fd/{self._descriptor}/{name}"

    def __exit__(self, *_: object) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)


def lines(content: bytes) -> Iterator[bytes]:
    """Yield `content` as pkt-lines and a flush."""
    for start in range(0, len(content), LARGEST):
        part = content[start : start + LARGEST]
        yield b"%04x" % (len(part) + 4) + part
    yield FLUSH


def receive(connection: Any, until: float) -> bytes | None:
    """Return what the pkt-lines up to the flush contain, None if they end before or are too many.

    Raises OSError, also when `until` (by time.monotonic) has passed, ValueError for no pkt-line.
    """
    parts: list[bytes] = []
    size, data = 0, b""
    while True:
        while len(data) >= 4 and (data[:4] == FLUSH or len(data) >= int(data[:4], 16)):
            length = int(data[:4], 16)
            if length == 0:
                return b"".join(parts)
            if length < 4:
                raise ValueError(data[:4])
            parts.append(data[4:length])
            size, data = size + length, data[length:]
        connection.settimeout(max(0.001, until - time.monotonic()))
        more = connection.recv(1 << 20)
        if not more or size > MOST:
            return None
        data += more
