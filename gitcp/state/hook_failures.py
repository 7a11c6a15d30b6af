"""The saves of hooks that failed in a working tree: since when, how often, and why.

A hook never fails the agent and prints nothing, so a failure that repeats would be seen by nobody.
It is recorded in `<git dir>/gitcp/failing`, or in the user's state directory where the git
directory cannot be found or written to. The next save that succeeds removes it. Hooks look for it
at every event, so this module loads nothing until there is one.
"""

from __future__ import annotations

import os

from gitcp import clock, trusted_cache, user_state
from gitcp.fastpath import answer

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from gitcp.git.repo import Repository

NAME = "failing"
OVERDUE = "a save has not finished within the time limit of its hook"


class Failing:
    """Failed saves: the times of the first and the last, how many, why the last failed, a command
    to run next, and for which session and reason an agent was told.
    """

    __slots__ = ("count", "hint", "last", "reason", "since", "told")

    def __init__(
        self, since: float, last: float, count: int, reason: str, hint: str, told: str
    ) -> None:
        self.since, self.last, self.count = since, last, count
        self.reason, self.hint, self.told = reason, hint, told

    def __str__(self) -> str:
        """Return one sentence: what failed, since when, and why."""
        from gitcp import humanize

        since = humanize.moment(clock.local(self.since))
        times = humanize.count(self.count, "time")
        return f"hooks could not save {times} since {since}: {self.reason}"


def places(root: str, git_dir: str, env: Mapping[str, str], home: str) -> tuple[str, ...]:
    """Return the files in which failures in the working tree at `root` may be recorded, the first
    that can be written to is. `git_dir` is "" if it is unknown.
    """
    inside = (os.path.join(git_dir, "gitcp", NAME),) if git_dir else ()
    state = user_state.directory(env, home)
    return (*inside, os.path.join(state, NAME, answer.checksum(root))) if state else inside


def of(repo: Repository) -> Failing | None:
    """Return the failures in a repository's working tree, None if the last save succeeded."""
    return read(files(repo))


def files(repo: Repository) -> tuple[str, ...]:
    """Return the files in which failures in a repository's working tree may be recorded."""
    host = repo.host
    return places(str(repo.root), str(repo.git_dir), host.env, str(host.home))


def read(files: tuple[str, ...]) -> Failing | None:
    """Return the recorded failures, None if the last save succeeded."""
    for path in files:
        known = trusted_cache.load(path)
        if known is not None:
            return Failing(*known)
    return None


def record(files: tuple[str, ...], reason: str, hint: str, now: float) -> None:
    """Record that a save failed at `now`, in seconds since 1970. Never raises."""
    known = read(files)
    since, count, told = (known.since, known.count, known.told) if known else (now, 0, "")
    _write(files, Failing(since, now, count + 1, reason, hint, told))


def tell(files: tuple[str, ...], failing: Failing, told: str) -> None:
    """Record for which session and reason an agent is told."""
    failing.told = told
    _write(files, failing)


def clear(files: tuple[str, ...], *, reason: str = "") -> None:
    """Forget the failures: a save has succeeded. With `reason`, only if that was the last one's."""
    if reason:
        known = read(files)
        if known is None or known.reason != reason:
            return
    for path in files:
        try:
            os.unlink(path)
        except OSError:
            continue


def _write(files: tuple[str, ...], failing: Failing) -> None:
    from gitcp.git import fsync  # only where something failed

    value = tuple(getattr(failing, name) for name in ("since", "last", "count", "reason", "hint"))
    for path in files:
        directory = os.path.dirname(path)
        try:
            if os.path.islink(directory):
                continue
            os.makedirs(directory, mode=0o700, exist_ok=True)
            fsync.replace_cache(path, (*value, failing.told))
        except (OSError, ValueError):
            continue
        return
