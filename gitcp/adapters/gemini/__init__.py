"""Gemini CLI: chats below `~/.gemini/tmp`, one directory for each working directory.

    <root>/projects.json                                       working directory → name of its
    directory <root>/tmp/<name>/.project_root                            whose directory it is
    <root>/tmp/<name>/chats/session-<minute>-<id's first 8>.jsonl    the main stream
    <root>/tmp/<name>/chats/<id>/<agent>.jsonl                 sub-agents
    <root>/tmp/<name>/tool-outputs/session-<id>/<name>         large outputs that the chat only
    names <root>/tmp/<name>/<id>/…                                   plans and tasks

A line is a message (the same id again replaces it), `{"$rewindTo": id}`, or `{"$set": {…}}`, which
may replace the whole history or the session's id: what the last line says holds. So another id
takes one line more at the end, and another working directory another place; lines that are there
are looked at and never rewritten.

To resume, the program first begins a chat with nothing in it, as a file of its own or, within the
same minute, at the end of the file that it is about to continue. Neither is a conversation: the
first is not found, the second left out. Such an empty file has the first eight characters of the id
at the end of its name, and the next start of the program deletes it with every chat whose name ends
in the same eight, the one that was resumed too. So what is put back is called after its whole id:
`session-<minute>-<id>.jsonl`, or `session-<minute>-restored-<id>.jsonl` under another id. A chat
that ends in the eight, and that says the same or less, stays beside it; of two with one id, equally
old, the program resumes the one whose name comes first.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator
from contextlib import suppress
from hashlib import sha256
from itertools import chain
from pathlib import Path

from gitcp import wire
from gitcp.adapters import base
from gitcp.adapters.base import Found, Latest, Placement, Reader, Stored, Write
from gitcp.adapters.gemini import lines
from gitcp.adapters.gemini.lines import before, digest, messages
from gitcp.adapters.gemini.places import existing, names_in, project_directory, root_of, workplace
from gitcp.errors import Refused, StoreDamaged
from gitcp.model import Agent, Capture, Host, Source

__all__ = [
    "NAME",
    "before",
    "capture",
    "digest",
    "find",
    "located",
    "messages",
    "place",
    "running",
    "watched",
]

NAME = "gemini"

MAIN = "main"
SESSION = "{session}"
"""Stands for the session id in a stored place, as `{short}` does for its first eight characters."""

CHATS = "chats"
BESIDE = {
    "agents": (CHATS, SESSION),
    "tool-results": ("tool-outputs", f"session-{SESSION}"),
    "state": (SESSION,),
}
"""Where a session keeps what is not its chat, by the group of the stream; relative to the project's
directory.
"""

TIME = r"(?:([0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}-[0-9]{2}|[0-9]{10,15})-)?"
CHAT = re.compile(rf"session-{TIME}[A-Za-z0-9_-]{{1,80}}\.jsonl")
PLACE = re.compile(rf"{CHATS}/session-{TIME}\{{short\}}\.jsonl")
TAIL = 1 << 20


# ---------------------------------------------------------------- finding


def find(cwd: Path, host: Host) -> tuple[Found, ...]:
    """The sessions started in `cwd` or at the root of its repository that can be resumed; newest
    first.
    """
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
    """The session of this id, wherever it was started; the chat that was written last."""
    paths = (root_of(host) / "tmp").glob(f"*/{CHATS}/session-*{session_id[:8]}*.jsonl")
    chats = (path for path in paths if CHAT.fullmatch(path.name) and session_of(path) == session_id)
    known = [session for path in chats if (session := base.found(NAME, session_id, path))]
    return max(known, key=lambda session: session.modified, default=None)


def watched(cwd: Path, host: Host) -> tuple[Path, ...]:
    """What says where this directory's chats are, the chats, and for each session what lies beside
    it.
    """
    root, directories = root_of(host), existing(cwd, host)
    decides = (
        root,
        root / "projects.json",
        root / "tmp",
        *(directory / CHATS for directory in directories),
    )
    chats = (path for directory in directories for path in _chats(directory))
    beside = (path for found in find(cwd, host) for path in _beside_paths(found))
    return (*decides, *chats, *beside)


def running(host: Host) -> str | None:
    """The session named by the environment of a hook. A command in the agent's shell is not
    told.
    """
    session_id = host.env.get("GEMINI_SESSION_ID", "")
    return session_id if base.SESSION_ID.fullmatch(session_id) else None


def session_of(path: Path) -> str | None:
    """The id under which a chat is resumed. None for one that is not: nothing was said in it, it is
    a sub-agent's.
    """
    session_id, said = None, False
    try:
        with open(path, "rb") as file:
            for line in file:
                if said and b'"sessionId"' not in line:
                    continue
                fields = wire.parse_line(line) or {}
                session_id = lines.id_set(fields) or session_id
                said = said or lines.says_something(fields)
                if fields.get("kind") == "subagent":
                    return None
                if (
                    said
                    and session_id
                    and path.name.endswith((f"-{session_id[:8]}.jsonl", f"-{session_id}.jsonl"))
                ):
                    break  # the name agrees, so no later line gave another id
    except OSError:
        return None
    return session_id if said and session_id and base.SESSION_ID.fullmatch(session_id) else None


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
    """The chat, up to where it stands now, its sub-agents' and what is kept beside it. Regular
    files only, no links.

    Where `found` names a chat in which nothing was said, as the program's hooks do for a moment, it
    is the chat of the same session that was.
    """
    session_id = found.session_id if base.SESSION_ID.fullmatch(found.session_id) else None
    path = _resumable(found, session_id)
    named = CHAT.fullmatch(path.name)
    main = Source(
        MAIN,
        path=path,
        live=True,
        place=_chat(named[1] if named else None, "{short}"),
        end=_end(path),
    )
    beside = (
        _beside(path.parent.parent, session_id) if session_id and path.parent.name == CHATS else ()
    )
    directory = workplace(path.parent.parent) if path.parent.name == CHATS else None
    return Capture(
        Agent(NAME, session_id), NAME, (main, *beside), Path(directory) if directory else None
    )


def _chat(time: str | None, short: str) -> str:
    return f"{CHATS}/session-{time}-{short}.jsonl" if time else f"{CHATS}/session-{short}.jsonl"


def _resumable(found: Found, session_id: str | None) -> Path:
    if session_id is None or found.path.parent.name != CHATS or session_of(found.path) is not None:
        return found.path
    others = (path for path in _chats(found.path.parent.parent) if session_of(path) == session_id)
    return max(others, key=_modified, default=found.path)


def _end(path: Path) -> int | None:
    """Where a chat ends that is just being resumed: before the empty history. Else its size; None
    if there is none.
    """
    try:
        with open(path, "rb") as file:
            size = os.fstat(file.fileno()).st_size
            start = file.seek(max(0, size - TAIL))
            found = list(base.offsets(base.lines([file.read(size - start)])))
    except OSError:
        return None
    for place, (offset, line) in reversed(list(enumerate(found))):
        fields = wire.parse_line(line) or {}
        if lines.says_something(fields):
            break
        if lines.replaced_by(fields) is not None:
            head = place and "projectHash" in (wire.parse_line(found[place - 1][1]) or {})
            return start + (found[place - 1][0] if head else offset) or size
    return size


def _beside(directory: Path, session_id: str) -> Iterator[Source]:
    for group, place in BESIDE.items():
        below = _below(directory, group, session_id)
        for path in _files(below):
            rest = str(path.relative_to(below))
            plain = rest.removesuffix(".jsonl") if group == "agents" else rest
            name = (
                plain
                if base.STREAM_PART.fullmatch(plain)
                else sha256(os.fsencode(rest)).hexdigest()[:32]
            )
            stored = "/".join((*place, rest))
            stored = stored if base.place_parts(stored) else "/".join((*place, name))
            yield Source(f"{group}/{name}", path=path, live=rest.endswith(".jsonl"), place=stored)


def _below(directory: Path, group: str, session_id: str) -> Path:
    return directory.joinpath(*(part.replace(SESSION, session_id) for part in BESIDE[group]))


def _beside_paths(found: Found) -> Iterator[Path]:
    for group in BESIDE:
        below = _below(found.path.parent.parent, group, found.session_id)
        yield below
        for path in _files(below):
            yield from (path.parent, path)


def _files(directory: Path) -> list[Path]:
    found = (Path(here, name) for here, _, names in os.walk(directory) for name in names)
    return sorted(path for path in found if _is_file(path))


# ---------------------------------------------------------------- placing


def place(stored: Stored, cwd: Path, host: Host, *, new_id: str) -> Placement:
    """Into the directory for `cwd`, under the session's own id, or under `new_id` where that went
    on meanwhile.

    The bytes stay as they are; another id is one line more at the end. The program resumes no chat
    in which nothing was said: such a one goes nowhere, and it is started anew.
    """
    main = next((read for stream, read in stored.streams if stream.name == MAIN), lambda: iter(()))
    if not any(lines.says_something(wire.parse_line(line) or {}) for line in base.lines(main())):
        return Placement(
            None, (), ("gemini",), "nothing had been said by then: Gemini CLI begins anew"
        )
    own = stored.agent.session_id
    if own is not None:
        files = _plan(stored, cwd, host, own)
        if files is not None:
            return Placement(own, files, _command(own), latest=_latest(own, files[0]))
    files = _plan(stored, cwd, host, new_id)
    if files is None:
        raise Refused(
            f"session {new_id} of Gemini CLI exists and says something else: it was left as it is"
        )
    note = (
        f"session {own} has gone on since: it was left as it is, and this one goes on as {new_id}"
        if own
        else ""
    )
    return Placement(new_id, files, _command(new_id), note, latest=_latest(new_id, files[0]))


def _latest(session_id: str, main: Write) -> Latest | None:
    """What `--resume latest` takes: the chat that began last, and of several that began at once the
    last by name.
    """
    began = {session_id: (lines.began(base.lines(main.content())), main.path.name)}
    for path in _chats(main.path.parent.parent):
        other = session_of(path)
        if other is not None and other != session_id:
            with suppress(OSError), open(path, "rb") as file:
                began[other] = max(began.get(other, ("", "")), (lines.began(file), path.name))
    newest = max(began, key=lambda each: began[each])
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
        files.append((path, _named(read, session_id) if stream.name == MAIN else read))
    if marker is not None:
        place = os.fsencode(os.path.realpath(cwd))
        files.append((marker, lambda: iter([place])))
    main, content = files[0]
    others = (path for path in _chats(directory) if path != main and session_of(path) == session_id)
    if any(path.name < main.name or base.plan_writes([(path, content)]) is None for path in others):
        return None  # the program would resume that one
    return base.plan_writes(files)


def _named(read: Reader, session_id: str) -> Reader:
    """A chat under this id: as it is if that is its own."""
    last, ends = None, b"\n"
    for line in base.lines(read()):
        ends = line[-1:]
        if b'"sessionId"' in line:
            last = lines.id_set(wire.parse_line(line) or {}) or last
    if last == session_id:
        return read
    line = b'{"$set":{"sessionId":"%s"}}\n' % session_id.encode()
    return lambda: chain(read(), [line if ends == b"\n" else b"\n" + line])


def _target(name: str, place: str, session_id: str, *, copy: bool) -> tuple[str, ...]:
    """Where a stream belongs, below the project's directory. What a checkpoint says of it is not
    trusted.
    """
    if name == MAIN:
        named = PLACE.fullmatch(place)
        # Behind the chat that it is a copy of: of two that began at the same time, "latest" is the
        # last by name.
        return tuple(
            _chat(
                named[1] if named else None, f"restored-{session_id}" if copy else session_id
            ).split("/")
        )
    parts = base.place_parts(place) or ()
    inside = BESIDE.get(name.partition("/")[0])
    if inside is None or len(parts) <= len(inside) or parts[: len(inside)] != inside:
        raise StoreDamaged(
            f"a stream would be written to {place[:200]!r}: {base.NOTHING}", hint=base.CHECK
        )
    return tuple(
        part.replace(SESSION, session_id) if n < len(inside) else part
        for n, part in enumerate(parts)
    )
