"""Save a working tree when it has been quiet for a while, and at a minimum rate, for agents without
hooks: one, or each worktree of a repository, new ones included, in a thread of its own.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from queue import Empty, SimpleQueue
from threading import Thread
from typing import NamedTuple

from gitcp import adapters
from gitcp.adapters import installed
from gitcp.agents import SAVED
from gitcp.automation import hook
from gitcp.automation.hook import HookEvent
from gitcp.errors import GitcpError, RepositoryNotFound
from gitcp.git import worktrees
from gitcp.git.repo import Repository
from gitcp.lifecycle import housekeeping
from gitcp.model import Host, Trigger
from gitcp.saving.save import Saved
from gitcp.store import Store
from gitcp.value import Value
from gitcp.worktree.snapshot import Limits

AGAIN = 30.0
"""Seconds until a failed save is retried."""

LOOK = 0.5
"""Seconds after which a new worktree is noticed."""

LastWrites = dict[tuple[str, str], float]
"""When each agent session was last written (seconds since 1970), by agent and id."""

ANY = ("", "")
"""Stands for the session that a save selects itself."""


class Pace(Value):
    """When to save: after `quiet` seconds without a change, and during changes
    every `every` seconds (0: never).
    """

    quiet: float
    every: float

    def due(self, first: float, last: float) -> tuple[float, Trigger]:
        """Return when to save changes between the times `first` and `last`, and the trigger."""
        calm = last + self.quiet
        if self.every and first + self.every < calm:
            return first + self.every, Trigger.INTERVAL
        return calm, Trigger.TURN


class SaveTask(Value):
    """What to save each time."""

    cwd: Path
    session: str | None = None
    limits: Limits = Limits()


def elsewhere(cwd: Path, host: Host) -> tuple[Path, ...]:
    """Return the paths outside the working tree whose change can mean new messages."""
    packages = {*map(Path, installed.search_path())}
    # Other files in an agent's directory do not matter; only whether a missing directory appears.
    places = (host.home / known.directory for known in SAVED.values())
    homes = {path for path in places if os.path.isdir(path)}
    return tuple(path for path in adapters.watched(cwd, host) if path not in packages | homes)


def watch(
    open_store: Callable[[], Store],
    task: SaveTask,
    pace: Pace,
    wait: Callable[[float | None], bool],
    is_stopped: Callable[[], bool],
) -> Iterator[Saved | Exception]:
    """Save the current state, then changes, until stopped, and finally what is left.

    `wait(seconds)` returns whether something changed within that time (None: no limit).
    Yields each checkpoint made and each error; continues after errors. Writes what `save` writes.
    Raises RepositoryNotFound when the repository is gone.
    """
    first: float | None = None
    last, trigger = 0.0, Trigger.TURN
    last_writes: LastWrites = {}
    results = _save(open_store, task, trigger, last_writes)
    while True:
        yield from results
        if any(isinstance(each, Exception) for each in results):
            first = last = time.monotonic() + AGAIN - pace.quiet
        if is_stopped():
            break
        due, trigger = (None, trigger) if first is None else pace.due(first, last)
        results, now = [], time.monotonic()
        if due is not None and due <= now:
            results, first = _save(open_store, task, trigger, last_writes), None
        elif wait(None if due is None else due - now):
            last = time.monotonic()
            first = last if first is None else first
    yield from _save(open_store, task, Trigger.SESSION_END, last_writes)


def _save(
    open_store: Callable[[], Store], task: SaveTask, trigger: Trigger, last_writes: LastWrites
) -> list[Saved | Exception]:
    """Save what is new and update `last_writes`. Return the checkpoints and errors."""
    results: list[Saved | Exception] = []
    try:
        store = open_store()
        now = {
            (f.agent, f.session_id): f.modified
            for f in adapters.find_all(task.cwd, store.repo.host)
        }
        for agent, session_id in _to_save(task, last_writes, now):
            event = HookEvent(
                task.cwd, agent, session_id, trigger, limits=task.limits, session=task.session
            )
            saved = hook.record(store, event)
            if saved is not None and saved.saved:
                results.append(saved)
                housekeeping.after_save(store, saved.checkpoint.id)
        last_writes.update({**now, ANY: 0.0})
    except RepositoryNotFound:
        raise
    except (GitcpError, OSError) as error:
        results.append(error)
    return results


def _to_save(task: SaveTask, last_writes: LastWrites, now: LastWrites) -> list[tuple[str, str]]:
    """Return the agent sessions with new messages; if there are none, or
    initially, what any save selects.
    """
    changed = [key for key, modified in now.items() if last_writes.get(key) != modified]
    return changed if changed and ANY in last_writes and task.session is None else [ANY]


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
