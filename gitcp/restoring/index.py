"""Restore git's index to what it was at a checkpoint (`restore --index`); git writes it.

It writes a copy, which then replaces the index under git's own lock. A crash leaves that lock
behind only at one moment, when it is a hard link to the copy: so the next run recognizes it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from gitcp.errors import GitFailed, IndexUnreadable
from gitcp.git import index, trees
from gitcp.git.index import read_index
from gitcp.git.repo import Repository
from gitcp.model import Checkpoint, Entry
from gitcp.restoring.plan import Kept, absence, within
from gitcp.store import Store
from gitcp.worktree import state

if TYPE_CHECKING:
    from gitcp.fingerprint import Fingerprint


NAME = "index"


@contextmanager
def changing(repo: Repository) -> Iterator[Repository]:
    """Yield the repository with a copy of its index, which replaces the index if nothing is raised.

    The caller prevents concurrent restores. Raises GitFailed, and leaves the index unchanged, if
    another process has it locked or changed it meanwhile; and OSError.
    """
    import copy  # only for restoring staged changes
    import shutil

    copy_path, lock = repo.state_dir / NAME, repo.git_dir / "index.lock"
    _remove_leftovers(copy_path, lock)
    before = index.current_fingerprint(repo)
    try:
        if before is not None:
            # keep the mtime: git uses it to decide which entries to check again
            shutil.copy2(repo.index, copy_path)
        changed = copy.copy(repo)
        changed.index = copy_path
        copied = index.current_fingerprint(changed)
        yield changed
        if index.current_fingerprint(changed) != copied:
            _replace_index(copy_path, lock, repo, before)
    finally:
        with suppress(OSError):
            _remove_leftovers(copy_path, lock)


def _replace_index(
    copy_path: Path, lock: Path, repo: Repository, before: Fingerprint | None
) -> None:
    descriptor = os.open(copy_path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    try:
        os.link(copy_path, lock)
    except FileExistsError:
        raise GitFailed(f"{lock} exists: another git process is running, or has crashed") from None
    if index.current_fingerprint(repo) != before:
        lock.unlink()
        raise GitFailed("another git process has changed it meanwhile")
    os.rename(lock, repo.index)


def _remove_leftovers(copy_path: Path, lock: Path) -> None:
    """Remove the files that a crash left."""
    with suppress(FileNotFoundError):
        # Killed, `restore --index` left an index.lock that nobody could tell from git's.
        if os.path.samefile(copy_path, lock):
            lock.unlink()
    for path in (copy_path, copy_path.with_name(f"{NAME}.lock")):
        path.unlink(missing_ok=True)


Slot = tuple[bytes, int]
"""A path and a stage: the key of one index entry."""


def restore(store: Store, target: Checkpoint, scope: Collection[bytes]) -> tuple[Kept, ...]:
    """Set the index to what the checkpoint recorded, within `scope` (empty: everywhere), and return
    the entries that could not be set.

    Only entries that differ are written; files are not.
    """
    if any(skip.path == state.PATH for skip in target.snapshot.skipped):
        why = "the index was not restored: git's index could not be read at that checkpoint"
        return (Kept(state.PATH, why, missing=True),)
    wanted = {
        slot: entry for slot, entry in _recorded(store, target).items() if within(slot[0], scope)
    }
    intent_to_add = [
        e.path for e in target.snapshot.staged if e.intent_to_add and within(e.path, scope)
    ]
    try:
        with changing(store.repo) as repo:
            _change(repo, target, scope, wanted, intent_to_add)
        return tuple(_unrestored(store, wanted, intent_to_add, scope))
    except (GitFailed, IndexUnreadable, OSError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        path = os.path.relpath(store.repo.index, store.repo.root)
        return (Kept(os.fsencode(path), f"the index was not restored: {reason}", missing=True),)


def _change(
    repo: Repository,
    target: Checkpoint,
    scope: Collection[bytes],
    wanted: Mapping[Slot, Entry],
    intent_to_add: list[bytes],
) -> None:
    entries = [entry for entry in read_index(repo) if within(entry.path, scope)]
    present = {(e.path, e.stage): Entry(e.mode, e.oid) for e in entries if not e.intent_to_add}
    null = repo.object_format.null.encode("ascii")
    lines = [*_removals(present, wanted, null), *_additions(present, wanted)]
    for entry in entries:
        if (
            entry.intent_to_add
            and entry.path not in intent_to_add
            and (entry.path, 0) not in wanted
        ):
            lines.append(b"0 %s\t%s\0" % (null, entry.path))
    if lines:
        repo.git("update-index", "-z", "--index-info", input=b"".join(lines))
    skipped = {e.path for e in entries if e.skip_worktree}
    is_absent = absence(target.snapshot)
    _flag(
        repo,
        lambda path: path in skipped or ((path, 0) in wanted and is_absent(path)),
        "--skip-worktree",
    )
    assumed = {e.path for e in entries if e.assume_unchanged}
    _flag(repo, assumed.__contains__, "--assume-unchanged")
    for path in intent_to_add:
        repo.git("add", "--intent-to-add", "--force", "--", path, accept=(0, 1, 128))


def _flag(repo: Repository, is_wanted: Callable[[bytes], bool], flag: str) -> None:
    """Set an index flag again, on entries that may have been rewritten."""
    staged = (entry.path for entry in read_index(repo) if not entry.stage)
    lines = [path + b"\0" for path in staged if is_wanted(path)]
    if lines:
        repo.git("update-index", flag, "-z", "--stdin", input=b"".join(lines))


def _unrestored(
    store: Store, wanted: Mapping[Slot, Entry], intent_to_add: list[bytes], scope: Collection[bytes]
) -> Iterator[Kept]:
    """Read the index again and yield the paths whose entry is not as recorded."""
    entries = [entry for entry in read_index(store.repo) if within(entry.path, scope)]
    present = {(e.path, e.stage): Entry(e.mode, e.oid) for e in entries if not e.intent_to_add}
    differing = {path for path, _ in {slot for slot, _ in present.items() ^ wanted.items()}}
    differing |= set(intent_to_add) ^ {e.path for e in entries if e.intent_to_add}
    for path in sorted(differing):
        yield Kept(path, "its index entry could not be set", missing=True)


def _recorded(store: Store, target: Checkpoint) -> dict[Slot, Entry]:
    """Return the index of a checkpoint: its tracked files, overlaid with the staged entries."""
    snapshot = target.snapshot
    untracked = set(snapshot.untracked)
    directories = tuple(path for path in untracked if path.endswith(b"/"))
    entries = {
        (path, 0): entry
        for path, entry in trees.walk(store.reader, snapshot.tree)
        if path not in untracked and not path.startswith(directories)
    }
    for entry in snapshot.staged:
        entries[entry.path, 0] = Entry(entry.mode, entry.oid)
        if entry.intent_to_add:
            del entries[entry.path, 0]
    for entry in snapshot.conflicts:
        entries.pop((entry.path, 0), None)
        entries[entry.path, entry.stage] = Entry(entry.mode, entry.oid)
    return entries


def _removals(
    present: Mapping[Slot, Entry], wanted: Mapping[Slot, Entry], null: bytes
) -> list[bytes]:
    """Return input for `git update-index` that removes each path whose stages differ: git keeps no
    stage 0 beside others. `null` is the name of no object.
    """
    differing = {path for path, stage in present.keys() ^ wanted.keys() if (path, stage) in present}
    return [b"0 %s\t%s\0" % (null, path) for path in sorted(differing)]


def _additions(present: Mapping[Slot, Entry], wanted: Mapping[Slot, Entry]) -> list[bytes]:
    removed = {path for path, stage in present.keys() ^ wanted.keys() if (path, stage) in present}
    return [
        b"%06o %s %d\t%s\0" % (entry.mode, entry.oid.encode(), stage, path)
        for (path, stage), entry in sorted(wanted.items())
        if path in removed or present.get((path, stage)) != entry
    ]
