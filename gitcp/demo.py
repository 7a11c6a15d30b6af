"""`gitcp demo`: an agent's session in a scratch repository, saved, wrecked, restored and undone.

The commands are the real ones, each in a process of its own, and every byte is compared.

Nothing outside the scratch directory is read or written; the agent's home is in it too.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Protocol

from gitcp import wire
from gitcp.adapters import claude_code
from gitcp.errors import GitcpError
from gitcp.git import process
from gitcp.model import Host
from gitcp.value import replace

SESSION = "e7baae82-5d1c-4f0a-9b3e-2c6d8f1a7b90"

FILES = {
    "app.py": (
        b"from db import connect\n\n\ndef users():\n    return connect().execute('select * from "
        b"users')\n"
    ),
    "db.py": b"import sqlite3\n\n\ndef connect():\n    return sqlite3.connect('app.db')\n",
    "schema.sql": b"create table users (id integer primary key, name text);\n",
    "logo.bin": bytes(range(256)) * 16,
    "run.sh": b"#!/bin/sh\nexec python3 app.py\n",
    ".gitignore": b"*.db\n.env\n",
    ".env": b"TOKEN=not-in-any-checkpoint\n",
}

Turn = tuple[str, str]

FIRST: tuple[Turn, ...] = (
    ("user", "Add an e-mail column to the users table, with a migration for it."),
    ("assistant", "I will write migrations/001_email.sql and leave schema.sql as it is."),
)
SECOND: tuple[Turn, ...] = (
    ("user", "Good. Now move everything to Postgres."),
    ("assistant", "Rewriting db.py and deleting what is no longer needed."),
    ("user", "Stop! You deleted the wrong files."),
)
WRECK = "rm schema.sql logo.bin; echo 'import psycopg' > db.py; echo '# Postgres' > notes.md"

ENVIRONMENT = ("PATH", "PYTHONPATH", "COLUMNS", "TERM", "LANG", "LC_ALL")
"""Variables of the user's that the commands of the demo get."""


class Stage(Protocol):
    """Where the demo is shown."""

    def tell(self, text: str) -> None:
        """Show a sentence of the story."""

    def message(self, speaker: str, text: str) -> None:
        """Show what a person, the agent or the agent's shell says."""

    def type(self, command: str) -> None:
        """Show a command as somebody types it."""

    def output(self, data: bytes) -> None:
        """Show what the command printed."""


def run(directory: Path, host: Host, stage: Stage, *, color: bool) -> None:
    """Play the demo in `directory` (which must be empty or absent). With `color` the commands are
    told to use colors. Raises GitcpError if a command fails or a byte is not as it was.
    """
    directory.mkdir(parents=True, exist_ok=True)
    if any(directory.iterdir()):
        raise GitcpError(f"{directory} is not empty; the demo was not run", hint="gitcp demo")
    home = directory / "home"
    env = {name: value for name, value in host.env.items() if name in ENVIRONMENT}
    env |= {"HOME": str(home)} | ({"FORCE_COLOR": "1"} if color else {"NO_COLOR": "1"})
    scene = _Scene(directory / "project", replace(host, env=env, home=home), stage)
    _save_and_wreck(scene)
    compared = _go_back_and_forth(scene)
    scene.gitcp("check")
    stage.tell(f"Compared {compared} files and the conversation byte by byte, after each step.")
    stage.tell("To have your agent save by itself, run: gitcp enable")


def _save_and_wreck(scene: _Scene) -> None:
    scene.stage.tell("A project, and an agent at work on it.")
    scene.begin()
    scene.gitcp('save "before migration"')
    scene.saved = scene.everything()
    scene.stage.tell("The agent goes on.")
    scene.wreck()
    scene.gitcp("status")


def _go_back_and_forth(scene: _Scene) -> int:
    """Restore and undo; return the number of files that were compared after the restore."""
    scene.stage.tell("Go back: the files, and what the agent knows.")
    scene.gitcp("restore 1 --yes")
    _same(scene.saved, scene.everything())
    scene.compare_conversations()
    scene.stage.tell("That can be undone, too.")
    scene.gitcp("undo --yes")
    _same(scene.wrecked, scene.everything())
    return len(scene.saved)


class _Scene:
    """The scratch project, its agent's home, and what happens to them."""

    def __init__(self, project: Path, host: Host, stage: Stage) -> None:
        self.project = project
        self.env = dict(host.env)
        self.stage = stage
        project.mkdir()
        host.home.mkdir()
        process.run(process.INIT, cwd=str(project), env=host.env)
        self.transcript = claude_code.transcript(project, SESSION, host)
        self.lines: list[bytes] = []
        self.saved: dict[str, bytes] = {}
        self.wrecked: dict[str, bytes] = {}

    def gitcp(self, typed: str) -> None:
        """Show `gitcp TYPED`, run it in the project, and show what it prints."""
        self.stage.type(f"gitcp {typed}")
        done = self._run([sys.executable, "-m", "gitcp", *shlex.split(typed)])
        self.stage.output(done.stdout)
        if done.returncode:
            raise GitcpError(f"the demo failed: gitcp {typed} exited with {done.returncode}")

    def _run(self, command: list[str]) -> subprocess.CompletedProcess[bytes]:
        return subprocess.run(
            command,
            cwd=self.project,
            env=self.env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            check=False,
        )

    def begin(self) -> None:
        for name, data in FILES.items():
            (self.project / name).write_bytes(data)
        (self.project / "run.sh").chmod(0o755)
        (self.project / "latest").symlink_to("schema.sql")
        self.talk(FIRST)

    def talk(self, turns: tuple[Turn, ...]) -> None:
        """Add turns to the agent's transcript, and show them."""
        for role, text in turns:
            self.stage.message("you" if role == "user" else "agent", text)
        self.lines += _records(turns, self.project, len(self.lines))
        self.transcript.parent.mkdir(parents=True, exist_ok=True)
        self.transcript.write_bytes(b"".join(self.lines))

    def wreck(self) -> None:
        self.talk(SECOND[:2])
        self.stage.message("shell", WRECK)
        self._run(["/bin/sh", "-c", WRECK])
        self.talk(SECOND[2:])
        self.wrecked = self.everything()

    def everything(self) -> dict[str, bytes]:
        """Every file of the project but git's own, with links and modes."""
        return {
            path.relative_to(self.project).as_posix(): os.fsencode(os.readlink(path))
            if path.is_symlink()
            else b"%o " % (path.stat().st_mode & 0o777) + path.read_bytes()
            for path in sorted(self.project.rglob("*"))
            if ".git" not in path.relative_to(self.project).parts
            and (path.is_symlink() or path.is_file())
        }

    def compare_conversations(self) -> None:
        """Check that the agent's transcript is as it was, and that the restored one lies beside it
        with the bytes that were saved.
        """
        if self.transcript.read_bytes() != b"".join(self.lines):
            raise GitcpError("the demo failed: the agent's own transcript was changed")
        restored = [
            path for path in self.transcript.parent.glob("*.jsonl") if path != self.transcript
        ]
        expected = b"".join(self.lines[: len(FIRST)])
        if [path.read_bytes() for path in restored] != [expected]:
            raise GitcpError("the demo failed: the restored conversation differs")


def _same(expected: dict[str, bytes], actual: dict[str, bytes]) -> None:
    for name in sorted(expected.keys() | actual.keys()):
        if expected.get(name) != actual.get(name):
            raise GitcpError(f"the demo failed: {name} differs")


def _records(turns: tuple[Turn, ...], project: Path, start: int) -> Iterator[bytes]:
    """Transcript lines as the agent writes them."""
    for number, (role, text) in enumerate(turns, start):
        time = datetime(2026, 1, 5, 9, 0, tzinfo=UTC) + timedelta(minutes=number)
        content: object = text if role == "user" else [{"type": "text", "text": text}]
        record = {
            "parentUuid": _uuid(number - 1) if number else None,
            "isSidechain": False,
            "userType": "external",
            "cwd": str(project),
            "sessionId": SESSION,
            "version": "2.1.197",
            "type": role,
            "message": {"role": role, "content": content},
            "uuid": _uuid(number),
            "timestamp": time.strftime("%Y-%m-%dT%H:%M:%S.000Z"),
        }
        yield wire.dumps(record) + b"\n"


def _uuid(number: int) -> str:
    return f"00000000-0000-4000-8000-{number:012d}"
