"""Submodules and other repositories inside the working tree that hold work no commit of theirs has.

A snapshot records where they stand and enters none, so this work is in no checkpoint. It is looked
for where somebody reads the answer, after a save and in `status`, and not by the scan: it takes an
`lstat` for each of their files. Runs no filter, hook or monitor of theirs: what only a filter could
tell counts as changed.
"""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Iterator
from pathlib import Path

from gitcp import regular
from gitcp.errors import GitcpError
from gitcp.git import index
from gitcp.git.index import SKIP_WORKTREE, Index, Slot
from gitcp.git.object_format import ObjectFormat
from gitcp.git.repo import Repository
from gitcp.model import GITLINK, Skip, SkipReason, Snapshot
from gitcp.worktree.paths import display

OTHERS = ("ls-files", "--others", "--exclude-standard", "--directory", "--no-empty-directory", "-z")


def uncommitted(repo: Repository, snapshot: Snapshot) -> tuple[Skip, ...]:
    """Return the submodules and nested repositories of a snapshot with uncommitted changes, each
    with one path that changed, and those that cannot be looked into.
    """
    kinds = [(each.path, "submodule") for each in snapshot.submodules]
    kinds += [(each.path, "repository") for each in snapshot.nested]
    known = {skip.path for skip in snapshot.skipped}
    skips = []
    for path, kind in sorted(kinds):
        full = Path(os.path.join(repo.root, os.fsdecode(path)))
        if path in known or not os.path.lexists(full / ".git"):
            continue
        try:
            changed = next(_changes(Repository.open(full, repo.host)), None)
            detail = f"{kind} with uncommitted changes: {display(changed)}" if changed else ""
        except (GitcpError, OSError) as error:
            detail = f"{kind} that cannot be looked into: {error}"
        if detail:
            skips.append(Skip(path, SkipReason.NESTED_REPOSITORY, detail))
    return tuple(skips)


def _changes(repo: Repository) -> Iterator[bytes]:
    """The paths that no commit of a repository has as they are: the cheapest to find first."""
    entries = index.read(repo)
    for directory, folder in entries.folders.items():
        for name, slots in folder.files.items():
            path = directory + b"/" + name if directory else name
            if len(slots) > 1 or not _is_same(repo, entries, path, slots[0]):
                yield path
    yield from filter(None, repo.git(*OTHERS).split(b"\0"))
    if repo.head().commit is None:
        yield from (name for folder in entries.folders.values() for name in folder.files)
        return
    staged = repo.git("diff-index", "--cached", "--name-only", "--no-ext-diff", "-z", "HEAD", "--")
    yield from filter(None, staged.split(b"\0"))


def _is_same(repo: Repository, entries: Index, path: bytes, slot: Slot) -> bool:
    """Whether a file holds what the index has; by its stat data, else by its bytes."""
    mode, oid, flags, _ = slot
    if mode == GITLINK or flags & SKIP_WORKTREE:
        return True
    full = os.path.join(os.fsencode(repo.root), path)
    try:
        status = os.lstat(full)
    except (FileNotFoundError, NotADirectoryError):
        return False
    if entries.proves(slot, status):
        return True
    return (
        index.git_mode(status.st_mode) == mode
        and _hashed(full, status, repo.object_format).digest() == oid
    )


def _hashed(full: bytes, status: os.stat_result, object_format: ObjectFormat) -> hashlib._Hash:
    """The hash that git would give a file's bytes as a blob."""
    digest = object_format.hasher(b"blob %d\0" % status.st_size)
    if stat.S_ISLNK(status.st_mode):
        digest.update(os.readlink(full))
        return digest
    with regular.opened(full) as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return digest
