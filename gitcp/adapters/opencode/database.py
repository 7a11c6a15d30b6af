"""Read opencode's database; never write it.

A session is one row; messages and parts are rows whose `data` is JSON. They are returned as
`opencode export` writes them: with their ids, and the data verbatim.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from gitcp import wire
from gitcp.adapters.databases import Unreadable, opened

if TYPE_CHECKING:
    import sqlite3

DESCENDANTS = """
    with recursive line(id, depth) as (
        select id, 0 from session where id = ?
        union select session.id, depth + 1
        from session join line on session.parent_id = line.id where depth < 100
    ) select * from session where id in (select id from line) order by time_created, id
"""


SIZES = """
    with recursive line(id, root, depth) as (
        select id, id, 0 from session where parent_id is null
        union select session.id, line.root, depth + 1
        from session join line on session.parent_id = line.id where depth < 100
    ), part_size(id, bytes, parts) as (
        select session_id, sum(length(cast(data as blob))), count(*) from part group by session_id
    )
    select line.root as id, max(session.time_updated) as updated,
        coalesce(sum(part_size.bytes), 0) as bytes, coalesce(sum(part_size.parts), 0) as parts
    from line join session on session.id = line.id left join part_size on part_size.id = line.id
    group by line.root order by updated, line.root
"""


ORPHANS = "from part where message_id not in (select id from message)"

HEADING = "*** in database main ***"
"""Begins SQLite's list of what is wrong."""


class SessionRows(NamedTuple):
    """One session: its row by column, and its messages with their parts, in order, as JSON
    lines.
    """

    row: dict[str, Any]
    messages: tuple[bytes, ...]


def sessions_in(path: Path, directories: set[str]) -> list[tuple[str, float]]:
    """Return id and modification time (seconds) of the sessions in these directories,
    newest first, without sub-agents.

    Raises Unreadable.
    """
    marks = ",".join("?" * len(directories))
    condition = f"parent_id is null and directory in ({marks})"
    # S608: only question marks are interpolated
    query = f"select id, time_updated from session where {condition} order by 2 desc, 1"  # noqa: S608
    with opened(path) as database:
        return [
            (id, updated / 1000) for id, updated in database.execute(query, sorted(directories))
        ]


def updated(path: Path, session_id: str) -> float | None:
    """Return a session's modification time in seconds, None if it does not exist. Raises
    Unreadable.
    """
    with opened(path) as database:
        row = database.execute(
            "select time_updated from session where id = ?", (session_id,)
        ).fetchone()
        return None if row is None else row[0] / 1000


def all_sessions(path: Path) -> list[tuple[str, float, int, str]]:
    """Return id, modification time (seconds), size and stamp of each session with its sub-agents,
    oldest first. The stamp changes with the session.

    Raises Unreadable.
    """
    with opened(path) as database:
        return [
            (id, updated / 1000, size, f"{parts}-{size}-{updated}")
            for id, updated, size, parts in database.execute(SIZES)
        ]


def ids(path: Path) -> set[str]:
    """Return the ids of all sessions. Raises Unreadable."""
    with opened(path) as database:
        return {str(id) for (id,) in database.execute("select id from session")}


def row(path: Path, session_id: str) -> dict[str, Any]:
    """Return the row of a session by column, empty if there is none. Raises Unreadable."""
    with opened(path) as database:
        match = database.execute("select * from session where id = ?", (session_id,)).fetchone()
        return dict(match) if match else {}


def read(path: Path, session_id: str) -> list[SessionRows]:
    """Return a session, followed by its sub-agents, from one transaction; empty if it does not
    exist.

    Raises Unreadable.
    """
    with opened(path) as database:
        database.execute("begin")
        rows = [dict(row) for row in database.execute(DESCENDANTS, (session_id,))]
        rows.sort(key=lambda row: row["id"] != session_id)
        return [SessionRows(row, tuple(_messages(database, row["id"]))) for row in rows]


def last_model(path: Path) -> str | None:
    """Return the model of the last prompt, as `provider/model`; None if there is none. Raises
    Unreadable.
    """
    query = "select data from message order by time_created desc limit 100"
    with opened(path) as database:
        for (data,) in database.execute(query):
            fields = wire.parse_line(data.encode("utf-8", "surrogateescape")) or {}
            model = fields.get("model")
            if fields.get("role") == "user" and isinstance(model, dict):
                return f"{model.get('providerID')}/{model.get('modelID')}"
    return None


def damage(path: Path) -> str:
    """Return what SQLite finds wrong with the database, "" for nothing. Reads all of it."""
    try:
        with opened(path) as database:
            (verdict,) = database.execute("pragma quick_check(1)").fetchone()
    except Unreadable as error:
        return str(error)
    return "" if verdict == "ok" else " ".join(str(verdict).split()).removeprefix(HEADING).strip()


def orphans(path: Path) -> int:
    """Return the number of parts whose message is missing, which neither opencode nor a capture
    reads. Raises Unreadable.
    """
    with opened(path) as database:
        (count,) = database.execute(f"select count(*) {ORPHANS}").fetchone()
        return int(count)


def _messages(database: sqlite3.Connection, session_id: str) -> Iterator[bytes]:
    parts: dict[str, list[str]] = {}
    query = "select id, message_id, data from part where session_id = ? order by id"
    for id, message_id, data in database.execute(query, (session_id,)):
        parts.setdefault(message_id, []).append(
            _with_ids(data, id=id, sessionID=session_id, messageID=message_id)
        )
    query = "select id, data from message where session_id = ? order by time_created, id"
    for id, data in database.execute(query, (session_id,)):
        info = _with_ids(data, id=id, sessionID=session_id)
        yield f'{{"info":{info},"parts":[{",".join(parts.get(id, ()))}]}}\n'.encode(
            "utf-8", "surrogateescape"
        )


def _with_ids(data: object, **ids: str) -> str:
    """Return the text of an object with ids appended to it: only the ids if it is no text, as a
    damaged or edited row may be.
    """
    text = data if isinstance(data, str) else ""
    inner = text.strip().removeprefix("{").removesuffix("}").strip()
    extra = wire.dumps(ids).decode().strip()[1:-1]
    return f"{{{inner},{extra}}}" if inner else f"{{{extra}}}"
