"""Recorded results of steps, which a program need not repeat after a crash. They are part of the
checkpoint.

A result is stored in `.gitcp/steps/<h>/<h>/<h>/<rest>.json`, named by the checksum of the step's
name and key, one hex digit a directory, so that another result rewrites a few small trees. It is in
the same commit as the files that the step wrote, and so is restored with them.
"""

from __future__ import annotations

from hashlib import sha256
from math import isfinite
from typing import Any

from gitcp import wire
from gitcp.errors import BadValue, StoreDamaged
from gitcp.git import trees
from gitcp.model import FILE, Entry, Oid
from gitcp.store import Store
from gitcp.value import Value


class Result(Value):
    """The result of a step, as JSON."""

    name: str
    key: str
    result: bytes


def place(name: str, key: str) -> str:
    """Return the SHA-256 in hex that identifies a step. The length of the name separates steps that
    are equal when joined.
    """
    return sha256(f"{len(name)}\0{name}\0{key}".encode("utf-8", "surrogatepass")).hexdigest()


def encode(name: str, key: str, result: Any) -> Result:
    """Return a result in its stored form; tuples become lists. Raises BadValue for a value that is
    not JSON.
    """
    if not _is_json(result):
        raise BadValue(
            f"the result of step {name!r} is not a JSON value: the step was done, but its "
            "result is not recorded",
            hint="return None, numbers, text, lists, or dicts with text keys",
        )
    return Result(name, key, wire.dumps(result))


def decode(result: Result) -> Any:
    """Return the value as a later lookup will return it."""
    return wire.loads(result.result)


def lookup(store: Store, steps: Oid | None, name: str, key: str) -> Any:
    """Return the recorded result of a step in a list, None if the step was not done. Raises
    StoreDamaged.
    """
    entry = trees.lookup(store.objects, steps, _path(name, key)) if steps else None
    if entry is None:
        return None
    try:
        return [wire.loads(store.objects.read_blob(entry.oid))["result"]]
    except (ValueError, KeyError, TypeError):
        raise StoreDamaged(
            f"the result of step {name!r} cannot be read", hint="gitcp check"
        ) from None


def add(store: Store, steps: Oid | None, result: Result) -> Oid:
    """Return the tree of results with one more. Writes objects only."""
    named = wire.dumps({"name": result.name, "key": result.key})[:-1]
    blob = store.objects.write_blob(named + b',"result":' + result.result + b"}\n")
    return trees.put(store.objects, steps, _path(result.name, result.key), Entry(FILE, blob))


def _is_json(value: Any) -> bool:
    if isinstance(value, dict):
        return all(type(key) is str for key in value) and all(map(_is_json, value.values()))
    if isinstance(value, list | tuple):
        return all(map(_is_json, value))
    return (
        value is None
        or type(value) in (bool, int, str)
        or (type(value) is float and isfinite(value))
    )


def _path(name: str, key: str) -> bytes:
    digest = place(name, key)
    return "/".join((*digest[:3], f"{digest[3:]}.json")).encode("ascii")
