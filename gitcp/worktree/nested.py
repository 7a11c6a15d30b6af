"""Repositories inside the working tree: is there one in a directory, by git's own test, and where
does it stand.

Only ever looks: a nested repository is never entered. A `.git` that git would not accept makes no
repository.
"""

from __future__ import annotations

import os
from pathlib import Path

from gitcp.errors import StoreDamaged
from gitcp.git.refs import HEX, read_ref
from gitcp.model import Oid

LONGEST_FILE = 1 << 20
"""Bytes of a `.git` file that git still reads."""


def git_dir_of(directory: bytes) -> bytes | None:
    """The git directory of the repository whose working tree is at `directory`; None if there is
    none.
    """
    dot_git = directory + b"/.git"
    if _is_git_dir(dot_git):
        return dot_git
    text = _first_bytes(dot_git, LONGEST_FILE + 1)
    if text is None or len(text) > LONGEST_FILE or not text.startswith(b"gitdir: "):
        return None
    target = os.path.join(directory, text[8:].rstrip(b"\r\n"))
    return target if _is_git_dir(target) else None


def head_of(git_dir: bytes) -> Oid | None:
    """The commit that a repository's HEAD is at; None if it has none yet, or it cannot be told."""
    text = _first_bytes(git_dir + b"/HEAD", 4096)
    if text is None:
        return None
    head = text.decode("utf-8", "surrogateescape").strip()
    if HEX.match(head):
        return Oid(head)
    try:
        return read_ref(Path(os.fsdecode(_common_dir(git_dir))), head.removeprefix("ref:").strip())
    except (StoreDamaged, OSError, ValueError):
        return None


def is_filled(directory: bytes) -> bool:
    """Whether there is anything in a directory."""
    try:
        with os.scandir(directory) as listing:
            return any(True for _ in listing)
    except OSError:
        return False


def _is_git_dir(path: bytes) -> bool:
    """git's test: a HEAD that looks like one, and the directories `objects` and `refs`."""
    text = _first_bytes(path + b"/HEAD", 4096)
    if text is None:
        return False
    head = text.decode("utf-8", "surrogateescape")
    points = head.startswith("ref:") and head[4:].lstrip().startswith("refs/")
    common = _common_dir(path)
    return (points or HEX.match(head[:40]) is not None) and all(
        os.path.isdir(common + name) for name in (b"/objects", b"/refs")
    )


def _common_dir(git_dir: bytes) -> bytes:
    text = _first_bytes(git_dir + b"/commondir", 4096)
    return os.path.join(git_dir, text.rstrip(b"\r\n")) if text else git_dir


def _first_bytes(path: bytes, size: int) -> bytes | None:
    try:
        # a FIFO by that name must not hang us
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    except (OSError, ValueError):
        return None
    try:
        return os.read(descriptor, size)
    except OSError:
        return None
    finally:
        os.close(descriptor)
