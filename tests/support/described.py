"""Checkpoints and files as plain JSON values, for what is kept to be compared with for ever."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from hashlib import sha256
from typing import Any

from gitcp.model import CheckpointId
from gitcp.value import Value
from gitcp.worktree.paths import display

from driver import File

EMPTY: tuple[object, ...] = (None, False, "", [], {})


def plain(value: Any) -> Any:
    """A value of the model as JSON has it: times in UTC, paths as they are displayed, ids as text.

    What is empty is left out, so that a field which a later version knows does not change what an
    old checkpoint says.
    """
    if isinstance(value, CheckpointId):
        return str(value)
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat()
    if isinstance(value, bytes):
        return display(value)
    if isinstance(value, Value):
        value = {name: getattr(value, name) for name in value.fields}
    if isinstance(value, Mapping):
        found = {plain(name): plain(item) for name, item in value.items()}
        return {name: item for name, item in found.items() if item not in EMPTY}
    return [plain(item) for item in value] if isinstance(value, tuple) else value


def described(files: Mapping[bytes, File]) -> dict[str, Any]:
    """A working tree: of each path its kind, its mode, and what is in it."""
    return {display(path): _described(file) for path, file in files.items()}


def digest(data: bytes) -> dict[str, Any]:
    """Bytes, by their number and their checksum."""
    return {"bytes": len(data), "sha256": sha256(data).hexdigest()}


def _described(file: File) -> dict[str, Any]:
    if file.kind == "symlink":
        return {"kind": file.kind, "target": display(file.data)}
    return {"kind": file.kind, "mode": f"{file.mode:04o}"} | (
        digest(file.data) if file.kind == "file" else {}
    )
