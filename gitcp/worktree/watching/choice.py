"""Who is asked what changed, and whether the answer holds."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import suppress
from typing import TYPE_CHECKING

from gitcp import fingerprint
from gitcp.fastpath import watched_look
from gitcp.fastpath.nodes import Damaged
from gitcp.fastpath.stat_check import SMALL, Look
from gitcp.fingerprint import CTIME
from gitcp.git.repo import Repository
from gitcp.watchers import watched
from gitcp.watchers.watched import FAKE, GIT, HOOK, OWN, SOCKETS, WATCHMAN, Answer, Watched

if TYPE_CHECKING:
    from gitcp.fastpath.stat_check import Change
    from gitcp.fastpath.watched_look import Watch

NAME = "worktree-state"


def asked(repo: Repository, look: Look | None, *, whole: bool) -> Look:
    """Return the look of a scan that begins now: `look`, if a watcher was asked before it, or
    nothing watches; else one by the answer of whoever watches, which is not begun. If it is to be
    `whole`, everything is looked at, whatever the answer.
    """
    if look is not None and whole and look.only is not None:
        look.answer(None)  # which ends its processes
        look = None
    if look is not None and look.watch is not None:
        return look
    fresh = Look(os.fsencode(repo.root), str(repo.git_dir / "gitcp" / NAME))
    watch = _watch(repo, is_small=_is_small(look or fresh))
    if watch is None and look is not None:
        return look
    if watch is not None:
        fresh.watch = watch
        watch.narrow(fresh, whole=whole)
    return fresh


def _is_small(look: Look) -> bool:
    """Return whether the remembered tree is so small that all of it is looked at sooner than
    Watchman says where it listens. Never raises.
    """
    with suppress(OSError, Damaged):
        return bool(look.load().root[3] <= SMALL)
    return False


def _watch(repo: Repository, *, is_small: bool) -> Watch | None:
    """Ask those who may watch, one after the other; None if nobody does."""
    known = watched.load(str(repo.git_dir))
    for watcher, address in _candidates(repo, known, is_small=is_small):
        is_same = known is not None and (known.watcher, known.address) == (watcher, address)
        now = known if known is not None and is_same else Watched((), watcher, address, FAKE)
        watch = watched_look.watch(now, ask(repo, now))
        if watch is not None:
            return watch
    return None


def _candidates(
    repo: Repository, known: Watched | None, *, is_small: bool
) -> Iterator[tuple[str, str]]:
    """Yield those who may watch and their addresses. What is not there is not loaded: most loads
    `subprocess`, 10 ms. The next one is only looked for if the last one does not answer: Watchman
    is asked where it listens, 10 ms, if it does not where it did, unless the tree is small.
    """
    git_dir = str(repo.git_dir)
    own, daemon = (os.path.join(git_dir, SOCKETS[watcher]) for watcher in (OWN, GIT))
    if watched.listens(git_dir, OWN):
        yield OWN, own
    if watched.listens(git_dir, GIT):
        from gitcp.worktree.watching import git_daemon

        if git_daemon.is_trusted(repo, daemon):
            yield GIT, daemon
    if "core.fsmonitor" in repo.config:
        from gitcp.worktree.watching import hook

        if program := hook.program(repo):
            yield HOOK, program
    env = repo.host.env
    if address := env.get("WATCHMAN_SOCK"):
        yield WATCHMAN, address
        return
    if known is not None and known.watcher == WATCHMAN and watched.may_answer(git_dir, known):
        yield WATCHMAN, known.address
    path = env.get("PATH", "").split(os.pathsep)
    if not is_small and any(os.path.exists(f"{each}/watchman") for each in path):
        from gitcp.worktree.watching import watchman

        if address := watchman.address(repo):
            yield WATCHMAN, address


def ask(repo: Repository, known: Watched) -> Answer | None:
    """Ask a watcher; None if it does not answer."""
    if known.watcher == HOOK:
        from gitcp.worktree.watching import hook

        return hook.ask(repo, known.address, known.token)
    if known.watcher == WATCHMAN:
        from gitcp.worktree.watching import watchman

        return watchman.ask(known.address, os.fsencode(repo.root), known.token)
    return watched.ask(str(repo.git_dir), known)


def holds(
    repo: Repository,
    watch: Watch,
    changes: Iterable[Change],
    skipped: Callable[[bytes], Collection[bytes]],
) -> bool:
    """Return whether each of these changes was reported, at least if the watcher is asked again. If
    not, everything has to be looked at, and the watcher is not trusted any more (`watch.missed`),
    unless it has begun anew meanwhile.

    `skipped` returns the names in a directory that a scan does not enter, nor a watcher has to.
    """
    root = os.fsencode(repo.root)
    suspects = [
        path
        for path, (_, names) in changes
        if not _is_reported(root, watch, path)
        and _is_newer(root, watch, path, _without(root, path, names or (), skipped))
    ]
    if not suspects:
        return True
    answer = ask(repo, watch.known)
    if answer is None or answer.paths is None:
        return False
    exact = watch.known.watcher == OWN
    shallow, deep = watched.directories(answer.paths, exact=exact)
    watch.shallow, watch.deep = watch.shallow | shallow, (*watch.deep, *deep)
    watch.missed = next((path for path in suspects if not _is_reported(root, watch, path)), None)
    return watch.missed is None


def _is_reported(root: bytes, watch: Watch, path: bytes) -> bool:
    """Return whether a change in a directory was reported. If it is gone, that is a change in the
    one above it.
    """
    below = path + b"/"
    if path in watch.shallow or any(below.startswith(top + b"/") for top in watch.deep):
        return True
    is_gone = bool(path) and not _is_directory(os.path.join(root, path))
    return is_gone and _is_reported(root, watch, path.rpartition(b"/")[0])


def _without(
    root: bytes,
    path: bytes,
    names: Iterable[bytes],
    skipped: Callable[[bytes], Collection[bytes]],
) -> list[bytes]:
    """Return these entries of a directory without the directories that a scan does not enter."""
    left_out = skipped(path)
    full = os.path.join(root, path)
    return [n for n in names if n not in left_out or not _is_directory(os.path.join(full, n))]


def _is_newer(root: bytes, watch: Watch, path: bytes, names: Iterable[bytes]) -> bool:
    """Return whether a directory, or one of these entries, changed after the watcher was last
    asked, or is gone. What changed in the moment before is only not known to be the same.
    """
    full = os.path.join(root, path)
    if not _is_directory(full):
        return True
    files = [full, *(os.path.join(full, name) for name in names)]
    for file in files:
        try:
            if fingerprint.of(os.lstat(file))[CTIME] > watch.known.asked:
                return True
        except OSError:
            continue
    return False


def _is_directory(full: bytes) -> bool:
    """Return whether this is a directory, and no link to one."""
    return os.path.isdir(full) and not os.path.islink(full)
