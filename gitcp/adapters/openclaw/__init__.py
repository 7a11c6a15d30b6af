"""OpenClaw: a SQLite database for each of its agents, which is read and never written.

    ~/.openclaw/agents/<agent>/agent/openclaw-agent.sqlite    table transcript_events

An event is an entry of Pi's, of which OpenClaw is made: the first has the id and the `cwd`, and the
others form a tree. A conversation is stored as its events, one a line. Nothing but OpenClaw itself
writes its database, so no conversation is placed for it. As tried with 2026.9.6.
"""

from __future__ import annotations

import os
from base64 import b64encode
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gitcp import wire
from gitcp.adapters import base, directories, generic, pi
from gitcp.adapters.base import Found, Listed, Origin, Placement, Stored
from gitcp.adapters.databases import Unreadable, opened
from gitcp.errors import ConversationUnreadable
from gitcp.model import MAIN, Agent, Capture, Host, Source

if TYPE_CHECKING:
    import sqlite3

SESSIONS = """
    select windows.session_id, windows.updated_at, head.event_json,
        (select max(seq) from transcript_events where session_id = windows.session_id)
    from session_windows as windows join transcript_events as head
        on head.session_id = windows.session_id and head.seq = 0
    where windows.spawned_by is null
    order by windows.updated_at desc, windows.session_id
"""
AGENTS = """
    with recursive team(session_id) as (
        values(?)
        union
        select child.session_id from team join session_windows as parent using (session_id)
        join session_windows as child on child.spawned_by = parent.session_key
        where parent.created_at = (select max(created_at) from session_windows
            where session_key = child.spawned_by and created_at <= child.created_at)
    )
    select session_id from team where session_id <> ? order by session_id
"""
"""The sessions that a session's agent spawned, and those that these did: a key has a new window
after each reset, and an agent belongs to the one that was open when it was spawned.
"""
EVENTS = """
    select seq, event_json, event_zstd from transcript_events where session_id = ? order by seq
"""


class OpenClaw(pi.Pi):
    """OpenClaw's sessions, each with those of its sub-agents."""

    NAME = "openclaw"
    latest = ()
    kinds = frozenset((*pi.Pi.kinds, "reset"))

    # ------------------------------------------------------------ finding

    def files(self, host: Host) -> Iterable[Path]:
        """Return the databases of all agents."""
        return base.glob(_agents(host), "*/agent/openclaw-agent.sqlite")

    def find(self, cwd: Path, host: Host) -> tuple[Found, ...]:
        """Return the sessions of `cwd` or its repository's root, newest first."""
        roots = base.roots(cwd)
        found = [
            each for each, at, _ in self._sessions(host) if at and directories.real(at) in roots
        ]
        return tuple(sorted(found, key=lambda each: (-each.modified, each.session_id)))

    def located(self, session_id: str, host: Host) -> Found | None:
        """Return the session with this id, in any directory."""
        found = (each for each, _, _ in self._sessions(host) if each.session_id == session_id)
        return next(found, None)

    def list_all(self, host: Host) -> Iterator[Listed]:
        """Yield the sessions of all directories."""
        for found, _, last in self._sessions(host):
            stamp = f"{last}-{found.modified}"
            yield Listed(found, self._size(found), stamp, partial(self.capture, found))

    def origin(self, found: Found) -> Origin:
        """Return where a session ran."""
        first = next(iter(_events_of(found)), b"")
        cwd = base.string(wire.parse_line(first) or {}, "cwd")
        return Origin((cwd,) if cwd else ())

    # one directory for all
    def watched(self, cwd: Path, host: Host) -> tuple[Path, ...]:  # noqa: ARG002
        """Return the databases and their write-ahead logs, and their directories."""
        agents = _agents(host)
        each_agents = [each for each in base.glob(agents, "*") if each.is_dir()]
        files = (
            path
            for file in self.files(host)
            for path in (file.parent, file, file.with_name(f"{file.name}-wal"))
        )
        return (agents, *each_agents, *files)

    def running(self, host: Host) -> str | None:  # noqa: ARG002 -- the protocol's
        """Return None: OpenClaw does not tell its commands which session runs them."""
        return None

    def recognise(self, fields: Mapping[str, Any]) -> str | None:  # noqa: ARG002
        """Return None: a file of its entries is read as one of Pi's."""
        return None

    def command(self, session_id: str) -> tuple[str, ...]:  # noqa: ARG002
        """Return no command: a conversation that was placed cannot be resumed."""
        return ()

    def _sessions(self, host: Host) -> Iterator[tuple[Found, str | None, int]]:
        """Yield each session, its directory, and the number of its last event; none of a database
        that cannot be read.
        """
        for path in self.files(host):
            try:
                with opened(path) as database:
                    rows = database.execute(SESSIONS).fetchall()
            except Unreadable:
                continue
            for id, updated, head, last in rows:
                if isinstance(id, str) and base.SESSION_ID.fullmatch(id):
                    modified = updated / 1000 if isinstance(updated, int) else base.modified(path)
                    found = Found(self.NAME, id, path, modified)
                    first = wire.parse_line(_text(head)) or {}
                    yield found, base.string(first, "cwd"), last if isinstance(last, int) else 0

    # ------------------------------------------------------------ capturing

    def capture(self, found: Found) -> Capture:
        """Capture a session. Raises ConversationUnreadable if the database cannot be read or lacks
        it.
        """
        try:
            with opened(found.path) as database:
                lines = list(_events(database, found.session_id))
                sources = [
                    Source(f"agents/{id}", data=b"".join(_events(database, id)))
                    for id in _agents_of(database, found.session_id)
                ]
        except Unreadable as error:
            raise ConversationUnreadable(
                f"cannot read {found.path}: {error}", hint="openclaw doctor"
            ) from None
        if not lines:
            raise ConversationUnreadable(
                f"{found.path} has no session {found.session_id}", hint="openclaw sessions"
            )
        cwd = base.string(wire.parse_line(lines[0]) or {}, "cwd")
        main = Source(MAIN, data=b"".join(lines), place=f"{found.session_id}.jsonl")
        agent = Agent(self.NAME, found.session_id)
        return Capture(agent, self.NAME, (main, *sources), Path(cwd) if cwd else None)

    # the protocol's
    def place(self, stored: Stored, cwd: Path, host: Host, *, new_id: str) -> Placement:  # noqa: ARG002
        """Put the conversation where people can read it."""
        why = "a conversation is not restored into OpenClaw's database; this one"
        return generic.set_aside(stored, why)

    def _size(self, found: Found) -> int:
        try:
            return sum(map(len, _events_of(found)))
        except Unreadable:
            return 0


def _agents(host: Host) -> Path:
    chosen = host.env.get("OPENCLAW_STATE_DIR", "")
    home = Path(chosen) if os.path.isabs(chosen) else host.home / ".openclaw"
    return home / "agents"


def _events_of(found: Found) -> list[bytes]:
    """Return the events of a session as lines. Raises Unreadable."""
    with opened(found.path) as database:
        return list(_events(database, found.session_id))


def _events(database: sqlite3.Connection, session_id: str) -> Iterator[bytes]:
    """Yield the events of a session as lines. One that OpenClaw has compressed stays so, and is not
    shown: Python reads that only since 3.14.
    """
    for number, event, compressed in database.execute(EVENTS, (session_id,)).fetchall():
        if isinstance(compressed, bytes):
            data = b64encode(compressed).decode()
            yield wire.dumps({"type": "compressed", "seq": number, "zstd": data}).strip() + b"\n"
        else:
            yield _text(event).replace(b"\n", b" ") + b"\n"


def _agents_of(database: sqlite3.Connection, session_id: str) -> list[str]:
    """Return the ids of the sessions of a session's sub-agents."""
    rows = database.execute(AGENTS, (session_id, session_id)).fetchall()
    return [id for (id,) in rows if isinstance(id, str) and base.STREAM_PART.fullmatch(id)]


def _text(value: object) -> bytes:
    return value.encode("utf-8", "surrogateescape") if isinstance(value, str) else b""


ADAPTER = OpenClaw()
