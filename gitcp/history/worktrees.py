"""List the worktrees of a repository with their sessions: those that are there, and those that are
gone, whose sessions can be restored. Writes nothing.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from datetime import timedelta
from enum import StrEnum
from pathlib import Path

from gitcp.errors import GitcpError
from gitcp.git import worktrees
from gitcp.git.objects import Objects
from gitcp.git.repo import Repository
from gitcp.git.worktrees import Linked
from gitcp.history import live, sessions
from gitcp.history.sessions import Session
from gitcp.model import Checkpoint, Oid
from gitcp.saving import session as session_op
from gitcp.saving.live_trees import live_trees
from gitcp.state import settings, worktree_log
from gitcp.state.worktree_log import SeenWorktree
from gitcp.store import Store
from gitcp.value import Value, replace
from gitcp.worktree.snapshot import take

A_DAY = timedelta(days=1)
"""Worktrees without a checkpoint for longer are not asked whether an agent is at work in them."""


class Presence(StrEnum):
    """Whether a worktree is there. MISSING: git lists it, but its directory is not there, because
    it was moved or deleted without git or its disk is not mounted. REMOVED: git no longer lists it.
    """

    THERE = "there"
    MISSING = "missing"
    REMOVED = "removed"


class Worktree(Value):
    """A worktree and the sessions last saved in it, the last saved first.

    `name` is None for the main one, `path` if it is unknown. `branch` is the one checked out, or of
    its last checkpoint if it is gone. `unsaved` is the number of changed files since its last
    checkpoint, None if it is gone, unreadable or was not asked for.
    """

    name: str | None
    path: Path | None
    presence: Presence
    sessions: tuple[Session, ...] = ()
    running: frozenset[str] = frozenset()
    branch: str | None = None
    unsaved: int | None = None
    locked: bool = False

    @property
    def last(self) -> Checkpoint | None:
        """The last checkpoint, None if there is none."""
        return self.sessions[0].last if self.sessions else None


class _Places(Value):
    """Where sessions were last saved: by identity of the worktree, and what is known of it."""

    last: Mapping[str, SeenWorktree]
    sessions: Mapping[str, str]


def listing(
    store: Store, *, changes: bool = True, known_sessions: Iterable[Session] | None = None
) -> tuple[Worktree, ...]:
    """Return the worktrees: the main one, the other ones that are there, then those that are gone;
    of each the last saved first. With `changes`, looks for unsaved changes in each.
    `known_sessions` are all own ones, if they were read already.
    """
    readable = sessions.listing(store)[0] if known_sessions is None else tuple(known_sessions)
    known = _places(store)
    homes = {each.name: _home(each, known) for each in readable}
    linked = worktrees.linked(store.repo)
    ids = {each: worktree_log.identity_at(each.git_dir) or f"name:{each.name}" for each in linked}
    by_name = {f"name:{each.name}": own for each, own in ids.items()}
    by_home: dict[str, list[Session]] = {}
    for each in readable:
        home = homes[each.name]
        by_home.setdefault(by_name.get(home, home), []).append(each)
    trees = [_main(store, by_home.pop("", []))]
    trees += [_linked(store, each, by_home.pop(own, [])) for each, own in ids.items()]
    trees += [_gone(known.last.get(home), home, own) for home, own in by_home.items()]
    if changes:
        trees = [_with_unsaved(store, each) for each in trees]
    return tuple(sorted((_with_running(store, each) for each in trees), key=_order))


def of_session(store: Store, name: str) -> Worktree | None:
    """Return the worktree that a session was last saved in, None if there is no such session."""
    for tree in listing(store, changes=False):
        if any(session.name == name for session in tree.sessions):
            return tree
    return None


def was_in_gone_one(store: Store, name: str) -> bool:
    """Return whether a session was saved in a linked worktree that is gone."""
    there = {
        worktree_log.identity_at(each.git_dir)
        for each in worktrees.linked(store.repo)
        if each.there
    }
    seen = (each for each in worktree_log.seen(store.repo) if each.session == name and each.id)
    return any(each.id not in there for each in seen)


def _order(tree: Worktree) -> tuple[int, float]:
    kind = 0 if tree.name is None else 1 + list(Presence).index(tree.presence)
    return kind, -tree.last.created.timestamp() if tree.last else 0.0


def _places(store: Store) -> _Places:
    """Read where sessions were last saved; the session last used in each worktree counts too."""
    last, at = {}, {}
    for each in worktree_log.seen(store.repo):
        last[each.id], at[each.session] = each, each.id
    for tree in worktrees.linked(store.repo):
        current = session_op.last_used_at(tree.git_dir)
        if current is not None and current not in at:
            at[current] = worktree_log.identity_at(tree.git_dir) or f"name:{tree.name}"
    return _Places(last, at)


def _home(session: Session, known: _Places) -> str:
    """Return the identity of the worktree that a session was last saved in; `name:NAME` if only the
    name is known, from its conversation.
    """
    if session.name in known.sessions:
        return known.sessions[session.name]
    conversation = session.last.conversation
    name = conversation.worktree if conversation else None
    return f"name:{name}" if name else ""


def _main(store: Store, sessions: Iterable[Session]) -> Worktree:
    path = worktrees.place(store.repo, None)
    return _present(store, Worktree(None, path, Presence.THERE, tuple(sessions)))


def _linked(store: Store, tree: Linked, sessions: Iterable[Session]) -> Worktree:
    presence = Presence.THERE if tree.there else Presence.MISSING
    made = Worktree(tree.name, tree.path, presence, tuple(sessions), locked=tree.locked)
    return _present(store, made) if tree.there else replace(made, branch=_recorded_branch(made))


def _present(store: Store, tree: Worktree) -> Worktree:
    repo = _opened(store, tree)
    return replace(tree, branch=repo.head().branch if repo else _recorded_branch(tree))


def _gone(seen: SeenWorktree | None, home: str, sessions: Iterable[Session]) -> Worktree:
    name = seen.name if seen else home.removeprefix("name:")
    tree = Worktree(name or "", seen.path if seen else None, Presence.REMOVED, tuple(sessions))
    return replace(tree, branch=_recorded_branch(tree))


def _recorded_branch(tree: Worktree) -> str | None:
    return tree.last.snapshot.base.branch if tree.last else None


def _opened(store: Store, tree: Worktree) -> Repository | None:
    """Open the repository in a worktree; None if that is not possible, as in a bare main one."""
    if tree.path is None or tree.presence is not Presence.THERE:
        return None
    try:
        return Repository.open(tree.path, store.repo.host)
    except (GitcpError, OSError):
        return None


def _with_running(store: Store, tree: Worktree) -> Worktree:
    now = store.repo.host.now()
    if all(now - each.last.created > A_DAY for each in tree.sessions):
        return tree
    repo = _opened(store, tree)
    return tree if repo is None else replace(tree, running=live.running_sessions(Store(repo)))


def _with_unsaved(store: Store, tree: Worktree) -> Worktree:
    repo = _opened(store, tree)
    if repo is None:
        return tree
    try:
        return replace(tree, unsaved=_changed(Store(repo), tree.last))
    except (GitcpError, OSError):
        return tree


def _changed(store: Store, last: Checkpoint | None) -> int:
    """Return how many files differ from the last checkpoint, or from the last commit if there is
    none. Reads only what changed since the last scan.
    """
    objects = Objects(store.repo, dry=True)
    live: Container[Oid] = live_trees(store, last.id.session) if last else frozenset()
    limits = settings.limits(store.repo)
    now = take(store.repo, objects, limits, live, watched=True).snapshot
    before = last.snapshot.tree if last else store.base_tree(now.base.commit)
    if before is not None:
        objects.reader.name_tree(store.reader.read_tree(before))
    return len(objects.reader.compare(before, now.tree))
