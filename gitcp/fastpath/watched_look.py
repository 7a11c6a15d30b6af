"""A look that a watcher helps: it is restricted to the directories that may have changed.

The answer to the watcher's last token says which these are (gitcp.watchers.watched). It counts only
for the stored scan that the token belongs to, and only while the watcher is trusted. No watcher
tells of mounts, so what is or was mounted inside is always looked at.
"""

from __future__ import annotations

import os

from gitcp import clock
from gitcp.fastpath import stat_check
from gitcp.watchers import watched
from gitcp.watchers.watched import OWN, SOCKETS, Watched

TYPE_CHECKING = False
if TYPE_CHECKING:
    from gitcp.fastpath.stat_check import Look
    from gitcp.fingerprint import Fingerprint
    from gitcp.watchers.watched import Answer

PARANOID = "GITCP_PARANOID"
"""The variable by which each watched scan looks at everything, too, and compares."""

PARTS = 100
"""One of so many parts of the tree is looked at by each watched look, whatever is reported."""


class Watch:
    """One look with a watcher's help: what was known, the answer, when it came.

    `is_narrow` if the answer restricts the look: then `shallow` and `deep` are the directories that
    may have changed, and those that may have at any depth. `missed` is one in which a change was
    not reported.
    """

    __slots__ = ("answer", "asked", "deep", "is_narrow", "known", "missed", "mounts", "shallow")

    def __init__(self, known: Watched, answer: Answer, asked: int) -> None:
        self.known, self.answer, self.asked = known, answer, asked
        self.shallow: frozenset[bytes] = frozenset()
        self.deep: tuple[bytes, ...] = ()
        self.is_narrow = False
        same = watched.instance(known.token) == watched.instance(answer.token)
        self.missed = known.missed if same else None
        self.mounts = known.mounts

    def narrow(self, look: Look, *, whole: bool = False) -> None:
        """Restrict a look, not begun yet, to what may have changed; not if the answer is that
        anything may, or if it is not about the stored scan, or if the watcher is not trusted.

        A `whole` look is not restricted either, but compared with the answer.
        """
        mounted = self._follow_mounts(look.root)
        if self.answer.paths is None or self.missed is not None or mounted is None:
            return
        try:
            state = look.load()
            if state.fingerprint != self.known.scan:
                return
            always = stat_check.always(state)
            part = stat_check.sample(state, self.next_part, PARTS)
        except (OSError, ValueError):
            return
        shallow, deep = watched.directories(self.answer.paths, exact=self.known.watcher == OWN)
        self.shallow, self.deep = frozenset((*shallow, *always)), (*deep, *mounted)
        self.is_narrow = True
        if not whole and PARANOID not in os.environ:
            look.only = self.shallow.union(part, (path + b"/" for path in self.deep))

    def _follow_mounts(self, root: bytes) -> frozenset[bytes] | None:
        """Return the mount points inside, now and when the watcher was asked before, None if they
        are not known. `gitcp watch` begins anew when they change; others go on watching what was
        hidden, or is no longer there, and are not trusted any more.
        """
        from gitcp.watchers import mounts  # only where something watches

        before, now = self.mounts, mounts.below(root)
        if now is None:
            return None
        changed = before ^ now
        if changed and self.answer.paths is not None and self.known.watcher != OWN:
            self.missed = self.missed or min(changed)
        self.mounts = now
        return before | now

    @property
    def next_part(self) -> int:
        """Return which of PARTS is looked at whatever is reported."""
        return (self.known.part + 1) % PARTS

    def after(self, scan: Fingerprint) -> Watched:
        """Return what is known when the scan `scan` is stored, which began after the answer."""
        known = self.known
        is_told = known.is_told and self.missed is not None
        return Watched(
            scan,
            known.watcher,
            known.address,
            self.answer.token,
            self.asked,
            self.next_part,
            self.missed,
            is_told,
            self.mounts,
        )


def watch(known: Watched, answer: Answer | None) -> Watch | None:
    """Return a look with this answer, None without one."""
    return Watch(known, answer, clock.nanoseconds()) if answer is not None else None


def begin(look: Look, *, whole: bool = False) -> None:
    """Begin a look, restricted, unless it is to be `whole`, by the answer of a watcher that speaks
    git's protocol. If another one must be asked first, the scan does that, and begins its own.
    Never raises.
    """
    git_dir = os.path.dirname(os.path.dirname(look.state))
    known = _known(git_dir)
    look.only = look.watch = None  # those of an earlier `begin`
    if known is not None and watched.may_answer(git_dir, known):
        if known.watcher not in SOCKETS:
            return
        look.watch = watch(known, watched.ask(git_dir, known))
        if look.watch is not None:
            look.watch.narrow(look, whole=whole)
    look.begin()


def _known(git_dir: str) -> Watched | None:
    """Return what is known of the watcher to ask: `gitcp watch`, if it runs now."""
    known = watched.load(git_dir)
    if (known is None or known.watcher != OWN) and watched.listens(git_dir, OWN):
        return Watched((), OWN, os.path.join(git_dir, SOCKETS[OWN]), watched.FAKE)
    return known


def is_unchanged(look: Look, scan: Fingerprint | None) -> bool:
    """Return whether a look that was begun finds everything as in the scan `scan`; then its token
    is the one to ask with the next time.
    """
    if look.answer(scan) != []:
        return False
    if look.watch is not None and scan is not None:
        watched.store(os.path.dirname(os.path.dirname(look.state)), look.watch.after(scan))
    return True
