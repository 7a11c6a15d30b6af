"""Record what a restore wrote, so that undo can reverse what a later snapshot does not show.

A restore may write a path that is ignored afterwards, or excluded by a limit. Such a path is in no
later snapshot, so undo would keep it, and redo could not restore it. Each restore lists what it
wrote. Before `undo` or `redo`, what is unchanged since is added to the snapshot; what changed since
is kept.
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
from gitcp.git import segmented
from gitcp.git.fsync import make_own_directory
from gitcp.git.objects import Objects
from gitcp.git.repo import Repository
from gitcp.model import EXECUTABLE, FILE, SYMLINK, Conversion, Entry, Oid, Snapshot
from gitcp.restoring.apply import Applied, ordinary
from gitcp.restoring.contents import Contents
from gitcp.restoring.merge import edited_tree
from gitcp.restoring.plan import ALONE, FilePlan, Kept, Side, parents, within
from gitcp.restoring.request import RestoreRequest
from gitcp.state import documents, journal
from gitcp.state.extent import Extent
from gitcp.state.journal import Unfinished
from gitcp.store import Store
from gitcp.value import EMPTY, Value, replace
from gitcp.worktree.records import USUAL_BITS, Stamp, stamp_of
from gitcp.worktree.rules import OutsideRules
from gitcp.worktree.snapshot import Taken
from gitcp.worktree.writer import Writer

CHANGED = "changed since it was restored, and ignored"
CONTENT = (FILE, EXECUTABLE, SYMLINK)


class RestoredFile(NamedTuple):
    """A file or link as a restore left it. `bits` are its permissions; None if unknown."""

    entry: Entry
    conversion: Conversion | None
    bits: int | None


class WrittenBefore(Value):
    """What a restore wrote.

    `files` are by path; `made` are the files and empty directories that it created where nothing
    was. `existing` are directories that it wrote into and that existed before, though its safety
    checkpoint does not have them. `bits` are permissions from before the restore that this
    checkpoint does not record. `rules` are the ignore rules in force before from outside that
    checkpoint: paths that they matched existed. None if unknown.
    """

    files: Mapping[bytes, RestoredFile] = EMPTY
    made: tuple[bytes, ...] = ()
    existing: frozenset[bytes] = frozenset()
    bits: tuple[tuple[bytes, int], ...] = ()
    rules: OutsideRules | None = None


class CompletedSnapshot(NamedTuple):
    """A snapshot completed with what it could not see of what was `written`.

    `recovered` are the paths added to it, `changed` the paths that must be kept.
    """

    taken: Taken
    written: WrittenBefore = WrittenBefore()
    recovered: frozenset[bytes] = frozenset()
    changed: tuple[Kept, ...] = ()


# ---------------------------------------------------------------- what was written


def files_on_disk(
    wanted: Side, paths: Iterable[bytes], tree: Writer, contents: Contents | None = None
) -> dict[bytes, RestoredFile]:
    """Return the files at these paths as they are on disk, with the entries that `wanted` has.

    With `contents`, only those whose bytes are as wanted.
    """
    files = {}
    for path in paths:
        entry, conversion = wanted.entry(path), wanted.conversions.get(path)
        status = tree.lstat(path)
        if entry is None or entry.mode not in CONTENT or status is None:
            continue
        if contents is None or contents.has(tree, path, entry, conversion):
            files[path] = RestoredFile(entry, conversion, stat.S_IMODE(status.st_mode))
    return files


def written_by(
    store: Store,
    request: RestoreRequest,
    files: FilePlan,
    done: Applied,
    before: Snapshot,
    tree: Writer,
    begun: Unfinished | None,
) -> WrittenBefore:
    """Return what a restore that applied `files` wrote, and what an interrupted one that it
    finishes did.

    What the plan kept was not written. `before` is the snapshot of the safety checkpoint.
    """
    wanted, kept = Side(store.reader, request.wanted), {one.path for one in files.kept}
    paths = (each.path for each in files.permissions)
    changed = (path for path in paths if path in tree.changed and path not in kept)
    on_disk = files_on_disk(wanted, changed, tree)
    for step in files.write:
        if step.new is not None and step.path in done.written and step.path not in kept:
            bits = stat.S_IMODE(done.written[step.path].status.st_mode)
            on_disk[step.path] = RestoredFile(step.new, step.conversion, bits)
    if begun is not None:
        rest = (path for path in begun.paths if path not in on_disk and not path.endswith(ALONE))
        return WrittenBefore(on_disk | files_on_disk(wanted, rest, tree, Contents(store)))
    safety = Side(store.reader, before)
    above = {parent for path in (*on_disk, *files.make_directories) for parent in parents(path)}
    return WrittenBefore(
        on_disk,
        existing=frozenset(d for d in above if d not in tree.made and not safety.may_have(d)),
    )


def written_so_far(store: Store, request: RestoreRequest, begun: Unfinished) -> WrittenBefore:
    """Return what an interrupted restore has written."""
    paths = (path for path in begun.paths if not path.endswith(ALONE))
    with Writer(store.repo.root) as tree:
        files = files_on_disk(Side(store.reader, request.wanted), paths, tree, Contents(store))
    return WrittenBefore(
        files,
        begun.extent.made,
        bits=begun.extent.bits,
        rules=_read_rules(store.repo, begun.extent),
    )


def write_list(repo: Repository, extent: Extent, written: WrittenBefore) -> Extent:
    """Write the list of what a restore wrote, and return its extent with the name of that list.
    Raises what `write` raises.
    """
    if not written.files and not extent.made and not extent.bits:
        return extent
    complete = replace(written, made=extent.made, bits=extent.bits)
    return replace(extent, made=(), bits=(), written=write(repo, complete))


# ---------------------------------------------------------------- what is still there


def completed(
    store: Store, objects: Objects, taken: Taken, written: WrittenBefore
) -> CompletedSnapshot:
    """Return a snapshot with those of the written paths that it could not see and nobody changed
    since.

    Writes trees to `objects`, and blobs that git's gc could remove.
    """
    side, contents = Side(objects.reader, taken.snapshot), Contents(store)
    with Writer(store.repo.root) as tree:
        # Files that a restore had written, and that were ignored by then, stayed after undo.
        files, changed = _unseen_files(side, taken, written, contents, tree)
        empty = [path for path in written.made if _is_empty(tree, path) and not side.may_have(path)]
    if not files and not empty:
        return CompletedSnapshot(taken, written, frozenset(), changed)
    for file, _ in files.values():
        if file.conversion and file.conversion.segments:
            chunks = segmented.content(store.reader, file.entry.oid)
            segmented.store_chunks(objects, chunks)  # what is stored is freshened
        elif not objects.freshener.freshen(file.entry.oid):
            objects.writer.write_blob(store.reader.read_blob(file.entry.oid))
    stamps = {path: stamp for path, (_, stamp) in files.items()}
    snapshot = _with_files(
        store.repo,
        objects,
        taken.snapshot,
        {path: file for path, (file, _) in files.items()},
        empty,
    )
    stamp_in_snapshot = taken.stamp
    taken = taken._replace(
        snapshot=snapshot, stamp=lambda path: stamps.get(path) or stamp_in_snapshot(path)
    )
    return CompletedSnapshot(taken, written, frozenset((*files, *empty)), changed)


def left(store: Store, objects: Objects, after: Snapshot, present: CompletedSnapshot) -> Snapshot:
    """Return the files as a restore left them: those of the checkpoint `after` it, and what it
    wrote that this one did not see. Writes trees to `objects`.
    """
    side, changed = Side(objects.reader, after), {one.path for one in present.changed}
    files = {
        path: file
        for path, file in present.written.files.items()
        if path not in changed and not side.has_file(path)
    }
    empty = [path for path in present.written.made if not side.may_have(path)]
    empty = [path for path in empty if path not in present.written.files]
    return _with_files(store.repo, objects, after, files, empty) if files or empty else after


def _unseen_files(
    side: Side, taken: Taken, written: WrittenBefore, contents: Contents, tree: Writer
) -> tuple[dict[bytes, tuple[RestoredFile, Stamp]], tuple[Kept, ...]]:
    """Return the written files that the snapshot lacks and that are unchanged, and those that are
    not.
    """
    files, changed = {}, []
    for path, file in written.files.items():
        is_known = taken.stamp(path) or side.is_absent(path) or within_any(path, side.foreign)
        status = None if is_known else tree.lstat(path)
        if status is None or stat.S_ISDIR(status.st_mode):
            continue
        same_bits = stat.S_ISLNK(status.st_mode) or file.bits in (
            None,
            stat.S_IMODE(status.st_mode),
        )
        if same_bits and contents.has(tree, path, file.entry, file.conversion):
            files[path] = (file, stamp_of(status))
        else:
            changed.append(Kept(path, CHANGED))
    return files, tuple(changed)


def within_any(path: bytes, tops: Collection[bytes]) -> bool:
    """Return whether a path is one of these or below one; False if there are none."""
    return bool(tops) and within(path, tops)


def _is_empty(tree: Writer, path: bytes) -> bool:
    status = tree.lstat(path)
    return status is not None and stat.S_ISDIR(status.st_mode) and not tree.names(path)


def _with_files(
    repo: Repository,
    objects: Objects,
    snapshot: Snapshot,
    files: Mapping[bytes, RestoredFile],
    empty: list[bytes],
) -> Snapshot:
    """Return the snapshot with more files and empty directories; they count as untracked."""
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


def _modes(files: Mapping[bytes, RestoredFile]) -> Iterator[tuple[bytes, int]]:
    """Yield the permissions that git does not record."""
    usual = USUAL_BITS | {ordinary(executable=False), ordinary(executable=True)}
    for path, file in files.items():
        if file.entry.mode != SYMLINK and file.bits is not None and file.bits not in usual:
            yield path, file.bits


# ---------------------------------------------------------------- on the disk


def write(repo: Repository, written: WrittenBefore) -> str:
    """Write the list to its own file, complete and fsynced, and return the name. Raises DiskFull,
    GitcpError.
    """
    fields: dict[str, object] = {
        "schema": "gitcp.written/1",
        "files": [_encode(path, file) for path, file in written.files.items()],
        "standing": [wire.encode_path(path) for path in sorted(written.existing)],
        "made": [wire.encode_path(path) for path in written.made],
        "bits": [[wire.encode_path(path), bits] for path, bits in written.bits],
    }
    return _write_fields(repo, os.urandom(8).hex(), fields)


def write_rules(repo: Repository, rules: OutsideRules) -> str:
    """Write ignore rules to a file, complete and fsynced, and return the name, which is the same
    for the same rules. Raises what `write` raises.
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
    return _write_fields(
        repo,
        hashlib.sha1(wire.dumps(fields, small=True), usedforsecurity=False).hexdigest(),
        fields,
    )


def _write_fields(repo: Repository, name: str, fields: dict[str, object]) -> str:
    directory = repo.state_dir / journal.WRITTEN
    with suppress(OSError):  # the write reports why
        make_own_directory(directory)
    documents.write(directory / name, fields)
    return name


def read(repo: Repository, extent: Extent) -> WrittenBefore:
    """Return what the restore with this extent wrote; without files if the list is
    missing or damaged.
    """
    rules = _read_rules(repo, extent)
    try:
        fields = _read(repo, extent.written)
        files = dict(_decode(row) for row in fields.get("files", ()))
        existing = frozenset(map(wire.decode_path, fields.get("standing", ())))
        made = (*extent.made, *map(wire.decode_path, fields.get("made", ())))
        bits = ((wire.decode_path(path), int(mode)) for path, mode in fields.get("bits", ()))
        return WrittenBefore(files, made, existing, (*extent.bits, *bits), rules)
    except (StoreDamaged, KeyError, TypeError, ValueError, AttributeError, OSError):
        return WrittenBefore(EMPTY, extent.made, bits=extent.bits, rules=rules)


def _read_rules(repo: Repository, extent: Extent) -> OutsideRules | None:
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
        documents.read(repo.git_dir / "gitcp" / journal.WRITTEN / name) if name else None
    ) or EMPTY


def _encode_rules(data: bytes | None) -> object:
    return None if data is None else wire.encode_path(data)


def _decode_rules(field: Any) -> bytes | None:
    return None if field is None else wire.decode_path(field)


def _encode(path: bytes, file: RestoredFile) -> list[object]:
    how = file.conversion
    conversion = [how.eol, how.ident, how.encoding, how.lfs, how.segments] if how else None
    return [wire.encode_path(path), file.entry.mode, file.entry.oid, file.bits, conversion]


def _decode(row: list[Any]) -> tuple[bytes, RestoredFile]:
    encoded, mode, oid, bits, how = row
    path = wire.decode_path(encoded)
    conversion = Conversion(path, *how) if isinstance(how, list) else None
    return path, RestoredFile(
        Entry(int(mode), Oid(str(oid))), conversion, None if bits is None else int(bits)
    )
