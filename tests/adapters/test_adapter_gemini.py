"""Gemini CLI: its sessions found, kept byte for byte, understood as far as it goes, and put back to
be resumed.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from listed import ids

from gitcp.adapters import base, gemini
from gitcp.adapters.base import Adapter, Message, Placement, Stored
from gitcp.errors import Refused, StoreDamaged
from gitcp.model import Agent, Digest, Host, LastMessage, Stream
from gitcp.restoring.placing import Placed, write
from gitcp.value import replace

from driver import Project

ID = "11111111-2222-4333-8444-555555555555"
NEW = "99999999-8888-4777-8666-555555555555"
TIME = "2026-11-21T12-00"


def host(home: Path, env: Mapping[str, str] | None = None) -> Host:
    return Host(env or {}, home, lambda: datetime(2026, 11, 21, 12, 0, tzinfo=UTC))


# ------------------------------------------------------- a chat in the shape that Gemini CLI writes


def line(**fields: Any) -> bytes:
    return json.dumps(fields, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"


def head(session_id: str = ID, kind: str = "main") -> bytes:
    return line(
        sessionId=session_id, projectHash="0" * 64, startTime="2026-11-21T12:00:00Z", kind=kind
    )


def message(kind: str, id: str, content: Any, **fields: Any) -> dict[str, Any]:
    return {
        "id": id,
        "timestamp": "2026-11-21T12:00:01Z",
        "type": kind,
        "content": content,
        **fields,
    }


def changed(**fields: Any) -> bytes:
    return line(**{"$set": fields})


def result(id: str, text: str) -> dict[str, Any]:
    return {"functionResponse": {"id": id, "name": "write_file", "response": {"output": text}}}


CONTEXT = message("user", "c1", [{"text": "<session_context>\nThis is the Gemini CLI."}])
CALL = {
    "id": "w1",
    "name": "write_file",
    "args": {"file_path": "/somewhere/b.txt"},
    "result": [result("w1", "ok")],
}
PROMPT = message("user", "u1", [{"text": "make a file"}])
CALLED = message(
    "gemini",
    "g1",
    "",
    thoughts=[{"subject": "A file", "description": "then"}],
    model="gemini-2.5-pro",
)
ANSWERED = message("user", "r1", [result("w1", "created größer")])
DONE = message("gemini", "g2", "All done.", model="gemini-2.5-pro")
NEXT = message("user", "u2", [{"text": "now another  "}])

EMPTY = head() + changed(messages=[CONTEXT], lastUpdated="x")
TURN = (
    line(**PROMPT),
    changed(lastUpdated="x"),
    line(**CALLED),
    line(**CALLED, toolCalls=[CALL]),
    line(**ANSWERED),
    line(type="of-next-year", id="n1", payload={"x": [1, 2]}),
    line(**DONE),
    changed(summary="  a file was made "),
)
CHAT = EMPTY + b"".join(TURN)
RESUMED = (
    changed(sessionId=ID)
    + changed(
        messages=[
            CONTEXT,
            PROMPT,
            {**CALLED, "toolCalls": [CALL]},
            ANSWERED,
            {**ANSWERED, "id": "g1"},
            DONE,
        ]
    )
    + line(**NEXT)
)


def test_it_satisfies_the_protocol() -> None:
    """mypy checks the rest here."""
    typed: Adapter = gemini

    assert typed.NAME == "gemini"


# ---------------------------------------------------------------- finding


def chats(home: Path, name: str = "w") -> Path:
    return home / ".gemini" / "tmp" / name / "chats"


def put(
    home: Path,
    data: bytes,
    name: str = f"session-{TIME}-11111111.jsonl",
    *,
    modified: float = 1000.0,
) -> Path:
    """A chat in the directory `w`."""
    path = chats(home) / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    os.utime(path, (modified, modified))
    return path


def own(home: Path, cwd: Path, name: str = "w") -> None:
    """Say that a directory belongs to a working directory."""
    marker = home / ".gemini" / "tmp" / name / ".project_root"
    marker.parent.mkdir(parents=True, exist_ok=True)
    marker.write_text(f"{os.path.realpath(cwd)}\n")


def register(home: Path, **projects: str) -> None:
    registry = home / ".gemini" / "projects.json"
    registry.parent.mkdir(parents=True, exist_ok=True)
    registry.write_text(json.dumps({"projects": {path: name for name, path in projects.items()}}))


def found(cwd: Path, home: Path) -> list[tuple[str, str]]:
    return [(session.session_id, session.path.name) for session in gemini.find(cwd, host(home))]


def test_find_by_the_registry_and_by_markers(project: Project, tmp_path: Path) -> None:
    """A directory belongs to the path that the registry or its marker names; from below, the
    repository's root too.
    """
    put(tmp_path, CHAT)
    below = project.root / "below"
    below.mkdir()
    assert found(project.root, tmp_path) == []
    register(tmp_path, w=os.path.realpath(project.root))
    assert [id for id, _ in found(below, tmp_path)] == [ID]
    own(tmp_path, tmp_path / "of-another")
    assert found(project.root, tmp_path) == []
    tmp_path.joinpath(".gemini", "projects.json").write_text("{not json")
    own(tmp_path, project.root)
    assert [id for id, _ in found(project.root, tmp_path)] == [ID]


def test_find_leaves_out_what_cannot_be_resumed(project: Project, tmp_path: Path) -> None:
    """The empty chat that a resume begins with, a sub-agent's, other files; of two chats of one id
    the newer stays.
    """
    own(tmp_path, project.root)
    put(tmp_path, CHAT, modified=1000)
    put(tmp_path, EMPTY, "session-2026-11-21T12-05-11111111.jsonl", modified=2000)
    put(tmp_path, head(NEW, "subagent") + line(**PROMPT), "session-2026-11-21T12-06-99999999.jsonl")
    put(tmp_path, CHAT, "notes.jsonl")
    put(tmp_path, b"", "session-2026-11-21T12-07-00000000.jsonl")
    put(tmp_path, b"\xff{not json\n" + line(**PROMPT), "session-2026-11-21T12-08-00000000.jsonl")
    chats(tmp_path).joinpath("session-2026-11-21T12-09-22222222.jsonl").mkdir()

    assert found(project.root, tmp_path) == [(ID, f"session-{TIME}-11111111.jsonl")]


def test_find_believes_the_last_id(project: Project, tmp_path: Path) -> None:
    """A chat that goes on under another id has that one."""
    own(tmp_path, project.root)
    put(tmp_path, CHAT + RESUMED + changed(sessionId=NEW), f"session-{TIME}-99999999.jsonl")

    assert [id for id, _ in found(project.root, tmp_path)] == [NEW]


def test_another_home(project: Project, tmp_path: Path) -> None:
    """`GEMINI_CLI_HOME` says where everything is."""
    own(tmp_path / "other", project.root)
    put(tmp_path / "other", CHAT)
    there = host(tmp_path, {"GEMINI_CLI_HOME": str(tmp_path / "other")})

    assert ids(gemini.find(project.root, there)) == [ID]


def test_running(tmp_path: Path) -> None:
    """Its hooks are told the session; nothing that could be a path is believed."""
    assert gemini.running(host(tmp_path, {"GEMINI_SESSION_ID": ID})) == ID
    assert gemini.running(host(tmp_path, {"GEMINI_SESSION_ID": "../x"})) is None
    assert gemini.running(host(tmp_path, {"GEMINI_CLI": "1"})) is None


def test_watched_names_what_decides(project: Project, tmp_path: Path) -> None:
    """The registry, the chats, and what lies beside them, there or not."""
    own(tmp_path, project.root)
    path = put(tmp_path, CHAT)
    agent = chats(tmp_path) / ID / "a.jsonl"
    agent.parent.mkdir()
    agent.write_bytes(head())
    names = {tmp_path / ".gemini" / "projects.json", path, path.parent, agent, agent.parent}

    assert names <= set(gemini.watched(project.root, host(tmp_path)))


# ---------------------------------------------------------------- capturing


def test_capture_takes_everything_of_the_session(project: Project, tmp_path: Path) -> None:
    """The chat, sub-agents', large outputs and plans, each with the place it goes back to."""
    own(tmp_path, project.root)
    put(tmp_path, CHAT)
    directory = chats(tmp_path).parent
    beside = (
        f"chats/{ID}/a1.jsonl",
        f"tool-outputs/session-{ID}/ls_1.txt",
        f"{ID}/plans/p.md",
        f"{NEW}/plans/no.md",
    )
    for name in beside:
        directory.joinpath(name).parent.mkdir(parents=True)
        directory.joinpath(name).write_text("x\n")
    directory.joinpath(f"chats/{ID}/link.jsonl").symlink_to("/etc/passwd")

    capture = gemini.capture(gemini.find(project.root, host(tmp_path))[0])

    assert capture.agent == Agent("gemini", ID)
    sources = {source.name: (source.place, source.live) for source in capture.sources}
    assert list(sources)[:3] == ["main", "agents/a1", "tool-results/ls_1.txt"]
    assert list(sources.values()) == [
        (f"chats/session-{TIME}-{{short}}.jsonl", True),
        ("chats/{session}/a1.jsonl", True),
        ("tool-outputs/session-{session}/ls_1.txt", False),
        ("{session}/plans/p.md", False),
    ]
    assert capture.sources[0].end == len(CHAT)


def test_the_empty_moment_of_a_resume_is_not_captured(project: Project, tmp_path: Path) -> None:
    """Within the minute in which a chat was begun, a resume first empties it: what was there before
    is what counts.
    """
    own(tmp_path, project.root)
    for tail in (
        EMPTY,
        EMPTY + changed(sessionId=ID),
        EMPTY + changed(lastUpdated="x") + b'{"torn',
        EMPTY[:-9],
    ):
        put(tmp_path, CHAT + tail)
        capture = gemini.capture(gemini.find(project.root, host(tmp_path))[0])
        assert capture.sources[0].end in (len(CHAT), len(CHAT + head()), len(CHAT + tail))
        kept = (CHAT + tail)[: capture.sources[0].end]
        assert [part.text for part in gemini.messages(kept.splitlines())][-1] == "All done."
    put(tmp_path, CHAT + EMPTY + RESUMED)
    assert gemini.capture(gemini.find(project.root, host(tmp_path))[0]).sources[0].end == len(
        CHAT + EMPTY + RESUMED
    )


def test_a_hook_that_names_the_empty_chat_gets_the_real_one(
    project: Project, tmp_path: Path
) -> None:
    """At the start of a resume the program names a file in which nothing is said."""
    own(tmp_path, project.root)
    real = put(tmp_path, CHAT)
    empty = put(tmp_path, EMPTY, "session-2026-11-21T12-05-11111111.jsonl", modified=2000)

    named = gemini.capture(base.Found("gemini", ID, empty, 2000.0))
    assert named.sources[0].path == real
    real.unlink()
    assert gemini.capture(base.Found("gemini", ID, empty, 2000.0)).sources[0].path == empty


# ---------------------------------------------------------------- understanding


def test_digest() -> None:
    """What was said and what was called is counted once, however often it is listed."""
    expected = Digest(
        messages=3,
        last_message=LastMessage("assistant", "All done.", "g2"),
        last_prompt="make a file",
        title="a file was made",
        model="gemini-2.5-pro",
        unknown=("of-next-year",),
    )
    assert gemini.digest(Digest(), CHAT.splitlines()) == expected
    went_on = gemini.digest(expected, RESUMED.splitlines())
    assert (went_on.messages, went_on.last_prompt) == (4, "now another")
    assert went_on.last_message == LastMessage("user", "now another", "u2")


@given(st.integers(0, 13))
def test_digest_goes_on_where_it_stopped(cut: int) -> None:
    """Made at once or in two steps, it is the same."""
    whole = (CHAT + RESUMED).splitlines()

    assert gemini.digest(gemini.digest(Digest(), whole[:cut]), whole[cut:]) == gemini.digest(
        Digest(), whole
    )


SHOWN = [
    Message("system", "<session_context>\nThis is the Gemini CLI.", "c1", "2026-11-21T12:00:01Z"),
    Message("user", "make a file", "u1", "2026-11-21T12:00:01Z"),
    Message("thinking", "A file\nthen", "g1", "2026-11-21T12:00:01Z"),
    Message(
        "assistant",
        '{"file_path":"/somewhere/b.txt"}',
        "g1",
        "2026-11-21T12:00:01Z",
        "write_file",
        "w1",
    ),
    Message("tool", "created größer", "r1", "2026-11-21T12:00:01Z", "write_file", "w1"),
    Message("assistant", "All done.", "g2", "2026-11-21T12:00:01Z"),
]


def test_messages() -> None:
    """Each part once, in the order of the conversation; what a resume repeats is not shown
    again.
    """
    assert list(gemini.messages(CHAT.splitlines())) == SHOWN
    assert [part.text for part in gemini.messages((CHAT + RESUMED).splitlines())] == [
        *(part.text for part in SHOWN),
        "now another  ",
    ]


def test_a_result_that_stands_beside_its_call() -> None:
    """A chat may keep a result with its call alone; where it comes again in a message, there is one
    all the same.
    """
    failed = {
        "functionResponse": {"id": "w2", "name": "write_file", "response": {"error": "no room"}}
    }
    calls = [
        CALL,
        {**CALL, "id": "w2", "status": "error", "result": [failed]},
        {**CALL, "id": "w3", "status": "cancelled", "result": "stopped"},
        {**CALL, "id": "w4", "result": []},
        {"id": "w5", "name": "write_file", "args": {}},
    ]
    chat = [
        line(**PROMPT),
        line(**CALLED),
        line(**CALLED, toolCalls=calls[:1]),
        line(**CALLED, toolCalls=calls),
    ]

    def results(*more: dict[str, Any]) -> list[tuple[str | None, str, bool]]:
        shown = gemini.messages([*chat, *(line(**message) for message in more), line(**DONE)])
        return [(part.call, part.text, part.failed) for part in shown if part.role == "tool"]

    beside = [("w1", "ok", False), ("w2", "no room", True), ("w3", "stopped", True)]
    assert results() == beside
    assert results(ANSWERED) == [*beside[1:], ("w1", "created größer", False)]
    assert results(ANSWERED, {**ANSWERED, "id": "g1"}) == [
        *beside[1:],
        ("w1", "created größer", False),
    ]


def test_what_a_hook_added_to_a_prompt_is_not_the_prompts() -> None:
    """The program puts it beside the prompt; where there is nothing else, it is what is shown."""
    added = {"text": "<hook_context>gitcp restored</hook_context>"}
    prompt = line(**message("user", "u9", [{"text": "go on"}, added]))
    alone = line(**message("user", "u9", [added]))

    assert [part.text for part in gemini.messages([prompt])] == ["go on"]
    assert gemini.digest(Digest(), [prompt]).last_prompt == "go on"
    assert [(part.role, part.text) for part in gemini.messages([alone])] == [
        ("system", added["text"])
    ]
    assert gemini.digest(Digest(), [alone]).messages == 0


def test_messages_after_a_rewind() -> None:
    """What was taken back is not shown; an unknown id takes everything back, as the program
    does.
    """
    rewound = CHAT + line(**{"$rewindTo": "r1"})
    beside = replace(SHOWN[4], text="ok", id="g1")
    assert list(gemini.messages(rewound.splitlines())) == [*SHOWN[:4], beside]
    assert list(gemini.messages((CHAT + line(**{"$rewindTo": "?"})).splitlines())) == []


@pytest.mark.parametrize(
    "data", [b"", b"\n\n", b"null", b"[1]", b'{"$set":1}', b'{"$set":{"messages":[1,{}]}}', b"\xff"]
)
def test_odd_lines_are_passed_over(data: bytes) -> None:
    """Whatever a line holds."""
    assert list(gemini.messages([data])) == []
    assert gemini.digest(Digest(), [data]) == Digest()
    assert gemini.before([data], "u1") is None


def test_before() -> None:
    """The offset of a user's message; a listing of it later, and other messages, are none."""
    whole = (CHAT + RESUMED).splitlines()

    assert gemini.before(whole, "u1") == len(EMPTY)
    assert gemini.before(whole, "u2") == len(CHAT + RESUMED) - len(line(**NEXT))
    assert gemini.before(whole, "g2") is None
    assert gemini.before(whole, "no") is None


# ---------------------------------------------------------------- placing


def stored(
    data: bytes, *others: tuple[str, str, bytes], session_id: str | None = ID, place: str = ""
) -> Stored:
    place = place or f"chats/session-{TIME}-{{short}}.jsonl"
    streams = [("main", place, data), *others]
    return Stored(
        Agent("gemini", session_id),
        tuple((Stream(name, len(what), "", where), chunks(what)) for name, where, what in streams),
    )


def chunks(data: bytes) -> base.Reader:
    return lambda: iter([data[:7], data[7:100], data[100:]])


def placed(what: Stored, cwd: Path, home: Path, new_id: str = NEW) -> Placement:
    return gemini.place(what, cwd, host(home), new_id=new_id)


def written(placement: Placement) -> dict[Path, bytes]:
    """Carry the placement out; what the files hold then."""
    assert write(Placed("gemini", 0, placement, Path())) is None
    return {item.path: item.path.read_bytes() for item in placement.files}


def below(home: Path, files: Iterable[Path]) -> list[str]:
    return [str(path.relative_to(home / ".gemini" / "tmp")) for path in files]


def test_place_in_an_empty_home(tmp_path: Path) -> None:
    """The chat under its own name, what was beside it, and the marker by which the program finds
    the directory.
    """
    cwd = tmp_path / "My Project_2"
    cwd.mkdir()
    agent = ("agents/a1", "chats/{session}/a1.jsonl", head())

    placement = placed(stored(CHAT, agent), cwd, tmp_path)

    assert placement.command == ("gemini", "--resume", ID)
    files = written(placement)
    assert below(tmp_path, files) == [
        f"my-project-2/chats/session-{TIME}-{ID}.jsonl",
        f"my-project-2/chats/{ID}/a1.jsonl",
        "my-project-2/.project_root",
    ]
    assert list(files.values()) == [CHAT, head(), os.fsencode(os.path.realpath(cwd))]
    assert [id for id, _ in found(cwd, tmp_path)] == [ID]
    assert placed(stored(CHAT, agent), cwd, tmp_path).files[0].how == "same"


def test_place_beside_another_project_of_the_same_name(tmp_path: Path) -> None:
    """A name that is taken, in the registry or by a marker, is not used; one that is known for this
    path is.
    """
    cwd = tmp_path / "w"
    cwd.mkdir()
    own(tmp_path, tmp_path / "x" / "w", "w")
    register(tmp_path, **{"w-1": "/y/w"})
    assert below(tmp_path, [placed(stored(CHAT), cwd, tmp_path).files[0].path])[0].startswith(
        "w-2/chats/"
    )
    own(tmp_path, cwd, "chosen")
    assert below(tmp_path, [placed(stored(CHAT), cwd, tmp_path).files[0].path])[0].startswith(
        "chosen/chats/"
    )


@pytest.mark.parametrize("there", [CHAT, CHAT[:600]], ids=["same", "less"])
def test_place_beside_what_the_program_would_delete(tmp_path: Path, there: bytes) -> None:
    """A chat named by eight characters goes with the next empty one. What is put back has a name
    that comes before it, and is found from then on; the other is not touched.
    """
    own(tmp_path, tmp_path)
    path = put(tmp_path, there)

    placement = placed(stored(CHAT), tmp_path, tmp_path)

    assert placement.session_id == ID
    (written_to,) = written(placement)
    assert (path.read_bytes(), written_to.read_bytes()) == (there, CHAT)
    assert not written_to.stem.endswith(f"-{ID[:8]}")
    assert min(path.name, written_to.name) == written_to.name
    assert found(tmp_path, tmp_path) == [(ID, written_to.name)]
    assert {item.how for item in placed(stored(CHAT), tmp_path, tmp_path).files} == {"same"}
    located = gemini.located(ID, host(tmp_path))
    assert located is not None
    assert located.path == written_to


def test_the_empty_chat_is_not_the_session(tmp_path: Path) -> None:
    """Once a restored chat was resumed, its empty one lies beside it under the name that the
    program gives.
    """
    own(tmp_path, tmp_path)
    (path,) = written(placed(stored(CHAT), tmp_path, tmp_path))
    put(tmp_path, EMPTY, "session-2026-11-22T10-00-11111111.jsonl", modified=4e9)

    (session,) = gemini.find(tmp_path, host(tmp_path))
    capture = gemini.capture(
        replace(session, path=path.with_name("session-2026-11-22T10-00-11111111.jsonl"))
    )

    assert session.path == path
    assert capture.sources[0].path == path
    assert capture.sources[0].place == f"chats/session-{TIME}-{{short}}.jsonl"


def test_place_completes_and_never_cuts(tmp_path: Path) -> None:
    """A beginning is completed. A chat that went on stays, and what was stored goes under the new
    id, bytes and all.
    """
    own(tmp_path, tmp_path)
    path = put(tmp_path, CHAT[:600], f"session-{TIME}-{ID}.jsonl")
    assert placed(stored(CHAT), tmp_path, tmp_path).session_id == ID
    assert written(placed(stored(CHAT), tmp_path, tmp_path))[path] == CHAT
    path.write_bytes(CHAT + RESUMED)

    placement = placed(stored(CHAT), tmp_path, tmp_path)

    assert (placement.session_id, placement.command) == (NEW, ("gemini", "--resume", NEW))
    assert ID in placement.note
    files = written(placement)
    assert below(tmp_path, files) == [f"w/chats/session-{TIME}-restored-{NEW}.jsonl"]
    assert list(files.values()) == [CHAT + b'{"$set":{"sessionId":"%s"}}\n' % NEW.encode()]
    assert path.read_bytes() == CHAT + RESUMED
    assert sorted(id for id, _ in found(tmp_path, tmp_path)) == [ID, NEW]
    again = placed(stored(CHAT), tmp_path, tmp_path)
    assert [item.how for item in again.files] == ["same"]


def test_place_refuses_when_the_new_id_is_taken_too(tmp_path: Path) -> None:
    """Neither is touched."""
    own(tmp_path, tmp_path)
    put(tmp_path, CHAT + RESUMED)
    put(tmp_path, head(NEW) + line(**NEXT), f"session-{TIME}-99999999.jsonl")

    with pytest.raises(Refused, match="already exists with other content"):
        placed(stored(CHAT), tmp_path, tmp_path)


def test_place_where_another_file_has_the_id(tmp_path: Path) -> None:
    """The program would resume that one, so the conversation needs an id of its own."""
    own(tmp_path, tmp_path)
    put(tmp_path, CHAT, "session-2026-11-21T11-00-11111111.jsonl")

    assert placed(stored(CHAT), tmp_path, tmp_path).session_id == NEW


def test_place_of_an_earlier_part(tmp_path: Path) -> None:
    """A cut from before a change of id goes under the id that the session has now."""
    cut = stored(CHAT, session_id=NEW)

    files = written(placed(cut, tmp_path, tmp_path, new_id="unused-1"))

    assert next(iter(files.values())).endswith(b'{"$set":{"sessionId":"%s"}}\n' % NEW.encode())
    assert [id for id, _ in found(tmp_path, tmp_path)] == [NEW]


def test_place_of_a_torn_chat(tmp_path: Path) -> None:
    """Without a line end at its end, the new id still has a line of its own."""
    files = written(placed(stored(CHAT[:-1], session_id=None), tmp_path, tmp_path))

    assert next(iter(files.values())) == CHAT + b'{"$set":{"sessionId":"%s"}}\n' % NEW.encode()


def test_place_of_nothing_said(tmp_path: Path) -> None:
    """The program resumes no empty chat: it is begun anew."""
    placement = placed(stored(EMPTY), tmp_path, tmp_path)

    assert (placement.session_id, placement.files, placement.command) == (None, (), ("gemini",))
    assert "starts a new one" in placement.note


@pytest.mark.parametrize(
    ("name", "place"),
    [
        ("agents/a", "chats/{session}/../../../x"),
        ("agents/a", "/etc/passwd"),
        ("agents/a", "chats/{session}"),
        ("agents/a", "tool-outputs/session-{session}/x"),
        ("state/a", "chats/x"),
        ("odd", "chats/{session}/x"),
    ],
)
def test_place_believes_no_odd_place(tmp_path: Path, name: str, place: str) -> None:
    """What a checkpoint says does not lead anywhere else."""
    with pytest.raises(StoreDamaged, match="nothing was written"):
        placed(stored(CHAT, (name, place, b"x")), tmp_path, tmp_path)


@pytest.mark.parametrize(
    "place", ["../x.jsonl", "chats/../../x", "odd", "chats/session-/../{short}.jsonl"]
)
def test_an_odd_place_of_the_chat_is_not_used(tmp_path: Path, place: str) -> None:
    """It gets a plain name."""
    files = placed(stored(CHAT, place=place), tmp_path, tmp_path).files

    assert files[0].path.name == f"session-{ID}.jsonl"
    assert files[0].path.parent.name == "chats"


@pytest.mark.parametrize("session_id", ["../../x", "", "a/b", "x" * 65])
def test_an_odd_session_id_is_refused(tmp_path: Path, session_id: str) -> None:
    """It becomes part of a path."""
    with pytest.raises(StoreDamaged, match="session id"):
        placed(stored(CHAT, session_id=session_id), tmp_path, tmp_path)


def test_going_back_twice_is_going_back_once(project: Project, sealed: Path) -> None:
    """What is there under the new id, with its line more, is what was to be brought back; the next
    save is of it.
    """
    project.write("a", "old\n")
    own(sealed, project.root)
    put(sealed, CHAT)
    assert project.json("save")["checkpoint"]["agent"]["session_id"] == ID
    put(sealed, CHAT + RESUMED)

    first = project.json("restore", "1", "--yes")
    again = project.json("restore", "1", "--yes")

    assert first["resume"]["session_id"] != ID
    assert again["resume"] == first["resume"]
    assert (first["checkpoint"] is None, again["checkpoint"]) == (False, None)
    saved = project.json("save", "--force")["checkpoint"]
    assert (saved["session"], saved["agent"]["session_id"]) == (
        "11111111",
        first["resume"]["session_id"],
    )


@given(st.binary(max_size=60), st.integers(0, 9))
def test_whatever_is_appended_comes_back(
    tmp_path_factory: pytest.TempPathFactory, data: bytes, cut: int
) -> None:
    """Round trip: the bytes are written as they were stored."""
    home = tmp_path_factory.mktemp("home")
    whole = b"".join((EMPTY, *TURN)[: cut + 2]) + data.replace(b"sessionId", b"")

    files = written(placed(stored(whole), home, home))

    assert next(iter(files.values())) == whole
