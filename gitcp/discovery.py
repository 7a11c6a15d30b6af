"""Find the working tree, its git directory, and the common git directory by reading files, as git
does.

Used by the first stage and by gitcp.git.repo, which reports errors if nothing is found.
"""

from __future__ import annotations

import os

LONGEST_FILE = 1 << 20
"""Maximum bytes of a `.git` file that git reads."""

STORE = os.path.join(".gitcp", "store.git")
"""The git directory of a directory without git (gitcp.git.own_store)."""


def discover(start: str, home: str | None = None) -> tuple[str, str] | None:
    """Return the working tree around `start` and its git directory. Return None if there is none,
    also above a `.git` file that names no git directory: git stops there too.

    A git repository comes before gitcp's own store, even further up: a store inside a repository
    may be a stranger's file that was checked out. One at `home` (default: HOME) or above does not
    count, because gitcp saves nothing there.
    """
    try:
        directory = os.path.realpath(start)
    except (OSError, ValueError):
        return None
    store = None
    while True:
        git_dir = named(directory)
        if git_dir is not None and is_git_dir(git_dir):
            return store if store and is_above_home(directory, home) else (directory, git_dir)
        store = store or own_store(directory)
        above = os.path.dirname(directory)
        if os.path.isfile(os.path.join(directory, ".git")):
            return None
        if above == directory:
            return store
        directory = above


def is_git_dir(path: str) -> bool:
    """Return whether a directory is a git directory, one that has lost its HEAD too: git works in
    none of those, but what is in it can be saved to.
    """
    return any(
        os.path.exists(os.path.join(path, name)) for name in ("HEAD", "objects", "commondir")
    )


def unusable(start: str) -> str | None:
    """Return the directory at `start` or above whose `.git` is no git directory and names none,
    where `discover` finds nothing. None if there is none.
    """
    directory = os.path.realpath(start)
    while True:
        path = os.path.join(directory, ".git")
        # An empty `.git` hid the repository above from hooks; git passes over it.
        if os.path.isfile(path) or (os.path.isdir(path) and os.listdir(path)):
            return directory
        above = os.path.dirname(directory)
        if above == directory:
            return None
        directory = above


def own_store(directory: str) -> tuple[str, str] | None:
    """Return a directory and its store, None if it has none. Links are not followed."""
    path = os.path.join(directory, STORE)
    is_own = os.path.exists(os.path.join(path, "HEAD")) and os.path.realpath(path) == path
    return (directory, path) if is_own else None


def is_above_home(directory: str, home: str | None = None) -> bool:
    """Return whether a directory is `home` (default: HOME) or above it."""
    home = os.path.realpath(os.environ.get("HOME", "") if home is None else home)
    return home == directory or home.startswith(directory.rstrip("/") + "/")


def named(directory: str) -> str | None:
    """Return the directory that `.git` is or names, valid or not; None if there is none. It is a
    file in linked working trees and submodules.
    """
    dot_git = os.path.join(directory, ".git")
    if os.path.isdir(dot_git):
        return dot_git
    text = beginning(dot_git, LONGEST_FILE + 1)
    if not text.startswith(b"gitdir: ") or len(text) > LONGEST_FILE:
        return None
    try:
        return os.path.realpath(os.path.join(directory, os.fsdecode(text[8:].rstrip(b"\r\n"))))
    except (OSError, ValueError):
        return None


def common(git_dir: str) -> str:
    """Return the git directory shared by all working trees of the repository: `git_dir` itself,
    except for a linked one.
    """
    text = os.fsdecode(beginning(os.path.join(git_dir, "commondir")).rstrip(b"\r\n"))
    named = os.path.realpath(os.path.join(git_dir, text)) if text and "\0" not in text else git_dir
    # a file that was emptied by a power cut
    directory, kind = os.path.split(os.path.dirname(git_dir))
    if kind == "worktrees" and not os.path.isdir(os.path.join(named, "objects")):
        return directory if os.path.isdir(os.path.join(directory, "objects")) else named
    return named


def beginning(path: str, size: int = 4096) -> bytes:
    """Return the first bytes of a small file, b"" if it is unreadable. Never blocks on a FIFO."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            return os.read(descriptor, size)
        finally:
            os.close(descriptor)
    except (OSError, ValueError):
        return b""
