"""The real Claude Code, offline, against a scripted model: saved, wrecked, restored elsewhere,
continued.
"""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
import uuid
from pathlib import Path

import pytest
from real_agents import (
    CLAUDE,
    CLAUDE_HEADLESS,
    OFFLINE,
    claude,
    claude_environment,
    clone,
    in_order,
)

from driver import SOURCE, Project
from scripted_model import ScriptedModel, said

pytestmark = [
    pytest.mark.full,
    pytest.mark.skipif(
        not CLAUDE.exists(), reason=f"needs Claude Code (npm) in {CLAUDE.parents[2]}"
    ),
]


@pytest.fixture
def session(project: Project, tmp_path: Path) -> tuple[str, Path]:
    """A session of two turns: one edits a file with the edit tool, one with the shell. Its id and
    the agent's home.
    """
    project.write("a.txt", "one\n")
    project.commit()
    home, session_id = tmp_path / "first-home", str(uuid.uuid4())
    steps = (
        {
            "tool": "Write",
            "input": {"file_path": str(project.root / "by_tool.txt"), "content": "by the tool\n"},
        },
        {"text": "Written by tool."},
    )
    with ScriptedModel(*steps) as model:
        claude(home, project.root, model, "--session-id", session_id, "first: write a file")
    shell = "printf 'by the shell\\n' > by_shell.txt; chmod 755 by_shell.txt; rm a.txt"
    with ScriptedModel(
        {"tool": "Bash", "input": {"command": shell}}, {"text": "Done in the shell."}
    ) as model:
        claude(home, project.root, model, "--resume", session_id, "second: use the shell")
    return session_id, home


def test_it_continues_in_an_empty_home_at_another_path(
    project: Project, session: tuple[str, Path], tmp_path: Path
) -> None:
    """Save, wreck, clone elsewhere, restore into an empty home: the model is sent every earlier
    message.
    """
    session_id, home = session
    before = project.files()
    saved = project.gitcp("save", "both turns", "--json", env={"HOME": str(home)}, check=0)
    checkpoint = json.loads(saved.out)["checkpoint"]
    assert checkpoint["agent"]["session_id"] == session_id
    assert before.keys() >= {b"by_tool.txt", b"by_shell.txt"}
    assert b"a.txt" not in before
    project.write("by_tool.txt", "wrecked\n")
    project.remove("by_shell.txt")

    other = clone(project, tmp_path / "elsewhere")
    empty = tmp_path / "second-home"
    report = json.loads(
        other.gitcp(
            "restore", checkpoint["id"], "--yes", "--json", env={"HOME": str(empty)}, check=0
        ).out
    )

    assert other.files() == before
    command = report["resume"]["command"]
    assert command[0] == "claude"
    with ScriptedModel({"text": "Going on."}) as model:
        claude(empty, other.root, model, *command[1:], "third: go on")
    heard = said(model.requests[0])
    told = [
        "first: write a file",
        "Write",
        "Written by tool.",
        "second: use the shell",
        "Bash",
        "Done in the shell.",
        "third: go on",
    ]
    assert in_order(told, heard), heard


def test_going_back_to_the_first_turn_forgets_the_second(
    project: Project, session: tuple[str, Path]
) -> None:
    """A restore in the same home: the agent continues under a new id, knows turn one and nothing of
    turn two.
    """
    session_id, home = session
    transcript = next(home.glob(f".claude/projects/*/{session_id}.jsonl"))
    whole = transcript.read_bytes()
    lines = whole.splitlines(keepends=True)
    second = next(
        n
        for n, line in enumerate(lines)
        if b"second: use the shell" in line and b'"type":"user"' in line
    )
    message = json.loads(lines[second])["uuid"]
    home_env = {"HOME": str(home)}
    project.gitcp("save", "both turns", env=home_env, check=0)

    report = json.loads(
        project.gitcp("restore", "--message", message, "--yes", "--json", env=home_env, check=0).out
    )

    assert transcript.read_bytes() == whole
    assert report["resume"]["session_id"] != session_id
    with ScriptedModel({"text": "Again."}) as model:
        claude(home, project.root, model, *report["resume"]["command"][1:], "third: another way")
    heard = said(model.requests[0])
    assert in_order(["first: write a file", "Written by tool.", "third: another way"], heard)
    assert not any("second: use the shell" in text for text in heard)


def test_a_working_tree_that_is_gone(project: Project, tmp_path: Path) -> None:
    """Removed after it was saved: the hint, typed, makes it again, and the agent goes on in it with
    its files.
    """
    project.write("a.txt", "one\n")
    project.commit()
    home, topic = tmp_path / "home", tmp_path / "topic"
    project.git("worktree", "add", "--quiet", "-b", "topic", str(topic))
    write = {
        "tool": "Write",
        "input": {"file_path": str(topic / "new.py"), "content": "of the topic\n"},
    }
    with ScriptedModel(write, {"text": "Written by tool."}) as model:
        session_id = claude(home, topic, model, "first: write a file")
    project.gitcp("save", cwd=topic, env={"HOME": str(home)}, check=0)
    project.git("worktree", "remove", "--force", str(topic))
    programs = tmp_path / "bin"
    programs.mkdir()
    asked = shlex.join([str(CLAUDE), *CLAUDE_HEADLESS])
    (programs / "claude").write_text(f'#!/bin/sh\nexec {asked} "$@" "second: go on"\n')
    (programs / "gitcp").write_text(
        f'#!/bin/sh\nPYTHONPATH={SOURCE} exec {sys.executable} -P -m gitcp "$@"\n'
    )
    for program in programs.iterdir():
        program.chmod(0o755)
    path = f"{programs}{os.pathsep}{os.environ['PATH']}"

    step = {"tool": "Bash", "input": {"command": "pwd > where.txt; cat new.py >> where.txt"}}
    with ScriptedModel(step, {"text": "On."}) as model:
        env = {
            **os.environ,
            **OFFLINE,
            **claude_environment(model),
            "HOME": str(home),
            "PATH": path,
        }
        refused = project.gitcp("resume", "--session", session_id[:8], env=env, check=12)
        hint = refused.err.partition("hint: ")[2].strip()
        subprocess.run(
            ["sh", "-c", f"{hint} --yes"],
            cwd=project.root,
            env=env,
            check=True,
            capture_output=True,
        )

    heard = said(model.requests[0])
    assert in_order(["first: write a file", "Written by tool.", "second: go on"], heard), heard
    assert (topic / "where.txt").read_text() == f"{topic}\nof the topic\n"
    assert not (project.root / "new.py").exists()


def test_the_running_agent_is_found_by_a_save_from_its_shell(
    project: Project, session: tuple[str, Path]
) -> None:
    """`gitcp save` typed by the agent in its own shell takes that agent's conversation."""
    session_id, home = session
    launcher = project.root.parent / "bin" / "gitcp"
    launcher.parent.mkdir()
    source = Path(__file__).parents[2]
    launcher.write_text(f'#!/bin/sh\nPYTHONPATH="{source}" exec "{sys.executable}" -m gitcp "$@"\n')
    launcher.chmod(0o755)
    step = {"tool": "Bash", "input": {"command": f"{launcher} save 'by the agent itself'"}}
    with ScriptedModel(step, {"text": "Saved."}) as model:
        claude(home, project.root, model, "--resume", session_id, "third: save yourself")
    shown = json.loads(project.gitcp("show", "--json", env={"HOME": str(home)}, check=0).out)
    assert shown["label"] == "by the agent itself"
    assert shown["agent"]["session_id"] == session_id
