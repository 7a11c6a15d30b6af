"""Named pipes, sockets, devices and directories in the place of files that gitcp reads: of agents,
of git and of the user. Secret managers and sandboxes make them. Nothing waits for one.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from driver import SOURCE, Project

ID = "11111111-1111-2222-3333-111111111111"
OTHER = "22222222-1111-2222-3333-111111111111"
PLACES = (
    f"~/.claude/projects/PROJECT/{OTHER}.jsonl",
    f"~/.claude/projects/PROJECT/{ID}/subagents/agent-a1.jsonl",
    "~/.claude/settings.json",
    "~/.codex/config.toml",
    "~/.codex/hooks.json",
    f"~/.codex/sessions/2026/11/20/rollout-2026-11-20T10-00-00-{OTHER}.jsonl",
    "~/.gemini/settings.json",
    "~/.gemini/projects.json",
    "~/.gemini/tmp/project/.project_root",
    "~/.gemini/tmp/project/chats/session-2026-11-20T10-00-22222222.json",
    f"~/.copilot/session-state/{OTHER}/events.jsonl",
    f"~/.copilot/session-state/{OTHER}/workspace.yaml",
    "~/.local/share/opencode/opencode.db",
    "~/.local/share/opencode/opencode.db-wal",
    "~/.config/git/ignore",
    ".gitcp.toml",
    ".gitignore",
    "sub/.gitignore",
    ".gitattributes",
    ".claude/settings.json",
    ".git/info/exclude",
    "sub/nested/.git",
)
"""What is read, in the home directory or in the project."""


def pipe(path: Path) -> None:
    os.mkfifo(path)


def listening(path: Path) -> None:
    """Make a socket, by a short name: one may have 107 bytes."""
    here = os.open(path.parent, os.O_RDONLY)
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(f"/proc/self/fd/{here}/{path.name}" if sys.platform == "linux" else str(path))
    os.close(here)


def endless(path: Path) -> None:
    path.symlink_to("/dev/zero")


def directory(path: Path) -> None:
    path.mkdir()


def run(project: Project, *args: str, input: str = "") -> str:
    """Run gitcp, for half a minute at most, and return what it says."""
    done = subprocess.run(
        [sys.executable, "-P", "-m", "gitcp", *args],
        cwd=project.root,
        env={**os.environ, "PYTHONPATH": str(SOURCE)},
        input=input,
        capture_output=True,
        encoding="utf-8",
        timeout=30,
    )
    said = done.stdout + done.stderr
    assert "Traceback" not in said, said
    assert "internal error" not in said, said
    return said


@pytest.mark.parametrize("make", [pipe, listening, endless, directory])
def test_nothing_waits_for_what_is_no_file(project: Project, make: Callable[[Path], None]) -> None:
    """With one of these in the place of every file at once, save, status, a hook, adopt, enable and
    doctor end, and what can be read is saved.
    """
    project.write("file", "1\n")
    project.write("sub/other", "1\n")
    project.commit()
    home, name = (
        Path(os.environ["HOME"]),
        "".join(char if char.isalnum() else "-" for char in str(project.root)),
    )
    transcript = home / f".claude/projects/{name}/{ID}.jsonl"
    transcript.parent.mkdir(parents=True)
    fields = {"type": "user", "message": {"role": "user", "content": "hello"}, "uuid": "a"}
    fields |= {"sessionId": ID, "cwd": str(project.root), "timestamp": "2026-11-20T10:00:00.000Z"}
    transcript.write_text(json.dumps(fields) + "\n")
    run(project, "save", "before")
    for place in PLACES:
        path = home / place[2:] if place.startswith("~/") else project.root / place
        path = Path(str(path).replace("PROJECT", name))
        path.parent.mkdir(parents=True, exist_ok=True)
        path.unlink(missing_ok=True)
        make(path)
    project.write("file", "2\n")

    assert "saved " in run(project, "save", "after")
    run(project, "status")
    event = {"session_id": ID, "transcript_path": str(transcript), "cwd": str(project.root)}
    project.write("file", "3\n")
    stop = json.dumps({**event, "hook_event_name": "Stop"})
    assert run(project, "hook", "claude", "Stop", input=stop) == ""
    run(project, "adopt", "--dry-run")
    run(project, "enable", "--dry-run")
    run(project, "doctor")


@pytest.mark.parametrize(
    "place", ["~/as-pipe", ".git/HEAD", ".git/config", ".git/packed-refs", ".git/index"]
)
def test_what_git_would_wait_for(project: Project, place: str) -> None:
    """git itself would wait for a pipe among its own files: gitcp says which one it is."""
    project.write("file", "1\n")
    home = Path(os.environ["HOME"])
    path = home / place[2:] if place.startswith("~/") else project.root / place
    path.unlink(missing_ok=True)
    os.mkfifo(path)
    env = {"GIT_CONFIG_GLOBAL": str(path)} if place.startswith("~/") else {}

    for command in (("save",), ("status",), ("log",), ("doctor",)):
        done = project.gitcp(*command, env=env)

        assert done.code != 0, command
        assert "named pipe" in done.out + done.err, (command, done)
