"""What a restore wrote, so that undo can take back what a look at the tree no longer shows.

A restore may write a path that is ignored afterwards, or left out by a limit. Such a path is in no
later snapshot, so undo would leave it, and redo could not bring it back. Each restore lists what it
wrote. Before `undo` or `redo` takes that back, what is still as it was written is added to the
snapshot. What was changed since stays.
"""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from typing import Any, NamedTuple

from gitcp import wire
from gitcp.errors import StoreDamaged
from gitcp.git.fsync import make_own_directory
from gitcp.git.objects import Objects
from gitcp.git.repo import Repository
from gitcp.git.trees import DEEP
from gitcp.model import EXECUTABLE, FILE, SYMLINK, CheckpointId, Conversion, Entry, Oid, Snapshot
from gitcp.restoring.apply import ordinary
from gitcp.restoring.contents import Contents
from gitcp.restoring.merge import edited_tree
from gitcp.restoring.plan import ALONE, FilePlan, Kept, Side, parents, within
from gitcp.restoring.request import Request, know_files
from gitcp.state import journal
from gitcp.state.journal import Restores, Unfinished
from gitcp.store import Store
from gitcp.value import EMPTY, Value, replace
from gitcp.worktree.records import USUAL_BITS
from gitcp.worktree.rules import OutsideRules
from gitcp.worktree.snapshot import Stamp, Taken, stamp_of
from gitcp.worktree.writer import Writer

CHANGED = "changed since it was restored, and ignored"
CONTENT = (FILE, EXECUTABLE, SYMLINK)


class File(NamedTuple):
    """A file or link as a restore left it. `bits` are its permissions, None if they are not
    known.
    """

    entry: Entry
    conversion: Conversion | None
    bits: int | None


class Written(Value):
    """What a restore wrote.

    `files` are by path, `made` the files and empty directories that it made where nothing was.
    `standing` are directories that it wrote into and that were there before, though its safety
    checkpoint does not have them. `bits` are the permissions that files had before it, where that
    checkpoint does not record them. `rules` are the ignore rules that were in force before it and
    are not in that checkpoint: what they hid was there. None if not known.
    """

    files: Mapping[bytes, File] = EMPTY
    made: tuple[bytes, ...] = ()
    standing: frozenset[bytes] = frozenset()
    bits: tuple[tuple[bytes, int], ...] = ()
    rules: OutsideRules | None = None


class Found(NamedTuple):
    """A snapshot with what it could not see of what was `written`. `held` are the paths added to
    it, `changed` those that must stay.
    """

    taken: Taken
    written: Written = Written()
    held: frozenset[bytes] = frozenset()
    changed: tuple[Kept, ...] = ()


# ---------------------------------------------------------------- what was written


def listed(
    wanted: Side, paths: Iterable[bytes], tree: Writer, contents: Contents | None = None
) -> dict[bytes, File]:
    """The files at these paths as they lie there now, with the entries that `wanted` has.

    With `contents` only those that are as wanted, byte for byte.
    """
    found = {}
    for path in paths:
        entry, conversion = wanted.entry(path), wanted.conversions.get(path)
        status = tree.lstat(path)
        if entry is None or entry.mode not in CONTENT or status is None:
            continue
        if contents is None or contents.stands(tree, path, entry, conversion):
            found[path] = File(entry, conversion, stat.S_IMODE(status.st_mode))
    return found


def by(
    store: Store,
    request: Request,
    files: FilePlan,
    before: Snapshot,
    tree: Writer,
    begun: Unfinished | None,
) -> Written:
    """What a restore wrote that carried out `files`, and an interrupted one that it finishes.

    What the plan kept was not written. `before` is the snapshot of the safety checkpoint.
    """
    wanted, kept = Side(store.objects, request.wanted), {one.path for one in files.kept}
    paths = (*(step.path for step in files.write), *(path for path, _ in files.permissions))
    found = listed(wanted, (path for path in paths if path not in kept), tree)
    if begun is not None:
        rest = (path for path in begun.paths if path not in found and not path.endswith(ALONE))
        return Written(found | listed(wanted, rest, tree, Contents(store)))
    side, above = (
        Side(store.objects, before),
        {parent for path in found for parent in parents(path)},
    )
    return Written(
        found, standing=frozenset(d for d in above if d not in tree.made and not side.holds(d))
    )


def so_far(store: Store, request: Request, begun: Unfinished) -> Written:
    """What an interrupted restore wrote."""
    know_files(store, request.target)
    paths = (path for path in begun.paths if not path.endswith(ALONE))
    with Writer(store.repo.root) as tree:
        files = listed(Side(store.objects, request.wanted), paths, tree, Contents(store))
    return Written(
        files,
        begun.extent.made,
        bits=begun.extent.bits,
        rules=_read_rules(store.repo, begun.extent),
    )


def added(repo: Repository, here: CheckpointId, then: Restores, written: Written) -> Restores:
    """What can be undone, with the list of what was written by the restore that began at `here`.
    Writes the list.
    """
    if not written.files or here not in then.extents:
        return then
    extent = replace(then.extents[here], written=keep(repo, written))
    return replace(then, extents={**then.extents, here: extent})


# ---------------------------------------------------------------- what is still there


def completed(store: Store, objects: Objects, taken: Taken, written: Written) -> Found:
    """A snapshot with those of the written paths that it could not see, as far as nobody changed
    them since.

    Writes trees to `objects`, and blobs that are not safe from git's gc.
    """
    side, contents = Side(objects, taken.snapshot), Contents(store)
    with Writer(store.repo.root) as tree:
        files, changed = _unseen(side, taken, written, contents, tree)
        empty = [path for path in written.made if _is_empty(tree, path) and not side.holds(path)]
    if not files and not empty:
        return Found(taken, written, frozenset(), changed)
    for file, _ in files.values():
        if not objects.freshen(file.entry.oid):
            objects.write_blob(store.objects.read_blob(file.entry.oid))
    stamps = {path: stamp for path, (_, stamp) in files.items()}
    snapshot = _with(
        store.repo,
        objects,
        taken.snapshot,
        {path: file for path, (file, _) in files.items()},
        empty,
    )
    seen = taken.stamp
    taken = taken._replace(snapshot=snapshot, stamp=lambda path: stamps.get(path) or seen(path))
    return Found(taken, written, frozenset((*files, *empty)), changed)


def _unseen(
    side: Side, taken: Taken, written: Written, contents: Contents, tree: Writer
) -> tuple[dict[bytes, tuple[File, Stamp]], tuple[Kept, ...]]:
    """The written files that the snapshot does not have and that are as they were written, and
    those that are not.
    """
    files, changed = {}, []
    for path, file in written.files.items():
        is_known = taken.stamp(path) or side.is_absent(path) or within_any(path, side.foreign)
        status = None if is_known else tree.lstat(path)
        if status is None or stat.S_ISDIR(status.st_mode) or path.count(b"/") >= DEEP:
            continue
        same_bits = stat.S_ISLNK(status.st_mode) or file.bits in (
            None,
            stat.S_IMODE(status.st_mode),
        )
        if same_bits and contents.stands(tree, path, file.entry, file.conversion):
            files[path] = (file, stamp_of(status))
        else:
            changed.append(Kept(path, CHANGED))
    return files, tuple(changed)


def within_any(path: bytes, tops: Collection[bytes]) -> bool:
    """Whether a path is one of these or below one; of none it is not."""
    return bool(tops) and within(path, tops)


def _is_empty(tree: Writer, path: bytes) -> bool:
    status = tree.lstat(path)
    return status is not None and stat.S_ISDIR(status.st_mode) and not tree.names(path)


def _with(
    repo: Repository,
    objects: Objects,
    snapshot: Snapshot,
    files: Mapping[bytes, File],
    empty: list[bytes],
) -> Snapshot:
    """The snapshot with more files and empty directories in it. They count as untracked."""
    above = {parent for path in (*files, *empty) for parent in parents(path)}
    modes = dict(snapshot.modes)
    if repo.is_set("core.filemode", default=True):
        modes |= dict(_modes(files))
    converted = {conversion.path: conversion for conversion in snapshot.converted}
    converted |= {
        path: file.conversion for path, file in files.items() if file.conversion is not None
    }
    return replace(
        snapshot,
        tree=edited_tree(
            objects, snapshot.tree, {path: file.entry for path, file in files.items()}
        ),
        total=snapshot.total + len(files),
        skipped=tuple(skip for skip in snapshot.skipped if skip.path not in files),
        converted=tuple(converted[path] for path in sorted(converted)),
        empty_directories=tuple(sorted({*snapshot.empty_directories, *empty} - above)),
        modes=modes,
        untracked=tuple(sorted({*snapshot.untracked, *files})),
    )


def _modes(files: Mapping[bytes, File]) -> Iterator[tuple[bytes, int]]:
    """The permissions that git does not keep."""
    usual = USUAL_BITS | {ordinary(executable=False), ordinary(executable=True)}
    for path, file in files.items():
        if file.entry.mode != SYMLINK and file.bits is not None and file.bits not in usual:
            yield path, file.bits


# ---------------------------------------------------------------- on the disk


def keep(repo: Repository, written: Written) -> str:
    """Write the list into a file of its own, whole and fsynced; its name. Raises DiskFull,
    GitcpError.
    """
    fields: dict[str, object] = {
        "schema": "gitcp.written/1",
        "files": [_encode(path, file) for path, file in written.files.items()],
        "standing": [wire.encode_path(path) for path in sorted(written.standing)],
    }
    return _keep(repo, os.urandom(8).hex(), fields)


def keep_rules(repo: Repository, rules: OutsideRules) -> str:
    """Write ignore rules into a file, whole and fsynced; its name, the same for the same rules.
    Raises as `keep`.
    """
    fields: dict[str, object] = {
        "schema": "gitcp.rules/1",
        "excludes_file": _encode_rules(rules.excludes_file),
        "info_exclude": _encode_rules(rules.info_exclude),
        "files": [
            [wire.encode_path(path), _encode_rules(data)]
            for path, data in sorted(rules.files.items())
        ],
    }
    return _keep(
        repo,
        hashlib.sha1(wire.dumps(fields, small=True), usedforsecurity=False).hexdigest(),
        fields,
    )


def _keep(repo: Repository, name: str, fields: dict[str, object]) -> str:
    directory = repo.state_dir / journal.WRITTEN
    with suppress(OSError):  # the write says why
        make_own_directory(directory)
    journal.write_fields(directory / name, fields)
    return name


def read(repo: Repository, extent: journal.Extent) -> Written:
    """What the restore with this extent wrote; no files if an older gitcp did it, or if the list is
    gone or damaged.
    """
    rules = _read_rules(repo, extent)
    try:
        fields = _read(repo, extent.written)
        files = dict(_decode(row) for row in fields.get("files", ()))
        standing = frozenset(map(wire.decode_path, fields.get("standing", ())))
        return Written(files, extent.made, standing, extent.bits, rules)
    except (StoreDamaged, KeyError, TypeError, ValueError, AttributeError, OSError):
        return Written(EMPTY, extent.made, bits=extent.bits, rules=rules)


def _read_rules(repo: Repository, extent: journal.Extent) -> OutsideRules | None:
    try:
        fields = _read(repo, extent.rules)
        files = {wire.decode_path(path): wire.decode_path(data) for path, data in fields["files"]}
        return OutsideRules(
            _decode_rules(fields["excludes_file"]), _decode_rules(fields["info_exclude"]), files
        )
    except (StoreDamaged, KeyError, TypeError, ValueError, AttributeError, OSError):
        return None


def _read(repo: Repository, name: str) -> Mapping[str, Any]:
    return (
        journal.read_fields(repo.git_dir / "gitcp" / journal.WRITTEN / name) if name else None
    ) or EMPTY


def _encode_rules(data: bytes | None) -> object:
    return None if data is None else wire.encode_path(data)


def _decode_rules(field: Any) -> bytes | None:
    return None if field is None else wire.decode_path(field)


def _encode(path: bytes, file: File) -> list[object]:
    how = file.conversion
    conversion = [how.eol, how.ident, how.encoding, how.lfs] if how else None
    return [wire.encode_path(path), file.entry.mode, file.entry.oid, file.bits, conversion]


def _decode(row: list[Any]) -> tuple[bytes, File]:
    encoded, mode, oid, bits, how = row
    path = wire.decode_path(encoded)
    conversion = Conversion(path, *how) if isinstance(how, list) else None
    return path, File(
        Entry(int(mode), Oid(str(oid))), conversion, None if bits is None else int(bits)
    )
