"""The schema of `checkpoint.json`: types, and the syntax of values that become paths or refs.

Checked on writing, so that everything stored can be read back, and on reading, since a
checkpoint can come from anywhere. Unknown fields are accepted. Required fields and the meaning
of values are up to the decoder.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import repeat
from typing import Any

NATURAL = range(1 << 63)
PATH = (str, {"base64": str})
TEXTS = [str]
PAIRS = {str: str}
SESSION = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]{0,99}")
ID = re.compile(rf"{SESSION.pattern}@[1-9][0-9]{{0,17}}")
OID = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
MODE = re.compile(r"[0-7]{1,6}")
NAMES = [re.compile(rf"(?:{SESSION.pattern})?")]
SPAN = re.compile(rf"{ID.pattern}\.\.{ID.pattern}")

INDEX = [
    {
        "path": PATH,
        "mode": MODE,
        "oid": OID,
        "stage": NATURAL,
        "intent_to_add": bool,
        "skip_worktree": bool,
        "assume_unchanged": bool,
    }
]
FILES = {
    "total": NATURAL,
    "skipped": [{"path": PATH, "reason": str, "detail": str}],
    "raw": [PATH],
    "converted": [
        {"path": PATH, "eol": str, "ident": bool, "encoding": str, "lfs": bool, "segments": bool}
    ],
    "empty_directories": [PATH],
    "modes": [{"path": PATH, "mode": MODE}],
    "submodules": [{"path": PATH, "commit": OID}],
    "nested": [{"path": PATH, "head": OID}],
    "absent": [PATH],
    "staged": INDEX,
    "untracked": [PATH],
    "conflicts": INDEX,
    "outputs": [PATH],
}
CHECKPOINT = {
    "format": range(1, 1 << 63),
    "session": SESSION,
    "number": range(1, 10**18),
    "created": str,
    "trigger": str,
    "agent": {"name": str, "session_id": str, "version": str, "model": str},
    "base": {"commit": OID, "branch": str, "operation": str, "unknown": str},
    "files": FILES,
    "changed": NATURAL,
    "conversation": {
        "format": str,
        "messages": NATURAL,
        "last_message": {"role": str, "text": str, "id": str},
        "last_prompt": str,
        "title": str,
        "directory": PATH,
        "worktree": str,
        "streams": [{"name": str, "bytes": NATURAL, "sha256": str, "place": str, "torn": NATURAL}],
    },
    "label": str,
    "phase": str,
    "objective": str,
    "facts": PAIRS,
    "handoff": {"task": str, "decisions": TEXTS, "failed": TEXTS, "next": TEXTS, "active": TEXTS},
    "position": PAIRS,
    "position_json": TEXTS,
    "position_from": ID,
    "compensations": TEXTS,
    "run": {
        "command": TEXTS,
        "exit_code": range(-1 << 31, 1 << 32),
        "milliseconds": NATURAL,
        "output": str,
    },
    "step": {"name": str, "key": str},
    "compensated": PAIRS,
    "state": {"key": str},
    "restored_from": ID,
    "forked_from": ID,
    "reverted": SPAN,
    "authors": {
        "own": NATURAL,
        "others": [{"sessions": NAMES, "possible": NAMES, "paths": [PATH]}],
        "previous": ID,
    },
}


def misfit(value: Any, shape: Any = CHECKPOINT) -> str | None:
    """Return the place in `value` that violates the schema
    ("metadata.files.raw[2]"), None if there is none.

    A shape is a type, a range of integers, a pattern, a tuple of alternatives, a list with the
    shape of every item, a dict with the shapes of named fields, or `PAIRS`.
    """
    path = _misfit(value, shape)
    return None if path is None else f"metadata{path}"


def _misfit(value: Any, shape: Any) -> str | None:
    """Return the place in `value` as what follows its name, None if there is none."""
    if type(shape) is list and isinstance(value, list):
        shapes: Iterable[Any] = repeat(shape[0])
        inner: Iterable[tuple[Any, Any]] = enumerate(value)
    elif type(shape) is dict and isinstance(value, dict):
        shapes = repeat(shape[str]) if str in shape else map(shape.get, value)
        inner = value.items()
    else:
        return None if _fits(value, shape) else ""
    for (name, item), item_shape in zip(inner, shapes, strict=False):
        # An unknown field, or a plain type, the most common cases: no call needed.
        kind = type(item)
        if item_shape is None or kind is item_shape:
            continue
        if type(item_shape) is tuple and kind in item_shape:
            continue
        path = _misfit(item, item_shape)
        if path is not None:
            return f"[{name}]{path}" if type(shape) is list else f".{name}{path}"
    return None


def _fits(value: Any, shape: Any) -> bool:
    if isinstance(shape, range):
        return type(value) is int and value in shape
    if isinstance(shape, re.Pattern):
        return isinstance(value, str) and shape.fullmatch(value) is not None
    if isinstance(shape, tuple):
        return any(_misfit(value, alternative) is None for alternative in shape)
    return type(value) is shape
