"""Read the tokens that stored conversations record, each segment once.

What segments contain is kept in `<git dir>/gitcp/tokens`, a file for each stream, by the name of
its first segment. The last segment, which may still grow, is not: so a conversation that grew costs
the reading of what is new. Each file is one of gitcp.trusted_cache: nobody else's numbers are
believed, and what is lost is read again.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple, TypeVar

from gitcp import adapters, trusted_cache, wire
from gitcp.adapters import base
from gitcp.adapters.base import State, Usage
from gitcp.conversation.segments import Segment
from gitcp.git.fsync import make_own_directory, replace_cache
from gitcp.model import Conversation, Oid
from gitcp.saving.conversation import lines, stored
from gitcp.store import Store

DIRECTORY = "tokens"
VERSION = 1
"""One higher when an agent's records are counted differently."""

MOST_FILES = 2000
"""Streams that are kept: of more, the one that was written first is removed."""


MOST_TIMES = 4
"""How many times as many segments as its conversation has a file keeps, of others with the same
beginning."""

MOST_REMEMBERED = 64
"""Conversations, streams and segments that one reader remembers: more would fill the memory."""

K = TypeVar("K")
V = TypeVar("V")


class _Part(NamedTuple):
    """What was read of one segment and the `more` that its last line goes on in, after the state
    `before`.
    """

    before: State
    more: tuple[Oid, ...]
    usages: tuple[Usage, ...]
    after: State


class ToCount(Exception):
    """More would have to be read than a listing may."""


class UsageReader:
    """Reads the tokens of conversations of one store. What was read last is remembered.

    With `most`, no more than this many bytes are read that are not kept: where they do not suffice,
    ToCount is raised, and the next reader goes on from there.
    """

    def __init__(self, store: Store, most: int | None = None) -> None:
        self._store = store
        self._left = most
        self._conversations: dict[tuple[str, Oid], dict[str, Usage]] = {}
        self._streams: dict[tuple[Segment, ...], list[Usage]] = {}
        self._files: dict[Path, dict[Oid, _Part]] = {}

    def of_conversation(self, conversation: Conversation) -> Mapping[str, Usage]:
        """Return the tokens of a stored conversation by request, sub-agents' included."""
        name = conversation.format, conversation.tree
        if name not in self._conversations:
            usages = {
                usage.key: usage
                for stream in conversation.streams
                for usage in self.of_stream(conversation, stream.name)
            }
            _remember(self._conversations, name, usages)
        return self._conversations[name]

    def of_stream(self, conversation: Conversation, name: str) -> Sequence[Usage]:
        """Return the tokens that a stream of a stored conversation records, in its order; a request
        may be there several times.
        """
        if not adapters.records_tokens(conversation.format):  # nor is its name one for a file
            return ()
        segments = stored(self._store, conversation, name)
        if segments not in self._streams:
            _remember(self._streams, segments, self._read(conversation.format, segments))
        return self._streams[segments]

    def _read(self, format: str, segments: tuple[Segment, ...]) -> list[Usage]:
        path = None
        known: dict[Oid, _Part] = {}
        if len(segments) > 1:
            path = self._store.repo.store_dir / DIRECTORY / f"{format}.{segments[0].oid}"
            if path not in self._files:
                _remember(self._files, path, _load(path))
            known = self._files[path]
        if path is None or not (known or self._is_made_of_lines(segments)):
            self._spend(sum(segment.size for segment in segments))
            return list(adapters.usage(format, lines(self._store, segments)))
        size = len(known)
        try:
            return self._joined(format, segments, known)
        finally:
            if len(known) > size:
                if len(known) > MOST_TIMES * len(segments):  # a conversation that is rewritten
                    for other in known.keys() - {segment.oid for segment in segments}:
                        del known[other]
                _keep(path, known)

    def _joined(
        self, format: str, segments: tuple[Segment, ...], known: dict[Oid, _Part]
    ) -> list[Usage]:
        """Return what the segments contain, and add to `known` what is not there yet."""
        state: State = {}
        usages: list[Usage] = []
        at = 0
        while at < len(segments):
            part = known.get(segments[at].oid)
            if part is None or part.before != state or not _continues(part.more, segments, at):
                part = self._part(format, segments[at:], state)
                if at + len(part.more) < len(segments) - 1:  # the last one still grows
                    known[segments[at].oid] = part
            usages += part.usages
            state = part.after
            at += 1 + len(part.more)
        return usages

    def _is_made_of_lines(self, segments: Sequence[Segment]) -> bool:
        """Return whether a stream begins with a whole record: else it is one document."""
        first = next(lines(self._store, segments), b"")
        return wire.parse_line(first) is not None

    def _part(self, format: str, segments: Sequence[Segment], before: State) -> _Part:
        """Read the first segment, and those in which its last line goes on."""
        blobs: list[bytes] = []
        for segment in segments:
            self._spend(segment.size)
            blobs.append(self._store.reader.read_blob(segment.oid))
            if blobs[-1].endswith(b"\n"):
                break
        after = dict(before)
        usages = tuple(adapters.usage(format, base.lines(blobs), after))
        more = tuple(segment.oid for segment in segments[1 : len(blobs)])
        return _Part(before, more, usages, after)

    def _spend(self, size: int) -> None:
        if self._left is not None:
            if size > self._left:
                raise ToCount
            self._left -= size


def _continues(more: tuple[Oid, ...], segments: Sequence[Segment], at: int) -> bool:
    """Return whether these segments follow the one at `at`."""
    following = segments[at + 1 : at + 1 + len(more)]
    return not more or more == tuple(segment.oid for segment in following)


def _remember(known: dict[K, V], name: K, value: V) -> None:
    """Add a value, in place of the oldest one where there are many."""
    if len(known) >= MOST_REMEMBERED:
        del known[next(iter(known))]
    known[name] = value


def _load(path: Path) -> dict[Oid, _Part]:
    """Return what is kept of a stream, by the first segment of each part."""
    known = trusted_cache.load(os.fspath(path))
    if not isinstance(known, tuple) or known[0] != VERSION:
        return {}
    return {
        Oid(oid): _Part(before, tuple(map(Oid, more)), tuple(map(Usage._make, usages)), after)
        for oid, before, more, usages, after in known[1]
    }


def _keep(path: Path, known: dict[Oid, _Part]) -> None:
    """Keep what was read; where nothing can be written, it is read again next time."""
    parts = [
        (
            str(oid),
            part.before,
            tuple(map(str, part.more)),
            tuple(map(tuple, part.usages)),
            part.after,
        )
        for oid, part in known.items()
    ]
    with suppress(OSError, ValueError):
        make_own_directory(path.parent)
        replace_cache(path, (VERSION, parts))
        files = sorted(path.parent.iterdir(), key=lambda each: each.stat().st_mtime)
        for file in files[:-MOST_FILES]:
            file.unlink()
