"""Watch: saves for agents that call no hook, when a working tree has been quiet for a while, and at
least so often.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Protocol

from gitcp import adapters
from gitcp.adapters import installed
from gitcp.automation import hook
from gitcp.automation.hook import Occasion
from gitcp.errors import GitcpError, RepositoryNotFound
from gitcp.lifecycle import housekeeping
from gitcp.model import Host, Trigger
from gitcp.saving.save import Saved
from gitcp.store import Store
from gitcp.value import Value
from gitcp.worktree.snapshot import Limits

AGAIN = 30.0
"""Seconds after which a save that failed is tried again."""


Heard = dict[tuple[str, str], float]
"""When each agent's session was last written, by agent and id."""

ANY = ("", "")
"""The session that a save takes by itself."""


class Pace(Value):
    """When to save: after so many seconds without a change, and while changes go on, after `every`
    (0: never).
    """

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
    """Paths outside of the working tree whose change can mean that an agent's conversation went
    on.
    """
    packages = {*map(Path, installed.places())}
    # What an agent keeps in its own directory beside its sessions says nothing; that it is there
    # now would.
    homes = {
        path
        for path in (host.home / known.directory for known in adapters.BUILTIN)
        if path.is_dir()
    }
    return tuple(path for path in adapters.watched(cwd, host) if path not in packages | homes)


def watch(
    open_store: Callable[[], Store],
    task: Task,
    pace: Pace,
    changes: Changes,
    is_stopped: Callable[[], bool],
) -> Iterator[Saved | Exception]:
    """Save what is there, then what changes, until it is stopped, and then what is left.

    Gives each checkpoint that was made, and each error of a save; it goes on after an error. Writes
    what `save` writes. Raises RepositoryNotFound when the repository is gone.
    """
    first: float | None = None
    last, trigger = 0.0, Trigger.TURN
    heard: Heard = {}
    found = _save(open_store, task, trigger, heard)
    while True:
        yield from found
        if any(isinstance(each, Exception) for each in found):
            first = last = time.monotonic() + AGAIN - pace.quiet
        if is_stopped():
            break
        due, trigger = (None, trigger) if first is None else pace.due(first, last)
        found, now = [], time.monotonic()
        if due is not None and due <= now:
            found, first = _save(open_store, task, trigger, heard), None
        elif changes.wait(None if due is None else due - now):
            last = time.monotonic()
            first = last if first is None else first
    yield from _save(open_store, task, Trigger.SESSION_END, heard)


def _save(
    open_store: Callable[[], Store], task: Task, trigger: Trigger, heard: Heard
) -> list[Saved | Exception]:
    """Save what is new: the checkpoints and errors that came of it. `heard` is brought up to
    date.
    """
    found: list[Saved | Exception] = []
    try:
        store = open_store()
        now = {
            (f.agent, f.session_id): f.modified
            for f in adapters.find_all(task.cwd, store.repo.host)
        }
        for agent, session_id in _to_save(task, heard, now):
            occasion = Occasion(
                task.cwd, agent, session_id, trigger, limits=task.limits, session=task.session
            )
            saved = hook.record(store, occasion)
            if saved is not None and saved.saved:
                found.append(saved)
                housekeeping.after_save(store, saved.checkpoint.id)
        heard.update({**now, ANY: 0.0})
    except RepositoryNotFound:
        raise
    except (GitcpError, OSError) as error:
        found.append(error)
    return found


def _to_save(task: Task, heard: Heard, now: Heard) -> list[tuple[str, str]]:
    """The agents' sessions that went on since the last look; if none did, or at the beginning, what
    any save takes.
    """
    went_on = [key for key, modified in now.items() if heard.get(key) != modified]
    return went_on if went_on and ANY in heard and task.session is None else [ANY]
