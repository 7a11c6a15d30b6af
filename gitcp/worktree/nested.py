"""Detect repositories inside the working tree with git's own test, and read their HEAD.

Read-only: a nested repository is never entered. A `.git` that git would not accept is not a
repository.
"""

from __future__ import annotations

import os
from pathlib import Path

from gitcp import discovery
from gitcp.errors import StoreDamaged
from gitcp.git import process
from gitcp.git.config import NO_FILE
from gitcp.git.refs import HEX, read_ref
from gitcp.git.repo import Repository
from gitcp.model import Oid


def git_dir_of(directory: bytes) -> bytes | None:
    """Return the git directory of the repository whose working tree is at `directory`, None if
    there is none.
    """
    named = discovery.named(os.fsdecode(directory))
    return os.fsencode(named) if named and _is_git_dir(named) else None


def head_of(git_dir: bytes, repo: Repository) -> Oid | None:
    """Return the commit at the HEAD of a repository inside `repo`, None if it has no commit yet or
    HEAD is unreadable.
    """
    path = os.fsdecode(git_dir)
    head = os.fsdecode(discovery.beginning(path + "/HEAD")).strip()
    if not head or HEX.match(head):
        return Oid(head) if head else None
    try:
        if head == NO_FILE:
            command = (f"--git-dir={path}", "rev-parse", "--verify", "--quiet", "HEAD")
            output = process.run(command, cwd=path, env=repo.host.env, accept=(0, 1, 128))
            return Oid(output.decode("ascii").strip()) or None
        return read_ref(Path(discovery.common(path)), head.removeprefix("ref:").strip())
    except (StoreDamaged, OSError, ValueError):
        return None


def is_filled(directory: bytes) -> bool:
    """Return whether a directory has any entries."""
    try:
        with os.scandir(directory) as listing:
            return any(True for _ in listing)
    except OSError:
        return False


def _is_git_dir(path: str) -> bool:
    """Return whether git accepts `path` as a git directory: a valid HEAD, and the directories
    `objects` and `refs`.

    Stricter than the test for the repository being saved, which is saved even with a damaged HEAD.
    """
    head = os.fsdecode(discovery.beginning(path + "/HEAD"))
    points = head.startswith("ref:") and head[4:].lstrip().startswith("refs/")
    common = discovery.common(path)
    return (points or HEX.match(head.partition("\n")[0]) is not None) and all(
        os.path.isdir(common + name) for name in ("/objects", "/refs")
    )


def holds_own_store(path: bytes) -> bool:
    """Return whether a directory `.gitcp` has nothing but gitcp's own store (gitcp.git.own_store),
    in use or joined.
    """
    try:
        names = set(os.listdir(path))
    except OSError:
        return False
    stores = {name for name in names if name.endswith(b".git")}
    return bool(stores) and names - stores <= {b".gitignore"}
