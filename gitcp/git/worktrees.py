"""Linked working trees and branches, made by `git` itself when the user asks for one. No hook runs,
no file is written.

Not for saving: this is the one place that makes something of git's own.
"""

from __future__ import annotations

import os
from pathlib import Path

from gitcp.errors import BadValue, GitFailed, Refused
from gitcp.git import refs
from gitcp.git.repo import Repository
from gitcp.model import Oid

HEADS = "refs/heads/"


def check_branch(repo: Repository, name: str) -> None:
    """Raise BadValue if no branch can be called `name`, Refused if one is."""
    _check_name(repo, name)
    if refs.read_ref(repo.common_dir, HEADS + name) is not None:
        raise Refused(
            f"there is a branch {name} already: nothing was changed",
            hint="give another name: --branch",
        )


def add_branch(repo: Repository, name: str, commit: Oid) -> None:
    """Make a branch at `commit`. HEAD stays where it is."""
    repo.git("branch", "--no-track", name, commit)


def add_worktree(repo: Repository, directory: Path, commit: Oid, branch: str | None) -> Repository:
    """Make a linked working tree at `commit`, on a new branch or on none: git's part of it, without
    the files.

    Its index is that of the commit. Raises GitFailed.
    """
    where = ("--no-track", "-b", branch) if branch else ("--detach",)
    repo.git("worktree", "add", "--quiet", "--no-checkout", *where, os.fsencode(directory), commit)
    made = Repository.open(directory, repo.host)
    made.git("read-tree", commit)
    return made


def place(repo: Repository, name: str | None) -> Path | None:
    """Where a linked working tree is, or the main one (None); None for one that is gone."""
    if name is None:
        return repo.common_dir.parent
    own = repo.common_dir / "worktrees" / name
    try:
        # relative to that, or absolute
        named = own / (own / "gitdir").read_text("utf-8", "surrogateescape").strip()
    except OSError:
        return None
    return Path(os.path.realpath(named.parent)) if os.path.lexists(named) else None


def check_movable(repo: Repository, name: str, *, force: bool) -> Oid | None:
    """Where branch `name` is, None if there is none yet.

    Raises BadValue if no branch can be called so, Refused if there is one, or, with `force`, if it
    is checked out.
    """
    _check_name(repo, name)
    old = refs.read_ref(repo.common_dir, HEADS + name)
    if old is not None and not force:
        raise Refused(
            f"there is a branch {name} already: nothing was changed", hint="--force moves it"
        )
    listed = repo.git("worktree", "list", "--porcelain").split(b"\n")
    if f"branch {HEADS}{name}".encode() in listed:
        raise Refused(
            f"branch {name} is checked out: nothing was changed", hint="give another name: --branch"
        )
    return old


def set_branch(repo: Repository, name: str, commit: Oid, old: Oid | None) -> bool:
    """Point a branch at `commit`, if it is still at `old` (None: if there is none). False if it
    moved.
    """
    try:
        repo.git("update-ref", "-m", "gitcp publish", HEADS + name, commit, old or "0" * 40)
    except GitFailed:
        return False
    return True


def _check_name(repo: Repository, name: str) -> None:
    try:
        repo.git("check-ref-format", "--branch", name)
    except GitFailed:
        raise BadValue(f"{name!r} cannot be the name of a branch: nothing was changed") from None
    if name.startswith(("-", "@")) or name == "HEAD":
        raise BadValue(f"{name!r} cannot be the name of a branch: nothing was changed")
