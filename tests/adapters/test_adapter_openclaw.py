"""OpenClaw's sessions, in a database as OpenClaw makes it: saved and shown, continued by other
agents, and never written back.
"""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from gitcp import adapters
from gitcp.adapters.openclaw import ADAPTER
from gitcp.conformance import stored
from gitcp.errors import ConversationUnreadable
from gitcp.model import Digest, Host

from driver import Project

ID = "864f4824-08b1-4ac1-8202-016c00dba5e8"
SUB = "964f4824-08b1-4ac1-8202-016c00dba5e8"
TIME = "2026-11-28T19:22:49.358Z"
TABLES = """
create table session_windows (session_id text primary key, session_key text not null,
    created_at integer not null, updated_at integer not null, parent_session_key text,
    spawned_by text) strict;
create table transcript_events (session_id text not null, seq integer not null, event_json text,
    event_zstd blob, primary key (session_id, seq)) strict;
"""


def events(cwd: Path, id: str = ID) -> list[dict[str, Any]]:
    """What OpenClaw 2026.9.6 writes for a prompt that is answered after a call, shortened."""

    def message(entry: str, role: str, content: Any, **more: Any) -> dict[str, Any]:
        fields = {"role": role, "content": content, "__openclaw": {"runId": "r1"}, **more}
        return {"type": "message", "id": entry, "timestamp": TIME, "message": fields}

    spent = {"input": 10, "output": 5, "cacheRead": 0, "cacheWrite": 0, "cost": {"total": 0}}
    call = {"type": "toolCall", "id": "call_1", "name": "write", "arguments": {"path": "a.txt"}}
    done = [{"type": "text", "text": "Successfully wrote 4 bytes"}]
    return [
        {"type": "session", "version": 4, "id": id, "timestamp": TIME, "cwd": str(cwd)},
        {"type": "custom", "customType": "model-snapshot", "data": {"modelId": "m"}, "id": "e1"},
        message("e2", "user", "größer, please"),
        message("e3", "assistant", [call], model="m", usage=spent),
        message("e4", "toolResult", done, toolCallId="call_1", toolName="write", isError=False),
        message("e5", "assistant", [{"type": "text", "text": "Wrote it."}], model="m", usage=spent),
    ]


def put(home: Path, cwd: Path, id: str = ID, *, key: str = "", made: int = 1, by: str = "") -> Path:
    """Write a session into the database of an agent; that of a sub-agent `by` another's key."""
    path = home / ".openclaw/agents/main/agent/openclaw-agent.sqlite"
    path.parent.mkdir(parents=True, exist_ok=True)
    is_new = not path.exists()
    with closing(sqlite3.connect(path)) as database, database:
        if is_new:
            database.executescript(TABLES)
        row = (id, key or f"agent:main:{id}", made, 1795893771908, by or None, by or None)
        database.execute("insert into session_windows values (?, ?, ?, ?, ?, ?)", row)
        for number, event in enumerate(events(cwd, id)):
            text = json.dumps(event, ensure_ascii=False, separators=(",", ":"))
            database.execute(
                "insert into transcript_events values (?, ?, ?, null)", (id, number, text)
            )
    return path


def host(home: Path, **env: str) -> Host:
    return Host(env, home, lambda: datetime(2026, 11, 28, 12, tzinfo=UTC))


def test_found_and_captured(tmp_path: Path) -> None:
    """A session is found by the directory in its first event, a sub-agent's is none, and its events
    are stored as they are; a compressed one is kept, and named.
    """
    app = tmp_path / "app"
    app.joinpath(".git").mkdir(parents=True)
    path = put(tmp_path, app)
    put(tmp_path, app, SUB, by=f"agent:main:{ID}")
    (found,) = ADAPTER.find(app, host(tmp_path))
    assert (found.session_id, found.path, found.modified) == (ID, path, 1795893771.908)
    assert ADAPTER.find(tmp_path, host(tmp_path)) == ()
    assert ADAPTER.find(app, host(tmp_path, OPENCLAW_STATE_DIR="/nowhere")) == ()
    assert ADAPTER.origin(found).directories == (str(app),)
    capture = ADAPTER.capture(found)
    lines = (capture.sources[0].data or b"").splitlines(keepends=True)
    assert [json.loads(line) for line in lines] == events(app)
    (listed,) = ADAPTER.list_all(host(tmp_path))
    assert listed.bytes == sum(map(len, lines))
    assert {path, path.with_name(f"{path.name}-wal")} <= {*ADAPTER.watched(app, host(tmp_path))}

    with closing(sqlite3.connect(path)) as database, database:
        database.execute("insert into transcript_events values (?, 6, null, ?)", (ID, b"\x28\xb5"))
    source, _ = ADAPTER.capture(found).sources
    assert (source.data or b"").splitlines(keepends=True)[:-1] == lines
    digest = ADAPTER.digest(Digest(), (source.data or b"").splitlines())
    assert (digest.messages, digest.last_prompt) == (4, "größer, please")
    assert digest.unknown == ("compressed",)


def test_sub_agents(tmp_path: Path) -> None:
    """A sub-agent is saved with the session that was open under its key when it was spawned, with
    those that it spawned itself; a fork is a session of its own.
    """
    later, fork, below = (f"{n}{ID[1:]}" for n in "123")
    put(tmp_path, tmp_path, key="main", made=1)
    put(tmp_path, tmp_path, SUB, key="sub", made=2, by="main")
    put(tmp_path, tmp_path, below, key="below", made=5, by="sub")
    put(tmp_path, tmp_path, later, key="main", made=4)
    path = put(tmp_path, tmp_path, fork, made=6, by="main")
    with closing(sqlite3.connect(path)) as database, database:
        database.execute("update session_windows set spawned_by = null where created_at = 6")
    by_id = {each.found.session_id: each for each in ADAPTER.list_all(host(tmp_path))}
    assert set(by_id) == {ID, later, fork}
    names = {id: [each.name for each in listed.capture().sources] for id, listed in by_id.items()}
    assert names == {
        ID: ["main", f"agents/{below}", f"agents/{SUB}"],
        later: ["main"],
        fork: ["main"],
    }


def test_a_database_that_cannot_be_read(tmp_path: Path) -> None:
    """Nothing is found in it, and what is asked of it says why; so does a session that is gone."""
    path = put(tmp_path, tmp_path)
    found = ADAPTER.located(ID, host(tmp_path))
    assert found is not None
    with closing(sqlite3.connect(path)) as database, database:
        database.execute("delete from transcript_events")
    with pytest.raises(ConversationUnreadable, match=f"has no session {ID}"):
        ADAPTER.capture(found)
    path.write_bytes(b"not a database")
    assert list(ADAPTER.list_all(host(tmp_path))) == []
    with pytest.raises(ConversationUnreadable, match="cannot read"):
        ADAPTER.capture(found)


def test_read_as_a_dialogue(tmp_path: Path) -> None:
    """Its entries are Pi's: calls have their results, and tokens are counted."""
    put(tmp_path, tmp_path)
    found = ADAPTER.located(ID, host(tmp_path))
    assert found is not None
    capture = ADAPTER.capture(found)
    dialogue = adapters.reader("openclaw").read(stored(capture))
    assert next(item.text() for item in dialogue.items) == "größer, please"
    (call,) = (call for item in dialogue.items for call in item.calls())
    assert (call.name, call.result.text()) == ("write", "Successfully wrote 4 bytes")
    spent = adapters.usage("openclaw", (capture.sources[0].data or b"").splitlines())
    assert [(each.input, each.output) for each in spent] == [(10, 5), (10, 5)]
    assert "openclaw" not in adapters.CONVERTIBLE


def test_saved_and_restored(project: Project, sealed: Path) -> None:
    """By hand, without hooks; a restore leaves the database alone and writes a file."""
    path = put(sealed, project.root)
    project.write("a.txt", "one\n")
    assert "(1 file changed, 4 messages)" in project.gitcp("save", check=0).out
    before = path.read_bytes()
    project.write("a.txt", "two\n")
    said = project.gitcp("restore", "1", "--yes", check=0).out
    assert "a conversation is not restored into OpenClaw's database; this one was written" in said
    assert (project.read("a.txt"), path.read_bytes()) == (b"one\n", before)
    refused = project.gitcp("resume", "1", "--print", check=1).err
    assert "is of OpenClaw, into which no conversation is restored" in refused
