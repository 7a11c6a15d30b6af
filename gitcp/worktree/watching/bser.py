"""Watchman's binary form of values (BSER, version 1), in which names of files are any bytes."""

from __future__ import annotations

import struct
from typing import Any

MAGIC = b"\0\1"
ARRAY, OBJECT, TEXT, INT8, INT16, INT32, INT64, REAL, TRUE, FALSE, NULL, TABLE, SKIP = range(13)
_NUMBERS = {
    INT8: struct.Struct("=b"),
    INT16: struct.Struct("=h"),
    INT32: struct.Struct("=i"),
    INT64: struct.Struct("=q"),
    REAL: struct.Struct("=d"),
}
_CONSTANTS = {TRUE: True, FALSE: False, NULL: None}


def dumps(value: Any) -> bytes:
    """Return a message with a value: lists, dicts, bytes, integers, booleans and None."""
    body = _encoded(value)
    return MAGIC + _encoded(len(body)) + body


def _encoded(value: Any) -> bytes:
    if value is None or isinstance(value, bool):
        return bytes((NULL if value is None else TRUE if value else FALSE,))
    if isinstance(value, int):
        return bytes((INT64,)) + _NUMBERS[INT64].pack(value)
    if isinstance(value, bytes):
        return bytes((TEXT,)) + _encoded(len(value)) + value
    if isinstance(value, list):
        return b"".join((bytes((ARRAY,)), _encoded(len(value)), *map(_encoded, value)))
    pairs = [_encoded(key) + _encoded(each) for key, each in value.items()]
    return b"".join((bytes((OBJECT,)), _encoded(len(pairs)), *pairs))


def length(data: bytes) -> int | None:
    """Return how many bytes a message has that begins like this, None if more must be known. Raises
    ValueError if it is none.
    """
    if not MAGIC.startswith(data[:2]):
        raise ValueError("no message of Watchman's")
    try:
        size, at = _number(data, 2)
    except (IndexError, struct.error):
        return None
    return at + size


def loads(data: bytes) -> Any:
    """Return the value in a message; texts are bytes. Raises ValueError if it is damaged."""
    try:
        _, at = _number(data, 2)
        return _decoded(data, at)[0]
    except (IndexError, KeyError, struct.error, TypeError, RecursionError):
        raise ValueError("a damaged message of Watchman's") from None


def _number(data: bytes, at: int) -> tuple[int, int]:
    form = _NUMBERS[data[at]]
    return form.unpack_from(data, at + 1)[0], at + 1 + form.size


def _decoded(data: bytes, at: int) -> tuple[Any, int]:
    """Return the value at an index, and the index after it."""
    kind = data[at]
    if kind in _NUMBERS:
        return _number(data, at)
    if kind in _CONSTANTS:
        return _CONSTANTS[kind], at + 1
    if kind == TABLE:
        return _table(data, at + 1)
    count, at = _number(data, at + 1)
    if kind == TEXT:
        return data[at : at + count], at + count
    values: list[Any] = []
    for _ in range(count * (2 if kind == OBJECT else 1)):
        value, at = _decoded(data, at)
        values.append(value)
    return (dict(zip(values[::2], values[1::2], strict=True)) if kind == OBJECT else values), at


def _table(data: bytes, at: int) -> tuple[list[dict[bytes, Any]], int]:
    """Return objects that have the same keys, which are given once."""
    keys, at = _decoded(data, at)
    count, at = _number(data, at)
    rows = []
    for _ in range(count):
        row = {}
        for key in keys:
            if data[at] == SKIP:
                at += 1
                continue
            row[key], at = _decoded(data, at)
        rows.append(row)
    return rows, at
