"""Linked working trees and branches, created with `git` at the user's request. Hooks do not run,
and no files are written.

Never used by saves: this is the only module that creates git's own refs or working trees.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple

from gitcp import discovery, regular
from gitcp.errors import AlreadyExists, BadValue, GitFailed, Refused
from gitcp.git import process
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


def add_worktree(
    repo: Repository,
    directory: Path,
    commit: Oid,
    branch: str | None,
    *,
    new: bool = True,
    force: bool = False,
) -> Repository:
    """Create a linked working tree at `commit`, on a branch, which is `new` or points there, or
    detached; without files. With `force`, also where git lists one that is gone.

    Its index is that of the commit. Raises GitFailed.
    """
    where = ("--no-track", "-b", branch) if branch and new else () if branch else ("--detach",)
    start = commit if new or branch is None else branch
    options = ("--quiet", "--no-checkout", *(("--force",) if force else ()), *where)
    repo.git("worktree", "add", *options, "--", os.fsencode(directory), start)
    linked = Repository.open(directory, repo.host)
    linked.git("read-tree", commit)
    return linked


def remove(repo: Repository) -> None:
    """Let git remove this linked working tree with everything in it. Raises GitFailed."""
    path = os.fsencode(repo.root)
    command = (f"--git-dir={repo.common_dir}", "worktree", "remove", "--force", "--", path)
    process.run(command, cwd=str(repo.common_dir), env=repo.host.env)


def branch_tip(repo: Repository, name: str) -> Oid | None:
    """Return the commit of a branch, None if there is none of that name."""
    return repo.refs.read(HEADS + name)


def checked_out_at(repo: Repository, name: str) -> Path | None:
    """Return the worktree that has a branch checked out, None if none has."""
    path: Path | None = None
    for line in repo.git("worktree", "list", "--porcelain").split(b"\n"):
        if line.startswith(b"worktree "):
            path = Path(os.path.realpath(os.fsdecode(line.removeprefix(b"worktree "))))
        elif line == f"branch {HEADS}{name}".encode("utf-8", "surrogateescape"):
            return path
    return None


def place(repo: Repository, name: str | None) -> Path | None:
    """Return the path of a linked working tree, or of the main one (None); None for a deleted
    one.
    """
    if name is None:
        return main_root(repo.common_dir) or repo.common_dir.parent
    own = repo.common_dir / "worktrees" / name
    try:
        # relative to that, or absolute
        git_file = own / _text(own / "gitdir")
    except OSError:
        return None
    return Path(os.path.realpath(git_file.parent)) if os.path.lexists(git_file) else None


def main_root(common_dir: Path) -> Path | None:
    """Return the main working tree around a git directory, None if there is none (bare)."""
    for root, name in zip(common_dir.parents, (".git", discovery.STORE), strict=False):
        if common_dir == root / name:
            return root
    return None


class Linked(NamedTuple):
    """A linked worktree as git lists it. `path` may be missing: deleted or moved without git, or on
    a disk that is not mounted.
    """

    name: str
    git_dir: Path
    path: Path
    there: bool
    locked: bool


def linked(repo: Repository) -> tuple[Linked, ...]:
    """Return the linked worktrees that git lists, by name."""
    listed = []
    for git_dir in sorted(repo.common_dir.glob("worktrees/*")):
        try:
            git_file = git_dir / _text(git_dir / "gitdir")
        except OSError:
            continue
        there = os.path.lexists(git_file)
        path = Path(os.path.realpath(git_file.parent) if there else git_file.parent)
        listed.append(Linked(git_dir.name, git_dir, path, there, (git_dir / "locked").exists()))
    return tuple(listed)


def _text(path: Path) -> str:
    """Return the path that a file of git's names. Raises OSError, also for one that cannot be."""
    text = regular.content(path).decode("utf-8", "surrogateescape").strip()
    if not text or "\0" in text:
        raise FileNotFoundError(f"{path} names no working tree")
    return text


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


def is_branch_name(repo: Repository, name: str) -> bool:
    """Return whether a branch may have this name."""
    try:
        _check_name(repo, name)
    except BadValue:
        return False
    return True


def _check_name(repo: Repository, name: str) -> None:
    try:
        repo.git("check-ref-format", "--branch", name)
    except (GitFailed, ValueError):  # what no argument can have: a NUL, a lone surrogate
        raise BadValue(f"{name!r} cannot be the name of a branch: nothing was changed") from None
    if name.startswith(("-", "@")) or name == "HEAD":
        raise BadValue(f"{name!r} cannot be the name of a branch: nothing was changed")
