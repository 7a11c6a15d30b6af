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
from gitcp.errors import AlreadyExists, GitcpError
from gitcp.git import process
from gitcp.git.repo import Repository
from gitcp.model import Host, Note
from gitcp.saving.save import SaveRequest, save
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

SHOP = {
    "app.py": FILES["app.py"],
    "db.py": b"import sqlite3\n\n\ndef connect():\n    return sqlite3.connect('shop.db')\n",
    "schema.sql": FILES["schema.sql"],
    ".gitignore": FILES[".gitignore"],
}
"""The files of the shop of docs/tutorial.md."""

SKETCHED = timedelta(days=1)
"""How long ago the first checkpoint of the shop was made."""

SKETCH = """
import os, sys
from datetime import UTC, datetime
from pathlib import Path
from gitcp.demo import save_sketch
from gitcp.model import Host
host = Host(os.environ, Path(os.environ["HOME"]), lambda: datetime.now(UTC))
save_sketch(Path(sys.argv[1]), host)
"""

SHELL = """#!/bin/sh
# A shell in which docs/tutorial.md can be followed; `agent` is the next turn of the agent.
HOME={home}
PATH={programs}:$PATH
export HOME PATH
cd {shop} || exit
exec "${{SHELL:-/bin/sh}}" "$@"
"""
AGENT = """#!/bin/sh
# The agent's next turn: as it says it, and as it writes it into its transcript.
[ -s {following} ] || {{ echo "the agent has nothing more to say"; exit 0; }}
cat {following} >>{transcript}
: >{following}
printf '%s\\n' {said}
"""

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
SHOP_FIRST: tuple[Turn, ...] = (FIRST[0], ("assistant", "I will write it first."))
SHOP_THEN: tuple[Turn, ...] = (
    ("user", "Name the column email, not mail."),
    ("assistant", "Renamed."),
)
SHOP_LAST: tuple[Turn, ...] = (
    ("user", "Now move everything to Postgres."),
    ("assistant", "Rewriting db.py and deleting the old schema."),
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
    told to use colors. Raises AlreadyExists if the directory is taken, GitcpError if a command
    fails or a byte is not as it was.
    """
    if os.path.lexists(directory) and (not directory.is_dir() or any(directory.iterdir())):
        raise AlreadyExists(
            f"{directory} is not an empty directory; the demo was not run", hint="gitcp demo"
        )
    directory.mkdir(parents=True, exist_ok=True)
    home = directory / "home"
    env = {name: value for name, value in host.env.items() if name in ENVIRONMENT}
    env |= {"HOME": str(home)} | ({"FORCE_COLOR": "1"} if color else {"NO_COLOR": "1"})
    scene = _Scene(directory / "project", replace(host, env=env, home=home), stage)
    _save_and_wreck(scene)
    compared = _go_back_and_forth(scene)
    scene.gitcp("doctor --store")
    stage.tell(f"Compared {compared} files and the conversation byte by byte, after each step.")
    stage.tell("To have your agent save by itself, run: gitcp enable")


def _save_and_wreck(scene: _Scene) -> None:
    scene.stage.tell("A project with an agent at work.")
    scene.begin()
    scene.gitcp('save "before migration"')
    scene.saved = scene.everything()
    scene.stage.tell("The agent goes on.")
    scene.wreck()
    scene.gitcp("status")


def _go_back_and_forth(scene: _Scene) -> int:
    """Restore and undo; return the number of files that were compared after the restore."""
    scene.stage.tell("Restore the files and the agent's memory.")
    scene.gitcp("restore 1 --yes")
    _same(scene.saved, scene.everything())
    scene.compare_conversations()
    scene.stage.tell("That can be undone, too.")
    scene.gitcp("undo --yes")
    _same(scene.wrecked, scene.everything())
    return len(scene.saved)


def prepare_tutorial(directory: Path, host: Host) -> Path:
    """Make the shop of docs/tutorial.md in `directory`, beside what the demo keeps there. Return
    the script that opens a shell in it.
    """
    home, shop, programs = (directory / name for name in ("home", "shop", "bin"))
    for each in (home, shop, programs):
        each.mkdir(parents=True, exist_ok=True)
    home.joinpath(".gitconfig").write_text("[user]\n\tname = Ada\n\temail = ada@example.org\n")
    env = {name: value for name, value in host.env.items() if name in ENVIRONMENT}
    inner = replace(host, env={**env, "HOME": str(home)}, home=home)
    for name, data in SHOP.items():
        shop.joinpath(name).write_bytes(data)
    init = (*process.INIT, "--initial-branch=main")
    for command in (init, ("add", "-A"), ("commit", "-qm", "A shop")):
        process.run(command, cwd=str(shop), env=inner.env)
    todo = shop / "todo.md"
    todo.write_text("- e-mail addresses\n")
    transcript = claude_code.transcript(shop, SESSION, inner)
    transcript.parent.mkdir(parents=True, exist_ok=True)
    transcript.write_bytes(b"".join(_records(SHOP_FIRST, shop, 0)))
    sketch = [sys.executable, "-P", "-c", SKETCH, str(shop)]
    subprocess.run(sketch, env=inner.env, check=True)
    with transcript.open("ab") as file:
        file.write(b"".join(_records(SHOP_THEN, shop, len(SHOP_FIRST))))
    todo.write_text(todo.read_text() + "- the column is called email\n")
    following = directory / "next.jsonl"
    start = len(SHOP_FIRST) + len(SHOP_THEN)
    following.write_bytes(b"".join(_records(SHOP_LAST, shop, start)))
    spoken = [f"{role}: {text}" for role, text in SHOP_LAST]
    paths = {
        "home": home,
        "shop": shop,
        "programs": programs,
        "following": following,
        "transcript": transcript,
    }
    quoted = {name: shlex.quote(str(path)) for name, path in paths.items()}
    _write_script(programs / "agent", AGENT.format(**quoted | {"said": shlex.join(spoken)}))
    return _write_script(directory / "tutorial", SHELL.format(**quoted))


def save_sketch(shop: Path, host: Host) -> None:
    """Save the first checkpoint of the shop, as if that had been a day ago. In a process with the
    shop's home, since what may be trusted is recorded in the home directory of a process.
    """
    then = host.now() - SKETCHED
    store = Store(Repository.open(shop, replace(host, now=lambda: then)))
    save(store, SaveRequest(shop, note=Note(label="first sketch")))


def _write_script(path: Path, text: str) -> Path:
    path.write_text(text)
    path.chmod(0o755)
    return path


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
            "parentUuid": f"u{number}" if number else None,
            "isSidechain": False,
            "userType": "external",
            "cwd": str(project),
            "sessionId": SESSION,
            "version": "2.1.197",
            "type": role,
            "message": {"role": role, "content": content},
            "uuid": f"u{number + 1}",
            "timestamp": time.strftime("%Y-%m-%dT%H:%M:%SZ"),
        }
        yield wire.dumps(record) + b"\n"
