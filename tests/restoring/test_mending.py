"""A damaged transcript is stored as it is; what is placed is a copy that its agent accepts, and
what was repaired is said.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import transcripts
from damages import DAMAGES

from gitcp.adapters import mended
from gitcp.adapters.base import Stored
from gitcp.adapters.mending import FIRST, NOT_UTF8
from gitcp.model import Agent, Stream

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
    assert f"{transcripts.SESSION} is kept; the restored conversation is a repaired copy" in planned
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
