"""A base for the adapters of agents that keep each session in one file of JSON lines, whose first
line, or one of the first, names the working directory (`cwd`).

A subclass says where the files are, what a line means, and how the agent resumes; docs/adapters.md
walks through one. A restore at another path changes the `cwd` of the first line, and one under
another id the id, in the first line or in all. No other byte changes.
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from gitcp import wire
from gitcp.adapters import base, directories
from gitcp.adapters.base import (
    Found,
    Listed,
    Message,
    Origin,
    Placement,
    Reader,
    Stored,
    Write,
)
from gitcp.agents import SAVED
from gitcp.model import MAIN, Agent, Capture, Digest, Host, LastMessage, Source
from gitcp.value import replace

SESSION = "{session}"
"""Placeholder for the session id in a stored path."""

COUNTED = ("user", "assistant", "tool")


class SessionFiles(ABC):
    """An adapter (gitcp.adapters.base.Adapter). Paths of streams are stored relative to the
    directory of the working directory, which `directory` returns.
    """

    NAME: str
    id_field: str
    """The field with the session id."""
    in_each_line: bool
    """Whether each line has that field; else the first one has it."""
    latest: tuple[str, ...]
    """The agent's command that resumes the latest session of a directory."""
    below: str = ""
    """The directory with the transcripts, in that of the working directory; "" for that itself."""
    pattern: str = "*.jsonl"
    """What the names of transcripts match."""
    kinds: frozenset[str] = frozenset()
    """The types of records that were seen; if there are none, all are taken for known."""

    # ------------------------------------------------------------ what an agent says

    @abstractmethod
    def directory(self, cwd: str, host: Host) -> Path:
        """Return the directory for sessions that are started in `cwd`, a real path."""

    @abstractmethod
    def files(self, host: Host) -> Iterable[Path]:
        """Return the transcripts of all directories."""

    @abstractmethod
    def parts(self, fields: dict[str, Any]) -> Iterator[Message]:
        """Yield what a line shows."""

    @abstractmethod
    def command(self, session_id: str) -> tuple[str, ...]:
        """Return the command that resumes a session."""

    def session_of(self, path: Path) -> str:
        """Return the session id in the name of a transcript."""
        return path.stem

    def name_of(self, session_id: str, host: Host) -> str:  # noqa: ARG002
        """Return the name of a new transcript."""
        return f"{session_id}.jsonl"

    def formed(self, before: Digest, fields: dict[str, Any]) -> Digest:  # noqa: ARG002
        """Add a record in which this adapter finds no message, although there must be one."""
        return before

    def kind_of(self, fields: dict[str, Any]) -> object:
        """Return the kind of a line, as `kinds` names it."""
        return fields.get("type")

    def described(self, before: Digest, fields: dict[str, Any]) -> Digest:  # noqa: ARG002
        """Return a digest with the version, model and title that a line names."""
        return before

    def beside(self, path: Path) -> Iterable[Path]:  # noqa: ARG002
        """Return the files of JSON lines that belong to a transcript, below the same directory."""
        return ()

    @property
    def title(self) -> str:
        """The agent's own name."""
        return SAVED[self.NAME].title

    def files_of(self, cwd: str, host: Host) -> Iterable[Path]:
        """Return the transcripts that may be of sessions started in `cwd`, a real path."""
        return base.glob(self._chats(cwd, host), self.pattern)

    def cwd_of(self, path: Path) -> str | None:
        """Return the working directory of a transcript's session, a real path; None if unknown."""
        return directories.cwd_of(path)

    def is_of(self, path: Path, roots: set[str]) -> bool:
        """Return whether a transcript that may be of one of these directories is."""
        return self.cwd_of(path) in roots

    # ------------------------------------------------------------ finding

    def find(self, cwd: Path, host: Host) -> tuple[Found, ...]:
        """Return the sessions of `cwd` or its repository's root, and the running one, newest
        first.
        """
        roots, current = base.roots(cwd), self.running(host)
        paths = {
            path for root in roots for path in self.files_of(root, host) if self.is_of(path, roots)
        }
        if current is not None:
            paths |= {path for path in self.files(host) if self.session_of(path) == current}
        sessions = filter(None, map(self._found, paths))
        return tuple(sorted(sessions, key=lambda found: (-found.modified, found.session_id)))

    def located(self, session_id: str, host: Host) -> Found | None:
        """Return the session with this id, in any directory; of several files the newest."""
        paths = (path for path in self.files(host) if self.session_of(path) == session_id)
        found = filter(None, map(self._found, paths))
        return max(found, key=lambda session: session.modified, default=None)

    def list_all(self, host: Host) -> Iterator[Listed]:
        """Yield the sessions of all directories."""
        for path in sorted(self.files(host)):
            found = self._found(path)
            if found is not None:
                paths = (path, *self.beside(path))
                yield base.listed(found, paths, partial(self.capture, found))

    def origin(self, found: Found) -> Origin:
        """Return where a session ran."""
        cwd = self.cwd_of(found.path)
        return Origin((cwd,) if cwd else ())

    def watched(self, cwd: Path, host: Host) -> tuple[Path, ...]:
        """Return the directories of this directory's sessions, and their files."""
        chats = {self._chats(root, host) for root in base.roots(cwd)}
        own = {self.directory(root, host) for root in base.roots(cwd)}
        files = (
            path
            for found in self.find(cwd, host)
            for path in (found.path, *self.beside(found.path), *_parents(self.beside(found.path)))
        )
        return (*sorted(chats | own | _parents(own)), *files)

    def _chats(self, cwd: str, host: Host) -> Path:
        return self.directory(cwd, host) / self.below

    def running(self, host: Host) -> str | None:
        """Return the session id from the environment of a command run by the agent."""
        names = SAVED[self.NAME].transcripts.session_variables
        ids = (host.env.get(name, "") for name in names)
        return next((each for each in ids if base.SESSION_ID.fullmatch(each)), None)

    def recognise(self, fields: Mapping[str, Any]) -> str | None:  # noqa: ARG002
        """Return the session that a record names, None if it is no record of this agent."""
        return None

    def _found(self, path: Path) -> Found | None:
        session_id = self.session_of(path)
        is_valid = base.SESSION_ID.fullmatch(session_id) is not None
        return base.found(self.NAME, session_id, path) if is_valid else None

    # ------------------------------------------------------------ reading

    def capture(self, found: Found) -> Capture:
        """Capture a transcript, and what belongs to it."""
        cwd = self.cwd_of(found.path)
        start = found.path.parents[bool(self.below)]
        main = Source(MAIN, path=found.path, live=True, place=_stored(found.path, start, found))
        others = (
            Source(f"agents/{path.stem}", path=path, live=True, place=_stored(path, start, found))
            for path in sorted(self.beside(found.path))
            if base.STREAM_PART.fullmatch(path.stem)
        )
        agent = Agent(self.NAME, found.session_id)
        return Capture(agent, self.NAME, (main, *others), Path(cwd) if cwd else None)

    def digest(self, before: Digest, lines: Iterable[bytes]) -> Digest:
        """Count the lines with messages of user, assistant and tools."""
        for line in lines:
            fields = wire.parse_line(line)
            if fields is not None:
                if self.kinds:
                    before = base.with_unknown(before, self.kind_of(fields), self.kinds)
                before = self.described(self.formed(before, fields), fields)
                messages = [each for each in self.parts(fields) if each.is_shown()]
                counted = any(each.role in COUNTED for each in messages)
                before = replace(before, messages=before.messages + counted)
                for message in messages:
                    before = _digest_message(before, message)
        return before

    def messages(self, lines: Iterable[bytes]) -> Iterator[Message]:
        """Yield messages, tool calls and results in file order, from all branches."""
        for line, _ in base.records(lines):
            for message in self.parts(wire.parse_line(line) or {}):
                if message.is_shown():
                    yield message

    def before(self, lines: Iterable[bytes], message_id: str) -> int | None:
        """Return the offset of the line with this user message."""
        needle = message_id.encode("utf-8", "replace")
        for offset, line in base.offsets(lines):
            if needle in line:
                messages = self.parts(wire.parse_line(line) or {})
                if any(each.role == "user" and each.id == message_id for each in messages):
                    return offset
        return None

    # ------------------------------------------------------------ placing

    def place(self, stored: Stored, cwd: Path, host: Host, *, new_id: str) -> Placement:
        """Place the conversation in the directory for `cwd`, under its own id, or under `new_id` if
        that has newer messages.
        """
        start, own = os.path.realpath(cwd), stored.agent.session_id
        for session_id in (new_id,) if own is None else (own, new_id):
            files = self.plan(stored, start, host, session_id)
            if files is not None:
                note = base.renamed_note(own, new_id) if session_id != own else ""
                latest = None
                if files[0].how == "same":
                    since = base.modified(files[0].path)
                    latest = base.newer(self.find(cwd, host), session_id, since, self.latest)
                return Placement(session_id, files, self.command(session_id), note, latest=latest)
        raise base.occupied(f"{self.title} session {new_id}")

    def plan(
        self, stored: Stored, cwd: str, host: Host, session_id: str
    ) -> tuple[Write, ...] | None:
        """Return how a conversation is written under this id; None if a file has other content."""
        base.check_session_id(session_id)
        directory = self.directory(cwd, host)
        files = []
        for stream, read in sorted(stored.streams, key=lambda item: item[0].name != MAIN):
            is_main = stream.name == MAIN
            relative = stream.place
            if is_main and SESSION not in relative:
                relative = str(Path(self.below, self.name_of(SESSION, host)))
            parts = base.place_parts(relative.replace(SESSION, session_id))
            if parts is None or SESSION not in relative or not relative.endswith(".jsonl"):
                raise base.bad_target(stream.place)
            reader = self._moved(read, session_id, cwd if is_main else None)
            files.append((directory.joinpath(*parts), reader))
        return base.plan_writes(files)

    def _moved(self, read: Reader, session_id: str, cwd: str | None) -> Reader:
        """Return a reader of a transcript under an id, and (unless None) in a directory."""
        first = wire.parse_line(next(base.lines(read()), b"")) or {}
        old = base.string(first, self.id_field)
        there = base.string(first, "cwd")
        is_here = there is None or cwd is None or os.path.realpath(there) == cwd
        if is_here and old in (None, session_id):
            return read

        def chunks() -> Iterator[bytes]:
            rest = base.lines(read())
            line = with_field(next(rest, b""), self.id_field, old, session_id)
            yield line if is_here else with_field(line, "cwd", there, cwd)
            for line in rest:
                yield (
                    with_field(line, self.id_field, old, session_id) if self.in_each_line else line
                )

        return chunks


def with_field(line: bytes, field: str, old: str | None, new: str | None) -> bytes:
    """Return a line in which a field has another text, the other bytes as they were."""
    if old is None or new is None or old == new:
        return line
    before, after = (b'"%s":%s' % (field.encode(), wire.dumps(each).strip()) for each in (old, new))
    if before in line:
        return line.replace(before, after)
    fields = wire.parse_line(line) or {}
    if fields.get(field) != old:
        return line
    ending = line[len(line.rstrip(b"\r\n")) :]
    return wire.dumps({**fields, field: new}).strip() + ending  # written with other spaces


def _stored(path: Path, start: Path, found: Found) -> str:
    """Return where a file is stored: with the place of its session's id marked."""
    return path.relative_to(start).as_posix().replace(found.session_id, SESSION)


def _parents(paths: Iterable[Path]) -> set[Path]:
    return {path.parent for path in paths}


def _digest_message(before: Digest, message: Message) -> Digest:
    text = base.shown(message.text)
    if message.role not in ("user", "assistant") or message.tool is not None or not text:
        return before
    if message.role == "user":
        before = replace(before, last_prompt=text)
    return replace(before, last_message=LastMessage(message.role, text, message.id))
