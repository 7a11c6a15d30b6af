"""What is known of what watches a working tree, and what a watcher answers: which directories may
have changed since the last scan, so that the others need no look.

`<git dir>/gitcp/watched` names the scan that was stored last, who watches, and the token it gave
before that scan. It is a cache: of another scan, or from another watcher, it counts for nothing,
and everything is looked at; also if no answer comes, or one that says so.
"""

from __future__ import annotations

import os
import stat

from gitcp import trusted_cache

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from gitcp.fingerprint import Fingerprint

NAME = "watched"
OWN, GIT, HOOK, WATCHMAN = "gitcp watch", "git fsmonitor--daemon", "core.fsmonitor", "watchman"
"""Those that can watch: a process of `gitcp watch`, git's daemon, a program that git's settings
name, Watchman.
"""

SOCKETS = {OWN: os.path.join("gitcp", "watch.ipc"), GIT: "fsmonitor--daemon.ipc"}
"""Where those listen that speak git's protocol, below the git directory."""

FAKE = b"builtin:fake"
"""A token that nobody gave: the answer is a new one, and that everything may have changed."""


class Watched:
    """Who watches, and what is known by it.

    `scan` is the identity of the stored scan, `watcher` one of the names above, `address` the path
    of its socket or its command. `token` was given before that scan, at `asked` (in nanoseconds
    since 1970, by the exact clock: no file that changed before has a later time). `part` is the
    part of the tree that was looked at last. `missed` is a directory in which this watcher did not
    report a change (None: it is trusted), `is_told` whether the user knows. `mounts` are the mount
    points below the root then.
    """

    __slots__ = (
        "address",
        "asked",
        "is_told",
        "missed",
        "mounts",
        "part",
        "scan",
        "token",
        "watcher",
    )

    def __init__(
        self,
        scan: Fingerprint,
        watcher: str,
        address: str,
        token: bytes,
        asked: int = 0,
        part: int = 0,
        missed: bytes | None = None,
        is_told: bool = False,
        mounts: frozenset[bytes] = frozenset(),
    ) -> None:
        self.scan, self.watcher, self.address, self.token = scan, watcher, address, token
        self.asked, self.part, self.missed, self.is_told = asked, part, missed, is_told
        self.mounts = mounts

    def plain(self) -> tuple[object, ...]:
        """Return it as a plain tuple, which marshal accepts, with the arguments in their order."""
        known = (self.scan, self.watcher, self.address, self.token)
        return (*known, self.asked, self.part, self.missed, self.is_told, self.mounts)


class Answer:
    """What a watcher answered: `token` for the next time; `paths` relative to the root that may
    have changed, with a "/" at the end of a directory with anything below it. None for everything.
    """

    __slots__ = ("paths", "token")

    def __init__(self, token: bytes, paths: list[bytes] | None) -> None:
        self.token, self.paths = token, paths


def load(git_dir: str) -> Watched | None:
    """Return what is known, None if nothing. Never raises.

    A watcher whose socket is in the git directory is at no other address, whatever was stored.
    """
    stored = trusted_cache.load(os.path.join(git_dir, "gitcp", NAME))
    try:
        known = Watched(*stored) if stored is not None else None
    except TypeError:
        return None
    if known is None or known.watcher not in SOCKETS:
        return known
    return known if known.address == os.path.join(git_dir, SOCKETS[known.watcher]) else None


def listens(git_dir: str, watcher: str) -> bool:
    """Return whether there is a socket in the git directory for one of SOCKETS. No archive can
    bring one, but a link to one of the user's other sockets: links are not followed.
    """
    path = os.path.join(git_dir, SOCKETS[watcher])
    try:
        is_socket = stat.S_ISSOCK(os.lstat(path).st_mode)
        return is_socket and stat.S_ISDIR(os.lstat(os.path.dirname(path)).st_mode)
    except OSError:
        return False


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


def instance(token: bytes) -> bytes:
    """Return what a token has in common with all others of the same process."""
    return token.rpartition(b":")[0] or token


def may_answer(git_dir: str, known: Watched) -> bool:
    """Return whether there is something at a watcher's address; a command may be anywhere."""
    if known.watcher in SOCKETS:
        return listens(git_dir, known.watcher)
    return known.watcher == HOOK or os.path.exists(known.address)


def ask(git_dir: str, known: Watched) -> Answer | None:
    """Ask a watcher that speaks git's protocol; None if it does not answer. Never raises."""
    if not may_answer(git_dir, known):
        return None
    from gitcp.watchers import ipc  # only where something listens

    return parse(ipc.ask(known.address, known.token))


def store(git_dir: str, known: Watched) -> None:
    """Replace what is known. Never raises: without it, everything is looked at."""
    path = os.path.join(git_dir, "gitcp", NAME)
    temporary = f"{path}.{os.getpid()}"
    try:
        sealed = trusted_cache.sealed(path, known.plain())
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
        with open(os.open(temporary, flags, 0o600), "wb") as file:
            file.write(sealed)
        os.rename(temporary, path)
    except (OSError, ValueError):
        return


def directories(paths: Iterable[bytes], *, exact: bool) -> tuple[set[bytes], list[bytes]]:
    """Return the directories that reported paths are in or may be, with those above; and those that
    may have changed at any depth: if `exact`, the ones with a "/", else any, since git's daemon
    names renamed directories without it.
    """
    shallow, deep = set[bytes](), []
    for path in paths:
        name = path.rstrip(b"/")
        if name == path or not exact:
            parent = name.rpartition(b"/")[0]
            shallow.update((name, parent, parent.rpartition(b"/")[0]))
        if (name != path or not exact) and name:
            deep.append(name)
    return shallow, deep
