"""opencode: all sessions in one SQLite database, which is read and never written.

    <data>/opencode/opencode.db        tables session, message, part; `<data>` is `~/.local/share`

A conversation is kept as lines of JSON: `main` has a line on the session, then each message with
its parts as `opencode export` would write it; `sessions` the rows of the session and of its
sub-agents; `agents/<id>` the messages of a sub-agent. What goes back goes through `opencode
import`. Nobody but the person runs that: the program may load what is in the project, and that may
come from a checkpoint.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple

from gitcp import wire
from gitcp.adapters import base
from gitcp.adapters.base import Found, Placement, Reader, Stored
from gitcp.adapters.opencode import database, documents, lines
from gitcp.adapters.opencode.lines import before, digest, messages
from gitcp.errors import ConversationUnreadable, Refused, StoreDamaged
from gitcp.model import Agent, Capture, Host, Source
from gitcp.value import replace

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

NAME = "opencode"

MAIN, SESSIONS, AGENTS = "main", "sessions", "agents/"


class Kept(NamedTuple):
    """One stored session: its row, and its messages as lines of JSON."""

    row: dict[str, Any]
    messages: Callable[[], Iterator[bytes]]


# ---------------------------------------------------------------- finding


def find(cwd: Path, host: Host) -> tuple[Found, ...]:
    """The sessions started in `cwd` or at the root of its repository, newest first; sub-agents' are
    no sessions.
    """
    path = database.path_of(host)
    if not path.exists():
        return ()
    place = Path(os.path.realpath(cwd))
    root = next((d for d in (place, *place.parents) if os.path.lexists(d / ".git")), place)
    try:
        found = database.sessions_in(path, {str(place), str(root)})
    except database.Unreadable:
        return ()
    return tuple(
        Found(NAME, id, path, modified) for id, modified in found if base.SESSION_ID.fullmatch(id)
    )


def located(session_id: str, host: Host) -> Found | None:
    """The session of this id, wherever it was started."""
    path = database.path_of(host)
    try:
        updated = database.updated(path, session_id) if path.exists() else None
    except database.Unreadable:
        return None
    return None if updated is None else Found(NAME, session_id, path, updated)


# one database for all directories
def watched(cwd: Path, host: Host) -> tuple[Path, ...]:  # noqa: ARG001
    """The database, and the log that changes of it go to first."""
    path = database.path_of(host)
    return (path.parent, path, path.with_name(f"{path.name}-wal"))


def running(host: Host) -> str | None:  # noqa: ARG001 -- the protocol's
    """Never known: a command that opencode runs is told that it does, but not which session."""
    return None


# ---------------------------------------------------------------- capturing


def capture(found: Found) -> Capture:
    """The session and those of its sub-agents, as they are at this moment.

    Raises ConversationUnreadable if the database cannot be read or has no such session.
    """
    try:
        sessions = database.read(found.path, found.session_id)
    except database.Unreadable as error:
        raise ConversationUnreadable(
            f"{found.path} cannot be read ({error}): no checkpoint was made"
        ) from None
    if not sessions:
        raise ConversationUnreadable(
            f"{found.path} has no session {found.session_id}: no checkpoint was made",
            hint="opencode session list",
        )
    main, *agents = sessions
    rows = b"".join(wire.dumps(session.row).rstrip() + b"\n" for session in sessions)
    sources = (
        Source(MAIN, data=b"".join((lines.head(main.row), *main.messages))),
        Source(SESSIONS, data=rows),
        *(Source(_stream(agent.row), data=b"".join(agent.messages)) for agent in agents),
    )
    directory = main.row.get("directory")
    return Capture(
        Agent(NAME, found.session_id), NAME, sources, Path(directory) if directory else None
    )


def _stream(row: dict[str, Any]) -> str:
    id = str(row["id"])
    return AGENTS + (id if base.STREAM_PART.fullmatch(id) else sha256(id.encode()).hexdigest()[:32])


# ---------------------------------------------------------------- placing


def place(stored: Stored, cwd: Path, host: Host, *, new_id: str) -> Placement:
    """Into documents that `opencode import` takes, unless the database has it all, under the
    session's own id, or under one made from `new_id` where that went on meanwhile or belongs to
    another directory.
    """
    kept, own = _kept(stored), stored.agent.session_id
    placement = _plan(stored, kept, cwd, host, own) if own is not None else None
    if placement is not None:
        return placement
    other = (
        new_id
        if documents.ID.fullmatch(new_id)
        else documents.other_id(str(kept[0].row["id"]), new_id)
    )
    placement = _plan(stored, kept, cwd, host, other)
    if placement is None:
        raise Refused(
            f"session {other} of opencode exists and says something else: it was left as it is"
        )
    note = (
        f"session {own} has gone on since, or elsewhere: it was left as it is, and this one goes "
        f"on as {other}"
    )
    note = note if own is not None else ""
    return replace(placement, note=note)


def _kept(stored: Stored) -> list[Kept]:
    """The stored sessions, the main one first. Raises StoreDamaged if they do not belong
    together.
    """
    readers = {stream.name: read for stream, read in stored.streams}
    rows = [
        wire.parse_line(line) or {}
        for line in base.lines(readers.get(SESSIONS, lambda: iter(()))())
    ]
    if (
        MAIN not in readers
        or not rows
        or not all(documents.ID.fullmatch(str(row.get("id"))) for row in rows)
    ):
        raise StoreDamaged(
            f"the stored conversation does not name its session: {base.NOTHING}", hint=base.CHECK
        )
    agents = [(row, readers.get(_stream(row))) for row in rows[1:]]
    return [
        Kept(row, _messages(read))
        for row, read in [(rows[0], readers[MAIN]), *agents]
        if read is not None
    ]


def _messages(read: Reader) -> Callable[[], Iterator[bytes]]:
    return lambda: (
        line for line in base.lines(read()) if lines.opened(wire.parse_line(line) or {})[0]
    )


def _plan(
    stored: Stored, kept: list[Kept], cwd: Path, host: Host, session_id: str
) -> Placement | None:
    """How the sessions get into the database under this id; None if what is there says something
    else.
    """
    if documents.ID.fullmatch(session_id) is None:
        raise StoreDamaged(
            f"{session_id[:80]!r} cannot be a session id: {base.NOTHING}", hint=base.CHECK
        )
    there = _there(host, session_id)
    if there and there[session_id].row.get("directory") != os.path.realpath(cwd):
        return None
    files: list[tuple[Path, Reader]] = []
    directory = _aside(stored)
    for one in _renamed(kept, session_id):
        have = there[one.row["id"]].messages if one.row["id"] in there else None
        missing = have is None or _missing(have, one.messages())
        if missing is None:
            return None
        if missing:
            files.append((directory / f"{one.row['id']}.json", _document(one)))
    writes = base.plan_writes(files)
    if writes is None:
        raise Refused(
            f"{directory} holds other files: they were left as they are",
            hint=f"move {directory} away",
        )
    prepare = tuple(("opencode", "import", "--pure", str(write.path)) for write in writes)
    updated = there[session_id].row if there and not writes else kept[0].row
    since = (updated.get("time_updated") or 0) / 1000
    latest = base.newer(_here(cwd, host), session_id, since, ("opencode", "--continue"))
    return Placement(session_id, writes, ("opencode", "--session", session_id), "", prepare, latest)


def _here(cwd: Path, host: Host) -> list[Found]:
    """The sessions of this very directory, in the order in which `--continue` takes the first."""
    path = database.path_of(host)
    try:
        known = database.sessions_in(path, {os.path.realpath(cwd)}) if path.exists() else []
    except database.Unreadable:
        return []
    return [Found(NAME, id, path, modified) for id, modified in known]


def _there(host: Host, session_id: str) -> dict[str, database.Session]:
    """What the database has of a session and of its sub-agents, by id."""
    path = database.path_of(host)
    try:
        found = database.read(path, session_id) if path.exists() else []
    except database.Unreadable as error:
        raise Refused(f"{path} cannot be read ({error}): {base.NOTHING}") from None
    return {session.row["id"]: session for session in found}


def _aside(stored: Stored) -> Path:
    """A directory named by the content, so that the same conversation is there once however often
    it is restored.
    """
    assert stored.aside is not None
    named = sorted(f"{stream.name} {stream.sha256}" for stream, _ in stored.streams)
    return stored.aside / sha256("\n".join(named).encode()).hexdigest()[:16]


def _renamed(kept: list[Kept], session_id: str) -> list[Kept]:
    """The sessions under another id of the main one."""
    first = kept[0].row["id"]
    if first == session_id:
        return kept
    ids = {one.row["id"]: documents.other_id(one.row["id"], session_id) for one in kept} | {
        first: session_id
    }
    rename = documents.renaming((line for one in kept for line in one.messages()), ids)
    rows = (wire.loads(rename(wire.dumps(one.row))) for one in kept)
    return [Kept(row, _mapped(rename, one.messages)) for row, one in zip(rows, kept, strict=True)]


def _mapped(
    rename: documents.Renamed, read: Callable[[], Iterator[bytes]]
) -> Callable[[], Iterator[bytes]]:
    return lambda: map(rename, read())


def _missing(have: Iterable[bytes], wanted: Iterator[bytes]) -> bool | None:
    """Whether messages are missing of what is wanted; None if what is there is no beginning of
    it.
    """
    for line in have:
        other = next(wanted, None)
        if other is None or wire.loads(line) != wire.loads(other):
            return None
    return next(wanted, None) is not None


def _document(one: Kept) -> Reader:
    return lambda: documents.document(documents.info_of(one.row), one.messages())
