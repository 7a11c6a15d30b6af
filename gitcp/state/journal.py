"""What this working tree must not forget: a restore under way, and the restores that can be undone.

Both are small JSON files in `<git dir>/gitcp/`, replaced whole and fsynced. A lock on that
directory, which the system gives back when its holder dies, tells a restore that is running from
one that was interrupted.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from enum import StrEnum
from pathlib import Path
from typing import Any

from gitcp import wire
from gitcp.errors import DiskFull, GitcpError, StoreBusy, StoreDamaged
from gitcp.git.fsync import FULL, read_own, replace_file, sync_directory
from gitcp.git.repo import Repository
from gitcp.model import CheckpointId
from gitcp.value import EMPTY, Value

RESTORE = "restore.json"
RESTORES = "restores.json"
RUNS = "runs"
WRITTEN = "written"
MOST = 100


class Extent(Value):
    """What a restore changed, so that undoing it changes no more.

    `paths` are its limits (empty: none); of a directory with gitcp.restoring.plan.ALONE behind it
    nothing below is meant. `made` are the files that it made where nothing was: of the state before
    it is known that they were not there. `bits` are the permissions of files that it changed, which
    the state before does not record (gitcp.restoring.permissions). `written` names the list of
    everything it wrote, `rules` the ignore rules that were in force before it and that the state
    before does not record (both in gitcp.restoring.written); "" if there is none.
    """

    files: bool = True
    conversation: bool = True
    index: bool = False
    paths: tuple[bytes, ...] = ()
    made: tuple[bytes, ...] = ()
    written: str = ""
    bits: tuple[tuple[bytes, int], ...] = ()
    rules: str = ""


class Restores(Value):
    """The checkpoints that `undo` and `redo` go to, the next one last, and the extent of the
    restore before each.
    """

    undo: tuple[CheckpointId, ...] = ()
    redo: tuple[CheckpointId, ...] = ()
    extents: Mapping[CheckpointId, Extent] = EMPTY


class Step(StrEnum):
    """How a restore came about, which decides what can be undone after it."""

    RESTORE = "restore"
    UNDO = "undo"
    REDO = "redo"


class Unfinished(Value):
    """A restore that was begun: what it goes to, what was there before, and the paths it may have
    changed.

    Of a directory among `paths`, with gitcp.restoring.plan.ALONE behind it, nothing below is meant.
    `message` is the user's message before which it goes (--message), `session_id` the one under
    which the agent's conversation goes. `reverted` is the checkpoint before the step whose changes
    a revert takes back, `markers` whether it writes conflict markers. `before` and `after` are what
    can be undone without this restore and with it.
    """

    target: CheckpointId
    safety: CheckpointId
    paths: tuple[bytes, ...]
    extent: Extent
    message: str | None = None
    session_id: str | None = None
    reverted: CheckpointId | None = None
    markers: bool = False
    before: Restores = Restores()
    after: Restores = Restores()
    step: Step = Step.RESTORE

    @property
    def directories(self) -> frozenset[bytes]:
        """All above its paths, the root too: names in them may have changed."""
        found = {b""}
        for path in self.paths:
            while path := path.rpartition(b"/")[0]:
                found.add(path)
        return frozenset(found)


@contextmanager
def lock(repo: Repository) -> Iterator[None]:
    """Be the only one who restores in this working tree. Raises StoreBusy if another process
    does.
    """
    descriptor = os.open(repo.state_dir, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    except BlockingIOError:
        raise StoreBusy(
            "another gitcp process is restoring here: nothing was changed",
            hint="try again when it is done",
        ) from None
    finally:
        os.close(descriptor)


def is_running(repo: Repository) -> bool:
    """Whether a restore is changing files here right now. One that was interrupted is not
    running.
    """
    if not (repo.git_dir / "gitcp" / RESTORE).exists():
        return False
    try:
        with lock(repo):
            return False
    except StoreBusy:
        return True


def begin(repo: Repository, unfinished: Unfinished) -> None:
    """Write down a restore before its first change."""
    write_fields(
        repo.state_dir / RESTORE,
        {
            "schema": "gitcp.journal/1",
            "target": str(unfinished.target),
            "safety": str(unfinished.safety),
            "paths": [wire.encode_path(path) for path in unfinished.paths],
            **_encode_extent(unfinished.extent),
            "message": unfinished.message,
            "session_id": unfinished.session_id,
            "reverted": str(unfinished.reverted) if unfinished.reverted else None,
            "markers": unfinished.markers,
            "before": _encode_restores(unfinished.before),
            "after": _encode_restores(unfinished.after),
            "step": unfinished.step.value,
        },
    )


def unfinished(repo: Repository) -> Unfinished | None:
    """The restore that was begun and not finished, if any. Raises StoreDamaged if that cannot be
    told.
    """
    path = repo.git_dir / "gitcp" / RESTORE
    fields = read_fields(path)
    if fields is None:
        return None
    try:
        return Unfinished(
            target=_id(fields["target"]),
            safety=_id(fields["safety"]),
            paths=tuple(wire.decode_path(path) for path in fields["paths"]),
            extent=_decode_extent(fields),
            message=fields.get("message"),
            session_id=fields.get("session_id"),
            reverted=wire.parse_id(fields.get("reverted")),
            markers=bool(fields.get("markers")),
            before=_decode_restores(fields.get("before", {})),
            after=_decode_restores(fields.get("after", {})),
            step=Step(fields.get("step", "restore")),
        )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise damaged(path, repr(error)) from None


def finish(repo: Repository) -> None:
    """Forget the restore under way: it is done."""
    (repo.state_dir / RESTORE).unlink(missing_ok=True)
    sync_directory(repo.state_dir)


def runs(repo: Repository) -> list[Path]:
    """The files of transactions that were begun here, whoever holds them
    (gitcp.running.transaction).
    """
    try:
        return sorted(
            path for path in (repo.git_dir / "gitcp" / RUNS).iterdir() if path.suffix == ".json"
        )
    except FileNotFoundError:
        return []


def restores(repo: Repository) -> Restores:
    """What can be undone and redone here. Raises StoreDamaged if that cannot be told."""
    path = repo.git_dir / "gitcp" / RESTORES
    try:
        return _decode_restores(read_fields(path) or {})
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise damaged(path, repr(error)) from None


def set_restores(repo: Repository, value: Restores) -> None:
    """Write down what can be undone and redone. What is listed of older restores is removed."""
    fields = _encode_restores(value)
    write_fields(repo.state_dir / RESTORES, {"schema": "gitcp.restores/1", **fields})
    extents = fields["extents"].values()  # type: ignore[attr-defined]
    named = {extent[field] for extent in extents for field in ("written", "rules")}
    with suppress(OSError):
        for path in (repo.state_dir / WRITTEN).iterdir():
            if path.name not in named:
                path.unlink()


def stepped(known: Restores, step: Step, here: CheckpointId, extent: Extent) -> Restores:
    """What can be undone and redone after a restore, from what could be before; `here` is its
    safety checkpoint.
    """
    extents = {**known.extents, here: extent}
    if step is Step.UNDO:
        return Restores(known.undo[:-1], (*known.redo, here), extents)
    return Restores((*known.undo, here), known.redo[:-1] if step is Step.REDO else (), extents)


def _encode_restores(value: Restores) -> dict[str, object]:
    undo, redo = value.undo[-MOST:], value.redo[-MOST:]
    extents = {
        str(id): _encode_extent(extent)
        for id, extent in value.extents.items()
        if id in (*undo, *redo)
    }
    return {"undo": [str(id) for id in undo], "redo": [str(id) for id in redo], "extents": extents}


def _decode_restores(fields: Mapping[str, Any]) -> Restores:
    undo, redo = (tuple(map(_id, fields.get(name, ()))) for name in ("undo", "redo"))
    extents = {
        _id(text): _decode_extent(extent) for text, extent in fields.get("extents", {}).items()
    }
    return Restores(undo, redo, extents)


def _encode_extent(extent: Extent) -> dict[str, object]:
    return {
        "files": extent.files,
        "conversation": extent.conversation,
        "index": extent.index,
        "limits": [wire.encode_path(path) for path in extent.paths],
        "made": [wire.encode_path(path) for path in extent.made],
        "written": extent.written,
        "bits": [[wire.encode_path(path), bits] for path, bits in extent.bits],
        "rules": extent.rules,
    }


def _decode_extent(fields: Mapping[str, Any]) -> Extent:
    paths, made = (
        tuple(map(wire.decode_path, fields.get(name, ()))) for name in ("limits", "made")
    )
    written, rules = (str(fields.get(name, "")) for name in ("written", "rules"))
    flags = bool(fields["files"]), bool(fields["conversation"]), bool(fields["index"])
    bits = tuple((wire.decode_path(path), int(mode)) for path, mode in fields.get("bits", ()))
    return Extent(*flags, paths, made, _name(written), bits, _name(rules))


def _name(text: str) -> str:
    """The name of a list beside the journal, "" for anything that none can have."""
    return text if text.isalnum() else ""


def _id(text: str) -> CheckpointId:
    found = wire.parse_id(text)
    if found is None:
        raise ValueError("no id")
    return found


def read_fields(path: Path) -> dict[str, Any] | None:
    """The JSON object in a file, None if there is none. Raises StoreDamaged."""
    try:
        fields = wire.loads(read_own(path))
    except FileNotFoundError:
        return None
    except OSError as error:
        raise damaged(path, f"it cannot be read ({error.strerror})") from None
    except ValueError:
        raise damaged(path, "it is no JSON") from None
    if not isinstance(fields, dict):
        raise damaged(path, "it is no object")
    return fields


def damaged(path: Path, how: str) -> StoreDamaged:
    """What to raise for a file of ours that does not hold what it should."""
    return StoreDamaged(f"{path} is damaged: {how}", hint=f"remove {path} after a look at it")


def write_fields(path: Path, fields: dict[str, object]) -> None:
    """Replace a file by a JSON object, whole and fsynced. Raises DiskFull, GitcpError; the old one
    is there then.
    """
    try:
        replace_file(path, wire.dumps(fields, small=True))
    except OSError as error:
        if error.errno in FULL:
            raise DiskFull(
                f"the disk is full: {path.name} was not written", hint="free some space"
            ) from None
        raise GitcpError(f"{path} cannot be written: {error.strerror}") from None


def sweep(repo: Repository, begun: Unfinished) -> None:
    """Remove the temporary files that an interrupted restore left beside the paths it was
    writing.
    """
    # only after a crash, and every command looks for a journal
    from gitcp.worktree.writer import Writer

    with Writer(repo.root) as tree:
        for directory in sorted(begun.directories):
            tree.sweep(directory)
