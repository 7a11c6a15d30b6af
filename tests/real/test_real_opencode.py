"""The real opencode, offline, against a scripted model: saved, wrecked, restored elsewhere,
continued.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import sqlite3
import subprocess
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from real_agents import (
    OFFLINE,
    OPENCODE,
    clone,
    in_order,
    opencode,
    opencode_environment,
    opencode_run,
)
from scripted_openai import ScriptedOpenAI, said

from driver import Project

pytestmark = [
    pytest.mark.full,
    pytest.mark.skipif(
        not OPENCODE.exists(), reason=f"needs opencode (npm) in {OPENCODE.parents[2]}"
    ),
]


def continue_as_told(
    home: Path, cwd: Path, resume: dict[str, Any], prompt: str, *steps: dict[str, Any]
) -> list[str]:
    """Run what a restore said, with a prompt; what the model was told of the conversation."""
    with ScriptedOpenAI(*steps) as model:
        for command in resume["prepare"]:
            assert command[0] == "opencode"
            opencode(home, cwd, model, *command[1:])
        assert resume["command"][0] == "opencode"
        assert (
            opencode_run(home, cwd, model, *resume["command"][1:], prompt) == resume["session_id"]
        )
    return said(model.requests[0])


@pytest.fixture
def session(project: Project, tmp_path: Path) -> tuple[str, Path]:
    """A session of two turns: one edits a file with the edit tool, one with the shell. Its id and
    the agent's home.
    """
    project.write("a.txt", "one\n")
    project.commit()
    home = tmp_path / "first-home"
    write = {"filePath": str(project.root / "by_tool.txt"), "content": "by the tool\n"}
    with ScriptedOpenAI({"tool": "write", "input": write}, {"text": "Written by tool."}) as model:
        session_id = opencode_run(home, project.root, model, "first: write a file")
    command = "printf 'by the shell\\n' > by_shell.txt; chmod 755 by_shell.txt; rm a.txt"
    shell = {"command": command, "description": "files"}
    with ScriptedOpenAI({"tool": "bash", "input": shell}, {"text": "Done in the shell."}) as model:
        opencode_run(home, project.root, model, "--session", session_id, "second: use the shell")
    return session_id, home


def test_it_continues(project: Project, session: tuple[str, Path], tmp_path: Path) -> None:
    """One session for all, since the program takes its time: elsewhere with all that was said, here
    with less.
    """
    continues_elsewhere(project, session, tmp_path)
    resumes_elsewhere(project, tmp_path)
    forgets_the_second_turn(project, session)


def continues_elsewhere(project: Project, session: tuple[str, Path], tmp_path: Path) -> None:
    """Save, wreck, restore; then clone elsewhere, restore into an empty home: the model is sent
    every message.
    """
    session_id, home = session
    before = project.files()
    saved = project.gitcp("save", "both turns", "--json", env={"HOME": str(home)}, check=0)
    checkpoint = json.loads(saved.out)["checkpoint"]
    assert checkpoint["agent"]["session_id"] == session_id
    assert checkpoint["agent"]["model"] == "m"
    assert before.keys() >= {b"by_tool.txt", b"by_shell.txt"}
    assert b"a.txt" not in before
    project.write("by_tool.txt", "wrecked\n")
    project.remove("by_shell.txt")

    report = project.gitcp(
        "restore", checkpoint["id"], "--yes", "--json", env={"HOME": str(home)}, check=0
    )
    assert project.files() == before
    resume = json.loads(report.out)["resume"]
    assert (resume["session_id"], resume["prepare"]) == (session_id, [])

    other = clone(project, tmp_path / "elsewhere")
    empty = tmp_path / "second-home"
    shown = other.gitcp("restore", checkpoint["id"], "--yes", env={"HOME": str(empty)}, check=0)
    assert other.files() == before
    report = other.gitcp(
        "restore", checkpoint["id"], "--yes", "--json", env={"HOME": str(empty)}, check=0
    )
    resume = json.loads(report.out)["resume"]
    commands = " && ".join(map(shlex.join, [*resume["prepare"], resume["command"]]))
    assert f"continue with: {commands}" in shown.out
    heard = continue_as_told(empty, other.root, resume, "third: go on", {"text": "Going on."})
    told = [
        "first: write a file",
        "write",
        "Written by tool.",
        "second: use the shell",
        "bash",
        "Done in the shell.",
        "third: go on",
    ]
    assert in_order(told, heard), heard


def resumes_elsewhere(project: Project, tmp_path: Path) -> None:
    """`gitcp resume` in an empty home imports the conversation and starts the program, which then
    knows all of it.

    The program is the real one, but what starts it without arguments for a terminal gives it a
    prompt.
    """
    other, home, bin = (
        clone(project, tmp_path / "resumed"),
        tmp_path / "third-home",
        tmp_path / "bin",
    )
    bin.mkdir()
    start = f'case $1 in --session) set -- run --format json "$@" "third: go on";; esac; exec {OPENCODE} "$@"'  # noqa: E501
    bin.joinpath("opencode").write_text(f"#!/bin/sh\necho called with $1\n{start}\n")
    bin.joinpath("opencode").chmod(0o755)
    last = project.json("show", "--session", "ses")["id"]
    with ScriptedOpenAI({"text": "Going on."}) as model:
        env = {
            **opencode_environment(home, model),
            **OFFLINE,
            "HOME": str(home),
            "XDG_CONFIG_HOME": "",
        }
        env["PATH"] = f"{bin}{os.pathsep}{os.environ['PATH']}"
        done = other.gitcp("resume", last, "--yes", "--trust", env=env, check=0)
    assert [line for line in done.out.splitlines() if line.startswith("called with")] == [
        "called with import",
        "called with --session",
    ]
    heard = said(model.requests[0])
    assert in_order(
        ["first: write a file", "Written by tool.", "second: use the shell", "third: go on"], heard
    ), heard


def forgets_the_second_turn(project: Project, session: tuple[str, Path]) -> None:
    """A restore in the same home: the agent continues under a new id, knows turn one and nothing of
    turn two.
    """
    session_id, home = session
    home_env = {"HOME": str(home)}
    first = json.loads(project.gitcp("save", "both turns", "--json", env=home_env, check=0).out)[
        "checkpoint"
    ]
    rows = rows_of(home)
    second = next(
        id for _, id, data in rows if '"text":"second: use the shell"' in data.replace('\\"', "")
    )

    restored = project.gitcp(
        "restore", "--message", second, "--yes", "--json", env=home_env, check=0
    )

    resume = json.loads(restored.out)["resume"]
    assert resume["session_id"] != session_id
    heard = continue_as_told(home, project.root, resume, "third: another way", {"text": "Again."})
    assert in_order(["first: write a file", "Written by tool.", "third: another way"], heard), heard
    assert not any("second: use the shell" in text for text in heard)
    saved = json.loads(project.gitcp("save", "--json", env=home_env, check=0).out)["checkpoint"]
    assert saved["agent"]["session_id"] == resume["session_id"]
    assert saved["session"] == first["session"]
    assert saved["conversation"]["messages"] == 5
    assert set(rows) <= set(rows_of(home)), "what the agent had is there as it was"


def rows_of(home: Path) -> list[tuple[str, str, str]]:
    """What the agent has of conversations: each part, its message, and what it says."""
    with closing(sqlite3.connect(home / ".local/share/opencode/opencode.db")) as database:
        return database.execute("select id, message_id, data from part").fetchall()


@pytest.mark.skipif(not shutil.which("sqlite3"), reason="needs the program sqlite3")
def test_a_recovered_database(project: Project, session: tuple[str, Path]) -> None:
    """A page is lost: with the database that the command of `gitcp doctor` writes, opencode goes
    on.
    """
    session_id, home = session
    path = home / ".local" / "share" / "opencode" / "opencode.db"
    with closing(sqlite3.connect(path, isolation_level=None)) as database:
        database.execute("pragma wal_checkpoint(truncate)")
        query = "select rootpage from sqlite_master where type = 'index' and tbl_name = 'part'"
        page = database.execute(query).fetchone()[0]
    data = path.read_bytes()
    at = (page - 1) * 4096
    path.write_bytes(data[:at] + bytes(4096) + data[at + 4096 :])
    report = json.loads(project.gitcp("doctor", "--json", env={"HOME": str(home)}, check=1).out)
    (problem,) = (each for each in report["problems"] if "is damaged" in each["what"])
    subprocess.run(problem["hint"], shell=True, check=True)
    for name in (path.name, f"{path.name}-wal", f"{path.name}-shm"):
        path.with_name(name).unlink(missing_ok=True)
    path.with_name("opencode.recovered.db").rename(path)

    command = ["opencode", "--session", session_id]
    resume = {"prepare": [], "command": command, "session_id": session_id}
    told = continue_as_told(home, project.root, resume, "third", {"text": "Going on."})
    assert in_order(["first: write a file", "Written by tool.", "third"], told), told
