"""A damaged transcript with long lines is repaired as if every line were read whole."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gitcp import wire
from gitcp.adapters import long_lines, mending
from gitcp.adapters.base import Stored
from gitcp.adapters.claude_code import repairs
from gitcp.adapters.mending import Transcript
from gitcp.model import MAIN, Agent, Stream

WRONG = (
    lambda line: line,
    lambda line: line,
    lambda line: line.replace(b"o", b"\0", 1),
    lambda line: line.replace(b"e", b"\xff", 1),
    lambda line: line[: len(line) // 2],
    lambda line: line.removesuffix(b"\n"),
    lambda line: line.replace(b" ", b"\n", 1),
    lambda line: b"\xef\xbb\xbf" + line,
    lambda line: line.replace(b"o", b"\t", 20),
    lambda line: line.replace(b"o", b"\\q", 30),
    lambda line: line[:-60].replace(b"oo", b"\\u12G4") + line[-60:],
    lambda line: line[:-60] + line[-60:].replace(b"o", b"\r"),
    lambda line: line.replace(b"oo", b"\\n", 40),
    lambda line: b" " + line.removesuffix(b"\n"),
)
"""What happens to a line, at its beginning or far behind."""


def record(number: int, text: str) -> bytes:
    """A turn, or a tool's call and its result."""
    role = "user" if number % 2 else "assistant"
    parts: list[dict[str, object]] = [{"type": "text", "text": text}]
    if number % 4 == 0:
        parts = [{"type": "tool_use", "id": f"c{number}", "name": "Bash", "input": {"x": text}}]
    elif number % 4 == 1 and number > 1:
        parts = [{"type": "tool_result", "tool_use_id": f"c{number - 1}", "content": text}]
    fields = {"type": role, "uuid": f"u{number}", "parentUuid": f"u{number - 1}"}
    message = {"role": role, "content": parts}
    return json.dumps({**fields, "timestamp": "2026", "message": message}).encode() + b"\n"


@st.composite
def transcripts(draw: st.DrawFn) -> bytes:
    """Lines, short and long ones, some of them wrong."""
    lines = []
    for number in range(1, draw(st.integers(1, 7))):
        text = draw(
            st.sampled_from(("so here", "so here " * 40, "é}{ here" * 30, "o" * 400 + " e"))
        )
        lines.append(draw(st.sampled_from(WRONG))(record(number, text)))
    return b"".join(lines)


@given(transcripts(), st.integers(1, 600))
def test_repaired_as_if_whole(data: bytes, size: int) -> None:
    """The same is found, and the same bytes are written, however the bytes come."""

    def read() -> Iterator[bytes]:
        return (data[at : at + size] for at in range(0, len(data), size))

    stream, stored = Stream(MAIN, len(data), "", "s.jsonl"), Stored(Agent("claude-code"), ())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(long_lines, "LONG", 300)
        patch.setattr(long_lines, "KEPT", 40)
        edits, faults = mending._plan(repairs.mend, stored, stream, read)
    whole = Transcript(read)
    expected, counts = repairs.mend(whole, stored, stream)
    assert faults == Counter(counts) + whole.faults
    assert [*Transcript(read).edited(edits)] == [*Transcript(read).edited(expected)]


def halves(text: bytes) -> list[bytes]:
    """The two records on a line, by trying each place."""
    for at in range(len(text)):
        parts = [text[:at], text[at:]]
        if text[at - 1 : at + 1] == b"}{" and None not in map(wire.parse_line, parts):
            return [part + b"\n" for part in parts]
    return []


VALUES = st.recursive(
    st.text(st.sampled_from('}{"a\\é'), max_size=4) | st.none(),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=2), inner),
    max_leaves=4,
)


RECORDS = st.lists(st.dictionaries(st.text(max_size=2), VALUES, max_size=2), max_size=3)


@given(RECORDS, st.booleans(), st.sampled_from(("", " ", "\t")))
def test_two_records_on_one_line(records: list[dict[str, object]], torn: bool, before: str) -> None:
    """They are found by the end of the first one."""
    text = before.encode()
    text += "".join(json.dumps(each, ensure_ascii=False) for each in records).encode()
    text = text[: len(text) - torn]
    assert [line for line, _ in mending._halves(text)] == halves(text)
