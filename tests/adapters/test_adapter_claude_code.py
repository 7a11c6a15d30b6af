"""Claude Code: its sessions found, kept byte for byte, understood as far as it goes, and put back
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
from gitcp.adapters import base, claude_code
from gitcp.adapters.base import Adapter, Message, Placement, Stored
from gitcp.errors import Refused, StoreDamaged
from gitcp.model import Agent, Digest, Host, LastMessage, Source, Stream
from gitcp.value import replace

ID = "11111111-2222-4333-8444-555555555555"
OTHER = "aaaaaaaa-bbbb-4ccc-8ddd-eeeeeeeeeeee"
NEW = "99999999-8888-4777-8666-555555555555"


def host(home: Path, env: Mapping[str, str] | None = None) -> Host:
    return Host(env or {}, home, lambda: datetime(2026, 11, 21, 12, 0, tzinfo=UTC))


# ------------------------------------------------ a transcript in the shape that Claude Code writes


def record(kind: str, uuid: str | None = None, **fields: Any) -> bytes:
    """One line. What every node of the conversation carries is filled in."""
    node = {
        "parentUuid": None,
        "isSidechain": False,
        "userType": "external",
        "cwd": "/somewhere",
        "sessionId": ID,
    }
    node |= {
        "version": "2.1.197",
        "gitBranch": "main",
        "timestamp": "2026-11-21T12:00:00.000Z",
        "uuid": uuid,
    }
    line = {**(node if uuid else {"sessionId": ID}), "type": kind, **fields}
    return json.dumps(line, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"


def user(uuid: str, content: Any, **fields: Any) -> bytes:
    return record("user", uuid, message={"role": "user", "content": content}, **fields)


def assistant(
    uuid: str, *content: dict[str, Any], model: str = "claude-opus-4-8", **fields: Any
) -> bytes:
    message = {
        "id": f"msg_{uuid}",
        "type": "message",
        "role": "assistant",
        "model": model,
        "content": list(content),
    }
    return record("assistant", uuid, message=message, **fields)


def said(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


def call(id: str, name: str, **input: Any) -> dict[str, Any]:
    return {"type": "tool_use", "id": id, "name": name, "input": input}


def result(id: str, content: Any) -> list[dict[str, Any]]:
    return [{"type": "tool_result", "tool_use_id": id, "content": content}]


TRANSCRIPT = (
    record("permission-mode", permissionMode="auto"),
    record("queue-operation", operation="enqueue", content="make a file"),
    record("file-history-snapshot", messageId="u1", snapshot={"trackedFileBackups": {}}),
    user("m1", "<local-command-caveat>Caveat: what follows was not typed", isMeta=True),
    user("u1", "make a file"),
    record(
        "attachment",
        "t1",
        attachment={"type": "hook_success", "content": 'quoted "sessionId":"no"'},
    ),
    assistant("a1", {"type": "thinking", "thinking": "A file, then."}),
    assistant("a2", said("I will write it.")),
    assistant("a3", call("toolu_1", "Write", file_path="/somewhere/b.txt", content="größer\n")),
    user(
        "r1",
        result("toolu_1", "File created"),
        toolUseResult={"sessionId": "inner", "type": "create"},
    ),
    assistant("a4", call("toolu_2", "Agent", prompt="look around")),
    user("s1", "look around", isSidechain=True),
    assistant("s2", said("I looked."), isSidechain=True),
    user("r2", result("toolu_2", [said("looked"), {"type": "image", "source": {}}])),
    assistant("a5", said("All done.")),
    user("c1", "<command-name>/compact</command-name>\n<command-message>compact</command-message>"),
    record(
        "system",
        "y1",
        subtype="compact_boundary",
        logicalParentUuid="a5",
        compactMetadata={"trigger": "manual"},
    ),
    user("k1", "This session is being continued. Before: a file was made.", isCompactSummary=True),
    record("a-type-of-next-year", payload={"x": [1, 2]}),
    user(
        "u2",
        [
            {"type": "text", "text": "<ide_opened_file>b.txt</ide_opened_file>"},
            said("now another  "),
        ],
    ),
    assistant("a6", said("API error"), model="<synthetic>"),
    user("i1", [said("[Request interrupted by user]")]),
    record("last-prompt", lastPrompt="now another", leafUuid="i1"),
)


# ---------------------------------------------------------------- the protocol


def test_modules_satisfy_the_protocol() -> None:
    """Each built-in adapter is found under the name it gives itself; mypy checks the rest here."""
    typed: tuple[Adapter, ...] = (claude_code,)

    assert [adapter.NAME for adapter in typed] == ["claude-code"]
    assert {name: adapters.load(name).NAME for name in adapters.MODULES} == {
        name: name for name in adapters.MODULES
    }


# ---------------------------------------------------------------- names of directories


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("/home/me/my project", "-home-me-my-project"),
        ("/a.b/c_d", "-a-b-c-d"),
        ("/tmp/größe", "-tmp-gr--e"),
        ("/tmp/gro\u0308\u00dfe", "-tmp-gr--e"),  # decomposed: composed first
        ("/tmp/漢字", "-tmp---"),
        ("/tmp/😀", "-tmp---"),  # two UTF-16 units
        ("/" + "d" * 199, "-" + "d" * 199),
        ("/" + "d" * 200, "-" + "d" * 199 + "-25z2kx"),
    ],
)
def test_directory_name(path: str, name: str) -> None:
    """All but letters and digits become dashes, counted as JavaScript counts; a long name ends in a
    hash.
    """
    assert claude_code.directory_name(path) == name


def test_hash_of_a_long_path_is_that_of_the_path() -> None:
    """Long paths that differ only behind the cut, or only in what becomes a dash, have different
    names.
    """
    long = "/" + "x" * 220
    names = {
        claude_code.directory_name(path)
        for path in (long + "a", long + "b", long + ".", long + "_")
    }

    assert len(names) == 4


# ---------------------------------------------------------------- finding


def put(
    home: Path, directory: str, session_id: str, *lines: bytes, modified: float = 1000.0
) -> Path:
    path = home / ".claude" / "projects" / directory / f"{session_id}.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"".join(lines))
    os.utime(path, (modified, modified))
    return path


def named(path: Path) -> str:
    return claude_code.directory_name(os.path.realpath(path))


def test_nothing_found_in_an_empty_home(home: Path, here: Path) -> None:
    """Without Claude Code there are no sessions, and looking makes no directory."""
    assert claude_code.find(here, host(home)) == ()
    assert list(home.iterdir()) == []


def test_sessions_of_the_directory_and_of_the_root(home: Path, here: Path) -> None:
    """From a subdirectory, the sessions started there and those started at the root are found,
    newest first.
    """
    below = here / "src"
    below.mkdir()
    path = put(home, named(here), ID, *TRANSCRIPT, modified=5.0)
    put(home, named(below), OTHER, *TRANSCRIPT, modified=6.0)
    put(home, "-elsewhere", NEW, *TRANSCRIPT, modified=7.0)

    assert ids(claude_code.find(below, host(home))) == [OTHER, ID]
    assert claude_code.find(here, host(home)) == (base.Found("claude-code", ID, path, 5.0),)


def test_symlinked_directory(home: Path, here: Path, tmp_path: Path) -> None:
    """A directory reached through a link has the sessions of the directory it is."""
    put(home, named(here), ID, *TRANSCRIPT)
    link = tmp_path / "link"
    link.symlink_to(here)

    assert ids(claude_code.find(link, host(home))) == [ID]


def test_configured_directories(home: Path, here: Path, tmp_path: Path) -> None:
    """CLAUDE_CONFIG_DIR and CLAUDE_CODE_PROJECT_DIR_NAME are obeyed; a name that leads elsewhere is
    not.
    """
    mine = user("u1", "x", cwd=os.path.realpath(here))
    moved = put(tmp_path / "other", "chosen", ID, mine)
    env = {
        "CLAUDE_CONFIG_DIR": str(tmp_path / "other" / ".claude"),
        "CLAUDE_CODE_PROJECT_DIR_NAME": "chosen",
    }

    assert [f.path for f in claude_code.find(here, host(home, env))] == [moved]
    assert claude_code.transcript(here, ID, host(home, env)) == moved
    env["CLAUDE_CODE_PROJECT_DIR_NAME"] = "../chosen"
    assert claude_code.transcript(here, ID, host(home, env)).parent.name == named(here)


def test_directory_shared_by_two_paths(home: Path, tmp_path: Path) -> None:
    """Where two paths have one name, the `cwd` in the lines tells whose session it is; one brought
    here is ours.
    """
    ours, theirs = tmp_path / "a-b", tmp_path / "a.b"
    ours.mkdir()
    theirs.mkdir()
    put(home, named(ours), ID, record("mode", mode="x"), user("u1", "x", cwd=str(ours)))
    put(home, named(theirs), OTHER, user("u1", "x", cwd=str(theirs)))
    put(home, named(ours), NEW, user("u1", "x", cwd="/from/another/machine"), modified=2000.0)

    assert named(ours) == named(theirs)
    assert ids(claude_code.find(ours, host(home))) == [NEW, ID]
    assert ids(claude_code.find(theirs, host(home))) == [NEW, OTHER]


def test_long_path_with_another_hash(home: Path, tmp_path: Path) -> None:
    """A long path's directory is recognised whatever hash it ends in, by the `cwd` of its lines,
    for both ways.
    """
    long = tmp_path / ("d" * 150) / ("e" * 150)
    long.mkdir(parents=True)
    name = named(long)[:200] + "-otherhash"
    path = put(home, name, ID, user("u1", "x", cwd=os.path.realpath(long)))
    put(home, named(long)[:200] + "-foreign", OTHER, user("u1", "x", cwd="/" + "d" * 300))

    assert ids(claude_code.find(long, host(home))) == [ID]
    assert claude_code.transcript(long, ID, host(home)) == path


def test_files_that_are_no_sessions(home: Path, here: Path) -> None:
    """Sub-agents of old versions, links, directories and odd names are not taken for sessions."""
    path = put(home, named(here), ID, *TRANSCRIPT)
    for name in (
        "agent-1234.jsonl",
        "-rf.jsonl",
        "a b.jsonl",
        ".jsonl",
        "notes.txt",
        "x" * 65 + ".jsonl",
    ):
        path.with_name(name).write_bytes(b"{}\n")
    path.with_name("link.jsonl").symlink_to(path)
    path.with_name("directory.jsonl").mkdir()

    assert ids(claude_code.find(here, host(home))) == [ID]


def test_running_session(home: Path, here: Path) -> None:
    """The session named by the environment is found wherever it was started; a name that is a path
    is no id.
    """
    put(home, "-elsewhere", ID, *TRANSCRIPT)
    env = {"CLAUDE_CODE_SESSION_ID": ID}

    assert claude_code.running(host(home, env)) == ID
    assert ids(claude_code.find(here, host(home, env))) == [ID]
    assert adapters.running(host(home, env)) == ("claude-code", ID)
    assert claude_code.running(host(home)) is None
    for odd in ("../../x", "", "a/b", "*", "-x", "x\n"):
        assert claude_code.running(host(home, {"CLAUDE_CODE_SESSION_ID": odd})) is None


def test_find_all_is_newest_first(home: Path, here: Path) -> None:
    """The sessions of all agents come in one list, the newest first."""
    put(home, named(here), ID, *TRANSCRIPT, modified=3.0)
    put(home, named(here), OTHER, *TRANSCRIPT, modified=4.0)

    assert ids(adapters.find_all(here, host(home))) == [OTHER, ID]


# ---------------------------------------------------------------- capturing


def test_capture_of_all_streams(home: Path, here: Path) -> None:
    """The transcript, its sub-agents and the tool results are streams; lines are live, whole files
    are not.
    """
    path = put(home, named(here), ID, *TRANSCRIPT)
    beside = path.with_suffix("")
    for name in (
        "subagents/agent-7f.jsonl",
        "subagents/agent-7f.meta.json",
        "subagents/workflows/w1/journal.jsonl",
        "tool-results/toolu_1.txt",
        "tool-results/with blank.txt",
        "memory/not-ours.md",
    ):
        beside.joinpath(name).parent.mkdir(parents=True, exist_ok=True)
        beside.joinpath(name).write_bytes(name.encode())
    beside.joinpath("tool-results/link.txt").symlink_to("/etc/passwd")
    capture = claude_code.capture(claude_code.find(here, host(home))[0])
    names = {source.name: source.place for source in capture.sources}
    odd = [name for name in names if len(name) > 30]

    assert (capture.agent, capture.format) == (Agent("claude-code", ID), "claude-code")
    assert capture.sources[0] == Source("main", path=path, live=True, place="{session}.jsonl")
    assert names["agents/7f"] == "{session}/subagents/agent-7f.jsonl"
    assert names["meta/7f"] == "{session}/subagents/agent-7f.meta.json"
    assert names["tool-results/toolu_1.txt"] == "{session}/tool-results/toolu_1.txt"
    assert sorted(names[name] for name in odd) == [
        "{session}/subagents/workflows/w1/journal.jsonl",
        "{session}/tool-results/with blank.txt",
    ]
    assert len(names) == 6
    assert {source.name for source in capture.sources if source.live} == {
        "main",
        "agents/7f",
        *odd[:1],
    }
    assert all(base.STREAM_PART.fullmatch(part) for name in names for part in name.split("/"))
    assert claude_code.capture(claude_code.find(here, host(home))[0]) == capture


def test_names_that_are_not_text(home: Path, here: Path) -> None:
    """A file whose name cannot be written down is kept all the same, and comes back under a name
    that can.
    """
    path = put(home, named(here), ID, *TRANSCRIPT)
    results = os.fsencode(path.with_suffix("") / "tool-results")
    os.makedirs(results)
    for name in (b"\xff\xfe.txt", b"line\nbreak", b"..."):
        with open(os.path.join(results, name), "wb") as file:
            file.write(name)
    sources = claude_code.capture(claude_code.find(here, host(home))[0]).sources[1:]

    assert len({source.name for source in sources}) == 3
    for source in sources:
        source.place.encode("utf-8")
        assert source.name.isascii()
        assert base.place_parts(source.place) is not None


def test_capture_by_hand_of_any_name(tmp_path: Path) -> None:
    """A transcript whose file name is no session id is captured without one."""
    path = tmp_path / "my chat (1).jsonl"
    path.write_bytes(b"".join(TRANSCRIPT))
    capture = claude_code.capture(base.Found("claude-code", path.stem, path, 0.0))

    assert capture.agent == Agent("claude-code", None)
    assert [source.path for source in capture.sources] == [path]


# ---------------------------------------------------------------- understanding


def test_digest() -> None:
    """Counted are turns of the conversation itself; the last message and the last prompt are ones a
    person reads.
    """
    digest = claude_code.digest(Digest(), TRANSCRIPT)

    assert digest == Digest(
        messages=13,
        last_message=LastMessage("assistant", "API error", "a6"),
        last_prompt="now another",
        title=None,
        version="2.1.197",
        model="claude-opus-4-8",
        unknown=("a-type-of-next-year",),
    )


@pytest.mark.parametrize("size", range(1, len(TRANSCRIPT)))
def test_digest_is_taken_further(size: int) -> None:
    """A digest of the beginning, taken further over the rest, is the digest of the whole."""
    whole = claude_code.digest(Digest(), TRANSCRIPT)

    assert (
        claude_code.digest(claude_code.digest(Digest(), TRANSCRIPT[:size]), TRANSCRIPT[size:])
        == whole
    )


def test_what_is_no_prompt() -> None:
    """Tool results, summaries, slash commands and notices leave the last prompt as it was."""
    before = claude_code.digest(Digest(), [user("u", "typed by a person")])
    for line in (
        user("1", result("x", "given back")),
        user("2", "a summary", isCompactSummary=True),
        user("3", "for the model", isMeta=True),
        user("4", "shown only", isVisibleInTranscriptOnly=True),
        user("5", "of a sub-agent", isSidechain=True),
        user("6", "<command-name>/model</command-name>"),
        user("7", "<local-command-stdout>ok</local-command-stdout>"),
        user("8", "<task-notification>done</task-notification>"),
        user("9", "[Request interrupted by user for tool use]"),
        user("10", "  \n"),
        user("11", [{"type": "image", "source": {}}]),
        assistant("12", call("t", "Bash", command="ls")),
    ):
        after = claude_code.digest(before, [line])

        assert (after.last_prompt, after.last_message) == (before.last_prompt, before.last_message)


def test_long_messages_are_cut() -> None:
    """A digest keeps the first 200 characters."""
    digest = claude_code.digest(Digest(), [user("u", " " + "ä" * 500)])

    assert digest.last_prompt == "ä" * 200
    assert digest.last_message == LastMessage("user", "ä" * 200, "u")


def test_titles() -> None:
    """A title given by a person stands against any that was made up, whichever comes last."""
    made = record("ai-title", aiTitle="made up")
    own = record("custom-title", customTitle="my own")
    old = record("summary", summary="a summary", leafUuid="x")

    assert claude_code.digest(Digest(), [old]).title == "a summary"
    assert claude_code.digest(Digest(), [made, old]).title == "made up"
    assert claude_code.digest(Digest(), [made, own, made]).title == "my own"


def test_messages() -> None:
    """Shown are the parts of turns in order, with tool calls and what they gave back."""
    shown = list(claude_code.messages(TRANSCRIPT))

    assert [(m.role, m.text, m.tool) for m in shown] == [
        ("user", "make a file", None),
        ("thinking", "A file, then.", None),
        ("assistant", "I will write it.", None),
        ("assistant", '{"file_path":"/somewhere/b.txt","content":"größer\\n"}', "Write"),
        ("tool", "File created", "Write"),
        ("assistant", '{"prompt":"look around"}', "Agent"),
        ("user", "look around", None),
        ("assistant", "I looked.", None),
        ("tool", "looked", "Agent"),
        ("assistant", "All done.", None),
        (
            "system",
            "<command-name>/compact</command-name>\n<command-message>compact</command-message>",
            None,
        ),
        ("summary", "This session is being continued. Before: a file was made.", None),
        ("system", "<ide_opened_file>b.txt</ide_opened_file>", None),
        ("user", "now another  ", None),
        ("assistant", "API error", None),
        ("system", "[Request interrupted by user]", None),
    ]
    assert shown[0] == Message("user", "make a file", "u1", "2026-11-21T12:00:00.000Z", None)


json_value = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=6,
)
part = st.fixed_dictionaries(
    {
        "type": st.sampled_from(["text", "tool_use", "tool_result", "thinking", "image"])
        | json_value
    },
    optional=dict.fromkeys(
        ("text", "id", "name", "input", "content", "thinking", "tool_use_id"), json_value
    ),
)
fields = st.fixed_dictionaries(
    {"type": st.sampled_from(["user", "assistant", "summary", "custom-title"]) | json_value},
    optional={
        "message": st.fixed_dictionaries({"content": json_value | st.lists(part | json_value)})
        | json_value,
        **dict.fromkeys(
            ("uuid", "version", "isMeta", "customTitle", "summary", "timestamp", "cwd"), json_value
        ),
    },
)
garbage = (
    fields.map(lambda value: json.dumps(value).encode())
    | json_value.map(lambda v: json.dumps(v).encode())
    | st.binary()
)


@pytest.mark.faults
@given(st.lists(garbage, max_size=6))
def test_any_line_is_tolerated(lines: list[bytes]) -> None:
    """Whatever a line holds, it is passed over or understood, never an error."""
    digest = claude_code.digest(Digest(), lines)

    assert 0 <= digest.messages <= len(lines)
    assert digest.last_prompt is None or isinstance(digest.last_prompt, str)
    assert all(isinstance(m.text, str) and m.text for m in claude_code.messages(lines))
    assert claude_code.before(lines, "no such id") is None


def test_torn_and_broken_lines_between_good_ones() -> None:
    """Broken lines do not hide the ones around them."""
    lines = [
        b"\xff\xfe\n",
        TRANSCRIPT[4][:30],
        b"",
        b"[1,2]\n",
        b"nul\0\n",
        TRANSCRIPT[4],
        b'{"type":"user"',
    ]

    assert claude_code.digest(Digest(), lines).last_prompt == "make a file"


def test_before_a_message() -> None:
    """The offset just before a user line with this id, with or without line ends; ids in other
    places do not count.
    """
    data = b"".join(TRANSCRIPT)
    offset = claude_code.before(TRANSCRIPT, "u2")

    assert offset == data.index(TRANSCRIPT[19])
    assert claude_code.before([line.rstrip(b"\n") for line in TRANSCRIPT], "u2") == offset
    # and not at the snapshot that names it
    assert claude_code.before(TRANSCRIPT, "u1") == data.index(TRANSCRIPT[4])
    assert claude_code.before(TRANSCRIPT, "a5") is None
    assert claude_code.before(TRANSCRIPT, "") is None


# ---------------------------------------------------------------- placing


def chunked(data: bytes, size: int = 1000) -> Iterator[bytes]:
    for start in range(0, len(data), size):
        yield data[start : start + size]


def stored(data: bytes, *others: tuple[str, str, bytes], session_id: str | None = ID) -> Stored:
    """A stored conversation: its main stream, and others as (name, place, bytes)."""
    streams = [
        (Stream(name, len(content), "0" * 64, place), partial(chunked, content))
        for name, place, content in (("main", "{session}.jsonl", data), *others)
    ]
    return Stored(Agent("claude-code", session_id), tuple(streams))


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


DATA = b"".join(TRANSCRIPT)
BESIDE = (
    ("agents/7f", "{session}/subagents/agent-7f.jsonl", user("s1", "look", agentId="7f")),
    ("meta/7f", "{session}/subagents/agent-7f.meta.json", b'{"sessionId":"kept as it is"}'),
    ("tool-results/x.txt", "{session}/tool-results/x.txt", b'"sessionId": "also kept"\n'),
)


def test_place_in_an_empty_home(home: Path, tmp_path: Path) -> None:
    """At another path, in a home without Claude Code, every byte goes where resume from there
    looks.
    """
    there = tmp_path / "another place"
    there.mkdir()
    placement = claude_code.place(stored(DATA, *BESIDE), there, host(home), new_id=NEW)

    assert list(home.iterdir()) == []
    carry_out(placement)
    directory = home / ".claude" / "projects" / named(there)
    assert {
        str(p.relative_to(directory)): p.read_bytes() for p in directory.rglob("*") if p.is_file()
    } == {
        f"{ID}.jsonl": DATA,
        f"{ID}/subagents/agent-7f.jsonl": BESIDE[0][2],
        f"{ID}/subagents/agent-7f.meta.json": BESIDE[1][2],
        f"{ID}/tool-results/x.txt": BESIDE[2][2],
    }
    assert placement.session_id == ID
    assert placement.command == ("claude", "--resume", ID)
    assert placement.note == ""
    assert placement.files[0].path == claude_code.transcript(there, ID, host(home))
    assert ids(claude_code.find(there, host(home))) == [ID]


def test_place_over_the_same(home: Path, here: Path) -> None:
    """Files that are the same already are left alone."""
    placement = claude_code.place(stored(DATA, *BESIDE), here, host(home), new_id=NEW)
    carry_out(placement)
    again = claude_code.place(stored(DATA, *BESIDE), here, host(home), new_id=NEW)

    assert [write.how for write in again.files] == ["same"] * 4
    assert again.session_id == ID


@pytest.mark.parametrize("size", [0, 1, 999, 1000, 1001, len(DATA) - 1])
def test_place_over_a_shorter_one(home: Path, here: Path, size: int) -> None:
    """A file that is a beginning of what was stored is completed, from where it ends."""
    path = put(home, named(here), ID, DATA[:size])
    placement = claude_code.place(stored(DATA), here, host(home), new_id=NEW)
    carry_out(placement)

    assert [(write.how, write.skip) for write in placement.files] == [("append", size)]
    assert placement.session_id == ID
    assert path.read_bytes() == DATA


@pytest.mark.parametrize(
    "there", [DATA + b'{"type":"mode"}\n', DATA[:-2] + b"x\n", b"other\n" + DATA], ids=str
)
def test_place_where_it_went_on(home: Path, here: Path, there: bytes) -> None:
    """A file that went on or differs is left as it is; everything goes under the new id, byte for
    byte.
    """
    path = put(home, named(here), ID, there)
    placement = claude_code.place(stored(DATA, *BESIDE), here, host(home), new_id=NEW)
    carry_out(placement)
    new = path.with_name(f"{NEW}.jsonl").read_bytes()

    assert path.read_bytes() == there
    assert not path.with_suffix("").exists()
    assert placement.session_id == NEW
    assert placement.command == ("claude", "--resume", NEW)
    assert ID in placement.note
    assert new == DATA
    assert path.with_name(NEW).joinpath("subagents/agent-7f.jsonl").read_bytes() == BESIDE[0][2]
    assert path.with_name(NEW).joinpath("subagents/agent-7f.meta.json").read_bytes() == BESIDE[1][2]
    assert path.with_name(NEW).joinpath("tool-results/x.txt").read_bytes() == BESIDE[2][2]


def test_place_where_only_a_sub_agent_went_on(home: Path, here: Path) -> None:
    """One file that went on is enough: all of them go under the new id together."""
    path = put(home, named(here), ID, DATA)
    agent = path.with_suffix("") / "subagents" / "agent-7f.jsonl"
    agent.parent.mkdir(parents=True)
    agent.write_bytes(BESIDE[0][2] + b"more\n")
    placement = claude_code.place(stored(DATA, *BESIDE), here, host(home), new_id=NEW)

    assert placement.session_id == NEW
    assert {write.how for write in placement.files} == {"create"}


def test_place_again_under_the_new_id(home: Path, here: Path) -> None:
    """An interrupted placement under a new id is completed by the same one; a foreign file there is
    refused.
    """
    put(home, named(here), ID, DATA + b"more\n")
    carry_out(claude_code.place(stored(DATA), here, host(home), new_id=NEW))
    new = claude_code.transcript(here, NEW, host(home))
    os.truncate(new, 100)
    again = claude_code.place(stored(DATA), here, host(home), new_id=NEW)

    assert [(write.how, write.skip) for write in again.files] == [("append", 100)]
    new.write_bytes(b"foreign\n")
    with pytest.raises(Refused, match="already exists with other content"):
        claude_code.place(stored(DATA), here, host(home), new_id=NEW)


def test_place_where_no_file_can_be(home: Path, here: Path) -> None:
    """A directory, a link or a pipe in the place of the file counts as something else, and is not
    touched.
    """
    path = claude_code.transcript(here, ID, host(home))
    path.parent.mkdir(parents=True)
    target = path.with_name("target")
    target.write_bytes(DATA)
    for make in (Path.mkdir, os.mkfifo, partial(os.symlink, target)):
        make(path)
        assert claude_code.place(stored(DATA), here, host(home), new_id=NEW).session_id == NEW
        path.rmdir() if path.is_dir() else path.unlink()


def test_place_without_an_id(home: Path, here: Path) -> None:
    """A conversation that was given by hand, and has no id of its own, goes under the new one."""
    placement = claude_code.place(stored(DATA, session_id=None), here, host(home), new_id=NEW)

    assert (placement.session_id, placement.note) == (NEW, "")


@pytest.mark.parametrize(
    "place",
    [
        "",
        "/etc/cron.d/x",
        "../settings.json",
        "{session}",
        "{session}.jsonl",
        "{session}/x.jsonl",
        "{session}/subagents",
        "{session}/subagents/",
        "{session}/subagents/../../../../settings.json",
        "{session}/subagents/./x.jsonl",
        "{session}//subagents/x.jsonl",
        "{session}/subagents/x\0.jsonl",
        "{session}/subagents/x\n.jsonl",
        "{session}/subagents/..\\x.jsonl",
        "{session}/subagents/\ud800",
        "{session}/hooks/x.json",
        "memory/MEMORY.md",
        "other/subagents/x.jsonl",
        "{session}/subagents/" + "x" * 300,
        "{session}/subagents/" + "d/" * 20 + "x",
    ],
)
def test_hostile_place_is_refused(home: Path, here: Path, place: str) -> None:
    """A place that leads out of the session's own directory, or is none, is refused before anything
    is written.
    """
    with pytest.raises(StoreDamaged, match="nothing was written"):
        claude_code.place(stored(DATA, ("agents/x", place, b"evil")), here, host(home), new_id=NEW)


@pytest.mark.parametrize(
    "session_id", ["", "..", "../x", "a/b", "/etc/passwd", "-rf", "x\0", "x\n", "é", "x" * 65, "."]
)
def test_hostile_session_id_is_refused(home: Path, here: Path, session_id: str) -> None:
    """An id that is not letters, digits and dashes never becomes a path, whether stored or new."""
    with pytest.raises(StoreDamaged, match="invalid session id"):
        claude_code.place(stored(DATA, session_id=session_id), here, host(home), new_id=NEW)
    with pytest.raises(StoreDamaged, match="invalid session id"):
        claude_code.place(stored(DATA, session_id=None), here, host(home), new_id=session_id)


def test_two_streams_in_one_place_are_refused(home: Path, here: Path) -> None:
    """Streams that would overwrite each other are refused."""
    place = "{session}/subagents/agent-1.jsonl"
    with pytest.raises(StoreDamaged, match="same file"):
        claude_code.place(
            stored(DATA, ("agents/1", place, b"a"), ("agents/2", place, b"b")),
            here,
            host(home),
            new_id=NEW,
        )


def test_place_of_the_main_stream_is_ours(home: Path, here: Path) -> None:
    """Whatever a checkpoint says of the main stream's place, it goes where resume looks."""
    conversation = stored(DATA)
    main = conversation.streams[0]
    lying = replace(conversation, streams=((replace(main[0], place="../../evil"), main[1]),))

    placement = claude_code.place(lying, here, host(home), new_id=NEW)

    assert [write.path for write in placement.files] == [
        claude_code.transcript(here, ID, host(home))
    ]


# ---------------------------------------------------------------- lines


@given(st.lists(st.binary(max_size=6) | st.sampled_from([b"\n", b"a\nb"])))
def test_lines_joined_are_the_stream(chunks: list[bytes]) -> None:
    """Lines are found across chunks, whatever these are, and joined they are the stream."""
    found = list(base.lines(chunks))

    assert b"".join(found) == b"".join(chunks)
    assert [line.removesuffix(b"\n") for line in found] == b"".join(chunks).removesuffix(
        b"\n"
    ).split(b"\n")[: len(found)]
    assert all(line.endswith(b"\n") for line in found[:-1])
    assert b"" not in found
