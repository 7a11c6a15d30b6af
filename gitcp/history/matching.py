"""Match text in what a checkpoint added: paths, lines of files, messages, tools and notes."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

from gitcp import adapters
from gitcp.agents import SAVED
from gitcp.conversation.segments import NAME
from gitcp.errors import BadValue
from gitcp.git import segmented
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
SEALED = re.compile(
    rb'"(?:signature|thoughtSignature|encrypted_content|encryptedContent'
    rb'|reasoning(?:Opaque|EncryptedContent)|data|base64|url|image_url)"\s*:\s*'
    rb'"(?:data:[^",]{1,80},)?[A-Za-z0-9+/_-]{128,}={0,2}"'
)
"""A field of sealed thinking, or of an image."""

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


def needle(text: str, *, regex: bool = False, ignore_case: bool = False) -> Needle:
    """Return what to search for. Raises BadValue for an empty text, and for what is no regular
    expression.
    """
    if not text:
        raise BadValue("TEXT is empty: nothing to search for", hint="gitcp find -h")
    try:
        return Needle(text, regex=regex, ignore_case=ignore_case)
    except re.error as error:
        raise BadValue(
            f"{text!r} is not a regular expression: {error}", hint="gitcp find -h"
        ) from None


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

    def to_json(self) -> dict[str, Any]:
        """Return the fields that `gitcp find --json` prints."""
        from gitcp import documents  # only for programs

        return documents.encode(
            documents.Match(
                id=self.summary.id,
                created=self.summary.created,
                kind=self.kind,
                where=self.where or None,
                line=self.line,
                message=self.message,
                text=documents.utf8(self.text),
            )
        )


Key = tuple[object, ...]
"""What makes two hits the same: the kind, and the message, or the place with the line."""

Matches = dict[Key, Hit]


def stream_of(path: bytes) -> bytes:
    """Return the stream that a segment belongs to, else the path itself."""
    match = STREAM.fullmatch(path) or SEGMENT.fullmatch(path)
    return match[1] if match else b"/" + path


def searched_text(format: str | None, stream: bytes, data: bytes) -> bytes | None:
    """Return the text of a segment that a search looks at, with the ids and times of its messages,
    by which repeated ones are recognized. May contain more. None if the segment ends within a line,
    which continues in the next one.
    """
    if not data.endswith(b"\n"):
        return None
    known = SAVED.get(format or "")
    by_line = known is not None and known.transcripts.line_by_line
    if format is None or not by_line or not _has_messages(stream):
        return SEALED.sub(b'""', data)
    messages = adapters.for_format(format).messages(data.split(b"\n"))
    texts = "\n".join(f"{each.text}\n{each.id or ''}\n{each.time or ''}" for each in messages)
    return texts.encode("utf-8", "replace")


def _has_messages(stream: bytes) -> bool:
    return stream.partition(b"/")[0] in (b"main", b"agents")


class Matcher:
    """Matches a text in these places. Of equal hits in one of them, the first counts."""

    def __init__(self, store: Store, needle: Needle, places: Sequence[str]) -> None:
        self._store = store
        self._needle = needle
        self._places = frozenset(places)
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

    def in_path(self, commit: Oid, path: bytes) -> Matches:
        """Return the hit in a path that was added."""
        matches: Matches = {}
        self._match(matches, commit, "paths", path, display(path), key=(path,))
        return matches

    def in_content(self, commit: Oid, path: bytes, data: bytes) -> Matches:
        """Return the hits in what a checkpoint added to a file, note or stream."""
        matches: Matches = {}
        if not self._needle.may_be_in(data):
            return matches
        stream = STREAM.fullmatch(path)
        if stream is not None:
            self._conversation(matches, commit, stream[1], data)
        elif path == RESERVED + b"/" + METADATA:
            for name, text in _texts(self._checkpoint(commit).note):
                self._match(matches, commit, "notes", name.encode(), text, key=(name, text))
        elif b"\0" not in data[:BINARY_HEAD] and not segmented.decode(data):
            growing = SEGMENT.fullmatch(path)
            where = growing[1] if growing else path
            self._lines(matches, commit, "files", where, data, growing is None)
        return matches

    def _lines(
        self,
        matches: Matches,
        commit: Oid,
        kind: str,
        where: bytes,
        data: bytes,
        is_whole: bool = True,
    ) -> None:
        """Search lines; they have numbers if `data` is the whole file."""
        for number, line in enumerate(data.decode("utf-8", "surrogateescape").split("\n"), 1):
            found_at = number if is_whole else None
            self._match(matches, commit, kind, where, line, key=(where, line), line=found_at)

    def _conversation(self, matches: Matches, commit: Oid, stream: bytes, data: bytes) -> None:
        """Search the messages in new segments."""
        conversation = self._checkpoint(commit).conversation
        if conversation is None or not _has_messages(stream):
            self._lines(matches, commit, "tools", stream, data)
            return
        for message in adapters.for_format(conversation.format).messages(data.split(b"\n")):
            kind = "tools" if message.tool else PLACE_BY_ROLE.get(message.role, "tools")
            if kind in self._places:
                key = (message.role, message.id, message.time, message.text)
                where = (message.tool or "").encode("utf-8", "replace")
                self._match(matches, commit, kind, where, message.text, key=key, message=message.id)

    def _match(
        self,
        matches: Matches,
        commit: Oid,
        kind: str,
        where: bytes,
        text: str,
        *,
        key: Key,
        line: int | None = None,
        message: str | None = None,
    ) -> None:
        span = self._needle.find(text)
        if span is None or (kind, *key) in matches or kind not in self._places:
            return
        start, end = text.rfind("\n", 0, span[0]) + 1, text.find("\n", span[0])
        shown = text[start : end if end >= 0 else len(text)]
        matches[kind, *key] = Hit(
            self._store.summary(commit),
            KINDS[kind],
            where,
            shown,
            span[0] - start,
            min(span[1] - start, len(shown)),
            line,
            message,
        )

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
