"""The adapter of an agent that a TOML file describes (`tables`)."""

from __future__ import annotations

import glob
import os
import re
import string
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from hashlib import md5, sha256
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

from gitcp import wire
from gitcp.adapters import base, directories
from gitcp.adapters.base import Found, Message, Reader, Stored, Write
from gitcp.adapters.session_files import SESSION, SessionFiles
from gitcp.adapters.tables import ABOUT, TRANSCRIPT, Rule, Table, matches, text_at, value_at
from gitcp.model import MAIN, Agent, Capture, Digest, Host, Source, Stream
from gitcp.value import replace

AGENTS = "agents/"
PATTERNS = {"session": r"[A-Za-z0-9][A-Za-z0-9_-]*", "agent": r"[A-Za-z0-9_-][A-Za-z0-9._-]*"}
ANY = r"[^/]+"
KEY = "{key}"

Record = dict[str, Any]


class Change(NamedTuple):
    """A field that gets another value, in all records that match or in the first that has it. A
    `*` in the field is any name, which `{key}` in the value stands for.
    """

    field: str
    value: str
    when: Mapping[str, Any]
    first: bool = False


class TableAdapter(SessionFiles):
    """An adapter whose places and records a table describes. Paths of streams are stored relative
    to the agent's directory, with the id of the session marked.
    """

    id_field = ""
    in_each_line = False

    def __init__(self, table: Table) -> None:
        self.table = table
        self.NAME = table.name
        self.latest = table.latest

    @property
    def title(self) -> str:
        """The agent's own name."""
        return self.table.title

    # ------------------------------------------------------------ places

    def home(self, host: Host) -> Path:
        """Return the agent's directory."""
        chosen = host.env.get(self.table.home_variable, "") if self.table.home_variable else ""
        return Path(chosen) if os.path.isabs(chosen) else host.home / self.table.home

    def directory(self, cwd: str, host: Host) -> Path:
        """Return the directory above the files of sessions that are started in `cwd`."""
        known = _known(self.table.transcript, self._slug(cwd))
        return self.home(host) / known.rpartition("/")[0]

    def _slug(self, cwd: str) -> dict[str, str]:
        """Return the name of a working directory's own directory, as placeholder."""
        data = cwd.encode("utf-8", "surrogateescape")
        slug = self.table.slug.format(
            base=os.path.basename(cwd),
            dashed=directories.dashed(cwd),
            slashes=cwd.removeprefix("/").replace("/", "-"),
            quoted=quote(data, safe=""),
            sha256=sha256(data).hexdigest(),
            md5=md5(data, usedforsecurity=False).hexdigest(),
        )
        return {"slug": slug} if slug else {}

    def files(self, host: Host) -> Iterable[Path]:
        """Return all transcripts."""
        return self._files(host, {})

    def files_of(self, cwd: str, host: Host) -> Iterable[Path]:
        """Return the transcripts that may be of sessions started in `cwd`, a real path."""
        return self._files(host, self._slug(cwd))

    def _files(self, host: Host, known: Mapping[str, str]) -> list[Path]:
        paths = base.glob(self.home(host), _glob(self.table.transcript, known))
        return [path for path in paths if _parts(self.table.transcript, path.as_posix())]

    def watched(self, cwd: Path, host: Host) -> tuple[Path, ...]:
        """Return the directories in which sessions of this directory appear, and their files."""
        levels = {
            path
            for root in base.roots(cwd)
            for pattern in _above(_glob(self.table.transcript, self._slug(root)))
            for path in base.glob(self.home(host), pattern)
        }
        return (self.home(host), *super().watched(cwd, host), *sorted(levels))

    def session_of(self, path: Path) -> str:
        """Return the session id in the name of a transcript."""
        return _parts(self.table.transcript, path.as_posix()).get("session", "")

    def cwd_of(self, path: Path) -> str | None:
        """Return the working directory of a transcript's session."""
        named = self.table.cwd
        if named is None:
            return directories.cwd_of(path)
        cwds = (text_at(record, named.name) for record in self._heads(path, named.file))
        return next((directories.real(cwd) for cwd in cwds if cwd), None)

    def _heads(self, path: Path, file: str) -> Iterable[Record]:
        """Return the document beside a transcript, or the records at its beginning."""
        if file == ABOUT:
            return [base.settings(each) for each in self._about(path)]
        return [base.settings(path)] if self.table.format == "json" else directories.head(path)

    def beside(self, path: Path) -> Iterable[Path]:
        """Return the document beside a transcript, and the transcripts of its sub-agents."""
        agents = self._others(path, self.table.agents)
        paths = [*self._about(path), *(each for each in agents if each != path)]
        return [each for each in paths if base.found(self.NAME, "", each)]

    def _about(self, path: Path) -> list[Path]:
        return self._others(path, self.table.about)

    def _others(self, path: Path, template: str) -> list[Path]:
        parts = _parts(self.table.transcript, path.as_posix())
        return base.glob(self._start(path), _glob(template, parts)) if template else []

    def _start(self, path: Path) -> Path:
        """Return the agent's directory, given a transcript in it."""
        return path.parents[self.table.transcript.count("/")]

    # ------------------------------------------------------------ the agent

    def command(self, session_id: str) -> tuple[str, ...]:
        """Return the command that resumes a session."""
        return tuple(word.format(session=session_id) for word in self.table.resume)

    def running(self, host: Host) -> str | None:
        """Return the session id from the environment of a command run by the agent."""
        session_id = host.env.get(self.table.variable, "") if self.table.variable else ""
        return session_id if base.SESSION_ID.fullmatch(session_id) else None

    # ------------------------------------------------------------ reading

    def capture(self, found: Found) -> Capture:
        """Capture a transcript, and what belongs to it."""
        start = self._start(found.path)
        sources = []
        for path in (found.path, *self.beside(found.path)):
            name = MAIN if path == found.path else self._stream(path)
            relative = path.relative_to(start).as_posix().replace(found.session_id, SESSION)
            if name:
                live = name != ABOUT and self.table.format == "jsonl"  # grows by lines
                sources.append(Source(name, path=path, live=live, place=relative))
        cwd = self.cwd_of(found.path)
        agent = Agent(self.NAME, found.session_id)
        return Capture(agent, self.NAME, tuple(sources), Path(cwd) if cwd else None)

    def _stream(self, path: Path) -> str:
        if _parts(self.table.about, path.as_posix()):
            return ABOUT
        agent = _parts(self.table.agents, path.as_posix()).get("agent", "")
        return f"{AGENTS}{agent}" if base.STREAM_PART.fullmatch(agent) else ""

    def parts(self, fields: Record) -> Iterator[Message]:
        """Yield what a record shows."""
        for rule in self.table.rules:
            if matches(fields, rule.when):
                yield from _shown(rule, fields)

    def formed(self, before: Digest, fields: Record) -> Digest:
        """Add a record of which a rule finds nothing where its text should be; of a document, whose
        records are messages, also one that no rule is for.
        """
        rules = [rule for rule in self.table.rules if matches(fields, rule.when)]
        is_message = bool(rules) or self.table.format == "json"
        is_known = not is_message or any(_is_found(rule, fields) for rule in rules)
        kind = rules[0].role if rules else "message"
        return before if is_known else base.with_other_form(before, kind)

    def described(self, before: Digest, fields: Record) -> Digest:
        """Take the model that a record names."""
        for rule in self.table.rules:
            if rule.model and matches(fields, rule.when):
                before = replace(before, model=text_at(fields, rule.model) or before.model)
        return before

    def digest(self, before: Digest, lines: Iterable[bytes]) -> Digest:
        """Count the records with messages of user, assistant and tools."""
        if self.table.format == "jsonl":
            return super().digest(before, lines)
        document = _document(lines)
        listed = value_at(document, self.table.records)
        if document and not isinstance(listed, list):
            before = base.with_other_form(before, "document")
        return super().digest(before, map(wire.dumps, base.objects(listed)))

    def messages(self, lines: Iterable[bytes]) -> Iterator[Message]:
        """Yield messages, tool calls and results in file order."""
        if self.table.format != "jsonl":
            lines = map(wire.dumps, base.objects(value_at(_document(lines), self.table.records)))
        return super().messages(lines)

    def before(self, lines: Iterable[bytes], message_id: str) -> int | None:
        """Return the offset of the line with this user message, or of that with which its turn
        begins. A document cannot be cut.
        """
        if self.table.format == "json":
            return None
        begun = None
        for offset, line in base.offsets(lines):
            fields = wire.parse_line(line) or {}
            if self.table.prompt and matches(fields, self.table.prompt):
                begun = offset
            typed = [each for each in self.parts(fields) if each.role == "user"]
            if any(each.id == message_id for each in typed):
                return offset if begun is None else begun
            begun = None if typed else begun
        return None

    # ------------------------------------------------------------ placing

    def plan(
        self, stored: Stored, cwd: str, host: Host, session_id: str
    ) -> tuple[Write, ...] | None:
        """Return how a conversation is written under this id; None if a file has other content. A
        document beside that is there already is left as it is.
        """
        base.check_session_id(session_id)
        files, left = [], []
        for stream, read in sorted(stored.streams, key=lambda item: item[0].name != MAIN):
            path = self._target(stream, session_id, cwd, host)
            if stream.name == ABOUT and os.path.isfile(path):
                left.append(Write(path, _content(path), "same"))
            else:
                changes = self._changes(stream, session_id, cwd, host, path)
                whole = stream.name == ABOUT or self.table.format == "json"
                files.append((path, _changed(read, changes, whole=whole) if changes else read))
        writes = base.plan_writes(files)
        return None if writes is None else (*writes, *left)

    def _target(self, stream: Stream, session_id: str, cwd: str, host: Host) -> Path:
        agent = stream.name.removeprefix(AGENTS) if stream.name.startswith(AGENTS) else ""
        templates = {MAIN: self.table.transcript, ABOUT: self.table.about}
        template = self.table.agents if agent else templates.get(stream.name, "")
        parts = _parts(template, stream.place.replace(SESSION, "x"))
        if not parts or base.place_parts(stream.place) is None or (parts.get("agent", "") != agent):
            if stream.name != MAIN or stream.place:
                raise base.bad_target(stream.place)
            parts = {"time": host.now().strftime(self.table.time)}
        known = {**parts, **self._slug(cwd), "session": session_id, "agent": agent}
        return self.home(host) / template.format_map(known)

    def _changes(
        self, stream: Stream, session_id: str, cwd: str, host: Host, path: Path
    ) -> list[Change]:
        """Return the fields of a file that must have other values at its new place."""
        file = ABOUT if stream.name == ABOUT else TRANSCRIPT
        values = {"cwd": cwd, "session": session_id, "home": str(self.home(host)), "key": KEY}
        values |= {"slug": "", **self._slug(cwd), "directory": str(path.parent)}
        values["agent"] = stream.name.removeprefix(AGENTS)
        changes = [
            Change(each.field, each.value.format_map(values), each.when)
            for each in self.table.rewrites
            if each.file == file
        ]
        for named in (self.table.session, self.table.cwd):
            if named is not None and named.file == file:
                value = named.value.format_map(values)
                changes.append(Change(named.name, value, {}, first=not named.each))
        return changes


# ---------------------------------------------------------------- templates


@cache
def _pattern(template: str) -> re.Pattern[str]:
    """Return what matches the end of a path that a template describes."""
    pattern, given = "", set[str]()
    for text, name, _, _ in string.Formatter().parse(template):
        pattern += re.escape(text)
        if name is not None:
            own = f"(?P<{name}>{PATTERNS.get(name, ANY)})"
            pattern += f"(?P={name})" if name in given else own
            given.add(name)
    return re.compile(rf"(?:^|/){pattern}\Z")


def _parts(template: str, path: str) -> dict[str, str]:
    """Return what the placeholders of a template are in a path, {} if it is another one."""
    match = _pattern(template).search(path) if template else None
    return match.groupdict() if match else {}


def _glob(template: str, known: Mapping[str, str]) -> str:
    """Return a pattern of paths: placeholders that are not known match anything, and only they:
    a directory may be called `app[old]`.
    """
    names = {name: glob.escape(value) for name, value in known.items()}
    return "".join(
        glob.escape(text) + ("" if name is None else names.get(name, "*"))
        for text, name, _, _ in string.Formatter().parse(template)
    )


def _known(template: str, known: Mapping[str, str]) -> str:
    """Return the beginning of a path, up to the first placeholder that is not known."""
    path = ""
    for text, name, _, _ in string.Formatter().parse(template):
        path += text
        if name is not None and name not in known:
            break
        path += known.get(name or "", "")
    return path


def _above(pattern: str) -> Iterator[str]:
    """Yield the patterns of the directories above a file."""
    names = pattern.split("/")[:-1]
    return ("/".join(names[: n + 1]) for n in range(len(names)))


# ---------------------------------------------------------------- records


def _is_found(rule: Rule, record: Record) -> bool:
    """Return whether a record has something where a rule looks for text: of a list, parts that name
    their kind. They may all be of other kinds: an answer may be only a call.
    """
    value = value_at(record, rule.each or rule.text)
    if not rule.each:
        return value is not None
    return isinstance(value, list) and all(
        value_at(part, field) is not None for part in value for field in rule.only
    )


def _shown(rule: Rule, record: Record) -> Iterator[Message]:
    id, time = text_at(record, rule.id), text_at(record, rule.time)
    parts = value_at(record, rule.each) if rule.each else [record]
    for part in parts if isinstance(parts, list) else [parts]:
        if rule.each and not matches(part, rule.only):
            continue
        content = value_at(part, rule.text)
        text = base.text_of(content)
        if rule.role in ("call", "result") and not text and content not in (None, "", []):
            text = wire.dumps(content).decode().strip()
        role = {"call": "assistant", "result": "tool"}.get(rule.role, rule.role)
        tool, call = text_at(part, rule.tool), text_at(part, rule.call)
        if rule.role in ("call", "result"):
            tool, call = tool or "tool", call or id
        failed = bool(rule.failed and value_at(part, rule.failed))
        yield Message(role, text, id, time, tool, call, failed)


def _document(lines: Iterable[bytes]) -> Record:
    """Return a transcript that is one document, {} if it is none."""
    return wire.parse_line(b"\n".join(line.rstrip(b"\n") for line in lines)) or {}


# ---------------------------------------------------------------- copies


def _content(path: Path) -> Reader:
    return lambda: iter([path.read_bytes()])


def _changed(read: Reader, changes: list[Change], *, whole: bool) -> Reader:
    """Return a reader of a file in which fields have other values, the other bytes as they are."""

    def chunks() -> Iterator[bytes]:
        pending = list(changes)
        for line in [b"".join(read())] if whole else base.lines(read()):
            yield _with_changes(line, pending) if pending else line

    return chunks


def _with_changes(line: bytes, pending: list[Change]) -> bytes:
    """Return a record with changes, of which those that are done once are removed."""
    record = wire.parse_line(line)
    for change in list(pending) if record is not None else ():
        for path, key in (
            _paths(record, change.field.split(".")) if matches(record, change.when) else ()
        ):
            old, new = value_at(record, ".".join(path)), change.value.replace(KEY, key)
            if isinstance(old, str):
                line = _with_text(line, path, old, new)
                if change.first and change in pending:
                    pending.remove(change)
    return line


def _paths(record: Any, field: list[str], key: str = "") -> Iterator[tuple[list[str], str]]:
    """Yield the paths of a field in which `*` is any name, each with that name."""
    if "*" not in field:
        yield field, key
        return
    at = field.index("*")
    inner = value_at(record, ".".join(field[:at]))
    for name in inner if isinstance(inner, dict) else ():
        yield from _paths(record, [*field[:at], name, *field[at + 1 :]], name)


def _with_text(line: bytes, path: list[str], old: str, new: str) -> bytes:
    """Return a record in which a field has another text. Written in another way than gitcp writes
    JSON, the whole record is written anew.
    """
    if old == new or (path[-1] == "cwd" and directories.real(old) == new):
        return line
    name, was, now = (wire.dumps(each).strip() for each in (path[-1], old, new))
    pattern = re.compile(re.escape(name) + rb"(\s*:\s*)" + re.escape(was))
    changed = pattern.sub(lambda match: name + match[1] + now, line)
    record = wire.parse_line(changed) or {}
    if value_at(record, ".".join(path)) == new:
        return changed
    holder = value_at(record, ".".join(path[:-1]))
    holder[path[-1]] = new
    return wire.dumps(record).strip() + line[len(line.rstrip(b"\r\n")) :]
