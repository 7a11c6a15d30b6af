"""Refuse to change files by a revision that counts in a session of another working tree.

Where nothing was saved in a working tree yet, the current session is one of another working tree:
`restore @` would replace the files here by those of the other one.
"""

from __future__ import annotations

import os
from pathlib import Path

from gitcp.errors import Refused
from gitcp.history import revisions
from gitcp.saving import session as session_op
from gitcp.store import Store


def elsewhere(store: Store, session: str | None, revision: str = "@") -> Path | None:
    """Return the working tree of the current session if it is another one, `revision` counts in
    that session, and no session was given.
    """
    if session is not None or not (store.repo.common_dir / "worktrees").is_dir():
        return None
    counts = revisions.is_relative(revision) or revisions.is_time(revision, store.repo.host.now())
    current = session_op.current(store) if counts else None
    return session_op.elsewhere(store, current) if current is not None else None


def require(store: Store, cwd: Path, session: str | None, revision: str) -> None:
    """Raise Refused if a revision, or an end of a range, counts in a session of another working
    tree; its `suggestion` has whole ids. Raises what `resolve` raises.
    """
    is_range = revisions.is_range(store, revision)
    ends = [each or "@" for each in revisions.split_range(revision)] if is_range else [revision]
    trees = {end: tree for end in ends if (tree := elsewhere(store, session, end)) is not None}
    if not trees:
        return
    current = session_op.current(store)
    commits = {end: revisions.resolve(store, end, current=current) for end in trees}
    ids = {end: str(store.summary(commit).id) for end, commit in commits.items()}
    end, tree = next(iter(trees.items()))
    what = f"{end} would be {ids[end]}, of"
    error = _refused(cwd, tree, what, hint=f"gitcp restore {ids[end]}")
    error.argument, error.suggestion = revision, "..".join(ids.get(end, end) for end in ends)
    raise error


def require_session(store: Store, cwd: Path, session: str | None) -> None:
    """Raise Refused if the current session is one of another working tree, for what finds its
    checkpoint in the current session; its `option` names the session.
    """
    tree = elsewhere(store, session)
    if tree is None:
        return
    current = session_op.current(store) or ""
    error = _refused(cwd, tree, f"{current} is a session of", hint=f"--session {current} names it")
    error.option = ("--session", current)
    raise error


def _refused(cwd: Path, tree: Path, what: str, *, hint: str) -> Refused:
    return Refused(
        f"nothing was saved in this worktree yet; {what} {os.path.relpath(tree, cwd)}: nothing was "
        "changed",
        hint=hint,
    )
