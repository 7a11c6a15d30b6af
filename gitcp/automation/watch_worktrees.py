"""Watch all worktrees of a repository, new ones included: each in a thread of its own, as
`automation.watch` does it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from queue import Empty, SimpleQueue
from threading import Thread
from typing import NamedTuple

from gitcp.git import worktrees
from gitcp.git.repo import Repository
from gitcp.saving.save import Saved

LOOK = 0.5
"""Seconds after which a new worktree is noticed."""


class Noticed(NamedTuple):
    """What happened in the worktree at `root`: a save, an error that is retried, or `ended`: an
    error after which it is no longer watched, or None after the last save.
    """

    root: Path
    what: Saved | Exception | None
    ended: bool = False


def watch_worktrees(
    repo: Repository,
    watch: Callable[[Path], Iterable[Saved | Exception]],
    is_stopped: Callable[[], bool],
) -> Iterator[Noticed]:
    """Watch the worktree of `repo` and all others until stopped; `watch` watches one.

    Raises the error that ends the watching of `repo` itself. Others may come and go.
    """
    queue: SimpleQueue[Noticed] = SimpleQueue()
    watched: set[Path] = set()
    failed: set[Path] = set()
    while not (is_stopped() and not watched):
        roots = set() if is_stopped() else _roots(repo)
        failed &= roots
        for root in roots - watched - failed:
            watched.add(root)
            Thread(target=_watch, args=(root, watch, queue), daemon=True).start()
        try:
            noticed = queue.get(timeout=LOOK)
        except Empty:
            continue
        if noticed.ended:
            watched.discard(noticed.root)
            failed.add(noticed.root)
            if noticed.root == repo.root and isinstance(noticed.what, Exception):
                raise noticed.what
        if noticed.what is not None:
            yield noticed


def _roots(repo: Repository) -> set[Path]:
    main = worktrees.main_root(repo.common_dir)
    linked = {each.path for each in worktrees.linked(repo) if each.there}
    return {repo.root, *linked, *((main,) if main else ())}


def _watch(
    root: Path,
    watch: Callable[[Path], Iterable[Saved | Exception]],
    queue: SimpleQueue[Noticed],
) -> None:
    try:
        for each in watch(root):
            queue.put(Noticed(root, each))
        queue.put(Noticed(root, None, ended=True))
    except Exception as error:  # noqa: BLE001 -- or the thread would end without a word
        queue.put(Noticed(root, error, ended=True))
