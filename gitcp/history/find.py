"""Find text in the prompts, answers, tools, notes, paths and files of all checkpoints.

A hit is where text first appeared: the first checkpoint whose file has this line, or whose
conversation has this message. So each distinct blob is read once, however many checkpoints contain
it, and git determines which are new where.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import groupby
from typing import NamedTuple

from gitcp import adapters
from gitcp.conversation.segments import NAME
from gitcp.errors import GitFailed, StoreDamaged
from gitcp.git import segmented
from gitcp.git.promised import is_partial
from gitcp.git.trees import is_content
from gitcp.history import history
from gitcp.history.text_index import TextIndex
from gitcp.model import RESERVED, Checkpoint, Note, Oid
from gitcp.store import CONVERSATION, METADATA, SEGMENT, Store, Summary
from gitcp.value import Value
from gitcp.wire import position_texts
from gitcp.worktree.paths import display

PLACES = ("prompts", "answers", "tools", "notes", "paths", "files")
KINDS = {
    "prompts": "prompt",
    "answers": "answer",
    "tools": "tool",
    "notes": "note",
    "paths": "path",
    "files": "file",
}
PLACE_BY_ROLE = {
    "user": "prompts",
    "assistant": "answers",
    "thinking": "answers",
    "summary": "answers",
}

BINARY_HEAD = 8000
STREAM = re.compile(
    re.escape(RESERVED + b"/" + CONVERSATION + b"/") + rb"(.+?)/(" + NAME.pattern + rb")"
)


class Needle:
    """The text to search for: literal, or a regular expression. `words`, or words with these parts,
    are in every match, in any case.
    """

    def __init__(self, text: str, *, regex: bool = False, ignore_case: bool = False) -> None:
        self._pattern = re.compile(
            text if regex else re.escape(text), re.IGNORECASE if ignore_case else 0
        )
        self._fold = ignore_case
        # JSON may escape other characters, but not letters, digits and spaces.
        runs = [] if regex else re.findall(r"[A-Za-z0-9 ]+", text)
        probe = max(runs, key=len, default="").encode("ascii")
        self.words = tuple(probe.lower().split())
        self._probe = probe.lower() if ignore_case else probe

    def may_be_in(self, data: bytes) -> bool:
        """Return False if the text cannot be in these bytes, however they are encoded."""
        return self._probe in (data.lower() if self._fold else data)

    def find(self, text: str) -> tuple[int, int] | None:
        """Return the start and end of the first match; None if there is none."""
        match = self._pattern.search(text)
        return match.span() if match else None


class Hit(Value):
    """A line that matches, and the checkpoint that added it. `where` is a path, a tool or a part of
    a note.

    `start` and `end` are the match in `text`, in characters. `line` counts the lines of a file from
    1, `message` is a message's id.
    """

    summary: Summary
    kind: str
    where: bytes
    text: str
    start: int
    end: int
    line: int | None = None
    message: str | None = None


class _NewBlob(NamedTuple):
    """A blob that no earlier checkpoint had, and where it was added."""

    commit: Oid
    path: bytes
    oid: Oid


def find(
    store: Store,
    tips: Iterable[Oid],
    needle: Needle,
    places: Sequence[str] = PLACES,
    index: TextIndex | None = None,
) -> list[Hit]:
    """Return every hit behind `tips`, newest first. Of several chains, a damaged one is skipped.
    With an index, segments of conversations that cannot contain the text are not read.

    Raises StoreDamaged or GitFailed if the only chain is damaged.
    """
    search = _Search(store, needle, places)
    new: list[_NewBlob] = []
    seen: set[Oid] = set()
    for commit, changes in _readable_changes(store, list(tips)):
        search.order[commit] = len(search.order)
        for path, old, entry in ((change.path, change.old, change.new) for change in changes):
            if entry is None:
                continue
            if old is None and not path.startswith(RESERVED + b"/"):
                search.path(commit, path)
            if is_content(entry.mode) and entry.oid not in seen and search.wants(path):
                seen.add(entry.oid)
                new.append(_NewBlob(commit, path, entry.oid))
    if index is not None:
        new = _possible(index, needle, new)
    for _, group in groupby(_read(store, new), key=lambda item: _place(item[0])):
        search.blobs(list(group))
    return sorted(search.hits, key=lambda hit: -search.order[hit.summary.commit])


def _readable_changes(store: Store, tips: list[Oid]) -> Iterable[history.Changed]:
    try:
        return list(history.changed(store, tips))
    except (StoreDamaged, GitFailed):
        if len(tips) == 1:
            raise
    readable = []
    for tip in tips:
        with suppress(StoreDamaged, GitFailed):
            list(history.changed(store, [tip]))
            readable.append(tip)
    return history.changed(store, readable) if readable else ()


def index_conversations(store: Store, index: TextIndex) -> None:
    """Index all segments of conversations that are not indexed yet, of every session."""
    tips = [*store.sessions().values(), *store.fetched().values()]
    changes = (each for _, found in _readable_changes(store, tips) for each in found)
    entries = ((each.path, each.new) for each in changes if STREAM.fullmatch(each.path))
    paths = {entry.oid: path for path, entry in entries if entry and is_content(entry.mode)}
    blobs = [_NewBlob(oid, paths[oid], oid) for oid in index.lacking(paths)]
    index.add((blob.oid, data) for blob, data in _read(store, blobs))


def _possible(index: TextIndex, needle: Needle, new: list[_NewBlob]) -> list[_NewBlob]:
    """Return the blobs that are to be read. All segments that a checkpoint added to a stream are,
    or none: a message may begin in one and end in the next.
    """
    segments = [blob.oid for blob in new if STREAM.fullmatch(blob.path)]
    without = index.without(needle.words, segments)
    if not without:
        return new
    wanted = {_place(blob) for blob in new if blob.oid not in without}
    return [blob for blob in new if _place(blob) in wanted]


def _place(blob: _NewBlob) -> tuple[Oid, bytes]:
    """Return the checkpoint and the stream or path that a blob was added to."""
    return blob.commit, _stream(blob.path)


def _stream(path: bytes) -> bytes:
    """Return the stream that a segment belongs to, else the path itself."""
    match = STREAM.fullmatch(path) or SEGMENT.fullmatch(path)
    return match[1] if match else b"/" + path


def _read(store: Store, new: Sequence[_NewBlob]) -> Iterator[tuple[_NewBlob, bytes]]:
    """Yield the content of the blobs in order; in a partial clone, of those that are present."""
    if is_partial(store.repo):
        new = [item for item in new if store.reader.exists(item.oid)]
    with store.repo.git_reading("cat-file", "--batch", "--buffer", input=_names(new)) as out:
        for item in new:
            size = out.readline().rpartition(b" ")[2].strip()
            if size.isdigit():  # else missing; `gitcp check` reports it, and the rest is searched
                yield item, out.read(int(size))
                out.read(1)


def _names(items: Iterable[_NewBlob]) -> bytes:
    return "".join(item.oid + "\n" for item in items).encode("ascii")


class _Search:
    """One search: the hits, what was reported before, and the order of the checkpoints."""

    def __init__(self, store: Store, needle: Needle, places: Sequence[str]) -> None:
        self.hits: list[Hit] = []
        self.order: dict[Oid, int] = {}
        self._store = store
        self._needle = needle
        self._places = frozenset(places)
        self._reported: set[tuple[object, ...]] = set()
        self._cached: Checkpoint | None = None

    def wants(self, path: bytes) -> bool:
        """Return whether the content of a path is searched."""
        if not path.startswith(RESERVED + b"/"):
            return "files" in self._places
        if path == RESERVED + b"/" + METADATA:
            return "notes" in self._places
        if SEGMENT.fullmatch(path):
            return "files" in self._places
        return STREAM.fullmatch(path) is not None and bool(
            self._places & {"prompts", "answers", "tools"}
        )

    def path(self, commit: Oid, path: bytes) -> None:
        """Search a path that was added."""
        if "paths" in self._places:
            self._match(commit, "paths", path, display(path), key=(path,))

    def blobs(self, contents: Sequence[tuple[_NewBlob, bytes]]) -> None:
        """Search the new blobs of one file, note or stream of one checkpoint."""
        commit, path, _ = contents[0][0]
        data = b"".join(part for _, part in contents)
        if not self._needle.may_be_in(data):
            return
        stream = STREAM.fullmatch(path)
        if stream is not None:
            self._conversation(commit, stream[1], data)
        elif path == RESERVED + b"/" + METADATA:
            for name, text in _texts(self._checkpoint(commit).note):
                self._match(commit, "notes", name.encode(), text, key=(name, text))
        elif b"\0" not in data[:BINARY_HEAD] and not segmented.decode(data):
            growing = SEGMENT.fullmatch(path)
            self._lines(commit, "files", growing[1] if growing else path, data, growing is None)

    def _lines(
        self, commit: Oid, kind: str, where: bytes, data: bytes, is_whole: bool = True
    ) -> None:
        """Search lines; they have numbers if `data` is the whole file."""
        for number, line in enumerate(data.decode("utf-8", "surrogateescape").split("\n"), 1):
            found_at = number if is_whole else None
            self._match(commit, kind, where, line, key=(where, line), line=found_at)

    def _conversation(self, commit: Oid, stream: bytes, data: bytes) -> None:
        """Search the messages in new segments; a rewritten segment repeats old messages, which are
        skipped.
        """
        conversation = self._checkpoint(commit).conversation
        if conversation is None or stream.partition(b"/")[0] not in (b"main", b"agents"):
            self._lines(commit, "tools", stream, data)
            return
        for message in adapters.for_format(conversation.format).messages(data.split(b"\n")):
            kind = "tools" if message.tool else PLACE_BY_ROLE.get(message.role, "tools")
            if kind in self._places:
                key = (message.role, message.id, message.time, message.text)
                where = (message.tool or "").encode("utf-8", "replace")
                self._match(commit, kind, where, message.text, key=key, message=message.id)

    def _match(
        self,
        commit: Oid,
        kind: str,
        where: bytes,
        text: str,
        *,
        key: tuple[object, ...],
        line: int | None = None,
        message: str | None = None,
    ) -> None:
        span = self._needle.find(text)
        if span is None or (kind, *key) in self._reported or kind not in self._places:
            return
        self._reported.add((kind, *key))
        start, end = text.rfind("\n", 0, span[0]) + 1, text.find("\n", span[0])
        shown = text[start : end if end >= 0 else len(text)]
        summary = self._store.summary(commit)
        hit = Hit(
            summary,
            KINDS[kind],
            where,
            shown,
            span[0] - start,
            min(span[1] - start, len(shown)),
            line,
            message,
        )
        self.hits.append(hit)

    def _checkpoint(self, commit: Oid) -> Checkpoint:
        if self._cached is None or self._cached.commit != commit:
            self._cached = self._store.read(commit)
        return self._cached


def _texts(note: Note) -> Iterator[tuple[str, str]]:
    """Yield the texts of a note, with their names."""
    handoff = note.handoff
    single = {
        "label": note.label,
        "phase": note.phase,
        "objective": note.objective,
        "task": handoff.task,
    }
    yield from ((name, text) for name, text in single.items() if text)
    several = {
        "decided": handoff.decisions,
        "failed": handoff.failed,
        "next": handoff.next,
        "active": handoff.active,
        "compensation": note.compensations,
    }
    yield from ((name, text) for name, texts in several.items() for text in texts)
    for name, pairs in (("fact", note.facts), ("position", position_texts(note.position))):
        yield from ((name, f"{key} = {value}") for key, value in pairs.items())
