"""Linked working trees and branches, created with `git` at the user's request. Hooks do not run,
and no files are written.

Never used by saves: this is the only module that creates git's own refs or working trees.
"""

from __future__ import annotations

import os
from pathlib import Path

from gitcp.errors import AlreadyExists, BadValue, GitFailed, Refused
from gitcp.git.repo import Repository
from gitcp.model import Oid

HEADS = "refs/heads/"


def check_branch(repo: Repository, name: str) -> None:
    """Raise BadValue if `name` is not a valid branch name, Refused if the branch exists."""
    _check_name(repo, name)
    if repo.refs.read(HEADS + name) is not None:
        raise AlreadyExists(
            f"branch {name} already exists; nothing was changed",
            hint="choose another name with --branch",
        )


def add_branch(repo: Repository, name: str, commit: Oid) -> None:
    """Create a branch at `commit`. HEAD is not changed."""
    repo.git("branch", "--no-track", name, commit)


def add_worktree(repo: Repository, directory: Path, commit: Oid, branch: str | None) -> Repository:
    """Create a linked working tree at `commit`, on a new branch or detached, without files.

    Its index is that of the commit. Raises GitFailed.
    """
    where = ("--no-track", "-b", branch) if branch else ("--detach",)
    repo.git("worktree", "add", "--quiet", "--no-checkout", *where, os.fsencode(directory), commit)
    linked = Repository.open(directory, repo.host)
    linked.git("read-tree", commit)
    return linked


def place(repo: Repository, name: str | None) -> Path | None:
    """Return the path of a linked working tree, or of the main one (None); None for a deleted
    one.
    """
    if name is None:
        return repo.common_dir.parent
    own = repo.common_dir / "worktrees" / name
    try:
        # relative to that, or absolute
        git_file = own / (own / "gitdir").read_text("utf-8", "surrogateescape").strip()
    except OSError:
        return None
    return Path(os.path.realpath(git_file.parent)) if os.path.lexists(git_file) else None


def check_movable(repo: Repository, name: str, *, force: bool) -> Oid | None:
    """Return the commit of branch `name`, None if it does not exist.

    Raises BadValue for an invalid name, Refused if it exists, or, with `force`, if it is checked
    out.
    """
    _check_name(repo, name)
    old = repo.refs.read(HEADS + name)
    if old is not None and not force:
        raise AlreadyExists(
            f"branch {name} already exists; nothing was changed", hint="to move it, add --force"
        )
    output = repo.git("worktree", "list", "--porcelain").split(b"\n")
    if f"branch {HEADS}{name}".encode() in output:
        raise Refused(
            f"branch {name} is checked out; nothing was changed",
            hint="choose another name with --branch",
        )
    return old


def set_branch(repo: Repository, name: str, commit: Oid, old: Oid | None) -> bool:
    """Point a branch at `commit`, if it is still at `old` (None: does not exist). Return False if
    it moved.
    """
    try:
        repo.git(
            "update-ref",
            "-m",
            "gitcp publish",
            HEADS + name,
            commit,
            old or repo.object_format.null,
        )
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
