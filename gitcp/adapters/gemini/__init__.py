"""Gemini CLI: chats below `~/.gemini/tmp`, one directory for each working directory.

    <root>/projects.json                                working directory → directory name
    <root>/tmp/<name>/.project_root                     the directory's working directory
    <root>/tmp/<name>/chats/session-<minute>-<first 8 of id>.jsonl  main stream
    <root>/tmp/<name>/chats/session-….json              a chat in the old format: one document
    <root>/tmp/<name>/chats/<id>/<agent>.jsonl          sub-agents
    <root>/tmp/<name>/tool-outputs/session-<id>/<name>  large outputs, referenced by name
    <root>/tmp/<name>/<id>/…                            plans and tasks

A line is a message (a repeated id replaces it), `{"$rewindTo": id}`, or `{"$set": {…}}`, which can
replace the whole history or the session id; the last line wins. So a new id is one more line at
the end, and a new working directory a different path. Existing lines are never rewritten.

On resume, Gemini CLI first starts an empty chat: as a separate file or, within the same minute, at
the end of the resumed file. `find` skips the former, `capture` the latter. The empty file's name
ends in the first eight characters of the id, and the next start deletes it together with every
chat whose name ends in these eight, including the resumed one. So a restored chat is named after
its full id: `session-<minute>-<id>.jsonl`, or `session-<minute>-restored-<id>.jsonl` under another
id. An existing chat with the short name and the same content, or a prefix of it, stays next to it;
of two chats with one id and time, the program resumes the one whose name sorts first.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import partial
from hashlib import sha256
from itertools import chain
from pathlib import Path
from typing import Any

from gitcp import regular, wire
from gitcp.adapters import base
from gitcp.adapters.base import Found, Latest, Listed, Origin, Placement, Reader, Stored, Write
from gitcp.adapters.gemini import lines
from gitcp.adapters.gemini.lines import before, digest, messages
from gitcp.adapters.gemini.places import (
    HASH,
    existing,
    names_in,
    project_directory,
    root_of,
    workplace,
)
from gitcp.model import MAIN, Agent, Capture, Host, Source

__all__ = [
    "NAME",
    "before",
    "capture",
    "digest",
    "find",
    "lifetime",
    "list_all",
    "located",
    "messages",
    "origin",
    "place",
    "running",
    "unlisted",
    "watched",
]

NAME = "gemini"

SESSION = "{session}"
"""Placeholder for the session id in a stored path; `{short}` is its first eight characters."""

CHATS = "chats"
BESIDE = {
    "agents": (CHATS, SESSION),
    "tool-results": ("tool-outputs", f"session-{SESSION}"),
    "state": (SESSION,),
}
"""Directories of a session's other files by stream group, relative to the project's directory."""

TIME = r"(?:([0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}-[0-9]{2}|[0-9]{10,15})-)?"
CHAT = re.compile(rf"session-{TIME}[A-Za-z0-9_-]{{1,80}}\.jsonl?")
PLACE = re.compile(rf"{CHATS}/session-{TIME}\{{short\}}(\.jsonl?)")
LINES, DOCUMENT = ".jsonl", ".json"
"""Suffixes of a chat, and of one in the old format: one document, which Gemini CLI still resumes,
and continues as a chat of lines.
"""

AGE = re.compile(r"([0-9]{1,6})([hdwm])")
AGE_UNITS = {"h": 3600.0, "d": 86400.0, "w": 7 * 86400.0, "m": 30 * 86400.0}
"""Units of the setting sessionRetention.maxAge in seconds; `m` is a month."""

TAIL = 1 << 20


# ---------------------------------------------------------------- finding


def find(cwd: Path, host: Host) -> tuple[Found, ...]:
    """Return the resumable sessions started in `cwd` or its repository's root, newest first."""
    chats = [path for directory in existing(cwd, host) for path in _chats(directory)]
    newest: dict[str, Found] = {}
    for path in sorted(chats, key=lambda path: (_modified(path), path)):
        session_id = session_of(path)
        if session_id is not None:
            newest[session_id] = Found(NAME, session_id, path, _modified(path))
    return tuple(
        sorted(newest.values(), key=lambda session: (-session.modified, session.session_id))
    )


def located(session_id: str, host: Host) -> Found | None:
    """Return the session with this id, in any directory; the chat that was written last. Of one
    that cannot be read, the name decides.
    """
    paths = base.glob(root_of(host) / "tmp", f"*/{CHATS}/session-*{session_id[:8]}*.json*")
    chats = (path for path in paths if CHAT.fullmatch(path.name) and _is_of(path, session_id))
    sessions = [session for path in chats if (session := base.found(NAME, session_id, path))]
    return max(sessions, key=lambda session: session.modified, default=None)


def list_all(host: Host) -> Iterator[Listed]:
    """Yield the chats of all directories; of several with one id, each."""
    places, kept_for = root_of(host) / "tmp", lifetime(host)
    for directory in (places / name for name in names_in(places)):
        for path in _chats(directory):
            session_id = session_of(path)
            if session_id is not None:
                found = Found(NAME, session_id, path, _modified(path))
                folders = (_below(directory, group, session_id) for group in BESIDE)
                extra = (file for folder in folders for file in _files(folder))
                deleted = found.modified + kept_for if kept_for else None
                capturing = partial(capture, found)
                yield base.listed(found, (path, *extra), capturing, deleted=deleted)


def unlisted(host: Host) -> Iterator[tuple[Path, str]]:
    """Yield the conversations that people saved under a name, with `/chat save`."""
    for path in base.glob(root_of(host) / "tmp", "*/checkpoint-*.json"):
        yield path, "conversations saved with /chat save; /chat resume lists them"


def lifetime(host: Host) -> float | None:
    """Return the seconds after which Gemini CLI deletes a chat that is not written to; None for
    never.
    """
    general = base.settings(root_of(host) / "settings.json").get("general")
    retention = general.get("sessionRetention") if isinstance(general, dict) else None
    fields = retention if isinstance(retention, dict) else {}
    age = AGE.fullmatch(str(fields.get("maxAge", "30d")))
    if fields.get("enabled", True) is not True or age is None:
        return None
    return int(age[1]) * AGE_UNITS[age[2]]


def origin(found: Found) -> Origin:
    """Return where a chat ran: the directory that its project directory belongs to."""
    project = found.path.parent.parent
    directory = workplace(project)
    hashed = (project.name,) if HASH.fullmatch(project.name) and not directory else ()
    return Origin((directory,) if directory else (), hashed=hashed)


def watched(cwd: Path, host: Host) -> tuple[Path, ...]:
    """Return the files that map directories to chats, the chats, and each session's other files."""
    root, directories = root_of(host), existing(cwd, host)
    registry = (
        root,
        root / "projects.json",
        root / "tmp",
        *(directory / CHATS for directory in directories),
    )
    chats = (path for directory in directories for path in _chats(directory))
    extra_paths = (path for session in find(cwd, host) for path in _extra_paths(session))
    return (*registry, *chats, *extra_paths)


def memory(cwd: Path, host: Host) -> Path:
    """Return the directory of the project's memory."""
    return project_directory(cwd, host)[0] / "memory"


def running(host: Host) -> str | None:
    """Return the session id from the environment of a hook. The agent's shell commands do not have
    it.
    """
    session_id = host.env.get("GEMINI_SESSION_ID", "")
    return session_id if base.SESSION_ID.fullmatch(session_id) else None


def recognise(fields: Mapping[str, Any]) -> str | None:
    """Return the session that a chat's header names; None for any other record."""
    return fields.get("sessionId") if "projectHash" in fields else None


def session_of(path: Path) -> str | None:
    """Return the id under which a chat is resumed; None for an empty chat or a sub-agent's."""
    session_id, has_messages = None, False
    try:
        with regular.opened(path) as file:
            for line in lines.unfolded(file):
                if has_messages and b'"sessionId"' not in line:
                    continue
                fields = wire.parse_line(line) or {}
                session_id = lines.id_set(fields) or session_id
                has_messages = has_messages or lines.has_content(fields)
                if fields.get("kind") == "subagent":
                    return None
                if (
                    has_messages
                    and session_id
                    and path.stem.endswith((f"-{session_id[:8]}", f"-{session_id}"))
                ):
                    break  # the name has the same id, so no later line changed it
    except OSError:
        return None
    return (
        session_id
        if has_messages and session_id and base.SESSION_ID.fullmatch(session_id)
        else None
    )


def _is_of(path: Path, session_id: str) -> bool:
    if session_of(path) == session_id:
        return True
    is_named = path.stem.endswith((f"-{session_id[:8]}", f"-{session_id}"))
    return is_named and not _is_readable(path)


def _is_readable(path: Path) -> bool:
    try:
        with regular.opened(path) as file:
            file.read(1)
    except OSError:
        return False
    return True


def _chats(directory: Path) -> list[Path]:
    paths = (
        directory / CHATS / name for name in names_in(directory / CHATS) if CHAT.fullmatch(name)
    )
    return [path for path in paths if _is_file(path)]


def _is_file(path: Path) -> bool:
    try:
        return stat.S_ISREG(path.lstat().st_mode)
    except OSError:
        return False


def _modified(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0


# ---------------------------------------------------------------- capturing


def capture(found: Found) -> Capture:
    """Capture the chat up to its current end, its sub-agents, and its other files. Regular files
    only.

    If `found` is an empty chat, as Gemini's hooks report briefly, the session's chat
    with messages is captured instead.
    """
    session_id = found.session_id if base.SESSION_ID.fullmatch(found.session_id) else None
    path = _resumable(found, session_id)
    match = CHAT.fullmatch(path.name)
    main = Source(
        MAIN,
        path=path,
        live=path.suffix != DOCUMENT,
        place=_chat(match[1] if match else None, "{short}", path.suffix if match else LINES),
        end=None if path.suffix == DOCUMENT else _end(path),
    )
    extra = (
        _extra_sources(path.parent.parent, session_id)
        if session_id and path.parent.name == CHATS
        else ()
    )
    directory = workplace(path.parent.parent) if path.parent.name == CHATS else None
    return Capture(
        Agent(NAME, session_id), NAME, (main, *extra), Path(directory) if directory else None
    )


def _chat(time: str | None, short: str, suffix: str) -> str:
    # Gemini CLI deletes chats by the eight characters of the id that end a name: a restored chat
    # was gone at its second start. And 0.61 deletes a chat itself that went on in another minute
    # than it began in, with the empty file that it then makes.
    name = f"session-{time}-{short}" if time else f"session-{short}"
    return f"{CHATS}/{name}{suffix}"


def _resumable(found: Found, session_id: str | None) -> Path:
    if session_id is None or found.path.parent.name != CHATS or session_of(found.path) is not None:
        return found.path
    others = (path for path in _chats(found.path.parent.parent) if session_of(path) == session_id)
    return max(others, key=_modified, default=found.path)


def _end(path: Path) -> int | None:
    """Return the end of a chat, before the empty history of a resume in
    progress; None if it does not exist.
    """
    try:
        with regular.opened(path) as file:
            size = os.fstat(file.fileno()).st_size
            start = file.seek(max(0, size - TAIL))
            lines_read = list(base.offsets(base.lines([file.read(size - start)])))
    except OSError:
        return None
    for index, (offset, line) in reversed(list(enumerate(lines_read))):
        fields = wire.parse_line(line) or {}
        if lines.has_content(fields):
            break
        if lines.replaced_by(fields) is not None:
            head = index and "projectHash" in (wire.parse_line(lines_read[index - 1][1]) or {})
            return start + (lines_read[index - 1][0] if head else offset) or size
    return size


def _extra_sources(directory: Path, session_id: str) -> Iterator[Source]:
    for group, folder in BESIDE.items():
        base_directory = _below(directory, group, session_id)
        for path in _files(base_directory):
            relative = str(path.relative_to(base_directory))
            stem = relative.removesuffix(".jsonl") if group == "agents" else relative
            name = (
                stem
                if base.STREAM_PART.fullmatch(stem)
                else sha256(os.fsencode(relative)).hexdigest()[:32]
            )
            stored = "/".join((*folder, relative))
            stored = stored if base.place_parts(stored) else "/".join((*folder, name))
            yield Source(
                f"{group}/{name}", path=path, live=relative.endswith(".jsonl"), place=stored
            )


def _below(directory: Path, group: str, session_id: str) -> Path:
    return directory.joinpath(*(part.replace(SESSION, session_id) for part in BESIDE[group]))


def _extra_paths(found: Found) -> Iterator[Path]:
    for group in BESIDE:
        folder = _below(found.path.parent.parent, group, found.session_id)
        yield folder
        for path in _files(folder):
            yield from (path.parent, path)


def _files(directory: Path) -> list[Path]:
    paths = (Path(folder, name) for folder, _, names in os.walk(directory) for name in names)
    return sorted(path for path in paths if _is_file(path))


# ---------------------------------------------------------------- placing


def place(stored: Stored, cwd: Path, host: Host, *, new_id: str) -> Placement:
    """Place the conversation in the directory for `cwd`, under its own id, or under
    `new_id` if that has newer messages.

    The bytes are unchanged; a new id adds one line. An empty chat cannot be
    resumed: nothing is written for it.
    """
    main = next((read for stream, read in stored.streams if stream.name == MAIN), lambda: iter(()))
    if not any(
        lines.has_content(wire.parse_line(line) or {})
        for line in lines.unfolded(base.lines(main()))
    ):
        return Placement(
            None, (), ("gemini",), "the conversation was still empty; Gemini CLI starts a new one"
        )
    session_id = stored.agent.session_id
    if session_id is not None:
        files = _plan(stored, cwd, host, session_id)
        if files is not None:
            return Placement(
                session_id, files, _command(session_id), latest=_latest(session_id, files[0])
            )
    files = _plan(stored, cwd, host, new_id)
    if files is None:
        raise base.occupied(f"Gemini CLI session {new_id}")
    note = base.renamed_note(session_id, new_id)
    return Placement(new_id, files, _command(new_id), note, latest=_latest(new_id, files[0]))


def _latest(session_id: str, main: Write) -> Latest | None:
    """Return the session that `--resume latest` picks: the chat that started last, ties broken by
    name.
    """
    starts = {session_id: (lines.began(base.lines(main.content())), main.path.name)}
    for path in _chats(main.path.parent.parent):
        other = session_of(path)
        if other is not None and other != session_id:
            with suppress(OSError), regular.opened(path) as file:
                starts[other] = max(starts.get(other, ("", "")), (lines.began(file), path.name))
    newest = max(starts, key=lambda each: starts[each])
    return None if newest == session_id else Latest(newest, ("gemini", "--resume", "latest"))


def _command(session_id: str) -> tuple[str, ...]:
    return ("gemini", "--resume", session_id)


def _plan(stored: Stored, cwd: Path, host: Host, session_id: str) -> tuple[Write, ...] | None:
    base.check_session_id(session_id)
    directory, marker = project_directory(cwd, host)
    copy = session_id != stored.agent.session_id
    files = []
    for stream, read in sorted(stored.streams, key=lambda item: item[0].name != MAIN):
        path = directory.joinpath(*_target(stream.name, stream.place, session_id, copy=copy))
        files.append((path, _with_id(read, session_id) if stream.name == MAIN else read))
    if marker is not None:
        cwd_bytes = os.fsencode(os.path.realpath(cwd))
        files.append((marker, lambda: iter([cwd_bytes])))
    main, content = files[0]
    others = (path for path in _chats(directory) if path != main and session_of(path) == session_id)
    if any(path.name < main.name or base.plan_writes([(path, content)]) is None for path in others):
        return None  # the program would resume that one
    return base.plan_writes(files)


def _with_id(read: Reader, session_id: str) -> Reader:
    """Return a chat with this id, unchanged if it has it already."""
    last, ends = None, b"\n"
    for line in lines.unfolded(base.lines(read())):
        ends = line[-1:]
        if b'"sessionId"' in line:
            last = lines.id_set(wire.parse_line(line) or {}) or last
    if last == session_id:
        return read
    line = b'{"$set":{"sessionId":"%s"}}\n' % session_id.encode()
    return lambda: chain(
        lines.unfolded(base.lines(read())), [line if ends == b"\n" else b"\n" + line]
    )


def _target(name: str, relative: str, session_id: str, *, copy: bool) -> tuple[str, ...]:
    """Return where a stream goes, below the project's directory. The stored path is not trusted."""
    if name == MAIN:
        match = PLACE.fullmatch(relative)
        time, suffix = match.groups() if match else (None, LINES)
        # Sorts after the chat it is a copy of, so that "latest" prefers it.
        name = f"restored-{session_id}" if copy else session_id
        return tuple(_chat(time, name, LINES if copy else suffix).split("/"))
    parts = base.place_parts(relative) or ()
    folder = BESIDE.get(name.partition("/")[0])
    if folder is None or len(parts) <= len(folder) or parts[: len(folder)] != folder:
        raise base.bad_target(relative)
    return tuple(
        part.replace(SESSION, session_id) if n < len(folder) else part
        for n, part in enumerate(parts)
    )
