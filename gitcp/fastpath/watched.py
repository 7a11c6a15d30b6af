"""What watches a working tree, and what it answered: which directories may have changed since the
last scan, so that the others need no look.

`<git dir>/gitcp/watched` names the scan that was stored last, who watches, and the token it gave
before that scan. It is a cache: of another scan, or from another watcher, it counts for nothing,
and everything is looked at; also if no answer comes, or one that says so.
"""

from __future__ import annotations

import os

from gitcp.fastpath import ipc, trusted_cache

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from gitcp.fastpath.fingerprint import Fingerprint

NAME = "watched"
OWN, GIT, HOOK, WATCHMAN = "gitcp watch", "git fsmonitor--daemon", "core.fsmonitor", "watchman"
"""Those that can watch: a process of `gitcp watch`, git's daemon, a program that git's settings
name, Watchman.
"""

SOCKETS = {OWN: os.path.join("gitcp", "watch.ipc"), GIT: "fsmonitor--daemon.ipc"}
"""Where those listen that speak git's protocol, below the git directory."""

FAKE = b"builtin:fake"
"""A token that nobody gave: the answer is a new one, and that everything may have changed."""

PARANOID = "GITCP_PARANOID"
"""The variable by which each watched scan looks at everything, too, and compares."""


class Watched:
    """Who watches, and what is known by it.

    `scan` is the identity of the stored scan, `watcher` one of the names above, `address` the path
    of its socket or its command; `token` was given before that scan. `path` is where the rotating
    look goes on.
    """

    __slots__ = ("address", "path", "scan", "token", "watcher")

    def __init__(
        self, scan: Fingerprint, watcher: str, address: str, token: bytes, path: bytes
    ) -> None:
        self.scan, self.watcher, self.address = scan, watcher, address
        self.token, self.path = token, path

    def plain(self) -> tuple[Fingerprint, str, str, bytes, bytes]:
        """Return it as a plain tuple, which marshal accepts."""
        return self.scan, self.watcher, self.address, self.token, self.path


class Answer:
    """What a watcher answered: `token` for the next time; `paths` relative to the root that may
    have changed, with a "/" at the end of a directory with anything below it. None for everything.
    """

    __slots__ = ("paths", "token")

    def __init__(self, token: bytes, paths: list[bytes] | None) -> None:
        self.token, self.paths = token, paths


def load(git_dir: str) -> Watched | None:
    """Return what is known, None if nothing. Never raises."""
    known = trusted_cache.load(os.path.join(git_dir, "gitcp", NAME))
    try:
        return Watched(*known) if known is not None else None
    except TypeError:
        return None


def parse(data: bytes | None) -> Answer | None:
    """Return the answer of a hook of version 2 or of git's daemon; None if it is not one."""
    token, end, rest = (data or b"").partition(b"\0")
    if not token or not end or (rest and not rest.endswith(b"\0")):
        return None
    paths = rest.split(b"\0")[:-1]
    if b"/" in paths or any(is_outside(path) for path in paths):
        return Answer(token, None)
    return Answer(token, [b"" if path == b"." else path for path in paths])


def is_outside(path: bytes) -> bool:
    """Return whether this cannot be a path relative to the root of the working tree."""
    return not path or path.startswith(b"/") or b".." in path.split(b"/")


def ask(watched: Watched) -> Answer | None:
    """Ask a watcher that speaks git's protocol; None if it does not answer. Never raises."""
    return parse(ipc.ask(watched.address, watched.token))


def directories(paths: Iterable[bytes]) -> tuple[set[bytes], list[bytes]]:
    """Return the directories that reported paths are in or may be, and those that may have changed
    at any depth (the latter without the "/").
    """
    shallow, deep = set[bytes](), []
    for path in paths:
        name = path.rstrip(b"/")
        shallow.update((name, name.rpartition(b"/")[0]))
        if name != path:
            deep.append(name)
    return shallow, deep
