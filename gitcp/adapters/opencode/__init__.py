"""opencode: all sessions in one SQLite database, which is read and never written.

    <data>/opencode/opencode.db    tables session, message, part; `<data>` is `~/.local/share`

A conversation is stored as JSON lines: `main` has a header, then each message with its parts as
`opencode export` writes it; `sessions` has the rows of the session and its sub-agents;
`agents/<id>` the messages of a sub-agent. Restoring uses `opencode import`, which only the user
runs: opencode may load code from the project, and that may come from a checkpoint.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple

from gitcp import wire
from gitcp.adapters import base
from gitcp.adapters.base import Found, Listed, Origin, Placement, Reader, Stored
from gitcp.adapters.databases import Unreadable
from gitcp.adapters.opencode import database, documents, lines
from gitcp.errors import ConversationUnreadable, Refused, StoreDamaged
from gitcp.model import MAIN, Agent, Capture, Host, Source
from gitcp.value import replace

SESSIONS, AGENTS = "sessions", "agents/"
OLD = ("storage/session/*/ses_*.json", "project/*/storage/session/info/ses_*.json")
"""Where opencode kept sessions before it had a database."""

ROOT_COMMIT = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")


class StoredSession(NamedTuple):
    """One stored session: its row, and its messages as JSON lines."""

    row: dict[str, Any]
    messages: Callable[[], Iterator[bytes]]


class Program(NamedTuple):
    """A program that keeps its sessions as opencode does: the name that checkpoints record, its
    own, its command, its directory below `~/.local/share`, and the variable that names another
    database.
    """

    name: str
    title: str
    command: str
    data: str
    variable: str


class OpenCode:
    """An adapter (gitcp.adapters.base.Adapter) of opencode, or of a program made of it."""

    before = staticmethod(lines.before)
    digest = staticmethod(lines.digest)
    messages = staticmethod(lines.messages)

    def __init__(self, program: Program) -> None:
        self.program = program
        self.NAME = program.name

    def path(self, host: Host) -> Path:
        """Return the path of the database, existing or not."""
        data = Path(host.env.get("XDG_DATA_HOME") or host.home / ".local" / "share")
        file = host.env.get(self.program.variable) or f"{self.program.data}.db"
        return data / self.program.data / file

    # ------------------------------------------------------------ finding

    def find(self, cwd: Path, host: Host) -> tuple[Found, ...]:
        """Return the sessions started in `cwd` or its repository's root, newest first, without
        sub-agents.
        """
        path = self.path(host)
        if not os.path.exists(path):
            return ()
        try:
            sessions = database.sessions_in(path, base.roots(cwd))
        except Unreadable:
            return ()
        return tuple(
            Found(self.NAME, id, path, modified)
            for id, modified in sessions
            if base.SESSION_ID.fullmatch(id)
        )

    def located(self, session_id: str, host: Host) -> Found | None:
        """Return the session with this id, in any directory. A database that cannot be read may
        have it: then its capture says why.
        """
        path = self.path(host)
        try:
            updated = database.updated(path, session_id) if os.path.exists(path) else None
        except Unreadable:
            updated = base.modified(path)
        return None if updated is None else Found(self.NAME, session_id, path, updated)

    def list_all(self, host: Host) -> Iterator[Listed]:
        """Yield the sessions of all directories, each with its sub-agents. A database that cannot
        be read is listed as one session that cannot.
        """
        path = self.path(host)
        try:
            sessions = database.all_sessions(path) if os.path.exists(path) else []
        except Unreadable as error:
            whole = Found(self.NAME, path.stem, path, base.modified(path))
            yield base.listed(whole, (path,), partial(self.capture, whole), unread=str(error))
            return
        for id, modified, size, stamp in sessions:
            if base.SESSION_ID.fullmatch(id):
                found = Found(self.NAME, id, path, modified)
                yield Listed(found, size, stamp, partial(self.capture, found))

    def unlisted(self, host: Host) -> Iterator[tuple[Path, str]]:
        """Yield the sessions in files, as opencode kept them before its database, that the database
        lacks: opencode moves them there once.
        """
        path = self.path(host)
        reason = "sessions in files, as opencode kept them before its database"
        reason += ", which lacks them" if os.path.exists(path) else ""
        try:
            known = database.ids(path) if os.path.exists(path) else set()
        except Unreadable:
            return
        for pattern in OLD:
            for file in base.glob(path.parent, pattern):
                if file.stem not in known:
                    yield file, reason

    def origin(self, found: Found) -> Origin:
        """Return where a session ran: its directory, and the root commit that opencode calls its
        project.
        """
        try:
            row = database.row(found.path, found.session_id)
        except Unreadable:
            return Origin()
        directory, project = base.string(row, "directory"), base.string(row, "project_id") or ""
        return Origin(
            (directory,) if directory else (),
            roots=(project,) if ROOT_COMMIT.fullmatch(project) else (),
        )

    # one database for all directories
    def watched(self, cwd: Path, host: Host) -> tuple[Path, ...]:  # noqa: ARG002
        """Return the database and its write-ahead log."""
        path = self.path(host)
        return (path.parent, path, path.with_name(f"{path.name}-wal"))

    def running(self, host: Host) -> str | None:  # noqa: ARG002 -- the protocol's
        """Return None: opencode does not tell its commands which session runs them."""
        return None

    def problem(self, host: Host) -> tuple[str, str] | None:
        """Return what is wrong with the database, and a command that writes what can be read of it
        to another one; None if nothing is. Reads all of it.

        The dump of a damaged database ends with a ROLLBACK, so that it would create nothing.
        sqlite3's `.recover` fails in some distributions.
        """
        path = self.path(host)
        damage = database.damage(path) if os.path.exists(path) else ""
        import shlex  # only for the hint

        if not damage:
            return self._orphans(path, shlex.quote(str(path)))
        old, new = (shlex.quote(str(each)) for each in (path, path.with_suffix(".recovered.db")))
        owner = f"{self.program.title}'s database {path}"
        return (
            f"{owner} is damaged: {damage}; its conversations may not be saved",
            f"sqlite3 -readonly {old} .dump | sed 's/^ROLLBACK;.*/COMMIT;/' | sqlite3 {new}",
        )

    def _orphans(self, path: Path, quoted: str) -> tuple[str, str] | None:
        """Return how many parts have no message, and a command that shows them; None if all do."""
        with suppress(Unreadable):
            count = database.orphans(path) if os.path.exists(path) else 0
            if count:
                what = f"{count:,} parts without a message: {self.program.title} does not read them"
                owner = f"{self.program.title}'s database {path}"
                return (
                    f"{owner} has {what}, and no checkpoint has them",
                    f'sqlite3 -readonly {quoted} "select * {database.ORPHANS}"',
                )
        return None

    # ------------------------------------------------------------ capturing

    def capture(self, found: Found) -> Capture:
        """Capture a consistent state of the session and its sub-agents.

        Raises ConversationUnreadable if the database cannot be read or lacks the session.
        """
        try:
            sessions = database.read(found.path, found.session_id)
        except Unreadable as error:
            raise ConversationUnreadable(
                f"cannot read {found.path}: {error}", hint="gitcp doctor"
            ) from None
        if not sessions:
            raise ConversationUnreadable(
                f"{found.path} has no session {found.session_id}",
                hint=f"{self.program.command} session list",
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
            Agent(self.NAME, found.session_id),
            self.NAME,
            sources,
            Path(directory) if directory else None,
        )

    # ------------------------------------------------------------ placing

    def place(self, stored: Stored, cwd: Path, host: Host, *, new_id: str) -> Placement:
        """Write documents for `opencode import`, unless the database is up to date. Uses the
        session's own id, or one derived from `new_id` if that has newer messages or another
        directory.
        """
        sessions, original = _stored_sessions(stored), stored.agent.session_id
        placement = (
            self._plan(stored, sessions, cwd, host, original) if original is not None else None
        )
        if placement is not None:
            return placement
        session_id = (
            new_id
            if documents.ID.fullmatch(new_id)
            else documents.other_id(str(sessions[0].row["id"]), new_id)
        )
        placement = self._plan(stored, sessions, cwd, host, session_id)
        if placement is None:
            raise base.occupied(f"{self.program.title} session {session_id}")
        note = (
            f"session {original} has newer messages or another directory and was kept; "
            f"the restored conversation is {session_id}"
        )
        note = note if original is not None else ""
        return replace(placement, note=note)

    def _plan(
        self, stored: Stored, sessions: list[StoredSession], cwd: Path, host: Host, session_id: str
    ) -> Placement | None:
        """Plan the import under this id; None if the database has a different session under it."""
        if documents.ID.fullmatch(session_id) is None:
            raise StoreDamaged(
                f"invalid session id {session_id[:80]!r}; {base.NOTHING}", hint=base.CHECK
            )
        existing = self._existing(host, session_id)
        if existing and existing[session_id].row.get("directory") != os.path.realpath(cwd):
            return None
        files: list[tuple[Path, Reader]] = []
        directory = _import_directory(stored)
        for session in _renamed(sessions, session_id):
            current = (
                existing[session.row["id"]].messages if session.row["id"] in existing else None
            )
            missing = current is None or _missing(current, session.messages())
            if missing is None:
                return None
            if missing:
                files.append((directory / f"{session.row['id']}.json", _document(session)))
        writes = base.plan_writes(files)
        if writes is None:
            raise Refused(
                f"{directory} has other files; {base.NOTHING}", hint=base.move_away(directory)
            )
        # With --pure, opencode's next start in a new home waited for a minute.
        program = self.program.command
        prepare = tuple((program, "import", str(write.path)) for write in writes)
        updated = existing[session_id].row if existing and not writes else sessions[0].row
        since = (updated.get("time_updated") or 0) / 1000
        latest = base.newer(
            self._sessions_of(cwd, host), session_id, since, (program, "--continue")
        )
        return Placement(
            session_id, writes, (program, "--session", session_id), "", prepare, latest
        )

    def _sessions_of(self, cwd: Path, host: Host) -> list[Found]:
        """Return the sessions of exactly this directory, in the order that `--continue` uses."""
        path = self.path(host)
        try:
            sessions = (
                database.sessions_in(path, {os.path.realpath(cwd)}) if os.path.exists(path) else []
            )
        except Unreadable:
            return []
        return [Found(self.NAME, id, path, modified) for id, modified in sessions]

    def _existing(self, host: Host, session_id: str) -> dict[str, database.SessionRows]:
        """Return a session and its sub-agents in the database, by id."""
        path = self.path(host)
        try:
            sessions = database.read(path, session_id) if os.path.exists(path) else []
        except Unreadable as error:
            raise Refused(f"cannot read {path}: {error}; {base.NOTHING}") from None
        return {session.row["id"]: session for session in sessions}


# one database for all directories


def _stream(row: dict[str, Any]) -> str:
    id = str(row["id"])
    return AGENTS + (id if base.STREAM_PART.fullmatch(id) else sha256(id.encode()).hexdigest()[:32])


def _stored_sessions(stored: Stored) -> list[StoredSession]:
    """Return the stored sessions, the main one first. Raises StoreDamaged if they are
    inconsistent.
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
            f"the stored conversation has no session id; {base.NOTHING}", hint=base.CHECK
        )
    agents = [(row, readers.get(_stream(row))) for row in rows[1:]]
    return [
        StoredSession(row, _messages(read))
        for row, read in [(rows[0], readers[MAIN]), *agents]
        if read is not None
    ]


def _messages(read: Reader) -> Callable[[], Iterator[bytes]]:
    return lambda: (
        line for line in base.lines(read()) if lines.parse(wire.parse_line(line) or {})[0]
    )


def _import_directory(stored: Stored) -> Path:
    """Return a directory named after the content, so that restoring twice makes one copy."""
    assert stored.aside is not None
    parts = sorted(f"{stream.name} {stream.sha256}" for stream, _ in stored.streams)
    return stored.aside / sha256("\n".join(parts).encode()).hexdigest()[:16]


def _renamed(sessions: list[StoredSession], session_id: str) -> list[StoredSession]:
    """Return the sessions with another id for the main one."""
    first = sessions[0].row["id"]
    if first == session_id:
        return sessions
    ids = {each.row["id"]: documents.other_id(each.row["id"], session_id) for each in sessions} | {
        first: session_id
    }
    rename = documents.renaming((line for each in sessions for line in each.messages()), ids)
    rows = (wire.loads(rename(wire.dumps(each.row))) for each in sessions)
    return [
        StoredSession(row, _renamed_lines(rename, each.messages))
        for row, each in zip(rows, sessions, strict=True)
    ]


def _renamed_lines(
    rename: documents.Renamed, read: Callable[[], Iterator[bytes]]
) -> Callable[[], Iterator[bytes]]:
    return lambda: map(rename, read())


def _missing(current: Iterable[bytes], expected: Iterator[bytes]) -> bool | None:
    """Return whether `current` lacks messages of `expected`; None if it is no prefix of it."""
    for line in current:
        other = next(expected, None)
        if other is None or wire.loads(line) != wire.loads(other):
            return None
    return next(expected, None) is not None


def _document(session: StoredSession) -> Reader:
    return lambda: documents.document(documents.info_of(session.row), session.messages())


ADAPTER = OpenCode(Program("opencode", "opencode", "opencode", "opencode", "OPENCODE_DB"))
KILO = OpenCode(Program("kilo", "Kilo", "kilo", "kilo", "KILO_DB"))
