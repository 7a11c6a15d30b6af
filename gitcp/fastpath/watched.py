"""What `gitcp watch` tells: which directories may have changed since the last scan, so that the
others need no look.

`<git dir>/gitcp/watched` names the scan that was stored last, and the token that the watcher gave
before that scan. It is a cache: of another scan it counts for nothing, and everything is looked at;
also if no answer comes, or one that says so. No watcher tells of mounts, so what is or was mounted
inside is always looked at.

This module loads no `typing`, no `socket`, and the protocol only where something listens.
"""

from __future__ import annotations

import os
import stat

from gitcp import clock, trusted_cache
from gitcp.fastpath import stat_check

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from gitcp.fastpath.stat_check import Look
    from gitcp.fingerprint import Fingerprint

NAME = "watched"
WATCHER = "gitcp watch"
SOCKET = os.path.join("gitcp", "watch.ipc")
"""Where it listens, below the git directory."""

NO_TOKEN = b"none"
"""A token that nobody gave: the answer is a new one, and that everything may have changed."""

PARANOID = "GITCP_PARANOID"
"""The variable by which each watched scan looks at everything, too, and compares."""

PARTS = 100
"""One of so many parts of the tree is looked at by each watched look, whatever is reported."""


class Watched:
    """What is known by a watcher.

    `scan` is the identity of the stored scan. `token` was given before that scan, at `asked` (in
    nanoseconds since 1970, by the exact clock: no file that changed before has a later time).
    `part` is the part of the tree that was looked at last. `missed` is a directory in which this
    watcher did not report a change (None: it is trusted), `is_told` whether the user knows.
    `mounts` are the mount points below the root then.
    """

    __slots__ = ("asked", "is_told", "missed", "mounts", "part", "scan", "token")

    def __init__(
        self,
        scan: Fingerprint,
        token: bytes,
        asked: int = 0,
        part: int = 0,
        missed: bytes | None = None,
        is_told: bool = False,
        mounts: frozenset[bytes] = frozenset(),
    ) -> None:
        self.scan, self.token, self.asked, self.part = scan, token, asked, part
        self.missed, self.is_told, self.mounts = missed, is_told, mounts

    def plain(self) -> tuple[object, ...]:
        """Return it as a plain tuple, which marshal accepts, with the arguments in their order."""
        known = (self.scan, self.token, self.asked, self.part)
        return (*known, self.missed, self.is_told, self.mounts)


class WatcherAnswer:
    """What a watcher answered: `token` for the next time; `paths` relative to the root that may
    have changed, with a "/" at the end of a directory with anything below it. None for everything.
    """

    __slots__ = ("paths", "token")

    def __init__(self, token: bytes, paths: list[bytes] | None) -> None:
        self.token, self.paths = token, paths


class Watch:
    """One look with a watcher's help: what was known, the answer, when it came.

    `is_narrow` if the answer restricts the look: then `shallow` and `deep` are the directories that
    may have changed, and those that may have at any depth. `missed` is one in which a change was
    not reported.
    """

    __slots__ = ("answer", "asked", "deep", "is_narrow", "known", "missed", "mounts", "shallow")

    def __init__(self, known: Watched, answer: WatcherAnswer, asked: int) -> None:
        self.known, self.answer, self.asked = known, answer, asked
        self.shallow: frozenset[bytes] = frozenset()
        self.deep: tuple[bytes, ...] = ()
        self.is_narrow = False
        same = instance(known.token) == instance(answer.token)
        self.missed = known.missed if same else None
        self.mounts = known.mounts

    def narrow(self, look: Look, *, whole: bool) -> None:
        """Restrict a look, not begun yet, to what may have changed; not if the answer is that
        anything may, or if it is not about the stored scan, or if the watcher is not trusted.

        A `whole` look is not restricted either, but compared with the answer.
        """
        mounted = self._follow_mounts(look.root)
        if self.answer.paths is None or self.missed is not None or mounted is None:
            return
        try:
            state = look.load()
            # A process that had begun to scan earlier stored its scan between another save's
            # question and its look: that save lacked earlier changes.
            if state.fingerprint != self.known.scan:
                return
            always = stat_check.always(state)
            part = stat_check.sample(state, self._next_part, PARTS)
        except (OSError, ValueError):
            return
        shallow, deep = directories(self.answer.paths)
        self.shallow, self.deep = frozenset((*shallow, *always)), (*deep, *mounted)
        self.is_narrow = True
        if not whole and PARANOID not in os.environ:
            look.only = self.shallow.union(part, (path + b"/" for path in self.deep))

    def _follow_mounts(self, root: bytes) -> frozenset[bytes] | None:
        """Return the mount points inside, now and when the watcher was asked before, None if they
        are not known.
        """
        from gitcp.fastpath import mounts  # only where something watches

        before, now = self.mounts, mounts.below(root)
        if now is None:
            return None
        self.mounts = now
        return before | now

    @property
    def _next_part(self) -> int:
        """Return which of PARTS is looked at whatever is reported."""
        return (self.known.part + 1) % PARTS

    def after(self, scan: Fingerprint) -> Watched:
        """Return what is known when the scan `scan` is stored, which began after the answer."""
        is_told = self.known.is_told and self.missed is not None
        token, part = self.answer.token, self._next_part
        return Watched(scan, token, self.asked, part, self.missed, is_told, self.mounts)


def begin(look: Look, *, whole: bool = False) -> None:
    """Begin a look, restricted by what a watcher answers. Never raises."""
    look.only = look.watch = None  # those of an earlier `begin`
    narrow(look, whole=whole)
    look.begin()


def narrow(look: Look, *, whole: bool = False) -> None:
    """Restrict a look, not begun yet, by what a watcher answers, unless it is to be `whole`. Never
    raises.
    """
    git_dir = os.path.dirname(os.path.dirname(look.state))
    if listens(git_dir):
        known = load(git_dir) or Watched((), NO_TOKEN)
        answer = ask(git_dir, known.token)
        if answer is not None:
            look.watch = Watch(known, answer, clock.nanoseconds())
            look.watch.narrow(look, whole=whole)


def is_unchanged(look: Look, scan: Fingerprint | None) -> bool:
    """Return whether a look that was begun finds everything as in the scan `scan`; then its token
    is the one to ask with the next time.
    """
    if look.answer(scan) != []:
        return False
    if look.watch is not None and scan is not None:
        store(os.path.dirname(os.path.dirname(look.state)), look.watch.after(scan))
    return True


def load(git_dir: str) -> Watched | None:
    """Return what is known, None if nothing. Never raises."""
    stored = trusted_cache.load(os.path.join(git_dir, "gitcp", NAME))
    try:
        return Watched(*stored) if stored is not None else None
    except TypeError:
        return None


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


def listens(git_dir: str) -> bool:
    """Return whether there is a socket of a watcher. No archive can bring one, but a link to one of
    the user's other sockets: links are not followed.
    """
    path = os.path.join(git_dir, SOCKET)
    try:
        is_socket = stat.S_ISSOCK(os.lstat(path).st_mode)
        return is_socket and stat.S_ISDIR(os.lstat(os.path.dirname(path)).st_mode)
    except OSError:
        return False


def ask(git_dir: str, token: bytes) -> WatcherAnswer | None:
    """Ask the watcher what changed since a token; None if it does not answer. Never raises."""
    if not listens(git_dir):
        return None
    from gitcp.fastpath import watch_ipc  # only where something listens

    return parse(watch_ipc.ask(os.path.join(git_dir, SOCKET), token))


def parse(data: bytes | None) -> WatcherAnswer | None:
    """Return what a watcher answered; None if it is no answer."""
    token, end, rest = (data or b"").partition(b"\0")
    if not token or not end or (rest and not rest.endswith(b"\0")):
        return None
    paths = rest.split(b"\0")[:-1]
    if b"/" in paths or any(_is_outside(path) for path in paths):
        return WatcherAnswer(token, None)
    return WatcherAnswer(token, [b"" if path == b"." else path for path in paths])


def _is_outside(path: bytes) -> bool:
    """Return whether this cannot be a path relative to the root of the working tree."""
    return not path or path.startswith(b"/") or b".." in path.split(b"/")


def instance(token: bytes) -> bytes:
    """Return what a token has in common with all others of the same process."""
    return token.rpartition(b":")[0] or token


def directories(paths: Iterable[bytes]) -> tuple[set[bytes], list[bytes]]:
    """Return the directories that reported paths are in or may be, with those above; and those that
    may have changed at any depth, which have a "/" at the end.
    """
    shallow, deep = set[bytes](), []
    for path in paths:
        name = path.rstrip(b"/")
        if name == path:
            parent = name.rpartition(b"/")[0]
            shallow.update((name, parent, parent.rpartition(b"/")[0]))
        elif name:
            deep.append(name)
    return shallow, deep
