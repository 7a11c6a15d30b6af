"""Watch: saves for agents that call no hook, when a working tree has been quiet for a while, and at least so often."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Protocol

from gitcp import adapters
from gitcp.adapters import installed
from gitcp.errors import GitcpError, RepositoryNotFound
from gitcp.model import Host, Trigger
from gitcp.ops import hook, retain
from gitcp.ops.hook import Occasion
from gitcp.ops.save import Saved
from gitcp.store import Store
from gitcp.value import Value
from gitcp.worktree.snapshot import Limits

AGAIN = 30.0
"""Seconds after which a save that failed is tried again."""


class Pace(Value):
    """When to save: after so many seconds without a change, and while changes go on, after `every` (0: never)."""

    quiet: float
    every: float

    def due(self, first: float, last: float) -> tuple[float, Trigger]:
        """When what changed first and last at these times is to be saved, and why then."""
        calm = last + self.quiet
        if self.every and first + self.every < calm:
            return first + self.every, Trigger.INTERVAL
        return calm, Trigger.TURN


class Changes(Protocol):
    """Where changes come from: gitcp.worktree.watcher, in earnest."""

    def wait(self, seconds: float | None) -> bool:
        """Whether something changed within that time."""
        ...


class Task(Value):
    """What is saved each time."""

    cwd: Path
    session: str | None = None
    limits: Limits = Limits()


def elsewhere(cwd: Path, host: Host) -> tuple[Path, ...]:
    """Paths outside of the working tree whose change can mean that an agent's conversation went on."""
    packages = {*map(Path, installed.places())}
    # What an agent keeps in its own directory beside its sessions says nothing; that it is there now would.
    homes = {path for path in (host.home / known.directory for known in adapters.BUILTIN) if path.is_dir()}
    return tuple(path for path in adapters.watched(cwd, host) if path not in packages | homes)


def watch(
    open_store: Callable[[], Store], task: Task, pace: Pace, changes: Changes, is_stopped: Callable[[], bool]
) -> Iterator[Saved | Exception]:
    """Save what is there, then what changes, until it is stopped, and then what is left.

    Gives each checkpoint that was made, and each error of a save; it goes on after an error. Writes what `save` writes.
    Raises RepositoryNotFound when the repository is gone.
    """
    first: float | None = None
    last, trigger = 0.0, Trigger.TURN
    found = _save(open_store, task, trigger)
    while True:
        if found is not None:
            yield found
        if isinstance(found, Exception):
            first = last = time.monotonic() + AGAIN - pace.quiet
        if is_stopped():
            break
        due, trigger = (None, trigger) if first is None else pace.due(first, last)
        found, now = None, time.monotonic()
        if due is not None and due <= now:
            found, first = _save(open_store, task, trigger), None
        elif changes.wait(None if due is None else due - now):
            last = time.monotonic()
            first = last if first is None else first
    final = _save(open_store, task, Trigger.SESSION_END)
    if final is not None:
        yield final


def _save(open_store: Callable[[], Store], task: Task, trigger: Trigger) -> Saved | Exception | None:
    """One save: its checkpoint, its error, or None where nothing new was there."""
    occasion = Occasion(task.cwd, "", "", trigger, limits=task.limits, session=task.session)
    try:
        store = open_store()
        saved = hook.record(store, occasion)
        if saved is None or not saved.saved:
            return None
        retain.after_save(store, saved.checkpoint.id)
        return saved
    except RepositoryNotFound:
        raise
    except (GitcpError, OSError) as error:
        return error
