"""opencode: its sessions read from its database, kept, understood as far as it goes, and made ready
to be imported.
"""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import closing
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from back import restore, save, undo
from hypothesis import given
from hypothesis import strategies as st
from listed import ids

from gitcp.adapters import converter
from gitcp.adapters.base import Adapter, Found, Message, Placement, Stored
from gitcp.adapters.opencode import ADAPTER as OPENCODE
from gitcp.dialogue import NOTICES, File, Text
from gitcp.errors import ConversationUnreadable, Refused, StoreDamaged
from gitcp.model import Agent, Capture, Digest, Host, LastMessage, Stream
from gitcp.restoring.placing import Placed, write
from gitcp.value import replace

from driver import Project

ID = "ses_e015b9a4affeCV4kKz0s1foBb5"
CHILD = "ses_e015b5ed5ffe6BmpXdG9AXel8D"
NEW = "99999999-8888-4777-8666-555555555555"

SCHEMA = """
    create table if not exists session (id text primary key, project_id text, parent_id text, slug text,
        directory text, path text, title text, version text,
        summary_additions integer, summary_files integer, tokens_input integer, cost real,
        permission text, model text, revert text, time_created integer, time_updated integer, of_next_year text);
    create table if not exists message (id text primary key, session_id text, time_created integer,
        time_updated integer, data text);
    create table if not exists part (id text primary key, message_id text, session_id text, data text);
"""  # noqa: E501


def host(home: Path, env: Mapping[str, str] | None = None) -> Host:
    return Host(env or {}, home, lambda: datetime(2026, 11, 21, 12, 0, tzinfo=UTC))


def message_id(number: int) -> str:
    return f"msg_1fea46{number:06d}VZprgq0M01V68m"


# -------------------------------------------------------- a database in the shape that opencode has


class Database:
    """The agent's database in a home, with sessions that say what they are told to."""

    def __init__(self, home: Path) -> None:
        self.path = home / ".local" / "share" / "opencode" / "opencode.db"
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.open() as database:
            database.executescript(SCHEMA)
            self.count = int(database.execute("select count(*) from message").fetchone()[0])

    def open(self) -> Any:
        return closing(sqlite3.connect(self.path, isolation_level=None))

    def session(
        self,
        cwd: Path,
        id: str = ID,
        *,
        updated: int = 1000,
        parent: str | None = None,
        **more: Any,
    ) -> None:
        """A new session, or another in its place."""
        row: dict[str, Any] = {
            "id": id,
            "project_id": "0" * 40,
            "parent_id": parent,
            "slug": "cosmic-island",
            "title": "a title",
        }
        row |= {
            "directory": os.path.realpath(cwd),
            "path": "",
            "version": "1.18.33",
            "tokens_input": 60,
            "cost": 0.5,
        }
        row |= {
            "summary_additions": 2,
            "permission": '[{"action":"deny"}]',
            "model": '{"id":"m"}',
            **more,
        }
        row |= {"time_created": updated - 10, "time_updated": updated}
        names, marks = ",".join(row), ",".join("?" * len(row))
        with self.open() as database:
            database.execute(
                f"insert or replace into session ({names}) values ({marks})", list(row.values())
            )

    def say(self, role: str, *parts: dict[str, Any], session_id: str = ID) -> str:
        """A message; its id."""
        self.count += 1
        id, data = (
            message_id(self.count),
            {"role": role, "time": {"created": self.count}, "of": {"next": "year"}},
        )
        data |= (
            {"modelID": "m", "parentID": message_id(self.count - 1)} if role == "assistant" else {}
        )
        with self.open() as database:
            database.execute(
                "insert into message values (?,?,?,?,?)",
                (id, session_id, self.count, 0, _dumps(data)),
            )
            for number, part in enumerate(parts):
                own = f"prt_1fea46{self.count:03d}{number:03d}ELbXU5sp467XCJ"
                database.execute(
                    "insert into part values (?,?,?,?)", (own, id, session_id, _dumps(part))
                )
        return id


def _dumps(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def text(said: str, **more: Any) -> dict[str, Any]:
    return {"type": "text", "text": said, **more}


def tool(name: str, output: str, **input: Any) -> dict[str, Any]:
    state = {
        "status": "completed",
        "input": input,
        "output": output,
        "metadata": {"sessionId": CHILD},
    }
    return {"type": "tool", "tool": name, "callID": "c1", "state": state}


@pytest.fixture
def agent(project: Project, sealed: Path) -> Database:
    """A session of one turn in the project, with a sub-agent's."""
    database = Database(sealed)
    database.session(project.root)
    database.say("user", text("make a file"), text("a reminder", synthetic=True))
    database.say(
        "assistant",
        {"type": "step-start"},
        {"type": "reasoning", "text": "A file."},
        tool("write", "größer", path="b"),
    )
    database.say("assistant", text("All done."))
    database.session(project.root, CHILD, parent=ID)
    database.say("user", text("look around"), session_id=CHILD)
    return database


def captured(project: Project, home: Path) -> Capture:
    return OPENCODE.capture(OPENCODE.find(project.root, host(home))[0])


def main_of(capture: Capture) -> list[bytes]:
    data = capture.sources[0].data
    assert data is not None
    return data.splitlines()


# ---------------------------------------------------------------- finding


def test_it_satisfies_the_protocol() -> None:
    """mypy checks the rest here."""
    typed: Adapter = OPENCODE

    assert typed.NAME == "opencode"


def test_find(project: Project, agent: Database, sealed: Path) -> None:
    """The sessions of this directory and of the repository's root, newest first; no sub-agent's, no
    other's.
    """
    below = project.root / "below"
    below.mkdir()
    agent.session(below, "ses_below0000000000000000000001", updated=2000)
    agent.session(sealed, "ses_other0000000000000000000001", updated=3000)

    found = ids(OPENCODE.find(below, host(sealed)))

    assert found == ["ses_below0000000000000000000001", ID]
    assert OPENCODE.find(below, host(sealed))[1] == Found("opencode", ID, agent.path, 1.0)
    assert ids(OPENCODE.find(project.root, host(sealed))) == [ID]


def test_find_where_it_is_said(
    project: Project, agent: Database, sealed: Path, tmp_path: Path
) -> None:
    """The variables that opencode knows, and a home without it."""
    at = {"XDG_DATA_HOME": str(agent.path.parents[1])}, {"OPENCODE_DB": str(agent.path)}
    for env in at:
        assert ids(OPENCODE.find(project.root, host(tmp_path, env))) == [ID]
    assert OPENCODE.find(project.root, host(tmp_path)) == ()
    agent.path.write_bytes(b"no database at all, " * 100)
    assert OPENCODE.find(project.root, host(sealed)) == ()


def test_nothing_is_made_beside_the_database(
    agent: Database, project: Project, sealed: Path
) -> None:
    """Reading leaves the directory as it was, also while a program has the database open."""
    before = sorted(path.name for path in agent.path.parent.iterdir())
    captured(project, sealed)
    assert sorted(path.name for path in agent.path.parent.iterdir()) == before
    with agent.open() as database:
        database.execute("pragma journal_mode=wal")
        database.execute("update session set title = 'new' where id = ?", (ID,))
        names = sorted(path.name for path in agent.path.parent.iterdir())
        assert json.loads(main_of(captured(project, sealed))[0])["session"]["title"] == "new"
        assert sorted(path.name for path in agent.path.parent.iterdir()) == names
        assert set(OPENCODE.watched(project.root, host(sealed))) >= {
            agent.path.parent / name for name in names[:1]
        }


def test_running(sealed: Path) -> None:
    """opencode does not say which session runs a command."""
    assert OPENCODE.running(host(sealed, {"OPENCODE": "1", "OPENCODE_PID": "1"})) is None


# ---------------------------------------------------------------- capturing


def test_capture(project: Project, agent: Database, sealed: Path) -> None:
    """Each message as the database has it, to the byte, with its ids behind; the rows; the
    sub-agent's messages.
    """
    capture = captured(project, sealed)

    assert (capture.agent, capture.format) == (Agent("opencode", ID), "opencode")
    assert [source.name for source in capture.sources] == ["main", "sessions", f"agents/{CHILD}"]
    head, first, *others = main_of(capture)
    assert json.loads(head) == {"session": {"id": ID, "title": "a title", "version": "1.18.33"}}
    info = b'{"role":"user","time":{"created":1},"of":{"next":"year"},"id":"%s","sessionID":"%s"}'
    assert first.startswith(
        b'{"info":' + info % (message_id(1).encode(), ID.encode()) + b',"parts":[{"type":"text",'
    )
    assert "größer".encode() in others[0]
    assert len(others) == 2
    rows = [json.loads(line) for line in (capture.sources[1].data or b"").splitlines()]
    assert [(row["id"], row["parent_id"], "of_next_year" in row) for row in rows] == [
        (ID, None, True),
        (CHILD, ID, True),
    ]


def test_capture_of_what_is_not_there(project: Project, agent: Database, sealed: Path) -> None:
    """An unknown session, and a file that is no database, make no checkpoint and say why."""
    with pytest.raises(ConversationUnreadable, match="has no session"):
        OPENCODE.capture(Found("opencode", "ses_no", agent.path, 0))
    with pytest.raises(ConversationUnreadable, match="cannot read"):
        OPENCODE.capture(Found("opencode", ID, sealed / ".gitconfig" / "no", 0))
    project.write("chat.json", "{}")
    refused = project.gitcp("save", "--agent", "opencode", "--conversation", "chat.json")
    assert refused.code == 1
    assert "cannot read" in refused.err


@pytest.mark.parametrize("value", ["null", "x'ff00'"])
def test_rows_without_text(project: Project, agent: Database, sealed: Path, value: str) -> None:
    """They have only their ids, and the rest of the session is saved."""
    whole = main_of(captured(project, sealed))
    with agent.open() as database:
        database.execute(
            f"update part set data = {value} where message_id = ?",
            (message_id(3),),
        )
    *others, last = main_of(captured(project, sealed))
    assert others == whole[:-1]
    (part,) = json.loads(last)["parts"]
    assert sorted(part) == ["id", "messageID", "sessionID"]
    assert project.json("save")["saved"]


def test_a_damaged_database_is_named(project: Project, agent: Database, sealed: Path) -> None:
    """A page that was not written: the save has the files and says to run doctor, and doctor what
    is wrong, with a command that recovers the rest.
    """
    for number in range(60):
        agent.say("user", text(f"{number:03}" + "x" * 500))
    assert "no problems" in project.gitcp("doctor", check=0).out
    whole = agent.path.read_bytes()
    for at in range(4096, len(whole), 4096):
        agent.path.write_bytes(whole[:at] + bytes(2048) + whole[at + 2048 :])
        assert OPENCODE.problem(host(sealed)) is not None, at
    before = agent.path.read_bytes()

    project.write("work.txt", "kept\n")
    done = project.gitcp("save", "--agent", "opencode", check=3)
    assert "1 file changed, no conversation" in done.out
    assert f"note: cannot read {agent.path}: database disk image is malformed" in done.err
    assert "hint: gitcp doctor" in done.err
    said = project.gitcp("doctor", check=1).out
    page = len(whole) // 4096
    assert f"opencode's database {agent.path} is damaged: Page {page}: " in said
    assert "its conversations may not be saved" in said
    assert f"sqlite3 -readonly {agent.path} .dump | " in said
    assert agent.path.read_bytes() == before


def test_parts_without_a_message_are_named(project: Project, agent: Database, sealed: Path) -> None:
    """Their message is lost, so opencode does not read them: doctor counts them, and shows how to
    see them. The rest is saved.
    """
    assert OPENCODE.problem(host(sealed)) is None
    with agent.open() as database:
        database.execute("delete from message where id = ?", (message_id(1),))
        (lost,) = database.execute(
            "select count(*) from part where message_id = ?", (message_id(1),)
        ).fetchone()
    found = OPENCODE.problem(host(sealed))
    assert found is not None
    assert f"{agent.path} has {lost} parts without a message" in found[0]
    assert str(agent.path) in found[1]
    assert found[1].endswith(
        '"select * from part where message_id not in (select id from message)"'
    )
    said = project.gitcp("doctor", check=1).out
    assert f"{lost} parts without a message" in said
    assert project.json("save")["saved"]


@pytest.mark.skipif(not shutil.which("sqlite3"), reason="needs the program sqlite3")
def test_what_doctor_says_recovers_the_rest(
    project: Project, agent: Database, sealed: Path
) -> None:
    """Without the page of some messages, the session and the other messages are read."""
    for number in range(60):
        agent.say("user", text(f"{number:03}" + "x" * 500))
    whole = agent.path.read_bytes()
    original = main_of(captured(project, sealed))
    last = whole.rindex(b'"role":"user"') // 4096 * 4096
    agent.path.write_bytes(whole[:last] + bytes(4096) + whole[last + 4096 :])
    found = OPENCODE.problem(host(sealed))
    assert found is not None
    subprocess.run(found[1], shell=True, check=True)

    copy = agent.path.with_name("opencode.recovered.db")
    rest = main_of(OPENCODE.capture(Found("opencode", ID, copy, 0)))
    assert 50 < len(rest) < len(original)
    assert rest == original[: len(rest)]


# ---------------------------------------------------------------- understanding


def test_digest(project: Project, agent: Database, sealed: Path) -> None:
    """What listings show; made at once or in two steps, it is the same."""
    lines = main_of(captured(project, sealed))

    whole = OPENCODE.digest(Digest(), lines)

    assert whole == Digest(
        messages=3,
        last_message=LastMessage("assistant", "All done.", message_id(3)),
        last_prompt="make a file",
        title="a title",
        version="1.18.33",
        model="m",
    )
    for cut in range(5):
        assert OPENCODE.digest(OPENCODE.digest(Digest(), lines[:cut]), lines[cut:]) == whole


def test_messages(project: Project, agent: Database, sealed: Path) -> None:
    """Each part that is shown, in order, with the time of its message."""

    def at(milliseconds: int) -> str:
        return f"1970-01-01T00:00:00.{milliseconds:03}Z"

    assert list(OPENCODE.messages(main_of(captured(project, sealed)))) == [
        Message("user", "make a file", message_id(1), at(1)),
        Message("system", "a reminder", message_id(1), at(1)),
        Message("thinking", "A file.", message_id(2), at(2)),
        Message("assistant", '{"path":"b"}', message_id(2), at(2), "write", "c1"),
        Message("tool", "größer", message_id(2), at(2), "write", "c1"),
        Message("assistant", "All done.", message_id(3), at(3)),
    ]


def test_before(project: Project, agent: Database, sealed: Path) -> None:
    """The line of a user's message; others are none."""
    lines = main_of(captured(project, sealed))

    assert OPENCODE.before(lines, message_id(1)) == len(lines[0]) + 1
    assert OPENCODE.before(lines, message_id(2)) is None
    assert OPENCODE.before(lines, "no") is None


@pytest.mark.parametrize(
    "data", [b"", b"null", b"[1]", b'{"info":1}', b'{"info":{"role":[]},"parts":[1]}', b"\xff"]
)
def test_odd_lines_are_passed_over(data: bytes) -> None:
    """Whatever a line holds."""
    assert list(OPENCODE.messages([data])) == []
    assert replace(OPENCODE.digest(Digest(), [data]), unknown=()) == Digest()
    assert OPENCODE.before([data], "x") is None


# ---------------------------------------------------------------- placing


def stored(capture: Capture, aside: Path) -> Stored:
    def reader(data: bytes) -> Any:
        return lambda: iter([data[:50], data[50:]])

    kept = [(source.name, source.data or b"") for source in capture.sources]
    streams = tuple(
        (Stream(name, len(data), sha256(data).hexdigest()), reader(data)) for name, data in kept
    )
    return Stored(capture.agent or Agent("opencode"), streams, aside)


def placed(what: Stored, cwd: Path, home: Path, new_id: str = NEW) -> Placement:
    return OPENCODE.place(what, cwd, host(home), new_id=new_id)


def documents(placement: Placement) -> Iterator[dict[str, Any]]:
    """What would be imported, as the files say that were written."""
    assert write(Placed("opencode", 0, placement, Path())) is None
    for item, command in zip(placement.files, placement.prepare, strict=True):
        assert command == ("opencode", "import", str(item.path))
        yield json.loads(item.path.read_bytes())


def test_place_where_all_is_there(
    project: Project, agent: Database, sealed: Path, tmp_path: Path
) -> None:
    """Nothing is written and nothing is to be imported."""
    placement = placed(stored(captured(project, sealed), tmp_path), project.root, sealed)

    assert placement == Placement(ID, (), ("opencode", "--session", ID))


def test_place_in_an_empty_home(
    project: Project, agent: Database, sealed: Path, tmp_path: Path
) -> None:
    """A document for the session and one for its sub-agent's, as `opencode export` describes
    them.
    """
    placement = placed(stored(captured(project, sealed), tmp_path / "aside"), tmp_path, tmp_path)

    assert placement.command == ("opencode", "--session", ID)
    main, child = documents(placement)
    assert main["info"] == {
        "id": ID,
        "slug": "cosmic-island",
        "projectID": "0" * 40,
        "directory": str(project.root),
        "path": "",
        "title": "a title",
        "model": {"id": "m"},
        "version": "1.18.33",
        "summary": {"additions": 2, "deletions": 0, "files": 0},
        "cost": 0.5,
        "tokens": {"input": 60, "output": 0, "reasoning": 0, "cache": {"read": 0, "write": 0}},
        "permission": [{"action": "deny"}],
        "time": {"created": 990, "updated": 1000},
    }
    lines = main_of(captured(project, sealed))
    assert main["messages"] == [json.loads(line) for line in lines[1:]]
    assert (child["info"]["id"], child["info"]["parentID"], len(child["messages"])) == (
        CHILD,
        ID,
        1,
    )
    assert [
        item.how
        for item in placed(
            stored(captured(project, sealed), tmp_path / "aside"), tmp_path, tmp_path
        ).files
    ] == [
        "same",
        "same",
    ]


def test_place_completes(project: Project, agent: Database, sealed: Path, tmp_path: Path) -> None:
    """A session that has only the beginning gets the rest under its own id."""
    whole = stored(captured(project, sealed), tmp_path / "aside")
    with agent.open() as database:
        database.execute("delete from message where id = ?", (message_id(3),))

    placement = placed(whole, project.root, sealed)

    assert placement.session_id == ID
    assert [len(document["messages"]) for document in documents(placement)] == [3]


def test_place_of_what_went_on(
    project: Project, agent: Database, sealed: Path, tmp_path: Path
) -> None:
    """Every id is another one, in the same order; nothing else is. The same new id gives the same
    ids again.
    """
    capture = captured(project, sealed)
    agent.say("user", text("now another"))

    placement = placed(stored(capture, tmp_path / "aside"), project.root, sealed)

    new = placement.session_id
    assert new is not None
    assert (new[:16], new == ID, len(new)) == (ID[:16], False, len(ID))
    assert placement.command == ("opencode", "--session", new)
    assert ID in placement.note
    main, child = documents(placement)
    was = [json.loads(line) for line in main_of(capture)[1:]]
    renamed = {ID: new, CHILD: child["info"]["id"]}
    for old, now in zip(was, main["messages"], strict=True):
        renamed[old["info"]["id"]] = now["info"]["id"]
        renamed |= {a["id"]: b["id"] for a, b in zip(old["parts"], now["parts"], strict=True)}
    assert all(old != now and old[:16] == now[:16] for old, now in renamed.items())
    expected = _dumps(was)
    for old, now in renamed.items():
        expected = expected.replace(f'"{old}"', f'"{now}"')
    assert main["messages"] == json.loads(expected)
    assert child["info"]["parentID"] == new
    again = placed(stored(capture, tmp_path / "aside"), project.root, sealed, new_id=new)
    assert [item.how for item in again.files] == ["same", "same"]
    assert again.session_id == new


def test_place_in_another_directory(
    project: Project, agent: Database, sealed: Path, tmp_path: Path
) -> None:
    """An import would move the session here, so there it stays, and here is another one."""
    placement = placed(stored(captured(project, sealed), tmp_path / "aside"), tmp_path, sealed)

    assert placement.session_id != ID
    assert "another directory" in placement.note


def test_place_of_a_copy(project: Project, agent: Database, sealed: Path, tmp_path: Path) -> None:
    """Without an id of its own it goes under the new one, though the old session is as it was."""
    whole = stored(captured(project, sealed), tmp_path / "aside")

    placement = placed(Stored(Agent("opencode"), whole.streams, whole.aside), project.root, sealed)

    assert placement.session_id not in (None, ID)
    assert (len(placement.prepare), placement.note) == (2, "")


def test_place_refuses_when_the_new_id_is_taken_too(
    project: Project, agent: Database, sealed: Path, tmp_path: Path
) -> None:
    """Neither is touched."""
    capture = captured(project, sealed)
    agent.say("user", text("now another"))
    other = "ses_e015b9a4affe00000000000000"
    agent.session(project.root, other)
    agent.say("user", text("of another"), session_id=other)

    with pytest.raises(Refused, match="already exists with other content"):
        placed(stored(capture, tmp_path / "aside"), project.root, sealed, new_id=other)


@pytest.mark.parametrize("rows", [b"", b"no json\n", b'{"id":"../../x"}\n', b'{"id":1}\n', b"[]\n"])
def test_place_believes_no_odd_row(tmp_path: Path, rows: bytes) -> None:
    """What a checkpoint says of its session becomes part of a path and of a command."""
    streams = (
        (Stream("main", 0, ""), lambda: iter([b""])),
        (Stream("sessions", 0, ""), lambda: iter([rows])),
    )

    with pytest.raises(StoreDamaged, match="nothing was written"):
        placed(Stored(Agent("opencode"), streams, tmp_path), tmp_path, tmp_path)


@pytest.mark.parametrize("session_id", ["../../x", "", "--help", "ses_a/b", "ses_" + "x" * 70])
def test_an_odd_session_id_is_refused(
    project: Project, agent: Database, sealed: Path, tmp_path: Path, session_id: str
) -> None:
    """The same of the agent's id."""
    odd = stored(captured(project, sealed), tmp_path)

    with pytest.raises(StoreDamaged, match="session id"):
        placed(Stored(Agent("opencode", session_id), odd.streams, tmp_path), tmp_path, sealed)


def test_saved_and_restored(project: Project, agent: Database) -> None:
    """Through the whole road: nothing new is unchanged, going back prepares an import, and again
    nothing is new.
    """
    project.write("a", "old\n")
    target = save(project, None)
    assert target.conversation is not None
    assert (target.agent, target.conversation.digest.messages) == (
        Agent("opencode", ID, "1.18.33", "m"),
        3,
    )
    assert not project.json("save")["saved"]
    agent.say("user", text("now another"))
    project.write("a", "new\n")

    with project.guard():
        placed = restore(project, target).placed

    assert placed is not None
    assert placed.session_id not in (None, ID)
    assert len(placed.prepare) == 2
    assert project.read("a") == b"old\n"


def test_status_until_it_is_imported(project: Project, agent: Database) -> None:
    """The database lacks the last message: a restore completes it with an import, and until that
    has run, status shows the command. Without a restore, or with other messages, it is shorter.
    """
    project.gitcp("save", check=0)
    before = agent.path.read_bytes()
    agent.say("user", text("now another"))
    project.gitcp("save", check=0)
    after = agent.path.read_bytes()
    agent.path.write_bytes(before)
    assert "shorter than what was saved" in project.gitcp("status", check=0).out
    assert project.json("status")["conversation"]["prepare"] == []

    restored = project.gitcp("restore", "2", "--yes", check=0).out
    (command,) = (line for line in restored.splitlines() if line.startswith("continue with: "))
    said = project.gitcp("status", check=0).out
    assert f"Conversation  opencode {ID}: restored, but not imported yet\n  {command}\n" in said
    assert "shorter" not in said
    (prepare,) = project.json("status")["conversation"]["prepare"]
    assert prepare[:2] == ["opencode", "import"]
    assert "now another" in Path(prepare[2]).read_text()

    agent.path.write_bytes(after)
    assert f"{ID}: saved" in project.gitcp("status", check=0).out
    agent.path.write_bytes(before)
    with agent.open() as database:
        database.execute('update message set data = \'{"role":"user"}\'')
    assert "shorter than what was saved" in project.gitcp("status", check=0).out


@given(
    st.lists(
        st.dictionaries(st.text(max_size=5), st.text(max_size=9) | st.integers(-9, 9)), max_size=4
    )
)
def test_what_is_said_is_kept(
    tmp_path_factory: pytest.TempPathFactory, parts: list[dict[str, Any]]
) -> None:
    """Round trip: whatever a part holds is in the document, with its ids."""
    home = tmp_path_factory.mktemp("home")
    database = Database(home)
    database.session(home)
    id = database.say("user", *parts)
    capture = OPENCODE.capture(Found("opencode", ID, database.path, 0))

    (document,) = documents(placed(stored(capture, home / "aside"), home, home / "empty"))

    (message,) = document["messages"]
    ids = {"sessionID": ID, "messageID": id}
    assert [
        {**part, **ids, "id": found["id"]}
        for part, found in zip(parts, message["parts"], strict=True)
    ] == message["parts"]


def test_an_attached_image_is_converted(project: Project, sealed: Path) -> None:
    """opencode marks what it read of an attachment as its own words; the image is the person's."""
    database = Database(sealed)
    database.session(project.root)
    image = {"type": "file", "mime": "image/png", "url": "data:image/png;base64,aGk="}
    read = text("Image read successfully", synthetic=True)
    database.say("user", read, {**image, "synthetic": True, "filename": "a.png"}, text("look"))

    dialogue = converter("opencode").read(stored(captured(project, sealed), sealed))

    assert dialogue.items[0].blocks == (File("image/png", "aGk=", "a.png"), Text("look"))
    assert dialogue.omitted == {NOTICES: 1}


def test_undo_after_two_restores(project: Project, agent: Database) -> None:
    """The conversation that the first one prepared comes back with its files, though it was never
    imported: the database has only the one from before.
    """
    targets = []
    for number in (1, 2, 3):
        project.write("a", f"{number}\n")
        targets.append(save(project, None))
        agent.say("user", text(f"prompt {number}"))
    first = restore(project, targets[0]).placed
    restore(project, targets[1])

    placed = undo(project).placed

    assert project.read("a") == b"1\n"
    assert first is not None
    assert placed is not None
    assert placed.messages == first.messages == 3
    assert placed.session_id == first.session_id
