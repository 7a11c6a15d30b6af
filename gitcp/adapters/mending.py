"""Mend a damaged transcript so that its agent resumes it: what is broken, and the lines without it.

Only a copy is mended, when it is placed; a checkpoint keeps the bytes as they were. What is mended
here is common to all agents with line formats: marks, NUL bytes, bytes that are not UTF-8, torn
lines, and two records on one line. An agent's own rules follow (`mend` in its `converting`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

from gitcp import wire
from gitcp.adapters.conversion import line

BOM = b"\xef\xbb\xbf"

MARK = "a byte order mark"
NULS = "lines with NUL bytes"
NOT_UTF8 = "lines that are not UTF-8"
GLUED = "lines with two records"
TORN = "torn lines (left out)"
FIRST = "no first record (rebuilt)"

Record = tuple[bytes, dict[str, Any]]
"""A line with its line feed, and its object."""

Faults = Counter[str]


def mended_lines(data: bytes) -> tuple[list[Record], Faults]:
    """Return the records of a transcript, and what was wrong with its lines."""
    faults: Faults = Counter()
    if data.startswith(BOM):
        data, faults[MARK] = data[len(BOM) :], 1
    records = [record for raw in data.split(b"\n") for record in _records(raw, faults)]
    return records, +faults


def _records(raw: bytes, faults: Faults) -> Iterator[Record]:
    text = raw.replace(b"\0", b"")
    faults[NULS] += len(text) != len(raw)
    if not text.strip():
        return
    try:
        text.decode("utf-8")
    except UnicodeDecodeError:
        faults[NOT_UTF8] += 1
        text = text.decode("utf-8", "replace").encode("utf-8")
    fields = wire.parse_line(text)
    if fields is not None:
        yield text + b"\n", fields
        return
    halves = _halves(text)
    faults[GLUED if halves else TORN] += 1
    yield from halves


def _halves(text: bytes) -> list[Record]:
    """Return the two records on one line; nothing if it is not made of two."""
    at = text.find(b"}{")
    while at >= 0:
        parts = text[: at + 1], text[at + 1 :]
        parsed = [wire.parse_line(part) for part in parts]
        if all(fields is not None for fields in parsed):
            return [
                (part + b"\n", fields or {}) for part, fields in zip(parts, parsed, strict=True)
            ]
        at = text.find(b"}{", at + 1)
    return []


def record(fields: dict[str, Any]) -> Record:
    """Return an object as a record."""
    return line(fields), fields


def joined(records: Iterable[Record]) -> bytes:
    """Return the lines of these records."""
    return b"".join(text for text, _ in records)
