"""Permission bits that a checkpoint does not record, kept so that undo restores them exactly.

A checkpoint does not distinguish 0644 from 0664, nor either from what the umask gives a new file,
which differs between users. That is enough for a restore, but an undo must be exact. So a restore
records the bits of the files it changes, where restoring the safety checkpoint would set different
ones.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator

from gitcp.git.trees import TreeReader
from gitcp.model import EXECUTABLE, FILE, Snapshot
from gitcp.restoring.apply import ordinary
from gitcp.restoring.plan import FilePlan, Side
from gitcp.restoring.written import WrittenBefore
from gitcp.store import Store
from gitcp.value import replace
from gitcp.worktree.snapshot import Taken
from gitcp.worktree.writer import Writer

Bits = tuple[tuple[bytes, int], ...]
"""Paths with their permission bits."""


def unrecorded(store: Store, files: FilePlan, before: Taken) -> Bits:
    """Return the permission bits of the files that `files` changes, where restoring `before` would
    set others.
    """
    if not store.repo.is_set("core.filemode", default=True):
        return ()
    root = os.fsencode(store.repo.root)
    usual = ordinary(executable=True)
    directories = (
        (path, bits)
        for path in files.remove_directories
        if path not in before.snapshot.modes and (bits := _bits(root, path)) not in (None, usual)
    )
    default_bits = {
        is_executable: ordinary(executable=is_executable) for is_executable in (True, False)
    }
    return (
        *(
            (path, bits)
            for path, bits in _changed(files, before)
            # 0664 came back as 0644, and with umask 077 a 0644 as 0600
            if path not in before.snapshot.modes and bits != default_bits[bool(bits & 0o100)]
        ),
        # A directory of mode 0700 came back as 0755.
        *directories,
    )


def _bits(root: bytes, path: bytes) -> int | None:
    """Return the permission bits of a directory, None if it is not there."""
    try:
        return stat.S_IMODE(os.lstat(root + b"/" + path).st_mode)
    except OSError:
        return None


def _changed(files: FilePlan, before: Taken) -> Iterator[tuple[bytes, int]]:
    for path in sorted(files.files):
        stamp = before.stamp(path)
        if stamp is not None and stat.S_ISREG(stamp.mode):
            yield path, stat.S_IMODE(stamp.mode)


def completed(
    reader: TreeReader, wanted: Snapshot, before: WrittenBefore, tree: Writer
) -> Snapshot:
    """Return `wanted`, the snapshot to return to, with the bits that files had before a restore
    changed them, as listed in `before`. `reader` can read its trees.

    Files that already have these bits are omitted.
    """
    recorded, side = dict(before.bits), Side(reader, wanted)
    modes = dict(wanted.modes)
    for path in sorted({*before.files, *recorded} - modes.keys()):
        entry = side.entry(path)
        if path in recorded and side.has_directory(path):
            modes[path] = recorded[path]
        elif entry is not None and entry.mode in {FILE, EXECUTABLE}:
            bits = recorded.get(path, ordinary(executable=entry.mode == EXECUTABLE))
            status = tree.lstat(path)
            is_file = status is not None and stat.S_ISREG(status.st_mode)
            if status is None or not is_file or stat.S_IMODE(status.st_mode) != bits:
                modes[path] = bits
    return replace(wanted, modes=modes) if modes != wanted.modes else wanted
