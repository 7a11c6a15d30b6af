"""What a restore changed, and which restores can be undone: values, and their JSON."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gitcp import wire
from gitcp.model import CheckpointId
from gitcp.value import EMPTY, Value


class Extent(Value):
    """What a restore changed, so that undoing it changes no more.

    `paths` limit it (empty: no limit); a directory followed by gitcp.restoring.plan.ALONE excludes
    everything below. `made` are the files it created where nothing was: the state before is known
    to lack them. `bits` are permissions of changed files that the state before does not record
    (gitcp.restoring.permissions). `written` names the list of everything it wrote, `rules` the
    ignore rules in force before it that the state before does not record (both in
    gitcp.restoring.written); "" for none. In the operation log `made` and `bits` are empty if that
    list contains them.
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
    """The checkpoints that `undo` and `redo` restore, the next one last, and the extent of the
    restore after each.
    """

    undo: tuple[CheckpointId, ...] = ()
    redo: tuple[CheckpointId, ...] = ()
    extents: Mapping[CheckpointId, Extent] = EMPTY


def encode_extent(extent: Extent) -> dict[str, object]:
    """Return an extent as JSON."""
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


def decode_extent(fields: Mapping[str, Any]) -> Extent:
    """Return an extent from JSON. Raises KeyError, TypeError, ValueError or AttributeError for
    invalid data.
    """
    paths, made = (
        tuple(map(wire.decode_path, fields.get(name, ()))) for name in ("limits", "made")
    )
    written, rules = (str(fields.get(name, "")) for name in ("written", "rules"))
    flags = bool(fields["files"]), bool(fields["conversation"]), bool(fields["index"])
    bits = tuple((wire.decode_path(path), int(mode)) for path, mode in fields.get("bits", ()))
    return Extent(*flags, paths, made, _name(written), bits, _name(rules))


def _name(text: str) -> str:
    """Return the name of a list beside the journal, "" for an invalid name."""
    return text if text.isalnum() else ""


def parsed_id(text: str) -> CheckpointId:
    """Return the checkpoint id in a text. Raises ValueError."""
    id = wire.parse_id(text)
    if id is None:
        raise ValueError("not a checkpoint id")
    return id
