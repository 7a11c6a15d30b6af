"""The real Gemini CLI, offline, against a scripted model: saved, wrecked, restored elsewhere, continued."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
from scripted_gemini import ScriptedGemini, said

from driver import Project

GEMINI = Path(os.environ.get("AGENTS_PREFIX", Path.home() / ".cache/agents")) / "gemini/node_modules/.bin/gemini"

pytestmark = pytest.mark.skipif(not GEMINI.exists(), reason=f"needs Gemini CLI (npm) in {GEMINI.parents[2]}")

SETTINGS = {
    "security": {"auth": {"selectedType": "gemini-api-key"}},
    "general": {"disableAutoUpdate": True, "disableUpdateNag": True},
    "privacy": {"usageStatisticsEnabled": False},
    "telemetry": {"enabled": False},
}


def gemini(home: Path, cwd: Path, model: ScriptedGemini, *args: str, hooks: dict[str, Any] | None = None) -> str:
    """Run Gemini CLI once, headless; the id of the session."""
    home.joinpath(".gemini").mkdir(parents=True, exist_ok=True)
    settings = json.dumps({**SETTINGS, **({"hooks": hooks} if hooks else {})})
    home.joinpath(".gemini", "settings.json").write_text(settings)
    env = {
        "HOME": str(home),
        "PATH": os.environ["PATH"],
        "LANG": "C.UTF-8",
        "TERM": "xterm",
        "GEMINI_API_KEY": "not-a-key",
        "GOOGLE_GEMINI_BASE_URL": model.url,
        "GEMINI_CLI_TRUST_WORKSPACE": "true",
        "NO_BROWSER": "1",
        # Whatever is not loopback goes to a proxy that is not there.
        "HTTPS_PROXY": "http://127.0.0.1:9",
        "NO_PROXY": "127.0.0.1",
    }
    command = [str(GEMINI), "--yolo", "--output-format", "json", "--model", "gemini-2.5-pro", *args]
    done = subprocess.run(
        command, cwd=cwd, env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, (done.stdout[-2000:], done.stderr[-2000:])
    session_id: str = json.loads(done.stdout)["session_id"]
    return session_id


def in_order(needles: list[str], hay: list[str]) -> bool:
    """Whether each needle is found in some element, one after the other."""
    rest = iter(hay)
    return all(any(needle in text for text in rest) for needle in needles)


@pytest.fixture
def session(project: Project, tmp_path: Path) -> tuple[str, Path]:
    """A session of two turns: one edits a file with the edit tool, one with the shell. Its id and the agent's home."""
    project.write("a.txt", "one\n")
    project.commit()
    home = tmp_path / "first-home"
    write = {"file_path": str(project.root / "by_tool.txt"), "content": "by the tool\n"}
    with ScriptedGemini({"tool": "write_file", "input": write}, {"text": "Written by tool."}) as model:
        session_id = gemini(home, project.root, model, "--prompt", "first: write a file")
    shell = {"command": "printf 'by the shell\\n' > by_shell.txt; chmod 755 by_shell.txt; rm a.txt"}
    with ScriptedGemini({"tool": "run_shell_command", "input": shell}, {"text": "Done in the shell."}) as model:
        gemini(home, project.root, model, "--resume", session_id, "--prompt", "second: use the shell")
    return session_id, home


def test_it_continues_in_an_empty_home_at_another_path(
    project: Project, session: tuple[str, Path], tmp_path: Path
) -> None:
    """Save, wreck, restore; then clone elsewhere, restore into an empty home: the model is sent every message."""
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

    report = project.gitcp("restore", checkpoint["id"], "--yes", "--json", env={"HOME": str(home)}, check=0)
    assert project.files() == before
    assert json.loads(report.out)["resume"]["session_id"] == session_id

    other = Project(_clone(project, tmp_path / "elsewhere"))
    empty = tmp_path / "second-home"
    report = other.gitcp("restore", checkpoint["id"], "--yes", "--json", env={"HOME": str(empty)}, check=0)
    assert other.files() == before
    command = json.loads(report.out)["resume"]["command"]
    assert command == ["gemini", "--resume", session_id]
    with ScriptedGemini({"text": "Going on."}) as model:
        assert gemini(empty, other.root, model, *command[1:], "--prompt", "third: go on") == session_id
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


def test_going_back_to_the_first_turn_forgets_the_second(project: Project, session: tuple[str, Path]) -> None:
    """A restore in the same home: the agent continues under a new id, knows turn one and nothing of turn two."""
    session_id, home = session
    chats = {path: path.read_bytes() for path in home.glob(".gemini/tmp/*/chats/*.jsonl")}
    lines = [json.loads(line) for chat in chats.values() for line in chat.splitlines()]
    second = [{"text": "second: use the shell"}]
    message = next(line["id"] for line in lines if line.get("type") == "user" and line["content"] == second)
    home_env = {"HOME": str(home)}
    project.gitcp("save", "both turns", env=home_env, check=0)

    report = json.loads(project.gitcp("restore", "--message", message, "--yes", "--json", env=home_env, check=0).out)

    assert {path: path.read_bytes() for path in chats} == chats
    new_id = report["resume"]["session_id"]
    assert new_id != session_id
    for turn in ("third: another way", "fourth: and on"):
        with ScriptedGemini({"text": f"Again after {turn}."}) as model:
            assert gemini(home, project.root, model, *report["resume"]["command"][1:], "--prompt", turn) == new_id
    heard = said(model.requests[0])
    told = ["first: write a file", "Written by tool.", "third: another way", "Again after third", "fourth: and on"]
    assert in_order(told, heard), heard
    assert not any("second: use the shell" in text for text in heard)
    saved = json.loads(project.gitcp("save", "--json", env=home_env, check=0).out)["checkpoint"]
    assert saved["session"] == session_id.replace("-", "")[:8]
    assert saved["agent"]["session_id"] == new_id


def _clone(project: Project, directory: Path) -> Path:
    subprocess.run(["git", "clone", "--quiet", str(project.root), str(directory)], check=True)
    subprocess.run(["git", "fetch", "--quiet", "origin", "refs/gitcp/*:refs/gitcp/*"], cwd=directory, check=True)
    return directory
