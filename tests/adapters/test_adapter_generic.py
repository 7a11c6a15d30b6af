"""Any conversation of any agent: taken as it is, understood as far as it goes, and put where people
find it.
"""

from __future__ import annotations

import json
import os
import threading
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gitcp import adapters
from gitcp.adapters import generic
from gitcp.adapters.base import Adapter, Message, Placement, Stored
from gitcp.errors import BadValue, ConversationUnreadable, Refused, StoreDamaged
from gitcp.model import Agent, Capture, Digest, Host, LastMessage, Source, Stream
from gitcp.value import replace

CHAT = (
    b'{"role":"user","content":"hello","id":"1"}\n',
    b'{"role":"assistant","content":[{"type":"text","text":"hi"},{"type":"tool_use","name":"ls"}],"model":"m-1"}\n',
    b'{"type":"note"}\n',
    b'{"neither":"this"}\n',
    b"no json at all\n",
    b'{"type":"human","message":{"content":"and now?","id":"2"},"timestamp":"12:00"}\n',
)


@pytest.fixture
def host(tmp_path: Path) -> Host:
    """Someone with an empty home."""
    return Host({}, tmp_path, lambda: datetime(2026, 11, 21, 12, 0, tzinfo=UTC))


# ---------------------------------------------------------------- taking it


@pytest.mark.parametrize(
    ("data", "format"),
    [
        (b"", "jsonl"),
        (b'{"a":1}', "jsonl"),
        (b'{"a":1}\n\n[2]\n"three"\n4\n', "jsonl"),
        (b'{"a":1}\n{"torn', "json"),
        (b'{"a":1}{"glued":2}\n', "json"),
        (b'{\n "a": 1\n}\n', "json"),
        (b'  [\n{"role":"user"}]', "json"),
        (b'[{"role":"user"}]', "json"),
        (b'{"messages":[{"role":"user"}]}\n', "json"),
        (b"# A chat\n\n**user**: hello\n", "text"),
        (b"\xff\xfe\x00", "text"),
        (b'{"a":1}\n' * 20_000, "jsonl"),  # 64 KiB end within a line
        # the first line is longer than what is looked at
        (b'{"a":"' + b"x" * 300_000 + b'"}\n{"b":1}\n', "jsonl"),
        (b'["' + b"x" * 300_000, "json"),
        (b"x" * 300_000, "text"),
    ],
    ids=lambda value: repr(value)[:30],
)
def test_format(tmp_path: Path, data: bytes, format: str) -> None:
    """A JSON value on each line, one document, or neither; for a file as for bytes."""
    path = tmp_path / "chat.log"
    path.write_bytes(data)
    captured = generic.from_file(path)

    assert captured == Capture(None, format, (Source("main", path=path, place="chat.log"),))
    if len(data) <= generic.HEAD:
        assert generic.from_bytes(data) == Capture(None, format, (Source("main", data=data),))


def test_a_file_given_by_hand_is_not_live(tmp_path: Path) -> None:
    """It is kept to its last byte, torn line or not."""
    path = tmp_path / "chat.jsonl"
    path.write_bytes(b'{"role":"user"}\n{"torn')

    assert [source.live for source in generic.from_file(path).sources] == [False]
    assert [source.live for source in generic.from_bytes(b"{").sources] == [False]


def test_pipe(tmp_path: Path) -> None:
    """What comes out of a pipe is read at once, since it comes only once."""
    path = tmp_path / "pipe"
    os.mkfifo(path)
    writer = threading.Thread(target=path.write_bytes, args=(b"".join(CHAT),), daemon=True)
    writer.start()
    captured = generic.from_file(path)
    writer.join()

    assert captured.sources == (Source("main", data=b"".join(CHAT)),)


def test_what_cannot_be_taken(tmp_path: Path) -> None:
    """A missing file, a directory and a device are errors that name them."""
    with pytest.raises(ConversationUnreadable, match=r"none\.jsonl: No such file"):
        generic.from_file(tmp_path / "none.jsonl")
    with pytest.raises(ConversationUnreadable, match="is not a regular file; nothing was saved"):
        generic.from_file(tmp_path)
    with pytest.raises(ConversationUnreadable, match="is not a regular file"):
        generic.from_file(Path("/dev/zero"))
    with pytest.raises(ConversationUnreadable, match="cannot read"):
        generic.from_file(Path("a\0b"))


def test_it_finds_nothing_by_itself(tmp_path: Path, host: Host) -> None:
    """It is nobody's agent: nothing is found, nobody is running us."""
    tmp_path.joinpath("chat.jsonl").write_bytes(b"".join(CHAT))
    typed: Adapter = generic

    assert typed.find(tmp_path, host) == ()
    assert typed.running(host) is None


# ---------------------------------------------------------------- understanding it


def test_digest_of_lines() -> None:
    """What looks like a message counts, whatever else is on the lines."""
    assert generic.digest(Digest(), CHAT) == Digest(
        messages=4,
        last_message=LastMessage("human", "and now?", "2"),
        last_prompt="and now?",
        model="m-1",
    )


@pytest.mark.parametrize("size", range(1, len(CHAT)))
def test_digest_is_taken_further(size: int) -> None:
    """A digest of the beginning, taken further over the rest, is the digest of the whole."""
    assert generic.digest(generic.digest(Digest(), CHAT[:size]), CHAT[size:]) == generic.digest(
        Digest(), CHAT
    )


@pytest.mark.parametrize(
    "wrap", [lambda m: m, lambda m: {"title": "x", "messages": m}], ids=["list", "messages"]
)
@pytest.mark.parametrize("indent", [None, 2])
@pytest.mark.parametrize("ends", [True, False])
def test_digest_of_a_document(wrap: object, indent: int | None, ends: bool) -> None:
    """The messages of one document count, on however many lines it is written."""
    assert callable(wrap)
    messages = [
        {"role": "user", "content": "hello\nthere"},
        {"role": "model", "parts": [{"text": "hi"}]},
        17,
    ]
    lines = json.dumps(wrap(messages), indent=indent).encode().splitlines(keepends=ends)
    digest = generic.digest(Digest(), lines)

    assert (digest.messages, digest.last_prompt) == (2, "hello\nthere")
    assert digest.last_message == LastMessage("model", "hi", None)


def test_document_that_is_too_large(monkeypatch: pytest.MonkeyPatch) -> None:
    """A document beyond the limit is not read at once: its lines are looked at one by one."""
    monkeypatch.setattr(generic, "LARGEST_DOCUMENT", 100)
    lines = [
        b"[\n",
        *([b'{"role":"user","content":"x"},\n'] * 50),
        b'{"role":"user","content":"last"}\n',
        b"]\n",
    ]

    assert generic.digest(Digest(), lines).messages == 1


def test_broken_first_line() -> None:
    """A broken line at the beginning does not hide what follows."""
    assert generic.digest(Digest(), [b"\n", b'{"torn\n', *CHAT]).messages == 4


def test_messages() -> None:
    """Shown is what has a text, with its role, id and time."""
    assert list(generic.messages(CHAT)) == [
        Message("user", "hello", "1", None),
        Message("assistant", "hi", None, None),
        Message("human", "and now?", "2", "12:00"),
    ]


def test_before_a_message() -> None:
    """The offset of the user's line with this id; an assistant's is none."""
    assert generic.before(CHAT, "2") == sum(map(len, CHAT[:5]))
    assert generic.before([line.rstrip(b"\n") for line in CHAT], "2") == sum(map(len, CHAT[:5]))
    assert generic.before(CHAT, "3") is None
    assert generic.before([b'{"role":"assistant","id":"3"}\n'], "3") is None


json_value = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["role", "type", "message", "messages", "content", "text", "id"]),
            inner,
            max_size=4,
        )
    ),
    max_leaves=8,
)


@given(
    st.lists(st.binary(max_size=8) | json_value.map(lambda v: json.dumps(v).encode()), max_size=6)
)
def test_any_line_is_tolerated(lines: list[bytes]) -> None:
    """Whatever a line holds, it is passed over or understood, never an error."""
    assert generic.digest(Digest(), lines).messages >= len(list(generic.messages(lines)))
    assert generic.before(lines, "no such id") is None


# ---------------------------------------------------------------- putting it somewhere

DATA = b"".join(CHAT)
SHA = "0123456789abcdef" * 4


def stored(*streams: tuple[str, str, bytes], agent: str = "generic", sha256: str = SHA) -> Stored:
    """A stored conversation of streams (name, place, bytes)."""
    return Stored(
        Agent(agent),
        tuple(
            (Stream(name, len(data), sha256, place), partial(iter, (data,)))
            for name, place, data in streams
        ),
    )


def placed(conversation: Stored, aside: Path, host: Host, *, new_id: str) -> Placement:
    """Where it goes, with `aside` for what no agent finds."""
    return generic.place(
        replace(conversation, aside=aside), Path("/elsewhere"), host, new_id=new_id
    )


def test_place(tmp_path: Path, host: Host) -> None:
    """The conversation goes into a directory of its own, under the name its file had; nothing is to
    be run.
    """
    placement = placed(stored(("main", "chat.jsonl", DATA)), tmp_path / "kept", host, new_id="x")

    assert not tmp_path.joinpath("kept").exists()
    assert [(write.path, write.how) for write in placement.files] == [
        (tmp_path / "kept" / SHA[:16] / "chat.jsonl", "create")
    ]
    assert b"".join(placement.files[0].content()) == DATA
    assert (placement.session_id, placement.command) == (None, ())
    assert str(placement.files[0].path) in placement.note


def test_place_again(tmp_path: Path, host: Host) -> None:
    """The same conversation is there once; one that was changed there is left alone, and that is
    said.
    """
    conversation = stored(("main", "", DATA))
    path = placed(conversation, tmp_path, host, new_id="x").files[0].path
    path.parent.mkdir()
    path.write_bytes(DATA)

    assert path.name == "main"
    assert [write.how for write in placed(conversation, tmp_path, host, new_id="y").files] == [
        "same"
    ]
    path.write_bytes(DATA + b"more")
    with pytest.raises(Refused, match="has other files"):
        placed(conversation, tmp_path, host, new_id="z")


def test_place_of_an_unknown_agents_streams(tmp_path: Path, host: Host) -> None:
    """Where an agent's adapter is missing, each stream goes under its own name, the main one
    first.
    """
    conversation = stored(
        ("agents/1", "{session}/a/b", b"a"), ("main", "{session}.jsonl", DATA), agent="of-tomorrow"
    )
    placement = placed(conversation, tmp_path, host, new_id="x")

    assert [str(write.path.relative_to(tmp_path / SHA[:16])) for write in placement.files] == [
        "main",
        "agents/1",
    ]
    assert "of-tomorrow" in placement.note


@pytest.mark.parametrize("place", ["../x", "/etc/passwd", "..", "a/../../x", "x\0", "x\n", "a/b"])
def test_hostile_place_is_not_followed(tmp_path: Path, host: Host, place: str) -> None:
    """A file name that is none is not used."""
    placement = placed(stored(("main", place, DATA)), tmp_path, host, new_id="x")

    assert [write.path for write in placement.files] == [tmp_path / SHA[:16] / "main"]


@pytest.mark.parametrize(
    "name", ["..", "../x", "/x", "a/../x", "a/b/c", "", "a/", ".git", "x\n", "é"]
)
def test_hostile_stream_is_refused(tmp_path: Path, host: Host, name: str) -> None:
    """A stream name that could lead elsewhere is refused before anything is written."""
    with pytest.raises(StoreDamaged, match="nothing was written"):
        placed(stored(("main", "", DATA), (name, "", b"evil")), tmp_path, host, new_id="x")


@pytest.mark.parametrize("sha256", ["", "../../x", "A" * 64, "0" * 63, "0" * 64 + "\n"])
def test_hostile_checksum_is_refused(tmp_path: Path, host: Host, sha256: str) -> None:
    """A checksum that is none never becomes a directory."""
    with pytest.raises(StoreDamaged):
        placed(stored(("main", "", DATA), sha256=sha256), tmp_path, host, new_id="x")


def test_conversation_without_a_main_stream(tmp_path: Path, host: Host) -> None:
    """Without its main stream there is nothing to put back, and that is damage."""
    with pytest.raises(StoreDamaged):
        placed(stored(("agents/1", "", DATA)), tmp_path, host, new_id="x")


# ---------------------------------------------------------------- agents by name


def test_unknown_agent() -> None:
    """There is no adapter for an unknown agent, and the known ones are named; it can be shown all
    the same.
    """
    with pytest.raises(BadValue, match="no adapter for an agent called 'nobody'") as caught:
        adapters.load("nobody")

    assert "claude-code" in caught.value.hint
    assert adapters.load_or_generic("nobody").NAME == "generic"
    assert adapters.for_format("nobody").NAME == "generic"


def test_format_names_its_adapter() -> None:
    """An agent's format is read by its adapter, the plain ones by the generic one."""
    named = {
        name: adapters.for_format(name).NAME for name in ("claude-code", "jsonl", "json", "text")
    }

    assert named == {
        "claude-code": "claude-code",
        "jsonl": "generic",
        "json": "generic",
        "text": "generic",
    }
