"""The commit that HEAD was at when a conversation ended, as far as git's reflogs or the transcript
tell.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from gitcp.adapters.base import Origin
from gitcp.adopting.ownership import Tree
from gitcp.git import refs
from gitcp.git.repo import Repository
from gitcp.model import Base, Oid
from gitcp.store import Store


def base_of(store: Store, tree: Tree | None, origin: Origin, time: float) -> Base:
    """Return the commit and branch of a conversation that ended at `time`, in seconds since 1970.

    `tree` is the working tree where it ran, None if it was removed: then the log of the branch is
    asked. The commit that the transcript names is older, and only counts where no log tells. The
    commit is None if none of them is in the store. Reads files and objects only.
    """
    branch = origin.branches[-1] if origin.branches else None
    logs = []
    if tree:
        there = Repository.at(Path(tree.root), Path(tree.git_dir), store.repo.host)
        logs.append(there.refs.log("HEAD"))
    if branch and ".." not in branch:
        logs.append(store.repo.refs.log(f"refs/heads/{branch}"))
    logged = filter(None, (_commit_at(log, time) for log in logs))
    named = (Oid(oid) for oid in reversed(origin.commits) if refs.HEX.match(oid))
    commit = next((oid for oid in (*logged, *named) if store.reader.exists(oid)), None)
    return Base(commit, branch)


def _commit_at(log: Iterable[tuple[Oid, int]], time: float) -> Oid | None:
    """Return the last value in a reflog up to a time, None if it begins later."""
    last = None
    for oid, moved in log:
        if moved <= time:
            last = oid
    return last
