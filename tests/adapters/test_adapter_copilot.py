"""Copilot CLI: its sessions found, kept byte for byte, understood as far as it goes, and put back
to be resumed.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from listed import ids

from gitcp import adapters
from gitcp.adapters import base, copilot
from gitcp.adapters.base import Adapter, Message, Placement, Stored
from gitcp.errors import Refused, StoreDamaged
from gitcp.model import Agent, Digest, Host, LastMessage, Source, Stream

ID = "11111111-2222-4333-8444-555555555555"
OTHER = "aaaaaaaa-bbbb-4ccc-8ddd-eeeeeeeeeeee"
NEW = "99999999-8888-4777-8666-555555555555"


def host(home: Path, env: Mapping[str, str] | None = None) -> Host:
    return Host(env or {}, home, lambda: datetime(2026, 11, 21, 12, 0, tzinfo=UTC))


# ---------------------------------------------------------- events in the shape that Copilot writes


def event(kind: str, id: str | None = None, agent: str | None = None, **data: Any) -> bytes:
    line = {
        "type": kind,
        "data": data,
        "id": id,
        "timestamp": "2026-11-21T12:00:00.000Z",
        "parentId": None,
    }
    line |= {"agentId": agent} if agent else {}
    return json.dumps(line, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"


def start(cwd: str = "/somewhere", session_id: str = ID) -> bytes:
    context = {"cwd": cwd, "gitRoot": cwd}
    return event(
        "session.start", "s1", sessionId=session_id, copilotVersion="1.0.102", context=context
    )


def request(call: str, name: str, **arguments: Any) -> dict[str, Any]:
    return {"toolCallId": call, "name": name, "arguments": arguments, "type": "function"}


EVENTS = (
    start(),
    event(
        "user.message",
        "u1",
        content="make a file",
        transformedContent="<current_datetime/>make a file",
    ),
    event("system.message", "y1", role="system", content="You are."),
    event("assistant.turn_start", "t1", turnId="0"),
    event(
        "assistant.message",
        "a1",
        content="",
        reasoningText="A file, then.",
        model="some-model",
        toolRequests=[request("c1", "create", path="b.txt", file_text="größer"), "odd"],
    ),
    event("tool.execution_start", "x1", toolCallId="c1", toolName="create"),
    event(
        "tool.execution_complete",
        "x2",
        toolCallId="c1",
        success=True,
        result={"content": "Created"},
    ),
    event("user.message", "v1", agent="sub", content="look around"),
    event("assistant.message", "v2", agent="sub", content="I looked.", model="small-model"),
    event("assistant.message", "a2", content="All done.", model="some-model", toolRequests=[]),
    event("session.shutdown", "z1"),
    event(
        "session.compaction_complete", "k1", success=True, summaryContent="Before: a file was made."
    ),
    event("an.event.of.next.year", "n1", x=[1, 2]),
    event("user.message", "w1", content="a skill's text", source="skill-pdf"),
    event("user.message", "u2", content="now another  "),
)
DATA = b"".join(EVENTS)


def put(
    home: Path, session_id: str, *lines: bytes, works: str | None = None, modified: float = 1000.0
) -> Path:
    path = home / ".copilot" / "session-state" / session_id / "events.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"".join(lines))
    os.utime(path, (modified, modified))
    if works is not None:
        path.with_name("workspace.yaml").write_text(f"id: {session_id}\ncwd: {works}\nname: x\n")
    return path


def test_the_module_satisfies_the_protocol() -> None:
    """It is found under the name it gives itself; mypy checks the rest here."""
    typed: Adapter = copilot

    assert adapters.load("copilot") is typed
    assert typed.NAME == "copilot"


# ---------------------------------------------------------------- finding


def test_nothing_found_in_an_empty_home(home: Path, here: Path) -> None:
    """Without Copilot there are no sessions, and looking makes no directory."""
    assert copilot.find(here, host(home)) == ()
    assert list(home.iterdir()) == []


def test_sessions_that_work_here(home: Path, here: Path) -> None:
    """From a subdirectory, the sessions there and at the root are found, newest first: by where
    they work now.
    """
    below = here / "src"
    below.mkdir()
    path = put(home, ID, start("/elsewhere"), works=str(here), modified=5.0)
    put(home, OTHER, start(str(below)), modified=6.0)
    put(home, NEW, start(str(here)), works="/elsewhere", modified=7.0)

    assert ids(copilot.find(below, host(home))) == [OTHER, ID]
    assert copilot.find(here, host(home)) == (base.Found("copilot", ID, path, 5.0),)


@pytest.mark.parametrize("quote", ['"', "'", ""])
def test_paths_as_yaml_writes_them(home: Path, tmp_path: Path, quote: str) -> None:
    """A path is understood plain or in either kind of quotes."""
    odd = tmp_path / {'"': 'odd "größe" \\ 漢', "'": "it's: odd # here", "": "größe"}[quote]
    odd.mkdir()
    written = json.dumps(str(odd)) if quote == '"' else str(odd).replace("'", "''")
    put(home, ID, start(), works=written if quote == '"' else f"{quote}{written}{quote}")

    assert ids(copilot.find(odd, host(home))) == [ID]


def test_configured_home(home: Path, here: Path, tmp_path: Path) -> None:
    """COPILOT_HOME is obeyed."""
    path = put(tmp_path / "other", ID, start(str(here)))
    env = {"COPILOT_HOME": str(tmp_path / "other" / ".copilot")}

    assert [f.path for f in copilot.find(here, host(home, env))] == [path]


def test_running_session(home: Path, here: Path) -> None:
    """The session named by the environment is found wherever it works; a name that is a path is no
    id.
    """
    put(home, ID, *EVENTS)
    env = {"COPILOT_AGENT_SESSION_ID": ID}

    assert ids(copilot.find(here, host(home, env))) == [ID]
    assert adapters.running(host(home, env)) == ("copilot", ID)
    for odd in ("../../x", "", "a/b", "*", "-x", "x\n"):
        assert copilot.running(host(home, {"COPILOT_AGENT_SESSION_ID": odd})) is None


def test_directories_that_are_no_sessions(home: Path, here: Path) -> None:
    """Locks, links, odd names and broken files are not taken for sessions."""
    path = put(home, ID, start(str(here)))
    for name in (".session-operation-locks", "a b", "x" * 65):
        put(home, name, start(str(here)))
    put(home, "empty")
    put(home, "binary", b"\xff\xfe\0")
    put(home, "no-path", b'{"data":{"context":{"cwd":"\\u0000"}}}\n')
    put(home, "half", b'{"data":{"context":{"cwd":"', works='"torn')
    path.parent.with_name("nothing").mkdir()
    path.parent.with_name("link").mkdir()
    path.parent.with_name("link").joinpath("events.jsonl").symlink_to(path)

    assert ids(copilot.find(here, host(home))) == [ID]


def test_what_is_watched(home: Path, here: Path) -> None:
    """What each session says of where it works; of those here, the events and every directory
    beside them.
    """
    path = put(home, ID, start(str(here)))
    other = put(home, OTHER, start("/elsewhere"))
    path.with_name("files").mkdir()
    watched = copilot.watched(here, host(home))

    assert {path.parent.parent, path.parent, path, path.with_name("files")} <= set(watched)
    assert other.with_name("workspace.yaml") in watched
    assert other not in watched


# ---------------------------------------------------------------- capturing


def test_capture_of_all_streams(home: Path, here: Path) -> None:
    """The events and what the agent wrote beside them are streams; what is made again, or not ours,
    is none.
    """
    path = put(home, ID, start(str(here)), works=str(here))
    kept = (
        "plan.md",
        "checkpoints/index.md",
        "checkpoints/001-first.md",
        "files/deep/with blank.txt",
    )
    left = (
        "session.db",
        "session.db-wal",
        ".workspace-fork.lock",
        "events.jsonl.backup-before-recovery-1",
    )
    for name in (
        *kept,
        *left,
        "rewind-file-snapshots/index.json",
        "rewind-file-snapshots/backups/x",
    ):
        path.parent.joinpath(name).parent.mkdir(parents=True, exist_ok=True)
        path.parent.joinpath(name).write_bytes(name.encode())
    path.with_name("files").joinpath("link").symlink_to("/etc/passwd")
    capture = copilot.capture(copilot.find(here, host(home))[0])

    assert (capture.agent, capture.format) == (Agent("copilot", ID), "copilot")
    assert capture.sources[0] == Source(
        "main", path=path, live=True, place="{session}/events.jsonl"
    )
    assert {source.place for source in capture.sources[1:]} == {
        f"{{session}}/{name}" for name in kept
    }
    assert all(
        base.STREAM_PART.fullmatch(part)
        for source in capture.sources
        for part in source.name.split("/")
    )
    assert len({source.name for source in capture.sources}) == len(kept) + 1


def test_names_that_are_not_text(home: Path, here: Path) -> None:
    """A file whose name cannot be written down is kept all the same, and comes back under a name
    that can.
    """
    path = put(home, ID, start(str(here)))
    files = os.fsencode(path.with_name("files"))
    os.makedirs(files)
    for name in (b"\xff\xfe.txt", b"line\nbreak", b"..."):
        with open(os.path.join(files, name), "wb") as file:
            file.write(name)
    sources = copilot.capture(copilot.find(here, host(home))[0]).sources[1:]

    assert len({source.name for source in sources}) == 3
    assert all(base.place_parts(source.place) for source in sources)
    assert len({source.place for source in sources}) == 3


def test_capture_by_hand_of_any_name(tmp_path: Path) -> None:
    """A file given by hand is known by its first line, and nothing beside it is taken."""
    path = tmp_path / "my chat (1).jsonl"
    path.write_bytes(DATA)
    path.with_name("private.txt").write_bytes(b"not ours")
    capture = copilot.capture(base.Found("copilot", path.stem, path, 0.0))

    assert capture.agent == Agent("copilot", ID)
    assert [source.path for source in capture.sources] == [path]
    path.write_bytes(b"not json\n")
    assert copilot.capture(base.Found("copilot", path.stem, path, 0.0)).agent == Agent(
        "copilot", None
    )


# ---------------------------------------------------------------- understanding


def test_digest() -> None:
    """Counted are messages and what tools gave back; a sub-agent's are not, and what nobody typed
    is no prompt.
    """
    assert copilot.digest(Digest(), EVENTS) == Digest(
        messages=6,
        last_message=LastMessage("user", "now another", "u2"),
        last_prompt="now another",
        version="1.0.102",
        model="some-model",
        unknown=("an.event.of.next.year",),
    )
    assert copilot.digest(Digest(), EVENTS[:-1]).last_prompt == "make a file"


@pytest.mark.parametrize("size", range(1, len(EVENTS)))
def test_digest_is_taken_further(size: int) -> None:
    """A digest of the beginning, taken further over the rest, is the digest of the whole."""
    whole = copilot.digest(Digest(), EVENTS)

    assert copilot.digest(copilot.digest(Digest(), EVENTS[:size]), EVENTS[size:]) == whole


def test_messages() -> None:
    """Shown are the messages in order, with tool calls and what they gave back, and summaries."""
    shown = list(copilot.messages(EVENTS))

    assert [(m.role, m.text, m.tool) for m in shown] == [
        ("user", "make a file", None),
        ("thinking", "A file, then.", None),
        ("assistant", '{"path":"b.txt","file_text":"größer"}', "create"),
        ("tool", "Created", "create"),
        ("user", "look around", None),
        ("assistant", "I looked.", None),
        ("assistant", "All done.", None),
        ("summary", "Before: a file was made.", None),
        ("system", "a skill's text", None),
        ("user", "now another  ", None),
    ]
    assert shown[0] == Message("user", "make a file", "u1", "2026-11-21T12:00:00.000Z", None)


json_value = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=6,
)
kinds = ["user.message", "assistant.message", "tool.execution_complete", "session.start"]
names = (
    "content",
    "model",
    "toolRequests",
    "result",
    "toolCallId",
    "reasoningText",
    "source",
    "sessionId",
)
fields = st.fixed_dictionaries(
    {"type": st.sampled_from(kinds) | json_value},
    optional={
        "data": st.fixed_dictionaries({}, optional=dict.fromkeys(names, json_value)) | json_value,
        **dict.fromkeys(("id", "timestamp", "agentId"), json_value),
    },
)
garbage = (
    fields.map(lambda value: json.dumps(value).encode())
    | json_value.map(lambda v: json.dumps(v).encode())
    | st.binary()
)


@given(st.lists(garbage, max_size=6))
def test_any_line_is_tolerated(lines: list[bytes]) -> None:
    """Whatever a line holds, it is passed over or understood, never an error."""
    digest = copilot.digest(Digest(), lines)

    assert 0 <= digest.messages <= len(lines)
    assert digest.last_prompt is None or isinstance(digest.last_prompt, str)
    assert all(isinstance(m.text, str) and m.text for m in copilot.messages(lines))
    assert copilot.before(lines, "no such id") is None


def test_before_a_message() -> None:
    """The offset just before the user message with this id, with or without line ends; ids
    elsewhere do not count.
    """
    offset = copilot.before(EVENTS, "u2")

    assert offset == DATA.index(EVENTS[-1])
    assert copilot.before([line.rstrip(b"\n") for line in EVENTS], "u2") == offset
    assert copilot.before(EVENTS, "a1") is None
    assert copilot.before(EVENTS, "") is None


# ---------------------------------------------------------------- placing


def chunked(data: bytes, size: int = 1000) -> Iterator[bytes]:
    for begin in range(0, len(data), size):
        yield data[begin : begin + size]


def stored(data: bytes, *others: tuple[str, str, bytes], session_id: str | None = ID) -> Stored:
    """A stored conversation: its main stream, and others as (name, place, bytes)."""
    streams = [
        (Stream(name, len(content), "0" * 64, place), partial(chunked, content))
        for name, place, content in (*others, ("main", "{session}/events.jsonl", data))
    ]
    return Stored(Agent("copilot", session_id), tuple(streams))


def carry_out(placement: Placement) -> None:
    """What the caller of an adapter does with its plan."""
    for write in placement.files:
        data = b"".join(write.content())
        if write.how == "create":
            write.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            with open(write.path, "xb") as file:
                file.write(data)
        elif write.how == "append":
            assert write.path.stat().st_size == write.skip
            with open(write.path, "ab") as file:
                file.write(data[write.skip :])


PLAN = ("beside/plan.md", "{session}/plan.md", b"1. do it\n")


def sessions(home: Path) -> dict[str, bytes]:
    state = home / ".copilot" / "session-state"
    return {
        str(path.relative_to(state)): path.read_bytes()
        for path in state.rglob("*")
        if path.is_file()
    }


def test_place_in_an_empty_home(home: Path, here: Path) -> None:
    """At any path, in a home without Copilot: every byte, and where the session works from now
    on.
    """
    placement = copilot.place(stored(DATA, PLAN), here, host(home), new_id=NEW)

    assert list(home.iterdir()) == []
    carry_out(placement)
    workspace = f'id: {ID}\ncwd: "{os.path.realpath(here)}"\n'.encode()
    assert sessions(home) == {
        f"{ID}/events.jsonl": DATA,
        f"{ID}/plan.md": PLAN[2],
        f"{ID}/workspace.yaml": workspace,
    }
    assert (placement.session_id, placement.command, placement.note) == (
        ID,
        ("copilot", f"--resume={ID}"),
        "",
    )
    assert placement.files[0].path.name == "events.jsonl"
    assert ids(copilot.find(here, host(home))) == [ID]


def test_place_over_the_same(home: Path, here: Path) -> None:
    """Files that are the same already are left alone, and so is what Copilot says of where it
    works.
    """
    path = put(home, ID, DATA, works=str(here))
    path.with_name("plan.md").write_bytes(PLAN[2])
    again = copilot.place(stored(DATA, PLAN), here / "src", host(home), new_id=NEW)

    assert [write.how for write in again.files] == ["same"] * 2
    assert again.session_id == ID


@pytest.mark.parametrize("size", [0, 1, 999, 1000, 1001, len(DATA) - 1])
def test_place_over_a_shorter_one(home: Path, here: Path, size: int) -> None:
    """A file that is a beginning of what was stored is completed, from where it ends."""
    path = put(home, ID, DATA[:size], works=str(here))
    placement = copilot.place(stored(DATA), here, host(home), new_id=NEW)
    carry_out(placement)

    assert [(write.how, write.skip) for write in placement.files] == [("append", size)]
    assert path.read_bytes() == DATA


@pytest.mark.parametrize(
    "there", [DATA + b'{"type":"x"}\n', DATA[:-2] + b"x\n", b"other\n" + DATA], ids=str
)
def test_place_where_it_went_on(home: Path, here: Path, there: bytes) -> None:
    """A file that went on or differs is left as it is. The copy says in its first line who it is,
    and is the same.
    """
    path = put(home, ID, there, works=str(here))
    before = sessions(home)
    placement = copilot.place(stored(DATA, PLAN), here, host(home), new_id=NEW)
    carry_out(placement)
    first, rest = path.parent.with_name(NEW).joinpath("events.jsonl").read_bytes().split(b"\n", 1)

    assert before.items() <= sessions(home).items()
    assert (placement.session_id, placement.command) == (NEW, ("copilot", f"--resume={NEW}"))
    assert ID in placement.note
    assert first == EVENTS[0].rstrip().replace(ID.encode(), NEW.encode())
    assert rest == DATA.split(b"\n", 1)[1]
    assert sessions(home)[f"{NEW}/plan.md"] == PLAN[2]


def test_place_where_it_works_elsewhere(home: Path, here: Path) -> None:
    """The same session of another directory is not continued here: the agent would go there."""
    put(home, ID, DATA, works="/elsewhere")
    placement = copilot.place(stored(DATA), here, host(home), new_id=NEW)
    carry_out(placement)

    assert placement.session_id == NEW
    assert ids(copilot.find(here, host(home))) == [NEW]


def test_a_copy_names_itself(home: Path, here: Path) -> None:
    """A conversation that is to go under another id, whoever it was, and one whose first line says
    nothing.
    """
    carry_out(copilot.place(stored(DATA, session_id=None), here, host(home), new_id=NEW))
    assert (
        json.loads(sessions(home)[f"{NEW}/events.jsonl"].split(b"\n")[0])["data"]["sessionId"]
        == NEW
    )
    carry_out(copilot.place(stored(b"odd\n", session_id=None), here, host(home), new_id=OTHER))
    assert sessions(home)[f"{OTHER}/events.jsonl"] == b"odd\n"


def test_place_again_under_the_new_id(home: Path, here: Path) -> None:
    """An interrupted placement under a new id is completed by the same one; a foreign file there is
    refused.
    """
    put(home, ID, DATA + b"more\n")
    placement = copilot.place(stored(DATA), here, host(home), new_id=NEW)
    carry_out(placement)
    new = placement.files[0].path
    os.truncate(new, 100)
    again = copilot.place(stored(DATA), here, host(home), new_id=NEW)

    assert [(write.path, write.how, write.skip) for write in again.files] == [(new, "append", 100)]
    new.write_bytes(b"foreign\n")
    with pytest.raises(Refused, match="already exists with other content"):
        copilot.place(stored(DATA), here, host(home), new_id=NEW)


@pytest.mark.parametrize(
    "place",
    [
        "",
        "/etc/cron.d/x",
        "../config.json",
        "{session}",
        "{session}/",
        "{session}/../config.json",
        "{session}/./x",
        "{session}//x",
        "{session}/x\0",
        "{session}/x\n",
        "{session}/workspace.yaml",
        "{session}/events.jsonl",
        "{session}/session.db",
        "{session}/rewind-file-snapshots/index.json",
        "other/plan.md",
        "{session}/" + "x" * 300,
        "{session}/" + "d/" * 20 + "x",
    ],
)
def test_hostile_place_is_refused(home: Path, here: Path, place: str) -> None:
    """A place that leads out of the session's own directory, or to what is Copilot's, is
    refused.
    """
    with pytest.raises(StoreDamaged, match="nothing was written"):
        copilot.place(stored(DATA, ("beside/x", place, b"evil")), here, host(home), new_id=NEW)


@pytest.mark.parametrize(
    "session_id", ["", "..", "../x", "a/b", "*", "-rf", "x\0", "x\n", "é", "x" * 65, "."]
)
def test_hostile_session_id_is_refused(home: Path, here: Path, session_id: str) -> None:
    """An id that is not letters, digits and dashes never becomes a path, whether stored or new."""
    with pytest.raises(StoreDamaged, match="invalid session id"):
        copilot.place(stored(DATA, session_id=session_id), here, host(home), new_id=NEW)
    with pytest.raises(StoreDamaged, match="invalid session id"):
        copilot.place(stored(DATA, session_id=None), here, host(home), new_id=session_id)


def test_two_streams_in_one_place_are_refused(home: Path, here: Path) -> None:
    """Streams that would overwrite each other are refused."""
    with pytest.raises(StoreDamaged, match="same file"):
        copilot.place(stored(DATA, PLAN, ("beside/b", PLAN[1], b"b")), here, host(home), new_id=NEW)


def test_a_hook_that_was_called() -> None:
    """By the time in the payload that was written down; else by when it was written, of this hook
    alone.
    """
    with_payload = event(
        "hook.start", "h1", hookType="agentStop", input={"timestamp": 1795286411884}
    )
    bare = {
        "type": "hook.start",
        "timestamp": "2026-11-22T14:53:21.637Z",
        "data": {"hookType": "preToolUse"},
    }
    without = json.dumps(bare, separators=(",", ":")).encode() + b"\n"
    assert copilot.has_called(with_payload, "agentStop", 1795286411884)
    assert copilot.has_called(with_payload + without, "preToolUse", 1795359201637)
    assert copilot.has_called(without, "preToolUse", 1795359201638)
    for hook, stamp in (
        ("preToolUse", 1795359201740),
        ("postToolUse", 1795359201637),
        ("agentStop", 1),
    ):
        assert not copilot.has_called(without, hook, stamp)
    for broken in (
        b"",
        b'{"hook.start"',
        b'"hook.start"\n',
        without.replace(b"2026", b"x"),
        without[:-30],
    ):
        assert not copilot.has_called(broken, "preToolUse", 1795359201637)


def test_a_result_with_raw_line_feeds_is_shown() -> None:
    """Copilot wrote results of tools with line feeds inside a string: they are one record."""
    result = b'{"type":"tool.execution_complete","data":{"toolCallId":"c","success":true,'
    result += b'"result":{"content":"one\n{\n}\ntwo"}},"id":"r","timestamp":"2026-11-02T09:00:00Z"}'
    prompt = b'{"type":"user.message","data":{"content":"thanks"},"id":"u"}'
    lines = [*result.split(b"\n"), prompt]

    assert [message.text for message in copilot.messages(lines)] == ["one\n{\n}\ntwo", "thanks"]
