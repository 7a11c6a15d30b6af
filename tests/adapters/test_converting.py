"""Each agent's transcripts are read as dialogues and written from them: what is written is read
again as the same, but for what is listed.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import test_adapter_claude_code as claude_lines
import test_adapter_codex as codex_lines
import test_adapter_copilot as copilot_lines
import test_adapter_gemini as gemini_lines
import transcripts
from dialogues import AGENTS, BEGAN, WITHOUT_ASIDES, dialogues, flat, target, through
from hypothesis import given, settings

from gitcp.adapters import converter, load
from gitcp.adapters.base import Stored
from gitcp.adapters.conversion import line, stored
from gitcp.dialogue import (
    ANSWERS,
    BRANCHES,
    EARLIER,
    ID_LENGTH,
    LEGAL,
    MISSING,
    NOTICES,
    ORPHANS,
    REPEATED,
    SEALED,
    UNANSWERED,
    Assembler,
    Call,
    Dialogue,
    File,
    Result,
    Text,
)
from gitcp.model import Agent, Host, Stream
from gitcp.value import replace

from driver import SOURCE


@pytest.mark.parametrize("agent", AGENTS)
@settings(max_examples=40)
@given(dialogue=dialogues())
def test_what_is_written_is_read_again(agent: str, dialogue: Dialogue) -> None:
    """Every text, call, result and file, in order, and the sub-agent's."""
    again = through(agent, dialogue)

    assert flat(again.items) == flat(dialogue.items, agent)
    assert [(aside.call, flat(aside.items)) for aside in again.asides] == [
        (aside.call, flat(aside.items, agent))
        for aside in dialogue.asides
        if agent not in WITHOUT_ASIDES
    ]


@pytest.mark.parametrize("agent", AGENTS)
@settings(max_examples=40)
@given(dialogue=dialogues())
def test_a_dialogue_that_grows_grows_at_the_end(agent: str, dialogue: Dialogue) -> None:
    """What is written for a beginning is how the whole begins, and both are always the same
    bytes.
    """
    writer = converter(agent)
    start = Dialogue(dialogue.agent, dialogue.items[:-1], cwd=dialogue.cwd)
    whole = Dialogue(dialogue.agent, dialogue.items, cwd=dialogue.cwd)
    short, long, again = (
        writer.write(each, target()).capture.sources[0].data for each in (start, whole, whole)
    )

    assert long == again
    assert long is not None
    assert short is not None
    assert long.startswith(short)


def read(agent: str, *lines: bytes, **streams: bytes) -> Dialogue:
    """A transcript of these lines as a dialogue."""
    contents = {"main": b"".join(lines), **streams}
    streams_read = tuple(
        (Stream(name, len(data), ""), lambda data=data: iter([data]))
        for name, data in contents.items()
    )
    return converter(agent).read(Stored(Agent(agent, "s1"), streams_read))


# ---------------------------------------------------------------- what every dialogue holds


def test_each_call_has_one_result() -> None:
    """Late and out of order, twice, without a call, never: each is where it belongs, or counted."""
    made = Assembler()
    made.assistant([Call("a", "Bash", "{}"), Call("b", "Bash", "{}"), Call("c", "Bash", "{}")])
    for id, text in (("b", "B"), ("a", "A"), ("a", "again"), ("b", "B"), ("x", "whose?")):
        made.result(id, Result((Text(text),)))

    (item,) = made.done()
    assert [(call.id, call.result.text(), call.result.failed) for call in item.calls()] == [
        ("a", "A", False), ("b", "B", False), ("c", UNANSWERED, True)
    ]  # fmt: skip
    assert made.omitted == {REPEATED: 1, ORPHANS: 1, MISSING: 1}


def test_ids_and_names_fit_every_agent() -> None:
    """Too long, of another alphabet, or used twice: they become others, each with its result."""
    made = Assembler()
    for id in ("call_1", "call_1", "größer", "x" * 41, ""):
        made.answered(Call(id, "mcp.server/tool ü", "{}", Result((Text(id),))))
    calls = [call for item in made.done() for call in item.calls()]

    assert calls[0].id == "call_1"
    assert len({call.id for call in calls}) == 5
    assert all(LEGAL.fullmatch(call.id) and len(call.id) <= ID_LENGTH for call in calls)
    assert {call.name for call in calls} == {"mcp_server_tool__"}
    assert [call.result.text() for call in calls] == ["call_1", "call_1", "größer", "x" * 41, ""]


def test_files_of_the_agent_are_named() -> None:
    """Providers refuse files in an answer."""
    made = Assembler()
    made.assistant([File("image/png", "QUJD", "a.png")])

    (item,) = made.done()
    assert item.text() == "[file not included: a.png, image/png, 3 bytes]"
    assert made.omitted == {ANSWERS: 1}


# ---------------------------------------------------------------- what is read


def test_claude_follows_the_last_branch() -> None:
    """Parallel results that fork the tree belong to it; an abandoned branch and what its program
    added do not.
    """
    says = claude_lines.said
    lines = (
        claude_lines.user("u1", "first"),
        claude_lines.assistant("gone", says("abandoned"), parentUuid="u1"),
        claude_lines.assistant("a1", claude_lines.call("t1", "Bash"), parentUuid="u1"),
        claude_lines.assistant("a2", claude_lines.call("t2", "Bash"), parentUuid="a1"),
        claude_lines.user("r2", claude_lines.result("t2", "two"), parentUuid="a2"),
        claude_lines.user("r1", claude_lines.result("t1", "one"), parentUuid="a1"),
        claude_lines.user("m1", "<system-reminder>psst", parentUuid="r2", isMeta=True),
        claude_lines.assistant(
            "a3",
            {"type": "thinking", "thinking": "", "signature": "c2VhbA=="},
            {"type": "thinking", "thinking": "hm", "signature": "c2VhbA=="},
            says("done"),
            parentUuid="m1",
        ),
        claude_lines.user("u2", "not asked", isSidechain=True, parentUuid=None),
    )
    dialogue = read("claude-code", *lines)

    assert flat(dialogue.items) == [
        ("user", "first", ()),
        ("called", "t1", "Bash", {}, False, "one", ()),
        ("called", "t2", "Bash", {}, False, "two", ()),
        ("thought", "hm"),
        ("said", "done"),
    ]
    assert dialogue.omitted == {BRANCHES: 1, NOTICES: 1, SEALED: 1}
    assert (dialogue.cwd, dialogue.branch) == ("/somewhere", "main")
    assert "c2VhbA==" not in repr(dialogue)


def test_claude_begins_with_the_last_summary() -> None:
    """What was compacted is counted."""
    dialogue = read(
        "claude-code",
        claude_lines.user("u1", "first"),
        claude_lines.assistant("a1", claude_lines.said("answer"), parentUuid="u1"),
        claude_lines.record("system", "b1", subtype="compact_boundary", logicalParentUuid="a1"),
        claude_lines.user("s1", "In short: all.", parentUuid="b1", isCompactSummary=True),
        claude_lines.user("u2", "second", parentUuid="s1"),
    )

    assert [(item.role, item.text()) for item in dialogue.items] == [
        ("summary", "In short: all."),
        ("user", "second"),
    ]
    assert dialogue.omitted == {EARLIER: 2}


def test_a_tree_without_parents_is_a_list() -> None:
    """If no line names a parent, or one that is missing, the lines follow each other."""
    lines = [
        claude_lines.user("u1", "first"),
        claude_lines.assistant("a1", claude_lines.said("answer")),
        claude_lines.user("u2", "second"),
    ]
    dangling = [*lines[:1], lines[1].replace(b'"parentUuid":null', b'"parentUuid":"lost"')]

    assert [item.text() for item in read("claude-code", *lines).items] == [
        "first",
        "answer",
        "second",
    ]
    assert [item.text() for item in read("claude-code", *dangling).items] == ["first", "answer"]


def test_codex_items() -> None:
    """Free text, parts in outputs, what the provider did, thinking, and what a compaction left."""
    dialogue, patch = read("codex", *codex_lines.ROLLOUT[:17]), "*** Begin Patch\n+größer\n"
    query = {"type": "search", "query": "q"}

    assert flat(dialogue.items) == [
        ("user", "make a file", ()),
        ("thought", "A file, then."),
        ("called", "c1", "apply_patch", {"input": patch}, False, "Exit code: 0", ()),
        ("called", "c2", "exec_command", {"cmd": "ls"}, False, "b.txt", ()),
        ("called", "web_search", "web_search", query, False, "[done by the provider]", ()),
        ("said", "All done."),
    ]  # fmt: skip
    assert dialogue.omitted == {NOTICES: 2}
    assert "ZW5j" not in repr(dialogue)

    after = read("codex", *codex_lines.ROLLOUT)
    assert [(item.role, item.text()) for item in after.items] == [
        ("user", "make a file"),
        ("summary", "Before: a file was made."),
        ("user", "now another  "),
    ]


def test_codex_reads_what_a_fork_shares() -> None:
    """A fork begins with the first bytes of its parent's rollout."""
    parent = codex_lines.meta("p") + codex_lines.said("user", "shared")
    base = {"thread_id": "p", "end_byte_offset": len(parent)}
    own = codex_lines.meta("f", history_base=base) + codex_lines.said("user", "own")
    dialogue = read("codex", own, **{"parents/p": parent + codex_lines.said("user", "later")})

    assert [item.text() for item in dialogue.items] == ["shared", "own"]


def test_gemini_results_count_once() -> None:
    """Inline, and again in a message of its own after a resume."""
    called = gemini_lines.CALLED | {"toolCalls": [gemini_lines.CALL]}
    turn = (gemini_lines.PROMPT, called, gemini_lines.ANSWERED, gemini_lines.DONE)
    lines = [gemini_lines.head(), *(gemini_lines.line(**message) for message in turn)]
    dialogue, arguments = read("gemini", *lines), {"file_path": "/somewhere/b.txt"}

    assert flat(dialogue.items) == [
        ("user", "make a file", ()),
        ("thought", "A file\nthen"),
        ("called", "w1", "write_file", arguments, False, "created größer", ()),
        ("said", "All done."),
    ]  # fmt: skip


def test_copilot_events() -> None:
    """The sub-agent's are apart, the program's are counted, a compaction begins anew."""
    dialogue = read("copilot", *copilot_lines.EVENTS[:11])

    assert flat(dialogue.items) == [
        ("user", "make a file", ()),
        ("thought", "A file, then."),
        ("called", "c1", "create", {"path": "b.txt", "file_text": "größer"}, False, "Created", ()),
        ("said", "All done."),
    ]
    (aside,) = dialogue.asides
    assert flat(aside.items) == [("user", "look around", ()), ("said", "I looked.")]

    after = read("copilot", *copilot_lines.EVENTS)
    assert [item.text() for item in after.items] == ["Before: a file was made.", "now another  "]
    assert after.omitted == {NOTICES: 1, EARLIER: 3}


def test_pi_since_its_compaction() -> None:
    """The summary, what it kept of before, and what follows; without another branch, and with what
    the user ran.
    """

    def entry(id: str, parent: str | None, role: str, text: str, **more: Any) -> bytes:
        message = {"role": role, "content": [{"type": "text", "text": text}], **more}
        return line({"type": "message", "id": id, "parentId": parent, "message": message})

    compaction = {"type": "compaction", "id": "c", "parentId": "a2", "summary": "In short: all."}
    ran = {"role": "bashExecution", "command": "ls", "output": "a.txt\n"}
    dialogue = read(
        "pi",
        line({"type": "session", "version": 3, "id": "s1", "cwd": "/somewhere"}),
        entry("u1", None, "user", "first"),
        entry("a1", "u1", "assistant", "answer"),
        entry("u2", "a1", "user", "kept"),
        entry("a2", "u2", "assistant", "also kept", model="m"),
        line({**compaction, "firstKeptEntryId": "u2"}),
        entry("gone", "c", "user", "abandoned"),
        line({"type": "message", "id": "b", "parentId": "c", "message": ran}),
        entry("u3", "b", "user", "third"),
    )

    assert [(item.role, item.text()) for item in dialogue.items] == [
        ("summary", "In short: all."),
        ("user", "kept"),
        ("assistant", "also kept"),
        ("user", "! ls\na.txt"),
        ("user", "third"),
    ]
    assert dialogue.omitted == {EARLIER: 2, BRANCHES: 1}
    assert dialogue.cwd == "/somewhere"


def test_qwen_since_its_compression() -> None:
    """What was left of the chat, and what follows; a notice and a rewound turn do not count."""

    def record(id: str, parent: str | None, kind: str, *parts: Any, **more: Any) -> bytes:
        role = "model" if kind == "assistant" else "user"
        fields = {"uuid": id, "parentUuid": parent, "type": kind, "cwd": "/somewhere", **more}
        return line({**fields, "message": {"role": role, "parts": list(parts)}})

    call = {"functionCall": {"id": "t1", "name": "read_file", "args": {"path": "a"}}}
    answer = {"functionResponse": {"id": "t1", "name": "read_file", "response": {"error": "no"}}}
    left = [{"role": "user", "parts": [{"text": "In short: all."}]}]
    left += [{"role": "model", "parts": [{"text": "Got it."}]}]
    compressed = {"subtype": "chat_compression", "systemPayload": {"compressedHistory": left}}
    dialogue = read(
        "qwen",
        record("u1", None, "user", {"text": "first"}),
        record("x", "u1", "system", **compressed),
        record("gone", "x", "user", {"text": "abandoned"}),
        record("n", "x", "user", {"text": "psst"}, provenance="system"),
        record("a1", "n", "assistant", {"text": "hm", "thought": True}, call, model="m"),
        record("r1", "a1", "tool_result", answer),
    )

    assert flat(dialogue.items) == [
        ("user", "In short: all.", ()),
        ("said", "Got it."),
        ("thought", "hm"),
        ("called", "t1", "read_file", {"path": "a"}, True, "no", ()),
    ]
    assert dialogue.omitted == {EARLIER: 1, BRANCHES: 1, NOTICES: 1}


# ---------------------------------------------------------------- every pair


def converted(tmp_path: Path, source: str) -> Dialogue:
    """The conversation of transcripts.py, as this agent keeps it."""
    home, cwd = tmp_path / source, tmp_path / "work"
    cwd.mkdir(exist_ok=True)
    session_id = transcripts.write(source, home, cwd)
    (found,) = load(source).find(cwd, Host({}, home, lambda: BEGAN))
    assert found.session_id == session_id
    capture = load(source).capture(found)
    sources = tuple(
        replace(each, data=each.data if each.path is None else each.path.read_bytes())
        for each in capture.sources
    )
    return converter(source).read(stored(replace(capture, sources=sources)))


@pytest.mark.parametrize("source", AGENTS)
def test_the_same_from_every_agent(tmp_path: Path, source: str) -> None:
    """What seven agents keep in seven ways is one dialogue, and converted to any other and back it
    says the same.
    """
    dialogue = converted(tmp_path, source)
    said = [entry[1] for entry in flat(dialogue.items) if entry[0] in ("user", "said")]
    results = [call.result.text() for item in dialogue.items for call in item.calls()]

    assert said == [
        transcripts.SUMMARY,
        transcripts.PROMPT,
        transcripts.SAYS,
        transcripts.NEXT,
        transcripts.DONE,
    ]
    assert results == [transcripts.LISTED, transcripts.FAILED, transcripts.FOUND]
    told = [] if source in WITHOUT_ASIDES else [transcripts.INNER]
    assert [aside.items[0].text() for aside in dialogue.asides] == told
    assert transcripts.SEAL not in repr(dialogue)
    for agent in AGENTS:
        back = through(source, through(agent, dialogue))
        assert [entry[1] for entry in flat(back.items) if entry[0] in ("user", "said")] == said
        assert [call.result.text() for item in back.items for call in item.calls()] == results


def test_the_table_in_the_guide(tmp_path: Path) -> None:
    """The table in converting.md says "no" to exactly what an agent leaves out."""
    dialogues = {source: converted(tmp_path, source) for source in AGENTS}
    left_out = {
        agent: {
            what.partition(" (")[0]
            for source, dialogue in dialogues.items()
            if source != agent
            for what in converter(agent).write(dialogue, target()).omitted
        }
        for agent in AGENTS
    }
    page = SOURCE.joinpath("docs/converting.md").read_text("utf-8")
    rows = [line.strip("| ").split(" | ") for line in page.splitlines() if line.startswith("| ")]
    refused = {
        agent: {row[0] for row in rows[1:] if row[number] == "no"}
        for number, agent in enumerate(AGENTS, 1)
    }
    assert refused == left_out
