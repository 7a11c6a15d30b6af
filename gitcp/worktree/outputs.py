"""Outputs: files that a program named as its own, captured though they are ignored or too large.

`<git dir>/gitcp/outputs` lists those of this working tree, so that every snapshot captures them,
whoever takes it: what a restore would overwrite is saved before. Each checkpoint lists its own, so
that they are known where it is restored.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Callable, Collection, Iterable

from gitcp.errors import BadValue, GitcpError
from gitcp.git.fsync import read_own, replace_file
from gitcp.git.repo import Repository
from gitcp.model import Snapshot
from gitcp.worktree.paths import display

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


def add(repo: Repository, paths: Collection[bytes], appends: Collection[bytes] = ()) -> None:
    """Add files that a program writes to the list of this working tree: every snapshot captures
    them from now on, and stores those that it only `appends` to as segments. Raises BadValue for
    one that is there and is not a file.
    """
    root, written = os.fsencode(repo.root), {*paths, *appends}
    for path in sorted(written):
        _check_kind(root, path)
    try:
        _add(repo, written, NAME)
        _add(repo, appends, GROWING)
    except OSError as error:
        raise GitcpError(
            f"cannot write the list of outputs: {error.strerror}; nothing was changed"
        ) from None


def _add(repo: Repository, paths: Iterable[bytes], name: str) -> None:
    before = read(repo, name)
    if missing := {*paths}.difference(before):
        replace_file(repo.state_dir / name, b"\0".join(sorted({*before, *missing})))


def _check_kind(root: bytes, path: bytes) -> None:
    try:
        mode = os.lstat(root + b"/" + path).st_mode
    except OSError:
        return  # not written yet
    if not stat.S_ISREG(mode):
        raise BadValue(
            f"output {display(path)} is not a file, but a "
            f"{'directory' if stat.S_ISDIR(mode) else 'link or device'}: nothing was saved",
            hint="name the files that the program writes, inside the working tree",
        )


def check(
    repo: Repository,
    paths: Iterable[bytes],
    snapshot: Snapshot,
    stamp: Callable[[bytes], object],
) -> None:
    """Raise BadValue for an output that exists and is not captured: `stamp` has None for it."""
    root = os.fsencode(repo.root)
    for path in paths:
        if stamp(path) is None and os.path.lexists(root + b"/" + path):
            reasons = [s.reason.value for s in snapshot.skipped if s.path == path]
            raise BadValue(
                f"output {display(path)} cannot be saved"
                f"{f' ({reasons[0]})' if reasons else ''}: nothing was saved",
                hint=f"ls -l {display(path)}",
            )


def patterns(paths: Iterable[bytes]) -> tuple[str, ...]:
    """Return include patterns that match exactly these paths, ignored or not."""
    return tuple(
        "/" + re.sub(r"([\\*?\[\] ])", r"\\\1", os.fsdecode(path))
        for path in paths
        if b"\n" not in path
    )
