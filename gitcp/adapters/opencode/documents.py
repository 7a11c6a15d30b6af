"""Write documents for `opencode import`: a session and its messages in one JSON document.

Under another session id every message and part needs a new id too, since
opencode skips ids it already has.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from hashlib import sha256
from typing import Any

from gitcp import wire

ID = re.compile(r"(ses|msg|prt)_[A-Za-z0-9]{1,60}")
KEPT = 16
"""Leading characters of an id that encode kind and time, by which opencode sorts; the others are
random.
"""

LETTERS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"

Renamed = Callable[[bytes], bytes]
"""Returns a line with its ids replaced."""


def other_id(id: str, seed: str) -> str:
    """Return another id of the same kind and time, derived from `seed`."""
    number = int.from_bytes(sha256(f"{seed}\0{id}".encode()).digest())
    letters = ""
    while len(letters) < 14:
        number, digit = divmod(number, len(LETTERS))
        letters += LETTERS[digit]
    return id[:KEPT] + letters


def renaming(lines: Iterable[bytes], ids: dict[str, str]) -> Renamed:
    """Return a function that replaces the ids of sessions, and of messages and parts on
    these lines, and nothing else.

    `ids` maps old to new session ids; the other new ids are derived from them.
    """
    seed = "\0".join(ids.values())
    new_ids = dict(ids)
    for line in lines:
        for holder in _holders(wire.parse_line(line) or {}):
            id = holder.get("id")
            if isinstance(id, str) and id not in new_ids and ID.fullmatch(id):
                new_ids[id] = other_id(id, seed)
    return lambda line: wire.dumps(_replaced(wire.loads(line), new_ids)).rstrip()


def _holders(fields: dict[str, Any]) -> Iterator[dict[str, Any]]:
    parts = fields.get("parts")
    for holder in (fields.get("info"), *(parts if isinstance(parts, list) else ())):
        if isinstance(holder, dict):
            yield holder


def _replaced(value: Any, new_ids: dict[str, str]) -> Any:
    if isinstance(value, dict):
        return {name: _replaced(inner, new_ids) for name, inner in value.items()}
    if isinstance(value, list):
        return [_replaced(inner, new_ids) for inner in value]
    return new_ids.get(value, value) if isinstance(value, str) else value


def document(info: dict[str, Any], messages: Iterable[bytes]) -> Iterator[bytes]:
    """Yield the document in chunks. `messages` are JSON lines."""
    yield b'{"info":' + wire.dumps(info).rstrip() + b',"messages":['
    separator = b"\n"
    for message in messages:
        yield separator + message.rstrip()
        separator = b",\n"
    yield b"\n]}\n"


def info_of(row: dict[str, Any]) -> dict[str, Any]:
    """Return a session's row in the format of `opencode export`, without empty fields."""
    tokens = {name: row.get(f"tokens_{name}") or 0 for name in ("input", "output", "reasoning")}
    cache = {name: row.get(f"tokens_cache_{name}") or 0 for name in ("read", "write")}
    summary = {name: row.get(f"summary_{name}") for name in ("additions", "deletions", "files")}
    has_summary = any(value is not None for value in summary.values())
    counted = {name: value or 0 for name, value in summary.items()}
    times = ("created", "updated", "compacting", "archived")
    fields = {
        "id": row["id"],
        "slug": row.get("slug"),
        "projectID": row.get("project_id"),
        "workspaceID": row.get("workspace_id"),
        "directory": row.get("directory"),
        "path": row.get("path"),
        "parentID": row.get("parent_id"),
        "title": row.get("title"),
        "agent": row.get("agent"),
        "model": _json(row.get("model")),
        "version": row.get("version"),
        "summary": _present({**counted, "diffs": _json(row.get("summary_diffs"))})
        if has_summary
        else None,
        "cost": row.get("cost") or 0,
        "tokens": {**tokens, "cache": cache},
        "metadata": _json(row.get("metadata")),
        "revert": _json(row.get("revert")),
        "permission": _json(row.get("permission")),
        "time": _present({name: row.get(f"time_{name}") for name in times}),
    }
    return _present(fields)


def _json(text: Any) -> Any:
    return wire.loads(text.encode()) if isinstance(text, str) else None


def _present(fields: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value is not None}
