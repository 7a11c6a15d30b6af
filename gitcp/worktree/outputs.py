"""Outputs: files that a program named as its own, captured though they are ignored or too large.

`<git dir>/gitcp/outputs` lists those of this working tree, so that every snapshot captures them,
whoever takes it: what a restore would overwrite is saved before. Each checkpoint lists its own, so
that they are known where it is restored.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable

from gitcp.git.fsync import read_own, replace_file
from gitcp.git.repo import Repository

NAME = "outputs"
GROWING = "appends"
"""The list of those outputs that are stored as segments if they are large: programs said that they
append to them. It is no promise: that holds for the save that states it (gitcp.worktree.blobs).
"""


def read(repo: Repository, name: str = NAME) -> tuple[bytes, ...]:
    """Return the outputs of this working tree, relative to its root; none if the list is lost."""
    try:
        data = read_own(repo.git_dir / "gitcp" / name)
    except OSError:
        return ()
    return tuple(path for path in data.split(b"\0") if path)


def add(repo: Repository, paths: Iterable[bytes], name: str = NAME) -> None:
    """Add outputs to this working tree. Raises OSError."""
    before = read(repo, name)
    if missing := {*paths}.difference(before):
        replace_file(repo.state_dir / name, b"\0".join(sorted({*before, *missing})))


def patterns(paths: Iterable[bytes]) -> tuple[str, ...]:
    """Return include patterns that match exactly these paths, ignored or not."""
    return tuple(
        "/" + re.sub(r"([\\*?\[\] ])", r"\\\1", os.fsdecode(path))
        for path in paths
        if b"\n" not in path
    )
