"""Remove a worktree after everything in it that a checkpoint can hold is saved.

What no checkpoint holds is listed: ignored files, files that were left out, repositories inside,
commits that no ref reaches. The worktree is not removed while there is any, unless forced. git
itself removes it; its branch stays.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator
from pathlib import Path

from gitcp import adapters
from gitcp.automation import hook
from gitcp.automation.hook import HookEvent
from gitcp.errors import BadValue, GitcpError, Refused, StoreBusy
from gitcp.git import trees, worktrees
from gitcp.git.repo import Repository
from gitcp.model import AtPath, Checkpoint, Snapshot, Trigger
from gitcp.saving import session
from gitcp.saving.save import Saved, SaveRequest, save
from gitcp.state import journal, oplog, settings
from gitcp.store import Store
from gitcp.value import Value
from gitcp.worktree.paths import display

IGNORED = ("ls-files", "--others", "--ignored", "--exclude-standard", "--directory", "-z")
TRIES = 5
SHOWN = 20


class Unsaved(AtPath):
    """Something in the worktree that no checkpoint holds, and why. `path` is b"" for commits."""

    why: str


class Removed(Value):
    """A removed worktree: where it was, its branch, its last checkpoint, the checkpoints made just
    before, and what was lost because it was forced.
    """

    directory: Path
    branch: str | None
    last: Checkpoint
    saved: tuple[Checkpoint, ...]
    lost: tuple[Unsaved, ...]


def remove(store: Store, directory: Path, *, force: bool = False) -> Removed:
    """Save a linked worktree of this repository, and let git remove it.

    Writes what `save` writes, also if it is then refused. Raises BadValue if it is no such
    worktree, Refused if it is locked, in the middle of a restore, or, without `force`, if it has
    something that no checkpoint holds.
    """
    there = Store(_open(store, directory))
    saved, last = save_all(there)
    lost = tuple(unsaved(there, last.snapshot))
    if lost and not force:
        raise _refused(there, last, lost)
    worktrees.remove(there.repo)
    oplog.record(
        store.repo,
        "worktree",
        f"removed {display(os.fsencode(there.repo.root))}, last saved as {last.id}",
        checkpoints=(last.id,),
    )
    return Removed(there.repo.root, last.snapshot.base.branch, last, saved, lost)


def unsaved(store: Store, snapshot: Snapshot) -> Iterator[Unsaved]:
    """Yield what is in this working tree and in no checkpoint, given the snapshot just saved."""
    for path in filter(None, store.repo.git(*IGNORED).split(b"\0")):
        if trees.lookup(store.reader, snapshot.tree, path.rstrip(b"/")) is None:
            yield Unsaved(path, "ignored")
    for skip in snapshot.skipped:
        yield Unsaved(skip.path, skip.detail or skip.reason.value.replace("-", " "))
    known = {skip.path for skip in snapshot.skipped}
    for nested in snapshot.nested:
        if nested.path not in known:
            yield Unsaved(nested.path, "a repository of its own")
    for submodule in snapshot.submodules:
        if os.path.lexists(os.path.join(os.fsencode(store.repo.root), submodule.path, b".git")):
            yield Unsaved(submodule.path, "a submodule, with its repository")
    base = snapshot.base
    if base.operation is not None:
        yield Unsaved(b"", f"a {base.operation} in progress")
    if base.commit is not None and base.branch is None and not _is_reached(store, base.commit):
        yield Unsaved(b"", f"commit {base.commit[:10]}, which is on no branch")


def _is_reached(store: Store, commit: str) -> bool:
    options = (f"--contains={commit}", "--count=1", "refs/heads", "refs/tags", "refs/remotes")
    return bool(store.repo.git("for-each-ref", *options))


def _open(store: Store, directory: Path) -> Repository:
    """Open the worktree at `directory`. Raises BadValue or Refused, with nothing changed."""
    repo = type(store.repo).open(directory, store.repo.host)
    path = shlex.quote(str(repo.root))
    if repo.common_dir != store.repo.common_dir or repo.root != Path(os.path.realpath(directory)):
        raise BadValue(
            f"{directory} is not a worktree of this repository: nothing was changed",
            hint="gitcp sessions --worktrees",
        )
    if repo.worktree_name is None:
        raise BadValue(
            f"{repo.root} is the main worktree, which git does not remove: nothing was changed",
            hint="gitcp sessions --worktrees",
        )
    if repo.git_dir.joinpath("locked").exists():
        raise Refused(
            f"{repo.root} is locked: nothing was changed", hint=f"git worktree unlock {path}"
        )
    if journal.unfinished(repo) is not None:
        raise Refused(
            f"a restore in {repo.root} is unfinished; finish it, or undo it with --abort: nothing "
            "was changed",
            hint=f"gitcp -C {path} restore --continue",
        )
    return repo


def save_all(there: Store) -> tuple[tuple[Checkpoint, ...], Checkpoint]:
    """Save each agent's conversation of a worktree, and its files, until nothing changes any more.
    Return the checkpoints made, and the last one.

    Each agent's session gets its own conversation, whoever runs this. Raises StoreBusy if something
    keeps writing.
    """
    made: list[Checkpoint] = []
    conversations = adapters.find_all(there.repo.root, there.repo.host)
    for each in reversed(conversations):  # the newest last
        _add(made, _record(there, each.agent, each.session_id))
    for _ in range(TRIES):
        last = _save(there)
        if not last.saved:
            return tuple(made), last.checkpoint
        _add(made, last)
    raise StoreBusy(
        f"files in {there.repo.root} keep changing: all is saved up to {made[-1].id}, and the "
        "worktree was not removed",
        hint="stop what is running there and try again",
    )


def _add(made: list[Checkpoint], saved: Saved | None) -> None:
    if saved is not None and saved.saved:
        made.append(saved.checkpoint)


def _record(there: Store, agent: str, session_id: str) -> Saved | None:
    limits = settings.limits(there.repo)
    event = HookEvent(there.repo.root, agent, session_id, Trigger.SESSION_END, limits=limits)
    return hook.record(there, event)


def _save(there: Store) -> Saved:
    """Save into the session last used there, or a new one."""
    name = session.last_used(there) or session.manual(there)
    root, limits = there.repo.root, settings.limits(there.repo)
    request = SaveRequest(root, session=name, trigger=Trigger.SESSION_END, limits=limits)
    return save(there, request)


def _refused(there: Store, last: Checkpoint, lost: tuple[Unsaved, ...]) -> GitcpError:
    lines = [f"{display(each.path)}  {each.why}" if each.path else each.why for each in lost]
    more = [f"… and {len(lines) - SHOWN:,} more"] if len(lines) > SHOWN else []
    return Refused(
        f"all else is saved as {last.id}, but this is in no checkpoint: {there.repo.root} was not "
        "removed",
        (*lines[:SHOWN], *more),
        hint=f"gitcp fork --remove --force {shlex.quote(str(there.repo.root))}",
    )
