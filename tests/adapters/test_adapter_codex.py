"""Codex: its threads found, kept byte for byte, understood as far as it goes, and put back to be
resumed.
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
from gitcp.adapters import base, codex
from gitcp.adapters.base import Adapter, Message, Placement, Stored
from gitcp.errors import Refused, StoreDamaged
from gitcp.model import Agent, Digest, Host, LastMessage, Source, Stream

ID = "01a1fea3-2e04-7790-8b0f-4d3dd6e64ae5"
OTHER = "01a1fea6-9bdb-7c21-bc12-b5b25f524d97"
CHILD = "01a1fea6-9df6-77e0-a293-6d362ebd4b09"
NEW = "99999999-8888-4777-8666-555555555555"
DAY = "2026/11/21"


def host(home: Path, env: Mapping[str, str] | None = None) -> Host:
    return Host(env or {}, home, lambda: datetime(2026, 11, 21, 12, 0, tzinfo=UTC))


# --------------------------------------------------------- a rollout in the shape that Codex writes


def record(kind: str, **payload: Any) -> bytes:
    line = {"timestamp": "2026-11-21T12:00:00.000Z", "ordinal": 0, "type": kind, "payload": payload}
    return json.dumps(line, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"


def meta(thread: str = ID, cwd: str = "/somewhere", **fields: Any) -> bytes:
    """A first line, with instructions as long as the real ones."""
    named = {
        "session_id": thread,
        "id": thread,
        "cwd": cwd,
        "cli_version": "0.169.0",
        "source": "exec",
    }
    return record(
        "session_meta",
        **{**named, "thread_source": "user", **fields, "base_instructions": "x" * 20_000},
    )


def item(kind: str, **fields: Any) -> bytes:
    return record("response_item", type=kind, **fields)


def said(role: str, text: str, id: str | None = None) -> bytes:
    kind = "output_text" if role == "assistant" else "input_text"
    return item("message", role=role, id=id, content=[{"type": kind, "text": text}])


ROLLOUT = (
    meta(),
    record("event_msg", type="task_started", turn_id="t1"),
    said("developer", "<permissions instructions>"),
    said("user", "<environment_context>\n  <cwd>/somewhere</cwd>"),
    record("world_state", full=True, state={}),
    record("turn_context", turn_id="t1", cwd="/somewhere", model="gpt-5.5"),
    said("user", "make a file", "m1"),
    record("event_msg", type="item_completed", item={"type": "UserMessage", "id": "u1"}),
    item(
        "reasoning",
        id="rs1",
        summary=[{"type": "summary_text", "text": "A file, then."}],
        encrypted_content="ZW5j",
    ),
    item("custom_tool_call", call_id="c1", name="apply_patch", input="*** Begin Patch\n+größer\n"),
    item("custom_tool_call_output", call_id="c1", output="Exit code: 0"),
    item("function_call", call_id="c2", name="exec_command", arguments='{"cmd":"ls"}'),
    item("function_call_output", call_id="c2", output=[{"type": "input_text", "text": "b.txt"}]),
    item("web_search_call", action={"type": "search", "query": "q"}),
    said("assistant", "All done.", "a1"),
    record("token_usage_record", usage={"input_tokens": 10}),
    record("event_msg", type="task_complete", turn_id="t1"),
    record("compacted", message="Before: a file was made.", replacement_history=[]),
    record("a-type-of-next-year", x=[1, 2]),
    item("an-item-of-next-year", text="?"),
    said("user", "now another  ", "m2"),
    said("user", "<turn_aborted>\n"),
)
DATA = b"".join(ROLLOUT)


def put(home: Path, thread: str, *lines: bytes, day: str = DAY, modified: float = 1000.0) -> Path:
    name = f"rollout-{day.replace('/', '-')}T12-00-00-{thread}.jsonl"
    path = home / ".codex" / "sessions" / day / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"".join(lines))
    path.chmod(0o644)
    os.utime(path, (modified, modified))
    return path


def test_the_module_satisfies_the_protocol() -> None:
    """It is found under the name it gives itself; mypy checks the rest here."""
    typed: Adapter = codex

    assert adapters.load("codex") is typed
    assert typed.NAME == "codex"


# ---------------------------------------------------------------- finding


def test_nothing_found_in_an_empty_home(home: Path, here: Path) -> None:
    """Without Codex there are no threads, and looking makes no directory."""
    assert codex.find(here, host(home)) == ()
    assert list(home.iterdir()) == []


def test_threads_of_the_directory_and_of_the_root(home: Path, here: Path) -> None:
    """From a subdirectory, the threads begun there and at the root are found, newest first;
    sub-agents are not.
    """
    below = here / "src"
    below.mkdir()
    first = put(home, ID, meta(cwd=str(here)), modified=5.0, day="2025/01/02")
    put(home, OTHER, meta(OTHER, str(below)), modified=6.0)
    put(home, NEW, meta(NEW, "/elsewhere"), modified=7.0)
    put(home, CHILD, meta(CHILD, str(here), session_id=ID, thread_source="subagent"), modified=8.0)
    put(
        home,
        "old-child",
        meta("old-child", str(here), thread_source=None, source={"subagent": "review"}),
    )

    assert ids(codex.find(below, host(home))) == [OTHER, ID]
    assert codex.find(here, host(home)) == (base.Found("codex", ID, first, 5.0),)


def test_links_and_odd_paths(home: Path, tmp_path: Path) -> None:
    """A directory is the one it is, however it was reached and whatever its name needs of JSON."""
    real = tmp_path / 'odd "größe" \\ 漢'
    real.mkdir()
    link = tmp_path / "link"
    link.symlink_to(real)
    put(home, ID, meta(cwd=str(link)))

    assert ids(codex.find(real, host(home))) == [ID]
    assert ids(codex.find(link, host(home))) == [ID]


def test_configured_home(home: Path, here: Path, tmp_path: Path) -> None:
    """CODEX_HOME is obeyed."""
    path = put(tmp_path / "other", ID, meta(cwd=str(here)))
    env = {"CODEX_HOME": str(tmp_path / "other" / ".codex")}

    assert [f.path for f in codex.find(here, host(home, env))] == [path]
    assert codex.find(here, host(home)) == ()


def test_running_thread(home: Path, here: Path) -> None:
    """The thread named by the environment is found wherever it began; a name that is a path is no
    id.
    """
    put(home, ID, meta())
    env = {"CODEX_SESSION_ID": ID, "CODEX_THREAD_ID": CHILD}

    assert codex.running(host(home, env)) == ID
    assert ids(codex.find(here, host(home, env))) == [ID]
    assert adapters.running(host(home, env)) == ("codex", ID)
    assert codex.running(host(home, {"CODEX_THREAD_ID": ID})) == ID
    for odd in ("../../x", "", "a/b", "*", "-x", "x\n"):
        assert codex.running(host(home, {"CODEX_THREAD_ID": odd})) is None


def test_a_thread_that_a_restore_brought_here(home: Path, here: Path) -> None:
    """One begun elsewhere, put here by a restore and continued here, is ours by where it went
    on.
    """
    moved = record("turn_context", cwd=str(here), model="gpt-5.5")
    path = put(home, ID, *ROLLOUT, moved, said("user", '{"cwd":"/not/this"} "turn_context"'))

    assert codex.find(here, host(home)) == ()
    path.chmod(0o600)
    assert ids(codex.find(here, host(home))) == [ID]
    assert path in codex.watched(here, host(home))
    path.write_bytes(DATA)
    assert codex.find(here, host(home)) == ()


def test_files_that_are_no_threads(home: Path, here: Path) -> None:
    """Links, directories, compressed ones, odd names and empty files are not taken for threads."""
    path = put(home, ID, meta(cwd=str(here)))
    for name in ("notes.txt", f"{path.name}.zst", "rollout-x.jsonl", path.name.replace(ID, "..")):
        path.with_name(name).write_bytes(meta(cwd=str(here)))
    path.with_name(path.name.replace(ID, OTHER)).symlink_to(path)
    path.with_name(path.name.replace(ID, NEW)).mkdir()
    put(home, "empty")
    put(home, "binary", b"\xff\xfe\0")
    put(home, "no-path", b'{"payload":{"cwd":"\\ud800"}}\n')
    path.parents[2].joinpath("not a year", "11", "21").mkdir(parents=True)

    assert ids(codex.find(here, host(home))) == [ID]


def test_what_is_watched(home: Path, here: Path) -> None:
    """The directory of each day, where a new thread would appear, and the files of this directory's
    threads.
    """
    path = put(home, ID, meta(cwd=str(here)))
    other = put(home, OTHER, meta(OTHER, "/elsewhere"), day="2025/01/02")
    watched = codex.watched(here, host(home))

    assert {path, *path.parents[:4], other.parent} <= set(watched)
    assert other not in watched
    assert codex.watched(here, host(home / "none")) == (home / "none" / ".codex" / "sessions",)


# ---------------------------------------------------------------- capturing


def test_capture_of_all_streams(home: Path, here: Path) -> None:
    """The thread, its sub-agents and theirs, and what it was forked from, through several forks,
    are streams.
    """
    root = put(home, "root", meta("root"), day="2025/01/02")
    base_ = {"thread_id": "root", "end_ordinal_exclusive": 1, "end_byte_offset": 10}
    parent = put(home, OTHER, meta(OTHER, history_base=base_), day="2026/01/02")
    path = put(
        home, ID, meta(cwd=str(here), history_base={**base_, "thread_id": OTHER}), *ROLLOUT[1:]
    )
    child = put(home, CHILD, meta(CHILD, session_id=ID, thread_source="subagent"), day="2026/12/01")
    put(home, "stranger", meta("stranger", session_id="x", thread_source="subagent"))
    put(
        home,
        "too-early",
        meta("too-early", session_id=ID, thread_source="subagent"),
        day="2026/11/20",
    )
    capture = codex.capture(codex.find(here, host(home))[0])

    assert (capture.agent, capture.format) == (Agent("codex", ID), "codex")
    assert capture.sources == (
        Source("main", path=path, live=True, place=path.name),
        Source(f"parents/{OTHER}", path=parent, live=True, place=parent.name),
        Source("parents/root", path=root, live=True, place=root.name),
        Source(f"agents/{CHILD}", path=child, live=True, place=child.name),
    )
    assert all(
        base.STREAM_PART.fullmatch(part)
        for source in capture.sources
        for part in source.name.split("/")
    )


def test_capture_of_what_was_put_away(home: Path, here: Path) -> None:
    """What a fork goes on from is kept as it lies: archived, or compressed, and then to its last
    byte.
    """
    path = put(home, ID, meta(cwd=str(here), history_base={"thread_id": OTHER}))
    archived = home / ".codex" / "archived_sessions" / path.name.replace(ID, OTHER)
    archived.parent.mkdir()
    archived.write_bytes(meta(OTHER, history_base={"thread_id": NEW}))
    packed = path.with_name(path.name.replace(ID, NEW) + ".zst")
    packed.write_bytes(b"\x28\xb5\x2f\xfd compressed")
    sources = codex.capture(codex.find(here, host(home))[0]).sources

    assert sources[1:] == (
        Source(f"parents/{OTHER}", path=archived, live=True, place=archived.name),
        Source(f"parents/{NEW}", path=packed, live=False, place=packed.name),
    )


@pytest.mark.parametrize(
    "origin",
    [
        {"thread_id": ID},
        {"thread_id": "../x"},
        {"thread_id": "gone"},
        {"thread_id": 1},
        "x",
        None,
        [],
        {},
    ],
)
def test_odd_origins(home: Path, here: Path, origin: Any) -> None:
    """A fork of itself, of nothing, or of what is not there has no ancestors; and two of each other
    end.
    """
    put(home, ID, meta(cwd=str(here), history_base=origin))

    assert [source.name for source in codex.capture(codex.find(here, host(home))[0]).sources] == [
        "main"
    ]
    put(home, ID, meta(cwd=str(here), history_base={"thread_id": OTHER}))
    put(home, OTHER, meta(OTHER, history_base={"thread_id": ID}))
    assert len(codex.capture(codex.find(here, host(home))[0]).sources) == 2


def test_capture_by_hand_of_any_name(tmp_path: Path) -> None:
    """A rollout given by hand is known by its first line, else by its name, else by nothing."""
    path = tmp_path / "my chat (1).jsonl"
    path.write_bytes(DATA)
    capture = codex.capture(base.Found("codex", path.stem, path, 0.0))

    assert capture.agent == Agent("codex", ID)
    assert [source.path for source in capture.sources] == [path]
    path.write_bytes(b"not json\n")
    assert codex.capture(base.Found("codex", path.stem, path, 0.0)).agent == Agent("codex", None)
    path = path.rename(tmp_path / f"rollout-2026-11-21T12-00-00-{OTHER}.jsonl")
    assert codex.capture(base.Found("codex", path.stem, path, 0.0)).agent == Agent("codex", OTHER)


# ---------------------------------------------------------------- understanding


def test_digest() -> None:
    """Counted are what was said, calls and what they gave back; not what was put in for the model
    alone.
    """
    assert codex.digest(Digest(), ROLLOUT) == Digest(
        messages=8,
        last_message=LastMessage("user", "now another", "m2"),
        last_prompt="now another",
        version="0.169.0",
        model="gpt-5.5",
        unknown=("a-type-of-next-year", "an-item-of-next-year"),
    )


@pytest.mark.parametrize("size", range(1, len(ROLLOUT)))
def test_digest_is_taken_further(size: int) -> None:
    """A digest of the beginning, taken further over the rest, is the digest of the whole."""
    whole = codex.digest(Digest(), ROLLOUT)

    assert codex.digest(codex.digest(Digest(), ROLLOUT[:size]), ROLLOUT[size:]) == whole


def test_messages() -> None:
    """Shown are the items in order, with tool calls and what they gave back, and summaries."""
    shown = list(codex.messages(ROLLOUT))

    assert [(m.role, m.text, m.tool) for m in shown] == [
        ("user", "make a file", None),
        ("thinking", "A file, then.", None),
        ("assistant", "*** Begin Patch\n+größer\n", "apply_patch"),
        ("tool", "Exit code: 0", "apply_patch"),
        ("assistant", '{"cmd":"ls"}', "exec_command"),
        ("tool", "b.txt", "exec_command"),
        ("assistant", '{"type":"search","query":"q"}', "web_search"),
        ("assistant", "All done.", None),
        ("summary", "Before: a file was made.", None),
        ("user", "now another  ", None),
    ]
    assert shown[0] == Message("user", "make a file", "m1", "2026-11-21T12:00:00.000Z", None)


json_value = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=6,
)
kinds = ["message", "reasoning", "function_call", "function_call_output", "custom_tool_call"]
payloads = st.fixed_dictionaries(
    {"type": st.sampled_from(kinds) | json_value},
    optional={
        "role": st.sampled_from(["user", "assistant"]) | json_value,
        **dict.fromkeys(
            (
                "id",
                "content",
                "summary",
                "output",
                "name",
                "arguments",
                "input",
                "action",
                "call_id",
            ),
            json_value,
        ),
        **dict.fromkeys(("message", "model", "cli_version"), json_value),
    },
)
fields = st.fixed_dictionaries(
    {
        "type": st.sampled_from(["response_item", "session_meta", "turn_context", "compacted"])
        | json_value
    },
    optional={"payload": payloads | json_value, "timestamp": json_value},
)
garbage = (
    fields.map(lambda value: json.dumps(value).encode())
    | json_value.map(lambda v: json.dumps(v).encode())
    | st.binary()
)


@given(st.lists(garbage, max_size=6))
def test_any_line_is_tolerated(lines: list[bytes]) -> None:
    """Whatever a line holds, it is passed over or understood, never an error."""
    digest = codex.digest(Digest(), lines)

    assert 0 <= digest.messages <= len(lines)
    assert digest.last_prompt is None or isinstance(digest.last_prompt, str)
    assert all(isinstance(m.text, str) and m.text for m in codex.messages(lines))
    assert codex.before(lines, "no such id") is None


def test_before_a_message() -> None:
    """The offset just before the user message with this id, with or without line ends; ids
    elsewhere do not count.
    """
    offset = codex.before(ROLLOUT, "m2")

    assert offset == DATA.index(ROLLOUT[20])
    assert codex.before([line.rstrip(b"\n") for line in ROLLOUT], "m2") == offset
    assert codex.before(ROLLOUT, "a1") is None
    assert codex.before(ROLLOUT, "u1") is None
    assert codex.before(ROLLOUT, "") is None


# ---------------------------------------------------------------- placing


def chunked(data: bytes, size: int = 1000) -> Iterator[bytes]:
    for start in range(0, len(data), size):
        yield data[start : start + size]


PLACE = f"rollout-2026-11-21T12-00-00-{ID}.jsonl"


def stored(
    data: bytes, *others: tuple[str, str, bytes], session_id: str | None = ID, place: str = PLACE
) -> Stored:
    """A stored conversation: its main stream, and others as (name, place, bytes)."""
    streams = [
        (Stream(name, len(content), "0" * 64, where), partial(chunked, content))
        for name, where, content in (*others, ("main", place, data))
    ]
    return Stored(Agent("codex", session_id), tuple(streams))


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


PARENT = meta(OTHER) + said("user", "before the fork", "p1")
SUB = meta(CHILD, session_id=ID, thread_source="subagent")
BESIDE = (
    (f"parents/{OTHER}", f"rollout-2026-01-02T12-00-00-{OTHER}.jsonl", PARENT),
    (f"agents/{CHILD}", f"rollout-2026-11-22T12-00-00-{CHILD}.jsonl", SUB),
)


def rollouts(home: Path) -> dict[str, bytes]:
    sessions = home / ".codex" / "sessions"
    return {
        str(path.relative_to(sessions)): path.read_bytes()
        for path in sessions.rglob("*")
        if path.is_file()
    }


def test_place_in_an_empty_home(home: Path, here: Path) -> None:
    """In a home without Codex, every byte goes where Codex keeps it, by the day in its name."""
    placement = codex.place(stored(DATA, *BESIDE), here, host(home), new_id=NEW)

    assert list(home.iterdir()) == []
    carry_out(placement)
    assert rollouts(home) == {
        f"2026/11/21/{PLACE}": DATA,
        f"2026/01/02/{BESIDE[0][1]}": PARENT,
        f"2026/11/22/{BESIDE[1][1]}": SUB,
    }
    assert (placement.session_id, placement.command, placement.note) == (
        ID,
        ("codex", "resume", ID),
        "",
    )
    assert placement.files[0].path.name == PLACE


def test_place_over_the_same(home: Path, here: Path) -> None:
    """Files that are the same already are left alone, whatever directory they lie in."""
    carry_out(codex.place(stored(DATA, *BESIDE), here, host(home), new_id=NEW))
    moved = home / ".codex/sessions/2020/01/01" / PLACE
    moved.parent.mkdir(parents=True)
    home.joinpath(".codex/sessions/2026/11/21", PLACE).rename(moved)
    again = codex.place(stored(DATA, *BESIDE), here, host(home), new_id=NEW)

    assert [write.how for write in again.files] == ["same"] * 3
    assert (again.session_id, again.files[0].path) == (ID, moved)


@pytest.mark.parametrize("size", [0, 1, 999, 1000, 1001, len(DATA) - 1])
def test_place_over_a_shorter_one(home: Path, here: Path, size: int) -> None:
    """A file that is a beginning of what was stored is completed, from where it ends."""
    path = put(home, ID, DATA[:size])
    placement = codex.place(stored(DATA), here, host(home), new_id=NEW)
    carry_out(placement)

    assert [(write.how, write.skip) for write in placement.files] == [("append", size)]
    assert placement.session_id == ID
    assert path.read_bytes() == DATA


@pytest.mark.parametrize(
    "there", [DATA + b'{"type":"x"}\n', DATA[:-2] + b"x\n", b"other\n" + DATA], ids=str
)
def test_place_where_it_went_on(home: Path, here: Path, there: bytes) -> None:
    """A file that went on or differs is left as it is. The copy says in its first line who it is,
    and is the same.
    """
    path = put(home, ID, there)
    placement = codex.place(stored(DATA, *BESIDE), here, host(home), new_id=NEW)
    carry_out(placement)
    first, rest = path.with_name(path.name.replace(ID, NEW)).read_bytes().split(b"\n", 1)

    assert path.read_bytes() == there
    assert (placement.session_id, placement.command) == (NEW, ("codex", "resume", NEW))
    assert ID in placement.note
    assert first == ROLLOUT[0].rstrip().replace(ID.encode(), NEW.encode())
    assert rest == DATA.split(b"\n", 1)[1]


def test_a_copy_names_itself(home: Path, here: Path) -> None:
    """A conversation that is to go under another id, whoever it was, and one whose first line says
    nothing.
    """
    carry_out(codex.place(stored(DATA, session_id=None), here, host(home), new_id=NEW))
    assert (
        json.loads(rollouts(home)[f"2026/11/21/{PLACE.replace(ID, NEW)}"].split(b"\n")[0])[
            "payload"
        ]["id"]
        == NEW
    )
    carry_out(
        codex.place(stored(b"odd\n", session_id=None, place="chat"), here, host(home), new_id=OTHER)
    )
    assert rollouts(home)[f"2026/11/21/rollout-2026-11-21T00-00-00-{OTHER}.jsonl"] == b"odd\n"


@pytest.mark.parametrize("where", ["archived_sessions", f"sessions/{DAY}"])
def test_place_where_it_was_put_away(home: Path, here: Path, where: str) -> None:
    """An archived or a compressed thread would not be resumed: the conversation goes under the new
    id.
    """
    suffix = "" if where.startswith("archived") else ".zst"
    path = home / ".codex" / where / f"{PLACE}{suffix}"
    path.parent.mkdir(parents=True)
    path.write_bytes(DATA)

    assert codex.place(stored(DATA), here, host(home), new_id=NEW).session_id == NEW


def test_place_again_under_the_new_id(home: Path, here: Path) -> None:
    """An interrupted placement under a new id is completed by the same one; a foreign file there is
    refused.
    """
    put(home, ID, DATA + b"more\n")
    placement = codex.place(stored(DATA), here, host(home), new_id=NEW)
    carry_out(placement)
    new = placement.files[0].path
    os.truncate(new, 100)
    again = codex.place(stored(DATA), here, host(home), new_id=NEW)

    assert [(write.path, write.how, write.skip) for write in again.files] == [(new, "append", 100)]
    new.write_bytes(b"foreign\n")
    with pytest.raises(Refused, match="already exists with other content"):
        codex.place(stored(DATA), here, host(home), new_id=NEW)


def test_what_it_was_forked_from_may_have_gone_on(home: Path, here: Path) -> None:
    """Its file is left alone where it begins as stored, and refused where it says something
    else.
    """
    path = put(home, OTHER, PARENT + b"more\n", day="2026/01/02")
    placement = codex.place(stored(DATA, BESIDE[0]), here, host(home), new_id=NEW)

    assert [write.path.name for write in placement.files] == [PLACE]
    path.write_bytes(b"something else\n")
    with pytest.raises(Refused, match="already exists with other content"):
        codex.place(stored(DATA, BESIDE[0]), here, host(home), new_id=NEW)
    assert path.read_bytes() == b"something else\n"


def test_a_sub_agent_that_went_on_is_left_as_it_is(home: Path, here: Path) -> None:
    """It is a thread of its own, and nobody resumes it through this one."""
    put(home, CHILD, SUB + b"more\n", day="2026/11/22")
    placement = codex.place(stored(DATA, BESIDE[1]), here, host(home), new_id=NEW)

    assert (placement.session_id, [write.path.name for write in placement.files]) == (ID, [PLACE])
    assert placement.kept == (BESIDE[1][0],)


@pytest.mark.parametrize(
    "place",
    [
        "",
        "/etc/cron.d/x",
        "../config.toml",
        "config.toml",
        "2026/11/21/rollout-2026-11-21T12-00-00-x.jsonl",
        "rollout-2026-11-21T12-00-00-../x.jsonl",
        "rollout-2026-11-21T12-00-00-x.jsonl\n",
        "rollout-2026-11-21T12-00-00-x\0.jsonl",
        "rollout-2026-11-21T12-00-00-x.jsonl.zst.zst",
        "rollout-..-11-21T12-00-00-x.jsonl",
        "rollout-2026-11-21T12-00-00-" + "x" * 65 + ".jsonl",
    ],
)
def test_hostile_place_is_refused(home: Path, here: Path, place: str) -> None:
    """A name that no rollout has is refused before anything is written."""
    with pytest.raises(StoreDamaged, match="nothing was written"):
        codex.place(stored(DATA, ("agents/x", place, b"evil")), here, host(home), new_id=NEW)


@pytest.mark.parametrize(
    "session_id", ["", "..", "../x", "a/b", "*", "-rf", "x\0", "x\n", "é", "x" * 65, "."]
)
def test_hostile_session_id_is_refused(home: Path, here: Path, session_id: str) -> None:
    """An id that is not letters, digits and dashes never becomes a path, whether stored or new."""
    with pytest.raises(StoreDamaged, match="invalid session id"):
        codex.place(stored(DATA, session_id=session_id), here, host(home), new_id=NEW)
    with pytest.raises(StoreDamaged, match="invalid session id"):
        codex.place(stored(DATA, session_id=None), here, host(home), new_id=session_id)


def test_two_streams_in_one_place_are_refused(home: Path, here: Path) -> None:
    """Streams that would overwrite each other are refused, the main one too."""
    with pytest.raises(StoreDamaged, match="same file"):
        codex.place(stored(DATA, ("agents/x", PLACE, DATA)), here, host(home), new_id=NEW)


def test_a_turn_without_its_end(home: Path, here: Path) -> None:
    """Codex ends a turn after its hooks: what a hook saved gets an end, numbered as the records
    are, and a thread that has only its own end more is not another one.
    """
    numbered = {"timestamp": "2026-11-28T12:00:00Z", "ordinal": 7, "type": "response_item"}
    content = [{"type": "output_text", "text": "Done."}]
    message = {"type": "message", "role": "assistant", "content": content}
    answer = json.dumps({**numbered, "payload": message}).encode() + b"\n"
    begun = record("event_msg", type="task_started", turn_id="t9")
    data = b"".join((meta(), begun, said("user", "go"), answer))

    placed = codex.place(stored(data), here, host(home), new_id=NEW)
    carry_out(placed)
    written = placed.files[0].path.read_bytes()
    assert written.startswith(data)
    end = json.loads(written[len(data) :])
    assert (end["ordinal"], end["type"]) == (8, "event_msg")
    assert end["payload"]["type"] == "task_complete"
    assert end["payload"]["turn_id"] == "t9"
    assert end["payload"]["last_agent_message"] == "Done."

    own = record("event_msg", type="token_count") + record("event_msg", type="task_complete")
    placed.files[0].path.write_bytes(data + own)
    again = codex.place(stored(data), here, host(home), new_id=NEW)
    assert (again.session_id, again.files[0].how) == (ID, "same")
    placed.files[0].path.write_bytes(data + own + said("user", "more"))
    assert codex.place(stored(data), here, host(home), new_id=NEW).session_id == NEW

    for unfinished in (b"".join((meta(), begun, said("user", "go"))), data + own):
        before = codex.place(stored(unfinished, session_id=None), here, host(home), new_id=OTHER)
        text = b"".join(before.files[0].content())
        assert text.replace(OTHER.encode(), ID.encode()) == unfinished
