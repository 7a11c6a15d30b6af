"""Mend a damaged transcript so that its agent resumes it: what is broken, and the lines without it.

Only a copy is mended, when it is placed; a checkpoint keeps the bytes as they were. What is mended
here is common to all agents with line formats: marks, NUL bytes, bytes that are not UTF-8, torn
lines, records split by line feeds, and two records on one line. An agent's own rules follow (`mend`
in its `converting`).
"""

from __future__ import annotations

import codecs
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import chain
from typing import Any

from gitcp import wire
from gitcp.adapters import base, long_lines
from gitcp.adapters.base import Reader, Stored
from gitcp.adapters.conversion import line
from gitcp.model import MAIN, Stream
from gitcp.value import replace

BOM = b"\xef\xbb\xbf"

MOST_OBJECTS = 1000
"""Objects at the end of a torn line that are tried as a record: a long line has many."""

MARK = "a byte order mark"
NULS = "lines with NUL bytes"
NOT_UTF8 = "lines that are not UTF-8"
SPLIT = "records split by line feeds (joined)"
GLUED = "lines with two records"
TORN = "torn lines (left out)"
FIRST = "no first record (rebuilt)"

ORPHANS = "results without a call (kept as text)"

LOST = "[result of a call that is missing]"
"""Begins the text of such a result."""

CONTROL = bytes(each for each in range(32) if each != ord("\n"))
"""What no string in JSON has, line feeds apart, which end the line. Between values some may be."""

ESCAPES = rb'[^\\]*+(?:\\(?:["\\/bfnrt]|u[0-9A-Fa-f]{4})[^\\]*+)*+'
"""Text with nothing wrong after a backslash."""

LONGEST_ESCAPE = 6
"""Bytes of `\\u12ab`: a shorter rest of a chunk may be the beginning of an escape."""

Record = tuple[bytes, dict[str, Any]]
"""A line with its line feed, and its object."""

Faults = Counter[str]

Edit = Callable[[Iterator[Record]], Iterator[Record]]
"""One repair, made while the records are written."""


class Transcript:
    """The records of a stream, without what was wrong with its lines. They are read again for each
    iteration, so that memory does not grow with them; `faults` is of the last complete one.

    With `shortened`, long texts end early. `has_shortened` and `has_wrong_bytes` tell afterwards
    whether there were any, and whether the bytes of any line may be wrong.
    """

    def __init__(self, read: Reader, *, shortened: bool = False) -> None:
        self._read = read
        self._shortened = shortened
        self.faults: Faults = Counter()
        self.has_shortened = self.has_wrong_bytes = False

    def _lines(self) -> Iterator[bytes]:
        if not self._shortened:
            return base.lines(self._read())
        return long_lines.lines(self._looked_at())

    def _looked_at(self) -> Iterator[bytes]:
        """Yield the chunks. What is wrong in a part that is cut off is seen only here."""
        decoder = codecs.getincrementaldecoder("utf-8")()
        escapes = re.compile(ESCAPES)
        size, begun = 0, b""
        for chunk in self._read():
            try:
                decoder.decode(chunk)
            except UnicodeDecodeError:
                decoder.reset()
                self.has_wrong_bytes = True
            text = begun + chunk
            match = escapes.match(text)
            begun = text[match.end() :] if match else text
            if len(begun) >= LONGEST_ESCAPE or len(chunk.translate(None, CONTROL)) < len(chunk):
                self.has_wrong_bytes, begun = True, b""
            first, *others = chunk.split(b"\n")
            longest = max(size + len(first), *map(len, others)) if others else size + len(first)
            self.has_shortened |= longest > long_lines.LONG
            size = len(others[-1]) if others else longest
            yield chunk

    def __iter__(self) -> Iterator[Record]:
        faults: Faults = Counter()
        lines = self._lines()
        first = next(lines, b"")
        faults[MARK] = first.startswith(BOM)
        for raw, count in base.records(chain([first.removeprefix(BOM)], lines)):
            faults[SPLIT] += count > 1
            yield from _records(raw, faults)
        self.faults = +faults

    def edited(self, edits: Sequence[Edit]) -> Iterator[bytes]:
        """Yield the lines of the repaired copy."""
        records = iter(self)
        for edit in edits:
            records = edit(records)
        return (text for text, _ in records)


Plan = tuple[list[Edit], Faults]
"""The repairs of a transcript, and what is wrong with it."""

Mend = Callable[[Transcript, Stored, Stream], Plan]
"""Plans the repairs of a transcript: the main one, or a sub-agent's. Reads it to its end, once if
nothing is wrong; one that it does not read is left as it is.
"""

MOST_PLANS = 4
"""Conversations whose repairs are remembered: a restore plans what it takes away and puts back,
each twice.
"""

_remembered: dict[Any, dict[str, Plan]] = {}


def repaired(mend: Mend, stored: Stored, names: Sequence[str]) -> tuple[Stored, Faults]:
    """Return a conversation with the streams of these names repaired, and what was wrong with them.
    A fault of a sub-agent's stream is followed by the name of the stream.
    """
    plans = _planned(mend, stored, names)
    faults: Faults = Counter()
    streams = []
    for stream, read in stored.streams:
        edits, counts = plans.get(stream.name, ([], Counter()))
        where = "" if stream.name == MAIN else f" in {stream.name}"
        faults.update({f"{what}{where}": count for what, count in counts.items()})
        streams.append((stream, partial(Transcript(read).edited, edits) if counts else read))
    return (replace(stored, streams=tuple(streams)) if faults else stored), faults


def _planned(mend: Mend, stored: Stored, names: Sequence[str]) -> dict[str, Plan]:
    """Return the repairs by stream. Those of conversations with checksums are remembered."""
    chosen = [(stream, read) for stream, read in stored.streams if stream.name in names]
    key = mend, stored.agent.session_id, tuple(stream for stream, _ in chosen)
    if key in _remembered:
        return _remembered[key]
    plans = {}
    for stream, read in chosen:
        plans[stream.name] = _plan(mend, stored, stream, read)
    if all(stream.sha256 for stream, _ in chosen):
        if len(_remembered) == MOST_PLANS:
            del _remembered[next(iter(_remembered))]
        _remembered[key] = plans
    return plans


def _plan(mend: Mend, stored: Stored, stream: Stream, read: Reader) -> Plan:
    """Return the repairs of a stream. Long lines are read whole only if something is wrong: as
    whole lines, a result of 293 MB took 1.5 GB at each restore.
    """
    transcript = Transcript(read, shortened=True)
    edits, faults = mend(transcript, stored, stream)
    faults += transcript.faults
    if transcript.has_shortened and (faults or transcript.has_wrong_bytes):
        transcript = Transcript(read)
        edits, faults = mend(transcript, stored, stream)
        faults += transcript.faults
    return edits, faults


def first_rebuilt(first: dict[str, Any]) -> tuple[list[Edit], Faults]:
    """Return the repair of a transcript that lost its first record."""
    return [lambda records: chain([record(first)], records)], Counter({FIRST: 1})


def _records(raw: bytes, faults: Faults) -> Iterator[Record]:
    text = raw
    if b"\0" in raw:
        text = raw.replace(b"\0", b"")
        faults[NULS] += 1
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
    yield from halves or _behind_torn(text)


def _halves(text: bytes) -> list[Record]:
    """Return the two records on one line; nothing if it is not made of two."""
    if b"}{" not in text:
        return []
    decoded = text.decode("utf-8")
    end = wire.end_of_value(decoded)
    if end is None:
        return []
    parts = [part.encode("utf-8") for part in (decoded[:end], decoded[end:])]
    parsed = [wire.parse_line(part) for part in parts]
    if None in parsed or not parts[1].startswith(b"{"):
        return []
    return [(part + b"\n", fields or {}) for part, fields in zip(parts, parsed, strict=True)]


def _behind_torn(text: bytes) -> Iterator[Record]:
    """Yield the record that another process wrote behind a torn one. It has a time, which parts of
    a record have not.
    """
    at = len(text)
    for _ in range(MOST_OBJECTS):
        at = text.rfind(b'{"', 0, at)
        if at < 1:
            return
        fields = wire.parse_line(text[at:])
        if fields is not None and "timestamp" in fields:
            yield text[at:] + b"\n", fields
            return


def record(fields: dict[str, Any]) -> Record:
    """Return an object as a record."""
    return line(fields), fields
