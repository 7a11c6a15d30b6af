"""`gitcp demo`: a short story in a scratch repository, with a recorded session, that checks every
byte at the end.

Nothing outside the scratch directory is read or written; the agent's home is in it too.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

from gitcp import wire
from gitcp.adapters import claude_code
from gitcp.errors import GitcpError
from gitcp.git import process
from gitcp.git.repo import Repository
from gitcp.lifecycle.check import check
from gitcp.model import Checkpoint, CheckpointId, Handoff, Host, Note
from gitcp.restoring import restore as restore_op
from gitcp.saving.save import Request, Saved, save
from gitcp.store import Store
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
    ("user", "Add an e-mail column to the users table, and a migration for it."),
    (
        "assistant",
        (
            "I will write migrations/001_email.sql and leave schema.sql as it is, "
            "so that both can be reviewed."
        ),
    ),
)
SECOND: tuple[Turn, ...] = (
    ("user", "Good. Now move everything to Postgres."),
    ("assistant", "Rewriting db.py, dropping the SQLite files, and deleting the old schema."),
    ("user", "Stop! That deleted the wrong files."),
)


def run(directory: Path, host: Host, say: Callable[[str], None]) -> None:
    """Tell the story in `directory` (which must be empty or absent). Raises GitcpError if a byte is
    not as it was.
    """
    directory.mkdir(parents=True, exist_ok=True)
    home, project = directory / "home", directory / "project"
    if any(directory.iterdir()):
        raise GitcpError(f"{directory} is not empty: the demo was not run", hint="gitcp demo")
    env = {"PATH": host.env.get("PATH", os.defpath), "HOME": str(home)}
    scene = _Scene(project, replace(host, env=env, home=home))
    say("A project with seven files, and an agent at work on it.")
    scene.begin()
    first = scene.save("before migration")
    say(f"$ gitcp save 'before migration'\n  saved {first.checkpoint.id}: {_extent(first)}")
    before = scene.everything()
    scene.wreck()
    say(
        "The agent goes on. It rewrites one file, deletes two and makes one, partly from its shell."
    )
    say(f"$ gitcp restore {first.checkpoint.id.number} --yes")
    report = restore_op.restore(scene.store, restore_op.Request(first.checkpoint, project))
    say(
        f"  {len(report.written)} files written, {len(report.removed)} removed; what was there is "
        f"{report.safety}"
    )
    scene.compare(before, report)
    restore_op.undo(scene.store, lambda id: restore_op.Request(scene.checkpoint(id), project))
    say("$ gitcp undo --yes\n  and the agent's later work is there again")
    found = check(scene.store)
    if not found.ok:
        raise GitcpError(f"the store does not check out: {found.problems[0].what}")
    scene.compare_wrecked()
    say(
        f"Compared {len(before)} files and the conversation, byte by byte; {found.objects} objects "
        "check out."
    )


class _Scene:
    """The scratch project, its agent's home, and what the story does to them."""

    def __init__(self, project: Path, host: Host) -> None:
        self.project = project
        self.host = host
        project.mkdir()
        host.home.mkdir()
        process.run(process.INIT, cwd=str(project), env=host.env)
        self.store = Store(Repository.open(project, host))
        self.transcript = claude_code.transcript(project, SESSION, host)
        self.lines: list[bytes] = []
        self.wrecked: dict[str, bytes] = {}

    def begin(self) -> None:
        for name, data in FILES.items():
            (self.project / name).write_bytes(data)
        (self.project / "run.sh").chmod(0o755)
        (self.project / "latest").symlink_to("schema.sql")
        self.talk(FIRST)

    def talk(self, turns: tuple[Turn, ...]) -> None:
        self.lines += _records(turns, self.project, len(self.lines))
        self.transcript.parent.mkdir(parents=True, exist_ok=True)
        self.transcript.write_bytes(b"".join(self.lines))

    def save(self, label: str) -> Saved:
        handoff = Handoff(task="add an e-mail column", decisions=("one migration file per change",))
        note = Note(label=label, phase="schema", facts={"database": "sqlite"}, handoff=handoff)
        store = self.store
        return save(store, Request(self.project, note=note, session=SESSION[:8]))

    def wreck(self) -> None:
        (self.project / "db.py").write_bytes(b"import psycopg\n")
        (self.project / "schema.sql").unlink()
        (self.project / "logo.bin").unlink()
        (self.project / "postgres.md").write_bytes(b"# Moving to Postgres\n")
        self.talk(SECOND)
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

    def checkpoint(self, id: CheckpointId) -> Checkpoint:
        commit = self.store.find(id)
        assert commit is not None
        return self.store.read(commit)

    def compare(self, before: dict[str, bytes], report: restore_op.Report) -> None:
        _same(before, self.everything())
        placed = report.placed
        if placed is None or placed.path is None:
            raise GitcpError("the conversation was not put back")
        if placed.path.read_bytes() != b"".join(self.lines[: len(FIRST)]):
            raise GitcpError("the conversation is not as it was")
        if self.transcript.read_bytes() != b"".join(self.lines):
            raise GitcpError("the agent's own file was changed")

    def compare_wrecked(self) -> None:
        _same(self.wrecked, self.everything())


def _same(expected: dict[str, bytes], actual: dict[str, bytes]) -> None:
    for name in sorted(expected.keys() | actual.keys()):
        if expected.get(name) != actual.get(name):
            raise GitcpError(f"{name} is not as it was")


def _extent(saved: Saved) -> str:
    snapshot, conversation = saved.checkpoint.snapshot, saved.checkpoint.conversation
    messages = conversation.digest.messages if conversation else 0
    return f"{snapshot.total} files, {messages} messages, one commit"


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


def clean(directory: Path) -> None:
    """Remove a scratch directory of ours."""
    shutil.rmtree(directory, ignore_errors=True)
