"""The real Gemini CLI, offline, against a scripted model: saved, wrecked, restored elsewhere,
continued.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from real_agents import GEMINI, clone, gemini, in_order
from scripted_gemini import ScriptedGemini, said

from driver import Project

pytestmark = [
    pytest.mark.full,
    pytest.mark.skipif(
        not GEMINI.exists(), reason=f"needs Gemini CLI (npm) in {GEMINI.parents[2]}"
    ),
]


@pytest.fixture
def session(project: Project, tmp_path: Path) -> tuple[str, Path]:
    """A session of two turns: one edits a file with the edit tool, one with the shell. Its id and
    the agent's home.
    """
    project.write("a.txt", "one\n")
    project.commit()
    home = tmp_path / "first-home"
    write = {"file_path": str(project.root / "by_tool.txt"), "content": "by the tool\n"}
    with ScriptedGemini(
        {"tool": "write_file", "input": write}, {"text": "Written by tool."}
    ) as model:
        session_id = gemini(home, project.root, model, "first: write a file")
    shell = {"command": "printf 'by the shell\\n' > by_shell.txt; chmod 755 by_shell.txt; rm a.txt"}
    with ScriptedGemini(
        {"tool": "run_shell_command", "input": shell}, {"text": "Done in the shell."}
    ) as model:
        gemini(home, project.root, model, "--resume", session_id, "second: use the shell")
    return session_id, home


def test_it_continues_in_an_empty_home_at_another_path(
    project: Project, session: tuple[str, Path], tmp_path: Path
) -> None:
    """Save, wreck, restore; then clone elsewhere, restore into an empty home: the model is sent
    every message.
    """
    session_id, home = session
    before = project.files()
    saved = project.gitcp("save", "both turns", "--json", env={"HOME": str(home)}, check=0)
    checkpoint = json.loads(saved.out)["checkpoint"]
    assert checkpoint["agent"] == {
        "name": "gemini", "version": None, "model": "gemini-2.5-pro", "session_id": session_id
    }  # fmt: skip
    assert before.keys() >= {b"by_tool.txt", b"by_shell.txt"}
    assert b"a.txt" not in before
    project.write("by_tool.txt", "wrecked\n")
    project.remove("by_shell.txt")

    report = project.gitcp(
        "restore", checkpoint["id"], "--yes", "--json", env={"HOME": str(home)}, check=0
    )
    assert project.files() == before
    assert json.loads(report.out)["resume"]["session_id"] == session_id

    other = clone(project, tmp_path / "elsewhere")
    empty = tmp_path / "second-home"
    report = other.gitcp(
        "restore", checkpoint["id"], "--yes", "--json", env={"HOME": str(empty)}, check=0
    )
    assert other.files() == before
    command = json.loads(report.out)["resume"]["command"]
    assert command == ["gemini", "--resume", session_id]
    with ScriptedGemini({"text": "Going on."}) as model:
        assert gemini(empty, other.root, model, *command[1:], "third: go on") == session_id
    heard = said(model.requests[0])
    told = [
        "first: write a file",
        "write_file",
        "Written by tool.",
        "second: use the shell",
        "run_shell_command",
        "Done in the shell.",
        "third: go on",
    ]
    assert in_order(told, heard), heard


def test_what_is_restored_survives_the_next_start(
    project: Project, session: tuple[str, Path], tmp_path: Path
) -> None:
    """Resumed in a later minute than it began in, and again after another start, which deletes the
    empty chat: it is there, and it is what is saved. In the same home too, where the program's own
    chat goes with the empty one.
    """
    session_id, home = session
    # Beside an empty one, if the second turn was in a later minute.
    chat = max(
        home.glob(".gemini/tmp/*/chats/session-*.jsonl"), key=lambda path: path.stat().st_size
    )
    chat = chat.rename(chat.with_name(f"session-2026-01-02T03-04-{session_id[:8]}.jsonl"))
    project.gitcp("save", "both turns", env={"HOME": str(home)}, check=0)
    for where in (tmp_path / "second-home", home):
        env = {"HOME": str(where)}
        project.write("by_tool.txt", "wrecked\n")
        report = json.loads(project.gitcp("restore", "1", "--yes", "--json", env=env, check=0).out)
        command, path = report["resume"]["command"][1:], Path(report["resume"]["path"])
        assert command == ["--resume", session_id]

        with ScriptedGemini({"text": "Going on."}) as model:
            assert gemini(where, project.root, model, *command, "third: go on") == session_id
        stubs = [
            name
            for name in path.parent.glob("session-*.jsonl")
            if name.name.endswith(f"{session_id[:8]}.jsonl")
        ]
        assert stubs
        with ScriptedGemini({"text": "Another."}) as model:
            gemini(where, project.root, model, "something else")
        assert path.exists()
        assert not any(stub.exists() for stub in stubs)
        with ScriptedGemini({"text": "On again."}) as model:
            assert gemini(where, project.root, model, *command, "fourth: and on") == session_id

        heard = said(model.requests[0])
        told = [
            "first: write a file",
            "Done in the shell.",
            "third: go on",
            "Going on.",
            "fourth: and on",
        ]
        assert in_order(told, heard), heard
        saved = json.loads(
            project.gitcp("save", "--session", session_id[:8], "--json", env=env, check=0).out
        )
        assert saved["checkpoint"]["agent"]["session_id"] == session_id
        talk = project.gitcp(
            "show", saved["checkpoint"]["id"], "--conversation", env=env, check=0
        ).out
        assert "fourth: and on" in talk
    assert not chat.exists()


def test_going_back_to_the_first_turn_forgets_the_second(
    project: Project, session: tuple[str, Path]
) -> None:
    """A restore in the same home: the agent continues under a new id, knows turn one and nothing of
    turn two.
    """
    session_id, home = session
    chats = {path: path.read_bytes() for path in home.glob(".gemini/tmp/*/chats/*.jsonl")}
    lines = [json.loads(line) for chat in chats.values() for line in chat.splitlines()]
    second = [{"text": "second: use the shell"}]
    message = next(
        line["id"] for line in lines if line.get("type") == "user" and line["content"] == second
    )
    home_env = {"HOME": str(home)}
    project.gitcp("save", "both turns", env=home_env, check=0)

    report = json.loads(
        project.gitcp("restore", "--message", message, "--yes", "--json", env=home_env, check=0).out
    )

    assert {path: path.read_bytes() for path in chats} == chats
    new_id = report["resume"]["session_id"]
    assert new_id != session_id
    for turn in ("third: another way", "fourth: and on"):
        with ScriptedGemini({"text": f"Again after {turn}."}) as model:
            assert (
                gemini(home, project.root, model, *report["resume"]["command"][1:], turn) == new_id
            )
    heard = said(model.requests[0])
    told = [
        "first: write a file",
        "Written by tool.",
        "third: another way",
        "Again after third",
        "fourth: and on",
    ]
    assert in_order(told, heard), heard
    assert not any("second: use the shell" in text for text in heard)
    saved = json.loads(project.gitcp("save", "--json", env=home_env, check=0).out)["checkpoint"]
    assert saved["session"] == session_id.replace("-", "")[:8]
    assert saved["agent"]["session_id"] == new_id
