"""A damaged transcript is stored as it is; what is placed is a copy that its agent accepts, and
what was repaired is said.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
import transcripts
from damages import DAMAGES
from hypothesis import given
from hypothesis import strategies as st

from gitcp.adapters import base, mended
from gitcp.adapters.base import Placement, Stored
from gitcp.adapters.claude_code.repairs import DUPLICATES, OTHERS, UNLINKED
from gitcp.adapters.mending import FIRST, MARK, NOT_UTF8, ORPHANS, SPLIT, TORN
from gitcp.model import Agent, Stream
from gitcp.restoring import placing

from driver import Project

LINES = ("claude-code", "codex", "copilot", "gemini")


def written(agent: str, tmp_path: Path) -> Path:
    """The main file of the conversation of transcripts.py."""
    transcripts.write(agent, tmp_path, tmp_path)
    paths = [path for path in tmp_path.rglob("*.jsonl") if transcripts.DONE in path.read_text()]
    (path,) = paths
    return path


def mend(agent: str, data: bytes) -> tuple[bytes, dict[str, int]]:
    """What is placed of this transcript, and what was wrong with it."""
    stored = Stored(
        Agent(agent, transcripts.SESSION), ((Stream("main", len(data), ""), lambda: iter([data])),)
    )
    result, faults = mended(agent, stored)
    return b"".join(result.streams[0][1]()), dict(faults)


@pytest.mark.parametrize("agent", LINES)
def test_what_is_whole_stays(agent: str, tmp_path: Path) -> None:
    """Not a byte of it changes, wherever it ends."""
    lines = written(agent, tmp_path).read_bytes().splitlines(keepends=True)

    for end in range(1, len(lines) + 1):
        data = b"".join(lines[:end])
        assert mend(agent, data) == (data, {})


@pytest.mark.parametrize("agent", LINES)
def test_a_record_behind_a_torn_one_stays(agent: str, tmp_path: Path) -> None:
    """Another process wrote it on the same line. Wherever the line was torn, nothing but whole
    records is placed.
    """
    lines = written(agent, tmp_path).read_bytes().splitlines(keepends=True)
    for at in range(1, len(lines[-1]) - 2):
        data = b"".join(lines[:-1]) + lines[-1][:at] + lines[-1]
        result, faults = mend(agent, data)
        assert result == b"".join(lines), at
        assert faults == {TORN: 1}
        alone = b"".join(lines) + lines[-1][:at] + b"\n"
        assert mend(agent, alone) == (b"".join(lines), {TORN: 1}), at


@pytest.mark.parametrize("agent", LINES)
@pytest.mark.parametrize("said", ["two\n\nlines", 'an object:\n{"a": 1}\n}\nend', "a\r\nb\n"])
def test_a_record_split_by_line_feeds_is_joined(agent: str, said: str, tmp_path: Path) -> None:
    """Copilot wrote results of tools with raw line feeds inside a string: nothing of them is lost,
    and the records around stay.
    """
    lines = written(agent, tmp_path).read_bytes().splitlines(keepends=True)
    whole = json.loads(lines[-1])
    escaped = json.dumps({"extra": said, **whole}).encode() + b"\n"
    raw = escaped.replace(b"\\n", b"\n").replace(b"\\r", b"\r")
    data = b"".join([*lines[:-1], raw, lines[-1]])

    result, faults = mend(agent, data)
    assert faults[SPLIT] == 1
    assert TORN not in faults
    assert json.loads(result.splitlines()[len(lines) - 1])["extra"] == said
    assert mend(agent, result)[1].get(SPLIT) is None


@given(
    st.lists(st.sampled_from([b'{"a":"', b"x", b'"}', b'{"type":"t","b":"', b"", b"}"]), max_size=9)
)
def test_no_line_is_lost(lines: list[bytes]) -> None:
    """Whatever the lines are, they come out in order, joined or as they were."""
    found = list(base.records(line + b"\n" for line in lines))
    assert sum(count for _, count in found) == len(lines)
    assert b"\n".join(line for line, _ in found).replace(b"\\n", b"\n") == b"\n".join(lines)


@pytest.mark.parametrize("agent", LINES)
@pytest.mark.parametrize("what", DAMAGES)
def test_damage_is_named_and_repaired(agent: str, what: str, tmp_path: Path) -> None:
    """Each line of the result is one record in UTF-8, and nothing is wrong with it any more."""
    lines = written(agent, tmp_path).read_bytes().splitlines(keepends=True)
    data = DAMAGES[what](lines)
    result, faults = mend(agent, data)

    if what == FIRST and agent == "claude-code":  # it starts later, and Claude Code takes that
        assert faults == {}
        return
    assert list(faults) == [what]
    assert all(isinstance(json.loads(line), dict) for line in result.splitlines())
    assert mend(agent, result) == (result, {})


def test_claude_gets_a_chain_and_results(tmp_path: Path) -> None:
    """Without parents only the last message would be sent; a call without a result takes its whole
    message with it.
    """
    lines = written("claude-code", tmp_path).read_bytes().splitlines()
    nodes = [json.loads(line) for line in lines]
    loose = b"".join(_line({**node, "parentUuid": None}) for node in nodes)
    result, faults = mend("claude-code", loose)
    again = [json.loads(line) for line in result.splitlines()]
    assert faults == {"messages without a parent (chained)": len(nodes) - 1}
    assert [node["parentUuid"] for node in again[1:]] == [node["uuid"] for node in again[:-1]]

    answer = "'tool_use_id': 'call_3'"
    cut = b"".join(_line(node) for node in nodes if answer not in str(node))
    cut = cut.replace(nodes[13]["uuid"].encode(), nodes[12]["uuid"].encode())
    result, faults = mend("claude-code", cut)
    assert faults == {"calls without a result (answered as interrupted)": 1}
    assert mend("claude-code", result) == (result, {})


def node(uuid: str, parent: str | None, said: str = "", **part: str) -> dict[str, Any]:
    """A line of Claude Code: an answer if its id begins with "a", else a prompt or a result."""
    kind = "assistant" if uuid.startswith("a") else "user"
    message: dict[str, Any] = {"role": kind, "content": [part] if part else said or uuid}
    message |= {"id": f"msg_{uuid}"} if kind == "assistant" else {}
    return {"uuid": uuid, "parentUuid": parent, "type": kind, "message": message}


def call(uuid: str, parent: str, id: str) -> dict[str, Any]:
    """An answer with a call."""
    return node(uuid, parent, type="tool_use", id=id)


def result(uuid: str, parent: str, id: str) -> dict[str, Any]:
    """The result of a call."""
    return node(uuid, parent, type="tool_result", tool_use_id=id, content=f"result of {id}")


def claude(*nodes: dict[str, Any]) -> tuple[list[dict[str, Any]], dict[str, int]]:
    """What is placed of these lines, and the faults. What is placed has none, and is the same again
    if it had none.
    """
    data = b"".join(map(_line, nodes))
    mended_once, faults = mend("claude-code", data)
    assert mend("claude-code", mended_once) == (mended_once, {})
    assert faults or mended_once == data
    return [json.loads(line) for line in mended_once.splitlines()], faults


def ids(nodes: list[dict[str, Any]]) -> list[str]:
    return [each["uuid"] for each in nodes]


BEGIN = (node("u1", None), node("a1", "u1"))


def test_two_processes_in_the_middle_of_turns() -> None:
    """Both resumed one session: what is on the branch of the last message is placed, in order."""
    placed, faults = claude(
        *BEGIN,
        node("u2", "a1"),
        call("a2", "u2", "c2"),
        node("u3", "a1"),
        call("a3", "u3", "c3"),
        result("r2", "a2", "c2"),
        result("r3", "a3", "c3"),
        node("a4", "r2"),
        node("a5", "r3"),
    )
    assert faults == {OTHERS: 4}
    assert ids(placed) == ["u1", "a1", "u3", "a3", "r3", "a5"]


def test_two_processes_turn_by_turn() -> None:
    """Each waits for the other, and knows nothing of it."""
    placed, faults = claude(
        *BEGIN,
        *(node("u2", "a1"), node("a2", "u2")),
        *(node("u3", "a1"), node("a3", "u3")),
        *(node("u4", "a2"), node("a4", "u4")),
        *(node("u5", "a3"), node("a5", "u5")),
    )
    assert faults == {OTHERS: 4}
    assert ids(placed) == ["u1", "a1", "u3", "a3", "u5", "a5"]


def test_one_process_leaves_branches() -> None:
    """Going back is no damage, several times, to the same prompt, or once to a branch that was
    left; nor are parallel calls, a result that comes late, and a command typed meanwhile.
    """
    rewound = (
        *BEGIN,
        *(node("u2", "a1"), node("a2", "u2"), node("u3", "a2"), call("a3", "u3", "c3")),
        *(node("u4", "a1"), node("a4", "u4")),
        result("r3", "a3", "c3"),
        *(node("u5", "a4"), node("a5", "u5")),
        *(node("u6", "a4"), node("a6", "u6")),
        *(node("u7", "a1"), node("a7", "u7")),
    )
    for end in range(1, len(rewound) + 1):
        assert claude(*rewound[:end])[1] == {}
    assert claude(*rewound, node("u8", "a6"), node("a8", "u8"))[1] == {}
    meanwhile = (call("a2", "a1", "c2"), node("u3", "a2"), result("r2", "a2", "c2"))
    assert claude(*BEGIN, *meanwhile, node("a4", "r2"), node("a5", "a4"))[1] == {}


def test_two_messages_with_one_id() -> None:
    """The second gets one of its own, with what follows; the same message again is left out, and an
    update, which has the same parent, is none.
    """
    placed, faults = claude(*BEGIN, node("u2", "a1"), node("u1", "u2", "other"), node("a3", "u1"))
    assert faults == {DUPLICATES: 1}
    assert [each["parentUuid"] for each in placed] == [None, *ids(placed)[:-1]]
    assert ids(placed)[:3] == ["u1", "a1", "u2"]

    placed, faults = claude(*BEGIN, node("u2", "a1"), node("a1", "u2"), node("a3", "u2"))
    assert faults == {DUPLICATES: 1}
    assert ids(placed) == ["u1", "a1", "u2", "a3"]
    assert claude(*BEGIN, node("a1", "u1", "more"), node("u2", "a1"))[1] == {}


def test_a_missing_parent() -> None:
    """The message is linked to the one before; one at the beginning has none."""
    placed, faults = claude(*BEGIN, node("u3", "a2"), node("a3", "u3"))
    assert faults == {UNLINKED: 1}
    assert [each["parentUuid"] for each in placed] == [None, *ids(placed)[:-1]]
    assert claude(node("u3", "a2"), node("a3", "u3"))[1] == {}


def test_a_result_without_a_call() -> None:
    """It is kept as text: the provider refuses the result."""
    placed, faults = claude(*BEGIN, result("r2", "a1", "gone"), node("a3", "r2"))
    assert faults == {ORPHANS: 1}
    texts = [part["text"] for part in placed[2]["message"]["content"]]
    assert texts == ["[result of a call that is missing]", "result of gone"]

    header = {"sessionId": transcripts.SESSION, "projectHash": "0" * 64}
    response = {"id": "gone", "name": "ls", "response": {"output": "a.txt"}}
    chat = {"id": "1", "type": "user", "content": [{"functionResponse": response}]}
    for lines in ([header, chat], [header, {"$set": {"messages": [chat]}}]):
        mended_once, faults = mend("gemini", b"".join(map(_line, lines)))
        assert faults == {ORPHANS: 1}
        assert b"functionResponse" not in mended_once
        assert b"a.txt" in mended_once
        assert mend("gemini", mended_once) == (mended_once, {})


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 20)), max_size=25))
def test_one_process_is_never_repaired(steps: list[tuple[int, int]]) -> None:
    """It goes on with its branch, or back to before any prompt of it; with calls, or without."""
    lines, branch = list(BEGIN), ["u1", "a1"]
    for n, (kind, back) in enumerate(steps):
        if kind == 0 and len(branch) > 2:
            prompts = [at for at, uuid in enumerate(branch) if uuid.startswith("u") and at]
            del branch[prompts[back % len(prompts)] :]
        new = [node(f"u{n}x", branch[-1])]
        if kind == 1:
            new += [call(f"a{n}x", f"u{n}x", f"c{n}"), result(f"r{n}x", f"a{n}x", f"c{n}")]
        new.append(node(f"a{n}y", new[-1]["uuid"]))
        lines += new
        branch += ids(new)
    assert claude(*lines) == (lines, {})


@given(st.lists(st.tuples(st.sampled_from("ucr"), st.integers(1, 25)), max_size=25))
def test_a_repaired_copy_is_whole(steps: list[tuple[str, int]]) -> None:
    """However prompts, calls and results are mixed, with parents and calls that are there, come
    later or never: repaired once, nothing is left to repair.
    """
    claude(*mixed(steps))


def mixed(steps: list[tuple[str, int]]) -> list[dict[str, Any]]:
    """Lines of these kinds, each with a parent so many lines before it."""
    kinds = {n: "a" if kind == "c" else kind for n, (kind, _) in enumerate(steps)}
    lines = []
    for n, (kind, back) in enumerate(steps):
        uuid, parent = f"{kinds[n]}{n}", f"{kinds.get(n - back, 'u')}{n - back}"
        id = f"c{n if kind == 'c' else n - back}"
        part = {"u": node(uuid, parent), "c": call(uuid, parent, id), "r": result(uuid, parent, id)}
        lines.append(part[kind])
    return lines


def test_a_sub_agent_of_codex_without_its_first_record(tmp_path: Path) -> None:
    """What is placed is the thread that it was: with its id, and where it comes from."""
    data = written("codex", tmp_path).read_bytes()
    first, rest = data.split(b"\n", 1)
    torn, thread = first[: len(first) // 2] + b"\n" + rest, "0190-thread"
    streams = (("main", data), (f"agents/{thread}", torn))
    stored = Stored(
        Agent("codex", transcripts.SESSION),
        tuple(
            (Stream(name, len(each), "", "rollout-x.jsonl"), partial(iter, [each]))
            for name, each in streams
        ),
    )
    result, faults = mended("codex", stored)

    assert faults == {f"{what} in agents/{thread}": 1 for what in (TORN, FIRST)}
    meta = json.loads(b"".join(result.streams[1][1]()).splitlines()[0])
    assert meta["type"] == "session_meta"
    assert (meta["payload"]["id"], meta["payload"]["thread_source"]) == (thread, "subagent")
    assert meta["payload"]["parent_thread_id"] == transcripts.SESSION


def test_what_is_not_written_is_not_said_to_be_repaired() -> None:
    """A sub-agent that the agent has otherwise stays as it is there."""
    faults = {TORN: 1, f"{TORN} in agents/a": 2, f"{MARK} in agents/b": 3}
    placement = Placement("id", (), (), kept=("agents/a",))

    assert placing._written(faults, placement) == {TORN: 1, f"{MARK} in agents/b": 3}


PLACE = "{session}/subagents/agent-sub1.jsonl"


def mend_agent(data: bytes, place: str = PLACE) -> tuple[bytes, dict[str, int]]:
    """What is placed of this transcript of a sub-agent, and what was wrong with it. The main one
    stays, byte for byte.
    """
    main = _line(node("u1", None))
    stored = Stored(
        Agent("claude-code", transcripts.SESSION),
        (
            (Stream("main", len(main), ""), lambda: iter([main])),
            (Stream("agents/sub1", len(data), "", place), lambda: iter([data])),
        ),
    )
    result, faults = mended("claude-code", stored)
    assert b"".join(result.streams[0][1]()) == main
    assert all(what.endswith(" in agents/sub1") for what in faults)
    named = {what.removesuffix(" in agents/sub1"): count for what, count in faults.items()}
    return b"".join(result.streams[1][1]()), named


def aside(*nodes: dict[str, Any]) -> tuple[list[dict[str, Any]], dict[str, int]]:
    """What is placed of these lines of a sub-agent, and the faults. Each line keeps its mark, and
    what is placed has no faults.
    """
    data = b"".join(_line({**each, "isSidechain": True, "agentId": "sub1"}) for each in nodes)
    mended_once, faults = mend_agent(data)
    assert mend_agent(mended_once) == (mended_once, {})
    assert faults or mended_once == data
    placed = [json.loads(line) for line in mended_once.splitlines()]
    assert all(each["isSidechain"] and each["agentId"] == "sub1" for each in placed)
    return placed, faults


TURN = (*BEGIN, call("a2", "a1", "c2"), result("r2", "a2", "c2"), node("a3", "r2", "größer"))


def test_a_whole_sub_agent_stays() -> None:
    """Wherever it ends, continued, and with a beginning that is elsewhere."""
    for end in range(1, len(TURN) + 1):
        assert aside(*TURN[:end])[1] == {}
    assert aside(*TURN, node("u4", "a3"), node("a4", "u4"))[1] == {}
    assert aside(*TURN[1:])[1] == {}


@pytest.mark.parametrize("what", DAMAGES)
def test_damage_of_a_sub_agent_is_named_and_repaired(what: str) -> None:
    """As in the main transcript, with the name of the stream."""
    nodes = (*TURN, node("u4", "a3"))
    lines = [_line({**each, "isSidechain": True}) for each in nodes]
    result, faults = mend_agent(DAMAGES[what](lines))

    assert faults == ({} if what == FIRST else {what: 1})
    assert all(isinstance(json.loads(line), dict) for line in result.splitlines())
    assert mend_agent(result) == (result, {})


def test_calls_results_and_parents_of_a_sub_agent() -> None:
    """A record that is cut loses a call, or a result, and the parent of what follows."""
    placed, faults = aside(*BEGIN, result("r2", "a2", "c2"), node("a3", "r2"))
    assert faults == {ORPHANS: 1, UNLINKED: 1}
    assert [each["parentUuid"] for each in placed] == [None, *ids(placed)[:-1]]
    assert "result of c2" in str(placed[2]["message"]["content"])

    placed, faults = aside(*BEGIN, call("a2", "a1", "c2"), node("a3", "a2"))
    assert faults == {"calls without a result (answered as interrupted)": 1}
    assert placed[3]["message"]["content"][0]["tool_use_id"] == "c2"

    placed, faults = aside(*({**each, "parentUuid": None} for each in TURN))
    assert faults == {"messages without a parent (chained)": len(TURN) - 1}


def test_sub_agents_of_other_kinds() -> None:
    """A fork begins with the result of a call in the main transcript. The log of a workflow is no
    transcript.
    """
    fork = {"type": "fork-context-ref", "agentId": "sub1", "parentLastUuid": "a1"}
    lines = (fork, result("r1", "a1", "c1"), node("a2", "r1"))
    data = b"".join(map(_line, lines))
    assert mend_agent(data) == (data, {})
    assert list(mend_agent(data + b'{"to')[1]) == [TORN]
    assert mend_agent(b"[1]\n", "{session}/subagents/workflows/w/journal.jsonl") == (b"[1]\n", {})


@given(st.lists(st.tuples(st.sampled_from("ucr"), st.integers(1, 25)), max_size=25))
def test_a_repaired_sub_agent_is_whole(steps: list[tuple[str, int]]) -> None:
    """As a main transcript, however prompts, calls and results are mixed."""
    aside(*mixed(steps))


def test_it_is_read_once(tmp_path: Path) -> None:
    """A restore plans several times; what was planned for this content counts."""
    data = b"\xef\xbb\xbf" + written("codex", tmp_path).read_bytes()
    stream = Stream("main", len(data), sha256(data).hexdigest())
    reads = []

    def read() -> Iterator[bytes]:
        reads.append(1)
        yield data

    stored = Stored(Agent("codex", transcripts.SESSION), ((stream, read),))
    results = [mended("codex", stored) for _ in range(3)]
    assert [dict(faults) for _, faults in results] == [{MARK: 1}] * 3
    assert len(reads) == 1
    assert b"".join(results[2][0].streams[0][1]()) == data[3:]


def test_codex_needs_all_numbers_or_none(tmp_path: Path) -> None:
    """One that is missing: none is written, nor the mode that needs them."""
    records = [json.loads(line) for line in written("codex", tmp_path).read_bytes().splitlines()]
    records[0]["payload"]["history_mode"] = "paginated"
    numbered = [{**record, "ordinal": n} for n, record in enumerate(records)]
    whole = b"".join(map(_line, numbered))
    assert mend("codex", whole) == (whole, {})

    del numbered[-1]["ordinal"]
    result, faults = mend("codex", b"".join(map(_line, numbered)))
    assert faults == {"records without a number (numbers left out)": 1}
    assert b"ordinal" not in result
    assert b"history_mode" not in result


def _line(fields: Any) -> bytes:
    return json.dumps(fields, ensure_ascii=False).encode() + b"\n"


def test_a_copy_is_repaired(project: Project, tmp_path: Path) -> None:
    """The checkpoint and the agent's own file keep what was there; the copy has a session of its
    own, and the report says what was repaired.
    """
    project.write("a.txt", "one\n")
    project.commit()
    home = tmp_path / "agents-home"
    transcripts.write("codex", home, project.root)
    (path,) = (p for p in home.rglob("*.jsonl") if transcripts.DONE in p.read_text())
    broken = path.read_bytes().replace("größer".encode(), b"gr\xf6\xdfer")
    path.write_bytes(broken)
    env = {"HOME": str(home)}
    project.gitcp("save", "broken", env=env, check=0)

    id = project.json("log")["id"]
    problem = f"the conversation of {id} is damaged: 1 {NOT_UTF8}"
    assert problem in project.gitcp("doctor", env=env, check=1).out
    checked = project.gitcp("check", "--all", env=env, check=0).out
    assert f"note: the conversation of {id}: 1 {NOT_UTF8}" in checked

    planned = project.gitcp("restore", "@", "--dry-run", env=env, check=0).out
    assert "the agent's session is kept; a repaired copy is restored" in planned
    done = project.gitcp("restore", "@", "--yes", env=env, check=0).out
    assert f"session {transcripts.SESSION} was kept; the restored conversation is a repai" in done
    assert "newer messages" not in planned + done
    assert f"repaired in the conversation: 1 {NOT_UTF8}\n" in done
    resume = json.loads(project.gitcp("resume", "--json", "--yes", env=env, check=0).out)["resume"]
    assert resume["session_id"] != transcripts.SESSION
    Path(resume["path"]).read_bytes().decode("utf-8")
    assert path.read_bytes() == broken
    stored = project.gitcp("export", "1", "-f", "transcript", "-o", "../it", env=env, check=0)
    assert stored
    assert (project.root.parent / "it").read_bytes() == broken


def test_a_sub_agent_is_repaired_in_the_copy(project: Project, tmp_path: Path) -> None:
    """The checkpoint and the agent's own file keep what was there; doctor, check and restore name
    the stream.
    """
    project.write("a.txt", "one\n")
    project.commit()
    home = tmp_path / "agents-home"
    transcripts.write("claude-code", home, project.root)
    (path,) = home.rglob("agent-sub1.jsonl")
    whole = path.read_bytes()
    broken = whole + whole[:60] + b"\n"
    path.write_bytes(broken)
    env = {"HOME": str(home)}
    project.gitcp("save", "broken", env=env, check=0)

    id, what = project.json("log")["id"], f"1 {TORN} in agents/sub1"
    problem = f"the conversation of {id} is damaged: {what}; a restore repairs its copy"
    assert problem in project.gitcp("doctor", env=env, check=1).out
    checked = project.gitcp("check", "--all", env=env, check=0).out
    assert f"note: the conversation of {id}: {what}; a restore repairs its copy" in checked

    done = project.gitcp("restore", "1", "--yes", env=env, check=0).out
    assert f"session {transcripts.SESSION} was kept; the restored conversation is a repai" in done
    assert f"repaired in the conversation: {what}\n" in done
    again = project.gitcp("restore", "1", "--yes", "--json", env=env, check=0).out
    resume = json.loads(again)["resume"]
    assert resume["session_id"] in done
    assert resume["repaired"] == {f"{TORN} in agents/sub1": 1}
    copy = Path(resume["path"]).with_suffix("") / "subagents" / path.name
    assert copy.read_bytes() == whole
    assert path.read_bytes() == broken
    streams = project.json("show", "1")["conversation"]["streams"]
    sums = {stream["name"]: stream["sha256"] for stream in streams}
    assert sums["agents/sub1"] == sha256(broken).hexdigest()
